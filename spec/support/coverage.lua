-- The lines of src that ran, from gcov's counts (`make coverage`). `ipulua
-- spec/support/coverage.lua BUILD` prints lines and branches by folder. It prints how often each
-- side of the thresholds was taken, and writes the lines that never ran to BUILD/uncovered.txt.
-- Kernels are one text for three instruction sets, counted together. Branches of failed allocations
-- are told by their text and don't count, nor do branches of assertions. Exit status 1 where a
-- folder of `wanted` is below its bounds.

local ipu = require "ipulua"

local build <const> = arg[1] or "build-coverage"
local gcov <const> = os.getenv "GCOV" or "gcov"
local wanted <const> = {["src/kernels"] = true, ["src/ops"] = true, ["src/engine"] = true,
  ["src/program"] = true, ["src/data"] = true}
local least_lines <const>, least_branches <const> = 95, 85

local function output_of(words)
  local pipe <close> = assert(io.popen(words))
  return pipe:read "a"
end

-- ------------------------------------------------ counts

-- By file: text of lines, hits of lines, hits of each line's branches.
local files = {}

local function file_of(name)
  if not files[name] then
    local text = {}
    for line in io.lines(name) do text[#text + 1] = line end
    files[name] = {text = text, lines = {}, branches = {}}
  end
  return files[name]
end

local function add(name, lines)
  local file = file_of(name)
  for _, line in ipairs(lines) do
    local n = line.line_number
    file.lines[n] = (file.lines[n] or 0) + line.count
    local branches = file.branches[n] or {}
    for k, branch in ipairs(line.branches) do branches[k] = (branches[k] or 0) + branch.count end
    file.branches[n] = branches
  end
end

for path in output_of(("find '%s' -name '*.gcno'"):format(build)):gmatch("[^\n]+") do
  local text = output_of(("%s -j -b -t '%s' 2>/dev/null"):format(gcov, path))
  for document in text:gmatch("[^\n]+") do
    for _, file in ipairs(ipu.json.decode(document).files) do
      local name = file.file:match("^%.?/?(src/.*)") or file.file:match(".*/(src/.-)$")
      if name and not file.file:find("generated") then add(name, file.lines) end
    end
  end
end

-- ------------------------------------------------ what counts

local allocators <const> = {"malloc", "calloc", "realloc", "strdup", "mmap", "_new%f[%W]",
  "_alloc%w*", "_grow%f[%W]", "_push%f[%W]", "_reserve%f[%W]", "_copy%f[%W]", "_retain%f[%W]",
  "_append%f[%W]", "_add%f[%W]", "_take%f[%W]", "_make%f[%W]", "_from%f[%W]", "_apply%f[%W]",
  "_view%f[%W]", "_room%f[%W]", "_text%f[%W]", "%f[%w]new_%w+", "arena_%w+", "array_%w+",
  "tensor_%w+", "graph_%w+", "ops?%d?_?%w*"}

local function allocates(text)
  for _, each in ipairs(allocators) do if text:find(each .. "%s*%(") then return true end end
  return false
end

local words_of_failure <const> = {"OUT_OF_MEMORY", "out of memory", "out_of_memory", "no_memory"}

-- Whether a line tests what was allocated there or a few lines above it, or stands beside the words
-- of such a failure.
local function is_of_allocation(text, n)
  local line = text[n]
  for k = math.max(n - 1, 1), math.min(n + 1, #text) do
    for _, words in ipairs(words_of_failure) do
      if text[k]:find(words, 1, true) then return true end
    end
  end
  for name in line:gmatch("!([%w_%.%->%[%]]+)") do
    if allocates(line) then return true end
    local plain = name:gsub("%p", "%%%0")
    for k = math.max(n - 6, 1), n - 1 do
      if text[k]:find(plain .. "%s*=[^=]") and allocates(text[k] .. (text[k + 1] or "")) then
        return true
      end
    end
  end
  return false
end

local function counts(text, n)
  return not text[n]:find("assert") and not is_of_allocation(text, n)
end

-- ------------------------------------------------ by folder

local folders, uncovered = {}, {}

local function folder_of(name)
  local folder = name:match("^(src/[^/]+)") or name
  folders[folder] = folders[folder] or {lines = 0, run = 0, branches = 0, taken = 0, marked = 0}
  return folders[folder]
end

local function count_file(name, file)
  local sums = folder_of(name)
  for n, hits in pairs(file.lines) do
    local marked = not counts(file.text, n)
    if hits == 0 and marked then
      sums.marked = sums.marked + 1
    else
      sums.lines, sums.run = sums.lines + 1, sums.run + (hits > 0 and 1 or 0)
    end
    if hits == 0 and not marked then
      uncovered[#uncovered + 1] = ("%s:%05d never runs: %s"):format(name, n, file.text[n])
    end
    for k, taken in ipairs(marked and {} or file.branches[n] or {}) do
      sums.branches, sums.taken = sums.branches + 1, sums.taken + (taken > 0 and 1 or 0)
      if taken == 0 and hits > 0 then
        uncovered[#uncovered + 1] = ("%s:%05d branch %d: %s"):format(name, n, k, file.text[n])
      end
    end
  end
end
for name, file in pairs(files) do
  if name:find("%.c$") then count_file(name, file) end
end

local function percent(part, whole) return whole > 0 and 100 * part / whole or 100 end

local low = false
local function print_folders()
  local names = {}
  for name in pairs(folders) do names[#names + 1] = name end
  table.sort(names)
  print(("%-16s %8s %7s %9s %7s  %s"):format("folder", "lines", "run", "branches", "taken",
    "lines of failed allocations left out"))
  for _, name in ipairs(names) do
    local s = folders[name]
    local lines, branches = percent(s.run, s.lines), percent(s.taken, s.branches)
    local short = wanted[name] and (lines < least_lines or branches < least_branches)
    low = low or short
    print(("%-16s %8d %6.1f%% %9d %6.1f%%  %d%s"):format(name, s.lines, lines, s.branches,
      branches, s.marked, short and "  too little" or ""))
  end
end

-- ------------------------------------------------ thresholds

-- Names of numbers that C files give: enum { GRAIN = 16384 } and #define TURN_LIMIT 8192.0f.
local function constants_of(text)
  local found = {}
  for _, line in ipairs(text) do
    if line:find("enum") or line:find("^#define") or line:find("^ +[A-Z_]+ = ") then
      for name, value in line:gmatch("([A-Z][A-Z0-9_]+) =? ?([%dx][^,}/]*)") do
        found[name] = value:gsub("%s+$", "")
      end
    end
  end
  return found
end

-- Why a constant's other side can't be taken: by file and constant.
local function read_reasons()
  local reasons = {}
  for line in io.lines("spec/support/thresholds.txt") do
    local name, constant, reason = line:match("^(src/%S+) (%S+) :: (.+)$")
    if name then reasons[name .. " " .. constant] = reason end
  end
  return reasons
end

local function print_thresholds()
  local rows, one_sided, unexplained, reasons = {}, 0, 0, read_reasons()
  for name, file in pairs(files) do
    local constants = wanted[name:match("^(src/[^/]+)")] and constants_of(file.text) or {}
    for n, branches in pairs(file.branches) do
      for word in file.text[n]:gmatch("%f[%w_][A-Z][A-Z0-9_]+%f[^%w_]") do
        if constants[word] and #branches >= 2 then
          local sides = {}
          for k, hits in ipairs(branches) do sides[k] = tostring(hits) end
          local missing = branches[1] == 0 or branches[2] == 0
          local reason = reasons[name .. " " .. word]
          one_sided = one_sided + (missing and 1 or 0)
          unexplained = unexplained + (missing and not reason and 1 or 0)
          rows[#rows + 1] = ("%-44s %-20s %s%s"):format(("%s:%d"):format(name, n),
            word .. " = " .. constants[word], table.concat(sides, " "),
            missing and "  one side" .. (reason and ": " .. reason or "") or "")
        end
      end
    end
  end
  table.sort(rows)
  print(("\nthresholds, and how often their lines' branches were taken (%d of %d on one side only, "
    .. "%d of them without a reason in spec/support/thresholds.txt)"):format(one_sided, #rows,
    unexplained))
  print(table.concat(rows, "\n"))
end

print_folders()
print_thresholds()
table.sort(uncovered)
local file <close> = assert(io.open(build .. "/uncovered.txt", "w"))
file:write(table.concat(uncovered, "\n"), "\n")
print(("\nwhat never ran, %d lines and branches: %s/uncovered.txt"):format(#uncovered, build))
os.exit(not low)
