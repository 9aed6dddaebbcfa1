-- Fits the shapes of labels, predictions and weights to each other, as Keras does before losses and
-- metrics. Shapes that would only broadcast elsewhere are an error here.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local ops = require "ipulua.ops"
local plain = require "ipulua.base.plain"

local shapes = {}

---`[2, 3]`
---@param shape integer[]
---@return string
function shapes.text(shape)
  local parts = {}
  for i, extent in ipairs(shape) do parts[i] = extent < 0 and "-1" or tostring(extent) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

local function is_shape(value)
  if not args.is_list(value) then return false end
  for _, extent in ipairs(value) do
    if math.type(extent) ~= "integer" then return false end
  end
  return true
end

-- A shape, or a table of such.
local function has_shapes(value, depth)
  if is_shape(value) then return true end
  if not args.is_plain(value) then return false end
  depth = plain.deeper(depth or 0)
  for _, each in next, value do
    if not has_shapes(each, depth) then return false end
  end
  return true
end

---An error unless a value is the shape of an input, or a table of the shapes of several.
---@param who string
---@param value any
function shapes.check_given(who, value)
  if has_shapes(value) then return end
  blame.error(string.format("%s: the shape of the input is a list of integers, such as {32, 784}; "
    .. "an unknown extent is -1, and several inputs make a table of lists; got %s", who,
    args.describe(value)), "type")
end

---@param a integer[]
---@param b integer[]
---@return boolean
function shapes.equal(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

---An error unless two shapes are equal.
function shapes.check_equal(a, b, who, a_name, b_name, hint)
  if shapes.equal(a, b) then return end
  blame.error(string.format("%s: %s and %s have different shapes, %s and %s%s", who, a_name, b_name,
    shapes.text(a),
    shapes.text(b), hint or ""), "value")
end

---The result of an initializer, a tensor of a weight's shape. Another shape could broadcast where
---the weight is used.
---@param name string of the weight
---@param value any
---@param dtype string
---@param shape integer[]
---@return userdata
function shapes.first_value(name, value, dtype, shape)
  if core.is_variable(value) then value = value:read_value() end
  if not core.is_tensor(value) then value = core.tensor(value, dtype, "an initializer's result") end
  if shapes.equal(value.shape, shape) then return value end
  blame.error(string.format("add_weight: the weight '%s' has the shape %s, but its initializer "
    .. "gave %s", name, shapes.text(shape), shapes.text(value.shape)), "value")
end

---A last axis of 1 that only one of the two has goes away; of equal ranks
---both stay as they are.
---@return userdata y_true, userdata y_pred
function shapes.fit_ranks(y_true, y_pred)
  local a, b = #y_true.shape, #y_pred.shape
  if b == a + 1 and y_pred.shape[b] == 1 then
    y_pred = ops.squeeze(y_pred, {axis = -1})
  elseif a == b + 1 and y_true.shape[a] == 1 then
    y_true = ops.squeeze(y_true, {axis = -1})
  end
  return y_true, y_pred
end

---Weights for values: one rank less gets a trailing axis of 1, one more with a last axis of 1 loses
---it.
---@param weight userdata
---@param values userdata
---@return userdata
function shapes.fit_weight(weight, values)
  local w, v = #weight.shape, #values.shape
  if w == 0 then return weight end
  if w == v + 1 and weight.shape[w] == 1 then
    weight = ops.squeeze(weight, {axis = -1})
  elseif w == v - 1 then
    weight = ops.expand_dims(weight, -1)
  end
  local shape = weight.shape
  local fits = #shape == v
  for i = 1, #shape do
    fits = fits and (shape[i] == 1 or shape[i] == values.shape[i])
  end
  if not fits then
    blame.error(string.format("sample_weight has the shape %s, the losses %s; give "
      .. "one weight for each loss",
      shapes.text(weight.shape), shapes.text(values.shape)), "value")
  end
  return weight
end

---x with an axis moved to the end.
---@param x userdata
---@param axis integer
---@return userdata
function shapes.to_last(x, axis)
  local rank = #x.shape
  if axis < 0 then axis = rank + axis end
  if axis == rank - 1 then return x end
  local perm = {}
  for i = 0, rank - 1 do
    if i ~= axis then perm[#perm + 1] = i end
  end
  perm[rank] = axis
  return ops.transpose(x, perm)
end

return shapes
