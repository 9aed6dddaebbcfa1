-- Updates of variables run early, but never before a node that reads the old value.
local ipu = require "ipulua"
local keras = ipu.keras

local function int(n) return ipu.tensor(n, {dtype = "int32"}) end

local function mlp(depth, width, batch)
  local model = keras.Sequential()
  for _ = 1, depth do
    model:add(keras.layers.Dense{width, activation = "relu", use_bias = false})
  end
  model:build{batch, width}
  local optimizer = keras.optimizers.SGD(0.01)
  local x, y = ipu.ones{batch, width}, ipu.ones{batch, width}
  local train = ipu.func(function()
    local loss, variables = ipu.reduce_mean(ipu.squared_difference(model(x), y)),
      model.trainable_variables
    optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
  end)
  train()
  return ipu.graph.print(train, {program = true})
end

describe("the order of a program", function()
  it("keeps the activations of an MLP, and gradients of two layers", function()
    local depth <const>, width <const>, batch <const> = 24, 64, 128
    local kib = tonumber(mlp(depth, width, batch):match("([%d.]+) KiB of working memory"))
    local activation = batch * width * 4 / 1024
    assert(kib >= depth * activation and kib <= (depth + 4) * activation,
      kib .. " KiB for " .. depth .. " activations of " .. activation)
  end)

  it("updates a layer before the gradient of the one before it is there", function()
    local kinds = {}
    for line in mlp(4, 64, 128):gmatch("[^\n]+") do
      kinds[#kinds + 1] = line:match(" (sub) float32") or line:match(" (relu_grad) float32")
    end
    assert.same({"relu_grad", "relu_grad", "sub", "relu_grad", "sub", "relu_grad", "sub", "sub"},
      kinds)
  end)

  it("leaves old values to who reads them", function()
    local a, b, mean, t = ipu.Variable(ipu.tensor{1, 2}), ipu.Variable(ipu.tensor{3, 5}),
      ipu.Variable(ipu.zeros{2}), ipu.Variable(0.0)
    local step = ipu.func(function(n)
      return ipu.loops.repeat_n(n, function()
        local rate = 1 / (1 + t)
        local old_a = a:read_value()
        a:assign_sub(b * rate)
        b:assign_sub(old_a * rate)
        mean:assign(0.5 * mean + 0.5 * a)
        t:assign_add(1)
      end)
    end)
    step(int(4))
    local want_a, want_b, want_mean = {1, 2}, {3, 5}, {0, 0}
    for i = 1, 4 do
      for k = 1, 2 do
        want_a[k], want_b[k] = want_a[k] - want_b[k] / i, want_b[k] - want_a[k] / i
        want_mean[k] = 0.5 * want_mean[k] + 0.5 * want_a[k]
      end
    end
    for k = 1, 2 do
      assert.near(want_a[k], a:totable()[k], 1e-5)
      assert.near(want_b[k], b:totable()[k], 1e-5)
      assert.near(want_mean[k], mean:totable()[k], 1e-5)
    end
    assert.equal(4, t:item())
  end)

  -- Whole numbers below 64 are exact, also as sums of two products.
  it("gives what statements give one after the other, for random assignments", function()
    local rank <const>, steps <const> = 5, 3
    math.randomseed(20)
    for _ = 1, 150 do
      local variable, value, statement = {}, {}, {}
      for i = 1, rank do
        value[i] = {math.random(0, 9), math.random(0, 9)}
        variable[i] = ipu.Variable(ipu.tensor(value[i]))
      end
      for s = 1, math.random(3, 9) do
        statement[s] = {to = math.random(rank), from = {math.random(rank), math.random(rank)},
          kind = math.random(4), plus = math.random(0, 5)}
      end
      local swap = ipu.tensor{{0, 1}, {1, 0}}
      local run = ipu.func(function(n)
        return ipu.loops.repeat_n(n, function()
          for _, s in ipairs(statement) do
            local x, y = variable[s.from[1]], variable[s.from[2]]
            local made = s.kind == 1 and x + y + s.plus
              or s.kind == 2 and ipu.squeeze(ipu.matmul(ipu.expand_dims(x, 0), swap), {0}) + y
              or s.kind == 3 and ipu.reverse(x, {0}) + s.plus
              or ipu.reduce_sum(x) + y
            variable[s.to]:assign(ipu.mod(made, 64.0))
          end
        end)
      end)
      run(int(steps))
      for _ = 1, steps do
        for _, s in ipairs(statement) do
          local x, y = value[s.from[1]], value[s.from[2]]
          local made = s.kind == 1 and {x[1] + y[1] + s.plus, x[2] + y[2] + s.plus}
            or s.kind == 2 and {x[2] + y[1], x[1] + y[2]}
            or s.kind == 3 and {x[2] + s.plus, x[1] + s.plus}
            or {x[1] + x[2] + y[1], x[1] + x[2] + y[2]}
          value[s.to] = {made[1] % 64, made[2] % 64}
        end
      end
      for i = 1, rank do assert.same(value[i], variable[i]:totable()) end
    end
  end)

  -- A quotient of integers has no kernel in a chain, so the broadcast makes a value that it reads.
  it("makes a broadcast where what reads it has no kernel of its own", function()
    for _, n in ipairs{10, 1000, 65537} do
      for _, dtype in ipairs{"int32", "int64", "int8"} do
        local x, y = ipu.full({1}, 6, {dtype = dtype}), ipu.full({n}, 4, {dtype = dtype})
        local f = ipu.func(function(a, b) return ipu.div(ipu.broadcast_to(a, {n}), b) + 1 end)
        assert.equal(n * 2.5, ipu.reduce_sum(f(x, y)):item())
      end
    end
  end)
end)
