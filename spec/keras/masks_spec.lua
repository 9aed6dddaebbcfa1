-- Masks in each layer of keras.layers, against the table in docs/howto/models.md, which is from the
-- documentation of Keras 2.6. Numbers are compared with computations without masks.

local ipu = require "ipulua"
local all = require "spec.support.keras_layers"
local context = require "ipulua.keras.base.context"
local keras = ipu.keras
local L = keras.layers

local function values(...) return all.values(...) end

-- Whether two tensors agree; nil for none.
local function same(a, b, tolerance)
  if a == nil or b == nil then return a == b end
  if table.concat(a.shape, ",") ~= table.concat(b.shape, ",") then return false end
  local x, y = ipu.cast(a, "float32"), ipu.cast(b, "float32")
  return ipu.reduce_max(ipu.abs(x - y)):item() <= (tolerance or 0)
end

local function mask_of(shape, seed)
  return ipu.greater(values({shape[1], shape[2]}, seed or 3), -0.3)
end

-- A copy of a tensor that has a mask.
local function masked(x, mask)
  local copy = ipu.identity(x)
  context.set_mask(copy, mask)
  return copy
end

local function table_of_page()
  local file = assert(io.open("docs/howto/models.md"))
  local page = file:read "a"
  file:close()
  local rows = {}
  for kind, layers in page:match("## Masks\n(.-)\n## "):gmatch("\n| ([^|]+) | ([^|]+) |") do
    if kind ~= "---" then rows[kind] = layers end
  end
  return rows
end

