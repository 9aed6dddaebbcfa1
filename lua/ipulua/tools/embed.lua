-- Models for C programs: what libipulua's ipu_model_* functions call. Options come as JSON, models
-- are known by number.

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

local function options_of(text)
  if text == nil or text == "" then return {} end
  local options, problem = json.parse(text)
  if problem then blame.error("options: " .. problem, "value") end
  if type(options) ~= "table" then
    blame.error("options must be a JSON object, got " .. text, "value")
  end
  for key, value in pairs(options) do
    if value == json.null then options[key] = nil end
  end
  return options
end

-- One tensor stands for itself, several for a list.
local function one_or_list(list)
  if #list <= 1 then return list[1] end
  return list
end

-- What is only read in batches may be read in any that fill: as many samples as Keras' 32 allow.
local function fitting_batch(options, x)
  local count = x[1] and x[1].shape[1]
  if options.batch_size or options.steps or not count or count == 0 then return end
  local size = math.min(count, 32)
  while count % size ~= 0 do size = size - 1 end
  options.batch_size = size
end

local function remember(model)
  if type(model) ~= "table" or not model.get_weights then
    blame.error("a chunk that returns a Keras model is wanted; this one returned "
      .. args.describe(model), "type")
  end
  last = last + 1
  models[last] = model
  return nil, last
end

-- Numbers that JSON has no spelling for become null.
local function plain(value)
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
  local options = options_of(text)
  options.x, options.y = one_or_list(x), one_or_list(y)
  if options.verbose == nil then options.verbose = 0 end
  return json.encode(plain(model:fit(options).history))
end

function methods.train_on_batch(model, _, x, y)
  return json.encode(
    plain(model:train_on_batch(one_or_list(x), one_or_list(y), {return_dict = true})))
end

function methods.evaluate(model, text, x, y)
  local options = options_of(text)
  options.x, options.y, options.return_dict = one_or_list(x), one_or_list(y), true
  if options.verbose == nil then options.verbose = 0 end
  fitting_batch(options, x)
  return json.encode(plain(model:evaluate(options)))
end

function methods.predict(model, text, x)
  local options = options_of(text)
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
