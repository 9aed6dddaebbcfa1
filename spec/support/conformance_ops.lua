-- Runs a conformance case of the groups op and activation, at once and inside a traced function.
-- Values are compared, and gradients of the outputs weighted with the case's upstream.

local ipu = require "ipulua"
local values = require "spec.support.conformance_values"

local runner = {}

-- Names whose function, called with the inputs, has another name here. A name that is in no table
-- stands for ipu.<name> or ipu.nn.<name>. It takes the inputs and, if there are any, the arguments
-- by name.
local other_name <const> = {
  subtract = "sub", multiply = "mul", divide = "div", negative = "neg", floor_divide = "floordiv",
  select = "where",
}
local reductions <const> = {
  sum = "reduce_sum", mean = "reduce_mean", max = "reduce_max", min = "reduce_min",
  prod = "reduce_prod", std = "reduce_std",
  var = "reduce_variance", logsumexp = "reduce_logsumexp", any = "reduce_any", all = "reduce_all",
}
-- Ops whose only argument besides the tensor is one of the case's: {function, argument}.
local one_argument <const> = {
  expand_dims = {"expand_dims", "axis"}, broadcast_to = {"broadcast_to", "shape"},
  reshape = {"reshape", "newshape"},
  tile = {"tile", "repeats"},
}
-- Ops that take {axis = }.
local with_axis <const> = {
  squeeze = "squeeze", unstack = "unstack", gather = "gather",
}

local ops = {}
for name, ours in pairs(other_name) do ops[name] = function(_, ...) return ipu[ours](...) end end
for name, ours in pairs(reductions) do
  ops[name] = function(a, x)
    return ipu[ours](x, {axis = a.axis, keepdims = a.keepdims or false})
  end
end
for name, row in pairs(one_argument) do
  ops[name] = function(a, x) return ipu[row[1]](x, a[row[2]]) end
end
for name, ours in pairs(with_axis) do
  ops[name] = function(a, ...)
    local given = table.pack(...)
    given[given.n + 1] = a.axis and {axis = a.axis} or nil
    return ipu[ours](table.unpack(given, 1, given.n + 1))
  end
end

for _, name in ipairs{"argmax", "argmin"} do
  ops[name] = function(a, x)
    if not a.axis then return ipu[name](ipu.reshape(x, {-1}), {axis = 0}) end
    return ipu[name](x, {axis = a.axis})
  end
end
for _, name in ipairs{"cumsum", "cumprod"} do
  ops[name] = function(a, x)
    return ipu[name](x, {axis = a.axis, exclusive = a.exclusive, reverse = a.reverse})
  end
end

-- NumPy's: vectors count as a row and a column, whose axes the result lacks.
function ops.dot(_, x, y)
  local rows, columns = #x.shape == 1, #y.shape == 1
  local z = ipu.matmul(rows and ipu.expand_dims(x, 0) or x, columns and ipu.expand_dims(y, -1) or y)
  if columns then z = ipu.squeeze(z, {axis = {-1}}) end
  return rows and ipu.squeeze(z, {axis = {0}}) or z
end

function ops.eye(a) return ipu.eye{num_rows = a.N, num_columns = a.M, dtype = a.dtype} end
function ops.power(a, x, y) return ipu.pow(x, y or a.exponent) end
function ops.clip(a, x) return ipu.clip_by_value(x, a.min, a.max) end
function ops.cast(a, x) return ipu.cast(x, a.dtype) end
function ops.arange(a)
  if not a.stop then return ipu.arange(0, a.start, a.step or 1) end
  return ipu.arange(a.start or 0, a.stop, a.step or 1)
end
function ops.transpose(a, x)
  if a.axes then return ipu.transpose(x, a.axes) end
  return ipu.transpose(x)
end
function ops.concatenate(a, ...) return ipu.concat({...}, a.axis or -1) end
function ops.flip(a, x)
  local axes = a.axis
  if not axes then
    axes = {}
    for i = 1, #x.shape do axes[i] = i - 1 end
  end
  return ipu.reverse(x, axes)
end
function ops.stack(a, ...) return ipu.stack({...}, {axis = a.axis}) end
function ops.split(a, x) return ipu.split(x, a.num_or_size_splits, {axis = a.axis}) end
function ops.slice(a, x) return ipu.slice(x, a.begin, a.size) end
function ops.pad(a, x)
  return ipu.pad(x, a.pad_width,
    {mode = (a.mode or "constant"):upper(), constant_values = a.constant_values})
