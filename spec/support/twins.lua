-- Code that stands twice: `make lint`. A twin is a run of six or more lines of src and lua that
-- stands at another place, too. White space and comments don't count. How many lines stand again is
-- held to a limit, which only ever falls: whoever removes a twin lowers it. LIST=yes prints every
-- twin. Arguments: the folder that src and lua are in, and the limit.
package.path = "./?.lua;" .. package.path
local sources = require "spec.support.sources"

local read <const> = sources.read

local run <const> = 6
local root <const>, limit <const> = arg[1] or ".", tonumber(arg[2] or 45)

local function is_thin(line)
  return not line:find("%w") or line == "end" or line == "else" or line:find("^#include")
    or line:find("^#define") or line:find("^local [%w_]+ = require")
end

-- The lines of a file that count: {text, number}.
local function lines_of(path)
  local list, number, comment = {}, 0, path:find("%.lua$") and "%-%-.*$" or "//.*$"
  local text = read(path)
  if not path:find("%.lua$") then
    text = text:gsub("/%*.-%*/", function(words) return (words:gsub("[^\n]", "")) end)
  end
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    line = line:gsub(comment, ""):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
    if not is_thin(line) then list[#list + 1] = {line, number} end
  end
  return list
end

local first, again, twins = {}, 0, {} -- first: run of lines → {path, number}
local pipe <const> = assert(io.popen("cd '" .. root
  .. "' && find src lua -name '*.[ch]' -o -name '*.lua' | LC_ALL=C sort"))
for path in pipe:lines() do
  local lines, counted = lines_of(root .. "/" .. path), 0
  for i = 1, #lines - run + 1 do
    local words = {}
    for k = 1, run do words[k] = lines[i + k - 1][1] end
    local key = table.concat(words, "\n")
    local other = first[key]
    if not other then
      first[key] = {path, lines[i][2]}
    else
      local last <const> = i + run - 1
      if counted < i then
        twins[#twins + 1] = string.format("%s:%d stands at %s:%d, too", path, lines[i][2],
          other[1], other[2])
      end
      again = again + last - math.max(counted, i - 1)
      counted = last
    end
  end
end
pipe:close()

if again ~= limit or os.getenv "LIST" then
  for _, line in ipairs(twins) do print(line) end
end
if again > limit then
  print(string.format("%d lines stand again, %d at most: give them one place", again, limit))
elseif again < limit then
  print(string.format("%d lines stand again, fewer than %d: lower the limit in "
    .. "spec/support/twins.lua", again, limit))
end
os.exit(again == limit)
