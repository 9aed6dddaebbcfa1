-- Numbers that fit reports, and results of losses and recurrent cells, from their formulas.

local ipu = require "ipulua"
local log = require "ipulua.base.log"
local keras = ipu.keras
local layers = keras.layers

local function close(want, got, tolerance)
  if type(want) ~= "table" then return assert.is_near(want, got, tolerance or 1e-5) end
  assert.equal(#want, #got)
  for i, each in ipairs(want) do close(each, got[i], tolerance) end
end

-- One weight w = 1, which doesn't learn; the loss of x is x².
local function square(options)
  local model = keras.Sequential{layers.Dense{1, use_bias = false, kernel_initializer = "ones",
    input_shape = {1}}}
  options = options or {}
  options.optimizer, options.loss = keras.optimizers.SGD(0), "mse"
  model:compile(options)
  return model
end

local x, zeros = ipu.tensor{{1}, {2}, {3}, {4}}, ipu.zeros{4, 1}

describe("values that fit reports", function()
  it("row 218: are means since the epoch began", function()
    local seen = {}
    local watch = keras.callbacks.LambdaCallback{on_train_batch_end = function(step, logs)
      seen[step + 1] = {logs.loss, logs.mae}
    end}
    local history = square{metrics = {"mae"}}:fit{x = x, y = zeros, batch_size = 1, shuffle = false,
      epochs = 2, verbose = 0,
      callbacks = {watch}}.history
    close({{1, 1}, {2.5, 1.5}, {14 / 3, 2}, {7.5, 2.5}}, seen) -- of the second epoch: it began anew
    close({7.5, 7.5}, history.loss)
    close({2.5, 2.5}, history.mae)
  end)

  it("row 220: the effective batch size, and updates of an execution and an epoch", function()
    local lines = log.capture("info", function()
      local model = square{steps_per_execution = 4}
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2}
      model:fit{x = x, y = zeros, batch_size = 1, verbose = 0}
    end)
    local text = table.concat(lines, "\n")
    assert.is_truthy(text:find("effective batch size is 2", 1, true), text)
    assert.is_truthy(text:find("2 weight updates in each execution and 2 in each epoch", 1, true),
      text)
  end)

  it(
    "rows 201, 216: as many steps of a replica as its share of the batches: 937, and 468 of two",
    function()
    local _ <close> = setmetatable({}, {__close = ipu.reset_ipu_configuration})
    local images, labels = ipu.zeros{60000, 1}, ipu.zeros{60000, 1}
    for ipus, steps in ipairs{937, 468} do
      ipu.reset_ipu_configuration()
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus = ipus
      cfg:configure_ipu_system()
      local ds = ipu.data.from_tensor_slices{images, labels}:batch(64, {drop_remainder = true})
      local lines, params
      lines = log.capture("warn", function()
        params = square{steps_per_execution = steps}:fit(ds, {verbose = 0}).params
      end)
      assert.equal(steps, params.steps)
      assert.equal(ipus - 1, #lines) -- one batch is left out, with a warning
    end
  end)

  it("row 216: steps of an execution at once, of as many as a replica makes", function()
    local steps, total = {}, nil
    local Watch = keras.callbacks.Callback:extend("Watch")
    function Watch:on_train_batch_end(step)
      steps[#steps + 1] = step
      total = self.params.steps
    end
    square{steps_per_execution = 2}:fit{x = x, y = zeros, batch_size = 1, verbose = 0,
      callbacks = {Watch()}}
    assert.same({1, 3}, steps)
    assert.equal(4, total)
  end)
end)

describe("losses of probabilities", function()
  local losses = keras.losses

  it("row 221: clip to 1e-7, and normalise", function()
    close(-math.log(2e-7), losses.binary_crossentropy(ipu.tensor{{1}}, ipu.tensor{{0}}):item(),
      1e-4)
    close(-math.log(0.25 + 1e-7),
      losses.binary_crossentropy(ipu.tensor{{1}}, ipu.tensor{{0.25}}):item())
    close(-math.log(1e-7),
      losses.categorical_crossentropy(ipu.tensor{{1, 0}}, ipu.tensor{{0, 2}}):item(), 1e-4)
    close(-math.log(0.25),
      losses.categorical_crossentropy(ipu.tensor{{1, 0}}, ipu.tensor{{1, 3}}):item())
    local labels = ipu.tensor({0}, {dtype = "int32"})
    close(-math.log(0.25),
      losses.sparse_categorical_crossentropy(labels, ipu.tensor{{0.2, 0.6}}):item())
    close(-math.log(1e-7),
      losses.sparse_categorical_crossentropy(ipu.tensor{0.0}, ipu.tensor{{0, 1}}):item(), 1e-4)
  end)

  it("row 221: take the logits where a softmax made the probabilities", function()
    local model = keras.Sequential{layers.Dense{2, activation = "softmax", use_bias = false,
      input_shape = {2}}}
    model:set_weights{ipu.tensor{{100, 0}, {0, 100}}}
    model:compile{loss = "sparse_categorical_crossentropy", optimizer = "sgd"}
    -- By probabilities it would be clipped to -log(1e-7) = 16.1.
    close(100, model:evaluate{x = ipu.tensor{{1, 0}}, y = ipu.tensor({1}, {dtype = "int32"}),
      batch_size = 1, verbose = 0}, 1e-3)
  end)
end)

describe("recurrent layers of one unit", function()
  local function sigmoid(v) return 1 / (1 + math.exp(-v)) end
  local function tanh(v) return 2 * sigmoid(2 * v) - 1 end
  local inputs <const> = {0.5, -1, 2}
  local sequence = ipu.tensor{{{0.5}, {-1}, {2}}}

  it("row 226: LSTM has the gates i, f, c, o", function()
    local k, r, b = {0.1, 0.2, 0.3, 0.4}, {-0.3, 0.5, 0.7, -0.2}, {0.05, 1, -0.1, 0.2}
    local layer = layers.LSTM(1)
    layer:build_once{1, 3, 1}
    layer:set_weights{ipu.tensor{k}, ipu.tensor{r}, ipu.tensor(b)}
    local h, c = 0, 0
    for _, v in ipairs(inputs) do
      local z = {}
      for g = 1, 4 do z[g] = v * k[g] + h * r[g] + b[g] end
      c = sigmoid(z[2]) * c + sigmoid(z[1]) * tanh(z[3])
      h = sigmoid(z[4]) * tanh(c)
    end
    close(h, layer(sequence):item())
  end)

  it("row 226: GRU has the gates z, r, h, and resets the product or the state", function()
    local k, r = {0.1, 0.2, 0.3}, {-0.3, 0.5, 0.7}
    local b, rb = {0.05, 0.4, -0.1}, {0.3, -0.2, 0.6}
    local after = layers.GRU(1)
    after:build_once{1, 3, 1}
    after:set_weights{ipu.tensor{k}, ipu.tensor{r}, ipu.tensor{b, rb}}
    local before = layers.GRU{1, reset_after = false}
    before:build_once{1, 3, 1}
    before:set_weights{ipu.tensor{k}, ipu.tensor{r}, ipu.tensor(b)}
    local h, g = 0, 0
    for _, v in ipairs(inputs) do
      local z, reset = sigmoid(v * k[1] + b[1] + h * r[1] + rb[1]),
        sigmoid(v * k[2] + b[2] + h * r[2] + rb[2])
      h = z * h + (1 - z) * tanh(v * k[3] + b[3] + reset * (h * r[3] + rb[3]))
      z, reset = sigmoid(v * k[1] + b[1] + g * r[1]), sigmoid(v * k[2] + b[2] + g * r[2])
      g = z * g + (1 - z) * tanh(v * k[3] + b[3] + reset * g * r[3])
    end
    close(h, after(sequence):item())
    close(g, before(sequence):item())
  end)
end)
