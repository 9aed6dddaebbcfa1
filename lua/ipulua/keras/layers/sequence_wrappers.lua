-- Layers around layers of sequences: in both directions, and at every step.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local Layer = require "ipulua.keras.base.layer"
local layer_fields = require "ipulua.keras.base.layer_fields"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"
local recurrent = require "ipulua.keras.layers.recurrent"
local shapes = require "ipulua.keras.base.shapes"
local Wrapper = require "ipulua.keras.layers.layer_wrapper"

local layers = {}

local reversed <const>, split_inputs <const> = recurrent.reversed, recurrent.split_inputs

-- The time axis of a layer's input and of its sequence of outputs.
local function time_axis(layer) return layer.time_major and 0 or 1 end

-- ------------------------------------------------ both directions

---A recurrent layer forwards and a copy of it backwards; merge_mode: concat, sum, mul, ave, or
---"none" for both.
---@class Bidirectional: Layer
local Bidirectional = Layer.declare("Bidirectional", {
  {"layer", {Layer, "dict"}},
  {"merge_mode", "string", "concat", choices = {"concat", "sum", "mul", "ave", "none"}},
  {"backward_layer", "table", optional = true},
})
layers.Bidirectional = Bidirectional
Bidirectional.takes_states, Bidirectional.call_options = true, {"initial_state"}

local function as_layer(given)
  local layer = parts.get("layer", given)
  if not class.is_a(layer, Layer) then
    blame.error("'layer' must be a layer, got " .. args.describe(given), "type")
  end
  return layer
end

-- Each direction takes two seeds of each cell, wherever the config has them; initializers have
-- their own.
local function other_draws(config)
  for _, name in ipairs{"seed", "dropout_seed"} do
    if config[name] then config[name] = config[name] + 2 end
  end
  for _, cell in ipairs(config.cells or {config.cell}) do
    if args.is_plain(cell.config) then other_draws(cell.config) end
  end
end

local function copy_of(layer, name, flip)
  local config = layer:get_config()
  config.name = name
  if flip then config.go_backwards = not config.go_backwards end
  if flip then other_draws(config) end
  return class.of(layer):from_config(config)
end

function Bidirectional:setup()
  local layer = as_layer(self.layer)
  if layer.go_backwards == nil then
    blame.error("Bidirectional: 'layer' must be a recurrent layer, got " .. args.describe(layer),
      "type")
  end
  rawset(self, "return_sequences", layer.return_sequences)
  rawset(self, "return_state", layer.return_state)
  self.forward_layer = copy_of(layer, "forward_" .. layer.name)
  local backward = self.backward_layer and as_layer(self.backward_layer)
  self.backward = backward or copy_of(layer, "backward_" .. layer.name, true)
  if self.backward.time_major ~= self.forward_layer.time_major then
    blame.error("Bidirectional: 'layer' and 'backward_layer' must agree in time_major", "value")
  end
  if self.backward.go_backwards == self.forward_layer.go_backwards then
    blame.error("Bidirectional: 'backward_layer' must go the other way: set its go_backwards",
      "value")
  end
  rawset(self, "wrapped", layer)
  self.input_spec = layer.input_spec
  rawset(self, "has_own_backward", backward ~= nil)
  for _, name in ipairs{"layer", "backward_layer"} do layer_fields.forget(self, name) end
end

function Bidirectional:build(input_shape)
  self.forward_layer:build_once(input_shape)
  self.backward:build_once(input_shape)
end

---Sets the states kept between batches to zero, in both directions.
function Bidirectional:reset_states(values)
  if values ~= nil then
    blame.error("reset_states: of Bidirectional it takes no values; its layers take them: "
      .. "layer.forward_layer:reset_states(values)", "type")
  end
  for _, layer in ipairs{self.forward_layer, self.backward} do layer:reset_states() end
end

function Bidirectional:get_config()
  local config = Layer.get_config(self)
  config.layer = parts.serialize("layer", self.wrapped)
  config.backward_layer = self.has_own_backward and parts.serialize("layer", self.backward) or nil
  return config
end

local merges <const> = {
  concat = function(a, b) return ops.concat({a, b}, {axis = -1}) end,
  sum = function(a, b) return a + b end,
  mul = function(a, b) return a * b end, ave = function(a, b) return (a + b) / 2 end,
}

