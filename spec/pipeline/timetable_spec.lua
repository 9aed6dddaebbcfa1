-- Timetables: the tables of the reference, properties that every schedule has, and the drawing.

local ipu = require "ipulua"
local command = require "spec.support.command"
local jsonl = require "spec.support.jsonl"
local pipelines = require "spec.support.pipelines"
local system_table = require "spec.support.system_table"

local schedules <const> = require("ipulua.base.enumeration").members(ipu.PipelineSchedule)

local function timetable(schedule, mapping, count, training)
  return ipu.timetable{schedule = schedule, device_mapping = mapping, count = count,
    training = training}
end

-- Rows of a drawing without their labels.
local function rows(t)
  local list = {}
  for line in tostring(t):gmatch("[^\n]+") do
    local row = line:match("^stage %d  IPU %d  (.*)$") or line:match("^%s+(B .*)$")
    if row then list[#list + 1] = row end
  end
  return list
end

-- "ipu kind stage micro" of each entry, by time step.
local function cells(t)
  local list = {}
  for step, entries in ipairs(t.order) do
    for _, e in ipairs(entries) do
      list[#list + 1] = {step = step, ipu = e.ipu, kind = e.kind, stage = e.stage,
        micro = e.micro_batch}
    end
  end
  return list
end

describe("ipu.timetable", function()
  for _, case in ipairs(jsonl("spec/conformance/system/tables.jsonl")) do
    it(case.id .. ": " .. case.title, function()
      local ok, message = system_table.run(case)
      assert.is_true(ok, message)
    end)
  end

  it(
    "rows 122, 123, 124: draws Grouped, Interleaved and Sequential as the reference does",
    function()
    assert.are.same({
      "F  0 1 2 3 4 5 6 7 . . .", "B  . . . 0 1 2 3 4 5 6 7",
      "F  . 0 1 2 3 4 5 6 7 . .", "B  . . 0 1 2 3 4 5 6 7 .",
    }, rows(timetable("Grouped", {0, 1}, 8)))
    assert.are.same({"F0 .  F1 B0 F2 B1 F3 B2 .  B3", ".  F0 B0 F1 B1 F2 B2 F3 B3 ."},
      rows(timetable("Interleaved", {0, 1}, 4)))
    assert.are.same({"F0 .  .  B0 F1 .  .  B1", ".  F0 B0 .  .  F1 B1 ."},
      rows(timetable("Sequential", {0, 1}, 2)))
    assert.are.same({"0 1 2 . .", ". 0 1 2 .", ". . 0 1 2"},
      rows(timetable("Grouped", {0, 1, 2}, 3, false)))
  end)

  it("draws three stages as the reference does", function()
    assert.are.same({
      "F0 .  F1 .  F2 B0 F3 B1 F4 B2 F5 B3 .  B4 .  B5",
      ".  F0 .  F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 .  B5 .",
      ".  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .  .",
    }, rows(timetable("Interleaved", {0, 1, 2}, 6)))
    assert.are.same({
      "F  0 1 2 3 4 5 . . . . .", "B  . . . . . 0 1 2 3 4 5", "F  . 0 1 2 3 4 5 . . . .",
      "B  . . . . 0 1 2 3 4 5 .",
      "F  . . 0 1 2 3 4 5 . . .", "B  . . . 0 1 2 3 4 5 . .",
    }, rows(timetable("Grouped", {0, 1, 2}, 6)))
  end)

  it("has the reference's lengths and bubbles", function()
    for stages = 2, 5 do
      local mapping = {}
      for s = 1, stages do mapping[s] = s - 1 end
      local n = 4 * stages
      for _, row in ipairs {
        {"Grouped", true, n + 2 * stages - 1, (2 * stages - 1) / (n + 2 * stages - 1)},
        {"Interleaved", true, 2 * n + 2 * stages - 2, (stages - 1) / (n + stages - 1)},
        {"Sequential", true, 2 * stages * n, 1 - 1 / stages},
        {"Grouped", false, n + stages - 1, (stages - 1) / (n + stages - 1)},
        {"OneFOneB", true, 2 * n + 2 * stages - 2, (stages - 1) / (n + stages - 1)},
      } do
        local t = timetable(row[1], mapping, n, row[2])
        assert.are.equal(row[3], t.time_steps)
        assert.is_near(1 - row[4], t.utilisation, 1e-12)
      end
    end
  end)

  it("overlaps Interleaved stages as their IPUs allow", function()
    assert.are.equal(1, timetable("Interleaved", {2, 2, 2}, 1, false).count_multiple)
    -- rotations 0 and 2
    assert.are.equal(2, timetable("Interleaved", {0, 1, 1, 0}, 2, false).count_multiple)
  end)

  local mappings <const> = {{0, 1}, {0, 1, 2}, {3, 1, 0, 2}, {0, 1, 0, 1}, {0, 0, 0},
    {0, {1, 2}, 3}, {0, 1, 1, 0}}
  local function check_order(t, schedule)
    local at, last, busy, latest = {}, {}, {}, {}
    for _, c in ipairs(cells(t)) do
      local key = c.kind .. c.stage .. "@" .. c.ipu
      assert.is_nil(at[key .. "." .. c.micro])
      at[key .. "." .. c.micro] = true
      assert.are.equal((last[key] or -1) + 1, c.micro) -- in micro-batch order
      last[key] = c.micro
      local slot = c.ipu .. "." .. c.step
      busy[slot] = (busy[slot] or 0) + 1
      if schedule ~= "Grouped" then assert.are.equal(1, busy[slot]) end
      latest[c.kind .. c.stage .. "." .. c.micro] = c.step
    end
    for _, c in ipairs(cells(t)) do -- after what it needs
      local forward = c.kind == "forward"
      local before = latest[c.kind .. (forward and c.stage - 1 or c.stage + 1) .. "." .. c.micro]
      if before then assert.is_true(before < c.step) end
      if not forward then
        assert.is_true(latest["forward" .. c.stage .. "." .. c.micro] < c.step)
      end
    end
  end

  it(
    "runs each micro-batch once in each stage, in order, and one thing at a time on an IPU",
    function()
    local checked = 0
    local described <const> = command.read "docs/reference/pipeline.md"
    for _, schedule in ipairs(schedules) do
      assert.truthy(described:find("\n| " .. schedule .. " |", 1, true), schedule)
      for _, mapping in ipairs(mappings) do
        for _, training in ipairs{true, false} do
          local ok, t = pcall(timetable, schedule, mapping, nil, training)
          if ok then
            t = timetable(schedule, mapping, 3 * t.count_multiple, training)
            checked = checked + 1
            check_order(t, schedule)
            local width = 0
            for _, m in ipairs(mapping) do width = width + (type(m) == "table" and #m or 1) end
            assert.are.equal(width * t.count * (training and 2 or 1), #cells(t))
          end
        end
      end
    end
    assert.is_true(checked > 30, checked)
  end)

  -- The depth is laid down when a program is compiled, while the count may come at run time: it
  -- must do for any count.
  it("stashes what is in flight, however many micro-batches there are", function()
    for _, schedule in ipairs(schedules) do
      for _, count in ipairs{16, 160} do
        local t = timetable(schedule, {0, 1, 2, 3}, count)
        for stage = 0, 3 do
          local waiting, most = 0, 0
          for _, entries in ipairs(t.order) do
            for _, e in ipairs(entries) do
              if e.stage == stage then waiting = waiting + (e.kind == "forward" and 1 or -1) end
              most = math.max(most, waiting)
            end
          end
          assert.are.equal(most - 1, t.stash_depth[stage + 1], schedule)
        end
      end
    end
  end)

  -- A micro-batch passes all stages, and the last stage takes one after another.
  it("by dependencies takes as long as a micro-batch, and one more pass for each other", function()
    for stages = 1, 5 do
      local mapping = {}
      for i = 1, stages do mapping[i] = i - 1 end
      for _, count in ipairs{stages, 3 * stages, 60} do
        local t = ipu.timetable{schedule = "Grouped", device_mapping = mapping, training = false,
          count = count, timing = "dependencies"}
        assert.equal(stages + count - 1, t.span)
        assert.near(count / (stages + count - 1), t.utilisation, 1e-9)
        assert.near(1 - t.utilisation, t:bubble(), 1e-9)
      end
    end
  end)

  it("counts the longer of concurrent stages, on either IPU", function()
    local function stages_of(left, right)
      local _ <close> = pipelines.device(4)
      local w = {ipu.Variable(ipu.ones{64, left}), ipu.Variable(ipu.ones{64, right})}
      local a = {gradient_accumulation_count = 9, outfeed_queue = ipu.IPUOutfeedQueue(),
        infeed_queue = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{16, 64}):repeat_n()),
        computational_stages = {function(x) return x, x end,
          {function(x, _) return ipu.matmul(x, w[1]) end,
            function(_, x) return ipu.matmul(x, w[2]) end},
          function(x, y) return ipu.reduce_sum(x) + ipu.reduce_sum(y) end}}
      local f = ipu.func(function() return ipu.pipeline(a) end)
      f()
      return ipu.timetable(f).stage_cycles, ipu.estimate(f).stages
    end
    for _, widths in ipairs{{8, 512}, {512, 8}} do
      local cycles, singly = stages_of(table.unpack(widths))
      local one, other = singly[2].forward_cycles, singly[3].forward_cycles
      assert.equal(widths[1] < widths[2], one < other)
      assert.equal(math.max(one, other), cycles[2])
      assert.equal(3, #cycles)
    end
  end)

  it("leaves out the middle of a long one", function()
    local t = timetable("Grouped", {0, 1}, 400)
    assert.are.equal(403, t.time_steps)
    for line in tostring(t):gmatch("[^\n]+") do assert.is_true(#line < 200) end
    -- the first twenty steps and the last twenty: in inference stage 1 is one step later
    local lines = {}
    for line in tostring(timetable("Grouped", {0, 1}, 400, false)):gmatch("[^\n]+") do
      local shown <const> = line:match "^stage %d  IPU %d  (.*)$"
      if shown then lines[#lines + 1] = shown:gsub(" +", " ") end
    end
    for stage, line in ipairs(lines) do
      local wanted = {}
      for step = 1, 401 do
        local micro <const> = step - stage
        local cell <const> = micro >= 0 and micro < 400 and tostring(micro) or "."
        if step <= 20 or step > 401 - 20 then wanted[#wanted + 1] = cell
        elseif step == 21 then wanted[#wanted + 1] = "~"
        end
      end
      assert.equal(table.concat(wanted, " "), line)
    end
    assert.equal(2, #lines)
  end)

  it("refuses what is none", function()
    local fails = pipelines.fails
    fails("value", function() ipu.timetable{schedule = "Sideways", device_mapping = {0, 1}} end,
      "Grouped")
    fails("failed_precondition", function() timetable("Grouped", {0, 1}, 6) end,
      "multiple of 4", "it is 6")
    fails("not_implemented", function() timetable("Interleaved", {0, 0}, 2) end, "Interleaved")
    fails("value", function() timetable({}, {0, 1}, 2) end, "holds no time steps")
    fails("type", function() timetable({nil, {}, {}}, {0, 1}, 2) end,
      "a string or a list, got table")
    local one <const> = {{{ipu = 0, kind = "forward", stage = 0, micro_batch = 0}}}
    fails("value", function() timetable(one, {0, 1}, 1) end,
      "the backward pass of stage 0 runs on 0 micro-batches of 1")
    assert.matches("1 stage on 1 IPU, inference, 1 micro%-batch: 1 time step,",
      tostring(timetable("Sequential", {0}, 1, false)))
    fails("type", function() timetable("Grouped", 3, 2) end, "device_mapping")
    fails("value", function() ipu.timetable{schedule = "Grouped"} end, "device_mapping")
    fails("value", function() ipu.timetable{{}} end, "a pipelined model, a function")
    fails("type", function() ipu.timetable(nil) end,
      "expected a model, a function or a schedule, got nil")
    assert.equal("Grouped", ipu.timetable(nil, {0, 1}).schedule)
    fails("value", function() ipu.timetable(ipu.func(function() return 1 end)) end,
      "not been compiled with a pipeline")
  end)
end)
