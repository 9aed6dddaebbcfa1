-- Tensors from numbers.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"

local creation = {}

local tensor_spec <const> = {
  {"data", "any", list = true, of = "number, boolean, tensor or nested lists of them"},
  {"dtype", "dtype", optional = true, says = "float32; of booleans bool, of tensors theirs"},
}

-- The keys after a list's last position are its names, if it has any. So a long list need not be
-- searched for names.
local function has_names(t)
  if #t > 0 and next(t, #t) == nil then return false end
  for key in next, t do
    if type(key) == "string" then return true end
  end
  return false
end

---A tensor of numbers, nested lists, booleans or tensors; float32 unless dtype says otherwise.
---Shapes: numbers []; nested lists [outer, …, inner]; a list of n tensors [...] → [n, ...].
---`ipu.tensor{{1, 2, 3}, {4, 5, 6}}` →
---[2, 3]
---Errors: lists of unequal lengths, values that the dtype can't hold: `ipu.tensor{{1, 2}, {3}}`,
---`ipu.tensor({300}, {dtype = "int8"})`
---@return userdata
function creation.tensor(data, ...)
  if select("#", ...) == 0 and data ~= nil and not (args.is_plain(data) and has_names(data)) then
    return core.tensor(data)
  end
  local a = args.check("tensor", tensor_spec, data, ...)
  return core.tensor(a.data, a.dtype)
end

local constant_spec <const> = {
  {"value", "any", list = true, of = "number, boolean, tensor or nested lists of them"},
  {"dtype", "dtype", optional = true, says = "float32; of booleans bool, of tensors theirs"},
  {"shape", {"list", "integer"}, optional = true},
  {"name", "string", optional = true},
}

---A tensor; with a shape, filled with one value or reshaped to it.
---Shapes: as tensor; with a shape that shape. `ipu.constant(7, {shape = {2, 3}})` → [2, 3]
---Errors: values that don't fill the shape: `ipu.constant({1, 2, 3}, {shape = {2, 2}})`
---@return userdata
function creation.constant(value, ...)
  local a = args.check("constant", constant_spec, value, ...)
  if not a.shape then return core.tensor(a.value, a.dtype, "constant") end
  local single = a.value
  if type(single) == "table" and #single == 1 then single = single[1] end
  if type(single) == "number" or type(single) == "boolean" then
    return core.full(a.shape, single, a.dtype)
  end
  return core.tensor(a.value, a.dtype, "constant"):reshape(a.shape)
end

local shape_spec <const> = {{"shape", {"integers", "integer"}, list = true},
  {"dtype", "dtype", "float32"}}

-- zeros(2, 3) is how other libraries have it.
local function refuse_loose_shape(fname, first, second)
  if math.type(first) == "integer" and math.type(second) == "integer" then
    blame.error(string.format("%s: 'shape' must be one list, as in %s{%d, %d}", fname, fname, first,
      second), "type")
  end
end

---Zeros of a shape.
---Shapes: shape. `ipu.zeros{2, 3}` → [2, 3]
---Errors: a negative extent, an unknown dtype: `ipu.zeros{-1}`, `ipu.zeros({2}, {dtype = "float"})`
---@return userdata
function creation.zeros(...)
  refuse_loose_shape("zeros", ...)
  local a = args.check("zeros", shape_spec, ...)
  return core.full(a.shape, 0, a.dtype, "zeros")
end

---Ones of a shape.
---Shapes: shape. `ipu.ones{2, 3}` → [2, 3]
---Errors: a negative extent, an unknown dtype: `ipu.ones{2, -3}`,
---`ipu.ones({2}, {dtype = "double"})`
---@return userdata
function creation.ones(...)
  refuse_loose_shape("ones", ...)
  local a = args.check("ones", shape_spec, ...)
  return core.full(a.shape, 1, a.dtype, "ones")
end

local full_spec <const> = {{"shape", {"list", "integer"}}, {"value", {"number", "boolean"}},
  {"dtype", "dtype", "float32"}}

