-- Conversions for operand types that ONNX's operators don't take at opset 17, or compute less
-- exactly than the op does. They are bytes, bool, halves, and float64 if an operator has its
-- numbers in float32 attributes.

local tools = require "ipulua.keras.onnx.tools"

local is_integer <const>, like <const> = tools.is_integer, tools.like

local function set(...)
  local out = {}
  for _, name in ipairs{...} do out[name] = true end
  return out
end

local function as(g, v, dtype)
  local out = g:cast(v, dtype)
  out.dtype, out.shape = dtype, v.shape
  return out
end

-- Computed in a wider type: operands of the narrow ones are widened, results that should be narrow
-- cut.
local function in_wider(f, narrow, wide)
  return function(g, x, a, r)
    local wider, found = {}, false
    for i, v in pairs(x) do
      local is_narrow = v and narrow[v.dtype]
      wider[i] = is_narrow and as(g, v, wide) or v
      found = found or is_narrow
    end
    if not found then return f(g, x, a, r) end
    local results = table.pack(f(g, wider, a, r))
    for i = 1, results.n do
      local dtype = r.outputs[i].dtype
      if narrow[dtype] then results[i] = g:cast(results[i], dtype) end
    end
    return table.unpack(results, 1, results.n)
  end
end

-- ------------------------------------------------ halves

-- One node each that takes bfloat16, and rounds once as the op does.
local of_bfloat16 <const> = set(
  "abs", "add", "argmax", "argmin", "broadcast_to", "cast", "ceil", "clip_by_value", "concat",
  "div", "embedding_lookup", "equal", "erf", "exp", "expand_dims", "floor", "gather",
  "gather_nd", "greater", "greater_equal", "identity", "is_nan", "less", "less_equal", "log",
  "matmul", "maximum", "minimum", "mul", "neg", "nn.bias_add", "nn.log_softmax", "nn.relu",
  "nn.relu6", "nn.softmax", "not_equal", "one_hot", "ones_like", "pad", "pow", "reciprocal",
  "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum",
  "repeat_n", "reshape", "reverse", "serialized_matmul", "sigmoid", "sign", "slice", "split",
  "sqrt", "square", "squeeze", "stack", "stop_gradient", "strided_slice", "sub", "tanh", "tile",
  "transpose", "unstack", "where", "zeros_like")

-- Several nodes each, which in float16 would round or overflow on the way; and IsInf, which doesn't
-- take it.
local wider_than_float16 <const> = set(
  "expm1", "floordiv", "is_finite", "is_inf", "log1p", "mod", "nn.batch_norm",
  "nn.dot_product_attention", "nn.gelu", "nn.group_norm", "nn.instance_norm", "nn.l2_loss",
  "nn.l2_normalize", "nn.moments", "reduce_std", "reduce_variance", "rsqrt",
  "squared_difference")

local function widen_halves(convert)
  for op, f in pairs(convert) do
    local narrow = {float16 = wider_than_float16[op], bfloat16 = not of_bfloat16[op] or nil}
    if op:sub(1, 1) ~= "_" and next(narrow) then convert[op] = in_wider(f, narrow, "float32") end
  end
end

-- The operator has one type for all operands. Wide parameters of a narrow x make it wide.
local function widen_with_parameters(convert)
  local of_one_type <const> = convert["nn.layer_norm"]
  local of_both <const> = in_wider(of_one_type, {float16 = true}, "float32")
  convert["nn.layer_norm"] = function(g, x, a, r)
    local is_mixed = false
    for i = 2, 3 do is_mixed = is_mixed or x[i] and x[i].dtype ~= x[1].dtype end
    return (is_mixed and of_both or of_one_type)(g, x, a, r)
  end
end

-- ------------------------------------------------ float64

-- x where it is at least 0, elsewhere the given value.
local function below_0(g, x, other)
  return g:emit("Where", {g:emit("Less", {x, like(g, x, 0)}), other, x})
end

local SELU_SCALE <const> = 1.0507009873554804934193349852946
local SELU_ALPHA <const> = 1.6732632423543772848170429916717

local function of_float64(convert)
  local exact = {}

  exact["nn.hard_sigmoid"] = function(g, x)
    local v = x[1]
    local line = g:emit("Add", {g:emit("Mul", {v, like(g, v, 0.2)}), like(g, v, 0.5)})
    return g:emit("Clip", {line, like(g, v, 0), like(g, v, 1)})
  end

  exact["nn.leaky_relu"] = function(g, x, a)
    return below_0(g, x[1], g:emit("Mul", {x[1], like(g, x[1], a.alpha)}))
  end

  exact["nn.elu"] = function(g, x, a)
    return below_0(g, x[1], g:emit("Mul", {convert.expm1(g, x), like(g, x[1], a.alpha)}))
  end

  exact["nn.selu"] = function(g, x)
    local v = below_0(g, x[1], g:emit("Mul", {convert.expm1(g, x), like(g, x[1], SELU_ALPHA)}))
    return g:emit("Mul", {v, like(g, x[1], SELU_SCALE)})
  end

  exact["nn.layer_norm"] = function(g, x, a) return convert._layer_norm_by_nodes(g, x, a) end

  for op, f in pairs(exact) do
    local of_others = convert[op]
    convert[op] = function(g, x, a, r)
      return (x[1].dtype == "float64" and f or of_others)(g, x, a, r)
    end
  end
end

-- ------------------------------------------------ integers

local bytes <const> = {int8 = true, uint8 = true}

local function of_integers(convert)
  for _, op in ipairs{"reduce_sum", "reduce_prod", "cumsum", "matmul", "serialized_matmul",
    "pow"} do
    convert[op] = in_wider(convert[op], bytes, "int32")
  end
  for _, op in ipairs{"sort", "argsort"} do
    convert[op] = in_wider(convert[op], {bool = true}, "int32")
  end

  for _, op in ipairs{"ceil", "floor", "round"} do
    local of_floats = convert[op]
    convert[op] = function(g, x)
      return is_integer(x[1]) and g:emit("Identity", {x[1]}) or of_floats(g, x)
    end
  end

  local relu <const>, neg <const> = convert["nn.relu"], convert.neg
  convert["nn.relu"] = function(g, x)
    return x[1].dtype == "uint8" and g:emit("Identity", {x[1]}) or relu(g, x)
  end
  function convert.neg(g, x)
    return x[1].dtype == "uint8" and g:emit("Sub", {g:scalar(0, "uint8"), x[1]}) or neg(g, x)
  end
end

return function(convert)
  of_integers(convert)
  of_float64(convert)
  widen_halves(convert)
  widen_with_parameters(convert)
end
