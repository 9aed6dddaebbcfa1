-- `make lint`: the name that a profiler shows for a kernel is found by grep in src/kernels. Macros
-- make most of these names; src/kernels/symbols.txt lists them beside the text of their macro.
-- Arguments: the kernels' objects.
package.path = "./?.lua;" .. package.path
local sources = require "spec.support.sources"

local read <const>, lines_of <const> = sources.read, sources.lines_of

local LIST <const> = "src/kernels/symbols.txt"

-- "NAME(full_##rows##_##vectors)" → "^full_%w+_%w+_[%w_]+$": a part without an underscore is a
-- parameter.
local function pattern_of(macro)
  local parts = {}
  local inner = macro:match("^NAME%((.*)%)$")
  local text = inner and inner .. "##_##type" or macro
  for part in (text .. "##"):gmatch("(.-)##") do
    parts[#parts + 1] = part:find("_") and part or "%w+"
  end
  -- ids of elementwise kernels have underscores of their own: f32_LESS_EQUAL
  return "^" .. table.concat(parts):gsub("%%w%+$", "[%%w_]+") .. "$"
end

local bad = {}
local function report(...) bad[#bad + 1] = string.format(...) end

local known = {}
for _, path in ipairs(lines_of("find src/kernels -name '*.[ch]'")) do
  for word in read(path):gmatch("[%a_][%w_]*") do known[word] = true end
end

local patterns = {}
-- Another compiler may keep a function that this one inlines; its macro is listed all the same.
local function is_of_a_listed_macro(name)
  for _, pattern in ipairs(patterns) do
    if name:find(pattern) then return true end
  end
  return false
end

local previous, pattern
for line in io.lines(LIST) do
  local file, macro, names = line:match("^(%S+): (%S+) = (.+)$")
  if file and macro ~= previous then
    previous, pattern = macro, pattern_of(macro)
    patterns[#patterns + 1] = pattern
    if not read("src/kernels/" .. file):find(macro, 1, true) then
      report("%s: %s is not in %s", LIST, macro, file)
    end
  end
  for name in (names or ""):gmatch("%S+") do
    known[name] = true
    if not name:find(pattern) then report("%s: %s doesn't make %s", LIST, macro, name) end
  end
end

local seen = {}
for _, line in ipairs(lines_of("nm " .. table.concat(arg, " "))) do
  local name = line:match("^%x+ [tT] ([%a_][%w_]*)") -- up to a compiler's .constprop or .part
  if name and not known[name] and not seen[name] and not is_of_a_listed_macro(name) then
    seen[name] = true
    report("%s: no grep finds the kernel %s; add it beside the macro that makes it", LIST, name)
  end
end
table.sort(bad)
for _, each in ipairs(bad) do print(each) end
os.exit(#bad == 0)
