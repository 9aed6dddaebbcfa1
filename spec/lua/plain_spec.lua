-- Plain tables that the library returns print their contents. Functions that take plain tables take
-- them.
local command = require "spec.support.command"
local ipu = require "ipulua"
local args = require "ipulua.base.args"
local plain = require "ipulua.base.plain"
local structure = require "ipulua.base.structure"
local keras = ipu.keras
local layers = keras.layers

local function trained()
  local model = keras.Sequential{layers.Dense(2, {input_shape = {3}, kernel_initializer = "zeros"}),
    layers.Dense(1)}
  model:compile{loss = "mse", optimizer = "sgd", metrics = {"mae"}}
  return model, model:fit(ipu.ones{4, 3}, ipu.zeros{4, 1},
    {batch_size = 4, epochs = 2, verbose = 0})
end

describe("plain tables and tensors print as", function()
  it("the shape of a tensor, a variable and an op's input", function()
    assert.equal("{2, 3}", tostring(ipu.ones{2, 3}.shape))
    assert.equal("{}", tostring(ipu.tensor(1).shape))
    assert.equal("{2}", tostring(ipu.Variable{1, 2}.shape))
    assert.equal("{-1, 4}", tostring(keras.Input{shape = {4}}.shape))
  end)

  it("lists and dictionaries of options, orders and shares", function()
    local cfg = ipu.IPUConfig()
    cfg.select_ipus, cfg.convolutions.poplar_options = {4, 5}, {a = "1"}
    assert.equal("{4, 5}", tostring(cfg.select_ipus))
    assert.equal('{a = "1"}', tostring(cfg.convolutions.poplar_options))
    assert.matches("^{.*  select_ipus = {4, 5},\n", tostring(cfg:to_dict()))
    assert.equal('{"int", "list"}', tostring(cfg:get_attribute_metadata("select_ipus").types))
    assert.equal("{0, 1, 3, 2}", tostring(ipu.selection_order("SNAKE", 4)))
    assert.equal("{tensor([1., 1.], dtype=float32)}", tostring(ipu.reduce_scatter{ipu.ones{2}}))
    assert.equal("{}", tostring(ipu.json.decode("[]")))
    assert.matches("^{variable%(", tostring(keras.optimizers.SGD().weights))
    assert.equal("{}", tostring(layers.Dense(1).nodes))
    assert.matches("^{\n  char_level = false,",
      tostring(keras.preprocessing.text.Tokenizer():get_config()))
  end)

  it("the numbers of a tensor", function()
    local t = ipu.tensor({{1, 2}, {3, 4}}, {dtype = "int32"}):totable()
    assert.equal("{{1, 2}, {3, 4}}", tostring(t))
    assert.equal("{3, 4}", tostring(t[2]))
  end)

  it(
    "tensors of a file, words and numbers of a tokenizer, variables, parts as they are saved",
    function()
    local path = command.scratch ".npz"
    ipu.save(path, {a = ipu.tensor{1, 2}})
    assert.equal("{a = tensor([1., 2.], dtype=float32)}", tostring(ipu.load(path)))
    os.remove(path)
    local tokenizer = keras.preprocessing.text.Tokenizer()
    tokenizer:fit_on_texts{"the cat the"}
    assert.equal("{cat = 2, the = 1}", tostring(tokenizer.word_index))
    assert.equal("{{1}, {2, 1}}", tostring(tokenizer:texts_to_sequences{"the", "cat the"}))
    assert.equal('{"cat the"}', tostring(tokenizer:sequences_to_texts{{2, 1}}))
    assert.matches("^{", tostring(ipu.trainable_variables()))
    assert.equal("{{1, 2}}", tostring(ipu.json.decode("[[1, 2]]")))
    pcall(ipu.ones, -1)
    assert.matches('{\n  code = "IPU_E_VALUE",', tostring(ipu.last_error()))
    assert.equal('{class_name = "Zeros", config = {}}',
      tostring(keras.initializers.serialize(keras.initializers.Zeros())))
  end)

  it("weights: numbers where they fit, else type and name", function()
    local wide = layers.Dense{8}
    wide:build{-1, 3}
    assert.equal("variable(float32[3, 8], name='" .. wide.weights[1].name .. "')",
      tostring(wide.weights):match("variable%(float32%[3, 8%][^)]*%)"))
    assert.matches("variable%(%[0%., 0%.%], dtype=float32", tostring(trained().weights))
    local row = ipu.tensor{0.19922686, 1.1712226, -1.9316759, -0.83009714} -- 74 characters
    for list in ipu.data.from_tensors{{row, row}, row}:iter() do
      assert.matches("{\n  tensor%(%[ 0.19922686,  1.1712226 , %-1.9316759 , %-0.83009714%], "
        .. "dtype=float32%),\n", tostring(list))
    end
  end)

  it("loss and metrics, which are 0 for zeros from zeros", function()
    local model, history = trained()
    assert.equal("{0.0, 0.0}",
      tostring(model:evaluate(ipu.ones{4, 3}, ipu.zeros{4, 1}, {batch_size = 4, verbose = 0})))
    assert.equal("{loss = 0.0, mae = 0.0}",
      tostring(model:test_on_batch(ipu.ones{4, 3}, ipu.zeros{4, 1}, {return_dict = true})))
    assert.equal("{loss = {0.0, 0.0}, mae = {0.0, 0.0}}", tostring(history.history))
    assert.equal("History{loss = {0.0, 0.0}, mae = {0.0, 0.0}}", tostring(history))
    assert.equal("{0, 1}", tostring(history.epoch))
    assert.equal('{"loss", "mae"}', tostring(model.metrics_names))
  end)

  it("layers, weights, shapes and configs of a model", function()
    local model = trained()
    assert.equal("{-1, 3}	{-1, 1}", tostring(model.input_shape) .. "\t"
      .. tostring(model.output_shape))
    assert.truthy(tostring(model.layers):find("^{<Dense dense[_%d]*>, <Dense dense[_%d]*>}$"))
    assert.truthy(tostring(model:get_weights()):find("tensor([0., 0.]", 1, true))
    for _, list in ipairs{model.weights, model.trainable_weights, model.layers[1].weights} do
      assert.truthy(tostring(list):find("variable([0., 0.]", 1, true))
    end
    assert.truthy(tostring(model.layers[1]:get_config()):find("  units = 2,\n", 1, true))
    assert.truthy(tostring(model:get_config()):find('class_name = "Dense"', 1, true))
  end)

  it("element specs, gradients, estimates and results of functions", function()
    local ds = ipu.data.from_tensor_slices{x = ipu.ones{4, 3}, y = ipu.zeros{4}}
    assert.equal('{x = {dtype = "float32", shape = {3}}, y = {dtype = "float32", shape = {}}}',
      tostring(ds.element_spec))
    for element in ds:take(1):iter() do
      assert.truthy(tostring(element):find("x = tensor([1., 1., 1.]", 1, true))
    end
    local v, tape = ipu.Variable(3.0), ipu.GradientTape()
    local y
    do
      local _ <close> = tape
      y = v * v
    end
    assert.truthy(tostring(tape:gradient(y, {v})):find("{tensor(6.", 1, true))
    local f = ipu.func(function(x) return {twice = x * 2} end)
    assert.truthy(tostring(f(ipu.tensor(2.0))):find("{twice = tensor(4.", 1, true))
    assert.truthy(tostring(ipu.estimate(f, {inputs = {{2}}})):find("\n  fits = true,\n", 1, true))
  end)

  it("parts of an estimate, timetables, programs, events, nodes and errors", function()
    local f = ipu.func(function(x) return ipu.exp(x) end)
    f(ipu.ones{2})
    local e = ipu.estimate(f, {inputs = {{2}}})
    assert.truthy(tostring(e.cycles):find("total = ", 1, true))
    assert.truthy(tostring(e.memory):find("  vertexCode = ", 1, true))
    assert.truthy(tostring(e.ipu[1].memory):find("  vertexCode = ", 1, true))
    local t = ipu.timetable{schedule = "Sequential", device_mapping = {0, 1}, count = 1,
      training = false}
    assert.equal('{{ipu = 0, kind = "forward", micro_batch = 0, stage = 0}}', tostring(t.order[1]))
    assert.equal("{0, 0}", tostring(t.stash_depth))
    local programs = ipu.programs()
    assert.truthy(tostring(programs[#programs]):find("executions = 1", 1, true))
    assert.equal("{}", tostring(programs[#programs].stage_ipus))
    assert.truthy(tostring(ipu.ipu_event_trace()):find('type = "EXECUTE"', 1, true))
    assert.equal("{}", tostring(ipu.ipu_event_trace()))
    assert.truthy(tostring(ipu.graph.nodes(f)[2]):find('op = "exp"', 1, true))
    pcall(function() return ipu.matmull end)
    assert.truthy(tostring(ipu.last_error()):find('code = "IPU_E_VALUE"', 1, true))
  end)

  it("a file's tensors, reports, stages of layers and a session's fetches", function()
    local path = command.scratch ".npz"
    ipu.save(path, {a = ipu.ones{2, 2}})
    assert.equal("{a = tensor([[1., 1.], [1., 1.]], dtype=float32)}", tostring(ipu.load(path)))
    os.remove(path)
    assert.equal("{}", tostring(ipu.ReportHelper():find_reports()))
    local model = trained()
    model:set_pipeline_stage_assignment{0, 1}
    assert.truthy(tostring(model:get_pipeline_stage_assignment()):find("<stage 1: dense[_%d]*>}$"))
    local out = ipu.ipu_compiler.compile(function(x) return x + 1 end, {ipu.ones{2}})
    assert.truthy(tostring(out):find("^{symbolic float32%[2%]"))
  end)

  it("logs that callbacks are given", function()
    local told = {}
    local function tell(name)
      return function(self, ...)
        local words = {name}
        for i, value in ipairs{...} do
          words[i + 1] = tostring(value):gsub("loss = [%d.]+", "loss = …")
        end
        told[#told + 1] = table.concat(words, " ")
        self.last_params = tostring(self.params)
      end
    end
    local Told = keras.callbacks.Callback:extend("Told")
    for _, event in ipairs{"train", "test", "predict", "epoch", "train_batch", "test_batch",
      "predict_batch"} do
      Told["on_" .. event .. "_begin"], Told["on_" .. event .. "_end"] = tell(event .. " begins"),
        tell(event .. " ends")
    end
    local model = keras.Sequential{layers.Dense(1, {input_shape = {3}})}
    local x, y, callback = ipu.ones{4, 3}, ipu.zeros{4, 1}, Told()
    local function runs_of(is_asynchronous)
      told = {}
      model:compile{loss = "mse", optimizer = "sgd", steps_per_execution = 2}
      model:set_asynchronous_callbacks(is_asynchronous)
      model:fit(x, y, {batch_size = 2, verbose = 0, callbacks = callback})
      assert.equal("{epochs = 1, steps = 2, verbose = 0}", callback.last_params)
      model:evaluate(x, y, {batch_size = 2, verbose = 0, callbacks = callback})
      assert.equal("{steps = 2, verbose = 0}", callback.last_params)
      model:predict(x, {batch_size = 2, callbacks = callback})
      return told
    end
    assert.same({
      "train begins {}", "epoch begins 0 {}", "train_batch begins 0 {}",
      "train_batch ends 1 {loss = …} {samples = 4, step_first = 0, step_last = 1, updates = 2}",
      "epoch ends 0 {loss = …}", "train ends {loss = …}",
      "test begins {}", "test_batch begins 0 {}",
      "test_batch ends 1 {loss = …} {samples = 4, step_first = 0, step_last = 1}",
      "test ends {loss = …}",
      "predict begins {}", "predict_batch begins 0 {}",
      "predict_batch ends 1 {outputs = tensor(float32[4, 1])} "
        .. "{samples = 4, step_first = 0, step_last = 1}",
      "predict ends {}",
    }, runs_of(false))
    assert.same({
      "train begins {}", "epoch begins 0 {}", "train_batch begins 0 {}",
      "train_batch ends 0 {loss = …} {samples = 2, step_first = 0, step_last = 0, updates = 1}",
      "train_batch begins 1 {}",
      "train_batch ends 1 {loss = …} {samples = 2, step_first = 1, step_last = 1, updates = 2}",
    }, table.move(runs_of(true), 1, 6, 1, {}))
    assert.falsy(table.concat(told):find("0x", 1, true))
  end)
end)

describe("an object that is no plain table prints as", function()
  local function shows(text, value) assert.equal(text, tostring(value)) end

  it("modules, classes, and objects by their configuration or fields", function()
    assert.matches("^<module ipulua [%d.]+; help%(ipu%) lists its names>$", tostring(ipu))
    for name, module in pairs{
      ["ipu.nn"] = ipu.nn, ["ipu.data"] = ipu.data, ["keras.layers"] = layers,
      ["keras.datasets.mnist"] = keras.datasets.mnist,
      ["keras.losses"] = keras.losses, ["ipu.within_replica"] = ipu.within_replica,
    } do
      shows(string.format("<module %s; help(%s) lists its names>", name, name), module)
    end
    shows("<class Dense>", layers.Dense)
    shows('Huber{delta = 1.0, name = "huber", reduction = "auto"}', keras.losses.Huber())
    shows("L2{l2 = 0.5}", keras.regularizers.L2(0.5))
    shows("<NonNeg>", keras.constraints.NonNeg())
    shows('Mean{dtype = "float32", name = "mean"}', keras.metrics.Mean{name = "mean"})
    local Count = keras.callbacks.Callback:extend("Count")
    local count = Count()
    shows("<Count>", count)
    count.last = 3
    shows("Count{last = 3}", count)
    function Count.__tostring() return "counted" end
    shows("counted", count)
    local tape, shard = ipu.GradientTape(), ipu.ipu_shard(1)
    shows("ipu_shard(1) (open)", shard)
    shard:close()
    shows("ipu_shard(1) (closed)", shard)
    shows("GradientTape() (open)", tape)
    tape:close()
    shows("{}", ipu.func(print):signatures())
    local f = ipu.func(function() return 1 end)
    f(ipu.ones{2, 3}, nil, {training = true, "a", x = ipu.tensor(1, "int32")})
    f(2, ipu.Variable{1, 2})
    assert.are.same({'(float32[2, 3], nil, {"a", training = true, x = int32[]})',
      "(2, float32[2])"}, {table.unpack(f:signatures())})
  end)

  it("never an address", function()
    local ds, input = ipu.data.range(3), keras.Input{3}
    for _, object in ipairs{ipu.IPUOutfeedQueue(), ipu.IPUStrategy(), ds:iterator(),
      ipu.train.Checkpoint{a = ipu.Variable(1)},
      keras.callbacks.EarlyStopping(), keras.callbacks.TensorBoard(),
      keras.preprocessing.text.Tokenizer(), layers.Conv2D(1, 3).input_spec,
      layers.Dense(1)(input).node, layers.LSTM(2).cell, keras.metrics.AUC(), ipu.PipelineSchedule,
      keras.mixed_precision.Policy "float32",
      ipu.IPUConfig():get_attribute_metadata "ipu_model.version",
      keras.optimizers.schedules.CosineDecay(0.1, 100)} do
      assert.falsy(tostring(object):find("0x", 1, true), tostring(object))
    end
    assert.matches('^{\n  AUTO = "auto",\n', tostring(keras.losses.Reduction))
    shows("<HostIterator of Dataset(range: int64[])>", ds:iterator())
    shows("<call 0 of layer 'counted'>", layers.Dense{1, name = "counted"}(input).node)
    shows('CSVLogger{append = false, filename = "log.csv", separator = ","}',
      keras.callbacks.CSVLogger "log.csv")
  end)

  it("a field a line, also where a field alone is as wide as the page", function()
    local values = {}
    for i = 1, 12 do values[i] = 1 + i / 1e6 end
    shows([[
PiecewiseConstantDecay{
  boundaries = {1, 2, 3, 4, 5, 6, 7, 8, ... 3 more},
  values = {1.000001, 1.000002, 1.000003, 1.000004, 1.000005, 1.000006, 1.000007, 1.000008, ... 4 more}
}]], keras.optimizers.schedules.PiecewiseConstantDecay({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, values))
  end)

  it("sessions, strategies, queues and jobs", function()
    local session, strategy = ipu.Session(), ipu.IPUStrategy()
    shows("<Session>", session)
    session:close()
    shows("<Session, closed>", session)
    shows("<IPUStrategy /device:IPU:0>", strategy)
    shows("<IPUOutfeedQueue LAST>", ipu.IPUOutfeedQueue "LAST")
    shows("<IPUInfeedQueue of Dataset(from_tensors: float32[2])>",
      ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{2})))
    local job = strategy:run_async(ipu.func(function(x) return x + 1 end), {ipu.ones{2}})
    job:wait()
    shows("<Job, ended>", job)
  end)

  it(
    "Keras' optimizers with their hyperparameters and the learning rate, whatever it is", function()
    local optimizers = keras.optimizers
    local rest <const> = ',\n  momentum = 0.9,\n  name = "SGD",\n  nesterov = false,\n  use_ema = '
      .. 'false\n}'
    local sgd = optimizers.SGD{0.001, momentum = 0.9}
    shows("SGD{\n  decay = 0.0,\n  learning_rate = 0.001" .. rest, sgd)
    sgd.learning_rate = 0.25
    shows("SGD{\n  decay = 0.0,\n  learning_rate = 0.25" .. rest, sgd)
    sgd.learning_rate = optimizers.schedules.PiecewiseConstantDecay({10}, {1, 0.1})
    shows("SGD{\n  decay = 0.0,\n  learning_rate = PiecewiseConstantDecay{boundaries = {10}, "
      .. "values = {1, 0.1}}" .. rest, sgd)
    sgd.learning_rate = function() return 0.1 end
    shows("SGD{\n  decay = 0.0,\n  learning_rate = <function>" .. rest, sgd)
    for _, name in ipairs{"Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSprop"} do
      assert.matches("^" .. name .. "{.*learning_rate = 0%.125,.*}$",
        tostring(optimizers[name](0.125)))
    end
    assert.matches("^CrossReplicaOptimizer{.*opt = SGD{.*    learning_rate = 0%.5,.*  }\n}$",
      tostring(optimizers.CrossReplicaOptimizer(optimizers.SGD(0.5))))
  end)

  it("optimizers, their specs, options of stages and what an optimizer function returns", function()
    local sgd = ipu.train.GradientDescentOptimizer(0.1)
    shows('GradientDescentOptimizer{learning_rate = 0.1, name = "GradientDescentOptimizer"}', sgd)
    shows("HostEmbeddingOptimizerSpec{learning_rate = 0.5}", ipu.HostEmbeddingOptimizerSpec(0.5))
    shows("HostEmbeddingSGDGAOptimizerSpec{accumulation_factor = 3, learning_rate = 0.5}",
      ipu.HostEmbeddingSGDGAOptimizerSpec(0.5, 3))
    shows("<HostEmbedding 'printed' float32[2, 3]>", ipu.create_host_embedding("printed", {2, 3}))
    local given = {partialsType = "half"}
    shows('PipelineStageOptions{matmul_options = {partialsType = "half"}}',
      ipu.PipelineStageOptions{matmul_options = given})
    assert.is_nil(getmetatable(given))
    shows("OptimizerFunctionOutput{\n  loss = symbolic float32[] (input),\n  opt = "
      .. tostring(sgd) .. "\n}",
      ipu.OptimizerFunctionOutput(sgd, ipu.placeholder("float32", {})))
  end)
end)

describe("tables that the library returned are taken where plain ones are", function()
  it("as shapes, lists of axes and nested numbers", function()
    local x = ipu.ones{2, 3}
    assert.same({2, 3}, ipu.zeros(x.shape).shape)
    assert.same({2, 3}, ipu.ones{3, 2}:reshape(x.shape).shape)
    assert.same({2, 3}, ipu.reshape{ipu.ones{6}, x.shape}.shape)
    assert.same({2, 3}, ipu.Variable(x:totable()).shape)
    assert.same({4, 2, 3}, layers.Reshape(x.shape)(ipu.ones{4, 6}).shape)
    assert.same({3}, ipu.data.from_tensor_slices(x:totable()).element_spec.shape)
  end)

  it("as JSON, weights, configs and structures", function()
    local model, history = trained()
    assert.equal('{"loss":[0.0,0.0],"mae":[0.0,0.0]}', ipu.json.encode(history.history))
    assert.equal("[2,3]", ipu.json.encode(ipu.ones{2, 3}.shape))
    model:set_weights(model:get_weights())
    model.optimizer:set_weights(model.optimizer:get_weights())
    assert.equal(2, layers.Dense:from_config(model.layers[1]:get_config()).units)
    assert.equal(2, #keras.Sequential:from_config(model:get_config()).layers)
    local given = ipu.func(function(x) return {x, {y = x}} end)(ipu.tensor(1.0))
    assert.equal(2, #structure.flatten(given))
  end)

  it("as arguments, and are called tables in messages", function()
    local shape = ipu.ones{2, 3}.shape
    assert.is_true(plain.is(shape) and args.is_plain(shape) and args.is_list(shape))
    assert.is_false(plain.is(ipu.ones{2}) or plain.is(setmetatable({}, {})) or plain.is(1))
    assert.equal("table", args.describe(shape))
    local ok, message = pcall(layers.Dense, {units = shape})
    assert.is_false(ok)
    assert.truthy(message:find("'units' must be an integer, got table", 1, true))
  end)

  it("of shapes refuse position 0, with how positions count", function()
    local shape = ipu.zeros{2, 3}.shape
    local ok, message = pcall(function() return shape[0] end)
    assert.is_false(ok)
    assert.matches("plain_spec.lua:%d+: a shape has no position 0: positions count from 1", message)
    assert.equal(2, shape[1])
    assert.is_nil(shape[3])
    assert.is_nil(ipu.tensor(0).shape[1])
  end)
end)
