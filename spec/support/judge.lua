-- How a group of `make test` went. Arguments: its name, the stem of the files that it left, the
-- list of its spec files, and groups.txt. Then whether all of the group ran, the seconds that it
-- may take, "none" if nothing may be left out, and the build's folder. Files are .status with exit
-- status and seconds, .printed, and, of specs, .results by output.lua. Prints failures, pending
-- cases, and a line with count and time. Adds the count to `counts` beside the stem, and JUnit's
-- XML to <stem>.xml.
local name <const>, stem <const>, list <const>, groups <const>, whole <const>, limit <const>,
  strict <const>, build <const> =
  table.unpack(arg, 1, 8)

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

local unescaped <const> = {["\\"] = "\\", n = "\n", t = "\t", r = "\r"}

-- The cases of a results file: {kind, file, name, seconds, text}; and whether it has its last line.
local function read_results(text)
  local cases, started, finished = {}, nil, false
  for line in text:gmatch("[^\n]+") do
    local fields = {}
    for field in (line .. "\t"):gmatch("(.-)\t") do
      fields[#fields + 1] = field:gsub("\\(.)", unescaped)
    end
    if fields[1] == "done" then
      finished = true
    elseif fields[1] == "start" then
      started = fields
    else
      cases[#cases + 1] = {kind = fields[1], file = fields[2], name = fields[3],
        seconds = tonumber(fields[4]) or 0, text = fields[5]}
      started = nil
    end
  end
  return cases, finished, started
end

local printed <const> = read(stem .. ".printed") or ""
local status, seconds = (read(stem .. ".status") or ""):match("^(%d+) ([%d.]+)")
status = math.tointeger(status)

local passed, pendings, cases, failures = 0, {}, {}, {}

local function fail(place, text, case_seconds)
  failures[#failures + 1] = {place = place, text = text}
  cases[#cases + 1] = {kind = "fail", name = place, text = text, seconds = case_seconds or 0}
end

local function ending()
  if status == nil then return "was cut short" end
  if status == 124 then return ("stopped after %s seconds"):format(limit) end
  return "exit status " .. status
end

-- ------------------------------------------------ the two kinds of groups

local function take_specs(files)
  local found, finished, started = read_results(read(stem .. ".results") or "")
  local seen = {}
  for _, case in ipairs(found) do
    seen[case.file:gsub("^%./", "")] = true
    if case.kind == "pass" then
      passed = passed + 1
      cases[#cases + 1] = case
    elseif case.kind == "pending" then
      pendings[#pendings + 1] = case
      cases[#cases + 1] = case
    else
      fail(case.name, case.text, case.seconds)
    end
  end
  if not finished then
    fail(started and started[3] or name, "the program ended here: " .. ending())
  elseif status ~= 0 and #failures == 0 then
    fail(name, "nothing failed, but: " .. ending())
  end
  for file in files:gmatch("[^\n]+") do
    if finished and not seen[file] then fail(file, "has no case") end
  end
  if #failures == 0 and printed ~= "" then
    fail(name, "prints what no spec looks at:\n" .. printed:sub(1, 2000))
  end
end

-- A program's last line is its count; "pending NAME: why" tells what it left out.
local function take_program()
  local good, bad
  for line in printed:gmatch("[^\n]+") do
    local left, why = line:match("^pending ([^:]+): (.*)")
    if left then
      pendings[#pendings + 1] = {kind = "pending", name = left, text = why, seconds = 0}
    end
    local n, m = line:match("^(%d+) passed, (%d+) failed$")
    if n then good, bad = math.tointeger(n), math.tointeger(m) end
  end
  passed = good or 0
  for _, pending in ipairs(pendings) do cases[#cases + 1] = pending end
  if not good then fail(name, "no count: " .. ending())
  elseif bad == 0 and status ~= 0 then fail(name, "nothing failed, but: " .. ending())
  elseif bad > 0 then
    for _ = 1, bad do fail(name, "") end
  else
    cases[#cases + 1] = {kind = "pass", name = name .. ": " .. passed .. " cases",
      seconds = tonumber(seconds) or 0}
  end
end

-- ------------------------------------------------ what may be left out, and what must be there

-- Whether a line of pendings.txt is about this build: "[sanitized]", "[without hdf5]". Cases that
-- need "[hardware]" may be left out everywhere.
local function applies(condition)
  if condition == "hardware" then return true end
  if strict == "none" then return false end
  if condition == "sanitized" then return build:find("%f[%w][at]san%f[%W]") ~= nil end
  local part = condition:match("^without (%S+)$")
  return part ~= nil and not (" " .. (read(build .. "/parts") or ""):gsub("%s", " ")
    .. " "):find(" " .. part .. " ", 1, true)
end

-- The names of pendings.txt; a star at the end stands for any rest.
local function is_listed(pending)
  for line in (read((groups:gsub("[^/]*$", "pendings.txt"))) or ""):gmatch("[^\n]+") do
    local condition, title = line:match("^%[([^%]]*)%] (.-) :: ")
    if not condition then title = line:match("^([^#%[].-) :: ") end
    if title and (condition and applies(condition) or not condition and strict ~= "none") then
      if title == pending.name then return true end
      if title:sub(-1) == "*" and pending.name:sub(1, #title - 1) == title:sub(1, -2) then
        return true
      end
    end
  end
  return false
end

local function check_pendings()
  for _, pending in ipairs(pendings) do
    if not is_listed(pending) then
      fail(pending.name, strict == "none" and "is left out, and here nothing may be: "
        .. pending.text
        or "is left out, but pendings.txt doesn't list it: " .. pending.text)
    else
      print("pending " .. pending.name .. ": " .. pending.text)
    end
  end
end

local function check_floor()
  local least
  for line in read(groups):gmatch("[^\n]+") do
    local row, count = line:match("^(%S+)%s+(%d+)")
    if row == name then least = math.tointeger(count) end
  end
  local count = passed + #pendings + #failures
  if count == 0 then
    fail(name, "has no case at all")
  elseif whole == "true" and not least then
    fail(name, "groups.txt has no row for this group")
  elseif whole == "true" and count < least then
    fail(name, ("%d cases; groups.txt says that there are at least %d"):format(count, least))
  end
end

-- ------------------------------------------------ what is told

local function xml_text(text)
  text = text:gsub("[%z\1-\8\11\12\14-\31]", "?")
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

local function write_xml()
  local file <close> = assert(io.open(stem .. ".xml", "w"))
  file:write(('<testsuite name="%s" tests="%d" failures="%d" skipped="%d" time="%s">\n'):format(
    xml_text(name), #cases, #failures, #pendings, seconds or "0"))
  for _, case in ipairs(cases) do
    file:write(('  <testcase classname="%s" name="%s" time="%.3f">'):format(
      xml_text(case.file or name), xml_text(case.name), case.seconds))
    if case.kind == "fail" then file:write("<failure>", xml_text(case.text), "</failure>") end
    if case.kind == "pending" then file:write('<skipped message="', xml_text(case.text), '"/>') end
    file:write("</testcase>\n")
  end
  file:write("</testsuite>\n")
end

-- The last lines of what a failing group printed, but for counts.
local function show_printed()
  local lines = {}
  for line in printed:gmatch("[^\n]+") do
    if not line:find("^%d+ passed, %d+ failed$") then lines[#lines + 1] = line end
  end
  for i = math.max(1, #lines - 59), #lines do print(lines[i]) end
end

local files <const> = read(list)
if files then take_specs(files) else take_program() end
check_pendings()
check_floor()
for _, each in ipairs(failures) do
  if each.text ~= "" then
    print("FAIL " .. each.place .. "\n    " .. each.text:gsub("\n", "\n    "))
  end
end
if #failures > 0 then show_printed() end
write_xml()
local left = #pendings > 0 and ("  %d left out"):format(#pendings) or ""
print(("%-36s %6s s  %7d passed  %d failed%s"):format(name, seconds or "?", passed,
  #failures, left))
local counts <close> = assert(io.open((stem:gsub("[^/]*$", "counts")), "a"))
counts:write(passed, " ", #failures, "\n")
