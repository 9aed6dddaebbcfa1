-- ONNX' recurrent nodes in our ops; see interpret.lua. ONNX has time first, and gates in an order
-- of its own.

local core = require "ipulua.core"
local ops = require "ipulua.ops"
local tools = require "ipulua.keras.onnx.tools"

local interpret = {}

local refuse <const>, filled <const> = tools.refuse, tools.filled

-- Part i (from 0) of an operand's first axis, which goes.
local function part(v, i) return v
  and ops.squeeze(ops.slice(v, {i, table.unpack(filled(#v.shape - 1, 0))},
    {1, table.unpack(v.shape, 2)}),
  {axis = 0}) end

-- [gates · u, rows] → [rows, gates · u], gates in our order (positions from 1 among ONNX').
local function gates_last(v, order)
  local parts = table.pack(ops.split(v, #order, {axis = 0}))
  local out = {}
  for i, k in ipairs(order) do out[i] = parts[k] end
  return ops.transpose(#out == 1 and out[1] or ops.concat(out, 0), {1, 0})
end

-- The two biases [2 · gates · u] as two in our order, or nil.
local function biases(v, order)
  if not v then return nil end
  local parts = table.pack(ops.split(v, 2 * #order, {axis = 0}))
  local function half(from)
    local out = {}
    for i, k in ipairs(order) do out[i] = parts[from + k] end
    return #out == 1 and out[1] or ops.concat(out, 0)
  end
  return half(0), half(#order)
end

-- Lengths that are all the whole sequence say nothing.
local function check_lengths(x, n, steps)
  local lengths = x[5]
  if not lengths then return end
  if not core.is_symbolic(lengths) then
    local whole = true
    for _, length in ipairs(lengths:totable()) do whole = whole and length == steps end
    if whole then return end
  end
  refuse(n, "sequence_lens are not known here")
end

local defaults <const> = {LSTM = {"sigmoid", "tanh", "tanh"}, GRU = {"sigmoid", "tanh"},
  RNN = {"tanh"}}

-- The names of the activations, lower case; each direction has its own.
local function activations_of(a, n, directions)
  local usual, given, list = defaults[n.op], a.activations or {}, {}
  for i = 1, #usual * directions do list[i] = (given[i] or usual[(i - 1) % #usual + 1]):lower() end
  if n.op == "RNN" then return list end
  for i, name in ipairs(list) do
    if name ~= usual[(i - 1) % #usual + 1] then
      refuse(n, "activation " .. name .. " is not known here")
    end
  end
end

-- one word's default is misspelt in opset 1
local directions <const> = {forward = 1, foward = 1, reverse = 1, bidirectional = 2}

local function check_recurrent(x, a, n)
  local units, _ = a.hidden_size, a.output_sequence -- luacheck: ignore 211
  if not directions[a.direction] then
    refuse(n, "direction " .. a.direction .. " is not known here")
  end
  if units and units ~= x[3].shape[#x[3].shape] then
    refuse(n, "hidden_size doesn't match its weights")
  end
  if x[2].shape[1] ~= directions[a.direction] then
    refuse(n, "its weights don't match its directions")
  end
  check_lengths(x, n, x[1].shape[a.layout == 1 and 2 or 1])
  if a.clip then refuse(n, "clip is not known here") end
  if #(a.activation_alpha or {}) + #(a.activation_beta or {}) > 0 then
    refuse(n, "activation_alpha and activation_beta are not known here")
  end
  if (a.input_forget or 0) ~= 0 then refuse(n, "input_forget is not known here") end
end

-- f(sequence [n, t, f], kernel, recurrent, b1, b2, states) → outputs [n, t, u], states …; for each
-- direction.
local function recurrent(order, states, f)
  return function(x, a, n)
    check_recurrent(x, a, n)
    local direction = a.direction
    local activations, after = activations_of(a, n, directions[direction]),
      a.linear_before_reset == 1
    local batch_first = a.layout == 1 -- of the operand, the states and all outputs
    local sequence = batch_first and x[1] or ops.transpose(x[1], {1, 0, 2})
    local outputs, finals = {}, {}
    for d = 0, direction == "bidirectional" and 1 or 0 do
      local backwards = direction == "reverse" or d == 1
      local initial = {}
      for i = 1, states do
        local state = x[5 + i]
        initial[i] = part(state and batch_first and ops.transpose(state, {1, 0, 2}) or state, d)
      end
      local b1, b2 = biases(part(x[4], d), order)
      local results = table.pack(f(backwards and ops.reverse(sequence, 1) or sequence,
        gates_last(part(x[2], d), order),
        gates_last(part(x[3], d), order), b1, b2, initial,
        {activation = activations and activations[d + 1], after = after,
        peepholes = part(x[8], d)}, n))
      outputs[d + 1] = ops.transpose(backwards and ops.reverse(results[1], 1)
        or results[1], {1, 0, 2})
      for i = 1, states do
        finals[i] = finals[i] or {}
        finals[i][d + 1] = results[1 + i]
      end
    end
    local out = {ops.stack(outputs, 1)}
    if batch_first then out[1] = ops.transpose(out[1], {2, 0, 1, 3}) end
    for i = 1, states do out[1 + i] = ops.stack(finals[i], batch_first and 1 or 0) end
    return table.unpack(out)
  end
end

local MAX_STEPS <const> = 4096 -- of a recurrence written out step by step

-- An LSTM whose gates see the cell's state, too: weights [3 · u] of input, output and forget gate.
local function with_peepholes(s, kernel, own, bias, h, c, weights, n)
  local steps, outputs = s.shape[2], {}
  if steps > MAX_STEPS then
    refuse(n, string.format("peephole weights (P) over %d steps are not known here", steps))
  end
  local of_input, of_output, of_forget = ops.split(weights, 3, {axis = 0})
  for t = 1, steps do
    local x = ops.squeeze(ops.slice(s, {0, t - 1, 0}, {-1, 1, -1}), {axis = 1})
    local gates = ops.matmul(x, kernel) + ops.matmul(h, own) + bias
    local i, f, new, o = ops.split(gates, 4, {axis = -1})
    c = ops.sigmoid(f + of_forget * c) * c + ops.sigmoid(i + of_input * c) * ops.tanh(new)
    h = ops.sigmoid(o + of_output * c) * ops.tanh(c)
    outputs[t] = h
  end
  return ops.stack(outputs, 1), h, c
end

interpret.LSTM = recurrent({1, 3, 4, 2}, 2, function(s, kernel, own, b1, b2, initial, o, n)
  local units = own.shape[1]
  local bias = b1 and b1 + b2 or ops.zeros({4 * units}, {dtype = s.dtype})
  local zero = ops.zeros({s.shape[1], units}, {dtype = s.dtype})
  local h, c = initial[1] or zero, initial[2] or zero
  if o.peepholes then return with_peepholes(s, kernel, own, bias, h, c, o.peepholes, n) end
  return ops.nn.lstm(s, kernel, own, bias, h, c)
end)

interpret.GRU = recurrent({1, 2, 3}, 1, function(s, kernel, own, b1, b2, initial, o)
  local units, after = own.shape[1], o.after
  local bias
  if after then bias = b1 and ops.stack({b1, b2}, 0) or ops.zeros({2, 3 * units}, {dtype = s.dtype})
  else bias = b1 and b1 + b2 or ops.zeros({3 * units}, {dtype = s.dtype}) end
  return ops.nn.gru(s, kernel, own, bias, initial[1]
    or ops.zeros({s.shape[1], units}, {dtype = s.dtype}), {reset_after = after})
end)

local activations <const> = {tanh = true, relu = true, sigmoid = true}
interpret.RNN = recurrent({1}, 1, function(s, kernel, own, b1, b2, initial, o, n)
  local units = own.shape[1]
  if not activations[o.activation] then
    refuse(n, "activation " .. o.activation .. " is not known here")
  end
  local bias = b1 and b1 + b2 or ops.zeros({units}, {dtype = s.dtype})
  return ops.nn.simple_rnn(s, kernel, own, bias, initial[1]
    or ops.zeros({s.shape[1], units}, {dtype = s.dtype}),
    {activation = o.activation})
end)

return interpret
