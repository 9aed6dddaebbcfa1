-- Runs every conformance case under a folder: build/ipulua spec/support/conformance.lua DIR. Prints
-- a line for each failure, one for each group, and last "N passed, N failed"; the exit status is 1
-- after a failure.

local json = require "ipulua.base.json"
local log = require "ipulua.base.log"

local root <const> = arg[0]:match("^(.*)spec/support/[^/]*$") or "./"
package.path = root .. "?.lua;" .. package.path

local function files(folder)
  local list = {}
  local quoted = "'" .. folder:gsub("'", "'\\''") .. "'"
  local pipe <close> =
    assert(io.popen("find " .. quoted .. " -maxdepth 1 -name '*.jsonl' | LC_ALL=C sort"))
  for path in pipe:lines() do list[#list + 1] = path end
  return list
end

-- A runner by module name; what it lacks is a failure of its cases, not of the run.
local loaded = {}
local function runner(name)
  if loaded[name] == nil then
    local ok, found = pcall(require, name)
    loaded[name] = ok and found or {run = function()
      return false, "no runner: " .. tostring(found):match("^[^\n]*")
    end}
  end
  return loaded[name]
end

local kinds <const> = {
  program = "spec.support.system_program", keras = "spec.support.system_keras",
  config = "spec.support.system_config",
  benchmark = "spec.support.system_benchmark", table = "spec.support.system_table",
  closed_form = "spec.support.system_closed_form",
}
local groups <const> = {op = "spec.support.conformance_ops",
  activation = "spec.support.conformance_ops"}

local function run_case(case)
  if case.script then
    local name = kinds[case.kind or "program"]
    if not name then return false, "unknown kind '" .. tostring(case.kind) .. "'" end
    return runner(name).run(case)
  end
  if not case.group then return nil end
  return runner(groups[case.group] or "spec.support.conformance_keras").run(case)
end

local function first_line(text) return (tostring(text):gsub("%s*\n.*", "")) end

local tally, order = {}, {}

local function count(group, ok)
  if not tally[group] then
    tally[group] = {passed = 0, total = 0}
    order[#order + 1] = group
  end
  local t = tally[group]
  t.total = t.total + 1
  if ok then t.passed = t.passed + 1 end
end

local function run_line(path, number, line)
  local case, problem = json.parse(line)
  local group = type(case) == "table"
    and (case.group or case.script and "system " .. (case.kind or "program")) or "unreadable"
  local id = type(case) == "table" and case.id or path .. ":" .. number
  local ok, message
  if problem then
    message = problem
  else
    local safe
    safe, ok, message = xpcall(run_case, function(e) return tostring(e) end, case)
    if not safe then ok, message = false, ok end
    if safe and ok == nil and message == nil then return end -- not a case of ours
  end
  count(group, ok)
  if not ok then print(string.format("FAIL %s: %s", id, first_line(message or "failed"))) end
end

local function main(folder)
  if not folder then
    io.stderr:write("usage: conformance.lua DIR\n")
    os.exit(2)
  end
  log.set_writer(function() end)
  for _, path in ipairs(files(folder)) do
    local number = 0
    for line in io.lines(path) do
      number = number + 1
      if line:find("%S") then run_line(path, number, line) end
    end
  end
  local passed, failed = 0, 0
  for _, group in ipairs(order) do
    local t = tally[group]
    print(string.format("%s %d/%d", group, t.passed, t.total))
    passed, failed = passed + t.passed, failed + t.total - t.passed
  end
  print(string.format("%d passed, %d failed", passed, failed))
  os.exit(failed == 0 and passed > 0, true)
end

main(arg[1])
