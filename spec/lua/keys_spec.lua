-- Programs that are found again: what a trace depends on is in the key, each input of it.

local ipu = require "ipulua"
local structure = require "ipulua.structure"

local x = ipu.tensor{1, 2}

-- How many programs f has after calls with the arguments of each list.
local function programs_of(f, calls)
  for _, arguments in ipairs(calls) do f(table.unpack(arguments, 1, arguments.n or #arguments)) end
  return #f:signatures()
end

local function named(name)
  return setmetatable({name = name}, {__tostring = function(self) return self.name end, __call = function() return x end})
end

describe("a function has a program for each", function()
  local a, b = ipu.Variable(ipu.ones{2}), ipu.Variable(ipu.ones{2})
  local one, other = named "m", named "m"
  local cases <const> = {
    ["dtype"] = {{x}, {ipu.cast(x, "float64")}, {ipu.cast(x, "float16")}},
    ["shape"] = {{x}, {ipu.ones{2, 1}}, {ipu.ones{}}},
    ["variable"] = {{a}, {b}},
    ["tensor or variable"] = {{a}, {x}},
    ["count of arguments"] = {{x}, {x, nil, n = 2}, {x, nil, nil, n = 3}},
    ["number"] = {{x, 1}, {x, 2}},
    ["kind of number"] = {{x, 1}, {x, 1.0}, {x, "1"}},
    ["sign of zero"] = {{x, 0.0}, {x, -0.0}},
    ["boolean"] = {{x, true}, {x, false}, {x, "true"}},
    ["key"] = {{{[1] = x}}, {{["1"] = x}}, {{[1.5] = x}}, {{[true] = x}}},
    ["text with marks"] = {{{a = x, b = x}}, {{["a=*,b"] = x}}},
    ["object of one name"] = {{x, one}, {x, other}},
    ["function"] = {{x, function() return 1 end}, {x, function() return 2 end}},
    ["nesting"] = {{{x, {x}}}, {{{x}, x}}, {{x, x}}},
  }
  for name, calls in pairs(cases) do
    it(name, function()
      local f = ipu.func(function(...) return select("#", ...) end)
      assert.equal(#calls, programs_of(f, calls))
      assert.equal(#calls, programs_of(f, calls)) -- and finds them again
    end)
  end

  it("scope of nodes", function()
    local f = ipu.func(function(t) return t * 2 end)
    f(x)
    for _, scope in ipairs{
      function() return ipu.ipu_shard(0) end, function() return ipu.stochastic_rounding(true) end,
      function() return ipu.frontend_attribute("a", "b") end,
    } do
      local before = #f:signatures()
      for _ = 1, 2 do
        local _ <close> = scope()
        f(x)
      end
      assert.equal(before + 1, #f:signatures())
    end
  end)

  it("model, not for what it is called", function()
    local layers = ipu.keras.layers
    local function model(value)
      return ipu.keras.Sequential({layers.Dense(1, {input_shape = {2}, kernel_initializer = ipu.keras.initializers.Constant(value)})},
        {name = "same"})
    end
    local f = ipu.func(function(t, m) return m(t) end)
    assert.equal(3, f(ipu.ones{1, 2}, model(1.5)):item())
    assert.equal(5, f(ipu.ones{1, 2}, model(2.5)):item())
  end)
end)

describe("an identity", function()
  it("is an object's own, also where another gets its address", function()
    local seen = {}
    for _ = 1, 200 do
      local key = structure.value_key(named "m")
      assert.is_nil(seen[key])
      seen[key] = true
      collectgarbage("step", 100)
    end
  end)

  it("is a variable's own: an optimizer has no momentum for it of one that is gone", function()
    local opt = ipu.keras.optimizers.SGD(1.0, {momentum = 0.5})
    for _ = 1, 50 do
      local v = ipu.Variable(ipu.zeros{3})
      opt:apply_gradients({ipu.ones{3}}, {v})
      assert.same({-1, -1, -1}, v:read_value():totable())
      v = nil -- luacheck: ignore 311
      collectgarbage()
    end
  end)
end)

it("branches that give other keys are refused", function()
  local f = ipu.func(function(t)
    return ipu.cond(ipu.less(ipu.reduce_sum(t), 0), function() return {[1] = t} end, function() return {["1"] = t} end)
  end)
  assert.is_false((pcall(f, x)))
end)
