-- Profiles: files whose numbers agree, and a page that shows them (spec/support/page.js runs its
-- script).

local command = require "spec.support.command"
local ipu = require "ipulua"

local training <const> = [[
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local model = keras.Sequential{
  layers.Dense{64, activation = "relu", input_shape = {32}, name = "first<b>&co"}, layers.Dense{4},
}
model:compile{optimizer = "adam", loss = "mse", steps_per_execution = 10}
model:fit(data.from_tensors{ipu.ones{8, 32}, ipu.ones{8, 4}}:repeat_n(), {epochs = 1, steps_per_epoch = 30, verbose = 0})
]]

local pipeline <const> = [[
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()
local model = keras.Sequential{layers.Dense{64, activation = "relu", input_shape = {784}}, layers.Dense{10}}
model:set_pipeline_stage_assignment{0, 1}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = 8}
model:compile{optimizer = "sgd", loss = "mse", steps_per_execution = 8}
model:fit(ipu.ones{64, 784}, ipu.ones{64, 10}, {batch_size = 8, verbose = 0})
]]

local long_training <const> = [[
local ipu = require "ipulua"
local v = ipu.Variable(ipu.ones{4, 4})
ipu.func(function()
  return ipu.loops.repeat_n(34000, function() v:assign(ipu.tanh(ipu.matmul(v, v)) * 0.5) end)
end)()
]]

