-- Gradients through branches and loops, against central differences.

local differences = require "spec.support.differences"
local ipu = require "ipulua"

local x = ipu.tensor({0.5, -0.3, 0.85}, {dtype = "float64"})
local w = ipu.tensor({0.9, 1.1, 0.7}, {dtype = "float64"})

local function sum_of_squares(y) return ipu.reduce_sum(y * y) end
local function step(c, v) return ipu.tanh(c * v) + w * 0.5 end

local function while_until(stop, maximum)
  return function(v)
    local _, c = ipu.loops.while_loop(function(i, _) return ipu.less(i, stop) end,
      function(i, c) return i + 1, step(c, v) end, {0, v}, nil, {maximum_iterations = maximum})
    return sum_of_squares(c)
  end
end

local function branch(v)
  return ipu.reduce_sum(ipu.cond(ipu.less(1, ipu.reduce_sum(v)), function() return v * v * w end,
    function() return ipu.exp(v) end))
end

local cases <const> = {
  ["cond, the first branch"] = branch,
  ["cond, the second branch"] = function(v) return branch(v - 1) end,
  ["repeat_n"] = function(v)
    return sum_of_squares(ipu.loops.repeat_n(5, function(c) return step(c, v) end, {v}))
  end,
  ["repeat_n, no time"] = function(v)
    return sum_of_squares(ipu.loops.repeat_n(0, function(c) return step(c, v) end, {v}))
  end,
  ["repeat_n, several values"] = function(v)
    local a, b = ipu.loops.repeat_n(4, function(a, b) return ipu.sin(b), a * v + b end, {v, v * 2})
    return ipu.reduce_sum(a * b)
  end,
  ["repeat_n, a count known when it runs"] = function(v)
    local count = ipu.cast(ipu.reduce_sum(v * 0) + 300, "int32")
    return sum_of_squares(ipu.loops.repeat_n(count,
      function(c) return ipu.tanh(c * 0.9 + v * 0.3) end, {v}))
  end,
  ["while_loop"] = while_until(7),
  ["while_loop, longer than its tape"] = while_until(600),
  ["while_loop, maximum_iterations not reached"] = while_until(7, 20),
  ["while_loop, maximum_iterations reached"] = while_until(7, 4),
  ["while_loop that depends on the values"] = function(v)
    return sum_of_squares(ipu.loops.while_loop(function(c)
      return ipu.less(ipu.reduce_sum(c), 50)
    end,
      function(c) return c * 1.5 + v * v end, {v}))
  end,
  ["ipu.range with a variable"] = function(v)
    local total = ipu.Variable(ipu.tensor({0, 0, 0}, {dtype = "float64"}))
    total:assign(v)
    for _ in ipu.range(3) do total:assign(ipu.sin(total:read_value()) * v + w) end
    return sum_of_squares(total:read_value())
  end,
  ["loops and branches inside each other"] = function(v)
    return sum_of_squares(ipu.loops.repeat_n(3, function(c)
      local d = ipu.loops.repeat_n(2, function(d)
        return ipu.cond(ipu.less(ipu.reduce_sum(d), 1.2), function() return d * v + c end,
          function() return ipu.sin(d) end)
      end, {c})
      return d * w
    end, {v}))
  end,
}

