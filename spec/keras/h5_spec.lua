-- Weights that Keras wrote (files made with h5py in its layouts), where the plug-in was built.
local ipu = require "ipulua"
local command = require "spec.support.command"

local keras, layers = ipu.keras, ipu.keras.layers
local build = command.ipulua:match("^(.*)/[^/]*$")
local there = os.execute("test -e " .. command.quote(build .. "/modules/ipulua/hdf5.so"))
  and command.python "h5py" and not build:find("build%-[at]san")
local run_if = there and it or pending

describe("load_weights of .h5", function()
  local folder
  setup(function()
    folder = command.folder()
    if there then
      assert(os.execute(command.python "h5py" .. " spec/support/h5_files.py "
        .. command.quote(folder)))
    end
  end)
  teardown(function() command.remove(folder) end)

  local function model(first, second, third)
    local m = keras.Sequential{layers.Dense{2, name = first},
      layers.BatchNormalization{name = second}, layers.Flatten(),
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

  -- ((3, 6, 0) - mean) / deviation is (1, 1, -1); then the kernel's rows add up to 3 - 3 i / 8.
  run_if("sets mean and variance of a Normalization, which are weights in Keras", function()
    local function scaled(name)
      local n = layers.Normalization{name = name}
      n:adapt(ipu.tensor{{0, 0, 0}, {20, 20, 20}})
      return keras.Sequential{keras.Input{shape = {3}}, n, layers.Dense{2, name = "first"}}
    end
    for _, case in ipairs{{"/learnt.h5", "other", {}}, {"/learnt.h5", "scaled", {by_name = true}},
      {"/learnt3.weights.h5", "scaled", {}}} do
      local m = scaled(case[2])
      m:load_weights(folder .. case[1], case[3])
      local y = m:predict(ipu.tensor{{3, 6, 0}}):totable()[1]
      assert.near(0 + 0.25 - 0.5 - 1, y[1], 1e-6)
      assert.near(0.125 + 0.375 - 0.625 - 0.875, y[2], 1e-6)
    end
    local m = scaled "scaled"
    assert.error_matches(function() m:load_weights(folder .. "/learnt_short.h5") end,
      "layer 'scaled' has 3 weights, the file 2")
    m = keras.Sequential{keras.Input{shape = {3}}, layers.Normalization{mean = 0, variance = 1},
      layers.Dense{2, name = "first"}, layers.BatchNormalization{name = "middle"},
      layers.Dense{1, name = "last"}}
    m:load_weights(folder .. "/keras2.h5") -- given values are no weights
    check(m)
  end)

  run_if("reads those of Keras 3", function()
    local m = model("x", "y", "z")
    m:load_weights(folder .. "/keras3.weights.h5")
    check(m)
  end)

  -- A model in a model: {layer, its weights' first elements}.
  local function check_nested(frozen, functional, file)
    local inner = {layers.Dense{2, input_shape = {2}}, layers.BatchNormalization(), layers.Dense{2}}
    local nested = keras.Sequential(inner)
    if functional then
      local x = keras.Input{shape = {2}}
      nested = keras.Model{inputs = x, outputs = inner[3](inner[2](inner[1](x)))}
    end
    nested.trainable = not frozen
    local input = keras.Input{shape = {3}}
    local m = keras.Model{inputs = input, outputs = layers.Dense{1}(nested(layers.Dense{2}(input)))}
    m:load_weights(folder .. file)
    local firsts = {}
    for _, layer in ipairs(inner) do
      for _, w in ipairs(layer:get_weights()) do
        firsts[#firsts + 1] = w:reshape{-1}:totable()[1]
      end
    end
    assert.same({10, 11, 12, 13, 14, 15, 20, 21}, firsts)
    assert.same({{5}, {5.125}}, m.layers[4]:get_weights()[1]:totable())
  end

  run_if("reads those of a model in a model: what is trained first, then the rest", function()
    check_nested(false, false, "/nested.hdf5")
    check_nested(false, true, "/nested.hdf5")
    check_nested(true, false, "/frozen.h5")
    check_nested(false, false, "/sequential.weights.h5")
    check_nested(false, true, "/functional.weights.h5")
  end)

  run_if("reads lists of layers of Keras 3 in their order, not that of the alphabet", function()
    local function check_cells(file, cells)
      local m = keras.Sequential{layers.RNN(layers.StackedRNNCells{cells = cells})}
      m:build{1, 3, 2}
      m:load_weights(folder .. file)
      for i, w in ipairs(m:get_weights()) do
        assert.equal((i - 1) // 3, w:reshape{-1}:totable()[1])
      end
    end
    local twelve = {}
    for i = 1, 12 do twelve[i] = layers.SimpleRNNCell(2) end
    check_cells("/cells.weights.h5", twelve)
    check_cells("/mixed.weights.h5",
      {layers.SimpleRNNCell(2), layers.GRUCell(2), layers.SimpleRNNCell(2)})
  end)

  run_if("by_name takes what the file knows, skip_mismatch what fits of it", function()
    local function known(options)
      local m = keras.Sequential{layers.Dense{2, name = "first", input_shape = {3}},
        layers.Dense{5, name = "other"},
        layers.Dense{1, name = "last"}}
      local before = m.layers[3]:get_weights()[1]:totable()
      m:load_weights(folder .. "/keras2.h5", options)
      assert.same({{0, 0.125}, {0.25, 0.375}, {0.5, 0.625}}, m:get_weights()[1]:totable())
      assert.same(before, m.layers[3]:get_weights()[1]:totable())
    end
    known{by_name = true, skip_mismatch = true}
    assert.error_matches(function() known{by_name = true} end,
      "weight 'last/kernel' has the shape %[2, 1%] in the file, %[5, 1%] in the model")
    assert.error_matches(function() known{} end, "layer 'other' has 2 weights, the file 4")
    assert.error_matches(function()
      model("x", "y", "z"):load_weights(folder .. "/keras3.weights.h5", {by_name = true})
    end,
      "'by_name' needs a file of Keras 2")
  end)

  run_if("refuses what doesn't fit, and changes nothing", function()
    local m = model("first", "middle", "last")
    local before = m:get_weights()[1]:totable()
    local cases = {
      short = "2 layers with weights, the model has 3",
      shape = "weight 'first/kernel' has the shape %[2, 3%] in the file, %[3, 2%] in the model",
      linked = "links to elsewhere", outside = "elements are in another file",
      virtual = "elements are in another file",
      claims = "more elements than are stored",
      cut = "no HDF5 file, or it can't be read", none = "no HDF5 file",
      missing = "there is no file",
    }
    for name, words in pairs(cases) do
      local ok, message = pcall(m.load_weights, m, folder .. "/" .. name .. ".h5")
      assert(not ok and message:find(words), name .. ": " .. tostring(message))
    end
    assert.same(before, m:get_weights()[1]:totable())
  end)

  run_if("names a dataset that holds no numbers, what it holds, and what is read", function()
    local m = keras.Sequential{layers.Dense{2, name = "first", input_shape = {3}}}
    local before = m:get_weights()[1]:totable()
    local function check_refusal(file, dataset, kind)
      assert.error_matches(function() m:load_weights(folder .. "/" .. file) end,
        "load_weights: the dataset '" .. dataset .. "' holds " .. kind .. "; weights are read from "
          .. "floats, whole numbers of up to 64 bits and truth values")
    end
    for _, kind in ipairs{"complex64", "complex128", "text", "records", "opaque bytes"} do
      check_refusal(kind .. ".h5", "first/first/w0:0", kind)
      check_refusal(kind .. ".weights.h5", "layers/dense/vars/0", kind)
    end
    for _, kind in ipairs{"references", "lists of several lengths", "elements that are arrays",
      "no elements and no shape"} do
      check_refusal(kind .. ".weights.h5", "layers/dense/vars/0", kind)
    end
    assert.same(before, m:get_weights()[1]:totable())
    m:load_weights(folder .. "/beside.weights.h5") -- text beside the weights
    assert.same({{0, 0.125}, {0.25, 0.375}, {0.5, 0.625}}, m:get_weights()[1]:totable())
  end)

  run_if("takes every number however it is stored, or refuses what a weight can't hold", function()
    local random = folder .. "/random"
    os.execute("mkdir " .. command.quote(random))
    assert.same({}, require "spec.support.h5_random".run(random, 1, 60))
  end)

  run_if("reads weights of more bytes than a buffer holds, and numbers up to 2^63 - 1", function()
    local m = keras.Sequential{layers.Dense{200, name = "first", input_shape = {300}},
      layers.Dense{1, name = "last"}}
    m:load_weights(folder .. "/large.h5")
    local w = m:get_weights()
    local values = w[1]:reshape{-1}:totable()
    for i = 0, #values - 1 do assert.equal(i % 1021 / 4, values[i + 1]) end
    assert.equal(300 * 200, #values)
    assert.equal(199 / 4, w[2][200]:item())
    assert.equal(199 / 4, w[3]:reshape{-1}[200]:item())
    assert.equal(1, w[4]:item())
    local small = keras.Sequential{layers.Dense{2, name = "first", input_shape = {3}}}
    small:load_weights(folder .. "/fitting.h5")
    assert.equal(2.0 ^ 63, small:get_weights()[2][2]:item())
  end)

  run_if("refuses a number from 2^63 on, wherever it stands, and more axes than 8", function()
    local m = keras.Sequential{layers.Dense{2, name = "first", input_shape = {3}}}
    for name, words in pairs{unsigned = "numbers from 2%^63 on", axes9 = "holds more axes than 8",
      axes8 = "has the shape %[1, 1, 1, 1, 1, 1, 3, 2%] in the file"} do
      assert.error_matches(function() m:load_weights(folder .. "/" .. name .. ".h5") end, words)
    end
  end)

  -- The descriptors of this process are counted, and the processes that it has begun.
  run_if("leaves no descriptor open and no process behind, well or not", function()
    local m = keras.Sequential{layers.Dense{2, name = "first", input_shape = {3}}}
    local pid <const> = command.read("/proc/self/stat"):match("^%d+")
    local function count()
      local pipe <close> = assert(io.popen(("ls /proc/%s/fd | wc -l; cat /proc/[0-9]*/stat "
        .. "2>/dev/null | grep -c '^[0-9]* ([^)]*) . %s '"):format(pid, pid)))
      return pipe:read("n", "n")
    end
    local function load_some()
      for _ = 1, 10 do
        m:load_weights(folder .. "/heap.h5")
        pcall(m.load_weights, m, folder .. "/cut.h5")
        pcall(m.load_weights, m, folder .. "/claims.h5")
      end
    end
    load_some()
    local descriptors, processes = count()
    load_some()
    assert.same({descriptors, processes}, {count()})
  end)

  run_if("outlives files that bring libhdf5 down", function()
    local m = keras.Sequential{layers.Dense{2, name = "first", input_shape = {3}}}
    m:load_weights(folder .. "/heap.h5")
    local before = m:get_weights()[1]:totable()
    assert.same({{0, 0.125}, {0.25, 0.375}, {0.5, 0.625}}, before)
    assert.error_matches(function() m:load_weights(folder .. "/heap_damaged.h5") end,
      "^load_weights: ")
    local path = folder .. "/heap.h5"
    local text = command.read(path)
    for at = 1, #text, 131 do
      for _, bits in ipairs{0x01, 0xff} do
        command.write(path, text:sub(1, at - 1) .. string.char(text:byte(at) ~ bits)
          .. text:sub(at + 1))
        local ok, message = pcall(m.load_weights, m, path)
        assert(ok or message:find("h5_spec.lua:%d+: load_weights: "), at .. ": "
          .. tostring(message))
      end
    end
  end)

  run_if("reads them in a process that has another Lua, too", function()
    local script = ([[
      local loaded = require "ipulua.ffi".run_lua(%q)
      print(loaded)]]):format(([[
      local keras = require "ipulua".keras
      local m = keras.Sequential{keras.layers.Dense{2, name = "first"},
        keras.layers.BatchNormalization{name = "middle"},
        keras.layers.Flatten(), keras.layers.Dense{1, name = "last"}}
      m:build{4, 3}
      m:load_weights("%s/keras2.h5")
      return m:get_weights()[8]:totable()[1] ]]):format(folder))
    local r = command.run{"timeout", "60", "luajit", "-e", script,
      env = {LUA_PATH = "lua/?.lua;" .. build .. "/luajit/?.lua",
        IPULUA_LIBRARY = build .. "/libipulua.so.0"}}
    assert.equal(7, tonumber(r.out), r.err)
  end)
end)