local function profiled(script, words, env)
  local folder = command.folder()
  command.write(folder .. "/train.lua", script)
  local run = {command.ipulua, env = env, dir = folder}
  for _, word in ipairs(words or {}) do run[#run + 1] = word end
  run[#run + 1] = "train.lua"
  local result = command.run(run)
  assert.equal(0, result.status, result.err)
  local pipe <close> =
    assert(io.popen("ls -d " .. command.quote(folder) .. "/*/ipulua_report_* 2>/dev/null"))
  local reports = {}
  for line in pipe:lines() do reports[#reports + 1] = line end
  return folder, reports, result
end

local function read_profile(report)
  return ipu.json.decode(command.read(report .. "/profile.json"))
end

local function columns(names)
  local at = {}
  for i, name in ipairs(names) do at[name] = i end
  return at
end

local function near(expected, got)
  assert(math.abs(expected - got) <= 1e-6 * math.max(1, math.abs(expected)),
    expected .. " is not " .. got)
end

-- The content that the script of a report's page shows: {title, first = {[id] = text or rows},
-- line, layer, op, step, filtered}.
local function run_page(report)
  local result = command.run{"node", "spec/support/page.js", report}
  assert.equal("", result.err)
  return ipu.json.decode(result.out)
end

local function find_text(texts, pattern)
  for _, text in ipairs(texts) do
    if text:find(pattern) then return text end
  end
end

local function number(text) return math.tointeger((text:gsub(",", ""))) end

local phases <const> = {"compute", "exchange", "sync", "stream"}

-- Cycles by phase of all steps; and of the same by what they do.
local function cycles_of_steps(profile)
  local k, parts = columns(profile.step_columns), {}
  for _, phase in ipairs(phases) do
    parts[phase] = 0
    for _, step in ipairs(profile.steps) do
      parts[phase] = parts[phase] + step[k.times] * step[k[phase]]
    end
  end
  return parts
end

local function check_compute_sets(profile)
  local parts = cycles_of_steps(profile)
  for _, phase in ipairs(phases) do
    local sum = 0
    for _, set in ipairs(profile.compute_sets) do
      assert(set[phase] >= 0 and set.times > 0, set.name)
      sum = sum + set[phase]
    end
    near(parts[phase], sum)
  end
end

-- An event in the Trace Event Format, by its phase: its keys and their types. Nothing else is
-- written.
local event_keys <const> = {
  X = {name = "string", cat = "string", ph = "string", ts = "number", dur = "number",
    pid = "integer", tid = "integer", args = "table"},
  M = {name = "string", ph = "string", pid = "integer", tid = "integer", args = "table"},
}

local function check_event(event)
  local keys = assert(event_keys[event.ph], "a phase that nobody writes: " .. tostring(event.ph))
  for key, value in pairs(event) do
    local kind = keys[key] == "integer" and math.type(value) or type(value)
    if kind ~= keys[key] then error(("%s of a slice is a %s"):format(key, kind)) end
  end
  for key in pairs(keys) do
    if event[key] == nil and not (key == "tid" and event.ph == "M") then
      error("a slice has no " .. key)
    end
  end
  if event.ph == "X" then assert(event.ts >= 0 and event.dur >= 0 and event.name ~= "") end
  if event.ph == "M" then
    assert(event.name == "process_name" or event.name == "thread_name" and event.tid, event.name)
    assert.equal("string", type(event.args.name))
  end
end

-- Times are written in microseconds, to whole nanoseconds.
local function nanoseconds(us)
  local ns = math.floor(us * 1000 + 0.5)
  assert(math.abs(us * 1000 - ns) < 1e-3, us .. " us are no whole nanoseconds")
  return ns
end

-- A slice has its step's cycles, in all, as its length, and of each phase.
local function check_slices(path, written)
  local k, ns = columns(written.step_columns), 1e9 / written.target.clock_hz
  for _, event in ipairs(ipu.json.decode(command.read(path)).traceEvents) do
    if event.ph == "X" then
      local args, step = event.args, written.steps[event.args.step + 1]
      assert(math.abs(args.cycles * ns - nanoseconds(event.dur)) <= 1 + 0.5 * ns, event.name)
      for _, phase in ipairs(phases) do
        if args[phase] then near(step[k[phase]], args[phase]) end
      end
    end
  end
end

-- A file in the Trace Event Format → its tracks by the names of their threads, and how many slices
-- have each name. Slices of a track neither overlap nor go back.
local function read_trace(path)
  local trace = ipu.json.decode(command.read(path))
  assert.matches("^[mn]s$", trace.displayTimeUnit)
  local threads, names, by_thread = {}, {}, {}
  for _, event in ipairs(trace.traceEvents) do
    check_event(event)
    local key = ("%s %s"):format(event.pid, event.tid)
    if event.name == "thread_name" and event.ph == "M" then
      assert.is_nil(threads[key], "a thread is named twice")
      threads[key] = event.args.name
    elseif event.ph == "X" then
      local track = by_thread[key] or {slices = 0, us = 0, ends = 0}
      local begins, takes = nanoseconds(event.ts), nanoseconds(event.dur)
      assert(begins >= track.ends, "slices overlap")
      track.slices, track.us, track.ends = track.slices + 1, track.us + event.dur, begins + takes
      track.last = track.ends / 1000
      by_thread[key] = track
      names[event.name] = (names[event.name] or 0) + 1
    end
  end
  local tracks = {}
  for key, track in pairs(by_thread) do
    tracks[assert(threads[key], "a thread has no name")] = track
  end
  return tracks, names
end

describe("a profile", function()
  local folder, reports, profile

  setup(function()
    folder, reports = profiled(training, {"--profile", "out"})
    profile = read_profile(reports[1])
  end)
  teardown(function() command.remove(folder) end)

  it("row 248: has a folder for each program, with four files", function()
    assert.equal(1, #reports)
    for _, name in ipairs{"profile.json", "summary.txt", "trace.json", "index.html"} do
      assert(#command.read(reports[1] .. "/" .. name) > 100, name)
    end
    assert.equal(1, profile.version)
    assert.equal(2, profile.session.executions) -- of the three that there were, those recorded
    assert.equal(2, #profile.session.runs)
  end)

  it("adds up: steps to cycles", function()
    local parts, total = cycles_of_steps(profile), 0
    for _, phase in ipairs(phases) do
      near(profile.totals.cycles[phase], parts[phase])
      total = total + parts[phase]
    end
    near(profile.totals.cycles.total, total)
    near(total / profile.target.clock_hz, profile.totals.seconds)
  end)

  it("adds up: steps to compute sets", function() check_compute_sets(profile) end)

  it("row 247: adds up: categories, tiles and variables to bytes", function()
    for _, x in ipairs(profile.ipus) do
      local categories, tiles, live = 0, 0, 0
      for _, bytes in pairs(x.memory.categories) do categories = categories + bytes end
      for _, bytes in ipairs(x.tiles.bytes) do tiles = tiles + bytes end
      near(x.memory.total, categories)
      near(x.memory.total, x.memory.always_live + x.memory.not_always_live)
      assert(math.abs(tiles - x.memory.total) <= 0.5 * #x.tiles.bytes, "tiles hold " .. tiles)
      local v, peak = columns(profile.variable_columns), x.memory.peak_step
      for _, each in ipairs(profile.variables) do
        if each[v.ipu] == x.ipu
          and (each[v.always] == 1 or each[v.first] <= peak and peak <= each[v.last]) then
          live = live + each[v.bytes]
        end
      end
      local c = x.memory.categories
      near(live, c.variable + c.constant + c.activation + c.stash)
    end
  end)

  it("has a time line without overlaps that ends with the run", function()
    local e, last = columns(profile.timeline_columns), 0
    for _, event in ipairs(profile.timeline) do
      assert(event[e.begin] >= last - 2, "events overlap")
      last = event[e.begin] + event[e.cycles]
    end
    assert(math.abs(last - profile.totals.cycles.total) < 2 + #profile.timeline)
  end)

  it("has a trace that viewers read", function()
    local trace = ipu.json.decode(command.read(reports[1] .. "/trace.json"))
    local ends, names = 0, {}
    for _, event in ipairs(trace.traceEvents) do
      names[event.name] = true
      if event.ph == "X" then
        assert(event.dur >= 0 and event.pid == 0 and event.tid == 0)
        ends = math.max(ends, event.ts + event.dur)
      end
    end
    assert(names.thread_name and names.matmul)
    assert(math.abs(ends - 1e6 * profile.totals.seconds) < 1)
  end)

  it("has a trace of the form that trace viewers take, with what the profile says", function()
    local pipelined, pipelined_reports = profiled(pipeline, {"--profile", "out"})
    local long, long_reports = profiled(long_training, {"--profile", "out"})
    for i, path in ipairs{reports[1], pipelined_reports[1], long_reports[1]} do
      local tracks, names = read_trace(path .. "/trace.json")
      local written = read_profile(path)
      if i < 3 then check_slices(path .. "/trace.json", written) end
      local e, wanted = columns(written.timeline_columns), {}
      for _, event in ipairs(written.timeline) do
        local name = "IPU " .. event[e.ipu]
        local track = wanted[name] or {slices = 0, cycles = 0, last = 0}
        track.slices, track.cycles = track.slices + 1, track.cycles + event[e.cycles]
        track.last = math.max(track.last, event[e.begin] + event[e.cycles])
        wanted[name] = track
      end
      local us = 1e6 / written.target.clock_hz
      for name, track in pairs(wanted) do
        local got = tracks[name]
        -- a page lists fewer steps than a trace
        if i < 3 then assert.equal(track.slices, got.slices) end
        assert(math.abs(track.cycles * us - got.us) <= 1e-6 * got.us + 1e-3 * got.slices,
          name .. " works for " .. got.us .. " us")
        assert(math.abs(track.last * us - got.last) <= 1e-6 * got.last + 1e-3,
          name .. " ends at " .. got.last .. " us")
      end
      if i == 2 then assert(tracks["IPU 1"] and names["B7 stage 1"] == 1) end
      if i == 3 then assert(tracks["IPU 0"].slices > 100000, tracks["IPU 0"].slices) end
    end
    command.remove(pipelined)
    command.remove(long)
  end)

  it("has a page of its own, with names escaped", function()
    local page = command.read(reports[1] .. "/index.html")
    assert.is_nil(page:find("<b>&co", 1, true))
    assert.is_nil(page:find("https?://"))
    assert.is_nil(page:find('src="', 1, true))
  end)

  it("has a page whose script shows all of it", function()
    local shown = run_page(reports[1])
    assert.equal("sequential.train – ipulua profile", shown.title)
    local page = shown.first
    assert.equal("sequential.train", page.name)
    assert.matches("it fits", page.cards)
    assert.matches(" 2 executions recorded$", page.foot)
    assert.equal(0, #page.stages)
    assert.equal("IPU 0", find_text(page.trace, "^IPU"))
    assert.is_truthy(find_text(page["live-table"][2], "first<b>&co/kernel"))
    assert.equal(1 + #profile.steps, #shown.step.ops)
    for _, by in ipairs{"line", "layer", "op", "step"} do
      local total = 0
      for i = 2, #shown[by].ops do total = total + number(shown[by].ops[i][4]) end
      assert(math.abs(total - profile.totals.cycles.total) <= 0.5 * #shown[by].ops,
        by .. " adds up to " .. total)
    end
    local most, parts = 0, 0 -- bytes of a tile, all categories
    for _, bytes in pairs(profile.ipus[1].memory.categories) do
      most = most + bytes / #profile.ipus[1].tiles.bytes
    end
    for _, row in ipairs(page.categories) do parts = parts + number(row[3]:match("^[%d,]+")) end
    assert(math.abs(most - parts) <= 0.5 * #page.categories, parts .. " bytes of a tile")
    assert.equal(1, #shown.filtered.ops)
  end)

  it("has a page for a pipeline, with its stages", function()
    local place, pipelined = profiled(pipeline, {"--profile", "out"})
    local page = run_page(pipelined[1]).first
    command.remove(place)
    assert.equal(3, #page.stages)
    assert.same({"0", "1"}, {page.stages[2][1], page.stages[3][1]})
    assert.same({"IPU 0", "IPU 1"},
      {find_text(page.trace, "^IPU 0"), find_text(page.trace, "^IPU 1")})
  end)

  it("tells the same in words", function()
    local text = command.read(reports[1] .. "/summary.txt")
    assert.matches("Program sequential.train", text)
    assert.matches("Dearest operations", text)
  end)
end)

describe("the options of reports", function()
  it("row 246: come from the environment", function()
    local folder, reports = profiled(training, nil,
      {IPULUA_ENGINE_OPTIONS = '{"autoReport.all": "true", "autoReport.directory": "here"}'})
    assert.equal(1, #reports)
    command.remove(folder)
    folder, reports = profiled(training, nil, {IPULUA_ENGINE_OPTIONS =
      '{"autoReport.outputGraphProfile": "true", "autoReport.directory": "here"}'})
    assert.is_nil(io.open(reports[1] .. "/trace.json"))
    command.remove(folder)
    folder, reports = profiled(training)
    assert.equal(0, #reports)
    command.remove(folder)
  end)

  it("row 248: record as many runs as they say", function()
    local folder, reports = profiled(training, nil, {IPULUA_ENGINE_OPTIONS =
      '{"autoReport.all": "true", "autoReport.directory": "here", '
      .. '"autoReport.executionProfileProgramRunCount": "10"}'})
    assert.equal(3, #read_profile(reports[1]).session.runs) -- all that there were
    command.remove(folder)
  end)

  it("can be set by a ReportHelper", function()
    local helper = ipu.ReportHelper()
    local cfg = ipu.IPUConfig()
    helper:set_autoreport_options(cfg, {output_execution_profile = true})
    cfg:configure_ipu_system()
    assert.equal(0, #helper:find_reports())
    assert.matches("exactly one report", select(2, pcall(helper.find_report, helper)))
    ipu.func(function(x) return x * 2 end, {name = "doubled"})(ipu.ones{4})
    assert.equal("doubled", read_profile(helper:find_report()).program)
    helper:clear_reports()
    assert.equal(0, #helper:find_reports())
    ipu.reset_ipu_configuration()
  end)
end)

describe("a pipeline's profile", function()
  it("has a time table, an IPU for each stage, and sums that agree", function()
    local script = [[
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = keras.Sequential{layers.Dense{256, input_shape = {256}}, layers.Dense{256}}
model:compile{optimizer = "sgd", loss = "mse"}
model:set_pipeline_stage_assignment{0, 1}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = 8}
local price = require "ipulua.tools.estimate".price{fn = model, batch_size = 16, ipus = 2}
local out = io.open("profile.json", "w")
out:write(price:json())
out:close()
]]
    local folder = profiled(script)
    local p = ipu.json.decode(command.read(folder .. "/profile.json"))
    command.remove(folder)
    assert.equal(2, #p.ipus)
    assert.equal(8 + 2 * 2 - 1, p.timetable.time_steps)
    -- two stages, forward and backward, of eight micro-batches
    assert.equal(2 * 2 * 8, #p.timetable.slots)
    for _, x in ipairs(p.ipus) do
      local total = 0
      for _, phase in ipairs(phases) do total = total + x.cycles[phase] end
      near(p.totals.cycles.total, total)
    end
  end)

  it(
    "adds up: steps to compute sets, also of what waits for the host and for streaming memory",
    function()
    local folder, reports = profiled(pipeline:gsub('"sgd"', '"adam"'), {"--profile", "reports"})
    local p = read_profile(reports[1])
    command.remove(folder)
    check_compute_sets(p)
    local times = {}
    for _, set in ipairs(p.compute_sets) do times[set.name] = set.times end
    assert(times["streaming memory"] and times.host and times["call from the host"],
      "what moves is in the sets")
  end)
end)

describe("docs/reference/profile.md", function()
  it("names every member of a profile and of an estimate", function()
    local page = command.read("docs/reference/profile.md")
    local missing = {}
    local function look(value, path)
      for key, each in pairs(value) do
        if type(key) == "string" then
          if not page:find("`" .. key .. "`", 1, true) then missing[#missing + 1] = path .. key end
          if type(each) == "table" and key ~= "options" then look(each, path .. key .. ".") end
        elseif type(each) == "table" then
          look(each, path)
        end
      end
    end
    local folder, reports = profiled(pipeline, {"--profile", "reports"})
    local profile = read_profile(reports[1])
    command.remove(folder)
    look(profile, "")
    look(ipu.estimate(function(a) return a * a end, {inputs = {{4, 4}}}), "estimate.")
    assert.same({}, missing)
  end)
end)

describe("the flag --log_cycle_count", function()
  it("logs the cycles of an IPU in every run", function()
    local folder, _, result = profiled([[
local ipu = require "ipulua"
local f = ipu.func(function(x) return x * 2 end, {name = "doubled"})
for _ = 1, 3 do f(ipu.ones{64}) end
]], nil, {IPULUA_FLAGS = "--log_cycle_count=0"})
    command.remove(folder)
    -- one line for each run
    assert.equal(3, select(2, result.err:gsub("%d+ cycles", "")), result.err)
    assert.equal(3, select(2, result.err:gsub("IPU 0: %d+ cycles in a run of 'doubled'", "")))
  end)
end)

describe("--profile", function()
  it(
    "says nothing of missing programs where one was refused: that had an error of its own",
    function()
    local folder, _, result = profiled([[
local ipu = require "ipulua"
print((pcall(ipu.func(ipu.matmul), ipu.zeros{20000, 4000}, ipu.zeros{4000, 8000})))
]], {"--profile", "reports", "--target", "gc200"})
    command.remove(folder)
    assert.equal("false\n", result.out)
    assert.equal("", result.err)
  end)
end)

describe("--estimate", function()
  it("prices instead of running, and gives zeros of the right shapes", function()
    local folder, _, result = profiled([[
local ipu = require "ipulua"
local outfeed = ipu.IPUOutfeedQueue()
local f = ipu.func(function(x)
  ipu.loops.repeat_n(5, function() outfeed:enqueue(x + 1) end)
  return ipu.matmul(x, x, {transpose_b = true})
end, {name = "squared"})
for _ = 1, 3 do print(table.concat(f(ipu.ones{2, 3}).shape, "x"), f(ipu.ones{2, 3})[1]:totable()[1]) end
local all = outfeed:dequeue()
print(table.concat(all.shape, "x"), ipu.reduce_sum(all):item())
]], {"--estimate", "--target", "bow"})
    command.remove(folder)
    assert.matches("^2x2\t0.0\n2x2\t0.0\n2x2\t0.0\n30x2x3\t0.0\n", result.out)
    assert.matches("Program squared\n", result.out)
    assert.matches("Bow: 1 IPU", result.out)
    assert.matches("Priced for 6 calls", result.out)
  end)

  it(
    "lets a training loop of one's own run: gradients through what was priced are zeros", function()
    local folder, _, result = profiled([[
local ipu = require "ipulua"
local w, opt = ipu.Variable(ipu.ones{3, 1}), ipu.keras.optimizers.SGD(1)
local unused = ipu.Variable(1)
local loss_of = ipu.func(function(x) return ipu.reduce_mean(ipu.matmul(x, w)) end, {name = "loss_of"})
local tape = ipu.GradientTape{persistent = true}
local loss = tape(function() return loss_of(ipu.ones{2, 3}) end)
opt:apply_gradients(tape:gradient(loss, {w}), {w})
print(loss:item(), table.concat(tape:gradient(loss, w).shape, "x"), w:totable()[1][1])
local eager = ipu.GradientTape()
print(eager:gradient(eager(function() return w * 2 end), unused)) -- nothing was priced
]], {"--estimate"})
    command.remove(folder)
    assert.matches("^0.0\t3x1\t1.0\nnil\n", result.out)
    assert.matches("Program loss_of\n", result.out)
  end)

  it("goes through data to its end: a smaller last batch, batches that nobody counted", function()
    local folder, _, result = profiled([[
local ipu = require "ipulua"
local keras = ipu.keras
local model = keras.Sequential{keras.layers.Dense{3, input_shape = {8}}}
model:compile{loss = "mse"}
print(table.concat(model:predict(ipu.ones{20, 8}, {batch_size = 8, verbose = 0}).shape, "x"))
local kept = ipu.data.from_tensor_slices{ipu.ones{20, 8}, ipu.ones{20, 3}}
  :filter(function() return true end):batch(8)
model:fit{kept, epochs = 2, verbose = 0}
]], {"--estimate"})
    command.remove(folder)
    assert.matches("^20x3\n", result.out)
    local calls = {}
    for n in result.out:gmatch("\nPriced for (%d+) calls?") do calls[#calls + 1] = tonumber(n) end
    table.sort(calls)
    -- two batches of 8 and one of 4: of predict, and of two epochs
    assert.same({1, 2, 2, 4}, calls)
  end)

  local fitted <const> = [[
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local model = keras.Sequential{layers.Dense{%d, input_shape = {2048}}, name = "fitted"}
model:compile{optimizer = "adam", loss = "mse"}
model:fit(ipu.ones{8, 2048}, ipu.ones{8, %d}, {batch_size = 4})
model:save("kept.safetensors")
model:save("kept.safetensors")
]]

  it(
    "says whether each program fits, and why not, and shows no progress of what isn't computed",
    function()
    local folder, _, result = profiled(fitted:format(8, 8), {"--estimate"})
    command.remove(folder)
    assert.matches("\nIt fits: the fullest tile needs %d+%.%d KiB of 624, gaps included\n\nPriced "
      .. "for 2 calls", result.out)
    assert.equal("", result.err) -- the file is this run's own
    folder, _, result = profiled(fitted:format(131072, 131072), {"--estimate"})
    command.remove(folder)
    assert.matches("out of memory: 'fitted.train' does not fit on IPU 0 of GC200: tile %d+ needs",
      result.out)
    assert.matches("what would help:\n.*\n\nPriced for 2 calls", result.out)
  end)

  it("writes a profile of a program that never ran, whose list of runs is empty", function()
    local folder, reports = profiled(fitted:format(8, 8), {"--estimate", "--profile", "here"})
    assert.equal(1, #reports)
    local text = command.read(reports[1] .. "/profile.json")
    command.remove(folder)
    assert.equal("[]", text:match '"runs":(..)')
    assert.equal(0, ipu.json.decode(text).session.executions)
  end)

  it(
    "says that --ipus replicates the price and not the script, unless the script configures them",
    function()
    local folder, _, result = profiled(fitted:format(8, 8), {"--estimate", "--ipus", "2"})
    command.remove(folder)
    assert.matches("\n  GC200: 2 IPUs, 2 replicas of 1, ", result.out)
    assert.matches("\nPriced for 2 calls, each of 2 replicas with a call's samples of its own: ",
      result.out)
    folder, _, result = profiled([[
local ipu = require "ipulua"
local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()
local double = ipu.func(function(x) return x * 2 end)
print(ipu.IPUStrategy():run(double, {ipu.ones{4}}))
]], {"--estimate", "--ipus", "2"})
    command.remove(folder)
    assert.matches("\nPriced for 1 call: ", result.out)
  end)

  it("leaves weights that are there as they are", function()
    local folder = profiled(fitted:format(8, 8))
    local trained = command.read(folder .. "/kept.safetensors")
    assert(#trained > 1000)
    local result = command.run{command.ipulua, "--estimate", "train.lua", dir = folder}
    assert.equal(0, result.status)
    assert.matches("'kept.safetensors' stays as it is, for nothing was trained", result.err)
    assert.equal(trained, command.read(folder .. "/kept.safetensors"))
    command.remove(folder)
  end)

  it("or a profile by a misspelt option is told", function()
    local folder, reports, result = profiled(training, {}, {
      IPULUA_ENGINE_OPTIONS = '{"autoReport.al": "true", "autoReport.outputArchive": "true", '
      .. '"target.hostSyncTimeout": "60"}'})
    command.remove(folder)
    assert.equal(0, #reports)
    assert.equal("ipulua: warning: the engine option 'autoReport.al' has no effect; did you mean "
      .. "'autoReport.all'?\n", result.err)
  end)

  it("and --profile tell that there was no program", function()
    for _, words in ipairs{{"--estimate"}, {"--profile", "out"}} do
      local folder, _, result =
        profiled([[local x = require "ipulua".ones{2} print((x + 1)[1]:item())]], words)
      command.remove(folder)
      assert.equal("2.0\n", result.out)
      assert.matches("warning: " .. words[1]:gsub("%-", "%%-")
        .. ": .*ops called one at a time are computed at once", result.err)
    end
  end)
end)
