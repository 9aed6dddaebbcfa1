-- Pictures in files, in both directions; how they look is checked against sums by hand and, of PNG,
-- against Python's zlib.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"

local keras, image = ipu.keras, ipu.image

local function numbers(t) return ipu.reshape(t, {-1}):totable() end

-- [height, width, channels] of known bytes, which no filter makes alike.
local function bytes(height, width, channels)
  local list = {}
  for i = 1, height * width * channels do list[i] = (i * 37 + i * i) % 256 end
  return ipu.cast(ipu.reshape(ipu.tensor(list, "int32"), {height, width, channels}), "uint8")
end

describe("pictures", function()
  local folder
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  it("of bytes come back from PNG as they were", function()
    for channels = 1, 4 do
      for _, size in ipairs{{1, 1}, {3, 5}, {40, 33}} do
        local x, path = bytes(size[1], size[2], channels), folder .. "/x.png"
        image.write(path, x)
        local back = image.read(path)
        assert.same(core.plain(x.shape), core.plain(back.shape))
        assert.same(numbers(x), numbers(back))
        keras.utils.save_img(path, x)
        assert.same(numbers(x), numbers(image.read(path, {channels = channels})))
      end
    end
  end)

  it("come back from JPEG about as they were", function()
    for _, channels in ipairs{1, 3} do
      local x, path = ipu.full({24, 17, channels}, 90, "uint8"), folder .. "/x.jpg"
      image.write(path, x, {quality = 100})
      for _, value in ipairs(numbers(image.read(path))) do assert.is_near(90, value, 1) end
    end
    image.write(folder .. "/rough.jpeg", bytes(32, 32, 3), {quality = 5})
    image.write(folder .. "/fine.jpeg", bytes(32, 32, 3), {quality = 95})
    assert.is_true(#command.read(folder .. "/rough.jpeg") < #command.read(folder .. "/fine.jpeg"))
  end)

  it("of numbers are scaled to 0 … 255, or rounded", function()
    local path, x = folder .. "/f.png", ipu.tensor{{-1, 0, 1}, {3, 0.5, -0.5}}
    keras.utils.save_img(path, x)
    assert.same({0, 64, 128, 255, 96, 32}, numbers(image.read(path)))
    keras.utils.save_img(path, x * 100, {scale = false})
    assert.same({0, 0, 100, 255, 50, 0}, numbers(image.read(path)))
    image.write(path, ipu.ones{2, 2})
    assert.same({0, 0, 0, 0}, numbers(image.read(path)))
    assert.same({0, 255}, numbers(keras.utils.array_to_img(ipu.tensor{{{2}, {4}}})))
  end)

  it("are loaded in another size and other colours", function()
    local path = folder .. "/s.png"
    image.write(path, ipu.cast(ipu.tensor{{{10}, {20}}, {{30}, {40}}}, "uint8"))
    local loaded = keras.utils.load_img(path, {color_mode = "grayscale", target_size = {4, 4}})
    assert.same({10, 10, 20, 20, 10, 10, 20, 20, 30, 30, 40, 40, 30, 30, 40, 40}, numbers(loaded))
    assert.same({2, 2, 3}, core.plain(keras.utils.load_img(path).shape))
    assert.same({25}, numbers(keras.utils.load_img(path, {color_mode = "grayscale",
      target_size = {1, 1}, interpolation = "bilinear"})))
    local array = keras.utils.img_to_array(keras.utils.load_img(path))
    assert.equal("float32", array.dtype)
    local first = keras.utils.img_to_array(keras.utils.load_img(path),
      {data_format = "channels_first"})
    assert.same({3, 2, 2}, core.plain(first.shape))
    assert.same(numbers(array), numbers(keras.utils.array_to_img(first,
      {data_format = "channels_first", scale = false})))
  end)

  it("stand side by side in a grid", function()
    local x = ipu.cast(ipu.reshape(ipu.arange(12), {3, 2, 2, 1}), "uint8")
    local grid = image.grid(x, {columns = 2, gap = 1})
    assert.same({5, 5, 1}, core.plain(grid.shape))
    local w <const> = 255
    assert.same({0, 1, w, 4, 5, 2, 3, w, 6, 7, w, w, w, w, w, 8, 9, w, w, w, 10, 11, w, w, w},
      numbers(grid))
    assert.same({2, 2, 1}, core.plain(image.grid(ipu.ones{1, 2, 2}).shape))
  end)

  it("that can't be are refused, and leave no file", function()
    for path, case in pairs{
      ["x.gif"] = {ipu.ones{2, 2}, "must end in .png, .jpg or .jpeg"},
      ["x.png"] = {ipu.ones({2, 2, 5}, "uint8"), "1 to 4 channels"},
      ["x.jpg"] = {ipu.ones({2, 2, 4}, "uint8"), "JPEG has 1 or 3 channels"},
    } do
      assert.error_matches(function() image.write(folder .. "/none-" .. path, case[1]) end, case[2])
      assert.is_nil(io.open(folder .. "/none-" .. path))
    end
    assert.error_matches(function() image.write("/dev/full/x.png", ipu.ones{2, 2}) end,
      "/dev/full/x.png")
    assert.error_matches(function() image.grid(ipu.ones{4}) end, "samples, height, width")
    assert.error_matches(function() keras.utils.load_img(folder .. "/none") end,
      "none: cannot open")
    assert.error_matches(function()
      keras.utils.load_img(folder .. "/s.png", {target_size = {0, 2}})
    end, "two positive integers")
  end)
end)
