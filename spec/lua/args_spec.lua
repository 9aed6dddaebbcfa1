local command = require "spec.support.command"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local enum = require "ipulua.base.enumeration"
local ipu = require "ipulua"

local Schedule = enum.new("PipelineSchedule", {"Grouped", "Interleaved", "Sequential"})
local Layer = class.new("Layer")

local dense <const> = {
  {"units", "integer"},
  {"activation", {"string", "callable"}, "linear"},
  {"use_bias", "boolean", true},
  {"name", "string", optional = true},
}
local sequential <const> = {{"layers", "list", {}, list = true},
  {"name", "string", optional = true}}
local reduce <const> = {{"x", "tensor"}, {"axis", {"integer", "list"}, optional = true},
  {"keepdims", "boolean", false}}
local reshape <const> = {{"x", "any"}, {"shape", "list"}}
local target <const> = {{"target_shape", {"integers", "integer"}, list = true},
  {"name", "string", optional = true}}
local slices <const> = {{"x", "any", whole = true}, {"name", "string", optional = true}}

local function message_of(...)
  local ok, message = pcall(args.check, ...)
  assert.is_false(ok)
  return message
end

describe("args.check", function()
  it("takes one list beside names as the first argument, not as its only element", function()
    local texts <const> = {{"texts", "list", list = true}, {"mode", "string", "binary"}}
    for _, given in ipairs{{{{"a", "b"}, mode = "count"}}, {{"a", "b", mode = "count"}},
      {{"a", "b"}, {mode = "count"}}} do
      assert.same({texts = {"a", "b"}, mode = "count"}, args.check("f", texts, table.unpack(given)))
    end
    -- a sequence of numbers is an element
    assert.same({{1, 2}}, args.check("f", texts, {{1, 2}, mode = "count"}).texts)
    assert.same({1, 1}, ipu.ones{{2}, dtype = "int32"}:totable())
    local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {1}}}
    local name <const> = command.scratch()
    local path <const> = name .. ".npz"
    model:save_weights{path, overwrite = true}
    assert.error_matches(function() model:save_weights{path, overwrite = false} end,
      "exists already")
    os.remove(path)
    os.remove(name)
  end)

  it("takes a list of integers as it is or in a list of arguments", function()
    for _, given in ipairs{{{3, 2}}, {{{3, 2}}}, {{target_shape = {3, 2}}}} do
      assert.same({target_shape = {3, 2}}, args.check("Reshape", target, table.unpack(given)))
    end
    assert.same({target_shape = {3, 2}, name = "r"},
      args.check("Reshape", target, {{3, 2}, name = "r"}))
    assert.matches("got table", message_of("Reshape", target, {{3, 2}, {2}}))
  end)

  it("reads every spelling of a call alike", function()
    local expected = {units = 256, activation = "relu", use_bias = true}
    for _, given in ipairs {
      {256, "relu"}, {256, {activation = "relu"}}, {{256, activation = "relu"}}, {{256, "relu"}},
      {{units = 256, activation = "relu"}}, {256, "relu", {}}, {256, "relu", nil, nil},
      {256, "relu", {use_bias = true}},
    } do
      assert.same(expected, args.check("Dense", dense, table.unpack(given, 1, #given)))
    end
  end)

  it("takes nil for the default, holes in a constructor too", function()
    assert.same({units = 3, activation = "linear", use_bias = false},
      args.check("Dense", dense, 3, nil, false))
    assert.same({units = 3, activation = "linear", use_bias = false},
      args.check("Dense", dense, {3, nil, false}))
  end)

  it("takes the list part as the first argument where that is a list", function()
    assert.same({layers = {1, 2}, name = "m"},
      args.check("Sequential", sequential, {1, 2, name = "m"}))
    assert.same({layers = {1, 2}, name = "m"},
      args.check("Sequential", sequential, {1, 2}, {name = "m"}))
    assert.same({layers = {1, 2}, name = "m"},
      args.check("Sequential", sequential, {layers = {1, 2}, name = "m"}))
    assert.same({layers = {1, 2}, name = "m"}, args.check("Sequential", sequential, {1, 2}, "m"))
    assert.same({layers = {}, name = "m"}, args.check("Sequential", sequential, {name = "m"}))
    assert.same({layers = {}}, args.check("Sequential", sequential))
    assert.same({shape = {}}, args.check("zeros", {{"shape", "list", list = true}}, {}))
  end)

  it("keeps a list apart from a table of names", function()
    assert.same({x = 1, shape = {2, 3}}, args.check("reshape", reshape, 1, {2, 3}))
    assert.same({x = 1, shape = {}}, args.check("reshape", reshape, 1, {}))
    assert.same({x = 1, shape = {2}}, args.check("reshape", reshape, 1, {shape = {2}}))
    local x = setmetatable({}, {__name = "Tensor", is_tensor = true})
    assert.same({0, -1}, args.check("reduce_sum", reduce, x, {axis = {0, -1}}).axis)
    assert.same({0, -1}, args.check("reduce_sum", reduce, x, {0, -1}).axis)
    assert.same(1, args.check("reduce_sum", reduce, {x, axis = 1}).axis)
  end)

  it("leaves a single table whole where the row says so", function()
    assert.same({x = {a = 1}}, args.check("slices", slices, {a = 1}))
    assert.same({x = {a = 1}, name = "n"}, args.check("slices", slices, {a = 1}, {name = "n"}))
    assert.same({x = {1, 2}, name = "n"}, args.check("slices", slices, {1, 2}, "n"))
  end)

  it("accepts integral floats as integers and gives integers", function()
    local units = args.check("Dense", dense, 3.0).units
    assert.equal("integer", math.type(units))
  end)

  it("turns enumeration values into members", function()
    local spec <const> = {{"schedule", Schedule, "Grouped"}}
    assert.equal("Interleaved", args.check("pipeline", spec, {schedule = "interleaved"}).schedule)
    assert.equal("Grouped", args.check("pipeline", spec).schedule)
    assert.matches("pipeline: 'schedule': 'fast' is not a PipelineSchedule; choose one of Grouped, "
      .. "Interleaved, Sequential",
      message_of("pipeline", spec, {schedule = "fast"}), 1, true)
    assert.equal("value", blame.last.kind)
  end)

  it("accepts instances of a class and its descendants", function()
    local Dense = Layer:extend("Dense")
    local spec <const> = {{"layer", Layer}}
    local layer = Dense()
    assert.equal(layer, args.check("wrap", spec, layer).layer)
    assert.matches("wrap: 'layer' must be a Layer, got Schedule",
      message_of("wrap", spec, class.new("Schedule")()), 1, true)
  end)

  it("takes an object of the first argument's class in braces, beside configs too", function()
    local spec <const>, layer = {{"layer", {Layer, "dict"}}, {"name", "string", optional = true}},
      Layer()
    assert.equal(layer, args.check("wrap", spec, {layer}).layer)
    assert.equal(layer, args.check("wrap", spec, {layer, name = "w"}).layer)
    assert.equal("Dense", args.check("wrap", spec, {class_name = "Dense"}).layer.class_name)
    local layers = require "ipulua".keras.layers
    local inner = layers.Dense{2}
    assert.equal(inner, layers.TimeDistributed{inner}.layer)
  end)

  it("gives no position to what is given by name only", function()
    local spec <const> = {{"units", "integer"}, {"name", "string", optional = true, by_name = true}}
    assert.equal("n", args.check("Dense", spec, {3, name = "n"}).name)
    assert.matches("Dense takes at most 1 argument by position, got 2",
      message_of("Dense", spec, 3, "n"), 1, true)
    local layers = ipu.keras.layers
    assert.error_matches(function() layers.Reshape(3, 2) end,
      "Reshape takes at most 1 argument by position, got 2")
    assert.error_matches(function() layers.Add("sum") end,
      "Add takes no arguments by position, got 1")
  end)

  it("copies a default that is a table", function()
    local spec <const> = {{"metrics", "list", {}}}
    local first = args.check("compile", spec).metrics
    first[1] = "accuracy"
    assert.same({}, args.check("compile", spec).metrics)
  end)

  it("checks choices and checks of its own", function()
    local spec <const> = {{"padding", "string", "VALID", choices = {"VALID", "SAME"}},
      {"rate", "number", 0, check = function(v)
        return (v < 0 or v >= 1) and "must be in [0, 1), got " .. v or nil
      end}}
    assert.matches("conv: 'padding' must be one of 'VALID', 'SAME', got string (full)",
      message_of("conv", spec, "full"), 1, true)
    assert.matches("got string (SAMEE); did you mean 'SAME'?",
      message_of("conv", spec, "SAMEE"), 1, true)
    assert.equal("SAME", args.check("conv", spec, "same").padding)
    assert.matches("conv: 'rate' must be in [0, 1), got 2",
      message_of("conv", spec, {rate = 2}), 1, true)
  end)

  for _, case in ipairs {
    {"a wrong type", {"256"}, "Dense: 'units' must be an integer, got string (256)"},
    {"a fraction", {2.5}, "Dense: 'units' must be an integer, got number (2.5)"},
    {"a boolean", {true}, "Dense: 'units' must be an integer, got boolean (true)"},
    {"a union", {1, 5}, "Dense: 'activation' must be a string or a function, got integer (5)"},
    {"an unknown name", {1, {activaton = "relu"}},
      "Dense has no argument 'activaton'; did you mean 'activation'?"},
    {"an unknown name that is near to none", {{1, zzz = 1}},
      "Dense has no argument 'zzz'; it takes units, activation, use_bias, name"},
    {"a missing argument", {}, "Dense: 'units' is missing; it must be an integer"},
    {"an empty table", {{}}, "Dense: 'units' is missing; it must be an integer"},
    {"too many", {1, "a", true, "n", 5}, "Dense takes at most 4 arguments, got 5"},
    {"too many in a table", {{1, "a", true, "n", 5}}, "Dense takes at most 4 arguments, got 5"},
    {"a second value", {{256, units = 5}},
      "Dense: 'units' is given twice, by position and by name"},
    {"a mixed last table", {1, {5, name = "n"}},
      "Dense: the last table mixes names with a list; give the list as an argument of its own"},
  } do
    it("refuses " .. case[1], function()
      local message = message_of("Dense", dense, table.unpack(case[2]))
      assert.matches("^%[?.*args_spec.lua:%d+: ", message)
      assert.equal(case[3], blame.last.message)
      assert.equal("type", blame.last.kind)
    end)
  end

  it("returns values in order from unpack", function()
    local units, activation, use_bias, name = args.unpack("Dense", dense, 4, {name = "n"})
    assert.same({4, "linear", true, "n"}, {units, activation, use_bias, name})
  end)

  it("checks single values", function()
    assert.equal(4, args.check_value("seed", {"seed", "integer", 4}, nil))
    assert.has_error(function() args.check_value("seed", {"seed", "integer"}, "x") end)
  end)

  -- "Its list part is the positional arguments": Dense(256) and Dense{256} are the same, of
  -- whatever kind the first one is
  local function class_name(object) return getmetatable(object).__name end
  describe("takes one thing in braces where it takes it in parentheses", function()
    local keras, layers = ipu.keras, ipu.keras.layers
    local ds = ipu.data.from_tensor_slices{ipu.ones{4, 3}, ipu.ones{4, 2}}:batch(2,
      {drop_remainder = true})
    local sgd = ipu.train.GradientDescentOptimizer(0.1)
    local kept = keras.optimizers.SGD(0.1)
    local v = ipu.Variable(3.0)
    local function model() return keras.Sequential{layers.Dense{2, input_shape = {3}}} end
    local cases <const> = {
      Bidirectional = function()
        return layers.Bidirectional{layers.LSTM{8}}.forward_layer.units, 8
      end,
      TimeDistributed = function()
        return layers.TimeDistributed{layers.Dense{8}}.layer.units, 8
      end,
      ["several cells"] = function()
        return #layers.RNN{layers.LSTMCell(2), layers.LSTMCell(3)}.cell.cells, 2
      end,
      Activation = function()
        return layers.Activation{layers.LeakyReLU()}(ipu.ones{1}):item(), 1
      end,
      schedule = function() return class_name(
        keras.optimizers.SGD{keras.optimizers.schedules.ExponentialDecay{0.1, 10,
          0.5}}.learning_rate),
        "ExponentialDecay" end,
      estimate = function() return ipu.estimate{model()}.fits, true end,
      IPUInfeedQueue = function() return class_name(ipu.IPUInfeedQueue{ds}), "IPUInfeedQueue" end,
      compile = function()
        local m = model()
        m:compile{kept, "mse"}
        return m.optimizer, kept
      end,
      CrossReplicaOptimizer = function()
        return class_name(ipu.optimizers.CrossReplicaOptimizer{sgd}), "CrossReplicaOptimizer"
      end,
      GradientAccumulationOptimizerV2 = function()
        return class_name(ipu.optimizers.GradientAccumulationOptimizerV2{sgd, 4}),
          "GradientAccumulationOptimizerV2"
      end,
      ["Keras' CrossReplicaOptimizer"] = function()
        return class_name(keras.optimizers.CrossReplicaOptimizer{kept}), "CrossReplicaOptimizer"
      end,
      ["Keras' GradientAccumulationOptimizer"] = function()
        return class_name(keras.optimizers.GradientAccumulationOptimizer{kept, 4}),
          "GradientAccumulationOptimizer"
      end,
      AdamOptimizer = function()
        return class_name(ipu.train.AdamOptimizer{0.001, 0.8}), "AdamOptimizer"
      end,
      repeat_n = function()
        return ipu.loops.repeat_n{3, function(x) return x + 1 end, {1}}:item(), 4
      end,
      cond = function()
        return ipu.cond{ipu.tensor(true, {dtype = "bool"}), function() return ipu.ones{} end,
          function() return ipu.zeros{} end}:item(), 1
      end,
      ["a tape's gradient"] = function()
        local tape = ipu.GradientTape()
        return tape:gradient{tape(function() return v * v end), v}:item(), 6
      end,
      batch_dot = function()
        return keras.backend.batch_dot{ipu.ones{2, 3}, ipu.ones{2, 3}}[1]:item(), 3
      end,
      relu = function() return keras.activations.relu{ipu.tensor{-2}, 0.5}:item(), -1 end,
      ["relu of numbers"] = function()
        return keras.activations.relu{{-2, 4}, 0.5}[1]:item(), -1
      end,
      ["elu of numbers"] = function() return keras.activations.elu{3, 2, 1}[3]:item(), 1 end,
      ["softmax of numbers"] = function()
        return keras.activations.softmax({0, 0}, {axis = 0})[1]:item(), 0.5
      end,
      mean_squared_error = function()
        return keras.losses.mean_squared_error{ipu.tensor{1, 2}, ipu.tensor{1, 4}}:item(), 2
      end,
    }
    for name, case in pairs(cases) do
      it(name, function()
        local got, wanted = case()
        assert.equal(wanted, got)
      end)
    end
  end)
end)