describe("masks", function()
  local kinds = {} -- layer → the rows that it is in
  for kind, layers in pairs(table_of_page()) do
    for name in layers:gmatch("`(%u%w+)`") do
      kinds[name] = kinds[name] or {}
      table.insert(kinds[name], kind)
    end
  end

  -- The mask of a layer's result, its inputs having `mask`; layers of one input.
  local function result_mask(name, more, mask, x)
    local layer = L[name](all.arguments(name, more))
    return context.mask((all.call(name, layer, masked(x, mask), {training = false})))
  end

  it("are told of each layer, in one row of the table", function()
    for name in pairs(all.classes()) do
      if all.samples[name] then
        assert.equal(name == "Concatenate" and 2 or 1, #(kinds[name] or {}), name)
      end
    end
  end)

  it("pass on or end as the table says, in layers of one input", function()
    local counts = {}
    for name, rows in pairs(kinds) do
      local sample = all.samples[name]
      local passes = rows[1] == "passes it on" or rows[1]:find("^leaves masked elements")
      if sample.input and (passes or rows[1]:find("ends it$")) then
        local x = all.inputs(name)
        local mask = mask_of(x.shape)
        assert.is_true(same(result_mask(name, nil, mask, x), passes and mask or nil), name)
        counts[passes and 1 or 2] = (counts[passes and 1 or 2] or 0) + 1
      end
    end
    assert.is_true(counts[1] >= 20 and counts[2] >= 40)
  end)

  it("go on through recurrent layers that give sequences, in either order of axes", function()
    for name, rows in pairs(kinds) do
      if rows[1]:find("^skips masked steps") and name ~= "Bidirectional" then
        local x = all.inputs(name)
        local mask = mask_of(x.shape)
        local function of(more)
          local layer = L[name](all.arguments(name, more))
          return context.mask((layer(masked(x, mask))))
        end
        assert.is_nil(of{return_sequences = false}, name)
        assert.is_true(same(of{return_sequences = true}, mask), name)
        if not name:find("Conv") then
          assert.is_true(same(of{return_sequences = true, time_major = true}, mask), name
            .. " time_major")
        end
      end
    end
  end)

  it("are joined or kept by layers of several inputs", function()
    local a, b = values({4, 5, 3}, 1), values({4, 5, 3}, 2)
    local m, n = mask_of({4, 5}, 5), mask_of({4, 5}, 6)
    local both, ones = ipu.logical_and(m, n), ipu.ones({4, 5}, {dtype = "bool"})
    local function of(layer, x, y) return context.mask(layer{x, y}) end
    for _, name in ipairs{"Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract",
      "Concatenate"} do
      local layer = L[name]()
      assert.is_true(same(of(layer, masked(a, m), masked(b, n)), both), name)
      assert.is_true(same(of(layer, a, masked(b, n)), n), name)
      assert.is_nil(of(layer, a, b), name)
    end
    assert.is_nil(of(L.Dot{axes = 1}, masked(a, m), masked(b, n)))
    local joined = L.Concatenate{axis = 1}
    assert.is_true(same(of(joined, masked(a, m), masked(b, n)), ipu.concat({m, n}, {axis = 1})))
    assert.is_true(same(of(joined, a, masked(b, n)), ipu.concat({ones, n}, {axis = 1})))
    assert.is_true(same(of(L.Concatenate{axis = 0}, masked(a, m), b), ipu.concat({m, ones},
      {axis = 0})))
    local deep = values({4, 5, 2, 3}, 4)
    assert.is_true(same(of(L.Concatenate{axis = 2}, masked(deep, m), masked(deep, n)), both))
    for _, name in ipairs{"Attention", "AdditiveAttention"} do
      assert.is_true(same(of(L[name](), masked(a, m), masked(b, n)), m), name)
      assert.is_nil(of(L[name](), a, masked(b, n)), name)
    end
  end)

  it("are made by Embedding, Masking and Lambda", function()
    local ids = ipu.tensor({{3, 0, 2}, {0, 0, 1}}, "int32")
    local want = ipu.tensor{{true, false, true}, {false, false, true}}
    assert.is_true(same(context.mask(L.Embedding{5, 2, mask_zero = true}(ids)), want))
    assert.is_nil(context.mask(L.Embedding{5, 2}(ids)))
    local x = ipu.tensor{{{0, 0}, {0, 1}}, {{2, 0}, {0, 0}}}
    assert.is_true(same(context.mask(L.Masking()(x)), ipu.tensor{{false, true}, {true, false}}))
    assert.is_true(same(context.mask(L.Masking{mask_value = 2}(x)), ipu.tensor{{true, true}, {true,
      true}}))
    local given = L.Lambda{func = ipu.abs, mask = function(_,
      mask) return ipu.logical_not(mask) end}
    assert.is_true(same(context.mask(given(masked(ids, want))), ipu.logical_not(want)))
  end)

  -- ---------------------------------------------- wrappers and models

  it("are handled by the layer in TimeDistributed, rank by rank", function()
    local x = values({3, 4, 5, 2}, 1)
    local words, sentences = ipu.greater(values({3, 4, 5}, 2), 0), mask_of{3, 4}
    local function of(inner, mask, input) return context.mask(L.TimeDistributed(inner)(masked(input
      or x, mask))) end
    assert.is_true(same(of(L.Dense(2), words), words))
    assert.is_true(same(of(L.Dense(2), sentences), sentences))
    assert.is_true(same(of(L.LSTM(2), words), ipu.reduce_any(words, {axis = -1})))
    assert.is_true(same(of(L.LSTM{2, return_sequences = true}, words), words))
    assert.is_true(same(of(L.Conv1D(2, 2), sentences), sentences))
    assert.is_nil(context.mask(L.TimeDistributed(L.Dense(2))(x)))
    local ids = ipu.cast((values({3, 4, 5}, 4) + 1) * 1.5, "int32")
    local embedded = L.TimeDistributed(L.Embedding{4, 2, mask_zero = true})(ids)
    assert.is_true(same(context.mask(embedded), ipu.not_equal(ids, 0)))
    local inner = keras.Sequential{L.Embedding{4, 2, mask_zero = true}, L.Dense(3)}
    assert.is_true(same(context.mask(L.TimeDistributed(inner)(ids)), ipu.not_equal(ids, 0)))
  end)

  it("travel through models, nested ones, in mixed precision, and beside a call", function()
    local x = values({4, 5, 3}, 1)
    local mask = mask_of{4, 5}
    local i = keras.Input{shape = {5, 3}}
    local functional = keras.Model{inputs = i, outputs = L.Dense(2)(L.Dropout(0.5)(i))}
    local nested = keras.Sequential{keras.Input{shape = {5, 3}}, functional,
      keras.Sequential{L.Dense(2)}, L.ReLU()}
    local Own = keras.Model:extend("Own")
    function Own:init()
      keras.Model.init(self, {})
      self.dense = L.Dense(2)
    end
    function Own:call(inputs) return self.dense(inputs) end
    local half = keras.Sequential{L.Dense{2, dtype = "mixed_float16"}}
    for name, model in pairs{functional = functional, nested = nested, own = Own(), half = half,
      bidirectional =
      L.Bidirectional(L.GRU{2, return_sequences = true}),
        captured = L.CaptureUpstreamGradients(L.Dense(2))} do
      assert.is_true(same(context.mask(model(masked(x, mask))), mask), name)
      assert.is_nil(context.mask(model(x)), name)
    end
    assert.is_true(same(context.mask(nested(x, {mask = mask})), mask))
    assert.is_nil(context.mask(x))
    assert.is_true(same(functional:compute_mask(x, mask), mask))
    local y, z = L.Bidirectional{L.LSTM{2, return_sequences = true}, merge_mode = "none"}(masked(x,
      mask))
    assert.is_true(same(context.mask(y), mask) and same(context.mask(z), mask))
  end)

  it("leave steps out of losses and metrics after Dense, nested or not", function()
    local embed, dense = L.Embedding{9, 4, mask_zero = true}, L.Dense(3)
    local ids = ipu.cast(ipu.maximum(values({16, 7}, 5) * 9, 0), "int32")
    local y = values({16, 7, 3}, 6)
    local i = keras.Input{shape = {7}, dtype = "int32"}
    local used = ipu.cast(ipu.not_equal(ids, 0), "float32")
    for _, outputs in ipairs{dense(embed(i)), keras.Sequential{dense}(embed(i))} do
      local model = keras.Model{inputs = i, outputs = outputs}
      model:compile{loss = "mse", optimizer = "sgd", metrics = {"mae"}}
      local p = model:predict(ids)
      local r = model:evaluate(ids, y, {verbose = 0, batch_size = 16, return_dict = true})
      local squares = ipu.reduce_mean(ipu.square(p - y), {axis = -1}) * used
      assert.near(ipu.reduce_mean(squares):item(), r.loss, 1e-6)
      local errors = ipu.reduce_mean(ipu.abs(p - y), {axis = -1}) * used
      assert.near((ipu.reduce_sum(errors) / ipu.reduce_sum(used)):item(), r.mae, 1e-6)
    end
  end)

  -- ---------------------------------------------- numbers

  local batch <const>, time <const> = 6, 9

  local function of_sample(x, sample) return ipu.gather(x, ipu.tensor({sample}, "int32"),
    {axis = 0}) end

  -- x [batch, time, …] of one sample, the kept steps alone.
  local function kept_steps(x, mask, sample)
    local list = {}
    for t = 0, time - 1 do
      if mask[sample + 1][t + 1] then list[#list + 1] = t end
    end
    return ipu.gather(of_sample(x, sample), ipu.tensor(list, "int32"), {axis = 1}), list
  end

  local function swap(x)
    local perm = {1, 0}
    for axis = 2, #x.shape - 1 do perm[#perm + 1] = axis end
    return ipu.transpose(x, perm)
  end

  -- Steps that are masked count as if they were not there: compared sample by sample with sequences
  -- of the kept ones.
  local function check_skipping(name, make, x, mask)
    local plain = mask:totable()
    for _, direction in ipairs{"forwards", "backwards"} do
      local layer = make{return_sequences = true, go_backwards = direction == "backwards"}
      local last = make{return_sequences = false, go_backwards = direction == "backwards"}
      local y = layer(masked(x, mask))
      last(x)
      last:set_weights(layer:get_weights())
      local final = last(masked(x, mask))
      for sample = 0, batch - 1 do
        local short, list = kept_steps(x, plain, sample)
        local want = layer(short)
        -- where the kept ones are in the result, which is turned around when it was read backwards
        local steps = {}
        for i, t in ipairs(list) do steps[i] = direction == "backwards" and time - 1 - t or t end
        if direction == "backwards" then table.sort(steps) end
        local got = ipu.gather(of_sample(y, sample), ipu.tensor(steps, "int32"), {axis = 1})
        assert.is_true(same(got, want, 1e-5), name .. " " .. direction)
        assert.is_true(same(of_sample(final, sample), last(short), 1e-5), name .. " " .. direction
          .. ", last")
      end
    end
  end

  it("make recurrent layers skip steps, whatever their cells", function()
    local x, mask = values({batch, time, 3}, 1), mask_of({batch, time}, 8)
    for name, make in pairs{
      LSTM = function(o) return L.LSTM(4, o) end, GRU = function(o) return L.GRU(4, o) end,
      SimpleRNN = function(o) return L.SimpleRNN(4, o) end,
      unfused = function(o) return L.LSTM(4, {activation = "relu",
        return_sequences = o.return_sequences,
        go_backwards = o.go_backwards}) end,
      cell = function(o) return L.RNN(L.GRUCell(3), o) end,
      stacked = function(o) return L.RNN({L.LSTMCell(3), L.SimpleRNNCell(2)}, o) end,
    } do check_skipping(name, make, x, mask) end
    local images = values({batch, time, 4, 4, 2}, 1)
    check_skipping("ConvLSTM2D", function(o) return L.ConvLSTM2D(2, 2,
      {return_sequences = o.return_sequences,
      go_backwards = o.go_backwards}) end, images, mask)
  end)

  it("do so in time-major order and in both directions, too", function()
    local x = values({batch, time, 3}, 1)
    for _, extent in ipairs{batch, time} do -- other extents, and equal ones
      local input = ipu.slice(x, {0, 0, 0}, {batch, extent, 3})
      local mask = mask_of({batch, extent}, 8)
      for _, wrap in ipairs{function(l) return l end, L.Bidirectional} do
        for _, name in ipairs{"LSTM", "GRU", "SimpleRNN"} do
          local function make(major) return wrap(L[name](4, {return_sequences = true,
            time_major = major})) end
          local plain, major = make(false), make(true)
          local want = plain(masked(input, mask))
          major(swap(input))
          major:set_weights(plain:get_weights())
          assert.is_true(same(swap(major(masked(swap(input), swap(mask)))), want, 1e-5), name)
        end
      end
    end
  end)

  it("give each sentence its own in TimeDistributed", function()
    local x, mask = values({4, 3, 7, 2}, 1), ipu.greater(values({4, 3, 7}, 2), -0.2)
    local lstm = L.LSTM(5)
    local y = L.TimeDistributed(lstm)(masked(x, mask))
    local want = lstm(masked(ipu.reshape(x, {12, 7, 2}), ipu.reshape(mask, {12, 7})))
    assert.is_true(same(ipu.reshape(y, {12, 5}), want, 1e-6))
  end)

  it("leave steps out of means, attention and softmax", function()
    local x, mask = values({batch, time, 3}, 1), mask_of({batch, time}, 8)
    local plain, query = mask:totable(), values({batch, 4, 3}, 2)
    local mean, attention = L.GlobalAveragePooling1D()(masked(x, mask)), L.Attention(){query,
      masked(x, mask)}
    local mha, additive = L.MultiHeadAttention(2, 3), L.AdditiveAttention()
    local several, summed = mha(query, masked(x, mask)), additive{query, masked(x, mask)}
    local soft = L.Softmax{axis = 1}(masked(x, mask))
    for sample = 0, batch - 1 do
      local short, list = kept_steps(x, plain, sample)
      local q = of_sample(query, sample)
      local function part(y) return of_sample(y, sample) end
      assert.is_true(same(part(mean), ipu.reduce_mean(short, {axis = 1}), 1e-6))
      assert.is_true(same(part(attention), L.Attention(){q, short}, 1e-5))
      assert.is_true(same(part(several), mha(q, short), 1e-5))
      assert.is_true(same(part(summed), additive{q, short}, 1e-5))
      local got = ipu.gather(part(soft), ipu.tensor(list, "int32"), {axis = 1})
      assert.is_true(same(got, ipu.nn.softmax(short, {axis = 1}), 1e-6))
    end
  end)

  it("of a rank that a layer can't take are refused in its terms", function()
    local x = values({4, 5, 3}, 1)
    assert.error_matches(function() L.LSTM(2)(x, {mask = ipu.ones({4}, {dtype = "bool"})}) end,
      "mask must be %[batch, time%]")
    assert.error_matches(function()
      L.GRU(2, {time_major = true})(x, {mask = ipu.ones({4}, {dtype = "bool"})})
    end, "mask must be %[time, batch%]")
  end)
end)

-- In Keras 2.6 the tensors of a functional model have their masks while it is written.
describe("the mask of a functional model's tensor", function()
  local Zeroed = L.Layer:extend("Zeroed")
  function Zeroed:call(x, options) -- luacheck: ignore 212
    return x * ipu.cast(ipu.expand_dims(options.mask, -1), x.dtype)
  end

  it("is handed to the call of an own layer", function()
    local ids = ipu.tensor({{1, 0, 2}, {0, 0, 3}}, "int32")
    local input = keras.Input{shape = {-1}, dtype = "int32"}
    local x = L.Embedding{4, 2, mask_zero = true, embeddings_initializer = "ones"}(input)
    x = L.Dropout(0.5)(L.Dense{2, kernel_initializer = "identity", bias_initializer = "ones"}(x))
    local model = keras.Model{inputs = input, outputs = Zeroed()(x)}
    assert.same({-1, -1, 2}, model.outputs[1].shape)
    assert.same({{{2, 2}, {0, 0}, {2, 2}}, {{0, 0}, {0, 0}, {2, 2}}},
      model:predict(ids):totable())
    local row = keras.Sequential{L.Masking{input_shape = {3, 1}}, Zeroed()}
    assert.same({{{5}, {0}, {7}}}, row:predict(ipu.tensor{{{5}, {0}, {7}}}):totable())
  end)

  it("is none where the layer before drops it", function()
    local input = keras.Input{shape = {3}, dtype = "int32"}
    local x = L.Conv1D(2, 1)(L.Embedding{4, 2, mask_zero = true}(input))
    assert.error_matches(function() Zeroed()(x) end, "layer 'zeroed.*expand_dims: 'x' is missing")
  end)
end)
