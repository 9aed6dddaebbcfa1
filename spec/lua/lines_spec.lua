-- `return f(x)` is a tail call, after which Lua has forgotten the calling function, but for
-- functions of C: errors name its line all the same. Every wrong sample of the references is called
-- so, too (docs/source/notes.lua).

local ipu = require "ipulua"
local keras = ipu.keras
local layers = keras.layers

local x <const> = ipu.ones{2, 5}

-- The line of the message that f raises when it is called, which no line but f's own can be.
local function line_of(f)
  local ok, message = pcall(f)
  assert.is_false(ok)
  return math.tointeger(tonumber(message:match("^[^:]*lines_spec.lua:(%d+): ")))
end

local Inner = keras.Model:extend("Inner")
function Inner:init() self.reshape = layers.Reshape{{7}} end
function Inner:call(given) return self.reshape(given) end

local wrong <const> = {
  {"an op", function() return ipu.matmul(x, x) end},
  {"a layer", function() return layers.Reshape{{7}}(x) end},
  {"a class", function() return layers.Dense("many") end},
  {"a method", function() return layers.Dense(3):set_weights{1} end},
  {"a layer's call by hand", function() return layers.Dense(3):call(x) end},
  {"a function of a module", function() return keras.losses.mean_squared_error(x, ipu.ones{3}) end},
  {"one that loads when it is asked for", function() return ipu.while_loop(3) end},
  {"one of ipu itself", function() return ipu.save("x.txt", {}) end},
  {"a metric", function() return keras.metrics.MeanSquaredError()(x, ipu.ones{3}) end},
  {"an optimizer's method", function() return keras.optimizers.SGD(0.1):apply_gradients(3) end},
  {"a method of a dataset", function() return ipu.data.range(4):batch(0) end},
}

describe("the line of a call that is all that a return gives", function()
  for _, case in ipairs(wrong) do
    it("is named: " .. case[1], function()
      assert.equal(debug.getinfo(case[2], "S").linedefined, line_of(case[2]))
    end)
  end

  it("is named in a model of a script's own class, and in traced code", function()
    local at = debug.getinfo(Inner.call, "S").linedefined
    assert.equal(at, line_of(function() return Inner()(x) end))
    local traced = ipu.func(function(given) return layers.Reshape{{7}}(given) end)
    assert.equal(debug.getinfo(traced.f, "S").linedefined, line_of(function() return traced(x) end))
    local function body(given) return layers.Reshape{{7}}(given) end
    assert.equal(debug.getinfo(body, "S").linedefined,
      line_of(function() return ipu.loops.repeat_n(3, body, {x}) end))
  end)

  it("is the line of nodes, which reports name", function()
    local dense = layers.Dense(3)
    local program = ipu.func(function(given) return dense(given) end)
    program(x)
    local at = debug.getinfo(program.f, "S").linedefined
    local computed = 0
    for _, node in ipairs(ipu.graph.nodes(program)) do
      if #node.operands > 0 then
        computed = computed + 1
        assert.matches("lines_spec.lua:" .. at .. "$", node.line)
      end
    end
    assert.is_true(computed > 0)
  end)
end)

describe("a function of the library", function()
  it("is one and the same whatever it is reached by", function()
    assert.is_true(rawequal(ipu.while_loop, ipu.loops.while_loop))
    assert.is_true(rawequal(keras.losses.mse, keras.losses.mean_squared_error))
    assert.is_true(rawequal(layers.Dense(3, "relu").activation, keras.activations.relu))
  end)

  it("may yield in a coroutine, and gives and takes any number of values", function()
    local co = coroutine.wrap(function()
      return ipu.name_scope("a")(function(...) return coroutine.yield(...) end, 1, nil, 3)
    end)
    assert.same({n = 3, 1, nil, 3}, table.pack(co()))
    assert.same({n = 2, nil, 5}, table.pack(co(nil, 5)))
  end)
end)
