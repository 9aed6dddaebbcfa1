-- Coroutines. Each has scopes, traces and tapes of its own, inside its resumer's.

local core = require "ipulua.core"
local ipu = require "ipulua"
local placement = require "ipulua.trace.placement"
local scope = require "ipulua.base.scope"

local function placed(field)
  local value = core.set_placement(field, 0)
  core.set_placement(field, value)
  return value
end

local wrap, yield = coroutine.wrap, coroutine.yield

-- All that scopes say, where it is called.
local function state()
  local strategy = require "ipulua.strategy".current()
  return table.concat({core.scope_key(), tostring(placement.device()), tostring(placement.shard()),
    scope.depth(),
    tostring(strategy), (ipu.Variable(0.0, {name = "v"}).name:gsub("_%d+$", ""))}, " ")
end

local scopes <const> = {
  ipu_shard = {function() return ipu.ipu_shard(1) end, function() return ipu.ipu_shard(2) end},
  device = {function() return ipu.device("cpu") end, function()
    return ipu.device("/device:IPU:0")
  end},
  name_scope = {function() return ipu.name_scope("one") end, function()
    return ipu.name_scope("two")
  end},
  strategy = {function() return ipu.IPUStrategy():scope() end, function()
    return ipu.IPUStrategy():scope()
  end},
  stochastic_rounding = {function() return ipu.stochastic_rounding(true) end, function()
    return ipu.stochastic_rounding(false)
  end},
  partials_type = {function() return ipu.partials_type("float16") end, function()
    return ipu.partials_type("float32")
  end},
  frontend_attribute = {function() return ipu.frontend_attribute("a", "1") end, function()
    return ipu.frontend_attribute("a", "2")
  end},
  variable_scope = {function() return ipu.variable_scope("one") end, function()
    return ipu.variable_scope("two")
  end},
}

-- A coroutine that opens a scope, gives the open scopes, closes it, gives them again.
local function in_scope(open)
  return wrap(function()
    do
      local _ <close> = open()
      yield(state())
      yield(state())
    end
    yield(state())
  end)
end

describe("coroutines that interleave", function()
  for name, pair in pairs(scopes) do
    it(name .. ", each is in its own", function()
      local outside = state()
      local alone = {in_scope(pair[1])(), in_scope(pair[2])()}
      local a, b = in_scope(pair[1]), in_scope(pair[2])
      assert.equal(alone[1], a())
      assert.equal(outside, state())
      assert.equal(alone[2], b())
      assert.equal(alone[1], a()) -- not last in, first out
      assert.equal(outside, a())
      assert.equal(alone[2], b())
      assert.equal(outside, b())
      assert.equal(outside, state())
    end)
  end

  it("names of variables", function()
    local function named(prefix)
      return wrap(function()
        local _ <close> = ipu.variable_scope(prefix)
        for i = 1, 2 do yield(ipu.get_variable("v" .. i, {shape = {}}).name) end
      end)
    end
    local a, b = named "left", named "right"
    assert.same({"left/v1", "right/v1", "left/v2", "right/v2"}, {a(), b(), a(), b()})
  end)

  it("traced functions", function()
    local function traced(factor)
      return wrap(function()
        local f = ipu.func(function(x)
          local y = x * factor
          yield()
          return ipu.loops.repeat_n(2, function(z)
            yield()
            return z + 1
          end, {y})
        end)
        return f(ipu.ones{2}):totable()
      end)
    end
    local a, b = traced(10), traced(20)
    for _ = 1, 2 do a() b() end
    assert.is_false((core.trace_depth() > 0))
    assert.same({{12, 12}, {22, 22}}, {a(), b()})
  end)

  it("tapes: what a sibling computes is on neither", function()
    local v = ipu.Variable(3.0)
    local function taped(power)
      return wrap(function()
        local tape <close> = ipu.GradientTape{persistent = true}
        yield()
        local y = v ^ power
        local other = yield(y)
        yield(tape:gradient(y, v):item())
        return tape:gradient(other, v)
      end)
    end
    local a, b = taped(2), taped(3)
    a() b()
    local y, z = a(), b()
    assert.same({6, 27}, {a(z), b(y)})
    assert.is_nil(a())
    assert.is_nil(b())
  end)

  it("prices: one is estimated, the other runs", function()
    local a = wrap(function()
      ipu.estimate(function(x)
        yield()
        return x * 2
      end, {inputs = {ipu.ones{2}}})
    end)
    a()
    assert.is_false(core.is_estimating())
    assert.same({2, 2}, ipu.func(function(x) return x * 2 end)(ipu.ones{2}):totable())
    a()
  end)
end)

