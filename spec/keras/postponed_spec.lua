-- Weights get their first values at their first reading. So models that are only described and
-- priced can be larger than memory. The values are the same as if they were made with the layer.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers

local function numbers(t)
  local out = {}
  for i, x in ipairs(ipu.reshape(ipu.cast(t, "float32"), {-1}):totable()) do out[i] = x end
  return out
end

local function dense(initializer, dtype)
  local layer = layers.Dense{4, kernel_initializer = initializer, bias_initializer = "ones",
    dtype = dtype}
  layer:build{-1, 3}
  return layer
end

-- The draw of a script that draws by itself: [3, 4] by the op at this place of the sequence.
local function drawn(kind, options) return numbers(ipu.random[kind]({3, 4}, options)) end

describe("a weight's first value", function()
  -- initializer → op, its arguments: fan in 3, fan out 4 (https://keras.io/api/layers/initializers)
  local limit <const> = math.sqrt(6 / (3 + 4))
  for name, row in pairs{
    random_normal = {"normal", {mean = 0, stddev = 0.05}},
    random_uniform = {"uniform", {minval = -0.05, maxval = 0.05}},
    truncated_normal = {"truncated_normal", {mean = 0, stddev = 0.05}},
    glorot_uniform = {"uniform", {minval = -limit, maxval = limit}},
    he_uniform = {"uniform", {minval = -math.sqrt(6 / 3), maxval = math.sqrt(6 / 3)}},
    lecun_uniform = {"uniform", {minval = -math.sqrt(3 / 3), maxval = math.sqrt(3 / 3)}},
  } do
    it("has the numbers that were next when the weight was made: " .. name, function()
      ipu.random.set_seed(7)
      local first = drawn(row[1], row[2])
      local second = drawn(row[1], row[2])
      ipu.random.set_seed(7)
      local a, b = dense(name), dense(name)
      local after = drawn(row[1], row[2])
      ipu.random.set_seed(99)
      local other = drawn("uniform")
      assert.same(second, numbers(b.kernel)) -- read in the opposite order
      assert.same(first, numbers(a.kernel))
      assert.same({1, 1, 1, 1}, numbers(a.bias))
      ipu.random.set_seed(99)
      assert.same(other, drawn("uniform")) -- reading draws nothing from the script's sequence
      ipu.random.set_seed(7)
      for _ = 1, 2 do drawn(row[1], row[2]) end
      assert.same(after, drawn(row[1], row[2]))
    end)
  end

  it("is the same with a seed of its own, and takes nobody's turn", function()
    ipu.random.set_seed(7)
    local plain = drawn("uniform")
    ipu.random.set_seed(7)
    local a = dense(keras.initializers.RandomUniform{minval = 0, maxval = 1, seed = 5})
    assert.same(plain, drawn("uniform"))
    assert.same(numbers(ipu.random.uniform({3, 4}, {seed = 5})), numbers(a.kernel))
  end)

  it("is rounded as when the weight was made", function()
    ipu.random.set_seed(7)
    local exact = drawn("uniform", {minval = -0.05, maxval = 0.05})
    ipu.random.set_seed(7)
    local a = dense("random_uniform", "float16")
    local _ <close> = ipu.stochastic_rounding(true)
    local rounded = numbers(a.kernel)
    for i, x in ipairs(exact) do
      assert.equal(string.unpack("<f", string.pack("<f", rounded[i])), rounded[i])
      assert.near(x, rounded[i], math.abs(x) * 2 ^ -11 + 2 ^ -25) -- to the nearest
    end
  end)

  it("is there for functions, copies, texts and files that ask for it first", function()
    ipu.random.set_seed(7)
    local wanted = drawn("uniform", {minval = -0.05, maxval = 0.05})
    local path = os.tmpname() .. ".npz"
    local ways = {
      func = function(l) return ipu.func(function() return l.kernel * 1 end)() end,
      tape = function(l)
        local tape = ipu.GradientTape()
        return tape:gradient(tape(function() return ipu.reduce_sum(l.kernel * l.kernel) end),
          l.kernel) * 0.5
      end,
      assign = function(l) return l.kernel:assign_add(ipu.zeros{3, 4}) end,
      copy = function(l) return ipu.Variable(l.kernel) end,
      job = function(l)
        return ipu.IPUStrategy():run_async(ipu.func(function() return l.kernel * 1 end)):wait()
      end,
      text = function(l)
        assert(tostring(l.kernel):find "%d%.%d", tostring(l.kernel))
        return l.kernel
      end,
      initialized = function(l) assert.is_true(l.kernel.initialized) return l.kernel end,
      weights = function(l) return l:get_weights()[1] end,
      file = function(l)
        ipu.save(path, {kernel = l.kernel})
        return ipu.load(path).kernel
      end,
    }
    for name, way in pairs(ways) do
      ipu.random.set_seed(7)
      local l = dense("random_uniform")
      ipu.random.set_seed(8)
      assert.same(wanted, numbers(way(l)), name)
    end
    os.remove(path)
  end)

  it("waits while programs are only priced", function()
    ipu.random.set_seed(7)
    local wanted = drawn("uniform", {minval = -0.05, maxval = 0.05})
    ipu.random.set_seed(7)
    local l = dense("random_uniform")
    ipu.estimate(ipu.func(function(x) return ipu.matmul(x, l.kernel) end),
      {inputs = {{2, 3}}, batch_size = 2})
    assert.same(wanted, numbers(l.kernel))
  end)
end)

describe("a model larger than memory", function()
  it("is described, counted and priced", function()
    local m = keras.Sequential{layers.Dense{1 << 22, input_shape = {1 << 20}}} -- 16 TiB
    assert.equal((1 << 42) + (1 << 22), m:count_params())
    m:summary{print_fn = function() end}
    local e = ipu.estimate(m, {batch_size = 1})
    assert.is_false(e.fits)
  end)

  it("says so when it is called, and again", function()
    local m = keras.Sequential{layers.Dense{1 << 22, input_shape = {1 << 20}}}
    for _ = 1, 2 do
      local ok, message = pcall(function() return m(ipu.ones{1, 1 << 20}) end)
      assert.is_false(ok)
      assert(message:find "cannot allocate" or message:find "memory", message)
    end
  end)
end)
