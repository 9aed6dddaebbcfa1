-- IntegerLookup: the examples of tf.keras.layers.IntegerLookup in Keras 2.6. Classes that own
-- layers are made with: Wrapper, AbstractRNNCell, InputSpec.

local command = require "spec.support.command"
local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers
local Lookup = layers.IntegerLookup

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("^spec/keras/lookup_spec.lua:%d+: ", message)
  return message
end

local function int(list) return ipu.tensor(list, {dtype = "int32"}) end

describe("IntegerLookup", function()
  local vocabulary <const> = {12, 36, 1138, 42}

  for name, case in pairs{
    ["gives numbers, 0 for what it doesn't know"] = {{}, {{12, 1138, 42}, {42, 1000, 36}},
      {{1, 3, 4}, {4, 0, 2}}},
    ["spreads what it doesn't know over several numbers"] = {{num_oov_indices = 2},
      {{12, 1138, 42}, {37, 1000, 36}},
      {{2, 4, 5}, {1, 0, 3}}},
    ["gives vectors of one 1"] = {{output_mode = "one_hot"}, {12, 36, 1138, 42, 7},
      {{0, 1, 0, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 0, 1, 0}, {0, 0, 0, 0, 1}, {1, 0, 0, 0, 0}}},
    ["gives vectors of several 1"] = {{output_mode = "multi_hot"},
      {{12, 1138, 42, 42}, {42, 7, 36, 7}},
      {{0, 1, 0, 1, 1}, {1, 0, 1, 0, 1}}},
    ["counts"] = {{output_mode = "count"}, {{12, 1138, 42, 42}, {42, 7, 36, 7}},
      {{0, 1, 0, 1, 2}, {2, 0, 1, 0, 1}}},
    ["goes back to values"] = {{invert = true}, {{1, 3, 4}, {4, 0, 2}},
      {{12, 1138, 42}, {42, -1, 36}}},
    ["gives masked values the number 0"] = {{mask_token = 0, num_oov_indices = 1}, {{0, 12, 5}},
      {{0, 2, 1}}},
    ["gives masked values no 1"] = {{mask_token = 0, output_mode = "count"}, {{0, 12, 12}},
      {{0, 2, 0, 0, 0}}},
    ["goes back to masks"] = {{mask_token = 0, invert = true}, {{0, 1, 2, 9, -3}},
      {{0, -1, 12, -1, -1}}},
    ["fills vectors up"] = {{max_tokens = 7, pad_to_max_tokens = true, output_mode = "multi_hot"},
      {{36}}, {{0, 0, 1, 0, 0, 0, 0}}},
    ["takes negative values modulo"] = {{num_oov_indices = 3}, {{-1, -2, -3}}, {{2, 1, 0}}},
  } do
    it(name, function()
      case[1].vocabulary = vocabulary
      local layer = Lookup(case[1])
      local y = layer(int(case[2]))
      assert.are.same(case[3], y:totable())
      assert.equal(layer.output_mode == "int" and "int32" or "float32", y.dtype)
    end)
  end

  it("weighs values as Keras' documentation shows it", function()
    local layer = Lookup{output_mode = "tf_idf"}
    layer:set_vocabulary(vocabulary, {0.25, 0.75, 0.6, 0.4})
    local x = int{{12, 1138, 42, 42}, {42, 7, 36, 7}}
    local wanted <const> = ipu.tensor{{0, 0.25, 0, 0.6, 0.8}, {1, 0, 0.75, 0, 0.4}}
    for _, each in ipairs{layer, Lookup:from_config(layer:get_config())} do
      assert.near(0, ipu.reduce_max(ipu.abs(each(x) - wanted)):item(), 1e-6)
    end
  end)

  it("learns the weights of values from the rows", function()
    local layer = Lookup{output_mode = "tf_idf"}
    layer:adapt(int{{7, 5, 5}, {7, 6, 7}})
    assert.same({-1, 7, 5, 6}, layer:get_vocabulary())
    for i, weight in ipairs{math.log(1 + 2 / 3), math.log(2), math.log(2)} do
      assert.near(weight, layer:get_config().idf_weights[i], 1e-6)
    end
  end)

  it("learns its vocabulary: the most frequent first, then the greatest", function()
    local layer = Lookup()
    layer:adapt(int{{12, 1138, 42}, {42, 1000, 36}})
    assert.are.same({-1, 42, 1138, 1000, 36, 12}, layer:get_vocabulary())
    assert.are.same({{5, 2, 1}, {1, 3, 4}}, layer(int{{12, 1138, 42}, {42, 1000, 36}}):totable())
    assert.equal(6, layer:vocabulary_size())
    local batches = ipu.data.from_tensor_slices(int{7, 7, 8, 9, 9, 9, -1, 0}):batch(3)
    local small = Lookup{max_tokens = 4, mask_token = 0}
    small:adapt(batches)
    assert.are.same({0, -1, 9, 7}, small:get_vocabulary())
    assert.are.same({9, 7}, small:get_vocabulary{include_special_tokens = false})
  end)

  it("takes a vocabulary from a file, a tensor, or one with special values in front", function()
    local path = command.scratch()
    local file = assert(io.open(path, "w"))
    file:write("12\n36\n")
    file:close()
    assert.are.same({-1, 12, 36}, Lookup{vocabulary = path}:get_vocabulary())
    os.remove(path)
    assert.are.same({-1, 12, 36}, Lookup{vocabulary = int{12, 36}}:get_vocabulary())
    local layer = Lookup{mask_token = 0}
    layer:set_vocabulary{0, -1, 12}
    assert.are.same({0, -1, 12}, layer:get_vocabulary())
    assert.are.same({{2}}, layer(int{{12}}):totable())
  end)

  it("runs in a model, and is saved with what it learnt", function()
    local layer = Lookup{input_shape = {2}, dtype = "float32"}
    layer:adapt(int{{5, 5, 7}})
    local input = keras.Input{shape = {2}, dtype = "int32"}
    local model = keras.Model{inputs = input,
      outputs = layers.Embedding(3, 1, {embeddings_initializer = "ones"})(layer(input))}
    local copy = keras.models.model_from_json(model:to_json())
    assert.are.same({-1, 5, 7}, copy.layers[2]:get_vocabulary())
    local numbers = keras.Model{inputs = input, outputs = layer(input)}
    assert.are.same({{1, 2}, {0, 0}},
      numbers:predict(int{{5, 7}, {6, 8}}, {verbose = 0, batch_size = 2}):totable())
  end)

  it("refuses vocabularies and arguments that make no sense", function()
    assert.matches("the vocabulary has 1 twice", message_of(Lookup, {vocabulary = {1, 1}}))
    assert.matches("must not hold oov_token, %-1", message_of(Lookup, {vocabulary = {1, -1}}))
    assert.matches("must not hold mask_token, 4",
      message_of(Lookup, {vocabulary = {1, 4}, mask_token = 4}))
    assert.matches("larger than max_tokens, 2",
      message_of(Lookup, {vocabulary = {1, 2}, max_tokens = 2}))
    assert.matches("must be 'int' where 'invert' is set",
      message_of(Lookup, {invert = true, output_mode = "count"}))
    assert.matches("'pad_to_max_tokens' needs 'max_tokens'",
      message_of(Lookup, {pad_to_max_tokens = true}))
    assert.matches("'num_oov_indices' must lie in %[1, 2147483647%], got 0",
      message_of(Lookup, {num_oov_indices = 0}))
    assert.matches("its vocabulary is unknown", message_of(function() Lookup()(int{1}) end))
    assert.matches("a vocabulary is a list or tensor of integers.*got integer %(3%)",
      message_of(function() Lookup():set_vocabulary(3) end))
    assert.matches("is called with a tensor, or a table of tensors, got boolean",
      message_of(function() Lookup{vocabulary = {1}}(true) end))
    assert.matches("get_vocabulary has no argument 'special'",
      message_of(function() Lookup():get_vocabulary{special = true} end))
    assert.matches("the vocabulary's file 'nowhere' can't be read",
      message_of(Lookup, {vocabulary = "nowhere"}))
    assert.matches("takes integers, got 0.5",
      message_of(function() Lookup():adapt(ipu.tensor{0.5}) end))
  end)
end)