describe("a coroutine", function()
  it("without scopes of its own is in its resumer's scopes", function()
    local seen = wrap(function() while true do yield(placed "shard") end end)
    assert.equal(3, ipu.ipu_shard(3)(seen))
    assert.equal(-1, seen())
    assert.equal(4, ipu.ipu_shard(4)(seen))
  end)

  it("with some keeps what was around them, until it has closed them", function()
    local seen = wrap(function()
      do
        local _ <close> = ipu.stochastic_rounding(true)
        yield(placed "shard")
        yield(placed "shard")
      end
      while true do yield(placed "shard") end
    end)
    assert.equal(3, ipu.ipu_shard(3)(seen))
    assert.equal(3, seen())
    seen()
    assert.equal(-1, seen())
  end)

  it("is in the scopes of the one that resumes it, not of others that wait", function()
    local inner = function() return wrap(function() return placed "shard" end)() end
    local a, b = wrap(function()
      local _ <close> = ipu.ipu_shard(1)
      yield()
      return inner()
    end), wrap(function()
      local _ <close> = ipu.ipu_shard(2)
      yield()
      return inner()
    end)
    a() b()
    assert.same({1, 2, -1}, {a(), b(), inner()})
  end)

  it("of a generator traces where it is called", function()
    local function layers()
      for i = 1, 3 do yield(function(x) return x * i end) end
    end
    local f = ipu.func(function(x)
      for layer in wrap(layers) do x = layer(x) end
      return wrap(function() yield(x + 1) end)()
    end)
    for _ = 1, 2 do assert.same({7, 13}, f(ipu.tensor{1, 2}):totable()) end
  end)

  it("is recorded by the tape of whoever resumes it", function()
    local v = ipu.Variable(3.0)
    local tape = ipu.GradientTape()
    local y = wrap(function() yield(v * v) end)()
    assert.equal(6, tape:gradient(y, v):item())
  end)

  it("inside a callback returns to what the callback is in", function()
    local dataset = ipu.data.from_generator(function()
      return wrap(function()
        local _ <close> = ipu.name_scope("inside")
        for i = 1, 3 do yield(i) end
      end)
    end, {output_types = "int32", output_shapes = {}})
    local _ <close> = ipu.ipu_shard(0)
    local sum = 0
    for x in dataset:iter() do
      sum = sum + x:item()
      assert.equal(0, placed "shard")
      assert.equal(1, scope.depth())
    end
    assert.equal(6, sum)
  end)

  it("closes its own scopes only", function()
    local mine = ipu.ipu_shard(1)
    local ok, message = coroutine.resume(coroutine.create(function() mine:close() end))
    assert.is_false(ok)
    assert.is_truthy(message:find("ipu_shard(1) was opened in another coroutine", 1, true), message)
    assert.equal(1, placed "shard")
    mine:close()
    assert.equal(-1, placed "shard")
  end)
end)