end
ops["repeat"] = function(a, x) return ipu.repeat_n(x, a.repeats, {axis = a.axis}) end
function ops.one_hot(a, x) return ipu.one_hot(x, a.num_classes, {axis = a.axis}) end
function ops.top_k(a, x) return ipu.top_k(x, {k = a.k}) end
function ops.sort(a, x) return ipu.sort(x, {axis = a.axis, direction = a.direction}) end
function ops.scatter(a, indices, updates) return ipu.scatter_nd(indices, updates, a.shape) end

-- An end left open is false here; at the beginning it is where the walk starts.
function ops.strided_slice(a, x)
  local begins, ends, strides = {}, {}, {}
  for i, s in ipairs(a.slices) do
    begins[i] = s[1] == "none" and (s[3] > 0 and 0 or x.shape[i] - 1) or s[1]
    ends[i] = s[2] ~= "none" and s[2]
    strides[i] = s[3]
  end
  return ipu.strided_slice(x, begins, ends, {strides = strides})
end

function ops.matmul(a, x, y)
  return ipu.matmul(x, y,
    {transpose_a = a.transpose_a or false, transpose_b = a.transpose_b or false})
end

local function convolution(name)
  return function(a, x, kernel)
    local options = {
      strides = a.strides, padding = (a.padding or "valid"):upper(), dilations = a.dilation_rate,
      groups = a.groups,
      output_padding = a.output_padding,
    }
    return ipu.nn[name](x, kernel, options)
  end
end
for _, name in ipairs {
  "conv1d", "conv2d", "conv3d", "depthwise_conv2d", "conv1d_transpose", "conv2d_transpose",
  "conv3d_transpose",
} do
  ops[name] = convolution(name)
end

local function pooling(name)
  return function(a, x)
    return ipu.nn[name](x, {
      ksize = a.pool_size, strides = a.strides or a.pool_size,
      padding = (a.padding or "valid"):upper(),
    })
  end
end
ops.max_pool, ops.average_pool = pooling("max_pool"), pooling("avg_pool")

function ops.softmax(a, x)
  if type(a.axis) == "table" then return ipu.keras.activations.softmax(x, {axis = a.axis}) end
  return ipu.nn.softmax(x, {axis = a.axis})
end
function ops.log_softmax(a, x) return ipu.nn.log_softmax(x, {axis = a.axis}) end
function ops.l2_normalize(a, x)
  return ipu.nn.l2_normalize(x, {axis = a.axis or -1, epsilon = a.epsilon})
end
function ops.moments(a, x)
  return ipu.nn.moments(x, {axes = a.axes or a.axis, keepdims = a.keepdims})
end

