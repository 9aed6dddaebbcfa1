-- Profiles of what ran, and the prices of what --estimate did not run. A program has a folder of
-- its own:
--   profile.json  everything (docs/reference/profile.md)     summary.txt  for a terminal
--   trace.json    for Perfetto and Chrome          index.html   one page, without network

local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local func = require "ipulua.trace.func"
local instances = require "ipulua.config.instances"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local machine = require "ipulua.config.target"
local own_files = require "ipulua.base.own_files"
local start = require "ipulua.base.start"

local report = {}

-- ------------------------------------------------ which reports to write

---{directory, graph, execution, runs} if a profile is to be written, else nil.
---@return table?
function report.wanted()
  if start.options.profile then
    return {directory = start.options.profile, graph = true, execution = true, runs = 2}
  end
  local option <const> = config.engine_option
  local function on(name)
    local value = option(name)
    if value == nil then return option("autoReport.all") end
    return value
  end
  local graph, execution = on("autoReport.outputGraphProfile"),
    on("autoReport.outputExecutionProfile")
  if not graph and not execution then return nil end
  return {directory = option "autoReport.directory" or ".", graph = graph, execution = execution,
    runs = option "autoReport.executionProfileProgramRunCount" or 2}
end

-- ------------------------------------------------ files

local serial = 0

local function folder_for(wanted, name)
  local plain = name:gsub("[^%w%-_.]", "_"):sub(1, 60)
  local path
  repeat -- another run of the same second may have written there
    serial = serial + 1
    path = string.format("%s/ipulua_report_%s_%03d_%s", wanted.directory, os.date("%Y%m%d_%H%M%S"),
      serial, plain)
  until not core.folder_exists(path)
  return path
end

local page -- the template, once read

local function template()
  page = page or own_files.read("machine/report/report.html")
  return page
    or blame.error("the page of profiles, report.html, is missing beside ipulua's Lua files",
      "not_found")
end

---The page for a profile: one file that needs nothing else.
---@param profile string JSON, in which <, > and & are escaped already
---@return string
function report.page(profile)
  local before, after = template():match("^(.-)/%*PROFILE%*/null(.*)$")
  return before .. profile .. after
end

local function write(folder, name, text) core.replace_file(folder .. "/" .. name, text) end

local function write_files(state)
  local wanted, price = state.wanted, state.price
  local profile = price:json(json.encode{
    created = os.date("!%Y-%m-%dT%H:%M:%SZ"), ipulua = core.version,
    options = config.engine_options(),
    executions = state.executions, runs = state.runs,
    instances = state.meetings and instances.count() or nil, meetings = state.meetings,
  })
  start.profiled = true
  core.make_folder(state.folder)
  write(state.folder, "profile.json", profile)
  write(state.folder, "summary.txt", price:text())
  if wanted.execution then write(state.folder, "trace.json", price:trace()) end
  write(state.folder, "index.html", report.page(profile))
end

-- ------------------------------------------------ watching programs

local states = setmetatable({}, {__mode = "k"}) -- by entry

-- The inputs of a price beside the program: integers among the arguments, which may be counts of
-- loops.
local function counts_of(arguments)
  local parts = {}
  for i, x in ipairs(arguments or {}) do
    local dtype, shape = core.type_of(x)
    if #shape == 0 and dtype:find("^u?int") then parts[#parts + 1] = i .. "=" .. x:item() end
  end
  return table.concat(parts, " ")
end

local most_kept <const> = 64 -- prices of one program
local prices = setmetatable({}, {__mode = "k"}) -- by entry, then by counts

-- An entry's price for the device that it runs on; false and why, when it can't be placed there.
local function priced(entry, arguments)
  local key, kept = counts_of(arguments), prices[entry]
  if not kept or kept.count >= most_kept and not kept[key] then
    kept = {count = 0}
    prices[entry] = kept
  end
  if kept[key] == nil then
    local options = machine.options(nil, entry.device)
    options.arguments = arguments
    kept.count = kept.count + 1
    kept[key] = {blame.attempt(machine.price, entry, options)}
  end
  return table.unpack(kept[key])
end

-- The same; nil if it can't be placed there. Running it will raise the error.
local function price_of(entry, arguments)
  local ok, price = priced(entry, arguments)
  if ok then return price end
  if blame.last and blame.last.kind == "value" then -- a target that there is not
    start.refused = true
    error(price, 0)
  end
  log.debug("no price for '%s': %s", entry.name, tostring(price))
  return nil
end

local function refuse_misfit(entry)
  if not machine.enforces() then return end
  local price = price_of(entry)
  if not price or price:fits() then return end
  start.refused = true
  blame.error(price:complaint(require "ipulua.machine.remedies".of(entry))
    .. "\nto run it all the same, with its profile: " ..
    [[IPULUA_ENGINE_OPTIONS='{"debug.allowOutOfMemory": "true"}']], "out_of_memory")
end

local function new_state(entry, wanted, price)
  return {wanted = wanted, price = price, folder = folder_for(wanted, entry.name), executions = 0,
    runs = json.array()}
