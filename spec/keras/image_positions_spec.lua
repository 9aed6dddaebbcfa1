-- Where image layers read their pixels. Ranges of one number leave nothing to chance, and pixels
-- say their places: 10 · row + column.

local ipu = require "ipulua"
local layers <const> = ipu.keras.layers

local function picture(rows, columns)
  return ipu.reshape(ipu.reshape(ipu.arange(rows, {dtype = "float32"}) * 10, {rows, 1})
    + ipu.arange(columns, {dtype = "float32"}), {1, rows, columns, 1})
end

-- A layer's result in training, as rows.
local function rows_of(layer, x)
  local y <const> = layer(x, {training = true})
  return ipu.reshape(y, {y.shape[2], y.shape[3]}):totable()
end

-- place(i, n): the row or column that is read for i, nil outside.
local outside <const> = {
  nearest = function(i, n) return math.min(math.max(i, 0), n - 1) end,
  wrap = function(i, n) return i % n end,
  reflect = function(i, n) return i % (2 * n) < n and i % n or n - 1 - i % n end,
  constant = function(i, n) return i >= 0 and i < n and i or nil end,
}

local function read(mode, rows, columns, row_of, column_of)
  local list = {}
  for i = 0, rows - 1 do
    list[i + 1] = {}
    for j = 0, columns - 1 do
      local row, column = outside[mode](row_of(i, j), rows),
        outside[mode](column_of(i, j), columns)
      list[i + 1][j + 1] = row and column and 10.0 * row + column or -7.0
    end
  end
  return list
end

local rows <const>, columns <const> = 4, 5

for mode in pairs(outside) do
  describe("beyond the border, " .. mode .. ":", function()
    it("RandomTranslation", function()
      for down = -6, 6 do
        for _, right in ipairs{-7, -2, -1, 0, 1, 3} do
          local layer <const> = layers.RandomTranslation{{down / 4, down / 4},
            {right / 5, right / 5}, fill_mode = mode, interpolation = "nearest", fill_value = -7}
          assert.same(read(mode, rows, columns, function(i) return i - down end,
            function(_, j) return j - right end), rows_of(layer, picture(rows, columns)))
        end
      end
    end)

    -- Counter-clockwise around the middle, 1.5 and 2. The pixel at row i, column j was at row j -
    -- 0.5 and column 3.5 - i, both rounded up.
    it("RandomRotation by a quarter", function()
      local layer <const> = layers.RandomRotation{{0.25, 0.25}, fill_mode = mode,
        interpolation = "nearest", fill_value = -7}
      assert.same(read(mode, 3, 5, function(_, j) return j - 1 end, function(i) return 3 - i end),
        rows_of(layer, picture(3, 5)))
    end)

    -- The middle of 5 rows is 2, of 9 columns 4.
    it("RandomZoom, each axis by its own factor", function()
      local layer <const> = layers.RandomZoom{{1, 1}, {-0.5, -0.5}, fill_mode = mode,
        interpolation = "nearest", fill_value = -7}
      assert.same(read(mode, 5, 9, function(i) return 2 * i - 2 end,
        function(_, j) return (j + 5) // 2 end), rows_of(layer, picture(5, 9)))
    end)
  end)
end

describe("between pixels", function()
  it("their neighbours are mixed", function()
    local layer <const> = layers.RandomTranslation{{0.125, 0.125}, {0, 0}, fill_mode = "constant",
      fill_value = -7}
    assert.same({{-3.5}, {5}, {15}, {25}}, rows_of(layer, picture(4, 1)))
  end)
end)

describe("Resizing", function()
  it("crops the middle to the target's proportions", function()
    local layer <const> = layers.Resizing{2, 2, crop_to_aspect_ratio = true}
    assert.same({{8.5, 10.5}, {28.5, 30.5}}, rows_of(layer, picture(4, 10)))
    assert.same({{35.5, 37.5}, {55.5, 57.5}}, rows_of(layer, picture(10, 4)))
  end)
end)

describe("RandomContrast", function()
  it("scales distances from the mean by what lies between both factors", function()
    local x <const> = ipu.reshape(ipu.tensor{1, 3}, {1, 1, 2, 1})
    local least, most = math.huge, 0
    for seed = 1, 60 do
      local y <const> = layers.RandomContrast{{0.5, 2}, seed = seed}(x, {training = true})
      local scale <const> = ipu.reduce_max(y):item() - 2
      least, most = math.min(least, scale), math.max(most, scale)
    end
    assert.is_true(least >= 0.5 and least < 0.8 and most <= 3 and most > 2.5,
      least .. " to " .. most)
  end)
end)
