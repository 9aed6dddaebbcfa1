-- Weights that Keras wrote (files made with h5py in its layouts), where the plug-in was built.
local ipu = require "ipulua"
local command = require "spec.support.command"

local keras, layers = ipu.keras, ipu.keras.layers
local build = command.ipulua:match("^(.*)/[^/]*$")
local there = os.execute("test -e " .. command.quote(build .. "/modules/ipulua/hdf5.so"))
  and os.execute("/usr/bin/python3 -c 'import h5py' 2>/dev/null") and not build:find("build%-[at]san")
local run_if = there and it or pending

describe("load_weights of .h5", function()
  local folder
  setup(function()
    folder = command.folder()
    if there then assert(os.execute("/usr/bin/python3 spec/support/h5_files.py " .. command.quote(folder))) end
  end)
  teardown(function() command.remove(folder) end)

  local function model(first, second, third)
    local m = keras.Sequential{layers.Dense{2, name = first}, layers.BatchNormalization{name = second}, layers.Flatten(),
      layers.Dense{1, name = third}}
    m:build{4, 3}
    return m
  end

  local function check(m)
    local w = m:get_weights()
    assert.same({{0, 0.125}, {0.25, 0.375}, {0.5, 0.625}}, w[1]:totable())
    assert.same({-1, -0.875}, w[2]:totable())
    for i = 0, 3 do assert.same({i, i + 0.125}, w[3 + i]:totable()) end
    assert.same({{5}, {5.125}}, w[7]:totable())
    assert.same({7}, w[8]:totable())
  end

  run_if("reads those of Keras 2, by name or in order", function()
    local m = model("first", "middle", "last")
    m:load_weights(folder .. "/keras2.h5")
    check(m)
    local other = model("a", "b", "c")
    other:load_weights(folder .. "/model.h5")
    check(other)
  end)

  run_if("reads those of Keras 3", function()
    local m = model("x", "y", "z")
    m:load_weights(folder .. "/keras3.weights.h5")
    check(m)
  end)

  run_if("refuses what doesn't fit, and changes nothing", function()
    local m = model("first", "middle", "last")
    local before = m:get_weights()[1]:totable()
    local cases = {
      short = "2 layers with weights, the model has 3",
      shape = "weight 'first/kernel' has the shape %[2, 3%] in the file, %[3, 2%] in the model",
      linked = "links to elsewhere", outside = "elements are in another file", claims = "more elements than are stored",
      cut = "no HDF5 file, or it can't be read", none = "no HDF5 file", missing = "there is no file",
    }
    for name, words in pairs(cases) do
      local ok, message = pcall(m.load_weights, m, folder .. "/" .. name .. ".h5")
      assert(not ok and message:find(words), name .. ": " .. tostring(message))
    end
    assert.same(before, m:get_weights()[1]:totable())
  end)
end)
