-- Layers made of functions: Lambda, and the layers that ops on KerasTensors become.

local about = require "ipulua.base.parts.about"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local Layer = require "ipulua.keras.base.layer"
local names = require "ipulua.base.parts.names"
local plain = require "ipulua.base.plain"

local keep <const> = require "ipulua.keras.base.layer_fields".keep

local lambda = {}

---@class Lambda: Layer
local Lambda = Layer.declare("Lambda", {
  {"func", "callable"},
  {"output_shape", "any", optional = true, of = "shape or function of the input's shape",
    says = "without the batch"},
  {"mask", "any", optional = true, of = "tensor or function of inputs and mask"},
  {"arguments", "table", optional = true},
})
lambda.Lambda = Lambda

-- The fields that hold arguments must not hide the properties of every layer.
function Lambda:init(...)
  local given = require "ipulua.base.parts".read(self,
    require "ipulua.base.class".of(self), ...)
  rawset(self, "func", given.func)
  rawset(self, "arguments", given.arguments)
  rawset(self, "given_output_shape", given.output_shape)
  rawset(self, "given_mask", given.mask)
  self:init_base(given)
  keep(self, "_shapeless", true)
end

function Lambda:call(inputs)
  if self.arguments then return self.func(inputs, self.arguments) end
  return self.func(inputs)
end

function Lambda:compute_output_shape(input_shape)
  local given = self.given_output_shape
  if given == nil then return Layer.compute_output_shape(self, input_shape) end
  if type(given) == "function" then return given(input_shape) end
  local rest = type(given) == "number" and {given} or given
  local first = type(input_shape[1]) == "table" and input_shape[1] or input_shape
  return table.move(rest, 1, #rest, 2, {first[1]})
end

function Lambda:compute_mask(inputs, mask)
  if type(self.given_mask) == "function" then return self.given_mask(inputs, mask) end
  return self.given_mask
end

function Lambda:get_config()
  local config = Layer.get_config(self)
  config.mask, config.output_shape = self.given_mask, self.given_output_shape
  return config
end

---@class OpLambda: Layer
local OpLambda = Layer.declare("OpLambda", {{"op", "string"}})
lambda.OpLambda = OpLambda
OpLambda.autocast = false
OpLambda.takes_numbers, OpLambda.call_options = true, {"names"}

-- The functions for indexing besides the ops of the registry.
local others <const> = {
  row = function(x, i) return x[i] end,
}

-- A model's file may name any op, except ops that only gradients and programs call.
function OpLambda:setup()
  local described = core.describe_op(self.op)
  keep(self, "_shapeless", true)
  rawset(self, "f", others[self.op] or described and not described.internal and core.ops[self.op])
  if not self.f then blame.error("there is no op '" .. self.op .. "'", "value") end
end

-- Ops take numbers, lists and names where they need them. The options that every layer call gets
-- are dropped.
function OpLambda:call(...)
  local given = table.pack(...)
  local options = given[given.n]
  local count = given.n - 1
  if options.names then
    count = count + 1
    given[count] = options.names
  end
  return self.f(table.unpack(given, 1, count))
end

---Applies an op to arguments, some of them KerasTensors.
---@param op string
---@param ... any
---@return any ...
function lambda.apply(op, ...)
  local given = table.pack(...)
  local options = {}
  local last = given[given.n]
  if given.n > 1 and plain.is(last) and #last == 0 and next(last) ~= nil then
    options.names, given.n = last, given.n - 1
  end
  local short = op:match("[^.]+$")
  local layer = OpLambda{op = op, name = names.unique("ipu." .. short)}
  return require "ipulua.keras.models.functional".apply(layer,
    table.move(given, 1, given.n, 1, {n = given.n}), options)
end

about.say("layers", {
  {"Lambda", text = "A function of your own as a layer.", section = "Core",
    sample = "Lambda(function(x) return x * 2 end)", input = {2, 3}, wrong = "Lambda(2)",
    is = "[batch, ...] → [batch, ...']", also = "what func gives"},
  {"OpLambda", text = "An op that is applied to tensors of a functional model, such as "
    .. "`x * 2`; the library makes it.", keras = "what tf.keras calls TFOpLambda",
    section = "Core"},
})

return lambda