function Bidirectional:call(inputs, options)
  local x, given = split_inputs(inputs, options)
  local half = given and #given // 2
  local function call(layer, from, to)
    local mask = options.mask
    if args.is_plain(mask) then mask = mask[1] end
    return table.pack(
      layer(x, {training = options.training, mask = mask, initial_state = given
        and table.move(given, from, to, 1, {})}))
  end
  local a, b = call(self.forward_layer, 1, half),
    call(self.backward, given and half + 1, given and #given)
  local y, z = a[1], b[1]
  if self.return_sequences then z = reversed(z, time_axis(self.backward)) end
  local merge = merges[self.merge_mode]
  local results = merge and {merge(y, z)} or {y, z}
  if self.return_state then
    table.move(a, 2, a.n, #results + 1, results)
    table.move(b, 2, b.n, #results + 1, results)
  end
  return table.unpack(results)
end

function Bidirectional:compute_mask(_, mask)
  if args.is_plain(mask) then mask = mask[1] end
  if not self.return_sequences then return nil end
  return merges[self.merge_mode] and mask or {mask, mask}
end

-- ------------------------------------------------ every step

---A layer applied to each step of a sequence.
---@class TimeDistributed: Wrapper
local TimeDistributed = Layer.declare("TimeDistributed", {{"layer", {Layer, "dict"}}}, Wrapper)
layers.TimeDistributed = TimeDistributed

local function check_steps(self, shape)
  if #shape >= 3 then return end
  blame.error(string.format("layer '%s': TimeDistributed needs at least 3 dimensions (batch, time, "
    .. "features), got the shape %s", self.name,
    shapes.text(shape)), "value")
end

function TimeDistributed:build(input_shape)
  check_steps(self, input_shape)
  local shape = {-1}
  table.move(input_shape, 3, #input_shape, 2, shape)
  if class.of(self.layer).is_model then return end
  self.layer:build_once(shape)
end

-- [batch, time, …] → [batch · time, …]
local function flattened(x)
  local shape = x.shape
  return ops.reshape(x, table.move(shape, 3, #shape, 2, {shape[1] * shape[2]}))
end

-- The mask of the results: the inner layer's, else true for steps with any true element.
local function mask_of_steps(inner, mask, shape)
  if inner ~= nil then
    return ops.reshape(inner, table.move(inner.shape, 2, #inner.shape, 3, {shape[1], shape[2]}))
  end
  while mask and #mask.shape > 2 do mask = ops.reduce_any(mask, {axis = -1}) end
  return mask
end

function TimeDistributed:call(x, options)
  local shape = x.shape
  check_steps(self, shape)
  local results = table.pack(self.layer(flattened(x),
    {training = options.training, mask = options.mask and flattened(options.mask)}))
  for i = 1, results.n do
    results[i] = nest.map(function(y)
      local whole = ops.reshape(y, table.move(y.shape, 2, #y.shape, 3, {shape[1], shape[2]}))
      context.set_mask(whole, mask_of_steps(context.mask(y), options.mask, shape))
      return whole
    end, results[i])
  end
  return table.unpack(results, 1, results.n)
end

---The mask of the results: from the inner layer's compute_mask of all steps, else true for steps
---with any true element.
---Shapes: inputs [batch, steps, ...], mask [batch, steps, ...]
function TimeDistributed:compute_mask(inputs, mask)
  if not args.is_tensor(inputs) then
    blame.error(string.format("layer '%s': compute_mask is called with a tensor, got %s", self.name,
      args.describe(inputs)), "type")
  end
  check_steps(self, inputs.shape)
  local inner = self.layer:compute_mask(flattened(inputs), mask and flattened(mask))
  return mask_of_steps(inner, mask, inputs.shape)
end

TimeDistributed.masks_by_call = true

about.say("layers", {
  {"Bidirectional", source = "Schuster & Paliwal 1997 (IEEE Trans. Signal Processing 45)",
    section = "Recurrent", sample = "Bidirectional(LSTM(4))", input = {2, 5, 3},
    wrong = "Bidirectional{LSTM(4), merge_mode = \"max\"}",
    is = "[batch, steps, features] → [batch, units']",
    also = "twice the layer's units for \"concat\""},
  {"TimeDistributed", takes_one = true, section = "Recurrent", sample = "TimeDistributed(Dense(4))",
    input = {2, 5, 3}, wrong = "TimeDistributed(4)",
    is = "[batch, steps, ...] → [batch, steps, ...']"},
}, layers)

return layers
