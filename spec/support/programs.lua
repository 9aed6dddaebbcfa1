-- Whole programs against published figures: `build/ipulua spec/support/programs.lua [filter]`, also
-- a part of `make validate`. N rows: memory that Graphcore's TensorFlow tests pin down on the IPU
-- Model (bytes without gaps). V rows: its tutorials (IPU Model cycles) and its published throughput
-- of whole machines.

local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local programs = {}

local function chip(tiles, code, base)
  return {base = base or "gc200", name = "model", tiles = tiles, code = code}
end

local function f16(shape) return {shape = shape, dtype = "float16"} end

-- Variables without values.
local function weight(shape, dtype)
  return require "ipulua.trace.variables".make("w", dtype or "float32", shape, true, function()
    return ipu.zeros(shape, {dtype = dtype})
  end)
end

local rows = {}

-- what: "total", "max" (bytes), "cycles", "rate" (samples a second)
-- why: what is known of a row that is further off than its tolerance
local function row(id, what, published, tolerance, note, run, why) rows[#rows + 1] = {id = id,
  what = what, published = published,
  tolerance = tolerance, note = note, run = run, why = why} end

local function memory(f, inputs, target)
  return function() return ipu.estimate(f, {inputs = inputs, target = target, host = "model"}) end
end

-- ------------------------------------------------ functions

local function sigmoid_dense(x, w, b) return ipu.sigmoid(ipu.matmul(x, w) + b) end

local n01 = memory(function(a, b, c, w1, w2)
  local y = sigmoid_dense(a, w1, b)
  return y - sigmoid_dense(y, w2, c)
end, {{64, 64}, {64, 64}, {64, 64}, {64, 64}, {64, 64}}, chip(8, false))
row("N01", "total", 204616, 0.5, "two outlined dense layers, 8 tiles", n01)
row("N01", "max", 25647, 0.5, "", n01)

row("N04", "max", 1868, 0.5, "difference of two sigmoids of a broadcast scalar, 8 tiles",
  memory(function(a, b)
  return ipu.sigmoid(ipu.broadcast_to(a, {1024})) - ipu.sigmoid(ipu.broadcast_to(b, {1024}))
end, {{shape = {}}, {shape = {}}}, chip(8, false)))

local n20 = memory(function(x, y, z)
  return x + ipu.serialized_matmul(y, z, 6, "a_columns")
end, {f16{30522, 768}, f16{30522, 128}, f16{128, 768}}, chip(1472, false))
local too_wide = "the fastest plan within 0.6 of a tile takes 57 kB of it; the published one must "
  .. "be a slower, smaller one"
row("N20", "total", 126942643, 0.10, "serialised matmul in six parts", n20, too_wide)
row("N20", "max", 86813, 0.10, "", n20, too_wide)

local n21 = memory(function(v, w, x)
  return ipu.matmul(x, ipu.matmul(ipu.broadcast_to(v, {1024, 1024}), w))
end, {f16{1024}, f16{1024, 1024}, f16{1024, 1024}}, chip(8, false))
row("N21", "total", 13796576, 0.5, "matmul of a broadcast, 8 tiles", n21)
row("N21", "max", 1732922, 0.5, "", n21)

local function assigned(f, inputs, target)
  return function()
    local v = weight{1024, 2048}
    return ipu.estimate(function(...) return f(v, ...) end,
      {inputs = inputs, target = target, host = "model"})
  end
end
row("N28", "max", 71020, 0.10, "a wide variable set to a constant, 128 tiles, code",
  assigned(function(v)
  v:assign(ipu.broadcast_to(ipu.tensor(2.0), {1024, 2048}))
end, {}, chip(128, true)))
row("N29", "max", 203950, 0.10, "variable + argument + wide constant, 128 tiles, code",
  assigned(function(v, b)
  return v + b + ipu.broadcast_to(ipu.tensor(4.0), {1024, 2048})
end, {{1024, 2048}}, chip(128, true)))

