-- Functions and data of src that their file offers to others, and that nobody else takes: `make
-- lint` gives the objects. Such a one is static, or it goes. Functions that the check programs
-- alone take are listed here, with the reason. CHECKS=yes prints functions that they take beside
-- the function's own file.
package.path = "./?.lua;" .. package.path
local sources = require "spec.support.sources"

local read <const>, lines_of <const> = sources.read, sources.lines_of

local for_checks <const> = {
  cost_octave = "what the model says of an octave convolution, which PopLibs prices so",
}

-- Names that the libraries export, as patterns.
local exported = {"^main$"}
for _, path in ipairs{"src/export.map", "src/export_core.map"} do
  for name in read(path):match("global:(.-)local:"):gmatch("([%w_*]+);") do
    exported[#exported + 1] = "^" .. name:gsub("%*", ".*") .. "$"
  end
end

local function is_exported(name)
  for _, pattern in ipairs(exported) do
    if name:find(pattern) then return true end
  end
  return false
end

-- Words of files: how often each stands there.
local function words_of(paths)
  local count = {}
  for _, path in ipairs(paths) do
    for word in read(path):gmatch("[%a_][%w_]*") do count[word] = (count[word] or 0) + 1 end
  end
  return count
end

local taken, offered = {}, {} -- symbol → true; {object, symbol}
local files <const> = {}
for i, path in ipairs(arg) do files[i] = "'" .. path .. "'" end
for _, line in ipairs(lines_of("nm -A " .. table.concat(files, " "))) do
  local object, kind, name = line:match("^(%S+):%x*%s+(%a) (%S+)$")
  if kind == "U" then taken[name] = true
  elseif kind and kind:find("[TDBRVWu]") then offered[#offered + 1] = {object, name} end
end

local checks <const> = words_of(lines_of "ls spec/support/*.c spec/support/*.h")
local texts <const> = words_of(lines_of "find src -name '*.c'")
local plugins <const> = words_of(lines_of "ls src/plugin/*.c")
local found, beside = 0, {} -- beside: what a file needs itself, too, if only to verify
for _, each in ipairs(offered) do
  local object, name = table.unpack(each)
  if not taken[name] and not is_exported(name) and not plugins[name] then
    -- BUILD/layer/name.o or name.isa.o is of src/layer/name.c
    local source = object:match("/(%w+/[%w_/]+)%.[%w.]*o$")
    while source and not io.open("src/" .. source .. ".c") do source = source:match("/(.*)") end
    if not checks[name] then
      found = found + 1
      print(string.format("src/%s.c: %s %s", source, (texts[name] or 0) > 1
        and "only this file needs" or "nobody needs", name))
    elseif (texts[name] or 0) > 1 then beside[#beside + 1] = name
    elseif not for_checks[name] then
      found = found + 1
      print(string.format("src/%s.c: only check programs need %s", source, name))
    end
  end
end
if os.getenv "CHECKS" then print("check programs take: " .. table.concat(beside, ", ")) end
os.exit(found == 0)
