-- Models for C programs: the functions that libipulua's ipu_model_* functions call. Options come as
-- JSON, models are known by number.

local architecture = require "ipulua.keras.files.architecture"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local ipu = require "ipulua"
local json = require "ipulua.base.json"
local model_file = require "ipulua.keras.files.model_file"
local nest = require "ipulua.base.nest"

require "ipulua.keras" -- says where the parts of models are

local embed = {}

local models, last = {}, 0

local function is_object(value)
  return type(value) == "table" and value ~= json.null and not json.is_array(value) and #value == 0
end

-- null in an object stands for nothing, at any depth; in a list it keeps its place.
local function without_nulls(value)
  if type(value) ~= "table" or value == json.null then return value end
  for key, each in pairs(value) do
    if each == json.null and math.type(key) == nil then value[key] = nil
    else without_nulls(each) end
  end
  return value
end

-- given: names that the call's arguments stand for; an option of that name would be dropped.
local function options_of(text, given)
  if text == nil or text == "" then return {} end
  local options, problem = json.parse(text)
  if problem then blame.error("options: " .. problem, "value") end
  if not is_object(options) then
    blame.error("options must be a JSON object, got " .. text, "value")
  end
  for _, name in ipairs(given or {}) do
    if options[name] ~= nil then
      blame.error("options: '" .. name .. "' is no option here; the call has it already", "value")
    end
  end
  return without_nulls(options)
end

-- JSON has no keys but texts: the classes of class_weight are numbers.
local function read_classes(options)
  if not is_object(options.class_weight) then return end
  local weights = {}
  for key, weight in pairs(options.class_weight) do
    local class = math.tointeger(tonumber(key))
    if not class then
      blame.error("options: 'class_weight' has classes, which are integers, got '" .. key .. "'",
        "value")
    end
    weights[class] = weight
  end
  options.class_weight = weights
end

-- A single tensor is the value, several are a list.
local function one_or_list(list)
  if #list <= 1 then return list[1] end
  return list
end

-- Data that is only read in batches may be read in any that fill: as many samples as Keras' 32
-- allow.
local function fitting_batch(options, x)
  local count = x[1] and x[1].shape[1]
  if options.batch_size or options.steps or not count or count == 0 then return end
  local size = math.min(count, 32)
  while count % size ~= 0 do size = size - 1 end
  options.batch_size = size
end

local function remember(model)
  if type(model) ~= "table" or not model.get_weights then
    blame.error("expected a chunk that returns a Keras model; this one returned "
      .. args.describe(model), "type")
  end
  last = last + 1
  models[last] = model
  return nil, last
end

-- Numbers that JSON has no spelling for become null. An empty table is a list, unless it is logs.
local function plain(value, is_logs)
  if is_logs and next(value) == nil then return {} end
  if type(value) == "table" then
    local out = json.array()
    if #value == 0 and next(value) ~= nil then out = {} end
    for key, each in pairs(value) do out[key] = plain(each) end
    return out
  end
  if type(value) == "number" and (value ~= value or value == math.huge or value == -math.huge) then
    return json.null
  end
  return value
end

local function run_chunk(code)
  local chunk, problem = load(code, "=chunk", "t")
  if not chunk then blame.error(problem, "value") end
  return chunk()
end

-- name → function(text, x, y) → text, object
local library = {}

function library.model_from_json(text) return remember(architecture.model_from_json(text)) end
function library.model_from_lua(code) return remember(run_chunk(code)) end
function library.model_load(path) return remember(model_file.load_model(path)) end

function library.run(code)
  local result = run_chunk(code)
  return result == nil and "" or tostring(result)
end

function library.set_threads(text) core.set_threads(math.tointeger(tonumber(text))) end
function library.set_seed(text) core.set_seed(math.tointeger(tonumber(text))) end

-- name → function(model, text, x, y) → text, tensors
local methods = {}

function methods.save(model, path) model:save(path) end
function methods.load_weights(model, path) model:load_weights(path) end
function methods.save_weights(model, path) model:save_weights(path) end
function methods.to_json(model) return model:to_json() end
function methods.build(model, text)
  local shape, problem = json.parse(text)
  if problem then blame.error("build: the input's shape: " .. problem, "value") end
  model:build(shape)
end
function methods.compile(model, text) model_file.compile(model, options_of(text)) end

function methods.summary(model)
  local lines = {}
  model:summary{print_fn = function(line) lines[#lines + 1] = line end}
  return table.concat(lines, "\n") .. "\n"
end

function methods.fit(model, text, x, y)
  local options = options_of(text, {"x", "y"})
  read_classes(options)
  options.x, options.y = one_or_list(x), one_or_list(y)
  if options.verbose == nil then options.verbose = 0 end
  return json.encode(plain(model:fit(options).history, true))
end

function methods.train_on_batch(model, _, x, y)
  return json.encode(
    plain(model:train_on_batch(one_or_list(x), one_or_list(y), {return_dict = true})))
end

function methods.evaluate(model, text, x, y)
  local options = options_of(text, {"x", "y", "return_dict"})
  options.x, options.y, options.return_dict = one_or_list(x), one_or_list(y), true
  if options.verbose == nil then options.verbose = 0 end
  fitting_batch(options, x)
  return json.encode(plain(model:evaluate(options)))
end

function methods.predict(model, text, x)
  local options = options_of(text, {"x"})
  options.x = one_or_list(x)
  if options.verbose == nil then options.verbose = 0 end
  fitting_batch(options, x)
  return nil, nest.flatten(model:predict(options))
end

function methods.get_weights(model) return nil, model:get_weights() end
function methods.set_weights(model, _, x) model:set_weights(x) end

function methods.estimate(model, text)
  return json.encode(plain(ipu.estimate(model, options_of(text))))
end

---Called by C for every function.
---@return string? text, integer? object, userdata[]? tensors
function embed.call(name, object, text, x, y)
  if name == "model_free" then
    models[object] = nil
    collectgarbage("step")
    return
  end
  if library[name] then return library[name](text) end
  local model = models[object]
  if not model then blame.error("this model has been freed", "value") end
  local result, tensors = methods[name](model, text, x, y)
  return result, nil, tensors
end

---The code that belongs to a message.
---@param message string
---@return string?
function embed.code(message)
  local newest = blame.last
  return newest and message:find(newest.message, 1, true) and newest.code or nil
end

return embed
