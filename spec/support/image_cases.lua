-- Image layers with arguments at random, for image_oracle.py: image_cases.lua SEED COUNT FOLDER. It
-- writes the images and results of each case as .npz. In cases.jsonl stands what they are. Ranges
-- of one number leave nothing to chance. Of flips, crops and contrast the oracle knows what may
-- come.

local ipu = require "ipulua"
local keras, data = ipu.keras, ipu.data
local layers <const> = keras.layers

local seed <const>, count <const>, folder <const> = tonumber(arg[1]), tonumber(arg[2]), arg[3]
math.randomseed(seed)
ipu.random.set_seed(seed)

local function one_of(list) return list[math.random(#list)] end
local function between(low, high) return low + (high - low) * math.random() end

-- A share of an extent: now and then a whole number or a half of pixels.
local function share(extent)
  if math.random() < 0.5 then return math.random(-2 * extent, 2 * extent) / 2 / extent end
  return between(-1, 1)
end

local function filled(a, named)
  a.fill_mode = one_of{"nearest", "reflect", "constant"}
  a.interpolation = one_of{"bilinear", "nearest"}
  a.fill_value = one_of{0, 7, -3.5}
  for name, value in pairs(named) do a[name] = {value, value} end
  return a
end

local makers <const> = {
  Rescaling = function()
    return {scale = one_of{1 / 255, 2, -0.5}, offset = one_of{0, -1, 0.25}}
  end,
  Resizing = function()
    return {height = math.random(1, 13), width = math.random(1, 13),
      interpolation = one_of{"bilinear", "nearest"}, crop_to_aspect_ratio = math.random() < 0.5}
  end,
  CenterCrop = function(h, w) return {height = math.random(1, h), width = math.random(1, w)} end,
  RandomCrop = function() return {height = math.random(1, 9), width = math.random(1, 9)} end,
  RandomFlip = function()
    return {mode = one_of{"horizontal", "vertical", "horizontal_and_vertical"}}
  end,
  RandomTranslation = function(h, w)
    return filled({}, {height_factor = share(h), width_factor = share(w)})
  end,
  RandomRotation = function() return filled({}, {factor = between(-1, 1)}) end,
  RandomZoom = function()
    return filled({}, {height_factor = between(-0.8, 1), width_factor = between(-0.8, 1)})
  end,
  RandomContrast = function() return {factor = {between(0, 1), between(0, 2)}} end,
}
local names <const> = {}
for name in pairs(makers) do names[#names + 1] = name end
table.sort(names)

-- How a layer is called: at once, in a compiled function, in a dataset's map, in a model.
local ways <const> = {
  eager = function(layer, x, training) return layer(x, {training = training}) end,
  compiled = function(layer, x, training)
    return ipu.func(function(v) return layer(v, {training = training}) end)(x)
  end,
  map = function(layer, x, training)
    local ds = data.from_tensors(x):map(function(v) return layer(v, {training = training}) end)
    return ds:iterator():next()
  end,
  model = function(layer, x, training)
    local input = keras.Input{batch_shape = x.shape, dtype = x.dtype}
    local model = keras.Model{inputs = input, outputs = layer(input)}
    if training then return model(x, {training = true}) end
    return model:predict(x, {batch_size = x.shape[1]})
  end,
}

local file <close> = assert(io.open(folder .. "/cases.jsonl", "w"))
for number = 1, count do
  local name <const> = names[(number - 1) % #names + 1]
  local h, w <const> = math.random(1, 11), math.random(1, 11)
  local arguments <const> = makers[name](h, w)
  local dtype <const> = one_of{"float32", "float32", "float16", "uint8", "int32"}
  local way <const> = one_of{"eager", "compiled", "map", "model"}
  local is_batch <const> = way == "model" or math.random() < 0.7
  local shape = {h, w, math.random(1, 4)}
  if is_batch then table.insert(shape, 1, math.random(1, 4)) end
  local x = ipu.cast(ipu.random.uniform(shape, {maxval = 255}), dtype)
  arguments.dtype = dtype == "float16" and "float16" or nil
  arguments.seed = name:find("Random") and one_of{nil, 3} or nil
  local layer <const> = layers[name](arguments)
  local training <const> = math.random() < 0.7
  local y <const> = ways[way](layer, x, training)
  ipu.save(string.format("%s/%d.npz", folder, number), {x = x, y = ipu.cast(y, "float32")})
  file:write(ipu.json.encode{number = number, name = name, way = way, dtype = dtype,
    out = y.dtype, training = training, arguments = arguments}, "\n")
end
