-- Scripts in the manner of Keras' pages of examples, on little data. Where mathematics says what a
-- number is, it is compared with that.

local ipu = require "ipulua"

local data, keras, layers = ipu.data, ipu.keras, ipu.keras.layers

local function close(a, b, tolerance)
  assert.same(a.shape, b.shape)
  assert.is_true(ipu.reduce_max(ipu.abs(a - b)):item() <= (tolerance or 1e-5))
end

local function falls(losses) assert.is_true(losses[#losses] < losses[1]) end

local function normal(shape, seed) return ipu.random.normal(shape, {seed = seed}) end

before_each(function() keras.utils.set_random_seed(1) end)

it("next-frame prediction: ConvLSTM2D, then frames that are predicted one by one", function()
  local rows = ipu.arange(8):reshape{1, 8, 1, 1}
  local frames = ipu.cast(ipu.equal(rows, ipu.arange(6):reshape{6, 1, 1, 1}), "float32")
  frames = ipu.tile(ipu.expand_dims(ipu.broadcast_to(frames, {6, 8, 8, 1}), 0), {10, 1, 1, 1, 1})
  local input = keras.Input{shape = {-1, 8, 8, 1}}
  local x = input
  for _, size in ipairs{3, 1} do
    x = layers.ConvLSTM2D{filters = 4, kernel_size = size, padding = "same",
      return_sequences = true, activation = "relu"}(x)
    x = layers.BatchNormalization()(x)
  end
  local model = keras.Model(input,
    layers.Conv3D{1, {3, 3, 3}, activation = "sigmoid", padding = "same"}(x))
  model:compile{loss = keras.losses.binary_crossentropy, optimizer = keras.optimizers.Adam(0.01)}
  falls(model:fit(frames[{{}, {1, 5}}], frames[{{}, {2, 6}}], {batch_size = 5, epochs = 4,
    validation_split = 0.2, verbose = 0, callbacks = {
      keras.callbacks.EarlyStopping{monitor = "val_loss", patience = 10},
      keras.callbacks.ReduceLROnPlateau{monitor = "val_loss", patience = 5}}}).history.loss)
  local seen = frames[1][{1, 3}]
  for _ = 1, 3 do
    local next_frames = model:predict(ipu.expand_dims(seen, 0))
    seen = ipu.concat({seen, next_frames[1][{-1, -1}]}, 0)
  end
  assert.same({6, 8, 8, 1}, seen.shape)
end)

it("sub-pixel super-resolution: an op as a layer, images of any size, a callback of test batches",
  function()
    local large = ipu.random.uniform({16, 12, 12, 1}, {seed = 3})
    local small = layers.Resizing{4, 4}(large)
    local options = {activation = "relu", kernel_initializer = "orthogonal", padding = "same"}
    local input = keras.Input{shape = {-1, -1, 1}}
    local x = layers.Conv2D(8, 3, options)(layers.Conv2D(8, 5, options)(input))
    local model = keras.Model(input,
      ipu.nn.depth_to_space(layers.Conv2D(9, 3, options)(x), 3))
    local Ratio = keras.callbacks.Callback:extend "Ratio"
    function Ratio:on_epoch_begin() self.psnr = {} end
    function Ratio:on_test_batch_end(_, logs)
      table.insert(self.psnr, 10 * math.log(1 / logs.loss, 10))
    end
    local ratio = Ratio()
    model:compile{optimizer = keras.optimizers.Adam(0.005), loss = "mse"}
    local history = model:fit(data.from_tensor_slices{small, large}:batch(4), {epochs = 3,
      validation_data = {small, large}, verbose = 0, callbacks = {ratio}}).history
    falls(history.loss)
    assert.is_near(-10 * math.log(history.val_loss[3], 10), ratio.psnr[1], 1e-5)
    assert.same({1, 15, 21, 1}, model:predict(ipu.ones{1, 5, 7, 1}).shape)
  end)

it("MLP-Mixer: patches, transposed products, two metrics of classes", function()
  local Mixer = layers.Layer:extend "Mixer"
  function Mixer:init(patches, width)
    layers.Layer.init(self)
    self.across = keras.Sequential{layers.Dense{patches, activation = "gelu"},
      layers.Dense(patches), layers.Dropout(0.1)}
    self.along = keras.Sequential{layers.Dense{width, activation = "gelu"}, layers.Dense(width)}
    self.normalize = layers.LayerNormalization{epsilon = 1e-6}
  end
  function Mixer:call(inputs)
    local x = ipu.transpose(self.normalize(inputs), {0, 2, 1})
    x = ipu.transpose(self.across(x), {0, 2, 1}) + inputs
    return x + self.along(self.normalize(x))
  end
  local augment = keras.Sequential({layers.Normalization(), layers.RandomFlip "horizontal"},
    {name = "augment"})
  local x, y = ipu.random.uniform({48, 8, 8, 3}, {seed = 1}), ipu.arange(48):reshape{48, 1} % 4
  augment.layers[1]:adapt(x)
  local input = layers.Input{shape = {8, 8, 3}}
  local patches = layers.Reshape{4, 48}(ipu.nn.space_to_depth(augment(input), 4))
  local h = layers.Dense(16)(patches) + layers.Embedding(4, 16)(ipu.arange(4))
  h = layers.GlobalAveragePooling1D()(Mixer(4, 16)(Mixer(4, 16)(h)))
  local model = keras.Model{inputs = input, outputs = layers.Dense(4)(h)}
  model:compile{optimizer = keras.optimizers.AdamW{0.005, weight_decay = 1e-4},
    loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
    metrics = {keras.metrics.SparseCategoricalAccuracy{name = "acc"},
      keras.metrics.SparseTopKCategoricalAccuracy(4, {name = "top-4-acc"})}}
  local history = model:fit{x, y, batch_size = 16, epochs = 8, verbose = 0}.history
  falls(history.loss)
  assert.equal(1, history["top-4-acc"][8])
end)

it("a recommender: a model of embeddings that is called with columns", function()
  local Recommender = keras.Model:extend "Recommender"
  function Recommender:init(users, films, width)
    keras.Model.init(self)
    local options = {embeddings_initializer = "he_normal",
      embeddings_regularizer = keras.regularizers.l2(1e-6)}
    self.user, self.film = layers.Embedding(users, width, options),
      layers.Embedding(films, width, options)
    self.user_bias, self.film_bias = layers.Embedding(users, 1), layers.Embedding(films, 1)
  end
  function Recommender:call(inputs)
    local user, film = inputs[{{}, 1}], inputs[{{}, 2}]
    local both = ipu.einsum("nk,nk->", self.user(user), self.film(film)) -- tensordot(…, 2)
    return ipu.sigmoid(both + self.user_bias(user) + self.film_bias(film))
  end
  local x = ipu.stack({ipu.arange(120) % 10, ipu.arange(120) % 12}, {axis = 1})
  local y = ipu.cast(x[{{}, 1}], "float32") / 10
  local model = Recommender(10, 12, 4)
  model:compile{loss = keras.losses.BinaryCrossentropy(), optimizer = keras.optimizers.Adam(0.01)}
  falls(model:fit{x, y, batch_size = 24, epochs = 4, verbose = 0,
    validation_data = {x, y}}.history.val_loss)
  assert.same({120, 1}, model:predict(x).shape)
end)

-- With a pooled last convolution the heat map is the class' weights times the channels, Zhou et
-- al. 2016 (Selvaraju et al. 2017, section 3.1).
it("Grad-CAM: a gradient by the output of an inner layer", function()
  local model = keras.Sequential{
    layers.Conv2D{6, 3, activation = "relu", input_shape = {10, 10, 3}, name = "last_conv"},
    layers.GlobalAveragePooling2D(), layers.Dense{5, name = "scores"}}
  local grad_model = keras.Model({model.inputs},
    {model:get_layer("last_conv").output, model.output})
  local tape = ipu.GradientTape()
  local channels, best
  local score = tape(function()
    local scores
    channels, scores = table.unpack(grad_model(normal({1, 10, 10, 3}, 1)))
    best = ipu.argmax(scores[1]):item()
    return scores[{{}, best + 1}]
  end)
  local pooled = ipu.reduce_mean(tape:gradient(score, channels), {axis = {0, 1, 2}})
  local heat = ipu.maximum(ipu.reduce_sum(channels[1] * pooled, {axis = -1}), 0)
  local weights = model:get_layer("scores").kernel:read_value()[{{}, best + 1}]
  close(ipu.maximum(ipu.reduce_sum(channels[1] * weights, {axis = -1}), 0) / 64, heat)
end)

it("knowledge distillation: train_step and test_step with compiled metrics", function()
  local Distiller = keras.Model:extend "Distiller"
  function Distiller:init(student, teacher)
    keras.Model.init(self)
    self.student, self.teacher = student, teacher
  end
  function Distiller:compile(optimizer, metrics, student_loss, soft_loss, alpha, temperature)
    keras.Model.compile(self, {optimizer = optimizer, metrics = metrics})
    self.student_loss, self.soft_loss = student_loss, soft_loss
    self.alpha, self.temperature = alpha, temperature
  end
  local function results(self, more)
    for _, metric in ipairs(self.metrics) do more[metric.name] = metric:result() end
    return more
  end
  function Distiller:train_step(x, y)
    local soft = ipu.nn.softmax(self.teacher(x, {training = false}) / self.temperature)
    local tape = ipu.GradientTape()
    local loss, student_loss, logits
    do
      local _ <close> = tape
      logits = self.student(x, {training = true})
      student_loss = self.student_loss(y, logits)
      loss = self.alpha * student_loss + (1 - self.alpha)
        * self.soft_loss(soft, ipu.nn.softmax(logits / self.temperature))
    end
    local weights = self.student.trainable_variables
    self.optimizer:apply_gradients(tape:gradient(loss, weights), weights)
    self.compiled_metrics:update_state(y, logits)
    return results(self, {student_loss = student_loss})
  end
  function Distiller:test_step(x, y)
    local logits = self.student(x, {training = false})
    self.compiled_metrics:update_state(y, logits)
    return results(self, {student_loss = self.student_loss(y, logits)})
  end
  local function network(width)
    return keras.Sequential{layers.Dense{width, activation = "relu", input_shape = {6}},
      layers.Dense(3)}
  end
  local crossentropy = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
  local student, teacher = network(4), network(16)
  local x = normal({60, 6}, 2)
  local y = ipu.argmax(x[{{}, {1, 3}}], {axis = 1})
  local kept = teacher:get_weights()[1]
  local distiller = Distiller(student, teacher)
  distiller:compile(keras.optimizers.Adam(0.01), {keras.metrics.SparseCategoricalAccuracy()},
    crossentropy, keras.losses.KLDivergence(), 0.5, 10)
  falls(distiller:fit(x, y, {batch_size = 60, epochs = 20, verbose = 0}).history.student_loss)
  close(kept, teacher:get_weights()[1], 0)
  local result = distiller:evaluate(x, y, {batch_size = 60, return_dict = true, verbose = 0})
  student:compile{loss = crossentropy, metrics = {"accuracy"}}
  local loss, accuracy = table.unpack(student:evaluate(x, y, {batch_size = 60, verbose = 0}))
  assert.is_near(loss, result.student_loss, 1e-6)
  assert.equal(accuracy, result.sparse_categorical_accuracy)
end)

it("VQ-VAE: the gradient goes straight through, and the codebook learns by its own loss", function()
  local Quantizer = layers.Layer:extend "Quantizer"
  function Quantizer:init(count, width, options)
    layers.Layer.init(self, options)
    self.count, self.width = count, width
    self.codes = ipu.Variable(keras.initializers.RandomUniform(){shape = {width, count}})
  end
  function Quantizer:call(x)
    local flat = ipu.reshape(x, {-1, self.width})
    local distances = ipu.reduce_sum(flat ^ 2, {axis = 1, keepdims = true})
      + ipu.reduce_sum(self.codes ^ 2, {axis = 0}) - 2 * ipu.matmul(flat, self.codes)
    local chosen = ipu.one_hot(ipu.argmin(distances, {axis = 1}), self.count)
    local q = ipu.reshape(ipu.matmul(chosen, self.codes, {transpose_b = true}), x.shape)
    self:add_loss(0.25 * ipu.reduce_mean((ipu.stop_gradient(q) - x) ^ 2)
      + ipu.reduce_mean((q - ipu.stop_gradient(x)) ^ 2))
    return x + ipu.stop_gradient(q - x)
  end
  local quantizer = Quantizer(7, 4)
  local x, tape = normal({3, 5, 4}, 1), ipu.GradientTape{persistent = true}
  tape:watch(x)
  local y, sum, own
  do
    local _ <close> = tape
    y = quantizer(x)
    sum, own = ipu.reduce_sum(3 * y), quantizer.losses[1]
  end
  close(ipu.full({3, 5, 4}, 3), tape:gradient(sum, x), 0)
  close(2 * 0.25 / 60 * (x - y), tape:gradient(own, x))
  assert.is_nil(tape:gradient(sum, quantizer.codes))
  local model = keras.Sequential{layers.Dense{4, input_shape = {5, 6}}, Quantizer(16, 4),
    layers.Dense(6)}
  model:compile{optimizer = keras.optimizers.Adam(0.01), loss = "mse"}
  local z = normal({64, 5, 6}, 2)
  falls(model:fit(z, z, {epochs = 5, verbose = 0}).history.loss)
end)

-- A linear critic's gradient is its kernel w everywhere: the penalty is (|w| - 1)², and its
-- gradient 2 (|w| - 1) w / |w|.
it("WGAN-GP: the gradient of a gradient's norm", function()
  local critic = keras.Sequential{layers.Flatten{input_shape = {4, 4, 1}}, layers.Dense(1)}
  local function penalty(real, fake)
    local between = real + ipu.random.uniform{real.shape[1], 1, 1, 1} * (fake - real)
    local tape = ipu.GradientTape()
    tape:watch(between)
    local score = tape(function() return critic(between, {training = true}) end)
    local slope = tape:gradient(score, {between})[1]
    local norm = ipu.sqrt(ipu.reduce_sum(ipu.square(slope), {axis = {1, 2, 3}}))
    return ipu.reduce_mean((norm - 1) ^ 2)
  end
  local function both(real, fake)
    local tape = ipu.GradientTape()
    local loss = tape(function() return penalty(real, fake) end)
    return loss, tape:gradient(loss, critic.trainable_variables)[1]
  end
  local w = critic.trainable_variables[1]:read_value()
  local size = ipu.sqrt(ipu.reduce_sum(w * w))
  for _, f in ipairs{both, ipu.func(both)} do
    local loss, slope = f(normal({5, 4, 4, 1}, 1), normal({5, 4, 4, 1}, 2))
    close((size - 1) ^ 2, loss)
    close(2 * (size - 1) * w / size, slope)
  end
end)

it("RealNVP: a model that runs both ways, with two results", function()
  local function coupling()
    local input = layers.Input{shape = {2}}
    local function head(activation)
      return layers.Dense{2, activation = activation}(layers.Dense{8, activation = "relu"}(input))
    end
    return keras.Model{inputs = input, outputs = {head "tanh", head "linear"}}
  end
  local Flow = keras.Model:extend "Flow"
  function Flow:init(count)
    keras.Model.init(self)
    self.masks = ipu.tensor{{0, 1}, {1, 0}, {0, 1}, {1, 0}}
    self.couplings, self.mean = {}, keras.metrics.Mean{name = "loss"}
    for i = 1, count do self.couplings[i] = coupling() end
  end
  function Flow:call(x, options)
    local first, last, way = 1, #self.couplings, 1
    if options.training then first, last, way = last, first, -1 end
    local logarithm = 0
    for i = first, last, way do
      local mask = self.masks[i]
      local s, t = table.unpack(self.couplings[i](x * mask))
      s, t = s * (1 - mask), t * (1 - mask)
      local gate = (way - 1) / 2
      x = (1 - mask) * (x * ipu.exp(way * s) + way * t * ipu.exp(gate * s)) + x * mask
      logarithm = logarithm + gate * ipu.reduce_sum(s, {axis = {1}})
    end
    return {x, logarithm}
  end
  function Flow:loss_of(x)
    local z, logarithm = table.unpack(self(x, {training = true}))
    return ipu.reduce_mean(0.5 * ipu.reduce_sum(z * z, {axis = 1}) + math.log(2 * math.pi)
      - logarithm)
  end
  function Flow:train_step(x)
    local tape = ipu.GradientTape()
    local loss = tape(function() return self:loss_of(x) end)
    local weights = self.trainable_variables
    self.optimizer:apply_gradients(tape:gradient(loss, weights), weights)
    self.mean:update_state(loss)
    return {loss = self.mean:result()}
  end
  function Flow:test_step(x)
    self.mean:update_state(self:loss_of(x))
    return {loss = self.mean:result()}
  end
  local flow, x = Flow(4), normal({80, 2}, 5) * 2 + 1
  flow:compile{optimizer = keras.optimizers.Adam(0.01)}
  local history = flow:fit(x, {batch_size = 16, epochs = 5, validation_split = 0.2, verbose = 0})
  falls(history.history.val_loss)
  assert.equal(4 * 4 * 2, #flow.trainable_variables)
  close(x, flow(flow(x, {training = true})[1], {training = false})[1], 1e-4)
end)

it("sequence to sequence: a decoder with states, step by step as with the teacher", function()
  local questions, answers = normal({6, 5, 3}, 1), normal({6, 4, 2}, 2)
  local question, answer = keras.Input{shape = {-1, 3}}, keras.Input{shape = {-1, 2}}
  local _, h, c = layers.LSTM(8, {return_state = true})(question)
  local decode = layers.LSTM(8, {return_sequences = true, return_state = true})
  local dense = layers.Dense(2, {activation = "softmax"})
  local model = keras.Model({question, answer}, dense((decode(answer, {initial_state = {h, c}}))))
  model:compile{optimizer = "rmsprop", loss = "mse"}
  model:fit({questions, answers}, answers, {epochs = 2, verbose = 0})

  local encoder = keras.Model(question, {h, c})
  local given_h, given_c = keras.Input{shape = {8}}, keras.Input{shape = {8}}
  local y, next_h, next_c = decode(answer, {initial_state = {given_h, given_c}})
  local decoder = keras.Model({answer, given_h, given_c}, {dense(y), next_h, next_c})
  local states, steps = encoder:predict(questions), {}
  for t = 1, 4 do
    local result = decoder:predict({answers[{{}, {t, t}}], states[1], states[2]})
    steps[t], states = result[1], {result[2], result[3]}
  end
  close(model:predict{questions, answers}, ipu.concat(steps, {axis = 1}))
end)

it("SimCLR: two datasets in one, a contrastive loss and a probe with an optimizer each", function()
  local Contrast = keras.Model:extend "Contrast"
  function Contrast:init()
    keras.Model.init(self)
    self.augment = keras.Sequential{layers.GaussianNoise{0.1, input_shape = {6}}}
    self.encoder = keras.Sequential{layers.Dense{8, activation = "relu", input_shape = {6}}}
    self.probe = keras.Sequential{layers.Dense{3, input_shape = {8}}}
  end
  function Contrast:compile(encoder_optimizer, probe_optimizer)
    keras.Model.compile(self)
    self.encoder_optimizer, self.probe_optimizer = encoder_optimizer, probe_optimizer
    self.entropy = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
    self.c_loss, self.p_acc = keras.metrics.Mean{name = "c_loss"},
      keras.metrics.SparseCategoricalAccuracy{name = "p_acc"}
  end
  function Contrast:train_step(unlabeled, labeled)
    local images, labels = labeled[1], labeled[2]
    local all = ipu.concat({unlabeled, images}, {axis = 0})
    local tape = ipu.GradientTape()
    local loss = tape(function()
      local a = ipu.nn.l2_normalize(self.encoder(self.augment(all, {training = true})), {axis = 1})
      local b = ipu.nn.l2_normalize(self.encoder(self.augment(all, {training = true})), {axis = 1})
      return self.entropy(ipu.arange(all.shape[1]), ipu.matmul(a, b, {transpose_b = true}) / 0.1)
    end)
    local weights = self.encoder.trainable_weights
    self.encoder_optimizer:apply_gradients(tape:gradient(loss, weights), weights)
    local features, probe_tape, logits = self.encoder(images), ipu.GradientTape(), nil
    local probe_loss = probe_tape(function()
      logits = self.probe(features, {training = true})
      return self.entropy(labels, logits)
    end)
    weights = self.probe.trainable_weights
    self.probe_optimizer:apply_gradients(probe_tape:gradient(probe_loss, weights), weights)
    self.c_loss:update_state(loss)
    self.p_acc:update_state(labels, logits)
    return {c_loss = self.c_loss:result(), p_acc = self.p_acc:result()}
  end
  local x = normal({64, 6}, 3)
  local labeled = data.from_tensor_slices{x, ipu.argmax(x[{{}, {1, 3}}], {axis = 1})}:batch(8)
  local unlabeled = data.from_tensor_slices(normal({128, 6}, 4)):batch(16)
  local model = Contrast()
  model:compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.05))
  local log = model:fit(data.zip(unlabeled, labeled):prefetch(2), {epochs = 6, verbose = 0}).history
  falls(log.c_loss)
  assert.is_true(log.p_acc[6] > log.p_acc[1])
end)
