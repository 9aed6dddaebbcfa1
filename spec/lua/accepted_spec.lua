-- Accepted options are used. Every option, engine option and run flag that isn't documented as
-- without effect changes an observation here.
local config = require "ipulua.config"
local engine_options = require "ipulua.config.engine_options"
local flag_table = require "ipulua.config.flags"
local command = require "spec.support.command"
local ipu = require "ipulua"
local options = require "ipulua.config.options"
local report = require "ipulua.machine.report"
local warnings = require "spec.support.warnings"

local function on(shard, f) return ipu.ipu_shard(shard)(f) end
local function estimate(f, inputs)
  return ipu.estimate(f, {inputs = inputs or {}, host = "model"})
end
local function half(shape) return {shape = shape, dtype = "float16"} end
local function ran(f, ...) return (pcall(ipu.func(f), ...)) end

local function product()
  return estimate(function(a, b) return ipu.matmul(a, b) end,
    {half{512, 2048}, half{2048, 1024}}).cycles.total
end
local function filter()
  return estimate(function(a, b) return ipu.nn.conv2d(a, b) end,
    {half{4, 32, 32, 64}, half{3, 3, 64, 128}}).cycles.total
end
local function tiles() return ipu.estimate(function(x) return x * 2 end, {inputs = {{8}}}).tiles end

local function pipeline()
  local n <const> = 128
  local w1, w2 = ipu.Variable(ipu.full({n, n}, 0.1)), ipu.Variable(ipu.full({n, n}, 0.1))
  local infeed, outfeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{8, n}):repeat_n()),
    ipu.IPUOutfeedQueue()
  return estimate(ipu.func(function()
    return ipu.pipeline{
      computational_stages = {function(x) return ipu.tanh(ipu.tanh(x:matmul(w1))) end, function(h)
        return ipu.reduce_sum(h:matmul(w2))
      end},
      optimizer_function = function(l)
        return ipu.OptimizerFunctionOutput(ipu.train.MomentumOptimizer(0.1, 0.9), l)
      end,
      gradient_accumulation_count = 8, infeed_queue = infeed, outfeed_queue = outfeed,
    }
  end))
end

local function fed()
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors{ipu.zeros{64, 1024},
    ipu.zeros{64, 1024}}:repeat_n())
  return estimate(ipu.func(function()
    return ipu.loops.repeat_n(20,
      function(sum, x, y) return sum + ipu.reduce_sum(ipu.exp(x) * y) end, {ipu.zeros{}}, infeed)
  end)).cycles.total
end

local function collectives(name)
  return function()
    return estimate(function(a, b) return ipu[name](-a), ipu[name](-b) end,
      {{1024}, {1024}}).cycles.total
  end
end

local function copies()
  return estimate(function(a, b)
    a, b = on(0, function() return ipu.exp(a) end), on(0, function() return ipu.exp(b) end)
    return on(1, function() return ipu.tanh(a), ipu.tanh(b) end)
  end, {{1024}, {1024}}).cycles.total
end

local function quotients()
  return ipu.func(function(x) return x / 3 end)(ipu.cast(ipu.arange(1, 200), "float32")):totable()
end

local absent <const> = {["device_connection.type"] = "PRE_COMPILE",
  ["device_connection.version"] = "ipu2"}
local io <const> = {["io_tiles.num_io_tiles"] = 64, ["io_tiles.place_ops_on_io_tiles"] = true}
local two <const>, four <const> = {auto_select_ipus = 2}, {auto_select_ipus = 4}
local inf <const> = ipu.full({4}, 3.4e38)