describe("Wrapper", function()
  local Twice = layers.Wrapper:extend("Twice")
  function Twice:call(x, options) return self.layer(self.layer(x, options), options) end

  it("builds, holds and saves the layer in it", function()
    local model = keras.Sequential{Twice(layers.Dense(2, {kernel_initializer = "ones"}),
      {input_shape = {2}})}
    assert.are.same({{6, 6}}, model(ipu.tensor{{1, 2}}):totable()) -- 3 and 3, then 6 and 6
    assert.equal(6, model:count_params())
    local path = command.scratch ".safetensors"
    model:save(path)
    local copy = keras.models.load_model(path, {custom_objects = {Twice = Twice}})
    os.remove(path)
    assert.are.same({{6, 6}}, copy(ipu.tensor{{1, 2}}):totable())
    assert.matches("Twice: 'layer' must be a layer, got table", message_of(Twice, {layer = {}}))
  end)

  it("is what TimeDistributed is", function()
    assert.is_true(layers.TimeDistributed(layers.Dense(1)):is_a(layers.Wrapper))
  end)

  -- Keras: "`TimeDistributed` Layer should be passed an `input_shape ` with at least 3 dimensions,
  -- received: [2, 3]".
  it("says what TimeDistributed needs", function()
    local wanted <const> = "TimeDistributed needs at least 3 dimensions %(batch, time, features%), "
      .. "got the shape "
    for _, inner in ipairs{layers.Dense(1), layers.LSTM(2)} do
      assert.matches(wanted .. "%[2, 3%]",
        message_of(function() layers.TimeDistributed(inner)(ipu.ones{2, 3}) end))
    end
    local layer = layers.TimeDistributed(layers.Dense(1))
    assert.matches(wanted .. "%[%-1, 3%]", message_of(function() layer(keras.Input{3}) end))
    layer(ipu.ones{2, 4, 3})
    assert.matches(wanted .. "%[2, 3%]", message_of(function() layer(ipu.ones{2, 3}) end))
  end)
end)