---One value, in a shape.
---Shapes: shape. `ipu.full({2, 3}, 0.5)` → [2, 3]
---Errors: a value that the dtype can't hold: `ipu.full({2}, 0.5, {dtype = "int32"})`
---@return userdata
function creation.full(...)
  local a = args.check("full", full_spec, ...)
  return core.full(a.shape, a.value, a.dtype)
end

local eye_spec <const> = {
  {"num_rows", "integer"},
  {"num_columns", "integer", optional = true, says = "num_rows by default"},
  {"batch_shape", {"integers", "integer"}, optional = true,
    says = "leading extents; none by default"},
  {"dtype", "dtype", "float32"},
}

---The identity matrix; with a batch_shape as many of them.
---Shapes: batch_shape and [num_rows, num_columns]. `ipu.eye(2, 3)` → [2, 3],
---`ipu.eye(2, {batch_shape = {4}})` → [4, 2, 2]
---Errors: a negative extent: `ipu.eye(-1)`
---@return userdata
function creation.eye(...)
  local a = args.check("eye", eye_spec, ...)
  local rows, cols = a.num_rows, a.num_columns or a.num_rows
  if rows < 0 or cols < 0 then
    blame.error(string.format("eye: extents must not be negative, got [%d, %d]", rows, cols),
      "value")
  end
  if rows * 1.0 * cols > 1e12 then
    blame.error(string.format("eye: %g elements are too many", rows * 1.0 * cols), "value")
  end
  local row, col = creation.arange(rows), creation.arange(cols)
  local matrix = core.ops.cast(core.ops.equal(core.ops.reshape(row, {rows, 1}), col), a.dtype)
  if not a.batch_shape then return matrix end
  local shape = type(a.batch_shape) == "table" and {table.unpack(a.batch_shape)} or {a.batch_shape}
  table.move({rows, cols}, 1, 2, #shape + 1, shape)
  return core.ops.broadcast_to(matrix, shape)
end

local arange_spec <const> = {
  {"start", "number"}, {"stop", "number", optional = true}, {"step", "number", 1},
  {"dtype", "dtype", optional = true, says = "int32 of integers, else float32"},
}

-- Elements start + step · i / divisor, i from 0 to n - 1. The dtype must hold the first two and the
-- last.
local function range(who, start, step, divisor, n, dtype)
  if n > math.maxinteger // 8 then
    blame.error(string.format("%s: %g elements are too many", who, n), "value")
  end
  n = math.tointeger(n)
  local probe = n == 1 and {0} or {0, 1, n - 1}
  for k, i in ipairs(probe) do
    probe[k] = divisor == 1 and start + step * i or start + step * i / divisor
  end
  core.tensor(probe, dtype)
  return core.range(start, step, divisor, n, dtype)
end

-- The same where step · i may be more than a double holds, of a step that is given scaled: both by
-- a power of two.
local function wide_scale(n) return 2.0 ^ (math.ceil(math.log(n, 2)) + 1) end
local function wide_range(who, start, scaled_step, divisor, n, dtype)
  local scale = wide_scale(n)
  return core.ops.mul(range(who, start / scale, scaled_step, divisor, n, dtype), scale)
end

-- (stop - start) / step, where the difference may be more than a double holds.
local function steps_between(start, stop, step)
  local n = (stop * 1.0 - start) / step
  if n - n == 0 or stop - stop ~= 0 or start - start ~= 0 then return n end
  return stop / step - start / step
end

-- a // b and a % b of integers without a sign.
local function divide_unsigned(a, b)
  if b < 0 then return math.ult(a, b) and 0 or 1, math.ult(a, b) and a or a - b end
  local quotient = a >= 0 and a // b or ((a >> 1) // b) << 1
  local rest = a - quotient * b
  if math.ult(rest, b) then return quotient, rest end
  return quotient + 1, rest - b
end

-- How many of start, start + step … lie before stop, of integers. Below 0: more than an integer
-- holds.
local function count_steps(start, stop, step)
  if step < 0 then start, stop = stop, start end
  if start >= stop then return 0 end
  local quotient, rest = divide_unsigned(stop - start, step < 0 and -step or step)
  quotient = rest ~= 0 and quotient + 1 or quotient
  return quotient < 0 and math.huge or quotient
end

---start, start + step … below stop; int32 for integers.
---Shapes: [ceil((stop - start) / step)], never below 0. `ipu.arange(1, 6, 2)` → [3]
---Errors: a step of 0: `ipu.arange(0, 5, 0)`
---@return userdata
function creation.arange(...)
  local a = args.check("arange", arange_spec, ...)
  local start, stop, step = a.start, a.stop, a.step
  if stop == nil then start, stop = 0, start end
  if step == 0 then blame.error("arange: 'step' must not be 0", "value") end
  local integers = math.type(start) == "integer" and math.type(stop) == "integer"
    and math.type(step) == "integer"
  local n = integers and count_steps(start, stop, step)
    or math.ceil(steps_between(start, stop, step))
  local dtype = a.dtype or (integers and "int32" or "float32")
  if n ~= n then
    blame.error("arange: 'start', 'stop' and 'step' must be numbers, not NaN", "value")
  end
  if n <= 0 then return core.full({0}, 0, dtype) end
  if not integers and step * (n - 1) - step * (n - 1) ~= 0 then
    return wide_range("arange", start, step / wide_scale(n), 1, n, dtype)
  end
  return range("arange", start, step, 1, n, dtype)
end

local linspace_spec <const> = {
  {"start", "number"}, {"stop", "number"}, {"num", "integer", 50, range = "[0, inf)"},
  {"dtype", "dtype", "float32"},
}

---num values from start to stop, both included.
---Shapes: [num]. `ipu.linspace(0, 1, 5)` → [5]
---Errors: a negative count: `ipu.linspace(0, 1, -5)`
---@return userdata
function creation.linspace(...)
  local a = args.check("linspace", linspace_spec, ...)
  if a.num < 0 then blame.error("linspace: 'num' must not be negative, got " .. a.num, "value") end
  if a.num < 2 then return core.full({a.num}, a.start, a.dtype) end
  local start, stop = a.start * 1.0, a.stop * 1.0
  local difference = stop - start
  if difference - difference ~= 0 and start - start == 0 and stop - stop == 0 then
    local scale = wide_scale(a.num)
    return wide_range("linspace", start, stop / scale - start / scale, a.num - 1, a.num, a.dtype)
  end
  return range("linspace", a.start, difference, a.num - 1, a.num, a.dtype)
end

local confusion_spec <const> = {
  {"labels", {"tensor", "list"}}, {"predictions", {"tensor", "list"}},
  {"num_classes", "integer", range = "[1, inf)"},
  {"weights", {"tensor", "list"}, optional = true, by_name = true,
    says = "of each sample; the result has their dtype"},
  {"dtype", "dtype", "int32", by_name = true},
}

---How often prediction j was made for label i, in row i and column j; with weights their sums.
---Shapes: [n], [n] → [num_classes, num_classes]
---Errors: classes outside of 0 … num_classes - 1, vectors of different lengths:
---`ipu.confusion_matrix(ipu.tensor({3}, "int32"), ipu.tensor({0}, "int32"), 3)`
---@return userdata
function creation.confusion_matrix(...)
  local a = args.check("confusion_matrix", confusion_spec, ...)
  local function as_tensor(x) return args.is_tensor(x) and x or core.tensor(x, "int32") end
  local labels, predictions = as_tensor(a.labels), as_tensor(a.predictions)
  local options = {num_classes = a.num_classes, dtype = a.dtype}
  if a.weights == nil then return core.ops.confusion_matrix(labels, predictions, options) end
  local weights = args.is_tensor(a.weights) and a.weights or core.tensor(a.weights)
  return core.ops.confusion_matrix(labels, predictions, weights, options)
end

---Whether x is a tensor, of values or symbolic.
---Shapes: any
---@param x any
---@return boolean
function creation.is_tensor(x) return core.is_tensor(x) end

return creation
