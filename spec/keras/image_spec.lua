-- Image layers.

local ipu = require "ipulua"

local layers = ipu.keras.layers

local function image(rows)
  local t = ipu.tensor(rows)
  return ipu.reshape(t, {1, t.shape[1], t.shape[2], 1})
end

local function rows_of(t) return ipu.reshape(t, {t.shape[2], t.shape[3]}):totable() end

local three = image{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}

describe("image layers", function()
  it("change size", function()
    assert.are.same({{0, 0.25, 0.75, 1}, {0.5, 0.75, 1.25, 1.5}, {1.5, 1.75, 2.25, 2.5},
      {2, 2.25, 2.75, 3}},
      rows_of(layers.Resizing(4, 4)(image{{0, 1}, {2, 3}})))
    assert.are.same({{0, 0, 1, 1}, {0, 0, 1, 1}, {2, 2, 3, 3}, {2, 2, 3, 3}},
      rows_of(layers.Resizing(4, 4, {interpolation = "nearest"})(image{{0, 1}, {2, 3}})))
    assert.are.same({{4}}, rows_of(layers.CenterCrop(1, 1)(three)))
  end)

  it("do nothing random outside of training", function()
    for _, layer in ipairs{layers.RandomFlip(), layers.RandomRotation(0.5), layers.RandomZoom(0.5),
      layers.RandomContrast(0.5), layers.RandomBrightness(0.5),
      layers.RandomTranslation(0.5, 0.5)} do
      assert.are.same(rows_of(three), rows_of(layer(three)))
    end
  end)

  local function trained(layer) return rows_of(layer(three, {training = true})) end

  -- tf.keras 2.6: "the contrast factor will be randomly picked between [1 - lower, 1 + upper]"; the
  -- mean stays.
  it("change contrast between a lower and an upper factor", function()
    local layer, scales = layers.RandomContrast{factor = {0.5, 0}}, {}
    for i = 1, 20 do
      local rows = trained(layer)
      scales[i] = (rows[3][3] - rows[1][1]) / 8
      assert.is_true(scales[i] >= 0.5 and scales[i] <= 1, scales[i])
      assert.is_true(math.abs((rows[3][3] + rows[1][1]) / 2 - 4) < 1e-5)
    end
    table.sort(scales)
    assert.is_true(scales[20] - scales[1] > 0.05)
    assert.error_matches(function() layers.RandomContrast{factor = {2, 1}} end,
      "a lower one of at most 1")
    assert.error_matches(function() layers.RandomContrast{factor = {-1, 1}} end,
      "must not be negative")
  end)

  -- Keras 2.9: a share of value_range is added, drawn for each image; values stay in the range.
  it("change brightness by a share of the range, and stay in it", function()
    local shifts = {}
    for seed = 1, 20 do
      local layer = layers.RandomBrightness{{-0.1, 0.2}, value_range = {0, 100}, seed = seed}
      local pair = layer(ipu.full({2, 1, 2, 1}, 50), {training = true}):totable()
      assert.equal(pair[1][1][1][1], pair[1][1][2][1])
      for k = 1, 2 do table.insert(shifts, pair[k][1][1][1] - 50) end
      assert.not_equal(pair[1][1][1][1], pair[2][1][1][1])
    end
    table.sort(shifts)
    assert.is_true(shifts[1] >= -10 and shifts[1] < -7, shifts[1])
    assert.is_true(shifts[40] <= 20 and shifts[40] > 17, shifts[40])
    local bright = layers.RandomBrightness{{0.5, 0.5}, value_range = {0, 1}}
    assert.same({{0.5, 1}}, rows_of(bright(image{{0, 0.75}}, {training = true})))
  end)

  -- Pixels say where they are: 10 row + column.
  it("crop at every place, rows apart from columns, and in the middle elsewhere", function()
    local x = image{{0, 1, 2, 3}, {10, 11, 12, 13}, {20, 21, 22, 23}, {30, 31, 32, 33},
      {40, 41, 42, 43}}
    local seen, places = {}, 0
    for seed = 1, 150 do
      local rows = rows_of(layers.RandomCrop{3, 2, seed = seed}(x, {training = true}))
      local first = rows[1][1]
      for i = 0, 2 do assert.same({first + 10 * i, first + 10 * i + 1}, rows[i + 1]) end
      if not seen[first] then places = places + 1 end
      seen[first] = true
    end
    assert.equal(3 * 3, places)
    assert.same({{11, 12}, {21, 22}, {31, 32}}, rows_of(layers.RandomCrop{3, 2, seed = 1}(x)))
  end)

  it("turn counter-clockwise", function()
    assert.are.same({{2, 5, 8}, {1, 4, 7}, {0, 3, 6}},
      trained(layers.RandomRotation{{0.25, 0.25}, interpolation = "nearest"}))
  end)

  it("move, filling in what they uncover", function()
    local function moved(mode)
      return trained(layers.RandomTranslation({0, 0}, {1 / 3, 1 / 3},
        {fill_mode = mode, interpolation = "nearest", fill_value = 9}))[1]
    end
    assert.are.same({9, 0, 1}, moved("constant"))
    assert.are.same({0, 0, 1}, moved("nearest"))
    assert.are.same({0, 0, 1}, moved("reflect"))
    assert.are.same({2, 0, 1}, moved("wrap"))
  end)

  it("crop at random places within the image", function()
    local layer = layers.RandomCrop{2, 2, seed = 4}
    local crop = trained(layer)
    assert.are.equal(crop[1][1] + 4, crop[2][2])
    assert.are.equal(crop[1][1] + 1, crop[1][2])
  end)
end)

