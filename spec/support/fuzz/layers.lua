-- Random calls of each layer of keras.layers: its example (spec/support/keras_layers.lua) at other
-- extents, with other values of some of its arguments.

local ipu = require "ipulua"
local calls = require "spec.support.fuzz.calls"
local examples = require "spec.support.keras_layers"
local seeded = require "ipulua.keras.base.seeded"

local layers = {family = "layers", names = {}}
local classes <const> = examples.classes()
for name in pairs(classes) do layers.names[#layers.names + 1] = name end
table.sort(layers.names)

local most_elements <const> = 20000
-- Arguments without effect on the result of one call, or with another sort of result: how states
-- are kept, names, places of numbers.
local left_out <const> = {name = true, dtype = true, weights = true, stateful = true,
  activity_regularizer = true, seed = true,
  input_shape = true, batch_input_shape = true, batch_size = true, input_dim = true,
    trainable = true, dropout = true, noise_shape = true,
  recurrent_dropout = true, options = true, options_bwd = true, partials_dtype = true, tag = true,
    arguments = true, time_major = true,
  mask = true, output_shape = true, func = true}

local function normal(shape)
  return ipu.random.normal(shape, {seed = math.random(1, 1 << 20)})
end

-- Equal extents stay equal; an extent that arguments depend on is often refused, so some stay as
-- they are.
local function other_shapes(shapes)
  local map, changed = {}, {}
  for i, shape in ipairs(shapes) do
    changed[i] = {}
    for k, extent in ipairs(shape) do
      map[extent] = map[extent] or (math.random() < 0.25 and extent
        or math.max(calls.extent(#shape), 1))
      changed[i][k] = map[extent]
    end
    if calls.count(changed[i]) > most_elements then return other_shapes(shapes) end
  end
  return changed
end

local function inputs_of(sample, shapes)
  local list = {}
  for i, shape in ipairs(shapes) do
    local x = normal(shape)
    list[i] = sample.dtype and ipu.cast(ipu.minimum(ipu.abs(x) * 2, 4), sample.dtype) or x
  end
  return list
end

local function arguments_of(name)
  local changed = {}
  for _, row in ipairs(classes[name].argument_rows) do
    local argument = row[1]
    if not left_out[argument] and not argument:find("initializer")
      and not argument:find("regularizer")
      and not argument:find("constraint") and math.random() < 0.2 then
      local value = examples.unlike(name, row, row[2])
      changed[argument] = value
      for key, beside in pairs(examples.beside[name .. "." .. argument]
        or {}) do changed[key] = beside end
    end
  end
  return examples.arguments(name, changed)
end

-- Weights that are nowhere 0 or 1 by default.
local function random_weights(layer)
  local list = {}
  for i, v in ipairs(layer.weights) do
    local w = normal(v.shape) * 0.5
    list[i] = v.name:find("variance") and ipu.abs(w) + 0.5 or ipu.cast(w, v.dtype)
  end
  return list
end

local function names_of(layer)
  local list = {}
  for i, v in ipairs(layer.weights) do list[i] = v.name end
  return list
end

local function config_of(layer)
  local config, plain = layer:get_config(), {}
  for key, value in pairs(config) do
    if pcall(ipu.json.encode, value) then plain[key] = value end
  end
  return plain
end

-- One layer with inputs; nil where it refuses them.
local function try(name, shapes)
  local sample = examples.samples[name]
  local layer = classes[name](arguments_of(name))
  local inputs = inputs_of(sample, shapes)
  local training = (layer.moving_mean or name:find("^BatchN") ~= nil or name == "RandomCrop")
    and math.random() < 0.5
  local weights
  -- The results, then the weights, which training may change.
  local function f(...)
    local given = {...}
    local x = sample.inputs and given or given[1]
    local results = table.pack(examples.call(name, layer, x, {training = training}))
    if #results == 1 and type(results[1]) == "table" then results = results[1] end
    local list = {}
    for _, y in ipairs(results) do
      for _, part in ipairs(type(y) == "table" and y or {y}) do list[#list + 1] = part end
    end
    if training then for _, v in ipairs(layer.weights) do list[#list + 1] = v:read_value() end end
    return table.unpack(list)
  end
  f(table.unpack(inputs))
  weights = random_weights(layer)
  return {
    name = name, inputs = inputs, weights = weights, f = f,
      reset = function()
        layer:set_weights(weights)
        seeded.set_turns(layer, nil) -- it draws from its seed's beginning
      end,
    about = {o = config_of(layer), weight_names = names_of(layer), training = training,
      call = sample.call and not sample.inputs and "own" or nil},
    source = ("keras.layers.%s on %s"):format(name, ipu.json.encode(shapes)),
  }
end

---A case of this layer at random: {name, inputs, weights, f, reset, about, source}.
function layers.random(name)
  local sample = examples.samples[name]
  local shapes = sample.inputs or {sample.input}
  for _ = 1, 8 do
    local fine, case = pcall(try, name, other_shapes(shapes))
    if fine then return case end
  end
  local fine, case = pcall(try, name, shapes)
  return fine and case or nil
end

return layers
