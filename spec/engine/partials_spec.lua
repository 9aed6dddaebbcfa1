-- Partial sums in float16, in the ops that have products inside. float16 steps by 2 from 2048 on
-- (IEEE 754, table 3.5), and a tie goes to the even one. So 2048 + 1 + … + 1, with eight ones, is
-- 2048 if each sum is rounded. It is 2056 if only the last sum is. 2048 + 4 is exact.
local ipu = require "ipulua"
local layers = ipu.keras.layers

local function full(shape, x) return ipu.full(shape, x, {dtype = "float16"}) end
local function half(list) return ipu.cast(ipu.tensor(list), "float16") end

local steps <const>, ones <const> = {2048, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}
local exact <const> = {1, 4, 0, 0, 0, 0, 0, 0, 0} -- with steps 2052

-- The first element, and the last.
local function first(t) return ipu.gather(ipu.reshape(t, {-1}), 0) end
local function last(t)
  local flat <const> = ipu.reshape(t, {-1})
  return ipu.gather(flat, flat.shape[1] - 1)
end

-- The slopes of sum(dy y) in `of`, where y = f().
local function slopes(f, of, dy)
  local tape <const> = ipu.GradientTape()
  tape:watch(of)
  local y <const> = tape(f)
  return tape:gradient(y, of, {output_gradients = dy})
end

-- ------------------------------------------------ recurrences of nine units, one step

