-- Recurrent layers. LSTM and GRU with the usual activations are single ops over the whole sequence;
-- everything else is its cell, step after step.

local about = require "ipulua.base.parts.about"
local activations = require "ipulua.keras.activations"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local cells = require "ipulua.keras.layers.cells"
local concat = require "ipulua.keras.base.concat"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local layer_fields = require "ipulua.keras.base.layer_fields"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"
local placement = require "ipulua.trace.placement"
local shapes = require "ipulua.keras.base.shapes"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local kept <const> = layer_fields.get

local layers = {}
for _, name in ipairs{"AbstractRNNCell", "SimpleRNNCell", "LSTMCell", "GRUCell",
  "StackedRNNCells"} do
  layers[name] = cells[name]
end

local sequence_rows <const> = {
  {"return_sequences", "boolean", false}, {"return_state", "boolean", false},
  {"go_backwards", "boolean", false},
  {"stateful", "boolean", false},
  {"unroll", "boolean", false, says = "changes nothing"}, {"time_major", "boolean", false},
  {"zero_output_for_mask", "boolean", false},
}

local sequence_spec <const> = InputSpec{ndim = 3}

-- ------------------------------------------------ any cell

---A layer that applies a cell (a layer called with x and a list of states) to each step of a
---sequence.
---@class RNN: Layer
local RNN = Layer.declare("RNN",
  table.move(sequence_rows, 1, #sequence_rows, 2, {{"cell", {"table", "list", "callable"}}}))
layers.RNN = RNN
RNN.takes_states, RNN.call_options = true, {"initial_state"}

function RNN:setup()
  local cell = self.cell
  if args.is_plain(cell) then
    if cell.class_name then
      cell = parts.get("layer", cell)
    else
      cell = cells.StackedRNNCells{cells = cell}
    end
  end
  self.cell = cells.check(self.__name, cell)
  self.input_spec = sequence_spec
end

function RNN:build(input_shape)
  if type(input_shape[1]) == "table" then input_shape = input_shape[1] end
  cells.keep_batch_size(self, input_shape)
  self.cell:build_once({self.time_major and input_shape[2] or input_shape[1], input_shape[3]})
end

function RNN:get_config()
  local config = Layer.get_config(self)
  config.cell = parts.serialize("layer", self.cell)
  return config
end

-- x and the states that were given beside it: as {x, h, c} or as the option initial_state.
local function split_inputs(inputs, options)
  local given = options.initial_state
  if args.is_plain(inputs) then
    local rest = table.move(inputs, 2, #inputs, 1, {})
    if #rest > 0 then given = rest end
    inputs = inputs[1]
  end
  return inputs, given ~= nil and nest.flatten(given) or nil
end

local function reversed(x, axis) return ops.reverse(x, axis or 1) end


local function swap(x)
  local perm = {1, 0}
  for axis = 2, #x.shape - 1 do perm[#perm + 1] = axis end
  return ops.transpose(x, perm)
end

-- [batch, time, …] → [batch, …] of one step
local function step_of(x, t)
  local shape = x.shape
  local begin, size = {}, {}
  for i, extent in ipairs(shape) do begin[i], size[i] = 0, extent end
  begin[2], size[2] = t, 1
  return ops.squeeze(ops.slice(x, begin, size), {axis = 1})
end

-- Along the time axis.
local function stack_steps(list)
  local parts_of = {}
  for at = 1, #list, concat.most do
    parts_of[#parts_of + 1] =
      ops.stack(table.move(list, at, math.min(at + concat.most - 1, #list), 1, {}), {axis = 1})
  end
  return concat.all(parts_of, 1)
end

-- States belong to the samples of a batch, so all batches have one size.
local function check_batch_size(self, batch)
  local wanted = rawget(self, "states_batch") or batch
  if wanted == batch then return end
  blame.error(string.format("layer '%s' is stateful, with states for batches of %s; got a batch of "
    .. "%d", self.name, counted(wanted, "sample"), batch), "invalid_argument")
end

-- The states of a batch: given, kept from the batch before (stateful), or zeros.
function RNN:first_states(x, given)
  local zeros = self:get_initial_state(x)
  if given then
    if #given == #zeros then
      local states = {}
      for i, state in ipairs(given) do
        local fits = state.dtype == x.dtype or not state.dtype:find("float")
        states[i] = fits and state or ops.cast(state, x.dtype)
      end
      return states
    end
    blame.error(string.format("layer '%s' has %s, but got %s", self.name, counted(#zeros, "state"),
      counted(#given, "first state")), "value")
  end
  if not self.stateful then return zeros end
  if context.inferring then return zeros end
  check_batch_size(self, x.shape[1])
  if not rawget(self, "states") then
    local states = {}
    tracing.outside(function()
      for i, zero in ipairs(zeros) do
        local value = core.full(zero.shape, 0, zero.dtype)
        states[i] = variables.Variable{value, name = self.name .. "/state_" .. i, trainable = false}
      end
    end)
    rawset(self, "states", states)
    rawset(self, "states_batch", x.shape[1])
  end
  local values = {}
  for i, v in ipairs(self.states) do values[i] = v:read_value() end
  return values
end

local initial_spec <const> = {{"inputs", "tensor"}}

---The states of a batch before its first step, zeros where the cell has no others.
---@param inputs userdata [batch, steps, ...]
---@return userdata[]
function RNN:get_initial_state(...)
  local inputs = args.check("get_initial_state", initial_spec, ...).inputs
  if #inputs.shape < 2 then
    blame.error("get_initial_state: the inputs are [batch, steps, ...], got rank "
      .. #inputs.shape, "value")
  end
  return cells.first_states(self.cell, inputs.shape[1], inputs.dtype)
end

function RNN:state_variables() return rawget(self, "states") or {} end

-- States as a list: one tensor alone is the only state, and states of cells may stand in lists.
local function listed(values)
  local flat = nest.flatten(values)
  return core.is_value(flat[1]) and flat or values
end

---Sets the states kept between batches to zero (or to given ones).
---@param values userdata|table? a state, or a list of states
function RNN:reset_states(values)
  if not self.stateful then
    blame.error(string.format("reset_states: layer '%s' is not stateful", self.name), "value")
  end
  local states, new = rawget(self, "states"), {}
  if values and not states then
    blame.error(string.format("reset_states: layer '%s' has no states yet; call it first",
      self.name), "failed_precondition")
  end
  states = states or {}
  values = values and listed(values)
  if values and #values ~= #states then
    blame.error(string.format("reset_states: layer '%s' has %s, but %s given", self.name,
      counted(#states, "state"), counted(#values, "value was", "values were")), "value")
  end
  for i, v in ipairs(states) do -- nothing is set unless all fit
    new[i] = values and values[i] or core.full(v.shape, 0, v.dtype)
    if not core.is_value(new[i]) then new[i] = core.tensor(new[i], v.dtype) end
    if not shapes.equal(new[i].shape, v.shape) then
      blame.error(string.format("reset_states: state %d of layer '%s' has the shape %s; the value "
        .. "given has %s", i, self.name, shapes.text(v.shape), shapes.text(new[i].shape)), "value")
    end
  end
  for i, v in ipairs(states) do v:assign(ops.cast(new[i], v.dtype)) end
end

-- Where a step is kept, its new value, else the former one: [batch] beside values of any rank.
local function choose(keep, value, former)
  local shape = {keep.shape[1]}
  for axis = 2, #value.shape do shape[axis] = 1 end
  return ops.where(ops.reshape(keep, shape), value, former)
end

-- One step after another: outputs of all steps, last output, last states.
local function walk(self, x, mask, states, options)
  local cell, count = self.cell, x.shape[2]
  local built_in = cell.step ~= nil and cell.project ~= nil
  local state_mask
  if built_in then
    local input_mask
    input_mask, state_mask = cell:dropout_masks(x.shape[1], x.shape[3], x.dtype, options.training)
    if input_mask then x = x * ops.expand_dims(input_mask, 1) end
    x = cell:project(x)
  end
  local outputs, last = {}, nil
  for t = 0, count - 1 do
    local y, new
    if built_in then y, new = cell:step(step_of(x, t), states, state_mask)
    else y, new = cell(step_of(x, t), states, {training = options.training}) end
    if core.is_tensor(new) then new = {new} end
    if mask then
      local keep, kept_states = step_of(mask, t), {}
      for i, state in ipairs(new) do kept_states[i] = choose(keep, state, states[i]) end
      new, last = kept_states, choose(keep, y, last or ops.zeros_like(y))
      outputs[t + 1] = self.zero_output_for_mask and choose(keep, y, ops.zeros_like(y)) or last
    else
      outputs[t + 1], last = y, y
    end
    states = new
  end
  return outputs, outputs[count], states
end

-- Results of a layer: outputs of all steps or of the last one, then the states.
function RNN:results(sequence, last, states)
  if self.stateful and not context.inferring then
    for i, v in ipairs(self.states or {}) do v:assign(ops.stop_gradient(states[i])) end
  end
  local y = last
  if self.return_sequences then y = self.time_major and swap(sequence) or sequence end
  if not self.return_state then return y end
  return y, table.unpack(states)
end

-- A mask of a sequence, in the order of its axes; nil for none.
local function mask_of(self, mask)
  if args.is_plain(mask) then mask = mask[1] end
  if mask == nil then return nil end
  if #mask.shape == 3 and mask.shape[3] == 1 then mask = ops.squeeze(mask, {axis = -1}) end
  if #mask.shape ~= 2 then
    blame.error(string.format("layer '%s': its mask must be %s, got the shape %s", self.name,
      self.time_major and "[time, batch]" or "[batch, time]", shapes.text(mask.shape)), "value")
  end
  return mask.dtype == "bool" and mask or ops.cast(mask, "bool")
end

function RNN:call(inputs, options)
  local x, given = split_inputs(inputs, options)
  local mask = mask_of(self, options.mask)
  if self.time_major then x, mask = swap(x), mask and swap(mask) end
  if self.go_backwards then x, mask = reversed(x), mask and reversed(mask) end
  local dtype = self.cell.compute_dtype
  if dtype and dtype ~= x.dtype then x = ops.cast(x,
    dtype) end -- a cell may have another one than its layer
  local states = self:first_states(x, given)
  if self.partials_dtype ~= "float16" then return self:run(x, mask, states, options) end
  return placement.partials_type "float16"(function()
    return self:run(x, mask, states, options)
  end)
end

function RNN:run(x, mask, states, options)
  local outputs, last, final = walk(self, x, mask, states, options)
  return self:results(self.return_sequences and stack_steps(outputs) or nil, last, final)
end

function RNN:compute_mask(_, mask)
  return self.return_sequences and mask_of(self, mask) or nil
end

-- ------------------------------------------------ LSTM, GRU, SimpleRNN

local function check_partials(self)
  local dtype = rawget(self, "partials_dtype")
  if dtype == nil or dtype == "float16" or dtype == "float32" then return end
  blame.error(string.format("layer '%s': partials_dtype must be float16 or float32, got %s",
    self.name, tostring(dtype)), "value")
end

local function declare(name, own_rows)
  local rows = {}
  for _, list in ipairs{cells.rows[name], sequence_rows, own_rows or {}} do
    table.move(list, 1, #list, #rows + 1, rows)
  end
  local c = Layer.declare(name, rows, RNN)
  layers[name] = c
  local Cell = cells[name .. "Cell"]
  function c:setup()
    local given = {name = self.name .. "_cell", dtype = kept(self, "policy").name}
    for _, row in ipairs(cells.rows[name]) do given[row[1]] = rawget(self, row[1]) end
    given.seed = given.seed or self.dropout_seed
    self.cell = Cell(given)
    check_partials(self)
    self.input_spec = sequence_spec
  end
  c.get_config = Layer.get_config
  return c
end

---@class SimpleRNN: RNN
declare("SimpleRNN")

-- Arguments of the fused layers.
local ipu_rows <const> = {
  {"implementation", "integer", 2, says = "changes nothing"}, {"dropout_seed", "integer",
    optional = true,
    says = "seed, if `seed` is not given"},
  {"partials_dtype", "dtype", "float32",
    says = "float16: products of float16 add up in float16; float32: as scope and options say"},
  {"options", "table", optional = true, says = "changes nothing"}, {"options_bwd", "table",
    optional = true, says = "changes nothing"},
}

-- Inputs after dropout, for the fused ops.
local function dropped(self, x, options)
  local mask = self.cell:dropout_masks(x.shape[1], x.shape[3], x.dtype, options.training)
  return mask and x * ops.expand_dims(mask, 1) or x
end

local function is_fused(self, options)
  return self.activation == activations.tanh and self.recurrent_activation == activations.sigmoid
    and (self.recurrent_dropout == 0 or not options.training)
end

-- The output of the last step, which is the state. With a mask the state may be an initial state
-- that was never an output, or the output may be 0.
local function last_of(sequence, states, mask)
  return mask and step_of(sequence, sequence.shape[2] - 1) or states[1]
end

---@class LSTM: RNN
local LSTM = declare("LSTM", ipu_rows)

local function bias_of(cell)
  return cell.use_bias and cell.bias
    or core.full(cell:bias_shape(cell.gates * cell.units), 0, cell.kernel.dtype)
end

function LSTM:run(x, mask, states, options)
  if not is_fused(self, options) then return RNN.run(self, x, mask, states, options) end
  local cell = self.cell
  x = dropped(self, x, options)
  local named = {bias = bias_of(cell), initial_h = states[1], initial_c = states[2], mask = mask,
    zero_output_for_mask = self.zero_output_for_mask}
  local y, h, c = ops.nn.lstm(x, cell.kernel, cell.recurrent_kernel, named)
  return self:results(y, last_of(y, {h, c}, mask), {h, c})
end

---@class GRU: RNN
local GRU = declare("GRU", ipu_rows)

function GRU:run(x, mask, states, options)
  if not is_fused(self, options) then return RNN.run(self, x, mask, states, options) end
  local cell = self.cell
  x = dropped(self, x, options)
  local named = {bias = bias_of(cell), initial_h = states[1], mask = mask,
    zero_output_for_mask = self.zero_output_for_mask,
    reset_after = self.reset_after}
  local y, h = ops.nn.gru(x, cell.kernel, cell.recurrent_kernel, named)
  return self:results(y, last_of(y, {h}, mask), {h})
end

layers.PopnnLSTM = LSTM:extend("PopnnLSTM")
layers.PopnnGRU = GRU:extend("PopnnGRU")

layers.step_of, layers.stack_steps = step_of, stack_steps
layers.split_inputs, layers.reversed = split_inputs, reversed

about.say("layers", {
  {"SimpleRNN", text = "h ← tanh(x·kernel + h·recurrent_kernel + bias), step by step.",
    source = "Elman 1990 (Cognitive Science 14)", section = "Recurrent", sample = "SimpleRNN(4)",
    input = {2, 5, 3}, wrong = {2, 3}, is = "[batch, steps, features] → [batch, units]",
    also = "with return_sequences [batch, steps, units]; return_state: h [batch, units] besides"},
  {"LSTM", text = "Long short-term memory; gates in the order i, f, c, o.",
    source = "Hochreiter & Schmidhuber 1997 (Neural Computation 9)", section = "Recurrent",
    sample = "LSTM{4, return_sequences = true}", input = {2, 5, 3}, wrong = "LSTM(0)",
    is = "[batch, steps, features] → [batch, steps, units]",
    also = "without return_sequences [batch, units]; return_state: h and c [batch, units] besides"},
  {"GRU", text = "Gated recurrent unit; gates in the order z, r, h; `reset_after` as in cuDNN.",
    source = "arXiv:1406.1078", section = "Recurrent", sample = "GRU(4)", input = {2, 5, 3},
    wrong = {2, 3}, is = "[batch, steps, features] → [batch, units]",
    also = "with return_sequences [batch, steps, units]; return_state: h [batch, units] besides"},
  {"PopnnLSTM", text = "Another name of LSTM.",
    source = "ipu.keras.layers.PopnnLSTM of Graphcore's TensorFlow 2.6", section = "Recurrent",
    sample = "PopnnLSTM(4)", input = {2, 5, 3}, wrong = {2, 3},
    is = "[batch, steps, features] → [batch, units]",
    also = "with return_sequences [batch, steps, units]; return_state: h and c [batch, units] "
    .. "besides"},
  {"PopnnGRU", text = "Another name of GRU.",
    source = "ipu.keras.layers.PopnnGRU of Graphcore's TensorFlow 2.6",
    section = "Recurrent", sample = "PopnnGRU(4)", input = {2, 5, 3}, wrong = {2, 3},
    is = "[batch, steps, features] → [batch, units]",
    also = "with return_sequences [batch, steps, units]; return_state: h [batch, units] besides"},
  {"RNN", section = "Recurrent", sample = "RNN(GRUCell(4))", input = {2, 5, 3}, wrong = "RNN(4)",
    is = "[batch, steps, ...] → [batch, ...']", also = "...' is the cell's output_size"},
}, layers)

return layers