-- Keras 2.6's tutorials resize single images in the map of a dataset.
describe("one image without a batch", function()
  local one <const> = ipu.random.uniform({6, 4, 3}, {maxval = 255, seed = 1})
  local batch <const> = ipu.expand_dims(one, 0)

  for name, arguments in pairs{Resizing = {3, 2}, CenterCrop = {2, 2},
    RandomCrop = {3, 3, seed = 1}, RandomFlip = {"vertical", seed = 1},
    RandomTranslation = {0.2, 0.2, seed = 1}, RandomRotation = {0.2, seed = 1},
    RandomZoom = {0.3, seed = 1}, RandomContrast = {0.4, seed = 1},
    RandomBrightness = {0.4, seed = 1}, Rescaling = {1 / 255}} do
    for _, training in ipairs{false, true} do
      it(("goes through %s as a batch of one, training %s"):format(name, training), function()
        local function through(x)
          ipu.random.set_seed(3)
          return layers[name](arguments)(x, {training = training})
        end
        local alone, together = through(one), through(batch)
        assert.equal(3, #alone.shape)
        assert.equal(tostring(together[1]), tostring(alone))
      end)
    end
  end

  it("goes through the layers of a model in a dataset's map", function()
    local rescale = ipu.keras.Sequential{layers.Resizing(3, 2, {interpolation = "nearest"}),
      layers.Rescaling(1 / 255)}
    local ds = ipu.data.from_tensors(one):map(function(x) return rescale(x) end)
    for x in ds:iter() do
      assert.same({3, 2, 3}, {table.unpack(x.shape)})
      -- of the rows 0 … 5 and the columns 0 … 3 those in the middle of each part
      assert.near(one[2][2][1]:item() / 255, x[1][1][1]:item(), 1e-6)
      assert.near(one[6][4][3]:item() / 255, x[3][2][3]:item(), 1e-6)
    end
  end)

  it("is no image with another rank", function()
    local function told(x)
      return select(2, pcall(function() return layers.Resizing(3, 2)(x) end))
    end
    assert.matches("expected a rank of at least 3, got the shape %[6, 4%]", told(ipu.ones{6, 4}))
    assert.matches("expected a rank of at most 4", told(ipu.ones{1, 1, 6, 4, 3}))
  end)
end)
