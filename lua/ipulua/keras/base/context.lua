-- Facts about the calls around a layer's call: whether they train, and the values that are noted
-- beside tensors meanwhile.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local names = require "ipulua.trace.name_scopes"

local context = {}

local here <const> = core.here -- a coroutine's calls are its own
local field_of <const> = {
  training = "keras_training",   -- of the innermost call that said so
  depth = "keras_depth",         -- calls that are open
  inferring = "keras_inferring", -- shapes are being found out: losses and metrics are not recorded
  -- names of the layers being called, for variables: replaced, never changed in place
  path = "keras_path",
}
local outside <const> = {depth = 0, inferring = false, path = {}} -- of all calls

-- Beside a tensor, as long as it lives: the tensor that softmax or sigmoid made it from, and its
-- mask.
local logits = setmetatable({}, {__mode = "k"})
local masks = setmetatable({}, {__mode = "k"})

---@param output any
---@param input any
---@return any output
function context.set_logits(output, input)
  logits[output] = input
  return output
end

---@param output any
---@return any
function context.logits(output)
  return logits[output]
end

---@param tensor any
---@param mask any nil: none
function context.set_mask(tensor, mask)
  if tensor ~= nil and (mask ~= nil or masks[tensor] ~= nil) then masks[tensor] = mask end
end

---@param tensor any
---@return any
function context.mask(tensor)
  if tensor == nil then return nil end
  return masks[tensor]
end

-- calls of layers inside layers; each takes up to four of the 200 calls through C that Lua allows
local deepest <const> = 40

-- Nodes are named after the layers that make them.
local function name_nodes(path)
  names.set_layers(#path > 0 and table.concat(path, "/") .. "/" or "")
end

local Call = {}
Call.__index = Call
Call.__close = function(self)
  context.training = self.training
  context.depth = context.depth - 1
  context.path = self.path
  name_nodes(self.path)
end

---The path of a layer called `name` within the current call.
---@param name string
---@return string[]
function context.extended(name)
  local path = context.path
  local longer = table.move(path, 1, #path, 1, {})
  longer[#longer + 1] = name
  return longer
end

---Enters a layer's call; the returned value is to be closed.
---@param name string
---@param training boolean?
function context.enter(name, training)
  if type(name) ~= "string" then -- before anything is entered
    blame.error("a layer's name must be a string, its field 'name' is " .. type(name), "type")
  end
  if context.depth >= deepest then
    blame.error(string.format("layer '%s' is called inside itself, or layers are nested deeper "
      .. "than %d", name, deepest), "runtime")
  end
  local call = setmetatable({training = context.training, path = context.path}, Call)
  local path = context.extended(name)
  name_nodes(path) -- it may fail if memory is short
  context.training = training
  context.depth = context.depth + 1
  context.path = path
  return call
end

-- Most errors of layers name the layer. Errors of ops don't know it.
blame.placing(function(message)
  local path = context.path
  local innermost = path[#path]
  if not innermost or message:find("'" .. innermost .. "'", 1, true) then return nil end
  return "layer '" .. table.concat(path, "/") .. "'"
end)

local Inference = {}
Inference.__close = function(self)
  context.inferring, context.depth, context.training = self.inferring, self.depth, self.training
end

---Enters the inference of shapes, where nothing is recorded; the returned value is to be closed.
function context.infer()
  local former = {inferring = context.inferring, depth = context.depth, training = context.training}
  context.inferring = true
  return setmetatable(former, Inference)
end

return setmetatable(context, {
  __index = function(_, name)
    local value = here()[field_of[name]]
    if value == nil then value = outside[name] end
    return value
  end,
  __newindex = function(_, name, value)
    if value == outside[name] then value = nil end
    here()[field_of[name]] = value
  end,
})