describe("the gradient through", function()
  for name, f in pairs(cases) do
    it(name, function() assert.is_true(differences.worst(f, x) < 1e-7) end)
  end
  for _, name in ipairs {"cond, the first branch", "repeat_n", "while_loop",
    "while_loop, maximum_iterations not reached",
    "loops and branches inside each other"} do
    it(name .. ", a second time", function()
      assert.is_true(differences.worst(differences.derivative(cases[name], w), x) < 1e-6)
    end)
  end

  it("a loop keeps random numbers: the mask of a dropout is the same both ways", function()
    ipu.random.set_seed(1) -- of 64 elements some live and some die
    local ones = ipu.ones{64}
    local y, g = ipu.func(function(v)
      local y = ipu.loops.repeat_n(3, function(c) return ipu.nn.dropout(c, {rate = 0.5}) end, {v})
      return y, ipu.gradients(y, {v})[1]
    end)(ones)
    assert.same(y:totable(), g:totable())
    assert.is_true(ipu.reduce_max(y):item() == 8 and ipu.reduce_min(y):item() == 0)
  end)

  it("a loop whose element of a queue is gone is refused, with the line", function()
    local queue = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.tensor{1, 2}):repeat_n())
    local ok, message = pcall(ipu.func(function(v)
      local y = ipu.loops.repeat_n(3, function(c, e) return c * e end, {v}, queue)
      return ipu.gradients(y, {v})[1]
    end), ipu.tensor{1, 2})
    assert.is_false(ok)
    assert.is_truthy(message:find("control_gradients_spec.lua:%d+: gradients: .*can't take again"),
      message)
  end)

  it("a gradient without a path is nil", function()
    local found = ipu.func(function(a, b)
      local y = ipu.loops.repeat_n(2, function(c) return c * 2 end, {a})
      return y, ipu.gradients(y, {a, b})[2] == nil
    end)
    local _, none = found(ipu.tensor{1, 2}, ipu.tensor{3, 4})
    assert.is_true(none)
  end)

  local function waves(...) -- numbers in (-1, 1) that never repeat
    local shape, size, list = {...}, 1, {}
    for _, extent in ipairs(shape) do size = size * extent end
    for i = 1, size do list[i] = math.sin(i * i + size) end
    return ipu.reshape(ipu.tensor(list, {dtype = "float64"}), shape)
  end
  local fused = {
    {"lstm", function(v) return ipu.nn.lstm(v, waves(2, 12), waves(3, 12), waves(12)) end},
    {"gru", function(v) return ipu.nn.gru(v, waves(2, 9), waves(3, 9), waves(2, 9)) end},
    {"simple_rnn", function(v) return ipu.nn.simple_rnn(v, waves(2, 3), waves(3, 3), waves(3)) end},
    {"dot_product_attention", function(v)
      local heads = ipu.reshape(v, {2, 5, 1, 2})
      return ipu.nn.dot_product_attention(heads, heads * 0.5, heads, {is_causal = true})
    end},
    {"ctc_loss", function(v)
      local labels, lengths = ipu.tensor({{1, 0}, {1, 1}}, {dtype = "int32"}),
        ipu.tensor({2, 2}, {dtype = "int32"})
      local times = ipu.tensor({5, 4}, {dtype = "int32"})
      return ipu.nn.ctc_loss(labels,
        ipu.concat({ipu.reshape(v, {5, 2, 2}), ipu.zeros({5, 2, 1}, {dtype = "float64"})}, -1),
        lengths, times, {blank_index = 2})
    end},
  }
  for _, case in ipairs(fused) do
    local name, f = case[1], case[2]
    local function loss(v) return ipu.reduce_sum(ipu.square((f(ipu.reshape(v, {2, 5, 2}))))) end
    local point = waves(20)

    it(name .. " has second and third derivatives", function()
      local first = differences.derivative(loss, waves(20))
      assert.is_true(differences.worst(first, point) < 1e-7)
      assert.is_true(differences.worst(differences.derivative(first,
        ipu.ones({20}, {dtype = "float64"})), point) < 1e-6)
    end)

    it(name .. "'s Hessian is symmetric, by products with vectors", function()
      local product = ipu.func(function(v, u)
        return ipu.gradients(ipu.reduce_sum(ipu.gradients(loss(v), {v})[1] * u), {v})[1]
      end)
      local a, b = waves(20), ipu.reverse(waves(20), {0})
      local left, right = ipu.reduce_sum(product(point, a) * b):item(),
        ipu.reduce_sum(product(point, b) * a):item()
      assert.is_true(math.abs(left - right) < 1e-9 * (1 + math.abs(left)),
        left .. " is not " .. right)
      assert.is_true(math.abs(left) > 1e-3)
    end)
  end

  it("a fused op's second derivative runs inside a loop", function()
    local function descend(v)
      return ipu.loops.repeat_n(3, function(c)
        local loss = ipu.reduce_sum(
          ipu.square((ipu.nn.lstm(ipu.reshape(c, {1, 3, 2}), ipu.ones({2, 8}, {dtype = "float64"}),
          ipu.ones({2, 8}, {dtype = "float64"})))))
        return c - ipu.gradients(loss, {c})[1] * 0.1
      end, {v})
    end
    assert.is_true(differences.worst(function(v) return ipu.reduce_sum(ipu.square(descend(v))) end,
      waves(6)) < 1e-7)
  end)
end)