local v24 = memory(function(m, v) return ipu.matmul(m, v) end, {{10000, 1000}, {1000, 1}}, "gc200")
row("V-24", "cycles", 6681766, 0.02, "matrix-vector product 10000 x 1000 with its data streamed in",
  v24)

-- ------------------------------------------------ networks

local function dense_stack(batch, trains)
  return function()
    local function build()
      keras.mixed_precision.set_global_policy("float16")
      local model = keras.Sequential{layers.Dense{32, activation = "relu", input_shape = {50176}},
        layers.Dense{64, activation = "relu"}, layers.Dense{64, activation = "relu"}}
      keras.mixed_precision.set_global_policy("float32")
      model:compile{optimizer = "sgd",
        loss = keras.losses.CategoricalCrossentropy{from_logits = true}}
      return model
    end
    return ipu.estimate(build,
      {batch_size = batch, training = trains, target = chip(1472, false), host = "model"})
  end
end
row("N17", "total", 12181182, 1.0, "three dense layers, inference, batch 2", dense_stack(2, false))
row("N18", "total", 7738391, 1.0, "three dense layers, SGD, batch 1", dense_stack(1, true))

local function small_model(optimizer)
  keras.mixed_precision.set_global_policy("float16")
  local input = keras.Input{shape = {224, 224, 4}, dtype = "float16"}
  local x = layers.Conv2D{64, 7, strides = 2, padding = "same", activation = "relu"}(input)
  x = layers.MaxPooling2D{3, strides = 2, padding = "same"}(x)
  for _ = 1, 2 do
    local y = layers.Conv2D{64, 3, padding = "same", activation = "relu"}(x)
    y = layers.Conv2D{64, 3, padding = "same"}(y)
    x = layers.Activation("relu")(layers.Add(){x, y})
  end
  x = layers.Flatten()(layers.MaxPooling2D{56}(x))
  local model = keras.Model{inputs = input, outputs = layers.Dense{1000}(x)}
  keras.mixed_precision.set_global_policy("float32")
  model:compile{optimizer = optimizer(),
    loss = keras.losses.CategoricalCrossentropy{from_logits = true}}
  return model
end

local function small_resnet(optimizer, trains)
  return function()
    return ipu.estimate(function() return small_model(optimizer) end,
      {batch_size = 1, training = trains, target = chip(1472, false), host = "model"})
  end
end
local function sgd() return keras.optimizers.SGD{learning_rate = 0.01} end
local function momentum() return keras.optimizers.SGD{learning_rate = 0.01, momentum = 0.9} end
row("N23", "total", 25260426, 1.0, "small residual network, inference", small_resnet(sgd, false))
row("N24", "total", 39743117, 1.0, "the same, SGD", small_resnet(sgd, true))
row("N25", "total", 41844478, 1.0, "the same, momentum", small_resnet(momentum, true))

-- ------------------------------------------------ whole machines

-- A network of an example, without the example's own estimate.
local function example(name, arguments, changes)
  local file <close> = assert(io.open("examples/machine/" .. name .. ".lua"))
  local text = file:read("a"):gsub("\nlocal e = ipu%.estimate%(.*$", "")
  for from, to in pairs(changes or {}) do
    local count
    text, count = text:gsub(from, to)
    assert(count > 0, name .. ".lua has no " .. from)
  end
  local chunk = assert(load(text .. "\nreturn resnet50 or bert, micro_batch", "=" .. name, "t",
    setmetatable({}, {__index = _G})))
  return function()
    local own = arg
    arg = {[0] = name, -- luacheck: ignore 121
      "--target", arguments[1], "--micro-batch", arguments[2], "--accumulation", arguments[3]}
    local build, micro_batch = chunk()
    arg = own -- luacheck: ignore 121
    return build, micro_batch
  end
end

local function resnet(ipus, accumulation)
  return function()
    local build, micro_batch = example("estimate_resnet", {"bow", "8", tostring(accumulation)})()
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local e = ipu.estimate(build, {batch_size = micro_batch, target = "bow", ipus = ipus})
    keras.mixed_precision.set_global_policy("float32")
    ipu.reset_ipu_configuration()
    return e
  end
