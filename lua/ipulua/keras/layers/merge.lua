-- Layers that join several tensors of one batch.

local about = require "ipulua.base.parts.about"
local Layer = require "ipulua.keras.base.layer"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local lengths = require "ipulua.keras.base.lengths"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local shapes = require "ipulua.keras.base.shapes"

local layers = {}

---The class of layers that merge: a list of tensors whose shapes broadcast after the batch.
---@class Merge: Layer
local Merge = Layer.declare("Merge", {})
Merge.supports_masking = true

function Merge:build(input_shape)
  if type(input_shape) ~= "table" or type(input_shape[1]) ~= "table"
    or #input_shape < (self.fewest or 2) then
    blame.error(string.format("layer '%s': %s merges a list of at least %d tensors: layer{a, b}",
      self.name, self.__name,
      self.fewest or 2), "value")
  end
end

-- As in Keras, tensors of lower rank get axes of 1 after the batch.
local function of_one_rank(list)
  local rank = 0
  for _, x in ipairs(list) do rank = math.max(rank, #x.shape) end
  local out = {}
  for i, x in ipairs(list) do
    while #x.shape < rank do x = ops.expand_dims(x, 1) end
    out[i] = x
  end
  return out
end

function Merge:call(inputs)
  if not args.is_plain(inputs) then
    blame.error(string.format("layer '%s': %s is called with a list of tensors", self.name,
      self.__name), "value")
  end
  return self:merge(of_one_rank(inputs))
end

-- All inputs must be kept for a step to be kept.
function Merge:compute_mask(_, mask)
  if not args.is_plain(mask) then return nil end
  local all
  for _, m in pairs(mask) do all = all and ops.logical_and(all, m) or m end
  return all
end

local function fold(f)
  return function(_, list)
    local result = list[1]
    for i = 2, #list do result = f(result, list[i]) end
    return result
  end
end

local folds <const> = {
  Add = function(a, b) return a + b end, Multiply = function(a, b) return a * b end,
  Maximum = function(a, b) return ops.maximum(a, b) end,
  Minimum = function(a, b) return ops.minimum(a, b) end,
}
for name, f in pairs(folds) do
  local c = Layer.declare(name, {}, Merge)
  c.merge = fold(f)
  layers[name] = c
end

---The first minus the second.
---@class Subtract: Layer
local Subtract = Layer.declare("Subtract", {}, Merge)
layers.Subtract = Subtract
function Subtract:merge(list)
  if #list ~= 2 then
    blame.error(string.format("layer '%s': Subtract takes exactly 2 tensors, got %d", self.name,
      #list), "value")
  end
  return list[1] - list[2]
end

---@class Average: Layer
local Average = Layer.declare("Average", {}, Merge)
layers.Average = Average
local add_up <const> = fold(folds.Add)
function Average:merge(list)
  local wide, dtype = {}, list[1].dtype
  for i, x in ipairs(list) do wide[i] = lengths.wide(x) end -- a sum of halves may be too large
  local mean = add_up(self, wide) / #list
  return mean.dtype == dtype and mean or ops.cast(mean, dtype)
end

---Tensors joined along an axis.
---@class Concatenate: Layer
local Concatenate = Layer.declare("Concatenate", {{"axis", "integer", -1}}, Merge)
layers.Concatenate = Concatenate
Concatenate.fewest = 1
function Concatenate:call(inputs)
  return ops.concat(inputs, {axis = self.axis})
end
-- Along time the masks are joined, and an input without one counts as true. Along a later axis a
-- step must be true in all masks.
function Concatenate:compute_mask(inputs, mask)
  local first = args.is_plain(mask) and nest.first(mask)
  if not first then return nil end
  local axis = self.axis < 0 and #inputs[1].shape + self.axis or self.axis
  local rank = #first.shape
  if axis >= rank then return Merge.compute_mask(self, inputs, mask) end
  local list = {}
  for i, x in ipairs(inputs) do
    list[i] = mask[i] or core.full(table.move(x.shape, 1, rank, 1, {}), true, "bool")
  end
  return ops.concat(list, {axis = axis})
end
function Concatenate:build(input_shape)
  Merge.build(self, input_shape)
  local rank = #input_shape[1]
  local axis = self.axis < 0 and rank + self.axis or self.axis
  for _, shape in ipairs(input_shape) do
    local fits = #shape == rank
    for i = 1, rank do
      fits = fits and (i == axis + 1 or shape[i] == input_shape[1][i] or shape[i] < 0
        or input_shape[1][i] < 0)
    end
    if not fits then
      blame.error(string.format("layer '%s': shapes to concatenate must agree except along axis "
        .. "%d, got %s and %s", self.name,
        self.axis, shapes.text(input_shape[1]), shapes.text(shape)), "value")
    end
  end
end

---Sums of products over an axis of each of two tensors; normalize: their cosine.
---@class Dot: Layer
local Dot = Layer.declare("Dot",
  {{"axes", {"integer", "integers"}}, {"normalize", "boolean", false}}, Merge)
layers.Dot = Dot

local function axis_of(self, axis, rank)
  local at = axis < 0 and rank + axis or axis
  if at >= 1 and at < rank then return at end
  blame.error(string.format("layer '%s': 'axes' must lie in 1 … %d, after the batch, of an input "
    .. "of rank %d, got %d", self.name, rank - 1, rank, axis), "value")
end

-- [batch, rest, last]
local function as_matrix(x)
  local shape = x.shape
  local rest = 1
  for i = 2, #shape - 1 do rest = rest * shape[i] end
  return ops.reshape(x, {shape[1], rest, shape[#shape]}), table.move(shape, 2, #shape - 1, 1, {})
end

function Dot:call(inputs)
  local a, b = inputs[1], inputs[2]
  local axes = type(self.axes) == "number" and {self.axes, self.axes} or self.axes
  local i, j = axis_of(self, axes[1], #a.shape), axis_of(self, axes[2], #b.shape)
  if self.normalize then
    a, b = ops.nn.l2_normalize(a, {axis = i}), ops.nn.l2_normalize(b, {axis = j})
  end
  local rest_a, rest_b
  a, rest_a = as_matrix(shapes.to_last(a, i))
  b, rest_b = as_matrix(shapes.to_last(b, j))
  local product = ops.matmul(a, b, {transpose_b = true})
  local shape = {a.shape[1]}
  table.move(rest_a, 1, #rest_a, 2, shape)
  table.move(rest_b, 1, #rest_b, #shape + 1, shape)
  if #shape == 1 then shape[2] = 1 end
  return ops.reshape(product, shape)
end
function Dot:compute_mask() return nil end -- luacheck: ignore 212

-- add({a, b}, {name = "sum"}), add{a, b, name = "sum"}, add{{a, b}, name = "sum"}: the inputs and
-- the layer's arguments.
local function taken_apart(inputs, options)
  if options ~= nil or not args.is_plain(inputs) then return inputs, options end
  local list, named = {}, {}
  for key, value in next, inputs do
    if type(key) == "string" then named[key] = value else list[key] = value end
  end
  if #list == 1 and args.is_list(list[1]) then list = list[1] end
  return list, next(named) and named or nil
end

-- Functions that make the layer and call it.
for _, name in ipairs{"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum",
  "Concatenate", "Dot"} do
  layers[name:lower()] = function(...)
    local inputs, options = taken_apart(...)
    return layers[name](options)(inputs)
  end
end

about.say("layers", {
  {"Add", text = "The sum of several tensors.", section = "Merging", sample = "Add()",
    input = {{2, 3}, {2, 3}}, wrong = {{2, 3}, {2, 4}},
    is = "{[batch, ...], [batch, ...]} → [batch, ...]", also = "extents of 1 broadcast"},
  {"Subtract", section = "Merging", sample = "Subtract()", input = {{2, 3}, {2, 3}},
    wrong = {{2, 3}, {2, 3}, {2, 3}}, is = "{[batch, ...], [batch, ...]} → [batch, ...]",
    also = "extents of 1 broadcast"},
  {"Multiply", text = "The product, element by element.", section = "Merging",
    sample = "Multiply()", input = {{2, 3}, {2, 3}}, wrong = {{2, 3}, {2, 4}},
    is = "{[batch, ...], [batch, ...]} → [batch, ...]", also = "extents of 1 broadcast"},
  {"Average", text = "The mean, element by element.", section = "Merging", sample = "Average()",
    input = {{2, 3}, {2, 3}}, wrong = {{2, 3}, {2, 4}},
    is = "{[batch, ...], [batch, ...]} → [batch, ...]", also = "extents of 1 broadcast"},
  {"Maximum", text = "The greatest, element by element.", section = "Merging", sample = "Maximum()",
    input = {{2, 3}, {2, 3}}, wrong = {{2, 3}, {2, 4}},
    is = "{[batch, ...], [batch, ...]} → [batch, ...]", also = "extents of 1 broadcast"},
  {"Minimum", text = "The least, element by element.", section = "Merging", sample = "Minimum()",
    input = {{2, 3}, {2, 3}}, wrong = {{2, 3}, {2, 4}},
    is = "{[batch, ...], [batch, ...]} → [batch, ...]", also = "extents of 1 broadcast"},
  {"Concatenate", section = "Merging", sample = "Concatenate()", input = {{2, 3}, {2, 4}},
    wrong = {{2, 3}, {3, 4, 5}}, is = "{[batch, a], [batch, b]} → [batch, a + b]"},
  {"Dot", section = "Merging", sample = "Dot{axes = 1}", input = {{2, 3}, {2, 3}}, wrong = "Dot()",
    is = "{[batch, n], [batch, n]} → [batch, 1]"},
  {"add", text = "Calls Add.", section = "Merging"},
  {"subtract", text = "Calls Subtract.", section = "Merging"},
  {"multiply", text = "Calls Multiply.", section = "Merging"},
  {"average", text = "Calls Average.", section = "Merging"},
  {"maximum", text = "Calls Maximum.", section = "Merging"},
  {"minimum", text = "Calls Minimum.", section = "Merging"},
  {"concatenate", text = "Calls Concatenate.", section = "Merging"},
  {"dot", text = "Calls Dot.", section = "Merging"},
}, layers)

return layers
