-- More programs with published figures, for spec/support/programs.lua: functions, recurrent
-- networks and loops of Graphcore's TensorFlow tests (N rows), machines and pipelines (V rows).

local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

---@param row function (id, what, published, tolerance, note, run, why)
---@param t table helpers of programs.lua: chip, f16, memory, weight, example, small_model, …
return function(row, t)
  local chip, f16, memory, weight = t.chip, t.f16, t.memory, t.weight

  -- A model's estimate per training step; code counted.
  local function training(build, batch, options)
    options = options or {}
    return function()
      local e = ipu.estimate(build, {batch_size = batch,
        target = chip(options.tiles or 1472, options.code ~= false), host = "model",
        ipus = options.ipus})
      ipu.reset_ipu_configuration()
      return e
    end
  end

  -- ------------------------------------------------ functions

  row("N02", "total", 278188, 0.5, "two outlined dense layers, SGD, 8 tiles", function()
    local w1, w2 = weight{64, 64}, weight{64, 64}
    return ipu.estimate(function(a, b, c, labels)
      local function f(x, w, bias) return ipu.sigmoid(ipu.matmul(x, w) + bias) end
      local y1 = f(a, w1, b)
      local y = y1 - f(y1, w2, c)
      local loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}(labels, y)
      local g = ipu.gradients(loss, {w1, w2})
      w1:assign_sub(g[1] * 0.001)
      w2:assign_sub(g[2] * 0.001)
      return y
    end, {inputs = {{64, 64}, {64, 64}, {64, 64}, {shape = {64}, dtype = "int32"}},
      target = chip(8, false), host = "model"})
  end)

  local lookup = memory(function(table_, ids)
    local sum
    for i = 0, 9 do
      local part = ipu.slice(table_, {i * 2000, 0}, {2000, 128})
      local at = ids - i * 2000
      local inside = ipu.logical_and(at:greater_equal(0), at:less(2000))
      local rows = ipu.gather(part, ipu.clip_by_value(at, 0, 1999))
        * ipu.expand_dims(ipu.cast(inside, "float16"), 1)
      sum = sum and sum + rows or rows
    end
    return sum
  end, {f16{20000, 128}, {shape = {20}, dtype = "int32"}}, chip(8, false))
  row("N03", "total", 6415442, 0.10, "lookup in ten slices of a table, 8 tiles", lookup)

  row("N16", "total", 19343192, 0.5,
    "a table looked up and multiplied with, 8 tiles, code", function()
    local w = weight({20000, 128}, "float16")
    return ipu.estimate(function(ids)
      return ipu.matmul(ipu.gather(w, ids), w, {transpose_b = true})
    end,
      {inputs = {{shape = {50}, dtype = "int32"}}, target = chip(8, true), host = "model"})
  end)

  row("N22", "total", 1559766, 0.5, "ten dense layers of 256, 8 tiles, code", function()
    local list = {}
    for i = 1, 10 do list[i] = weight({i == 1 and 4 or 256, 256}, "float16") end
    return ipu.estimate(function(x, labels)
      for i = 1, 10 do x = ipu.matmul(x, list[i]) end
      return keras.losses.CategoricalCrossentropy{from_logits = true}(labels, x)
    end, {inputs = {f16{16, 4}, f16{16, 256}}, target = chip(8, true), host = "model"})
  end)

  -- Rows of a table on the host: looked up, sent back, returned.
  for _, r in ipairs{{"N12", 20, 1, 46124}, {"N13", 200, 1, 440684}, {"N14", 20, 2, 47468},
    {"N15", 200, 2, 453548}} do
    local id, width, updates, published = table.unpack(r)
    local times = updates > 1 and "twice" or "once"
    row(id, "max", published, 0.10,
      string.format("4096 rows of %d from the host, sent back %s, 8 tiles", width, times),
      memory(function(ids)
        local rows = ipu.host_callback(function() return ipu.zeros{4096, width} end,
          {outputs = {{{4096, width}, "float32"}}})(ids)
        for _ = 1, updates do
          ipu.host_callback(function() return ipu.zeros{} end,
            {outputs = {{{}, "float32"}}})(ids, rows)
        end
        return rows
      end, {{shape = {4096}, dtype = "int32"}}, chip(8, false)))
  end

  -- ------------------------------------------------ recurrent networks

  local function recurrent(cells, time)
    return function()
      local list = {}
      for i, cell in ipairs(cells) do
        list[#list + 1] = layers[cell[1]]{cell[2], return_sequences = i < #cells,
          input_shape = i == 1 and {time, 16} or nil}
        list[#list + 1] = layers.Dropout{0.25}
      end
      list[#list + 1] = layers.Dense{16}
      local model = keras.Sequential(list)
      model:compile{optimizer = keras.optimizers.Adam{learning_rate = 0.01, epsilon = 1e-3},
        loss = "mse"}
      return model
    end
  end
  row("N05", "cycles", 109996, 1.0, "recurrent network of 256, 5 steps, Adam",
    training(recurrent({{"SimpleRNN", 256}}, 5), 2))
  row("N06", "cycles", 164642, 1.0, "two recurrent layers of 128, 5 steps, Adam",
    training(recurrent({{"SimpleRNN", 128}, {"SimpleRNN", 128}}, 5), 2))
  row("N07", "cycles", 199666, 1.0, "two LSTM layers of 128, 3 steps, Adam",
    training(recurrent({{"LSTM", 128}, {"LSTM", 128}}, 3), 2))
  row("N08", "cycles", 137800, 1.0, "the same network of 256 from layers",
    training(recurrent({{"SimpleRNN", 256}}, 5), 2))
  row("N05", "total", 20259402, 1.0, "recurrent network of 256, 5 steps, Adam",
    training(recurrent({{"SimpleRNN", 256}}, 5), 2))
  local function keras_lstm()
    local model = keras.Sequential{layers.LSTM{64, input_shape = {20, 16}}, layers.Dense{8}}
    model:compile{optimizer = "adam", loss = "mse"}
    return model
  end
  row("N11", "cycles", 790804, 1.0, "LSTM of 64, 20 steps, batch 16, Adam",
    training(keras_lstm, 16))
  row("N11", "total", 21240386, 1.0, "", training(keras_lstm, 16))

  -- ------------------------------------------------ networks

  row("N19", "max", 162410, 0.10,
    "variables of twenty dense layers of 1400, initialised, code", function()
    local list = {weight({50176, 1400}, "float16")}
    for i = 2, 20 do list[i] = weight({1400, 1400}, "float16") end
    list[21] = weight({1400, 4}, "float16")
    return ipu.estimate(function()
      for _, w in ipairs(list) do
        w:assign(ipu.random.truncated_normal(w.shape, {stddev = 0.01, dtype = "float16"}))
      end
    end, {inputs = {}, target = chip(1472, true), host = "model"})
  end)

  local function in_loop(accumulation)
    return function()
      local function build()
        local model = t.small_model(t.sgd)
        if accumulation then
          model:set_gradient_accumulation_options{
            gradient_accumulation_steps_per_replica = accumulation}
        end
        return model
      end
      return ipu.estimate(build, {batch_size = 1, target = chip(1472, false), host = "model"})
    end
  end
  row("N26", "total", 40593174, 1.0, "small residual network, SGD in a loop", in_loop())
  row("N27", "total", 42952761, 1.0, "the same, accumulation over 5", in_loop(5))

  row("N30", "max", 68852, 0.10, "slices of a wide loop variable, 128 tiles, code", function()
    return ipu.estimate(function()
      local x = ipu.broadcast_to(ipu.tensor(4.0), {512, 2, 2048})
      local _, _, y = ipu.loops.while_loop(function(i, _, _)
        return i:less(2)
      end, function(i, v, sum)
        local part = ipu.gather(ipu.gather(v, i), i)
        return i + 1, v + 1, sum + ipu.reduce_mean(part)
      end, {ipu.tensor(0, {dtype = "int32"}), x, ipu.tensor{10.0}})
      return y
    end, {inputs = {}, target = chip(128, true), host = "model"})
  end)

  -- ------------------------------------------------ BERT

  local bert = t.bert
  local packed = "published with sequences packed: about two in each row of 512, of which we count "
    .. "one"
  local long = {512, 76, 1024, 16, 30528, 24, 4}
  row("V-44", "rate", 2126, 0.20, "BERT-Large phase 2, Bow Pod16, micro-batch 2",
    bert(long, 16, 512, 2), packed)
  row("V-44", "rate", 7789, 0.20, "BERT-Large phase 2, Bow Pod64, micro-batch 2",
    bert(long, 64, 512, 2), packed)
  row("V-44", "rate", 16391, 0.20, "BERT-Base phase 1, Bow Pod16",
    bert({128, 20, 768, 12, 30528, 12, 4}, 16, 512))

  -- Two halves of BERT-Large, inference on a pipeline of two IPUs.
  local function bert_inference()
    local build = t.example("estimate_bert", {"gc200", "1", "8"},
      {["128, 20, 1024, 16, 30528, 24, 16"] = "128, 128, 1024, 16, 2, 24, 2",
        ["return 1 %+ %(block %- 1%) %* %(stages %- 2%) // %(blocks %- 2%)"] = "return block * "
        .. "stages // blocks",
        ["layers%.Embedding{vocabulary, width}"] = "layers.Embedding{30522, width}"})()
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local e = ipu.estimate(build, {batch_size = 1, target = "gc200", ipus = 2, training = false})
    keras.mixed_precision.set_global_policy("float32")
    ipu.reset_ipu_configuration()
    return e
  end
  row("V-52", "variables 1", 416.2e6, 0.10, "BERT-Large inference, first of two IPUs: variables",
    bert_inference,
    "ours are the weights alone; what else was counted there isn't said")
  row("V-52", "variables 2", 353.9e6, 0.10, "… second", bert_inference,
    "the same")
  row("V-52", "code 1", 9.66e6, 0.25, "… vertex code, first", bert_inference)
  local shared = "twelve equal layers share all of it here, a part of it there: without outlining "
    .. "ours is %s"
  row("V-52", "state 1", 12.83e6, 0.25, "… vertex state, first", bert_inference,
    shared:format("1.8 times the published"))
  row("V-52", "exchange 1", 15.54e6, 0.25, "… exchange code, first", bert_inference,
    shared:format("3.7 times the published"))
  row("V-52", "control 1", 16.54e6, 0.25, "… control code, first", bert_inference,
    shared:format("0.45 of the published"))
  row("V-52", "max", 336670, 0.15, "… fullest tile", bert_inference)

  -- ------------------------------------------------ machines

  local function inference(name, shape_of)
    return function()
      local best
      for _, batch in ipairs{1, 2, 4, 8, 16, 32, 64, 128} do
        local e = shape_of(batch)
        if not e.fits then break end
        if not best or e.samples_per_second > best.samples_per_second then best = e end
      end
      return assert(best, name .. " does not fit")
    end
  end
  local function with_tiles_for_io(f)
    local cfg = ipu.IPUConfig()
    cfg.io_tiles.num_io_tiles = 32
    cfg.io_tiles.place_ops_on_io_tiles = true
    cfg.convolutions.poplar_options = {partialsType = "half"}
    cfg.matmuls.poplar_options = {partialsType = "half"}
    cfg:configure_ipu_system()
    local e = f()
    keras.mixed_precision.set_global_policy("float32")
    ipu.reset_ipu_configuration()
    return e
  end
  row("V-46", "rate", 13499, 0.25, "ResNet-50 inference, C600",
    inference("ResNet-50", function(batch)
    local build = t.example("estimate_resnet", {"c600", "1", "1"})()
    return with_tiles_for_io(function()
      keras.mixed_precision.set_global_policy("float16")
      local model = build()
      model.steps_per_execution = 1000
      return ipu.estimate(model, {batch_size = batch, target = "c600", ipus = 1, training = false})
    end)
  end))

  row("V-45", "ratio", 1.375, 0.02,
    "the same network on Bow and on an M2000 (BERT-Base; there a Conformer)", function()
    local function rate(target)
      local build = t.example("estimate_bert", {target, "8", "512"}, {
        ["128, 20, 1024, 16, 30528, 24, 16"] = "128, 20, 768, 12, 30528, 12, 4",
        ["return 1 %+ %(block %- 1%) %* %(stages %- 2%) // %(blocks %- 2%)"] = "return block * "
        .. "stages // blocks"})()
      local strategy = ipu.IPUStrategy()
      local _ <close> = strategy:scope()
      local e = ipu.estimate(build, {batch_size = 8, target = target, ipus = 4})
      keras.mixed_precision.set_global_policy("float32")
      ipu.reset_ipu_configuration()
      return e.samples_per_second
    end
    return {ratio = rate("bow") / rate("gc200")}
  end)
  row("V-47", "ratio", 5.67 / 3.79, 0.12,
    "ResNet-50 to the same accuracy: Pod256 over Pod128", function()
    return {ratio = t.resnet(256, 5)().samples_per_second / t.resnet(128, 5)().samples_per_second}
  end, "time to train: larger batches take more epochs; throughput alone is nearer to the number "
    .. "of machines")
  row("V-50", "milliseconds", 1.6, 0.30, "8.8 MB from the device", function()
    local e = ipu.estimate(function(x) return ipu.broadcast_to(x, {2200000}) + 1.0 end,
      {inputs = {{shape = {}}}, target = "gc200"})
    local none = ipu.estimate(function(x) return x + 1.0 end,
      {inputs = {{shape = {}}}, target = "gc200"})
    return {milliseconds = 1e3 * (e.seconds - none.seconds)}
  end)
  row("V-49", "seconds", 9.15, 0.15,
    "10,000 calls of the host, or one for ten batches: the difference", function()
    local function seconds(steps)
      local model = keras.Sequential{layers.Flatten{input_shape = {28, 28}},
        layers.Dense{128, activation = "relu"}, layers.Dense{10}}
      model:compile{optimizer = "sgd",
        loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
        steps_per_execution = steps}
      return 10000 * ipu.estimate(model, {batch_size = 32, target = "gc200"}).seconds
    end
    return {seconds = seconds(1) - seconds(10)}
  end)

  -- ------------------------------------------------ single figures of tutorials

  -- A step whose vertex takes 3,600 cycles, seen as the distance of stamps in a loop.
  row("V-51", "cycles", 3650, 0.02, "a step of 3,600 cycles in a loop", function()
    local function cycles(count)
      local e = ipu.estimate(function(x)
        for _ = 1, count do x = ipu.sin(x) end
        return x
      end, {inputs = {{1472 * 140}}, target = chip(1472, false), host = "model"})
      return e.cycles.total
    end
    -- 140 elements a tile: 24 to the slowest of six workers, 25 cycles each
    local vertex <const> = 6 * (26 + 24 * 25) + 11
    return {cycles = {total = 3600 + cycles(2) - cycles(1) - vertex}}
  end, "hardware, of which 23 to 50 cycles aren't the vertex; the IPU Model's step of 250 has the "
    .. "sync and an exchange in it")

  -- A V100 at the rate of its memory, 900 GB/s of float32.
  row("V-53", "ratio", 4.9, 0.25, "uniform random numbers, GC2 over a V100", function()
    local count <const> = 1216 * 4096
    local e = ipu.estimate(function() return ipu.random.uniform{count} end,
      {inputs = {}, target = "gc2", host = "model"})
    return {ratio = count / (e.cycles.compute / 1.6e9) / (900e9 / 4)}
  end)

  -- The network is assumed (two convolutions, two dense layers, 28 x 28), 16 images a batch, 50
  -- batches a call. There the loader's own work was what waited, here it is the transfer; both are
  -- hidden when they run ahead.
  row("V-48", "ratio", 17957 / 46739, 0.15,
    "images a second from a loader that waits, over one that runs ahead", function()
    local function rate(ahead)
      local cfg = ipu.IPUConfig()
      cfg.optimizations.prefetch_data_streams = ahead
      cfg:configure_ipu_system()
      local model = keras.Sequential{layers.Conv2D{5, 3, activation = "relu",
        input_shape = {28, 28, 1}}, layers.MaxPooling2D{2},
        layers.Conv2D{12, 5, activation = "relu"}, layers.MaxPooling2D{2}, layers.Flatten(),
        layers.Dense{100, activation = "relu"}, layers.Dense{10}}
      model:compile{optimizer = "sgd",
        loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
        steps_per_execution = 50}
      local e = ipu.estimate(model, {batch_size = 16, target = "gc200"})
      ipu.reset_ipu_configuration()
      return e.samples_per_second
    end
    return {ratio = rate(false) / rate(true)}
  end)

  -- Five slices times one variable, added up, as the first stage; the loss as the second.
  local function slices_pipeline()
    local Slices = layers.Layer:extend("Slices")
    function Slices:build()
      self.factor = self:add_weight{name = "factor", shape = {}, initializer = "ones"}
    end
    function Slices:call(x)
      local sum
      for step = 0, 4 do
        local y = ipu.slice(x, {0, step, 0}, {x.shape[1], 1, 16}) * self.factor
        sum = sum and sum + y or y
      end
      return ipu.reshape(sum, {-1, 16})
    end
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local model = keras.Sequential{Slices{input_shape = {5, 16}}, layers.Activation("linear")}
    model:compile{optimizer = keras.optimizers.Adam{learning_rate = 0.01, epsilon = 1e-3},
      loss = "mse"}
    model:set_pipeline_stage_assignment{0, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 100,
      pipeline_schedule = "Grouped"}
    local e = ipu.estimate(model,
      {batch_size = 2, ipus = 2, target = chip(8, true), host = "model"})
    ipu.reset_ipu_configuration()
    return e
  end
  row("N10", "cycles", 3657722, 1.0,
    "slices times a variable as a pipeline of two IPUs, 100 micro-batches", slices_pipeline)
  row("N10", "total", 115370, 1.0, "", slices_pipeline)
  row("N10", "max", 11585, 1.0, "", slices_pipeline,
    "nearly all of it code and control, 1.6 times as much on one tile there as on the mean of "
    .. "them; here tiles are alike")
end
