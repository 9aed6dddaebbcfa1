-- Batches of elements of about the same length, and models that are fed with batches of any shape.
-- TensorFlow 2.6 gives a full bucket's batch at once, and what is left at the end by bucket.

local ipu = require "ipulua"

local data, keras, layers = ipu.data, ipu.keras, ipu.keras.layers

local lengths <const> = {1, 5, 2, 9, 3, 6, 2, 4, 12, 1}

-- Element i has lengths[i] times the number i, and i.
local function rows(upto)
  return data.from_generator(function()
    local i = 0
    return function()
      i = i + 1
      if i > (upto or #lengths) then return nil end
      local row = {}
      for k = 1, lengths[i] do row[k] = i end
      return ipu.tensor(row, {dtype = "int32"}), i
    end
  end, {output_types = {"int32", "int32"}, output_shapes = {{-1}, {}}})
end

local function length(x) return x.shape[1] end

local function shapes(ds)
  local list = {}
  for x, y in ds:iter() do
    list[#list + 1] = table.concat(x.shape, "x") .. "=" .. table.concat(y:totable(), ",")
  end
  return table.concat(list, " ")
end

describe("bucket_by_sequence_length", function()
  it("gives batches of a bucket, each as long as its longest", function()
    local ds = rows():bucket_by_sequence_length(length, {3, 7}, {2, 3, 1})
    assert.equal("Dataset(bucket_by_sequence_length: int32[-1, -1], int32[-1])", tostring(ds))
    assert.equal("2x2=1,3 1x9=4 3x6=2,5,6 1x12=9 2x2=7,10 1x4=8", shapes(ds))
    assert.equal("2x2=1,3 1x9=4 3x6=2,5,6 1x12=9 2x2=7,10", shapes(rows():
      bucket_by_sequence_length(length, {3, 7}, {2, 3, 1}, {drop_remainder = true})))
  end)

  it("pads to the bucket's boundary, with given values", function()
    local ds = rows():bucket_by_sequence_length{length, {3, 7, 20}, {2, 3, 1, 1},
      pad_to_bucket_boundary = true, padding_values = {-1, 0}}
    assert.equal("2x2=1,3 1x19=4 3x6=2,5,6 1x19=9 2x2=7,10 1x6=8", shapes(ds))
    for x in ds:take(1):iter() do assert.same({{1, -1}, {3, 3}}, x:totable()) end
    local given = rows():bucket_by_sequence_length{length, {3, 7, 20}, {2, 3, 1, 1},
      pad_to_bucket_boundary = true, padded_shapes = {{-1}, {}}}
    assert.equal("2x2=1,3 1x19=4 3x6=2,5,6 1x19=9 2x2=7,10 1x6=8", shapes(given))
  end)

  it("reads a shuffled dataset anew each time", function()
    local ds = rows():shuffle(10, {seed = 2}):bucket_by_sequence_length(length, {3, 7}, {2, 3, 1})
    local first, second = shapes(ds), shapes(ds)
    assert.not_equal(first, second)
    assert.equal(#first, #second)
  end)

  it("refuses buckets that are none", function()
    for pattern, f in pairs{
      ["'bucket_boundaries' must rise, got 4 after 8"] = function()
        rows():bucket_by_sequence_length(length, {8, 4}, {2, 2, 2})
      end,
      ["2 boundaries make 3 buckets, but 'bucket_batch_sizes' has 2"] = function()
        rows():bucket_by_sequence_length(length, {3, 7}, {2, 2})
      end,
      ["at least 1, got 0"] = function() rows():bucket_by_sequence_length(length, {3}, {2, 0}) end,
      ["9, lies beyond the last boundary, 7"] = function()
        shapes(rows():bucket_by_sequence_length(length, {3, 7}, {2, 3, 1},
          {pad_to_bucket_boundary = true}))
      end,
      ["must give an integer, got nil"] = function()
        shapes(rows():bucket_by_sequence_length(function() end, {3}, {2, 2}))
      end,
    } do
      local ok, message = pcall(f)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
  end)
end)

local function classifier(arguments)
  keras.utils.set_random_seed(1)
  local input = layers.Input{shape = {-1}, dtype = "int32"}
  local h = layers.GlobalAveragePooling1D()(layers.Embedding{12, 4, mask_zero = true}(input))
  local model = keras.Model{inputs = input, outputs = layers.Dense{1}(h)}
  arguments.optimizer, arguments.loss = "sgd", "mse"
  model:compile(arguments)
  return model
end

describe("a model fed with batches of any shape", function()
  it("learns what it learns from batches padded to one length", function()
    local any, one = classifier{}, classifier{}
    local h = any:fit(rows():padded_batch(4), {epochs = 3, verbose = 0})
    local same = one:fit(rows():padded_batch(4, {padded_shapes = {{12}, {}}}),
      {epochs = 3, verbose = 0})
    for i, loss in ipairs(same.history.loss) do assert.near(loss, h.history.loss[i], 1e-4) end
    local ds = rows():bucket_by_sequence_length(length, {3, 7}, {2, 3, 1})
    assert.same({10, 1}, any:predict(ds:map(function(x) return x end)).shape)
    assert.near(any:evaluate(rows():padded_batch(10), {verbose = 0}),
      any:evaluate(ds, {verbose = 0}), 1e-4)
  end)

  it("keeps max_programs programs, and draws the same numbers with few as with many", function()
    local losses = {}
    for i, count in ipairs{64, 1} do
      keras.utils.set_random_seed(1)
      local model = keras.Sequential{layers.Embedding{12, 4}, layers.Dropout{0.5},
        layers.GlobalAveragePooling1D(), layers.Dense{1}}
      model:compile{optimizer = "sgd", loss = "mse", max_programs = count}
      local fitted = model:fit(rows():padded_batch(2), {epochs = 4, verbose = 0})
      losses[i] = fitted.history.loss
    end
    assert.same(losses[1], losses[2])
  end)

  it("predicts without having been compiled", function()
    local input = layers.Input{shape = {-1}, dtype = "int32"}
    local model = keras.Model{inputs = input,
      outputs = layers.GlobalAveragePooling1D()(layers.Embedding{12, 4}(input))}
    assert.same({10, 4}, model:predict(rows():map(function(x) return x end):padded_batch(4)).shape)
  end)

  it("says when they can't be taken", function()
    local model = classifier{steps_per_execution = 2}
    local ok, message = pcall(model.fit, model, rows():padded_batch(4), {verbose = 0})
    assert.is_false(ok)
    assert.matches("may have any shape; with steps_per_execution = 1 each is an execution", message)
  end)
end)
