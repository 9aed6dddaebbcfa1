-- Random numbers that functions of datasets draw. Each element has its own, whatever was read or
-- drawn before, and the same in a resumed training.

local command = require "spec.support.command"
local ipu = require "ipulua"

local data, keras = ipu.data, ipu.keras

local function uniform(x) return ipu.random.uniform({}) + ipu.reduce_sum(x) * 0 end

local scalar <const> = {eager = true, output_types = "float32", output_shapes = {}}

-- Each of a dataset of vectors: what makes random scalars of them.
local makers <const> = {
  map = function(d) return d:map(uniform) end,
  ["an eager map"] = function(d) return d:map(uniform, {eager = true}) end,
  ["an eager map of given types"] = function(d) return d:map(uniform, scalar) end,
  ["an eager filter"] = function(d)
    return d:filter(function() return ipu.less(ipu.random.uniform({}), 0.7) end, {eager = true})
      :map(function(x) return ipu.reduce_sum(x) end)
  end,
  take_while = function(d)
    return d:take_while(function() return ipu.less(ipu.random.uniform({}), 0.96) end)
      :map(function(x) return ipu.reduce_sum(x) end)
  end,
  ["take_while after an eager map"] = function(d)
    return d:map(uniform, scalar)
      :take_while(function(x) return ipu.less(x + ipu.random.uniform({}), 1.9) end)
  end,
  flat_map = function(d)
    return d:flat_map(function(x) return data.from_tensors(uniform(x)):repeat_n(2) end)
  end,
  ["a map inside of flat_map"] = function(d)
    return d:flat_map(function(x)
      return data.from_tensors(x):repeat_n(2):map(uniform)
    end)
  end,
  interleave = function(d)
    return d:interleave(function(x) return data.from_tensors(uniform(x)) end, {cycle_length = 3})
  end,
  from_generator = function()
    return data.from_generator(function()
      local i, first = 0, ipu.random.uniform({})
      return function()
        i = i + 1
        if i <= 40 then return first + ipu.random.uniform({}) end
      end
    end, {output_types = "float32", output_shapes = {}})
  end,
}

local function vectors()
  return data.from_generator(function()
    local i = 0
    return function()
      i = i + 1
      if i <= 40 then return ipu.ones{1 + i % 7} * i end
    end
  end, {output_types = "float32", output_shapes = {-1}})
end

local function numbers(d)
  local list = {}
  for x in d:iter() do list[#list + 1] = x:item() end
  return list
end

describe("a random number that a function draws for an element", function()
  for name, make in pairs(makers) do
    it("doesn't depend on what was read or drawn before: " .. name, function()
      ipu.random.set_seed(1)
      local d = make(vectors())
      local first, second = numbers(d), numbers(d)
      ipu.random.set_seed(1)
      d = make(vectors())
      numbers(d:take(4))
      ipu.random.uniform({3})
      numbers(make(vectors()))
      assert.same(first, numbers(d))
      ipu.random.uniform({3})
      assert.same(second, numbers(d))
      assert.not_same(first, second)
      ipu.random.set_seed(2)
      assert.not_same(first, numbers(make(vectors())))
    end)
  end

  it("is its own", function()
    local function twice(x) return ipu.stack{uniform(x), uniform(x)} end
    local pairs_of = {eager = true, output_types = "float32", output_shapes = {2}}
    local a, b = vectors():map(twice, pairs_of), vectors():map(twice, pairs_of)
    local inner = vectors():flat_map(function(x)
      return data.from_tensors(x):repeat_n(3):map(twice)
    end)
    local seen, count = {}, 0
    for _, d in ipairs{a, b, inner} do
      for x in d:iter() do
        for _, value in ipairs(x:totable()) do
          seen[value], count = true, count + 1
        end
      end
    end
    local distinct = 0
    for _ in pairs(seen) do distinct = distinct + 1 end
    assert.equal(40 * 2 * 5, count)
    assert.equal(count, distinct)
  end)

  it("is what it always is where it has a seed of its own in Lua", function()
    local function drawn(i) return ipu.random.uniform({}, {seed = i:item()}) end
    local wanted = {}
    for i = 0, 3 do wanted[i + 1] = ipu.random.uniform({}, {seed = i}):item() end
    local d = data.range(4):map(drawn, scalar)
    assert.same(wanted, numbers(d))
    assert.same(wanted, numbers(d))
    assert.same(wanted, numbers(data.range(4):flat_map(function(i)
      return data.from_tensors(drawn(i))
    end)))
  end)

  it("leaves the script's own numbers alone", function()
    ipu.random.set_seed(1)
    local wanted = ipu.random.uniform{4}:totable()
    local d = makers["an eager map"](vectors())
    ipu.random.set_seed(1)
    local it = d:iterator()
    for _ = 1, 5 do it:next() end
    assert.same(wanted, ipu.random.uniform{4}:totable())
  end)
end)

describe("a resumed training", function()
  local noise <const> = {eager = true, output_types = {"float32", "float32"},
    output_shapes = {{5}, {1}}}
  local function noisy(a, b) return a + ipu.random.normal({5}), b end
  local stages <const> = {
    ["an eager map"] = function(d) return d:map(noisy, noise) end,
    flat_map = function(d)
      return d:flat_map(function(a, b) return data.from_tensors{noisy(a, b)} end)
    end,
    ["a map inside of interleave"] = function(d)
      return d:interleave(function(a, b) return data.from_tensors{a, b}:map(noisy) end,
        {cycle_length = 3})
    end,
    from_generator = function()
      return data.from_generator(function()
        local i = 0
        return function()
          i = i + 1
          if i <= 63 then return ipu.random.normal({5}), ipu.ones{1} end
        end
      end, {output_types = {"float32", "float32"}, output_shapes = {{5}, {1}}})
    end,
  }

  local function train(stage, folder, freq, stop)
    keras.utils.set_random_seed(1)
    local x = ipu.random.uniform({63, 5}, {seed = 3})
    local ds = stages[stage](data.from_tensor_slices{x, ipu.ones{63, 1}})
    local model = keras.Sequential{keras.layers.Dense{1, input_shape = {5}}}
    model:compile{optimizer = "adam", loss = "mse"}
    local calls = 0
    local function count()
      calls = calls + 1
      if calls == stop then error("stopped", 0) end
    end
    pcall(model.fit, model, ds:batch(7, {drop_remainder = true}), {epochs = 3, verbose = 0,
      callbacks = {keras.callbacks.BackupAndRestore{folder, save_freq = freq},
        keras.callbacks.LambdaCallback{on_train_batch_end = count}}})
    return model:get_weights()[1]:totable()
  end

  for stage in pairs(stages) do
    it("has the numbers that " .. stage .. " drew in one that was never stopped", function()
      for freq, stop in pairs{epoch = 11, [4] = 15} do
        local a, b = command.scratch "whole", command.scratch "parts"
        local whole = train(stage, a, freq, nil)
        train(stage, b, freq, stop)
        assert.same(whole, train(stage, b, freq, nil))
        os.execute("rm -rf '" .. a .. "' '" .. b .. "'")
      end
    end)
  end
end)
