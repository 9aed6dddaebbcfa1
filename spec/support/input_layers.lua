-- Random layers that prepare inputs, compared with plain Lua, number by number. They are called
-- eagerly, compiled, in a model and over a dataset, and made again from their configurations.

local chains = require "spec.support.dataset_chains"
local class = require "ipulua.base.class"
local ipu = require "ipulua"

local layers = ipu.keras.layers

local cases = {}

local function choose(random, list) return list[random(#list) + 1] end

-- ------------------------------------------------ whole numbers

local function plain_lookup(o, values)
  local start = o.mask_token and o.output_mode == "int" and 1 or 0
  local number = {}
  for i, token in ipairs(o.vocabulary) do number[token] = start + o.num_oov_indices + i - 1 end
  local out = {}
  for i, value in ipairs(values) do
    if o.mask_token and value == o.mask_token then out[i] = o.output_mode == "int" and 0 or -1
    else out[i] = number[value] or start + value % o.num_oov_indices end
  end
  return out
end

-- Rows of numbers as vectors: of each number, or of the row.
local function plain_encode(rows, width, mode)
  local out = {}
  for i, row in ipairs(rows) do
    local sums = {}
    for k = 1, width do sums[k] = 0 end
    local each = {}
    for k, number in ipairs(row) do
      local one = {}
      for j = 1, width do one[j] = number + 1 == j and 1 or 0 end
      each[k] = one
      if number >= 0 and number < width then
        sums[number + 1] = mode == "multi_hot" and 1 or sums[number + 1] + 1
      end
    end
    if mode == "one_hot" then out[i] = #row == 1 and each[1] or each else out[i] = sums end
  end
  return out
end

local function draw_rows(random, pick)
  local rows, n = {}, random(4) + 1
  for i = 1, random(4) + 2 do
    rows[i] = {}
    for k = 1, n do rows[i][k] = pick() end
  end
  return rows
end

local function mapped(rows, f)
  local out = {}
  for i, row in ipairs(rows) do out[i] = f(row) end
  return out
end

local makers = {}

local large <const> = {int64 = {1 << 32, -(1 << 40), math.maxinteger}, int32 = {1 << 30}}

function makers.IntegerLookup(random)
  local o = {num_oov_indices = random(3) + 1, vocabulary = {},
    output_mode = choose(random, {"int", "one_hot", "multi_hot", "count"})}
  if random(3) == 0 then o.mask_token = 0 end
  for i = 1, random(9) + 1 do o.vocabulary[i] = i * 3 + random(3) end
  local dtype = choose(random, {"int32", "int64", "uint8", "float32"})
  local rows = draw_rows(random, function()
    if large[dtype] and random(5) == 0 then
      return choose(random, large[dtype]) + choose(random, o.vocabulary) - 1
    end
    return random(40)
  end)
  local numbers = mapped(rows, function(row) return plain_lookup(o, row) end)
  local width = o.num_oov_indices + #o.vocabulary
  return layers.IntegerLookup(o), rows, dtype, o.output_mode == "int" and numbers
    or plain_encode(numbers, width, o.output_mode)
end

function makers.CategoryEncoding(random)
  local width, mode = random(9) + 2, choose(random, {"one_hot", "multi_hot", "count"})
  local dtype = choose(random, {"int32", "int64", "uint8", "float32"})
  local rows = draw_rows(random, function()
    return dtype == "int64" and random(6) == 0 and (1 << 32) + random(width) or random(width)
  end)
  return layers.CategoryEncoding{width, output_mode = mode}, rows, dtype,
    plain_encode(rows, width, mode)
end

function makers.Discretization(random)
  local boundaries, at = {}, random(20) - 10
  for i = 1, random(6) + 1 do
    at = at + random(9) / 2
    boundaries[i] = at
  end
  local dtype = choose(random, {"int32", "int64", "uint8", "float32", "float64"})
  local rows = draw_rows(random, function()
    local n = dtype == "uint8" and random(30) or random(60) - 30
    return dtype:find "float" and n / 2 or n
  end)
  return layers.Discretization{boundaries}, rows, dtype, mapped(rows, function(row)
    local out = {}
    for k, value in ipairs(row) do
      out[k] = 0
      for _, b in ipairs(boundaries) do out[k] = out[k] + (value >= b and 1 or 0) end
    end
    return out
  end)
end

function makers.Embedding(random)
  local count, width = random(9) + 2, random(3) + 1
  local list = {}
  for i = 1, count do
    list[i] = {}
    for k = 1, width do list[i][k] = i * 10 + k end
  end
  local dtype = choose(random, {"int32", "int64", "uint8"})
  local rows = draw_rows(random, function() return random(count) end)
  local layer = layers.Embedding(count, width)
  layer:build{-1, #rows[1]}
  layer:set_weights{ipu.tensor(list)}
  return layer, rows, dtype, mapped(rows, function(row)
    local out = {}
    for k, number in ipairs(row) do out[k] = list[number + 1] end
    return out
  end)
end

-- ------------------------------------------------ pictures

local function draw_pictures(random, h, w, c, odd)
  local list = {}
  for b = 1, random(2) + 1 do
    list[b] = {}
    for i = 1, h do
      list[b][i] = {}
      for j = 1, w do
        list[b][i][j] = {}
        for k = 1, c do
          local value = random(256)
          if odd and random(12) == 0 then value = math.huge end
          list[b][i][j][k] = value
        end
      end
    end
  end
  return list
end

-- Each pixel by f(picture, row, column), from 0 → a list of channels.
local function drawn(pictures, h, w, f)
  return mapped(pictures, function(p)
    local out = {}
    for i = 0, h - 1 do
      out[i + 1] = {}
      for j = 0, w - 1 do out[i + 1][j + 1] = f(p, i, j) end
    end
    return out
  end)
end

local function mean_of(weights)
  local out = {}
  for _, each in ipairs(weights) do
    local weight, pixel = each[1], each[2]
    for k, value in ipairs(weight ~= 0 and pixel or {}) do
      out[k] = (out[k] or 0) + weight * value
    end
  end
  return out
end

local function size_of(p) return #p, #p[1], #p[1][1] end

local function clamp(x, low, high) return math.min(math.max(x, low), high) end

-- An element without a share isn't read.
local function resized(p, h, w, interpolation)
  local height, width = size_of(p)
  return function(_, i, j)
    local y, x = (i + 0.5) * height / h, (j + 0.5) * width / w
    if interpolation == "nearest" then
      return p[clamp(math.floor(y), 0, height - 1) + 1][clamp(math.floor(x), 0, width - 1) + 1]
    end
    y, x = clamp(y - 0.5, 0, height - 1), clamp(x - 0.5, 0, width - 1)
    local y0, x0 = math.floor(y), math.floor(x)
    local y1, x1, dy, dx = math.min(y0 + 1, height - 1), math.min(x0 + 1, width - 1), y - y0, x - x0
    return mean_of{{(1 - dy) * (1 - dx), p[y0 + 1][x0 + 1]}, {(1 - dy) * dx, p[y0 + 1][x1 + 1]},
      {dy * (1 - dx), p[y1 + 1][x0 + 1]}, {dy * dx, p[y1 + 1][x1 + 1]}}
  end
end

function makers.Resizing(random)
  local h, w = random(7) + 1, random(7) + 1
  local interpolation = choose(random, {"bilinear", "nearest"})
  local pictures = draw_pictures(random, random(7) + 1, random(7) + 1, random(3) + 1, true)
  local out = mapped(pictures, function(p)
    return drawn({p}, h, w, resized(p, h, w, interpolation))[1]
  end)
  return layers.Resizing{h, w, interpolation = interpolation}, pictures, "float32", out
end

function makers.CenterCrop(random)
  local height, width = random(6) + 2, random(6) + 2
  local h, w = random(height) + 1, random(width) + 1
  local pictures = draw_pictures(random, height, width, 2, true)
  return layers.CenterCrop(h, w), pictures, "float32", drawn(pictures, h, w, function(p, i, j)
    return p[(height - h) // 2 + i + 1][(width - w) // 2 + j + 1]
  end)
end

function makers.Rescaling(random)
  local scale, offset = random(9) / 8, random(9) - 4
  local pictures = draw_pictures(random, 3, 2, 2, true)
  return layers.Rescaling(scale, offset), pictures, choose(random, {"float32", "uint8"}),
    drawn(pictures, 3, 2, function(p, i, j)
      local out = {}
      for k, value in ipairs(p[i + 1][j + 1]) do out[k] = value * scale + offset end
      return out
    end)
end

local outside = {
  nearest = function(i, n) return clamp(i, 0, n - 1) end, wrap = function(i, n) return i % n end,
  reflect = function(i, n)
    i = i % (2 * n)
    return i < n and i or 2 * n - 1 - i
  end,
}

-- A pixel at whole places, of pictures that go on outside.
local function pixel(p, y, x, o)
  local h, w, c = size_of(p)
  if o.fill_mode == "constant" then
    if y >= 0 and y < h and x >= 0 and x < w then return p[y + 1][x + 1] end
    local fill = {}
    for k = 1, c do fill[k] = o.fill_value end
    return fill
  end
  local f = outside[o.fill_mode]
  return p[f(y, h) + 1][f(x, w) + 1]
end

local function read_at(p, y, x, o)
  if o.interpolation == "nearest" then
    return pixel(p, math.floor(y + 0.5), math.floor(x + 0.5), o)
  end
  local y0, x0 = math.floor(y), math.floor(x)
  local dy, dx = y - y0, x - x0
  return mean_of{{(1 - dy) * (1 - dx), pixel(p, y0, x0, o)},
    {(1 - dy) * dx, pixel(p, y0, x0 + 1, o)},
    {dy * (1 - dx), pixel(p, y0 + 1, x0, o)}, {dy * dx, pixel(p, y0 + 1, x0 + 1, o)}}
end

local function fill_options(random)
  return {fill_mode = choose(random, {"reflect", "wrap", "constant", "nearest"}),
    interpolation = choose(random, {"bilinear", "nearest"}), fill_value = random(9)}
end

local function copy(t, more)
  local out = {}
  for k, v in pairs(t) do out[k] = v end
  for k, v in pairs(more) do out[k] = v end
  return out
end

-- Moved by whole pixels, and halves: a range of one value leaves nothing to chance.
function makers.RandomTranslation(random)
  local h, w, o = (random(3) + 1) * 2, (random(3) + 1) * 2, fill_options(random)
  local down, right = random(2 * h + 1) - h, random(2 * w + 1) - w
  if o.interpolation == "bilinear" and random(2) == 0 then down, right = down / 2, right / 2 end
  local pictures = draw_pictures(random, h, w, 2, down % 1 == 0 and right % 1 == 0)
  local layer = layers.RandomTranslation(copy(o, {height_factor = {down / h, down / h},
    width_factor = {right / w, right / w}}))
  return layer, pictures, "float32", drawn(pictures, h, w, function(p, i, j)
    return read_at(p, i - down, j - right, o)
  end), true
end

function makers.RandomZoom(random)
  local n, o = 2 * random(3) + 3, fill_options(random)
  local zoom = choose(random, {0, 1, -0.5})
  local pictures, middle = draw_pictures(random, n, n, 1, zoom ~= -0.5), (n - 1) / 2
  local layer = layers.RandomZoom(copy(o, {height_factor = {zoom, zoom}}))
  return layer, pictures, "float32", drawn(pictures, n, n, function(p, i, j)
    return read_at(p, middle + (i - middle) * (1 + zoom), middle + (j - middle) * (1 + zoom), o)
  end), true
end

-- ------------------------------------------------ the comparison

local function flat(value, out)
  if type(value) ~= "table" then
    out[#out + 1] = value
  else
    for _, each in ipairs(value) do flat(each, out) end
  end
  return out
end

local function close(a, b)
  return a == b or a ~= a and b ~= b or math.abs(a - b) <= 1e-3 + 1e-4 * math.abs(b)
end

local function shape_of(value)
  local shape = {}
  while type(value) == "table" do
    shape[#shape + 1] = #value
    value = value[1]
  end
  return table.concat(shape, ", ")
end

-- A wrong value of a tensor; nil if all are right.
local function difference(got, want)
  local shape = table.concat(got.shape, ", ")
  if shape ~= shape_of(want) then return "[" .. shape .. "] for [" .. shape_of(want) .. "]" end
  local a, b = flat(got:totable(), {}), flat(want, {})
  for i = 1, #b do
    if not close(a[i], b[i]) then
      return string.format("number %d is %s, not %s", i, tostring(a[i]), tostring(b[i]))
    end
  end
end

local function again(layer)
  local other = class.of(layer):from_config(layer:get_config())
  return function(x, o)
    if #layer.weights > 0 then
      other:build(x.shape)
      other:set_weights(layer:get_weights())
    end
    return other(x, o)
  end
end

local function over_dataset(layer, o)
  return function(x)
    local list = {}
    for y in ipu.data.from_tensor_slices(x):batch(1, {drop_remainder = true})
      :map(function(each) return layer(each, o) end):iter() do list[#list + 1] = y end
    return ipu.concat(list, {axis = 0})
  end
end

local function in_model(layer, x)
  local shape = table.move(x.shape, 2, #x.shape, 1, {})
  local input = ipu.keras.Input{shape = shape, dtype = x.dtype}
  return ipu.keras.Model(input, layer(input))
end

---Runs a case: a list of what is wrong, and its text.
function cases.check(seed)
  local random = chains.random_of(seed * 7919 + 3)
  for _ = 1, 5 do random(2) end
  local names = {}
  for name in pairs(makers) do names[#names + 1] = name end
  table.sort(names)
  local name = choose(random, names)
  local layer, rows, dtype, want, trains = makers[name](random)
  local o, wrong = {training = trains or false}, {}
  if dtype == "uint8" then
    local all = flat(rows, {})
    for _, v in ipairs(all) do
      if v < 0 or v > 255 then dtype = "float32" end
    end
  end
  local x = ipu.tensor(rows, {dtype = dtype})
  local one = over_dataset(layer, o)
  local forms = {
    eager = function() return layer(x, o) end,
    compiled = function() return ipu.func(function(t) return layer(t, o) end)(x) end,
    ["made again"] = function() return again(layer)(x, o) end,
    dataset = name ~= "Embedding" and function() return one(x) end or nil,
  }
  if dtype ~= "int64" and dtype ~= "float64" then
    forms.model = not trains and function() return in_model(layer, x):predict(x) end or nil
  else
    forms.compiled = nil -- layers that don't go to the device
  end
  for form, f in pairs(forms) do
    local fine, result = pcall(f)
    local problem = not fine and tostring(result) or difference(result, want)
    if problem then wrong[#wrong + 1] = form .. ": " .. problem end
  end
  return wrong, string.format("seed %d: %s, %s", seed, tostring(layer), dtype)
end

return cases