-- [rows, 9 each gate]: numbers by gate.
local function by_gate(rows, numbers)
  local row, list = {}, {}
  for _, x in ipairs(numbers) do
    for _ = 1, 9 do row[#row + 1] = x end
  end
  for i = 1, rows do list[i] = row end
  return half(list)
end

-- Gates that are open (20: the sigmoid is 1) or closed (−20), and a candidate less 2052. candidate:
-- the place of its gate.
local recurrences <const> = {
  simple_rnn = {op = "simple_rnn", bias = {-2052}, candidate = 1, out = 0.9993, back = 1},
  lstm = {op = "lstm", bias = {20, -20, -2052, 20}, candidate = 3, out = 0.7612, back = 4},
  gru = {op = "gru", bias = {-20, 20, -2052}, candidate = 3, out = 0.9993, back = 4,
    options = {reset_after = false}},
  ["gru, reset after"] = {op = "gru", bias = {-20, 20, -2052}, candidate = 3, out = 0.9993,
    back = 4, options = {reset_after = true}},
}

local function run(r, given)
  local gates <const> = #r.bias
  local function bias(numbers)
    local list = by_gate(1, numbers)
    if r.options and r.options.reset_after then
      return ipu.concat({list, full({1, 9 * gates}, 0)}, {axis = 0})
    end
    return list:reshape{9 * gates}
  end
  local function kernel(x)
    local numbers = {}
    for i = 1, gates do numbers[i] = i == r.candidate and x or 0 end
    return by_gate(9, numbers)
  end
  local nothing = {}
  for i = 1, gates do nothing[i] = 0 end
  local options = {bias = bias(given.open and r.bias or nothing), initial_h = given.h
    or full({1, 9}, 0)}
  if r.op == "lstm" then options.initial_c = full({1, 9}, 0) end
  for name, value in pairs(r.options or {}) do options[name] = value end
  local y = ipu.nn[r.op](given.x or full({1, 1, 9}, 0), kernel(given.kernel or 0),
    kernel(given.recurrent or 0), options)
  return y
end

-- {the result with float32 sums, with float16 sums, a function that computes it}
local cases <const> = {}
for name, r in pairs(recurrences) do
  cases[name .. ": the inputs' product"] = {r.out, -r.out, function()
    return last(run(r, {open = true, x = half{{steps}}, kernel = 1}))
  end}
  cases[name .. ": the states' product"] = {r.out, -r.out, function()
    return last(run(r, {open = true, h = half{steps}, recurrent = 1}))
  end}
  -- All gates are 1/2 and all states 0. The candidate's slope is dy, in an LSTM dy / 4. In a GRU it
  -- is dy / 2, and the reset gate halves it.
  cases[name .. ": the way back to the states"] = {2056, 2048, function()
    local h = full({1, 9}, 0)
    return last(slopes(function() return run(r, {h = h, recurrent = r.back}) end, h, half{{steps}}))
  end}
end

-- ------------------------------------------------ attention, [batch, time, heads, width]

local function vectors(list) return half(list):reshape{1, #list, 1, #list[1]} end
local function attend(q, k, v) return ipu.nn.dot_product_attention(q, k, v, {scale = 1}) end

-- The second key is 4 below or above the first, whose weight is 1 / (1 + exp(∓4)).
local sigmoid <const> = 1 / (1 + math.exp(-4))
cases["attention: scores"] = {sigmoid, 1 - sigmoid, function()
  return first(attend(vectors{steps}, vectors{ones, exact}, vectors{{1}, {0}}))
end}
-- Sixteen keys of one score weigh 1/16 each.
local function sixteen(f)
  local list = {}
  for i = 1, 16 do list[i] = f(i) end
  return vectors(list)
end
cases["attention: values"] = {2064, 2048, function() -- 2063 is rounded to the even one of two
  return first(attend(vectors{{1}}, full({1, 16, 1, 1}, 0), sixteen(function(i)
    return {i == 1 and 32768 or 16}
  end)))
end}
cases["attention: the gradient of values"] = {2056, 2048, function()
  local v = vectors{{1}}
  return first(slopes(function() return attend(full({1, 9, 1, 1}, 0), vectors{{1}}, v) end, v,
    half(steps):reshape{1, 9, 1, 1}))
end}
-- Two keys of one score: the first one's slope is (dy v1 − dy v2) / 4 = ±1, and the query's that
-- times k1 − k2 = 1.
cases["attention: the gradient of weights"] = {1, -1, function()
  local q = full({1, 1, 1, 1}, 0)
  return first(slopes(function() return attend(q, vectors{{1}, {0}}, vectors{ones, exact}) end, q,
    vectors{steps}))
end}
-- Values of ±16 about 0: slopes of ±1.
cases["attention: the gradient of queries"] = {2064, 2048, function()
  local function sign(i) return i % 2 == 0 and -1 or 1 end
  local q = full({1, 1, 1, 1}, 0)
  return first(slopes(function()
    return attend(q, sixteen(function(i) return {sign(i) * (i == 1 and 2048 or 1)} end),
      sixteen(function(i) return {16 * sign(i)} end))
  end, q, full({1, 1, 1, 1}, 1)))
end}
-- Queries of two keys that are 0, of values 4 and 0: the first key's slope is 1 times the query.
cases["attention: the gradient of keys"] = {2056, 2048, function()
  local k = full({1, 2, 1, 1}, 0)
  return first(slopes(function()
    return attend(half(steps):reshape{1, 9, 1, 1}, k, vectors{{4}, {0}})
  end, k, full({1, 9, 1, 1}, 1)))
end}

describe("partial sums in float16", function()
  local function with_option(f)
    local cfg = ipu.IPUConfig()
    cfg.matmuls.poplar_options = {partialsType = "half"}
    cfg:configure_ipu_system()
    local _ <close> = setmetatable({}, {__close = function() ipu.reset_ipu_configuration() end})
    return f()
  end
  local function scoped(dtype, f) return ipu.partials_type(dtype)(f) end

  for name, case in pairs(cases) do
    it(name, function()
      local wide <const>, narrow <const>, f <const> = table.unpack(case)
      for _, run_it in ipairs{function() return f():item() end, function()
        return ipu.func(f)():item()
      end} do
        assert.near(wide, run_it(), 2e-3)
        assert.near(narrow, scoped("float16", run_it), 2e-3)
        assert.near(narrow, with_option(run_it), 2e-3)
        assert.near(wide, with_option(function() return scoped("float32", run_it) end), 2e-3)
      end
    end)
  end

  it("leave float32 as it is", function()
    local x, w = ipu.random.uniform({3, 5, 7}, {seed = 1}), ipu.random.uniform({7, 44}, {seed = 2})
    local r, b = ipu.random.uniform({11, 44}, {seed = 3}), ipu.zeros{44}
    local q = ipu.random.uniform({2, 6, 3, 8}, {seed = 4})
    local function both()
      local y <const> = ipu.nn.lstm(x, w, r, {bias = b})
      return {y:totable(), ipu.nn.dot_product_attention(q, q, q):totable()}
    end
    assert.same(both(), scoped("float16", both))
  end)

  it("are rounded by chance at each element by itself, and alike when run again",
    function()
      local w, r = full({64, 64}, 0.3), full({64, 64}, 0.01)
      local x = full({40, 3, 64}, 1)
      local function y()
        ipu.random.set_seed(1)
        local out = ipu.stochastic_rounding(true)(function()
          return scoped("float16", function()
            return ipu.func(function()
              local sequence = ipu.nn.simple_rnn(x, w, r, {bias = full({64}, -19.2)})
              return sequence
            end)()
          end)
        end)
        return out:totable()
      end
      local one <const> = y()
      assert.same(one, y())
      local seen, count = {}, 0
      for _, row in ipairs(one) do
        for _, number in ipairs(row[3]) do
          if not seen[number] then seen[number], count = true, count + 1 end
        end
      end
      assert.is_true(count > 20)
    end)

  -- 2048 + 8 ones − 2052 by each layer's own arguments, in float16.
  it("are an argument of LSTM and GRU", function()
    for _, name in ipairs{"LSTM", "GRU", "PopnnLSTM", "PopnnGRU"} do
      local function gate(dtype)
        local given = {1, dtype = "float16", partials_dtype = dtype, kernel_initializer = "ones",
          bias_initializer = ipu.keras.initializers.Constant(-2052)}
        given[name:find "GRU" and "reset_after" or "unit_forget_bias"] = false
        return layers[name](given)(half{{steps}}):item()
      end
      -- LSTM: every gate is sigmoid(±4); GRU: z = sigmoid(±4), of a state that is 0
      local function tanh(x) return 1 - 2 / (math.exp(2 * x) + 1) end
      local g <const>, up <const> = tanh(4), sigmoid
      local lstm <const> = name:find "LSTM" ~= nil
      assert.near(lstm and up * tanh(up * g) or (1 - up) * g, gate "float32", 2e-3)
      assert.near(lstm and (1 - up) * tanh((1 - up) * -g) or up * -g, gate "float16", 2e-3)
      assert.error_matches(function() layers[name]{1, partials_dtype = "int32"} end,
        "partials_dtype must be float16 or float32, got int32")
    end
  end)

  it("reach Keras' attention and recurrent layers through the scope", function()
    local x = ipu.cast(ipu.random.uniform({2, 40, 96}, {seed = 1}), "float16")
    for name, layer in pairs{
      MultiHeadAttention = layers.MultiHeadAttention{2, 48, dtype = "float16"},
      Attention = layers.Attention{dtype = "float16"},
      AdditiveAttention = layers.AdditiveAttention{dtype = "float16"},
      LSTM = layers.LSTM{8, dtype = "float16"}, GRU = layers.GRU{8, dtype = "float16"},
      SimpleRNN = layers.SimpleRNN{8, dtype = "float16"},
      cells = layers.RNN{layers.LSTMCell{8, dtype = "float16"}, dtype = "float16"},
    } do
      local call = function()
        if name == "MultiHeadAttention" then return layer(x, x):totable() end
        return layer(name:find "Attention" and {x, x} or x):totable()
      end
      assert.not_same(call(), scoped("float16", call), name)
    end
  end)
end)