describe("AbstractRNNCell", function()
  -- The minimal cell of Keras' documentation: output = input·kernel + state·recurrent_kernel.
  local Minimal = layers.AbstractRNNCell:extend("Minimal")
  function Minimal:init(units)
    layers.AbstractRNNCell.init(self)
    self.state_size, self.output_size = units, units
  end
  function Minimal:build(shape)
    local units = self.state_size
    self.kernel = self:add_weight{name = "kernel", shape = {shape[#shape], units},
      initializer = "ones"}
    self.recurrent = self:add_weight{name = "recurrent", shape = {units, units},
      initializer = "ones"}
  end
  function Minimal:call(x, states)
    local y = ipu.matmul(x, self.kernel) + ipu.matmul(states[1], self.recurrent)
    return y, {y}
  end

  it("is run by RNN, its states beginning with zeros", function()
    -- step 1: 1 + 2 = 3; step 2: 3 + 4 + 2·3 = 13
    assert.are.same({{{3, 3}, {13, 13}}},
      layers.RNN(Minimal(2), {return_sequences = true})(ipu.tensor{{{1, 2}, {3, 4}}}):totable())
    local cell = layers.AbstractRNNCell()
    cell.state_size = {2, {3, 4}}
    local states = cell:get_initial_state(5, "float32")
    assert.are.same({{5, 2}, {5, 3, 4}}, {states[1].shape, states[2].shape})
  end)

  it("says what a class lacks", function()
    local Lacking = layers.AbstractRNNCell:extend("Lacking")
    assert.matches("a cell must be a layer .* has a state_size", message_of(layers.RNN, Lacking()))
    assert.matches("its class Lacking sets no state_size",
      message_of(function() Lacking():get_initial_state(1) end))
    local cell = Lacking()
    cell.state_size = 2
    assert.matches("its class Lacking defines no call%(x, states%)",
      message_of(layers.RNN(cell), ipu.ones{1, 2, 3}))
  end)
end)

describe("InputSpec", function()
  local function checked(spec)
    local Own = layers.Layer:extend("Own")
    function Own:call(x) return x end -- luacheck: ignore 212
    local layer = Own()
    layer.input_spec = spec
    return layer
  end

  it("is honoured by the layer that has it", function()
    -- the example of Keras: (None, None, 3)
    local layer = checked(layers.InputSpec{shape = {-1, -1, 3}, dtype = "float32"})
    assert.are.same({2, 5, 3}, layer(ipu.ones{2, 5, 3}).shape)
    assert.matches("expected rank 3, got the shape %[2, 3%]", message_of(layer, ipu.ones{2, 3}))
    assert.matches("expected axis 2 to have 3 elements, got the shape %[2, 5, 4%]",
      message_of(layer, ipu.ones{2, 5, 4}))
    assert.matches("expected the dtype float32, got int32",
      message_of(layer, ipu.ones({2, 5, 3}, {dtype = "int32"})))
    assert.matches("expected rank 3", message_of(layer, keras.Input{shape = {3}}))
    layer = checked{layers.InputSpec{ndim = 1},
      layers.InputSpec{min_ndim = 2, max_ndim = 3, axes = {[-1] = 2}}}
    assert.matches("input 1 .* expected a rank of at least 2",
      message_of(layer, {ipu.ones{2}, ipu.ones{2}}))
    assert.matches("input 1 .* expected a rank of at most 3",
      message_of(layer, {ipu.ones{2}, ipu.ones{1, 1, 1, 2}}))
    assert.matches("input 1 .* expected axis %-1 to have 2 elements",
      message_of(layer, {ipu.ones{2}, ipu.ones{2, 3}}))
  end)

  -- InputSpec.__repr__ of Keras 2.6; its layers have the same specs.
  it("prints as Keras prints it", function()
    local InputSpec, dense = layers.InputSpec, layers.Dense(2)
    dense:build{-1, 3}
    for text, spec in pairs{
      ["InputSpec(shape=(None, None, 3), ndim=3)"] = InputSpec{shape = {-1, -1, 3}},
      ["InputSpec(shape=(4,), ndim=1)"] = InputSpec{shape = {4}},
      ["InputSpec(ndim=4)"] = layers.MaxPooling2D().input_spec,
      ["InputSpec(min_ndim=2, axes={-1: 3})"] = dense.input_spec,
      ["InputSpec(dtype=float32, max_ndim=3, axes={-1: 4, 1: 2})"] = InputSpec{dtype = "float32",
        max_ndim = 3, axes = {[1] = 2, [-1] = 4}},
      ["InputSpec(ndim=3)"] = layers.LSTM(2).input_spec,
      ["InputSpec(ndim=5)"] = layers.Conv3D(1, 1).input_spec,
      ["InputSpec()"] = InputSpec(),
    } do
      assert.are.equal(text, tostring(spec))
    end
  end)

  it("is refused where it makes no sense", function()
    assert.matches("'ndim' is 3, but 'shape' has 2 extents",
      message_of(layers.InputSpec, {shape = {-1, 3}, ndim = 3}))
    assert.matches("'axes' is a table from numbers of axes",
      message_of(layers.InputSpec, {axes = {last = 3}}))
    assert.matches("'min_ndim' must not be negative", message_of(layers.InputSpec, {min_ndim = -1}))
  end)
end)

describe("CategoryEncoding", function()
  local Encoding <const> = ipu.keras.layers.CategoryEncoding
  local x <const> = ipu.tensor({{0, 1}, {0, 0}, {1, 2}, {3, 1}}, {dtype = "int32"})
  local w <const> = ipu.tensor{{.1, .2}, {.1, .1}, {.2, .3}, {.4, .2}}

  it("counts weights as Keras' documentation shows it", function()
    local wanted = ipu.tensor{{.1, .2, 0, 0}, {.2, 0, 0, 0}, {0, .2, .3, 0}, {0, .2, 0, .4}}
    local found = Encoding{num_tokens = 4, output_mode = "count"}(x, {count_weights = w})
    assert.near(0, ipu.reduce_max(ipu.abs(found - wanted)):item(), 1e-6)
  end)

  it("knows the name that multi_hot had", function()
    assert.same({{1, 1, 0, 0}, {1, 0, 0, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}},
      Encoding{num_tokens = 4, output_mode = "binary"}(x):totable())
  end)

  it("refuses weights that don't fit", function()
    local function told(mode, weights)
      local ok, message = pcall(function()
        return Encoding{num_tokens = 4, output_mode = mode}(x, {count_weights = weights})
      end)
      assert.is_false(ok)
      return message
    end
    assert.matches("'count_weights' are for output_mode 'count', got one_hot", told("one_hot", w),
      1, true)
    assert.matches("must have the shape of the numbers, [4, 2], got [2, 2]",
      told("count", ipu.ones{2, 2}), 1, true)
    assert.matches("must be a tensor, got table", told("count", {1}), 1, true)
  end)
end)