end
row("V-42", "rate", 42029, 0.20, "ResNet-50 training, Bow Pod16, batch 1,920", resnet(16, 15))
row("V-42", "rate", 145287, 0.20, "ResNet-50 training, Bow Pod64, batch 2,560", resnet(64, 5))
row("V-42", "rate", 425514, 0.20, "ResNet-50 training, Bow Pod256, batch 10,240", resnet(256, 5))

-- shape: of the example's constants, sequence, masked, width, heads, vocabulary, blocks, stages
local function bert(shape, ipus, accumulation, micro_batch)
  return function()
    local constants = table.concat(shape, ", ")
    local build, batch = example("estimate_bert",
      {"bow", tostring(micro_batch or 8), tostring(accumulation)},
      {["128, 20, 1024, 16, 30528, 24, 16"] = constants,
        ["return 1 %+ %(block %- 1%) %* %(stages %- 2%) // %(blocks %- 2%)"] = "return block * "
        .. "stages // blocks"})()
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local e = ipu.estimate(build, {batch_size = batch, target = "bow", ipus = ipus})
    keras.mixed_precision.set_global_policy("float32")
    ipu.reset_ipu_configuration()
    return e
  end
end
local large <const> = {128, 20, 1024, 16, 30528, 24, 4}
row("V-43", "rate", 5179, 0.20, "BERT-Large phase 1, Bow Pod16, batch 65,536",
  bert(large, 16, 2048))
row("V-43", "rate", 19353, 0.20, "BERT-Large phase 1, Bow Pod64, batch 65,536",
  bert(large, 64, 512))

require "spec.support.published_programs"(row,
  {chip = chip, f16 = f16, memory = memory, weight = weight, example = example,
    small_model = small_model, sgd = sgd, resnet = resnet,
    bert = bert})

-- ------------------------------------------------ printing

local function of_ipu(i, category) return function(e) return e.ipu[i].memory[category] end end

local read <const> = {
  total = function(e) return e.memory.total end, max = function(e) return e.max_tile_bytes end,
  cycles = function(e) return e.cycles.total end,
  rate = function(e) return e.samples_per_second end,
  seconds = function(e) return e.seconds end, milliseconds = function(e) return e.milliseconds end,
  ratio = function(e) return e.ratio end,
  ["variables 1"] = of_ipu(1, "variable"), ["variables 2"] = of_ipu(2, "variable"),
  ["code 1"] = of_ipu(1, "vertexCode"),
  ["state 1"] = of_ipu(1, "vertexInstanceState"),
  ["exchange 1"] = of_ipu(1, "internalExchangeCode"),
  ["control 1"] = of_ipu(1, "controlCode"),
}

---Is a row as near as its tolerance says? One of 1 or more is a factor: within a factor of two.
function programs.is_inside(r)
  local ratio = r.predicted / r.published
  return ratio < 1 + r.tolerance
    and ratio > (r.tolerance < 1 and 1 - r.tolerance or 1 / (1 + r.tolerance))
end

---All rows: {id, what, published, predicted, tolerance, note}.
function programs.run(filter)
  local done, list = {}, {}
  for _, r in ipairs(rows) do
    if not filter or r.id:find(filter, 1, true) then
      done[r.run] = done[r.run] or r.run()
      list[#list + 1] = {id = r.id, what = r.what, published = r.published,
        predicted = read[r.what](done[r.run]),
        tolerance = r.tolerance, note = r.note, why = r.why}
    end
  end
  return list
end

if arg and arg[0] and arg[0]:match("programs%.lua$") then
  print(string.format("\n%-6s %-11s %12s %12s  ratio", "row", "what", "published", "predicted"))
  for _, r in ipairs(programs.run(arg[1])) do
    local ratio = r.predicted / r.published
    print(string.format("%-6s %-11s %12.4g %12.4g  %5.2f %s  %s", r.id, r.what, r.published,
      r.predicted, ratio,
      programs.is_inside(r) and " " or "*", r.note))
    if not programs.is_inside(r) then print(string.format("%48s* %s", "", r.why or "")) end
  end
  print("* further off than the row allows")
end

return programs
