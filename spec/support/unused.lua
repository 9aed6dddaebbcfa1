-- Functions of lua/ipulua that nobody calls: `make lint`. A function of a module or a class is used
-- if its name stands in another line of the library or of its C. The references, which list the
-- functions for scripts, count, too. Fails when there is one.
package.path = "./?.lua;" .. package.path
local lua_modules = require "spec.support.lua_modules"
local sources = require "spec.support.sources"

local read <const>, lines_of <const> = sources.read, sources.lines_of

local count = {} -- word → how often it stands anywhere

local function count_words(text)
  for word in text:gmatch("[%a_][%w_]*") do count[word] = (count[word] or 0) + 1 end
end

local all, modules = lua_modules.all(), {}
for name in pairs(all) do modules[#modules + 1] = name end
table.sort(modules)
for _, name in ipairs(modules) do count_words(all[name].code) end
for _, path in ipairs(lines_of "find src -name '*.c' -o -name '*.h'") do count_words(read(path)) end
-- functions for scripts
for _, path in ipairs(lines_of "find docs -name '*.md'") do count_words(read(path)) end

-- Modules that the public names offer as a whole: scripts call their functions.
local offered = {}
for name in all.ipulua.code:gmatch('{"([%w_.]+)", false}') do offered["ipulua." .. name] = true end

local unused = {}
for _, name in ipairs(modules) do
  local at = 0
  for line in (all[name].code .. "\n"):gmatch("(.-)\n") do
    at = at + 1
    local defined = line:match("^%s*function [%w_.]+[.:]([%w_]+)%(")
      or line:match("^%s*[%w_]+%.([%w_]+) = function%(")
    if defined and count[defined] == 1 and not offered[name] and not defined:find("^__") then
      unused[#unused + 1] = string.format("%s:%d: nobody calls %s", all[name].path, at, defined)
    end
  end
end
for _, line in ipairs(unused) do print(line) end
os.exit(#unused == 0)
