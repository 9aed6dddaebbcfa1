-- Recurrent cells: one step of a recurrent layer. cell(x, states) gives the output and a list of
-- new states.

local Layer = require "ipulua.keras.base.layer"
local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local ops = require "ipulua.ops"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local cells = {}

-- Rows of all cells, between their activations and their own rows.
local common_rows <const> = {
  {"use_bias", "boolean", true}, {"kernel_initializer", "initializer", "glorot_uniform"},
  {"recurrent_initializer", "initializer", "orthogonal"},
  {"bias_initializer", "initializer", "zeros"},
}
local later_rows <const> = {
  {"kernel_regularizer", "regularizer"}, {"recurrent_regularizer", "regularizer"},
  {"bias_regularizer", "regularizer"},
  {"kernel_constraint", "constraint"}, {"recurrent_constraint", "constraint"},
  {"bias_constraint", "constraint"},
  {"dropout", "number", 0, range = "[0, 1)"}, {"recurrent_dropout", "number", 0, range = "[0, 1)"},
  {"seed", "integer", optional = true},
}

local function rows_of(first, own)
  local rows = {}
  for _, list in ipairs{first, common_rows, own, later_rows} do
    table.move(list, 1, #list, #rows + 1, rows)
  end
  return rows
end

local units_row <const> = {"units", "integer", range = "[1, inf)"}
local activation_row <const> = {"activation", "activation", "tanh"}
local gate_row <const> = {"recurrent_activation", "activation", "sigmoid"}

---Arguments of each kind of cell.
cells.rows = {
  SimpleRNN = rows_of({units_row, activation_row}, {}),
  LSTM = rows_of({units_row, activation_row, gate_row}, {{"unit_forget_bias", "boolean", true}}),
  GRU = rows_of({units_row, activation_row, gate_row}, {{"reset_after", "boolean", true}}),
}

---The seed of a layer's second draw, which is another than the first's.
---@param seed integer?
---@return integer?
function cells.second_seed(seed) return seed and seed + 1 end

local Cell = Layer.declare("Cell", {})

function Cell:setup()
  self.state_size = self.state_count == 2 and {self.units, self.units} or self.units
  self.output_size = self.units
end

function Cell:build(input_shape)
  if args.is_plain(input_shape[1]) then input_shape = input_shape[1] end
  local features = input_shape[#input_shape]
  if features < 0 then
    blame.error(string.format("layer '%s': the number of features of its input must be known",
      self.name), "value")
  end
  local width = self.gates * self.units
  self.kernel = weight_arguments.add(self, "kernel", {features, width})
  self.recurrent_kernel = weight_arguments.add(self, "recurrent", {self.units, width},
    "recurrent_kernel")
  if self.use_bias then
    self.bias = weight_arguments.add(self, "bias", self:bias_shape(width), nil, self:first_bias())
  end
end

function Cell:bias_shape(width) return {width} end -- luacheck: ignore 212
function Cell:first_bias() return self.bias_initializer end

---Zeros for a batch.
---@return userdata[]
function Cell:get_initial_state(batch_size, dtype)
  local states = {}
  for i = 1, self.state_count do states[i] = core.full({batch_size, self.units}, 0, dtype) end
  return states
end

---Masks of dropout on inputs and states, the same for all steps of a sequence; nil without dropout.
function Cell:dropout_masks(batch_size, features, dtype, training)
  local function mask(rate, width, seed)
    if not training or rate == 0 then return nil end
    return ops.nn.dropout(core.full({batch_size, width}, 1, dtype), {rate = rate, seed = seed})
  end
  return mask(self.dropout, features, self.seed),
    mask(self.recurrent_dropout, self.units, cells.second_seed(self.seed))
end

function Cell:call(x, states, options)
  if core.is_tensor(states) then states = {states} end
  if not options or #states == 0 then
    blame.error(string.format("layer '%s': a cell is called with x and a list of states",
      self.name), "type")
  end
  local input_mask, state_mask = self:dropout_masks(x.shape[1], x.shape[2], x.dtype,
    options.training)
  if input_mask then x = x * input_mask end
  return self:step(self:project(x), states, state_mask)
end

---The input's share of the gates; x may have more leading axes than the batch.
function Cell:project(x)
  local shape = x.shape
  local last = shape[#shape]
  local flat = #shape > 2 and ops.reshape(x, {x.size // last, last}) or x
  local y = ops.matmul(flat, self.kernel)
  if self.use_bias then y = ops.nn.bias_add(y, self:input_bias()) end
  if #shape == 2 then return y end
  shape[#shape] = y.shape[2]
  return ops.reshape(y, shape)
end

function Cell:input_bias() return self.bias end

-- Gate i, from 0, of the last axis, on which the gates lie side by side.
local function gate(z, i, units)
  local begin, size = {}, z.shape
  for axis = 1, #size do begin[axis] = 0 end
  begin[#size], size[#size] = i * units, units
  return ops.slice(z, begin, size)
end

-- ------------------------------------------------ simple

---@class SimpleRNNCell: Layer
local SimpleRNNCell = Layer.declare("SimpleRNNCell", cells.rows.SimpleRNN, Cell)
cells.SimpleRNNCell = SimpleRNNCell
SimpleRNNCell.gates, SimpleRNNCell.state_count = 1, 1

function SimpleRNNCell:step(projected, states, state_mask)
  local h = state_mask and states[1] * state_mask or states[1]
  local y = self.activation(projected + ops.matmul(h, self.recurrent_kernel))
  return y, {y}
end

-- ------------------------------------------------ LSTM

---@class LSTMCell: Layer
local LSTMCell = Layer.declare("LSTMCell", cells.rows.LSTM, Cell)
cells.LSTMCell = LSTMCell
LSTMCell.gates, LSTMCell.state_count = 4, 2

-- The forget gate's bias begins with 1.
function LSTMCell:first_bias()
  if not self.unit_forget_bias then return self.bias_initializer end
  return function(shape, options)
    local dtype = options.dtype
    local part = {shape[1] // 4}
    local function zeros() return self.bias_initializer(part, {dtype = dtype}) end
    return ops.concat({zeros(), core.full(part, 1, dtype),
      self.bias_initializer({2 * part[1]}, {dtype = dtype})}, {axis = 0})
  end
end

---A step of long short-term memory, with the activations of a layer or cell.
---@param layer Layer
---@param z userdata gates before their activations: input, forget, cell, output
---@param c userdata the cell's state
---@param units integer
---@return userdata y
---@return userdata[] states
function cells.lstm_step(layer, z, c, units)
  local i, f = layer.recurrent_activation(gate(z, 0, units)),
    layer.recurrent_activation(gate(z, 1, units))
  c = f * c + i * layer.activation(gate(z, 2, units))
  local y = layer.recurrent_activation(gate(z, 3, units)) * layer.activation(c)
  return y, {y, c}
end

function LSTMCell:step(projected, states, state_mask)
  local h = states[1]
  if state_mask then h = h * state_mask end
  return cells.lstm_step(self, projected + ops.matmul(h, self.recurrent_kernel), states[2],
    self.units)
end

-- ------------------------------------------------ GRU

---@class GRUCell: Layer
local GRUCell = Layer.declare("GRUCell", cells.rows.GRU, Cell)
cells.GRUCell = GRUCell
GRUCell.gates, GRUCell.state_count = 3, 1

function GRUCell:bias_shape(width)
  return self.reset_after and {2, width} or {width}
end

-- With reset_after the first row is the input's bias, the second the recurrent one.
local function bias_row(self, row)
  return ops.reshape(ops.slice(self.bias, {row, 0}, {1, 3 * self.units}), {3 * self.units})
end

function GRUCell:input_bias()
  return self.reset_after and bias_row(self, 0) or self.bias
end

function GRUCell:step(projected, states, state_mask)
  local before, units = states[1], self.units
  local h = state_mask and before * state_mask or before
  local candidate
  local z, r
  if self.reset_after then
    local inner = ops.matmul(h, self.recurrent_kernel)
    if self.use_bias then inner = ops.nn.bias_add(inner, bias_row(self, 1)) end
    z = self.recurrent_activation(gate(projected, 0, units) + gate(inner, 0, units))
    r = self.recurrent_activation(gate(projected, 1, units) + gate(inner, 1, units))
    candidate = gate(projected, 2, units) + r * gate(inner, 2, units)
  else
    local inner = ops.matmul(h, gate(self.recurrent_kernel, 0, 2 * units))
    z = self.recurrent_activation(gate(projected, 0, units) + gate(inner, 0, units))
    r = self.recurrent_activation(gate(projected, 1, units) + gate(inner, 1, units))
    candidate = gate(projected, 2, units) + ops.matmul(r * h, gate(self.recurrent_kernel, 2, units))
  end
  local y = z * before + (1 - z) * self.activation(candidate)
  return y, {y}
end

-- ------------------------------------------------ cells of a script

---Zero states for a batch, of each of the sizes: an integer or a shape without the batch.
---@param sizes any
---@param batch_size integer
---@param dtype string
---@return userdata[]
function cells.zeros(sizes, batch_size, dtype)
  local states = {}
  for i, size in ipairs(type(sizes) == "table" and sizes or {sizes}) do
    local shape = type(size) == "table" and table.move(size, 1, #size, 2, {batch_size})
      or {batch_size, size}
    states[i] = core.full(shape, 0, dtype)
  end
  return states
end

---Own cells for RNN extend it. Fields: `state_size` (units; of several states a list of units or
---shapes) and `output_size`. `call(x, states, {training =})` gives the output and a list of the new
---states. States begin with zeros.
---@class AbstractRNNCell: Layer
---@field state_size any
---@field output_size any
local AbstractRNNCell = Layer.declare("AbstractRNNCell", {})
cells.AbstractRNNCell = AbstractRNNCell

function AbstractRNNCell:call()
  blame.error(string.format("cell '%s': its class %s defines no call(x, states)", self.name,
    self.__name), "not_implemented")
end

---Zeros for a batch.
---@return userdata[]
function AbstractRNNCell:get_initial_state(batch_size, dtype)
  if self.state_size == nil then
    blame.error(string.format("cell '%s': its class %s sets no state_size", self.name, self.__name),
      "not_implemented")
  end
  return cells.zeros(self.state_size, batch_size, dtype or self.compute_dtype)
end

-- ------------------------------------------------ several

-- A cell: a layer with states.
function cells.check(who, cell)
  if Layer.is_layer(cell) and cell.state_size then return cell end
  blame.error(string.format("%s: a cell must be a layer that is called with x and states and has a "
    .. "state_size, got %s", who,
    args.describe(cell)), "type")
end

---Keeps the batch size of a stateful layer that was built for one.
---@param layer RNN
---@param input_shape integer[] [batch, steps, ...], with -1 for a batch of any size
function cells.keep_batch_size(layer, input_shape)
  local batch = input_shape[layer.time_major and 2 or 1] or -1
  if layer.stateful and batch > 0 then rawset(layer, "states_batch", batch) end
end

---The states of a cell before its first step, zeros where the cell has no others.
---@param cell Layer
---@param batch_size integer
---@param dtype string
---@return userdata[]
function cells.first_states(cell, batch_size, dtype)
  local states = cell.get_initial_state and cell:get_initial_state(batch_size, dtype)
    or cells.zeros(cell.state_size, batch_size, dtype)
  return core.is_tensor(states) and {states} or states
end

-- The size of a cell's output: if it says none, the size of its first state, as in Keras.
local function output_size(cell)
  if cell.output_size ~= nil then return cell.output_size end
  local size = cell.state_size
  return type(size) == "table" and size[1] or size
end

---Cells one above the other.
---@class StackedRNNCells: Layer
local StackedRNNCells = Layer.declare("StackedRNNCells", {{"cells", "list"}})
cells.StackedRNNCells = StackedRNNCells

function StackedRNNCells:setup()
  if #self.cells == 0 then blame.error("StackedRNNCells: 'cells' is empty", "value") end
  local parts = require "ipulua.base.parts"
  self.cells = table.move(self.cells, 1, #self.cells, 1, {}) -- not the caller's list
  for i, given in ipairs(self.cells) do
    local cell = type(given) == "table" and parts.get("layer", given) or given
    self.cells[i] = cells.check("StackedRNNCells", cell)
  end
  self.output_size = output_size(self.cells[#self.cells])
  self.state_size = {}
  for i, cell in ipairs(self.cells) do self.state_size[i] = cell.state_size end
end

-- Calls each cell with the result of the cell before it.
function StackedRNNCells:build(input_shape)
  local shape = table.move(input_shape, 1, #input_shape, 1, {})
  for _, cell in ipairs(self.cells) do
    cell:build_once(shape)
    local size = output_size(cell)
    shape = table.move(shape, 1, #shape, 1, {})
    if type(size) == "table" then shape = table.move(size, 1, #size, 2, {shape[1]})
    else shape[#shape] = size end
  end
end

function StackedRNNCells:get_initial_state(batch_size, dtype)
  local states = {}
  for _, cell in ipairs(self.cells) do
    local own = cells.first_states(cell, batch_size, dtype)
    table.move(own, 1, #own, #states + 1, states)
  end
  return states
end

-- The number of states of a cell. Stacked cells have the states of all their cells.
local function state_count(cell)
  if not class.is_a(cell, StackedRNNCells) then
    return type(cell.state_size) == "table" and #cell.state_size or 1
  end
  local count = 0
  for _, inner in ipairs(cell.cells) do count = count + state_count(inner) end
  return count
end

function StackedRNNCells:call(x, states, options)
  local new, at = {}, 1
  for _, cell in ipairs(self.cells) do
    local count = state_count(cell)
    local own = table.move(states, at, at + count - 1, 1, {})
    local after
    x, after = cell(x, own, {training = options.training})
    if core.is_tensor(after) then after = {after} end
    table.move(after, 1, count, at, new)
    at = at + count
  end
  return x, new
end

function StackedRNNCells:get_config()
  local config = Layer.get_config(self)
  local parts = require "ipulua.base.parts"
  config.cells = {}
  for i, cell in ipairs(self.cells) do config.cells[i] = parts.serialize("layer", cell) end
  return config
end

about.say("layers", {
  {"SimpleRNNCell", text = "One step of SimpleRNN: called with x and a list of states.",
    source = "as SimpleRNN", takes_one = true, section = "Recurrent", sample = "SimpleRNNCell(4)",
    operands = "ipu.ones{2, 3}, {ipu.zeros{2, 4}}", wrong = "SimpleRNNCell(-4)",
    shapes = "x [batch, features], {h [batch, units]} → [batch, units], {[batch, units]}"},
  {"LSTMCell", text = "One step of LSTM: called with x and the states {h, c}.", source = "as LSTM",
    takes_one = true, section = "Recurrent", sample = "LSTMCell(4)",
    operands = "ipu.ones{2, 3}, {ipu.zeros{2, 4}, ipu.zeros{2, 4}}", wrong = "LSTMCell(-4)",
    shapes = "x [batch, features], {h, c [batch, units]} → [batch, units], {[batch, units], "
    .. "[batch, units]}"},
  {"GRUCell", text = "One step of GRU: called with x and the states {h}.", source = "as GRU",
    takes_one = true, section = "Recurrent", sample = "GRUCell(4)",
    operands = "ipu.ones{2, 3}, {ipu.zeros{2, 4}}", wrong = "GRUCell(-4)",
    shapes = "x [batch, features], {h [batch, units]} → [batch, units], {[batch, units]}"},
  {"AbstractRNNCell", section = "Recurrent", sample = "AbstractRNNCell()",
    wrong = "AbstractRNNCell{units = 4}", shapes = "x [batch, features], {[batch, state_size], …} "
    .. "→ [batch, output_size], {[batch, state_size], …}"},
  {"StackedRNNCells", section = "Recurrent",
    sample = "RNN(StackedRNNCells{GRUCell(4), GRUCell(6)})", input = {2, 5, 3},
    wrong = "StackedRNNCells()", is = "[batch, steps, features] → [batch, units']",
    also = "units of the last cell"},
}, cells)

return cells