-- name → {another value, what is observed, options for both}
local observed <const> = {
  auto_select_ipus = {2, function() return ipu.get_ipu_config()[1].ipus end},
  select_ipus = {{5}, function() return ipu.get_ipu_config()[1].id end,
    {auto_select_ipus = {}, select_ipus = {3}}},
  selection_order = {"SNAKE", function()
    return estimate(function(x)
      return on(3, function() return ipu.exp(on(0, function() return ipu.tanh(x) end)) end)
    end, {{8192}}).cycles.total
  end, {auto_select_ipus = 16}},
  allow_recompute = {true, function() return pipeline().stages[1].backward_cycles end, two},
  compilation_poplar_options = {{["autoReport.all"] = "true"}, function()
    return report.wanted() ~= nil
  end},
  ["convolutions.poplar_options"] = {{partialsType = "half"}, filter},
  ["matmuls.poplar_options"] = {{partialsType = "half"}, product},
  ["device_connection.type"] = {"NEVER", function()
    return ran(function(x) return x * 2 end, ipu.ones{2})
  end,
    {["device_connection.version"] = "ipu2"}},
  ["device_connection.version"] = {"ipu1", tiles, absent},
  ["device_connection.enable_remote_buffers"] = {true, function()
    return pipeline().memory.streaming
  end,
    {auto_select_ipus = 2, ["device_connection.type"] = "PRE_COMPILE",
      ["device_connection.version"] = "ipu2"}},
  ["floating_point_behaviour.inv"] = {true, function()
    return ran(function(x) return ipu.sqrt(-x) end, ipu.ones{2})
  end},
  ["floating_point_behaviour.div0"] = {true, function()
    return ran(function(x) return x / (x - x) end, ipu.ones{2})
  end},
  ["floating_point_behaviour.oflo"] = {true, function()
    return ran(function(x) return x * x end, inf)
  end},
  ["floating_point_behaviour.esr"] = {"ON", function()
    return ipu.func(function(x) return ipu.cast(x, "float16") end)(ipu.full({64}, 1.0003)):totable()
  end},
  ["floating_point_behaviour.nanoo"] = {true, function()
    return tostring(ipu.func(function(x) return ipu.cast(x, "float16") end)(
      ipu.full({1}, 1e6)):item())
  end},
  ["floating_point_behaviour.set_all"] = {true, function()
    return ran(function(x) return x / (x - x) end, ipu.ones{2})
  end},
  ["io_tiles.num_io_tiles"] = {64, product},
  ["io_tiles.place_ops_on_io_tiles"] = {true, fed, {["io_tiles.num_io_tiles"] = 64}},
  ["io_tiles.available_memory_proportion"] = {1e-6, fed, io},
  ["ipu_model.compile_ipu_code"] = {false, function()
    return estimate(function(x) return x * 2 end, {{8}}).memory.vertexCode
  end},
  ["ipu_model.tiles_per_ipu"] = {8, tiles},
  ["ipu_model.version"] = {"ipu1", tiles},
  ["norms.experimental.distributed_batch_norm_replica_group_size"] = {2, function()
    local layer = ipu.keras.layers.BatchNormalization()
    return estimate(function(x) return layer(x, {training = true}) end, {{8, 64}}).cycles.total
  end, two},
  ["optimizations.math.fast"] = {true, quotients},
  ["optimizations.enable_fast_math"] = {true, quotients},
  ["optimizations.prefetch_data_streams"] = {false, function()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{64}):repeat_n())
    return ipu.estimate(ipu.func(function()
      return ipu.loops.repeat_n(20, function(sum, x) return sum + ipu.reduce_sum(x) end,
        {ipu.zeros{}}, infeed)
    end)).cycles.total
  end},
  ["optimizations.enable_graph_outlining"] = {false, function()
    return estimate(function(x, y) return ipu.matmul(ipu.matmul(x, y), y) end,
      {half{64, 64}, half{64, 64}}).memory.internalExchangeCode
  end},
  ["optimizations.merge_infeed_io_copies"] = {false, fed},
  ["optimizations.maximum_cross_replica_sum_buffer_size"] = {1 << 20,
    collectives "cross_replica_sum", four},
  ["optimizations.maximum_reduce_scatter_buffer_size"] = {1 << 20,
    collectives "reduce_scatter", four},
  ["optimizations.maximum_all_gather_buffer_size"] = {1 << 20, collectives "all_gather", four},
  ["optimizations.maximum_inter_ipu_copies_buffer_size"] = {1 << 20, copies, two},
  ["optimizations.minimum_remote_tensor_size"] = {1 << 30,
    function() return pipeline().memory.streaming end, two},
  ["optimizations.triangular_solve_expander_block_size"] = {8, function()
    return estimate(function(a, b) return ipu.triangular_solve(a, b) end,
      {{256, 256}, {256, 64}}).cycles.total
  end},
  ["optimizations.cholesky_block_size"] = {64, function()
    return estimate(function(a) return ipu.cholesky(a) end, {{256, 256}}).cycles.total
  end},
}

local function configure(given)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = 1
  for name, value in pairs(given) do
    local t = cfg
    for category in name:gmatch("([^.]+)%.") do t = t[category] end
    t[name:match("[^.]+$")] = value
  end
  cfg:configure_ipu_system()
end