-- The axes of x in another order, with `axes` (a number or a list) last. Also the order back.
local function axes_last(x, axes)
  local rank, last = #x.shape, {}
  for _, axis in ipairs(type(axes) == "table" and axes or {axes}) do last[axis % rank] = true end
  local order = {}
  for axis = 0, rank - 1 do if not last[axis] then order[#order + 1] = axis end end
  for axis = 0, rank - 1 do if last[axis] then order[#order + 1] = axis end end
  local back = {}
  for i, axis in ipairs(order) do back[axis + 1] = i - 1 end
  return order, back
end

local function count_axes(axes) return type(axes) == "table" and #axes or 1 end

function ops.layer_norm(a, x, gamma, beta)
  local axes = a.axis or -1
  local order, back = axes_last(x, axes)
  local last = {}
  for i = 1, count_axes(axes) do last[i] = -i end
  return ipu.transpose(ipu.nn.layer_norm(ipu.transpose(x, order), gamma, beta,
    {axis = last, epsilon = a.epsilon or 1e-3}), back)
end

-- Inputs: x, gamma, beta, mean, variance.
function ops.batch_norm(a, x, gamma, beta, mean, variance)
  local order, back = axes_last(x, a.axis or -1)
  local options = {epsilon = a.epsilon, training = a.training or false}
  local y, new_mean, new_variance = ipu.nn.batch_norm(ipu.transpose(x, order), gamma, beta, mean,
    variance, options)
  return ipu.transpose(y, back), new_mean, new_variance
end

function ops.dot_product_attention(a, q, k, v, mask)
  return ipu.nn.dot_product_attention(q, k, v,
    {mask = mask, is_causal = a.is_causal, scale = a.scale})
end

local constraints <const> = {
  constraint_max_norm = "MaxNorm", constraint_min_max_norm = "MinMaxNorm",
  constraint_non_neg = "NonNeg",
  constraint_unit_norm = "UnitNorm", constraint_radial_constraint = "RadialConstraint",
}
for name, class in pairs(constraints) do
  ops[name] = function(a, w) return ipu.keras.constraints[class](a)(w) end
end

local activations = {}
for _, name in ipairs {"relu6", "selu", "softplus", "softsign", "swish"} do
  activations[name] = function(_, x) return ipu.nn[name](x) end
end
activations.hard_sigmoid = function(_, x) return ipu.nn.hard_sigmoid(x) end
activations.silu = activations.swish
activations.sigmoid, activations.tanh, activations.exponential = ops.sigmoid, ops.tanh, ops.exp
activations.softmax, activations.log_softmax = ops.softmax, ops.log_softmax
function activations.linear(_, x) return ipu.identity(x) end
function activations.elu(a, x) return ipu.nn.elu(x, {alpha = a.alpha}) end
function activations.leaky_relu(a, x) return ipu.nn.leaky_relu(x, {alpha = a.alpha}) end
function activations.gelu(a, x) return ipu.nn.gelu(x, {approximate = a.approximate or false}) end
function activations.relu(a, x)
  if not next(a) then return ipu.nn.relu(x) end
  return ipu.keras.activations.relu(x, a)
end

local groups <const> = {op = ops, activation = activations}

-- ipu.<name>, dots and all; nil when there is none.
local function public(name)
  local ok, found = pcall(function()
    local at = ipu
    for part in name:gmatch("[^.]+") do at = at[part] end
    return at
  end)
  return ok and type(found) == "function" and found or nil
end

local infinities <const> = {inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0}

-- The tensors in the order of the parameters, then one table of what is given by name: arguments,
-- and inputs that `by_name` lists. as_list: the tensors are one argument.
local function call_public(found, case, a, ...)
  local inputs, options, given = table.pack(...), {}, {}
  for key, value in pairs(a) do
    if key ~= "alias" then options[key] = infinities[value] or value end
  end
  local position_of = {}
  for name, position in pairs(case.by_name or {}) do
    options[name], position_of[position] = inputs[position + 1], name
  end
  for i = 1, inputs.n do
    if not position_of[i - 1] then given[#given + 1] = inputs[i] end
  end
  if case.as_list then given = {given} end
  if next(options) then given[#given + 1] = options end
  return found(table.unpack(given))
end

-- The function of a case: from the tables above, or the one that has its name.
local function function_of(case)
  local group = groups[case.group]
  if not group then return nil end
  if group[case.name] and not case.name:find("%.") then return group[case.name] end
  local found = case.group == "op" and (public(case.name) or public("nn." .. case.name))
    or case.group == "activation" and rawget(ipu.keras.activations, case.name)
  if type(found) ~= "function" then return nil end
  return function(a, ...) return call_public(found, case, a, ...) end
end

-- ------------------------------------------------ one case

local function operands(case)
  local list = {}
  for i, t in ipairs(case.inputs) do list[i] = values.tensor(t) end
  if case.args.alias then list[2] = list[1] end
  return list
end

-- Results after the ones that a case names: the mean and the variance beside a normalised tensor.
local unnamed <const> = {batch_norm = 2}

-- The outputs that the case is about: all, but where it leaves out exactly those that it may.
local function named(list, case)
  local left = unnamed[case.name]
  if left and #list == #case.outputs + left then
    return table.move(list, 1, #case.outputs, 1, {})
  end
  return list
end

local function is_tuple(result) return result.n == 1 and type(result[1]) == "table" end

-- Outputs as a list, whether they come as several results or as one list.
local function outputs_of(f, args, inputs)
  local result = table.pack(f(args, table.unpack(inputs)))
  if is_tuple(result) then return result[1] end
  result.n = nil
  return result
end

-- The outputs that have an upstream, and it.
local function weighted(case, outputs)
  local ys, upstream = {}, {}
  for i, t in ipairs(case.outputs) do
    local u = case.upstream and case.upstream[i]
    if values.is_given(u) and t then
      ys[#ys + 1] = outputs[i]
      -- float16 cases give float32 ones
      upstream[#upstream + 1] = ipu.cast(values.tensor(u), outputs[i].dtype)
    end
  end
  return ys, upstream
end

local function wanted_gradients(case)
  local wanted, count = {}, 0
  for i in ipairs(case.inputs) do
    local t = case.grads and case.grads.inputs and case.grads.inputs[i]
    if values.is_given(t) then wanted[i], count = t, count + 1 end
  end
  return wanted, count
end

-- outputs, gradients by input position
local function compute(case, f, inputs)
  local wanted, count = wanted_gradients(case)
  if count == 0 then return named(outputs_of(f, case.args, inputs), case), {} end
  local tape = ipu.GradientTape()
  local outputs
  do
    local _ <close> = tape
    outputs = named(outputs_of(f, case.args, inputs), case)
  end
  local ys, upstream = weighted(case, outputs)
  local xs, at = {}, {}
  for i = 1, #inputs do
    if wanted[i] then
      xs[#xs + 1] = inputs[i]
      at[#at + 1] = i
    end
  end
  local found = tape:gradient(ys, xs, {output_gradients = upstream, unconnected_gradients = "zero"})
  local gradients = {}
  for k, i in ipairs(at) do gradients[i] = found[k] end
  return outputs, gradients
end

local function check(case, how, outputs, gradients)
  if #outputs ~= #case.outputs then
    return string.format("%s: %d outputs, expected %d", how, #outputs, #case.outputs)
  end
  for i, want in ipairs(case.outputs) do
    local problem = values.compare(how .. ": output " .. i - 1, outputs[i], want,
      case.rtol, case.atol)
    if problem then return problem end
  end
  for i, want in pairs((wanted_gradients(case))) do
    local problem = values.compare(how .. ": gradient of input " .. i - 1, gradients[i], want,
      case.rtol, case.atol)
    if problem then return problem end
  end
  return nil
end

-- One traced function gives the outputs, then the gradients in the order of their inputs.
local function compute_traced(case, f, inputs)
  local positions, output_count
  local traced = ipu.func(function(...)
    local given = {...}
    if case.args.alias then given[2] = given[1] end
    local outputs, gradients = compute(case, f, given)
    local all = {table.unpack(outputs)}
    positions, output_count = {}, #outputs
    for i = 1, #inputs do
      if gradients[i] then
        positions[#positions + 1] = i
        all[#all + 1] = gradients[i]
      end
    end
    return table.unpack(all)
  end)
  local all = {traced(table.unpack(inputs))}
  local outputs, gradients = table.move(all, 1, output_count, 1, {}), {}
  for k, i in ipairs(positions) do gradients[i] = all[output_count + k] end
  return outputs, gradients
end

-- The call must be refused, at once and in a traced function, by an error of one of the kinds that
-- mentions these words.
local function check_error(case, how, call)
  local ok, message = pcall(call)
  if ok then return how .. ": no error was raised" end
  local kind, found = ipu.last_error().kind, false
  for _, each in ipairs(case.error.kinds) do found = found or each == kind end
  if not found then
    return string.format("%s: the error is of kind %s, expected %s: %s", how, kind,
      table.concat(case.error.kinds, " or "), message)
  end
  for _, words in ipairs(case.error.mentions or {}) do
    if not tostring(message):find(words, 1, true) then
      return string.format("%s: '%s' is not mentioned: %s", how, words, message)
    end
  end
end

local function run_error(case, f, inputs)
  local function call(...) return f(case.args, ...) end
  local problem = check_error(case, "eager", function() call(table.unpack(inputs)) end)
    or check_error(case, "traced", function() ipu.func(call)(table.unpack(inputs)) end)
  return problem == nil, problem
end

---@param case table a decoded case of the group op or activation
---@return boolean ok
---@return string? message what differs
function runner.run(case)
  local f = function_of(case)
  if not f then return false, "unknown name '" .. tostring(case.name) .. "'" end
  local inputs = operands(case)
  if case.error then return run_error(case, f, inputs) end
  local problem = check(case, "eager", compute(case, f, inputs))
  problem = problem or check(case, "traced", compute_traced(case, f, inputs))
  return problem == nil, problem
end

---Whether a name of a group is known here.
function runner.knows(case) return function_of(case) ~= nil end

return runner
