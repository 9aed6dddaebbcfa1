local command = require "spec.support.command"
local ipu = require "ipulua"

-- An IDX file of bytes: the format's own words, written by hand.
local function idx(extents, bytes)
  local head = string.char(0, 0, 8, #extents)
  for _, extent in ipairs(extents) do head = head .. string.pack(">I4", extent) end
  return head .. bytes
end

describe("mnist.load_data", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  local function files(images, labels)
    for _, set in ipairs{"train", "t10k"} do
      command.write(folder .. "/" .. set .. "-images-idx3-ubyte", images)
      command.write(folder .. "/" .. set .. "-labels-idx1-ubyte", labels)
    end
    return pcall(ipu.keras.datasets.mnist.load_data, {path = folder})
  end
  local images, labels = idx({2, 2, 2}, "abcdefgh"), idx({2}, "\1\2")

  it("reads images and labels", function()
    local ok, x, y = files(images, labels)
    assert.is_true(ok, x)
    assert.same({2, 2, 2}, x.shape)
    assert.same({1, 2}, y:totable())
  end)
  for what, case in pairs{
    ["labels of another number"] = {images, idx({3}, "\1\2\3"),
      "train%-labels.*3 labels at byte offset 4.*2 images"},
    ["labels in place of images"] = {labels, labels, "train%-images.*byte offset 0"},
    ["images in place of labels"] = {images, images, "train%-labels.*byte offset 0"},
    ["a truncated file"] = {images:sub(1, -2), labels, "train%-images.*offset"},
    ["an oversized file"] = {images .. "x", labels, "train%-images.*offset"},
    ["a wrong magic number"] = {"\1" .. images:sub(2), labels, "train%-images.*offset 0"},
  } do
    it("refuses " .. what, function()
      local ok, message = files(case[1], case[2])
      assert.is_false(ok)
      assert.matches(case[3], message)
    end)
  end

  it("says that it draws, for a path again", function()
    local script = "local mnist = require('ipulua').keras.datasets.mnist mnist.load_data() "
      .. "mnist.load_data('nowhere')"
    local err = command.run{command.ipulua, "-e", script,
      env = {HOME = folder, IPULUA_DATA = folder}}.err
    assert.matches("no MNIST files were found in $IPULUA_DATA/mnist or ~/.ipulua/datasets/mnist; "
      .. "digits are drawn instead\n.*no MNIST files at 'nowhere'; digits are drawn instead\n", err)
  end)

  it("looks in $IPULUA_DATA/mnist, then in ~/.ipulua/datasets/mnist, and only there", function()
    local script = "print(require('ipulua').keras.datasets.mnist.load_data().shape[1])"
    local function first(where)
      local at = folder .. "/" .. where
      os.execute("mkdir -p '" .. at .. "'")
      files(images, labels)
      os.execute(string.format("mv '%s'/*ubyte '%s'", folder, at))
      local out = command.run{command.ipulua, "-e", script,
        env = {HOME = folder, IPULUA_DATA = folder .. "/data"}}.out
      os.execute("rm -r '" .. at .. "'")
      return out
    end
    assert.equal("2\n", first("data/mnist"))
    assert.equal("2\n", first(".ipulua/datasets/mnist"))
    assert.equal("60000\n", first(".keras/datasets/mnist"))
  end)
end)