describe("an accepted option is used:", function()
  local caught = warnings.expected{"'optimizations.enable_fast_math' is deprecated"}
  setup(caught.start)
  teardown(caught.stop)

  after_each(function()
    config.reset_ipu_configuration()
    config.set_flags("")
  end)

  for _, row in ipairs(options.table) do
    local name, fields = row[1], row[5] or {}
    if fields.unused then
      it(name .. " says that it has no effect", function()
        assert.matches("Accepted, without effect%.$", row[4])
        assert.is_nil(observed[name])
      end)
    else
      it(name, function()
        local value, observe, both =
          table.unpack((assert(observed[name], "nothing shows what this option changes")))
        local given = {}
        for k, v in pairs(both or {}) do given[k] = v end
        configure(given)
        local before = observe()
        given[name] = value
        configure(given)
        assert.not_same(before, observe())
      end)
    end
  end

  -- name → {text, what is observed}
  local flags <const> = {
    help = {"--help", function()
      local flag <const> = config.flags() and "--help" or ""
      local run = command.run{command.ipulua, "-e",
        "require 'ipulua'.set_flags '" .. flag .. "'"}
      return run.out:find("--use_ipu_model", 1, true) ~= nil
    end, true},
    use_ipu_model = {"--use_ipu_model", function()
      return (pcall(configure, {auto_select_ipus = 3}))
    end},
    ipu_model_tiles = {"--ipu_model_tiles=8", tiles},
    use_synthetic_data = {"--use_synthetic_data", function()
      return config.use_synthetic_data_for("infeed")
    end},
    synthetic_data_categories = {"--synthetic_data_categories=infeed", function()
      return config.use_synthetic_data_for("infeed")
    end},
    synthetic_data_initializer = {"--use_synthetic_data --synthetic_data_initializer=3", function()
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{2}):repeat_n())
      return ipu.func(function()
        return ipu.loops.repeat_n(1, function(_, x) return x end, {ipu.zeros{2}}, infeed)
      end)():totable()
    end},
    log_cycle_count = {"--log_cycle_count=0", function()
      local lines, log = {}, require "ipulua.base.log"
      local former = log.set_writer(function(text) lines[#lines + 1] = text end)
      ipu.func(function(x) return x * 2 end)(ipu.ones{2})
      log.set_writer(former)
      return #lines > 0 and table.concat(lines):find("cycles in a run", 1, true) ~= nil
    end},
    -- compile_progress_spec
    show_progress_bar = {"--show_progress_bar=true", function()
      return config.flag("show_progress_bar")
    end},
  }

  for _, row in ipairs(flag_table.table) do
    local name = row[1]
    if row.unused then
      it("--" .. name .. " says that it has no effect", function()
        assert.matches("accepted, without effect$", row[4])
        assert.is_nil(flags[name])
      end)
    else
      it("--" .. name, function()
        local text, observe, alone =
          table.unpack((assert(flags[name], "nothing shows what this flag changes")))
        if alone then
          assert.is_true(observe())
          return
        end
        local before = observe()
        config.reset_ipu_configuration()
        config.set_flags(text)
        assert.not_same(before, observe())
      end)
    end
  end

  local function wanted(field)
    return function()
      local w = report.wanted()
      return w and w[field]
    end
  end
  local function misfit() return require "ipulua.config.target".enforces() end
  -- name → {value, what is observed, others}
  local engine <const> = {
    ["autoReport.all"] = {"true", wanted "graph"},
    ["autoReport.directory"] = {"x", wanted "directory", {["autoReport.all"] = "true"}},
    ["autoReport.outputGraphProfile"] = {"true", wanted "graph"},
    ["autoReport.outputExecutionProfile"] = {"true", wanted "execution"},
    ["autoReport.executionProfileProgramRunCount"] = {"7", wanted "runs",
      {["autoReport.all"] = "true"}},
    ["debug.allowOutOfMemory"] = {"true", misfit},
    ["debug.floatPointOpException"] = {"true", function()
      return ran(function(x) return ipu.sqrt(-x) end, ipu.ones{2})
    end},
  }
  for _, name in ipairs(engine_options.names()) do
    it("engine option " .. name, function()
      local value, observe, both =
        table.unpack((assert(engine[name], "nothing shows what this option changes")))
      local given = {}
      for k, v in pairs(both or {}) do given[k] = v end
      configure{compilation_poplar_options = given}
      local before = observe()
      given[name] = value
      configure{compilation_poplar_options = given}
      assert.not_same(before, observe())
    end)
  end
end)
