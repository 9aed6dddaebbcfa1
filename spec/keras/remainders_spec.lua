-- Smaller last batches, and datasets of unknown size, in fit, evaluate and predict. Results are
-- compared with the same arithmetic written out sample by sample.

local config = require "ipulua.config"
local core = require "ipulua.core"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

local samples <const>, rate <const> = 37, 0.05

-- Numbers that float32 holds: multiples of 1/8.
local function number(i) return (i * 7 % 23 - 11) / 8 end

local xs, ys = {}, {}
for i = 1, samples do
  xs[i] = {number(i), number(3 * i + 1)}
  ys[i] = {number(5 * i + 2)}
end
local x, y = ipu.tensor(xs, "float32"), ipu.tensor(ys, "float32")
local pairs_of <const> = data.from_tensor_slices{x, y}

-- y = w x + b by gradient descent on the mean squared error of each batch, in float64. Also Keras'
-- loss of an epoch, the mean over its samples.
local function by_hand(batch, epochs, keep_remainder)
  local w, b, losses = {0, 0}, 0, {}
  for e = 1, epochs do
    local sum, count = 0, 0
    for first = 1, samples, batch do
      local n = math.min(batch, samples - first + 1)
      if n == batch or keep_remainder then
        local slope, shift = {0, 0}, 0
        for i = first, first + n - 1 do
          local d = w[1] * xs[i][1] + w[2] * xs[i][2] + b - ys[i][1]
          sum, count = sum + d * d, count + 1
          for k = 1, 2 do slope[k] = slope[k] + 2 / n * d * xs[i][k] end
          shift = shift + 2 / n * d
        end
        for k = 1, 2 do w[k] = w[k] - rate * slope[k] end
        b = b - rate * shift
      end
    end
    losses[e] = sum / count
  end
  return w, b, losses
end

local function line(options)
  local model = keras.Sequential{layers.Dense{1, input_shape = {2}, kernel_initializer = "zeros"}}
  options = options or {}
  options.loss, options.optimizer = "mse", keras.optimizers.SGD{rate}
  model:compile(options)
  return model
end

local function weights_of(model)
  local list = model:get_weights()
  return {list[1]:totable()[1][1], list[1]:totable()[2][1]}, list[2]:totable()[1]
end

local function assert_trained(model, batch, epochs, keep_remainder)
  local w, b = by_hand(batch, epochs, keep_remainder)
  local got, shift = weights_of(model)
  for k = 1, 2 do assert.is_near(w[k], got[k], 1e-6) end
  assert.is_near(b, shift, 1e-6)
end

