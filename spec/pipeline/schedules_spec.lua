-- Schedules change when and where stages run, and no bit of what they compute.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

describe("a pipeline", function()
  local _device
  before_each(function()
    _device = pipelines.device(4)
    ipu.random.set_seed(3)
  end)
  after_each(function()
    getmetatable(_device).__close()
    ipu.set_num_threads(2)
  end)

  local function trained(options, config, threads)
    pipelines.device_for(options, 4, config)
    if threads then ipu.set_num_threads(threads) end
    ipu.random.set_seed(3)
    local losses, weights, f = pipelines.net(20):train(options)
    return losses:totable(), weights, f
  end

  it("row 114: trains as gradient accumulation does, to the bit", function()
    pipelines.device(1)
    ipu.random.set_seed(3)
    local plain_losses, plain_weights = pipelines.net(20):train_plainly(8, 5)
    local losses, weights = trained{}
    assert.are.same(plain_losses:totable(), losses)
    assert.are.same(plain_weights, weights)
    assert.are.equal(40, #losses)
    local first, last = 0, 0
    for i = 1, 16 do first, last = first + losses[i], last + losses[24 + i] end
    assert.is_true(last < first)
  end)

  -- 50 updates by each; dropout draws anew in each micro-batch, and the same again when a stage is
  -- computed twice.
  local long <const> = {repeat_count = 50, rate = 0.25}
  local function with(more)
    local options = {}
    for _, t in ipairs{long, more} do
      for key, value in pairs(t) do options[key] = value end
    end
    return options
  end

  local losses, weights -- of Grouped, once
  local function same_as_grouped(...)
    if not losses then losses, weights = trained(with{}) end
    local these, their_weights = trained(...)
    assert.are.same(losses, these)
    assert.are.same(weights, their_weights)
  end

  local schedules <const> = {
    Grouped = {{}, {recomputation_mode = "RecomputeThenBackpropagate"},
      {recomputation_mode = "RecomputeAndBackpropagateInterleaved"}},
    Interleaved = {{}, {recomputation_mode = "RecomputeThenBackpropagate"}},
    Sequential = {{}, {recomputation_mode = "RecomputeAndBackpropagateInterleaved"}},
    OneFOneB = {{}, {recomputation_mode = "Auto"}},
  }
  local offloads <const> = {
    {offload_weight_update_variables = false},
    {offload_activations = true, offload_gradient_accumulation_buffers = true,
      offload_weight_update_variables = true,
      offload_weights = true},
  }
  for schedule, modes in pairs(schedules) do
    it("rows 22, 126, 148: has the same bits in every combination with " .. schedule, function()
      for _, mode in ipairs(modes) do
        for _, offload in ipairs(offloads) do
          for _, threads in ipairs{1, 2, 8} do
            local options = with(mode)
            for key, value in pairs(offload) do options[key] = value end
            options.pipeline_schedule = schedule
            same_as_grouped(options, {allow_recompute = next(mode) ~= nil}, threads)
          end
        end
      end
    end)
  end

  for name, options in pairs{
    ["InterleavedVirtual on two IPUs"] = {pipeline_schedule = "InterleavedVirtual",
      device_mapping = {0, 1, 0, 1}},
    ["InterleavedVirtual on one IPU"] = {pipeline_schedule = "InterleavedVirtual",
      device_mapping = {0, 0, 0, 0}},
    ["four stages on two IPUs"] = {device_mapping = {0, 1, 1, 0}},
    ["all on one IPU"] = {device_mapping = {0, 0, 0, 0}},
    ["another order of IPUs"] = {device_mapping = {3, 1, 2, 0}},
  } do
    it("row 120: has the same bits: " .. name, function() same_as_grouped(with(options)) end)
  end

  it("with dropout trains as gradient accumulation does", function()
    pipelines.device(1)
    ipu.random.set_seed(3)
    local plain_losses, plain_weights = pipelines.net(20):train_plainly(8, 50, 0.25)
    local these, their_weights = trained(with{})
    assert.are.same(plain_losses:totable(), these)
    assert.are.same(plain_weights, their_weights)
  end)

  it("by a script's own schedule: checked, and the same numbers", function()
    local grouped, their_weights = trained{}
    local steps = ipu.timetable{schedule = "OneFOneB", device_mapping = {0, 1, 2, 3},
      count = 8}.order
    local these, weights_of_these, f = trained{pipeline_schedule = steps}
    assert.are.same(grouped, these)
    assert.are.same(their_weights, weights_of_these)
    assert.are.equal("Custom", ipu.timetable(f).schedule)
    assert.are.equal(ipu.timetable{schedule = "OneFOneB", device_mapping = {0, 1, 2, 3},
      count = 8}.time_steps, ipu.timetable(f).time_steps)
  end)

  -- All forward passes, then all backward passes: four stages, eight micro-batches.
  local function all_forward_first()
    local steps = {}
    for half, kind in ipairs{"forward", "backward"} do
      for time = 0, 10 do
        local entries = {}
        for place = 0, 3 do
          local stage, m = half == 1 and place or 3 - place, time - place
          if m >= 0 and m < 8 then
            entries[#entries + 1] = {ipu = stage, kind = kind, stage = stage, micro_batch = m}
          end
        end
        steps[#steps + 1] = entries
      end
    end
    return steps
  end

  for _, options in ipairs{
    {}, {offload_activations = true}, {offload_gradient_accumulation_buffers = true},
    {offload_weights = true},
    {recomputation_mode = "RecomputeThenBackpropagate"},
    {recomputation_mode = "RecomputeAndBackpropagateInterleaved"},
    {offload_activations = true, offload_gradient_accumulation_buffers = true,
      offload_weight_update_variables = true},
    {offload_activations = true, recomputation_mode = "RecomputeThenBackpropagate"},
  } do
    local words = {}
    for name in pairs(options) do words[#words + 1] = name end
    table.sort(words)
    it("all forward passes first changes no bit either, with "
      .. table.concat(words, ", "), function()
      local grouped, their_weights = trained{}
      for _, schedule in ipairs{all_forward_first(), "OneFOneB", "Interleaved", "Sequential"} do
        local given = {pipeline_schedule = schedule}
        for name, value in pairs(options) do given[name] = value end
        local ok, these, weights_of_these = pcall(trained, given)
        if ok then
          assert.are.same(grouped, these)
          assert.are.same(their_weights, weights_of_these)
        else -- a fault of a schedule is refused by name
          assert.matches(options.recomputation_mode .. " is not supported by", these)
        end
      end
    end)
  end

  for words, spoil in pairs{
    ["must be 8, for which the schedule was written, but it is 16"] = function(_, given)
      given.gradient_accumulation_count = 16
    end,
    ["entry 1 of time step 1"] = function(steps)
      steps[1][1] = {ipu = 0, kind = "sideways", stage = 0, micro_batch = 0}
    end,
    ["names IPU 7"] = function(steps) steps[1][1].ipu = 7 end,
    ["where it isn't"] = function(steps)
      steps[#steps][2] = {ipu = 1, kind = "backward", stage = 0, micro_batch = 7}
    end,
    ["takes micro-batch 1 where 0 is next"] = function(steps) steps[1][1].micro_batch = 1 end,
    ["runs on 7 micro-batches of 8"] = function(steps) steps[#steps] = {} end,
    ["a list of time steps, numbered from 1 without gaps"] = function(steps) steps[1] = nil end,
    ["a list of time steps"] = function(steps) steps[1] = "first" end,
    ["forward pass of stage 1 on micro-batch 0 in time step 1, which must come after the forward "
      .. "pass of stage 0, in time step 2"] =
      function(steps) table.insert(steps, 1, {table.remove(steps[2], 1)}) end,
    ["backward pass of stage 3 on micro-batch 0 in time step 4, which must come after the forward "
      .. "pass of stage 3, in time step 4"] =
      function(steps) table.move(table.remove(steps, 5), 1, 4, #steps[4] + 1, steps[4]) end,
  } do
    it("refuses a script's own schedule: " .. words, function()
      local given = {}
      local steps = ipu.timetable{schedule = "OneFOneB", device_mapping = {0, 1, 2, 3},
        count = 8}.order
      spoil(steps, given)
      given.pipeline_schedule = steps
      local ok, message = pcall(trained, given)
      assert.is_false(ok)
      assert.is_truthy(tostring(message):find(words, 1, true), message)
    end)
  end

  it("rows 119, 122, 123, 124, 127, 128: reports IPUs, stashes and time steps", function()
    for _, row in ipairs {
      {"Grouped", {6, 4, 2, 0}, 8 + 8 - 1}, {"Interleaved", {3, 2, 1, 0}, 2 * 8 + 2 * 4 - 2},
      {"Sequential", {0, 0, 0, 0}, 2 * 4 * 8},
    } do
      trained({pipeline_schedule = row[1]}, {})
      local list = ipu.programs()
      local report = list[#list]
      assert.are.same(row[2], report.stash_depth)
      assert.are.equal(row[3], report.time_steps)
      assert.are.same({0, 1, 3, 2}, report.stage_ipus) -- AUTO is SNAKE for the default mapping
      assert.are.equal(4, report.shards)
    end
    trained{device_mapping = {2, 0, 1, 3}}
    local list = ipu.programs()
    assert.are.same({2, 0, 1, 3}, list[#list].stage_ipus)
  end)
end)
