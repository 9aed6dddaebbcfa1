-- keras.Input: where a functional model begins.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core_layers = require "ipulua.keras.layers.core"
local functional = require "ipulua.keras.models.functional"
local names = require "ipulua.base.parts.names"

local keep <const> = require "ipulua.keras.base.layer_fields".keep

local input = {}

local rows <const> = {
  {"shape", {"integers", "integer"}, optional = true, list = true},
  {"batch_size", "integer", optional = true},
  {"name", "string", optional = true},
  {"dtype", "dtype", "float32"}, {"batch_shape", "integers", optional = true},
  {"tensor", "any", optional = true, of = "KerasTensor", says = "to be the input itself"},
}

-- Keras has inputs of texts, Input{shape = {1}, dtype = "string"}.
local function refuse_texts(given)
  if args.is_plain(given) and given.dtype == "string" then
    blame.error("Input: texts are no tensors; TextVectorization or StringLookup numbers them "
      .. "before the model, as in ds:map(function(text) return vectorize(text) end)", "type")
  end
end

---A KerasTensor of a shape without the batch, -1 for unknown extents.
---`keras.Input{28, 28}` is `keras.Input{shape = {28, 28}}`.
---Errors: no shape: `keras.Input()`
---@param ... any shape, batch_size, name, dtype, batch_shape
---@return KerasTensor
function input.Input(...)
  refuse_texts(select(-1, nil, ...))
  if math.type((...)) == "integer" and math.type((select(2, ...))) == "integer" then
    blame.error("Input: 'shape' is one list, as in Input{28, 28}", "type")
  end
  local a = args.check("Input", rows, ...)
  local shape = a.batch_shape
  if not shape then
    local rest = type(a.shape) == "number" and {a.shape} or a.shape
    if not rest then
      blame.error("Input: 'shape' is missing; it must be a list of extents, without the batch",
        "type")
    end
    shape = table.move(rest, 1, #rest, 2, {a.batch_size or -1})
  end
  for i, extent in ipairs(shape) do
    if math.type(extent) ~= "integer" or extent == 0 or extent < -1 then
      blame.error(string.format("Input: extent %d of the shape must be positive, or -1 for "
        .. "unknown, got %s", i - 1,
        args.describe(extent)), "value")
    end
  end
  local layer = core_layers.InputLayer{name = a.name or names.numbered("input"), dtype = a.dtype}
  keep(layer, "batch_input_shape", shape)
  return functional.input(layer, shape, a.dtype)
end

about.say("layers", {
  {"Input", text = "The beginning of a functional model: a placeholder with the shape of a sample.",
    section = "Core", sample = "Input{shape = {28, 28}}", wrong = "Input()",
    shapes = "a KerasTensor [-1, 28, 28]: [batch_size or -1, shape…]"},
})

return input