-- The warnings while f runs.
local function warnings_of(f)
  local list = {}
  local former = log.set_writer(function(text) list[#list + 1] = tostring(text) end)
  local ok, problem = pcall(f)
  log.set_writer(former)
  assert(ok, problem)
  return list
end

-- "steps of the execution: samples" of all executions.
local function counting()
  local seen = {}
  local Count = keras.callbacks.Callback:extend("Count")
  for _, kind in ipairs{"train", "test", "predict"} do
    Count["on_" .. kind .. "_batch_end"] = function(_, batch, _, info)
      seen[#seen + 1] = string.format("%d-%d:%d", info.step_first, batch, info.samples)
    end
  end
  return Count(), seen
end

local function unknown(d) return d:filter(function() return true end) end

describe("a last batch that is smaller", function()
  for name, feed in pairs{
    ["of tensors"] = {x, y, batch_size = 8},
    ["of a dataset"] = {pairs_of:batch(8)},
    ["of a dataset that was mapped behind the batch"] =
      {pairs_of:batch(8):map(function(a, b) return a, b end)},
    ["of a dataset of unknown size"] = {unknown(pairs_of):batch(8)},
    ["of a generator"] = {data.from_generator(function()
      local i = 0
      return function()
        i = i + 1
        if i <= samples then return xs[i], ys[i] end
      end
    end, {"float32", "float32"}, {{2}, {1}}):batch(8)},
  } do
    it(name .. " is trained on, tested and predicted", function()
      local model = line()
      local count, seen = counting()
      local options = {epochs = 3, shuffle = false, verbose = 0, callbacks = {count}}
      for key, value in pairs(feed) do options[key] = value end
      local history = model:fit(options)
      assert.equal("0-0:8 1-1:8 2-2:8 3-3:8 4-4:5", table.concat(seen, " ", 1, 5))
      assert.equal(15, #seen)
      assert_trained(model, 8, 3, true)
      local _, _, losses = by_hand(8, 3, true)
      for e = 1, 3 do assert.is_near(losses[e], history.history.loss[e], 1e-5) end

      local w, b = weights_of(model)
      local sum, given = 0, model:predict{feed[1], batch_size = feed.batch_size}
      assert.same({samples, 1}, core.plain(given.shape))
      for i = 1, samples do
        local predicted = w[1] * xs[i][1] + w[2] * xs[i][2] + b
        assert.is_near(predicted, given:totable()[i][1], 1e-5)
        sum = sum + (predicted - ys[i][1]) ^ 2
      end
      local evaluated = {verbose = 0, batch_size = feed.batch_size, feed[1], feed[2]}
      assert.is_near(sum / samples, model:evaluate(evaluated), 1e-5)
    end)
  end

  it("may stand anywhere in a dataset", function()
    local count, seen = counting()
    line():fit{pairs_of:take(5):batch(4):repeat_n(2), verbose = 0, callbacks = {count}}
    assert.same({"0-0:4", "1-1:1", "2-2:4", "3-3:1"}, seen)
  end)

  it("has one program for all epochs", function()
    local model, made = line(), 0
    model:fit{x, y, batch_size = 8, epochs = 3, verbose = 0}
    for _ in pairs(model._programs) do made = made + 1 end
    assert.equal(2, made)
  end)

  it("has the bits of a dataset of its size", function()
    local function model()
      keras.utils.set_random_seed(3)
      local m = keras.Sequential{layers.Dense{4, input_shape = {2}, activation = "tanh"},
        layers.BatchNormalization(), layers.Dense{1}}
      m:compile{loss = "mse", optimizer = "adam", metrics = {"mae"}}
      return m
    end
    local whole, parts = model(), model()
    whole:fit{x, y, batch_size = 32, shuffle = false, verbose = 0}
    parts:fit{pairs_of:take(32):batch(32, {drop_remainder = true}), verbose = 0}
    parts:fit{pairs_of:skip(32):batch(5, {drop_remainder = true}), verbose = 0}
    for i, w in ipairs(whole:get_weights()) do
      assert.same(w:totable(), parts:get_weights()[i]:totable())
    end
  end)

  it("is an execution of its own beside executions of several steps, which must divide the others",
    function()
      local model = line{steps_per_execution = 2}
      local count, seen = counting()
      model:fit{x, y, batch_size = 8, epochs = 2, shuffle = false, verbose = 0,
        callbacks = {count}}
      assert.same({"0-1:16", "2-3:16", "4-4:5"}, {table.unpack(seen, 1, 3)})
      assert_trained(model, 8, 2, true)
      for _, feed in ipairs{{x, y, batch_size = 8}, {pairs_of:batch(8)}} do
        feed.verbose = 0
        assert.error_matches(function() line{steps_per_execution = 3}:fit(feed) end,
          "steps_per_execution, 3, must be a divisor of the number of steps, [45]$")
      end
    end)

  it("of a dataset of unknown size ends in a shorter execution", function()
    local model = line{steps_per_execution = 3}
    local count, seen = counting()
    model:fit{unknown(pairs_of):batch(8), epochs = 2, verbose = 0, callbacks = {count}}
    assert.same({"0-2:24", "3-3:8", "4-4:5"}, {table.unpack(seen, 1, 3)})
    assert_trained(model, 8, 2, true)
  end)

  it("and a batch of another size in the middle end an execution early", function()
    -- which batches are whole is found by reading: 12, 12, 12, 1 and 8, 29, 37, 37
    local sizes = pairs_of:take(8):batch(8):concatenate(pairs_of:skip(8):batch(29))
      :concatenate(pairs_of:repeat_n(2):batch(37))
    local cases <const> = {{pairs_of:batch(12), {"0-1:24", "2-2:12", "3-3:1"}},
      {sizes, {"0-0:8", "1-1:29", "2-2:37", "3-3:37"}}}
    for _, case in ipairs(cases) do
      local model, alone = line{steps_per_execution = 2}, line()
      local count, seen = counting()
      model:fit{case[1], epochs = 2, verbose = 0, callbacks = {count}}
      alone:fit{case[1], epochs = 2, verbose = 0}
      assert.same(case[2], table.move(seen, 1, #case[2], 1, {}))
      assert.same(alone:get_weights()[1]:totable(), model:get_weights()[1]:totable())
      assert.same(alone:predict(case[1]):totable(), model:predict(case[1]):totable())
    end
    local model = line{steps_per_execution = 2}
    model:fit{pairs_of:batch(12), epochs = 2, verbose = 0}
    assert_trained(model, 12, 2, true)
  end)

  it("is validated on", function()
    local history = line():fit{x, y, batch_size = 8, validation_split = 0.3, shuffle = false,
      verbose = 0}
    local model = line()
    local kept = math.floor(samples * 0.7)
    model:fit{ipu.slice(x, {0, 0}, {kept, 2}), ipu.slice(y, {0, 0}, {kept, 1}), batch_size = 8,
      shuffle = false, verbose = 0}
    local w, b = weights_of(model)
    local sum = 0
    for i = kept + 1, samples do
      sum = sum + (w[1] * xs[i][1] + w[2] * xs[i][2] + b - ys[i][1]) ^ 2
    end
    assert.is_near(sum / (samples - kept), history.history.val_loss[1], 1e-5)
  end)

  it("is left out with accumulated gradients, which is said once", function()
    local model = line{steps_per_execution = 2}
    model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2,
      gradient_accumulation_reduction_method = "MEAN"}
    local said = warnings_of(function()
      model:fit{x, y, batch_size = 8, epochs = 3, shuffle = false, verbose = 0}
    end)
    assert.equal(1, #said)
    assert.matches("fit: a smaller batch of 5 samples at the end is left out", said[1])
    -- two batches of 8 are one of 16
    assert_trained(model, 16, 3, false)
  end)

  it("is left out on replicas by fit and evaluate; predict refuses it", function()
    local machine = config.IPUConfig()
    machine.auto_select_ipus = 2
    machine:configure_ipu_system()
    finally(config.reset_ipu_configuration)
    local _ <close> = ipu.IPUStrategy():scope()
    local model = line()
    local count, seen = counting()
    local said = warnings_of(function()
      model:fit{x, y, batch_size = 8, shuffle = false, verbose = 0, callbacks = {count}}
      model:evaluate{x, y, batch_size = 8, verbose = 0}
    end)
    assert.same({"0-0:16", "1-1:16"}, seen)
    assert.equal(1, #said)
    assert.error_matches(function() model:predict{x, batch_size = 8} end,
      "predict: 37 samples in batches of 8: it has a partial batch")
  end)

  -- Ten samples in batches of two, whose number is not known beforehand. An execution of two
  -- replicas takes two batches, of two steps four.
  it("of batches on replicas is refused by predict, and by an epoch that has nothing else",
    function()
    local machine = config.IPUConfig()
    machine.auto_select_ipus = 2
    machine:configure_ipu_system()
    finally(config.reset_ipu_configuration)
    local _ <close> = ipu.IPUStrategy():scope()
    local function batches(rows)
      local all = ipu.data.from_tensor_slices{x:slice({0, 0}, {rows, 2}),
        y:slice({0, 0}, {rows, 1})}
      return all:filter(function() return true end):batch(2, {drop_remainder = true})
    end
    local model = line()
    for _ = 1, 2 do -- the second time, too
      assert.error_matches(function() model:predict(batches(10)) end,
        "predict: 5 batches make no whole execution, which takes 2 batches")
    end
    assert.same({8, 1}, model:predict(batches(8)).shape)
    local larger = line{steps_per_execution = 2}
    for _, verb in ipairs{"fit", "evaluate", "predict"} do
      assert.error_matches(function() larger[verb](larger, batches(6), {verbose = 0}) end,
        verb .. ": 3 batches make no whole execution, which takes 4 batches %(2 steps on 2 "
        .. "replicas%)")
    end
    -- five batches are an execution, and one that is left out
    local said = log.capture("warn", function()
      assert.equal(1, #larger:fit(batches(10), {verbose = 0}).history.loss)
    end)
    assert.matches("fit: 1 batch at the end is left out", said[1])
    assert.equal(2, larger.optimizer.iterations:item())
  end)

  it("goes on where a backup was made", function()
    local command = require "spec.support.command"
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local function model()
      keras.utils.set_random_seed(5)
      local m = keras.Sequential{layers.Dense{4, input_shape = {2}}, layers.Dropout{0.3},
        layers.Dense{1}}
      m:compile{loss = "mse", optimizer = "adam"}
      return m
    end
    local through = model()
    through:fit{x, y, batch_size = 8, epochs = 4, verbose = 0}
    local Stop = keras.callbacks.Callback:extend("Stop")
    local stops = true
    function Stop:on_epoch_end(epoch) -- luacheck: ignore 212
      if epoch == 1 and stops then error("stopped") end
    end
    local function options()
      return {x, y, batch_size = 8, epochs = 4, verbose = 0,
        callbacks = {keras.callbacks.BackupAndRestore{folder}, Stop()}}
    end
    local cut = model()
    assert.is_false((pcall(cut.fit, cut, options())))
    stops = false
    local resumed = model()
    resumed:fit(options())
    for i, w in ipairs(through:get_weights()) do
      assert.same(w:totable(), resumed:get_weights()[i]:totable())
    end
  end)
end)

describe("a dataset of unknown size", function()
  it("is read to its end in each epoch; the count is shown when it is known", function()
    local command = require "spec.support.command"
    local r = command.run{command.ipulua, "-e", [[
      local ipu = require "ipulua"
      local m = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {1}}}
      m:compile{optimizer = "sgd", loss = "mse"}
      local d = ipu.data.range(20):map(function(i)
        return ipu.reshape(ipu.cast(i, "float32"), {1})
      end)
      local function is_small(v) return ipu.reduce_all(ipu.less(v, 10)) end
      m:fit{ipu.data.zip{d, d}:filter(is_small):batch(4), epochs = 2}]],
      env = {IPULUA_PROGRESS = "line"}}
    local said = r.out .. r.err
    local _, epochs = said:gsub("\n3/3 %[", "")
    assert.equal(2, epochs, said)
  end)

  it("may differ from epoch to epoch", function()
    local opened = 0
    local d = data.from_generator(function()
      opened = opened + 1
      local left = 4 * opened
      return function()
        left = left - 1
        if left >= 0 then return {1, 2}, {3} end
      end
    end, {"float32", "float32"}, {{2}, {1}}):batch(4)
    local count, seen = counting()
    line():fit{d, epochs = 3, verbose = 0, callbacks = {count}}
    assert.same({"0-0:4", "0-0:4", "1-1:4", "0-0:4", "1-1:4", "2-2:4"}, seen)
  end)

  it("that ends before the steps that were asked for is told", function()
    assert.error_matches(function()
      line():fit{unknown(pairs_of):batch(8), steps_per_epoch = 9, verbose = 0}
    end, "end of data: the dataset gave 5 elements")
  end)

  it("without an end needs steps_per_epoch", function()
    assert.error_matches(function() line():fit{pairs_of:batch(8):repeat_n(), verbose = 0} end,
      "endless.*give 'steps_per_epoch'")
  end)
end)

-- 100 numbers in batches of 30, 30, 30 and 10, again and again. So an epoch of 3 steps has the
-- batches 3, 4, 1 in its turn. Keras 2.6 runs as many steps as it is asked for.
describe("a smaller batch in the middle of the data", function()
  local numbers = ipu.cast(ipu.reshape(ipu.arange(100), {100, 1}), "float32")
  local batches <const> = {{0, 29}, {30, 59}, {60, 89}, {90, 99}}

  -- The mean of the labels that an epoch reads.
  local function expected(epoch, steps)
    local sum, count = 0, 0
    for k = (epoch - 1) * steps, epoch * steps - 1 do
      local from, to = table.unpack(batches[k % 4 + 1])
      sum, count = sum + (from + to) * (to - from + 1) / 2, count + to - from + 1
    end
    return sum / count
  end

  for _, per_execution in ipairs{1, 2, 3, 6} do
    it("leaves an epoch its steps, " .. per_execution .. " to an execution", function()
      local layer = layers.Dense{1, kernel_initializer = "zeros", input_shape = {1}}
      local model = keras.Sequential{layer}
      model:compile{loss = "mae", optimizer = keras.optimizers.SGD{0},
        steps_per_execution = per_execution}
      local endless = data.from_tensor_slices{ipu.zeros{100, 1}, numbers}:batch(30):repeat_n()
      for _, steps in ipairs{per_execution, 2 * per_execution} do
        local former = model.optimizer.iterations:item()
        local history = model:fit{endless, epochs = 5, steps_per_epoch = steps, verbose = 0}.history
        assert.equal(5 * steps, model.optimizer.iterations:item() - former)
        for epoch = 1, 5 do assert.near(expected(epoch, steps), history.loss[epoch], 1e-4) end
        assert.near(expected(1, steps), model:evaluate{endless, steps = steps, verbose = 0}, 1e-4)
      end
    end)
  end
end)

-- Keras trains on batches of any size. The same arithmetic in float64, a batch of its rows each.
describe("batches that grow", function()
  local function by_sizes(sizes, epochs)
    local w, b, losses = {0, 0}, 0, {}
    for e = 1, epochs do
      local sum, first = 0, 0
      for _, n in ipairs(sizes) do
        local slope, shift = {0, 0}, 0
        for i = first + 1, first + n do
          local d = w[1] * xs[i][1] + w[2] * xs[i][2] + b - ys[i][1]
          sum, shift = sum + d * d, shift + 2 / n * d
          for k = 1, 2 do slope[k] = slope[k] + 2 / n * d * xs[i][k] end
        end
        for k = 1, 2 do w[k] = w[k] - rate * slope[k] end
        b, first = b - rate * shift, first + n
      end
      losses[e] = sum / first
    end
    return w, b, losses
  end

  local function part(from, n)
    return data.from_tensor_slices{x:slice({from, 0}, {n, 2}), y:slice({from, 0}, {n, 1})}
  end

  local function of_sizes(sizes)
    return data.from_generator(function()
      local i, first = 0, 0
      return function()
        i = i + 1
        local n = sizes[i]
        if not n then return nil end
        first = first + n
        return x:slice({first - n, 0}, {n, 2}), y:slice({first - n, 0}, {n, 1})
      end
    end, {"float32", "float32"}, {{-1, 2}, {-1, 1}})
  end

  local whole <const> = {drop_remainder = true}
  local cases <const> = {
    {"of two datasets", {5, 16, 16}, part(0, 5):batch(5):concatenate(part(5, 32):batch(16))},
    {"of two datasets without remainders", {5, 16, 16},
      part(0, 5):batch(5, whole):concatenate(part(5, 32):batch(16, whole))},
    {"of a generator", {4, 9, 9, 2, 13}, of_sizes{4, 9, 9, 2, 13}},
  }

  -- The first element says how many rows a whole batch has.
  it("are executions of several steps, where a part without remainders comes first", function()
    local first = part(0, 32):batch(8, whole)
    local model = line()
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(rate), steps_per_execution = 2}
    local executions = {}
    local show = keras.callbacks.LambdaCallback{on_train_batch_end = function(_, _, info)
      executions[#executions + 1] = info.samples
    end}
    model:fit{first:concatenate(part(32, 5):batch(5)), verbose = 0, callbacks = show}
    assert.same({16, 16, 5}, executions)
    local w = by_sizes({8, 8, 8, 8, 5}, 1)
    for k = 1, 2 do assert.near(w[k], weights_of(model)[k], 1e-5) end
  end)

  for _, case in ipairs(cases) do
    local name, sizes, d = table.unpack(case)
    it(name .. " are trained on, tested and predicted", function()
      local model = line()
      local history = model:fit{d, epochs = 3, verbose = 0}
      local w, b, losses = by_sizes(sizes, 3)
      for e = 1, 3 do assert.near(losses[e], history.history.loss[e], 1e-5) end
      local found, shift = weights_of(model)
      for k = 1, 2 do assert.near(w[k], found[k], 1e-5) end
      assert.near(b, shift, 1e-5)
      local sum, outputs = 0, model:predict(d:map(function(a) return a end)):totable()
      assert.are.equal(37, #outputs)
      for i, row in ipairs(outputs) do
        assert.near(w[1] * xs[i][1] + w[2] * xs[i][2] + b, row[1], 1e-5)
        sum = sum + (row[1] - ys[i][1]) ^ 2
      end
      assert.near(sum / 37, model:evaluate(d, {verbose = 0}), 1e-5)
    end)
  end

  it("are refused where a model fixes the batch", function()
    local function fixed(d)
      local input = keras.Input{shape = {2}, batch_size = 5}
      local model = keras.Model{inputs = input, outputs = layers.Dense{1}(input)}
      model:compile{loss = "mse", optimizer = "sgd"}
      model:fit{d, verbose = 0}
    end
    assert.error_matches(function() fixed(cases[1][3]) end,
      "a batch of the dataset has 16 samples, the first one 5; .* need batches of one size")
    assert.error_matches(function() fixed(cases[3][3]) end, "every shape must be fully known")
  end)
end)
