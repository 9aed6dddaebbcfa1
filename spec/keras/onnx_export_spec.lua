-- keras.onnx.export, op by op: what the files compute in onnxruntime is what the ops compute here,
-- for floats and integers.

local command = require "spec.support.command"
local exports = require "spec.support.onnx_exports"
local format = require "ipulua.keras.onnx.format"
local graphs = require "spec.support.onnx_graphs"
local ipu = require "ipulua"
local models = require "spec.support.onnx_models"

local keras = ipu.keras

local function again(f, x)
  local path = command.scratch ".onnx"
  local i = keras.Input{batch_shape = x.shape, dtype = x.dtype}
  keras.onnx.export(keras.Model{inputs = i, outputs = keras.layers.Lambda(f)(i)}, path,
    {batch_size = x.shape[1]})
  local y = keras.onnx.import(path)(x)
  os.remove(path)
  return y:totable()
end

describe("onnx.export", function()
  it("divides integers of all sizes exactly", function()
    local function by_three(v) return ipu.floordiv(v, ipu.tensor(3, {dtype = v.dtype})) end
    local function rest(v) return ipu.mod(v, ipu.tensor(-3, {dtype = v.dtype})) end
    local x = ipu.tensor({14270590001427059, (1 << 60) + 5, -7, 7, math.mininteger},
      {dtype = "int64"})
    assert.same({4756863333809019, 384307168202282327, -3, 2, math.mininteger // 3},
      again(by_three, x))
    assert.same({14270590001427059 % -3, ((1 << 60) + 5) % -3, -7 % -3, 7 % -3,
      math.mininteger % -3}, again(rest, x))
    assert.same({-43, 42}, again(by_three, ipu.tensor({-128, 127}, {dtype = "int8"})))
  end)

  it("keeps e^x - 1 and log(1 + x) exact near 0, and what is far from it", function()
    local x = ipu.tensor{1e-6, -1e-6, 1e-20, 0.0, 2.5, 80.0}
    for k, want in ipairs{1.0000005e-6, -9.999995e-7, 1e-20, 0, 11.18249396, 5.5406224e34} do
      assert(math.abs(again(ipu.expm1, x)[k] - want) <= 1e-6 * math.abs(want))
    end
    for k, want in ipairs{9.999995e-7, -1.0000005e-6, 1e-20, 0, 1.252762968, 4.394449155} do
      assert(math.abs(again(ipu.log1p, x)[k] - want) <= 1e-6 * math.abs(want))
    end
  end)

  it("gives remainders of large floats exactly", function()
    assert.same({1, 2, -1}, again(function(v) return ipu.mod(v, ipu.tensor{3.0, 3.0, -2.0}) end,
      ipu.tensor{1e10, -1e10, 16777215.0}))
  end)

  it("refuses by name what is kept from call to call", function()
    local layers <const> = keras.layers
    local function check_refusal(words, x, f)
      local model = keras.Model{inputs = x, outputs = f(x)}
      assert.error_matches(function() keras.onnx.export(model, command.scratch ".onnx") end,
        "onnx.export: " .. words .. ", and an ONNX file keeps nothing from call to call")
    end
    local sequence = keras.Input{shape = {3, 4}, batch_size = 2}
    for _, name in ipairs{"LSTM", "GRU", "SimpleRNN"} do
      check_refusal("layer 'kept' is stateful", sequence,
        layers[name]{3, stateful = true, name = "kept"})
    end
    check_refusal("layer '.*kept' is stateful", sequence,
      layers.Bidirectional(layers.LSTM{3, stateful = true, name = "kept"}))
    check_refusal("layer 'kept' is stateful", sequence, keras.Sequential{
      layers.Dense(2), layers.GRU{3, stateful = true, name = "kept"}})
    local count = ipu.Variable(0.0, {name = "count"})
    check_refusal("the model assigns to the variable 'count' when it is called",
      keras.Input{shape = {4}}, layers.Lambda(function(x)
        count:assign_add(1.0)
        return x + count
      end))
  end)

  -- Half-pixel centres, twice as wide: a quarter of the way from 0 to 4, and three quarters.
  it("takes what a layer computes of constants as constants", function()
    local function exported(layer, x, batch_size)
      local path = command.scratch ".onnx"
      local i = keras.Input{shape = {table.unpack(x.shape, 2)}}
      keras.onnx.export(keras.Model{inputs = i, outputs = layer(i)}, path,
        {batch_size = batch_size})
      local y = keras.onnx.import(path)(x)
      os.remove(path)
      return y:reshape{-1}:totable()
    end
    local row = ipu.tensor{{{{0}, {4}}}}
    for _, batch_size in ipairs{false, 1} do
      batch_size = batch_size or nil
      assert.same({0, 1, 3, 4}, exported(keras.layers.UpSampling2D{{1, 2},
        interpolation = "bilinear"}, row, batch_size))
      assert.same({0, 1, 3, 4}, exported(keras.layers.Resizing{1, 4}, row, batch_size))
      local sum = exported(keras.layers.Lambda(function(x)
        return x * (ipu.sqrt(ipu.tensor{9.0, 16.0}) * 0.5) + ipu.exp(ipu.zeros{2})
      end), ipu.tensor{{2.0, 3.0}}, batch_size)
      assert.same({4, 7}, sum)
    end
  end)

  local packages = os.getenv("NODE_PATH") or "build/npm/node_modules"
  local if_runtime = os.execute("test -d " .. command.quote(packages .. "/onnxruntime-web"))
    and it or pending
  if_runtime("writes files of every op that onnxruntime takes and computes alike", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local cases, refused = exports.write(folder, {"float32", "int32", "int64", "int8", "uint8"})
    local r = command.run{"node", "spec/support/onnx_run.js", folder, "typed",
      env = {NODE_PATH = packages}}
    assert.equal(0, r.status, r.err)
    local i, good, wrong = 0, 0, {}
    for line in r.out:gmatch("[^\n]+") do
      i = i + 1
      local wanted, c = ipu.json.decode(line), cases[i]
      -- of a legal file
      local lacks = wanted.error and (wanted.error:find("Could not find an implementation", 1, true)
        or wanted.error:find("^%d+$")) -- which brought it down
      local problem = wanted.error or graphs.compare(c.wanted, wanted)
      if not problem then good = good + 1
      elseif not lacks then wrong[#wrong + 1] = ("%s of %s, %s: %s"):format(c.op, c.dtype, c.sample,
        problem:sub(1, 200)) end
    end
    assert.same({}, wrong)
    assert(i == #cases and good >= 1200, ("%d of %d good"):format(good, i))
    for op, message in pairs(refused) do
      assert(message:find("ONNX has no", 1, true)
        or message:find("onnx.export: " .. op, 1, true), message)
    end
  end)

  -- The pages of onnx.ai say which opset brought what. Shape's `start` is of 15, LayerNormalization
  -- of 17, the axes of ReduceMean as an operand of 18. A reader refuses what is newer.
  it("writes operators of the opset asked for", function()
    local layers = keras.layers
    ipu.random.set_seed(1)
    local input = keras.Input{shape = {5, 8}}
    local y = layers.LayerNormalization()(input)
    y = layers.LSTM{4, return_sequences = true}(layers.MultiHeadAttention{2, 4}(y, y))
    y = layers.Dense(3)(ipu.concat({ipu.reduce_mean(y, {axis = 1}),
      ipu.reduce_max(y, {axis = 1})}, -1))
    local model = keras.Model(input, ipu.concat({y, ipu.zeros_like(y)}, -1))
    local x = ipu.random.normal{3, 5, 8}
    local wanted, path = model(x), command.scratch ".onnx"
    finally(function() os.remove(path) end)
    local function written(opset)
      keras.onnx.export(model, path, {opset = opset})
      local bytes = command.read(path)
      return bytes, format.decode(bytes, path)
    end
    for opset = 13, 22 do
      local bytes, g = written(opset)
      assert.equal(opset, g.opset)
      local ops_used, axes = {}, 0
      for _, n in ipairs(g.nodes) do
        ops_used[n.op] = true
        if n.op == "ReduceMean" then axes = #n.inputs end
        if n.op == "Shape" and opset < 15 then assert.is_nil(n.attributes.start) end
      end
      assert.equal(opset >= 17, ops_used.LayerNormalization == true)
      assert.equal(opset >= 18 and 2 or 1, axes)
      assert.equal(({[13] = 7, [14] = 7, [19] = 9, [20] = 9, [21] = 10, [22] = 10})[opset] or 8,
        bytes:byte(2)) -- the ir_version that came with it
      local got = keras.onnx.import(path)(x)
      assert.is_true(ipu.reduce_max(ipu.abs(got - wanted)):item() < 1e-5)
    end
    assert.equal(written(), written(17))
    for opset, message in pairs{[12] = "must lie in [13, 22], got 12", [23] = "got 23"} do
      local ok, err = pcall(written, opset)
      assert.is_false(ok)
      assert.matches(message, err, 1, true)
    end
    local i = keras.Input{shape = {2}, dtype = "uint8"}
    local bytes = keras.Model(i, i + 1)
    assert.error_matches(function() keras.onnx.export(bytes, path, {opset = 13}) end,
      "'add' gives uint8, which takes opset 17, got 13")
  end)

  it("writes random graphs of layers that are read back alike", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local cases, problems = models.write(folder, 1, 60)
    assert.same({}, problems)
    local outputs = 0
    for _, c in ipairs(cases) do outputs = outputs + #c.wanted end
    assert.is_true(outputs > 60)
  end)

  if_runtime("writes random graphs of layers that onnxruntime computes alike", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local cases = models.write(folder, 2, 60)
    local r = command.run{"node", "spec/support/onnx_run.js", folder, "typed",
      env = {NODE_PATH = packages}}
    assert.equal(0, r.status, r.err)
    local i, wrong = 0, {}
    for line in r.out:gmatch("[^\n]+") do
      i = i + 1
      local wanted = ipu.json.decode(line)
      wrong[#wrong + 1] = wanted.error or graphs.compare(cases[i].wanted, wanted)
    end
    assert.same({}, wrong)
    assert.equal(60, i)
  end)
end)