describe("a coroutine that ends by an error and is never closed", function()
  local bodies <const> = {
    trace = function()
      ipu.func(function(x) error("inside " .. tostring(x.shape)) end)(ipu.ones{2})
    end,
    loop = function()
      ipu.func(function(x) return ipu.loops.repeat_n(2, function() error("x") end, {x}) end)(
        ipu.ones{2})
    end,
    scope = function()
      local _ <close> = ipu.ipu_shard(1)
      local _ <close> = ipu.stochastic_rounding(true)
      error("x")
    end,
    tape = function()
      local _ <close> = ipu.GradientTape()
      error("x")
    end,
    estimate = function() ipu.estimate(function() error("x") end, {}) end,
    ["keras call"] = function()
      local layer = ipu.keras.layers.Lambda(function() error("x") end)
      layer(ipu.ones{2, 2})
    end,
  }
  for name, body in pairs(bodies) do
    it("leaves nothing open: " .. name, function()
      collectgarbage() -- tapes that other cases left open
      collectgarbage()
      local outside, kept, recorded = state(), {}, core.tape_records()
      for i = 1, 20 do
        kept[i] = coroutine.create(body)
        assert.is_false((coroutine.resume(kept[i])))
        assert.equal(outside, state())
        assert.equal(0, core.trace_depth())
        assert.is_false(core.is_estimating())
        assert.equal(recorded, core.tape_records())
      end
      assert.same({3, 3}, ipu.func(function(x) return x + 2 end)(ipu.ones{2}):totable())
      coroutine.close(kept[1]) -- runs what is to be closed in it, in it
      assert.equal(outside, state())
      kept = nil -- luacheck: ignore 311
      collectgarbage()
      collectgarbage()
      assert.equal(outside, state())
    end)
  end

  it("or only waits, in a function whose trace ends before it goes on", function()
    local waiting
    local f = ipu.func(function(x)
      waiting = coroutine.create(function()
        return ipu.loops.repeat_n(3, function(v)
          yield()
          return v + 1
        end, {x})
      end)
      assert.is_true(coroutine.resume(waiting))
      return x * 2
    end)
    assert.same({2, 2}, f(ipu.ones{2}):totable())
    local ok, message = coroutine.resume(waiting)
    assert.is_false(ok)
    assert.is_truthy(message:find("is used after it", 1, true), message)
    assert.equal(0, core.trace_depth())
    assert.same({4, 4}, f(ipu.ones{2} * 2):totable())
  end)
end)

it("coroutines at random disturb neither each other nor the script", function()
  local fuzz = require "spec.support.fuzz_coroutines"
  for seed = 1, 3 do assert.is_true(fuzz.run(seed, 400) > 50) end
end)

describe("a coroutine that waits", function()
  local keras = ipu.keras
  local L = keras.layers

  -- A layer that calls f while it is described, or in its calls.
  local function waiting_layer(name, method, f)
    local Waiting = L.Layer:extend(name)
    function Waiting:get_config()
      if method == "get_config" then f() end
      return L.Layer.get_config(self)
    end
    function Waiting:call(x) -- luacheck: ignore 212
      if method == "call" then f() end
      return x * 2
    end
    return Waiting
  end

  it("while it describes a model: another's shared layers are shared in its file", function()
    local waits = true
    local Waiting = waiting_layer("WaitingConfig", "get_config", function()
      if waits and coroutine.isyieldable() then yield() end
    end)
    local first = keras.Sequential{keras.Input{shape = {2}}, Waiting()}
    local describing = wrap(function() return first:to_json() end)
    describing()
    local inner = keras.Sequential{L.Dense{2, input_shape = {2}}}
    local i = keras.Input{shape = {2}}
    local second = keras.Model{inputs = i,
      outputs = keras.Sequential{inner}(keras.Sequential{inner}(i))}
    local alone = second:to_json()
    waits = false
    describing()
    assert.equal(second:to_json(), alone)
    assert.equal(#second.weights, #keras.models.model_from_json(alone).weights)
  end)

  it("while it traces a model's stages: other calls belong to none of them", function()
    local config = ipu.IPUConfig()
    config.auto_select_ipus = 2
    config:configure_ipu_system()
    finally(ipu.reset_ipu_configuration)
    local waits = true
    local Waiting = waiting_layer("WaitingCall", "call", function()
      if waits and core.trace_depth() > 0 and coroutine.isyieldable() then yield "in it" end
    end)
    local i = keras.Input{shape = {2}}
    local a, b = L.Dense(2), L.Dense(2)
    local model = keras.Model{inputs = i, outputs = b(Waiting()(a(i)))}
    local stages = model:get_pipeline_stage_assignment()
    for k, each in ipairs(stages) do each.pipeline_stage = k == #stages and 1 or 0 end
    model:set_pipeline_stage_assignment(stages)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    model:compile{optimizer = "sgd", loss = "mse", steps_per_execution = 4}
    local x = ipu.ones{16, 2}
    local training = wrap(function() return model:fit(x, x, {verbose = 0, batch_size = 2}) end)
    assert.equal("in it", training())
    local outside = state()
    b(ipu.ones{1, 2}) -- of stage 1, were it part of the trace
    local pipeline = require "ipulua.keras.models.stage_scope"
    assert.is_nil(core.here().keras_route)
    pipeline.finish()
    assert.equal(outside, state())
    waits = false
    assert.is_truthy(training())
  end)
end)
