-- Each optimizer over hundreds of steps, with other hyperparameters.

local ipu = require "ipulua"
local calls = require "spec.support.fuzz.calls"
local parts = require "spec.support.keras_parts"

local optimizers = {family = "optimizers", names = {}}
local classes = {}
parts.each(function(module, name, class)
  if module == "optimizers" then classes[name], optimizers.names[#optimizers.names + 1] = class,
    name end
end)
table.sort(optimizers.names)

local most_numbers <const> = 120000
local left_out <const> = {name = true, dtype = true, opt = true, wrapped_optimizer = true,
  gradient_mapping_function = true,
  offload_weight_update_variables = true, replicated_optimizer_state_sharding = true}

local function normal(shape) return ipu.random.normal(shape, {seed = math.random(1, 1 << 20)}) end

-- A function that gives new arguments each time: an optimizer inside of another is one of them.
local function maker_of(name)
  local changed = {}
  for _, row in ipairs(classes[name].argument_rows) do
    if not left_out[row[1]] and math.random() < 0.2 then
      changed[row[1]] = parts.unlike("optimizers", name, row)
      for key, value in pairs(parts.beside[name .. "." .. row[1]] or parts.beside[row[1]]
        or {}) do changed[key] = value end
    end
  end
  changed.offload_weight_update_variables, changed.replicated_optimizer_state_sharding = nil, nil
  if changed.clipnorm then changed.global_clipnorm = nil end
  return function() return classes[name](parts.arguments(name, changed)) end
end

local function plain_config(optimizer)
  local plain = {}
  for key, value in pairs(optimizer:get_config()) do
    if pcall(ipu.json.encode, value) then plain[key] = value end
  end
  return plain
end

---A case: variables and their gradients in every step are its inputs; the values after the last
---step its results.
function optimizers.random(name)
  local make, count, steps = maker_of(name), math.random(1, 3), math.random(20, 300)
  local shapes, size = {}, 0
  for i = 1, count do
    shapes[i] = {math.max(calls.extent(math.random(1, 2)), 1)}
    if math.random() < 0.5 then shapes[i][2] = math.random(1, 9) end
    size = size + calls.count(shapes[i])
  end
  steps = math.max(math.min(steps, most_numbers // size), 3)
  local inputs = {}
  for i = 1, count do -- biases begin with zeros
    inputs[i] = normal(shapes[i]) * (math.random(3) > 1 and 1 or 0)
  end
  for i = 1, count do
    local stacked = {steps, table.unpack(shapes[i])}
    inputs[count + i] = normal(stacked) * 10 ^ math.random(-3, 1)
  end
  -- A new optimizer for each form, since what it keeps can't be put back.
  local config = plain_config(make())
  local function train(compiled, list)
    local opt, variables = make(), {}
    for i = 1, count do variables[i] = ipu.Variable(list[i]) end
    local step = function(...) opt:apply_gradients({...}, variables) end
    if compiled then step = ipu.func(step) end
    for k = 0, steps - 1 do
      local gradients = {}
      for i = 1, count do gradients[i] = list[count + i][k + 1] end
      step(table.unpack(gradients))
    end
    local results = {}
    for i = 1, count do results[i] = variables[i]:read_value() end
    return table.unpack(results)
  end
  return {name = name, inputs = inputs, weights = {}, train = train,
    about = {o = config, count = count, steps = steps},
    source = ("keras.optimizers.%s %s, %d steps of %s"):format(name, ipu.json.encode(config),
      steps, ipu.json.encode(shapes))}
end

return optimizers
