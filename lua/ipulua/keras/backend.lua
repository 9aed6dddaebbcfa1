-- keras.backend: the functions that own losses, metrics and layers of Keras are written with, under
-- Keras' names and with its argument order. Options may also be given by name: K.mean(x,
-- {axis = -1, keepdims = true}).

local Variable = require "ipulua.trace.variables".Variable
local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local keras_activations = require "ipulua.keras.activations"
local loops = require "ipulua.trace.loops"
local mixed_precision = require "ipulua.keras.mixed_precision"
local names = require "ipulua.base.parts.names"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"
local tape = require "ipulua.trace.tape"

local backend = {}

-- ------------------------------------------------ checks

local function is_tensor(x) return core.is_tensor(x) or args.is_tensor(x) end

local function a_tensor(x)
  if not is_tensor(x) and not core.is_variable(x) then
    return "must be a tensor, got " .. args.describe(x)
  end
end
local function a_variable(x)
  if not core.is_variable(x) then return "must be a variable, got " .. args.describe(x) end
end

local function tensor_row(name)
  return {name, "any", one = true, check = a_tensor, of = "tensor"}
end
local function optional_row(name, kind) return {name, kind, optional = true} end

-- A function of checked arguments, which it gets in the order of their rows.
local function define(name, rows, f)
  backend[name] = function(...)
    local a, list = args.check(name, rows, ...), {}
    for i, row in ipairs(rows) do list[i] = a[row[1]] end
    return f(table.unpack(list, 1, #rows))
  end
end

local x_row <const> = tensor_row("x")

-- ------------------------------------------------ the same function under the same or another name

for _, name in ipairs {
  "abs", "square", "exp", "log", "sin", "cos", "tanh", "sigmoid", "sign", "round", "pow",
  "maximum", "minimum", "equal",
  "not_equal", "greater", "greater_equal", "less", "less_equal", "reshape", "tile", "cast",
  "stop_gradient", "zeros_like",
  "ones_like", "zeros", "ones", "eye", "arange", "constant", "one_hot",
} do
  backend[name] = ops[name]
end
for _, name in ipairs {"relu", "elu", "softmax", "softplus", "softsign", "hard_sigmoid"} do
  backend[name] = keras_activations[name]
end
backend.permute_dimensions, backend.variable = ops.transpose, Variable
backend.random_normal, backend.random_uniform = ops.random.normal, ops.random.uniform
backend.truncated_normal, backend.random_bernoulli = ops.random.truncated_normal,
  ops.random.bernoulli

-- Of the numbers below 0 it is 0, as Keras' is: ipu.sqrt has NaN there.
define("sqrt", {x_row}, function(x) return ops.sqrt(ops.maximum(x, 0)) end)

-- The axes in the opposite order.
define("transpose", {x_row}, function(x) return ops.transpose(x) end)

-- ------------------------------------------------ along axes

local axis_row <const> = optional_row("axis", {"integer", "integers"})

-- of a bool tensor: of zeros and ones
local averages <const> = {mean = true, std = true, var = true}

for name, op in pairs {
  sum = "reduce_sum", mean = "reduce_mean", max = "reduce_max", min = "reduce_min",
  prod = "reduce_prod", std = "reduce_std",
  var = "reduce_variance", logsumexp = "reduce_logsumexp", any = "reduce_any", all = "reduce_all",
} do
  define(name, {x_row, axis_row, {"keepdims", "boolean", false}}, function(x, axis, keepdims)
    if (name == "any" or name == "all") and x.dtype ~= "bool" then x = ops.cast(x, "bool") end
    if averages[name] and x.dtype == "bool" then x = ops.cast(x, backend.floatx()) end
    return ops[op](x, {axis = axis, keepdims = keepdims})
  end)
end

-- Functions of a tensor and one axis, with the axis that is meant when none is given.
for name, default in pairs {argmax = -1, argmin = -1, cumsum = 0, cumprod = 0} do
  define(name, {x_row, {"axis", "integer", default}}, function(x, axis)
    return ops[name](x, {axis = axis})
  end)
end

-- x of length 1 along an axis.
define("l2_normalize", {x_row, axis_row}, function(x, axis)
  return ops.nn.l2_normalize(x, {axis = axis})
end)
define("expand_dims", {x_row, {"axis", "integer", -1}}, function(x, axis)
  return ops.expand_dims(x, axis)
end)
define("squeeze", {x_row, {"axis", {"integer", "integers"}}}, function(x, axis)
  return ops.squeeze(x, {axis = axis})
end)
define("reverse", {x_row, {"axes", {"integer", "integers"}}}, function(x, axes)
  return ops.reverse(x, axes)
end)

-- A function whose first argument is a list.
local function define_of_list(name, f)
  backend[name] = function(list, ...)
    if not args.is_plain(list) then
      blame.error(string.format("%s: expected a list, got %s", name, args.describe(list)), "type")
    end
    return f(list, ...)
  end
end

define_of_list("concatenate", function(tensors, axis) return ops.concat(tensors, axis or -1) end)
define_of_list("stack", function(tensors, axis) return ops.stack(tensors, axis or 0) end)
define("gather", {tensor_row "reference", tensor_row "indices"}, function(reference, indices)
  return ops.gather(reference, indices, {axis = 0})
end)
define("repeat_elements", {x_row, {"rep", "integer"}, {"axis", "integer"}}, function(x, rep, axis)
  return ops.repeat_n(x, rep, {axis = axis})
end)

-- Each row of a matrix n times along a new axis in the middle.
define("repeat", {x_row, {"n", "integer"}}, function(x, n)
  if #x.shape ~= 2 then
    blame.error(string.format("repeat: expected a matrix, got rank %d", #x.shape), "value")
  end
  return ops.repeat_n(ops.expand_dims(x, 1), n, {axis = 1})
end)

define("flatten", {x_row}, function(x) return ops.reshape(x, {-1}) end)

-- All axes but the first in one.
define("batch_flatten", {x_row}, function(x)
  local extent = 1
  for axis = 2, #x.shape do extent = extent * x.shape[axis] end
  return ops.reshape(x, {-1, extent})
end)

-- ------------------------------------------------ products

-- Sums of products over the last axis of x and the last but one (or only) axis of y.
define("dot", {x_row, tensor_row "y"}, function(x, y)
  local rank, other = #x.shape, #y.shape
  if rank < 1 or other < 1 then blame.error("dot: scalars have no axis to sum over", "value") end
  local summed = other == 1 and 1 or other - 1
  local depth = y.shape[summed]
  if x.shape[rank] ~= depth then
    blame.error(string.format("dot: the last axis of x has %s, the axis of y that it meets %d",
      counted(x.shape[rank], "element"), depth),
      "value")
  end
  local shape = table.move(x.shape, 1, rank - 1, 1, {})
  local order, columns = {summed - 1}, 1
  for axis = 1, other do
    if axis ~= summed then
      order[#order + 1], shape[#shape + 1], columns = axis - 1, y.shape[axis],
        columns * y.shape[axis]
    end
  end
  local product = ops.matmul(ops.reshape(x, {-1, depth}),
    ops.reshape(ops.transpose(y, order), {depth, columns}))
  return ops.reshape(product, shape)
end)

-- Dot of each sample: over axes (a number or one for each), as the layer Dot.
define("batch_dot",
  {x_row, tensor_row "y", optional_row("axes", {"integer", "integers"})}, function(x, y, axes)
  if axes == nil then axes = #y.shape == 2 and {#x.shape - 1, 1} or {#x.shape - 1, #y.shape - 2} end
  return require "ipulua.keras.layers".Dot{axes = axes} {x, y}
end)

-- The gradients of a loss by variables or tensors, inside a traced function.
define("gradients",
  {tensor_row "loss", {"variables", {"list", "any"},
    of = "tensor, variable or list of them"}}, function(loss, variables)
  for _, v in ipairs(args.is_plain(variables) and variables or {variables}) do
    local problem = a_tensor(v)
    if problem then blame.error("gradients: each of 'variables' " .. problem, "type") end
  end
  return tape.gradients(loss, variables)
end)

define("bias_add", {x_row, tensor_row "bias"}, function(x, bias) return x + bias end)

-- ------------------------------------------------ values and conditions

-- Values outside the bounds become the nearest bound; a bound that is nil is none. Of bounds in the
-- wrong order the lower one counts.
define("clip", {x_row, optional_row("min_value", "number"),
  optional_row("max_value", "number")}, function(x, low, high)
  low, high = low or -math.huge, high or math.huge
  return ops.clip_by_value(x, low, math.max(low, high))
end)

local function made(e) return type(e) == "function" and e() or e end

-- One of two tensors, element by element or, by a scalar condition, as a whole; functions are
-- called for theirs.
define("switch", {
  tensor_row "condition", {"then_expression", "any", of = "tensor or function that gives one"},
  {"else_expression", "any", of = "tensor or function that gives one"},
}, function(condition, yes, no)
  if condition.dtype ~= "bool" then condition = ops.cast(condition, "bool") end
  if #condition.shape == 0 and (type(yes) == "function" or type(no) == "function") then
    return loops.cond(condition, function() return made(yes) end, function() return made(no) end)
  end
  yes, no = made(yes), made(no)
  if not is_tensor(yes) or not is_tensor(no) then
    blame.error(string.format("switch: the expressions must be tensors, got %s and %s",
      args.describe(yes), args.describe(no)),
      "type")
  end
  for _ = #condition.shape + 1, math.max(#yes.shape, #no.shape) do
    condition = ops.expand_dims(condition, -1)
  end
  return ops.where(condition, yes, no)
end)

-- x in training, else alt; functions are called.
local phase_rows <const> = {
  {"x", "any", one = true, of = "tensor or function that gives one"},
  {"alt", "any", of = "tensor or function that gives one"},
  {"training", "boolean", false},
}
define("in_train_phase", phase_rows, function(x, alt, training)
  return made(training and x or alt)
end)
define("in_test_phase", phase_rows, function(x, alt, training)
  return made(training and alt or x)
end)

define("dropout",
  {x_row, {"level", "number"}, optional_row("seed", "integer")}, function(x, level, seed)
  return ops.nn.dropout(x, {rate = level, seed = seed})
end)

-- ------------------------------------------------ crossentropies, targets first

local crossentropy_rows <const> = {tensor_row "target", tensor_row "output",
  {"from_logits", "boolean", false}}

-- For each element: -(target log(output) + (1 - target) log(1 - output)).
define("binary_crossentropy", crossentropy_rows, function(target, output, from_logits)
  if from_logits then return ops.nn.sigmoid_cross_entropy_with_logits(target, output) end
  local e <const> = backend.epsilon()
  output = ops.clip_by_value(output, e, 1 - e)
  return -(target * ops.log(output + e) + (1 - target) * ops.log(1 - output + e))
end)

-- For each sample: -log(output) of its class; the targets are one-hot, or class numbers.
for _, name in ipairs {"categorical_crossentropy", "sparse_categorical_crossentropy"} do
  local rows <const> = {crossentropy_rows[1], crossentropy_rows[2], crossentropy_rows[3],
    {"axis", "integer", -1}}
  define(name, rows, function(target, output, from_logits, axis)
    return require "ipulua.keras.losses"[name](target, output,
      {from_logits = from_logits, axis = axis})
  end)
end

-- ------------------------------------------------ variables and facts

local variable_row <const> = {"x", "any", one = true, check = a_variable, of = "variable"}

local function value_of(x) return core.is_variable(x) and x:read_value() or x end

define("get_value", {x_row}, value_of)
define("set_value", {variable_row, {"value", "any", of = "tensor, number or list"}},
  function(x, value) x:assign(value) end)
define("update", {variable_row, {"new_x", "any", of = "tensor, number or list"}}, function(x, new_x)
  return x:assign(new_x)
end)
define("update_add", {
  variable_row, {"increment", "any", of = "tensor, number or list"},
}, function(x, increment) return x:assign_add(increment) end)
define("update_sub", {
  variable_row, {"decrement", "any", of = "tensor, number or list"},
}, function(x, decrement) return x:assign_sub(decrement) end)

-- The values of several variables.
define_of_list("batch_get_value", function(variables)
  local list = {}
  for i, v in ipairs(variables) do list[i] = backend.get_value(v) end
  return core.plain(list)
end)

-- Sets variables from a list of {variable, value}.
define_of_list("batch_set_value", function(tuples)
  for _, pair in ipairs(tuples) do
    if not args.is_plain(pair) then
      blame.error("batch_set_value: expected pairs of a variable and a value, got "
        .. args.describe(pair), "type")
    end
    backend.set_value(pair[1], pair[2])
  end
end)

define("int_shape", {x_row}, function(x) return x.shape end)
define("ndim", {x_row}, function(x) return #x.shape end)
define("dtype", {x_row}, function(x) return x.dtype end)
define("count_params", {x_row}, function(x) return x.size end)
backend.shape = backend.int_shape

---Whether a value stands for a tensor of a functional model.
function backend.is_keras_tensor(x)
  return require "ipulua.base.class".is_a(x, require "ipulua.keras.base.tensor")
end

---The small number that keeps logarithms and divisions finite.
function backend.epsilon() return 1e-7 end

---The type of floating-point tensors that nothing else was said about.
function backend.floatx() return mixed_precision.global_policy().variable_dtype end

---A value with floatx() elements.
function backend.cast_to_floatx(x)
  return ops.cast(core.is_tensor(x) and x or ops.tensor(x), backend.floatx())
end

---The channels' axis of pictures if a layer doesn't set it.
function backend.image_data_format() return "channels_last" end

---Begins to count the names of layers anew.
function backend.clear_session() names.reset() end
backend.reset_uids = backend.clear_session

-- Members of keras.backend beside the functions of tensors: {names, replacement}.
local missing = {}
for _, group in ipairs{
  {"eval function placeholder", "tensors have their numbers, t:totable(); a program is made by "
    .. "ipu.func, a model begins with keras.Input"},
  {"learning_phase set_learning_phase learning_phase_scope",
    "a layer's call has options.training; a model is called with {training = true}"},
  {"set_floatx", "keras.mixed_precision.set_global_policy(\"float16\") sets the dtype of all "
    .. "layers made from then on; one layer has dtype = \"float16\""},
  {"set_epsilon", "an epsilon is an argument of layers, losses and optimizers"},
  {"set_image_data_format", "data_format is an argument of each layer"},
  {"map_fn foldl foldr rnn", "use ipu.loops.repeat_n, or an op on the whole tensor; a layer of "
    .. "steps is layers.RNN"},
  {"conv1d conv2d conv3d conv2d_transpose depthwise_conv2d batch_normalization",
    "use the op in ipu.nn, or the layer"},
  {"separable_conv2d local_conv1d local_conv2d pool2d pool3d resize_images resize_volumes",
    "use the layer"},
  {"temporal_padding spatial_2d_padding spatial_3d_padding", "use ipu.pad, or the layer"},
  {"normalize_batch_in_training moving_average_update",
    "use layers.BatchNormalization, or v:assign"},
  {"ctc_batch_cost ctc_decode ctc_label_dense_to_sparse",
    "use ipu.nn.ctc_loss and ipu.nn.ctc_beam_search_decoder"},
  {"random_uniform_variable random_normal_variable random_binomial",
    "use ipu.Variable(ipu.random.normal(shape)), ipu.random.bernoulli"},
  {"in_top_k", "use metrics.top_k_categorical_accuracy"}, {"print_tensor", "use ipu.print_tensor"},
  {"is_sparse to_dense", "all tensors are dense"},
  {"get_uid", "a layer is numbered when it is made"},
  {"name_scope", "use ipu.name_scope"},
  {"manual_variable_initialization", "variables have values from the start"},
} do
  for name in group[1]:gmatch("%S+") do missing[name] = group[2] end
end

about.say("backend", {
  {"all", text = "Whether all elements over axes are true (not 0): bool."},
  {"any", text = "Whether any element over axes is true (not 0): bool."},
  {"arange", text = "As `ipu.arange`."},
  {"argmax", text = "The position of the greatest along an axis: int32, without it."},
  {"argmin", text = "The position of the least along an axis: int32, without it."},
  {"batch_dot", text = "dot of each sample, over axes, as the layer Dot: [batch, a, n], [batch, n, "
    .. "b] → [batch, a, b]."},
  {"batch_flatten", text = "All axes but the first in one: [batch, ...] → [batch, n]."},
  {"batch_get_value", text = "The values of a list of variables: a list of tensors."},
  {"batch_set_value", text = "Assigns to the variables of a list of {variable, value}."},
  {"bias_add", text = "x + bias, along the last axis: [..., n], [n] → [..., n]."},
  {"binary_crossentropy", text = "−(y log p + (1 − y) log(1 − p)) of each element: {[...], [...]} "
    .. "→ [...]."},
  {"categorical_crossentropy",
    text = "−Σ y log p; targets are one-hot: {[..., classes], [..., classes]} → [...]."},
  {"clip", text = "Values outside the bounds become the nearest bound; nil is none. Of bounds "
    .. "in the wrong order the lower one counts."},
  {"concatenate", text = "Tensors one after the other: [..., a], [..., b] → [..., a + b]."},
  {"constant", text = "As `ipu.constant`."},
  {"count_params", text = "The number of elements, an integer."},
  {"cumprod", text = "Running products along an axis."},
  {"cumsum", text = "Running sums along an axis."},
  {"dot", text = "Sums of products over the last axis of x and the last but one (or only) axis of "
    .. "y: [a, n], [n, b] → [a, b]."},
  {"dropout", text = "Each element is 0 with probability level, in [0, 1), else divided by 1 − "
    .. "level."},
  {"dtype", text = "The name of the dtype."},
  {"elu", text = "As `activations.elu`."},
  {"expand_dims", text = "A new axis of 1: [...] → [..., 1, ...]."},
  {"eye", text = "As `ipu.eye`: the identity matrix."},
  {"flatten", text = "All elements in one axis: [...] → [size]."},
  {"gather", text = "Rows of reference by index: [n, ...], [indices] → [indices, ...]."},
  {"get_value", text = "A variable's value as a tensor."},
  {"gradients", text = "d loss / d variables, a list; inside a traced function."},
  {"hard_sigmoid", text = "As `activations.hard_sigmoid`."},
  {"in_test_phase", text = "alt if training is set, else x; functions are called."},
  {"in_train_phase", text = "x if training is set, else alt; functions are called."},
  {"int_shape", text = "The shape as a list of integers."},
  {"l2_normalize", text = "x divided by its length along axes."},
  {"logsumexp", text = "log Σ eˣ over axes, without overflow."},
  {"max", text = "The greatest over axes."},
  {"mean", text = "The mean over axes."},
  {"min", text = "The least over axes."},
  {"ndim", text = "The number of axes, an integer."},
  {"ones", text = "As `ipu.ones`: [...] of 1."},
  {"prod", text = "The product over axes."},
  {"random_normal", text = "As `ipu.random.normal`."},
  {"relu", text = "As `activations.relu`."},
  {"repeat", text = "Each row n times along a new axis: [batch, features] → [batch, n, features]."},
  {"repeat_elements", text = "Each slice along an axis rep times: [..., n, ...] → [..., rep · n, "
    .. "...]."},
  {"reverse", text = "Back to front along axes."},
  {"set_value", text = "Assigns."},
  {"shape", text = "The shape as a list of integers."},
  {"softmax", text = "As `activations.softmax`."},
  {"softplus", text = "As `activations.softplus`."},
  {"softsign", text = "As `activations.softsign`."},
  {"sparse_categorical_crossentropy",
    text = "−log p of the class; targets are class numbers: {[...], [..., classes]} → [...]."},
  {"sqrt", text = "The square root; of numbers below 0 it is 0."},
  {"squeeze", text = "Without an axis of 1: [..., 1, ...] → [...]."},
  {"stack", text = "Tensors of one shape along a new axis: n × [...] → [n, ...]."},
  {"std", text = "The population standard deviation over axes."},
  {"sum", text = "The sum over axes; all when there is none."},
  {"switch", text = "Then or else, element by element or, by a scalar condition, as a whole; "
    .. "functions are called for theirs."},
  {"transpose", text = "The axes in the opposite order: [a, …, z] → [z, …, a]."},
  {"update", text = "Assigns, and gives the new value."},
  {"update_add", text = "Adds to a variable, and gives the new value."},
  {"update_sub", text = "Subtracts from a variable, and gives the new value."},
  {"var", text = "The population variance over axes."},
  {"variable", text = "As `ipu.Variable`."},
  {"zeros", text = "As `ipu.zeros`: [...] of 0."},
})

return offering.answer("backend", backend, {missing = missing})
