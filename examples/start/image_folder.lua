-- Trains on pictures in a folder that has a folder for each class, then classifies one file. The
-- pictures are split into training and validation, and flipped at random. Without --folder the
-- script draws circles and squares.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local given, epochs, size = require "ipulua.script".arguments{{"folder", ""},
  {"epochs", 20, short = 10}, {"size", 32}}
keras.utils.set_random_seed(1)

-- A folder with 100 pictures of each kind.
local function drawn()
  local folder = os.tmpname()
  os.remove(folder)
  local y = ipu.broadcast_to(ipu.reshape(ipu.arange(48), {48, 1}), {48, 48})
  local x = ipu.transpose(y)
  for i = 1, 100 do
    local dx, dy, r = x - (18 + i % 12), y - (18 + i * 7 % 12), 8 + i % 9
    for kind, inside in pairs{
      circles = ipu.less_equal(dx * dx + dy * dy, r * r),
      squares = ipu.less_equal(ipu.maximum(ipu.abs(dx), ipu.abs(dy)), r),
    } do
      os.execute("mkdir -p " .. folder .. "/" .. kind)
      local red, rest = ipu.cast(inside, "uint8") * 200, ipu.full({48, 48}, i, {dtype = "uint8"})
      keras.utils.save_img(string.format("%s/%s/%d.png", folder, kind, i),
        ipu.stack({red, rest, rest}, {axis = -1}))
    end
  end
  return folder
end

local folder = given ~= "" and given or drawn()
local pictures, names = data.from_image_folder(folder, {image_size = {size, size}})
pictures = pictures:shuffle(2000, {seed = 1, reshuffle_each_iteration = false})
local held <const> = #pictures // 5
local train, validation = pictures:skip(held):batch(16), pictures:take(held):batch(16)
print(#pictures .. " pictures of " .. table.concat(names, " and "))

local model = keras.Sequential{
  layers.Rescaling{1 / 255, input_shape = {size, size, 3}},
  layers.RandomFlip{"horizontal"},
  layers.Conv2D{16, 3, padding = "same", activation = "relu"}, layers.MaxPooling2D(),
  layers.Conv2D{32, 3, padding = "same", activation = "relu"}, layers.MaxPooling2D(),
  layers.Flatten(), layers.Dense{32, activation = "relu"}, layers.Dense{#names},
}
model:compile{optimizer = keras.optimizers.Adam{3e-3}, metrics = {"accuracy"},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
model:fit(train:cache():prefetch(), {validation_data = validation, epochs = epochs, verbose = 2})

local file = io.popen("ls " .. folder .. "/" .. names[1] .. "/*"):read "l"
local picture = keras.utils.load_img(file, {target_size = {size, size}})
local batch = ipu.expand_dims(keras.utils.img_to_array(picture), 0)
local scores = ipu.nn.softmax(model:predict(batch)[1])
print(string.format("%s: %s, %.0f %% sure", file:match "[^/]*$",
  names[ipu.argmax(scores):item() + 1], 100 * ipu.reduce_max(scores):item()))
if given == "" then os.execute("rm -r " .. folder) end
