-- LSTM over sequences of images: its products are convolutions. [batch, time, space…, channels] →
-- [batch, (time,) space…, filters].

local about = require "ipulua.base.parts.about"
local activations = require "ipulua.keras.activations"
local blame = require "ipulua.base.blame"
local cells = require "ipulua.keras.layers.cells"
local core = require "ipulua.core"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local ops = require "ipulua.ops"
local recurrent = require "ipulua.keras.layers.recurrent"
local spatial = require "ipulua.keras.layers.spatial"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

local RNN = recurrent.RNN
local gates <const> = 4 -- input, forget, cell, output

local rows = {
  {"filters", "integer", range = "[1, inf)"},
  {"kernel_size", {"integer", "list"}, range = "[1, inf)"},
  {"strides", {"integer", "list"}, 1, range = "[1, inf)"},
  {"padding", "string", "valid", choices = {"valid", "same"}}, spatial.format_row,
  {"dilation_rate", {"integer", "list"}, 1, range = "[1, inf)"},
}
for _, row in ipairs(cells.rows.LSTM) do
  if row[1] ~= "units" then
    rows[#rows + 1] = row[1] == "recurrent_activation" and {row[1], row[2], "hard_sigmoid"} or row
  end
end
for _, name in ipairs{"return_sequences", "return_state", "go_backwards", "stateful"} do
  rows[#rows + 1] = {name, "boolean", false}
end

---@class ConvLSTM: RNN
local ConvLSTM = Layer.declare("ConvLSTM", rows, RNN)

function ConvLSTM:setup()
  local rank = self.space
  for _, name in ipairs{"kernel_size", "strides", "dilation_rate"} do
    self[name] = spatial.list(self, name, self[name], rank)
  end
  self.activation = self.activation or activations.linear
  self.input_spec = InputSpec{ndim = rank + 3}
  if self.data_format == "channels_first" then
    blame.error(self.__name .. ": images have their channels last; transpose them before",
      "not_implemented")
  end
  rawset(self, "units", self.filters)
end

function ConvLSTM:build(input_shape)
  if type(input_shape[1]) == "table" then input_shape = input_shape[1] end
  cells.keep_batch_size(self, input_shape)
  local width = gates * self.filters
  self.kernel = weight_arguments.add(self, "kernel",
    spatial.extended(self.kernel_size, spatial.channels(self, input_shape), width))
  self.recurrent_kernel = weight_arguments.add(self, "recurrent",
    spatial.extended(self.kernel_size, self.filters, width), "recurrent_kernel")
  if self.use_bias then
    self.bias = weight_arguments.add(self, "bias", {width}, nil, cells.LSTMCell.first_bias(self))
  end
end

ConvLSTM.get_config = Layer.get_config

-- x [batch, …] after dropout. For a sequence, whose time is `axis`, all steps have the same
-- dropout.
local function dropped(x, rate, training, seed, axis)
  if not training or rate == 0 then return x end
  local shape = x.shape
  if axis then shape[axis] = 1 end
  return x * ops.nn.dropout(core.full(shape, 1, x.dtype), {rate = rate, seed = seed})
end

-- The input's share of the gates of all steps at once: [batch, time, space…, 4 filters].
local function project(self, x)
  local shape = x.shape
  local images = ops.reshape(x, {shape[1] * shape[2], table.unpack(shape, 3)})
  local z = ops.nn[self.op](images, self.kernel,
    {strides = self.strides, padding = self.padding, dilations = self.dilation_rate})
  if self.use_bias then z = ops.nn.bias_add(z, self.bias) end
  return ops.reshape(z, {shape[1], shape[2], table.unpack(z.shape, 2)})
end

function ConvLSTM:call(inputs, options)
  local x = type(inputs) == "table" and inputs[1] or inputs
  rawset(self, "projected", project(self, dropped(x, self.dropout, options.training, self.seed, 2)))
  -- The shapes of states depend on the projected images.
  local shape = self.projected.shape
  local state = {shape[1], table.unpack(shape, 3)}
  state[#state] = self.filters
  rawset(self, "cell", {get_initial_state = function(_, _, dtype)
    return {core.full(state, 0, dtype), core.full(state, 0, dtype)}
  end})
  local results = table.pack(RNN.call(self, inputs, options))
  rawset(self, "projected", nil)
  rawset(self, "cell", nil)
  return table.unpack(results, 1, results.n)
end

local function step(self, projected, states, kept)
  local h = states[1]
  local z = projected + ops.nn[self.op](kept and h * kept or h, self.recurrent_kernel,
    {strides = 1, padding = "same"})
  return cells.lstm_step(self, z, states[2], self.filters)
end

-- As in RNN.call: if x is reversed, its projection is, too.
function ConvLSTM:run(_, mask, states, options)
  local projected = self.go_backwards and ops.reverse(self.projected, 1) or self.projected
  local training = options.training and self.recurrent_dropout > 0
  local ones = core.full(states[1].shape, 1, states[1].dtype)
  local kept = training and dropped(ones, self.recurrent_dropout, true,
    cells.second_seed(self.seed)) or nil
  local outputs, last = {}, nil
  for t = 0, projected.shape[2] - 1 do
    local y, new = step(self, recurrent.step_of(projected, t), states, kept)
    if mask then
      local shape = {}
      for axis = 1, #y.shape do shape[axis] = axis == 1 and y.shape[1] or 1 end
      local keep = ops.reshape(recurrent.step_of(mask, t), shape)
      for k, state in ipairs(new) do new[k] = ops.where(keep, state, states[k]) end
      y = ops.where(keep, y, last or ops.zeros_like(y))
    end
    outputs[t + 1], last, states = y, y, new
  end
  return self:results(self.return_sequences and recurrent.stack_steps(outputs) or nil, last, states)
end

for rank, op in ipairs{"conv1d", "conv2d", "conv3d"} do
  local c = ConvLSTM:extend("ConvLSTM" .. rank .. "D")
  c.space, c.op = rank, op
  layers[c.__name] = c
end

---@class ConvLSTM1D: ConvLSTM
---@class ConvLSTM2D: ConvLSTM
---@class ConvLSTM3D: ConvLSTM

about.say("layers", {
  {"ConvLSTM1D", text = "LSTM whose products are convolutions, over sequences of rows.",
    source = "arXiv:1506.04214", section = "Recurrent", sample = "ConvLSTM1D{4, 3}",
    input = {2, 5, 6, 3}, wrong = {2, 5, 6},
    is = "[batch, steps, cols, channels] → [batch, cols', filters]",
    also = "with return_sequences steps after the batch; return_state: h and c besides"},
  {"ConvLSTM2D", text = "The same over sequences of pictures.", source = "arXiv:1506.04214",
    section = "Recurrent", sample = "ConvLSTM2D{4, 3, padding = \"same\"}", input = {2, 5, 6, 6, 3},
    wrong = {2, 5, 6}, is = "[batch, steps, rows, cols, channels] → [batch, rows', cols', filters]",
    also = "with return_sequences steps after the batch; return_state: h and c besides"},
  {"ConvLSTM3D", text = "The same over sequences of volumes.", source = "arXiv:1506.04214",
    section = "Recurrent", sample = "ConvLSTM3D{4, 2}", input = {2, 3, 4, 4, 4, 2},
    wrong = {2, 5, 6}, is = "[batch, steps, depth, rows, cols, channels] → [batch, depth', rows', "
    .. "cols', filters]", also = "with return_sequences steps after the batch; return_state: h "
    .. "and c besides"},
}, layers)

return layers