end

local function begin(entry, arguments)
  local wanted = report.wanted()
  local price = wanted and price_of(entry, arguments)
  if price and entry.team and not instances.is_first() then price, start.profiled = nil, true end
  states[entry] = price and new_state(entry, wanted, price) or false
  return states[entry]
end

-- The flag --log_cycle_count=N: the cycles of IPU N, in every run.
local function log_cycles(entry, arguments)
  local ipu = config.flags().log_cycle_count
  if ipu < 0 then return end
  local price = price_of(entry, arguments)
  local found = price and price:summary().ipu[ipu + 1]
  if found then
    log.always("IPU %d: %.0f cycles in a run of '%s'", ipu, found.cycles.total, entry.name)
  end
end

-- At the end of the script: the meetings of several instances' programs, as measured.
local met, met_sentinel = {}, nil

-- Those that wait less than others are waited for: named where it is less than two thirds.
local function compare_waits(meeting)
  local least, most, slowest = math.huge, 0, nil
  for q, each in ipairs(meeting.instances) do
    if each.waited < least then least, slowest = each.waited, q - 1 end
    most = math.max(most, each.waited)
  end
  meeting.waited_least, meeting.waited_most = least, most
  if least < most * 2 / 3 then meeting.slowest = slowest end
end

local function write_meetings()
  for entry, state in pairs(met) do
    state.meetings = json.array(entry.program:meetings())
    for _, meeting in ipairs(state.meetings) do compare_waits(meeting) end
    write_files(state)
  end
end

-- The newest one is collected before all that it writes about.
local function note_meetings(entry, state)
  if not entry.team or not entry.program:meets() or not instances.are_several() then return end
  met[entry] = state
  local mine = {}
  met_sentinel = setmetatable(mine, {__gc = function()
    if met_sentinel == mine then write_meetings() end
  end})
end

local function watch_execution(entry, arguments)
  log_cycles(entry, arguments)
  local state = states[entry]
  if state == nil then
    state = begin(entry, arguments)
    if state then note_meetings(entry, state) end
  end
  if not state then return end
  state.executions = state.executions + 1
  if #state.runs >= state.wanted.runs then return end
  state.runs[#state.runs + 1] = {at = core.epoch()}
  write_files(state)
end

-- ------------------------------------------------ --estimate

local estimates = {} -- {name, text, replicated, calls, seconds of all}, in the order of first calls

-- --ipus alone replicates the price but not the script, whose calls are as many as on one replica.
local function replicated(replicas)
  if replicas == 1 or config.is_configured() then return "" end
  return string.format(", each of %d replicas with a call's samples of its own", replicas)
end

local function print_estimates()
  if not instances.is_first() then return end
  for _, e in ipairs(estimates) do
    io.stdout:write(e.text, string.format("\nPriced for %s%s: %.6g s in all\n\n",
      counted(e.calls, "call"), e.replicated, e.seconds))
  end
  io.stdout:flush()
end

-- The newest one is collected last but before all that was priced: when the script has ended.
local sentinel

local function print_at_end()
  local mine = {}
  sentinel = setmetatable(mine, {__gc = function()
    if sentinel == mine then print_estimates() end
  end})
end

local function zeros(entry)
  local list = {}
  for i, t in ipairs(entry.program:result_types()) do list[i] = core.full(t.shape, 0, t.dtype) end
  return list
end

---Instead of running: outfeeds get zeros, and so does the caller.
---@return userdata[]
---@return userdata price
function report.give_zeros(entry, arguments)
  local ok, price = priced(entry, arguments)
  if not ok then
    start.refused = true
    error(price, 0)
  end
  price:pretend()
  return zeros(entry), price
end

-- Does it fit? If it doesn't, why, and which remedies help.
local function verdict(entry, price)
  if not price:fits() then
    return "\n" .. price:complaint(require "ipulua.machine.remedies".of(entry)) .. "\n"
  end
  local s = price:summary()
  return string.format("\nIt fits: the fullest tile needs %.1f KiB of %.0f, gaps included\n",
    s.fullest_tile_bytes / 1024, s.tile_bytes / 1024)
end

---The same, and the price is noted.
---@return userdata[]
function report.pretend(entry, arguments)
  local list, price = report.give_zeros(entry, arguments)
  local e, s = entry.estimate, price:summary()
  if not e then
    e = {name = entry.name, text = price:text() .. verdict(entry, price),
      replicated = replicated(s.replicas), calls = 0,
      seconds = 0}
    entry.estimate = e
    estimates[#estimates + 1] = e
    start.priced = true
    print_at_end()
    local wanted = instances.is_first() and report.wanted()
    if wanted then write_files(new_state(entry, wanted, price)) end
  end
  e.calls, e.seconds = e.calls + 1, e.seconds + s.seconds
  return list
end

func.listen(function(event, entry, arguments)
  if core.is_estimating() then return end
  if event == "compile" then refuse_misfit(entry)
  elseif event == "execute" then watch_execution(entry, arguments) end
end)

return report
