-- fit's class_weight: samples weighed by the classes of their labels.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class_numbers = require "ipulua.keras.base.class_numbers"
local core = require "ipulua.core"
local elements = require "ipulua.data.elements"
local ops = require "ipulua.ops"

local class_weights = {}

-- Weights of the samples and of their classes, brought to one rank: columns are vectors, weights of
-- samples are of their steps.
local function multiplied(of_class, w)
  while #w.shape > #of_class.shape and w.shape[#w.shape] == 1 do w = ops.squeeze(w, {axis = -1}) end
  while #w.shape < #of_class.shape do w = ops.expand_dims(w, -1) end
  while #of_class.shape < #w.shape do of_class = ops.expand_dims(of_class, -1) end
  return of_class * ops.cast(w, "float32")
end

-- The weights of all classes, in their order.
local function in_order(class_weight)
  local count = 0
  for class_number, weight in pairs(class_weight) do
    if math.type(class_number) ~= "integer" or class_number < 0 then
      blame.error("fit: 'class_weight' is a table from class numbers (from 0) to weights", "value")
    end
    if type(weight) ~= "number" then
      blame.error(string.format("fit: 'class_weight' holds a number for each class; the weight "
        .. "of class %d is %s", class_number, args.describe(weight)), "type")
    end
    count = math.max(count, class_number + 1)
  end
  local list = {}
  for i = 1, count do
    if not class_weight[i - 1] then
      blame.error(string.format("fit: 'class_weight' must hold all classes from 0 to %d; %d is "
        .. "missing", count - 1, i - 1),
        "value")
    end
    list[i] = class_weight[i - 1]
  end
  return list
end

---class_weight = {[0] = 1, [1] = 5}: a sample's weight by its class. Without classes, as in Keras,
---samples have no weights.
---@param dataset Dataset
---@param class_weight table<integer, number>
---@return Dataset
function class_weights.apply(dataset, class_weight)
  local list = in_order(class_weight)
  if #list == 0 then return dataset end
  local weights = core.tensor(list)
  if not elements.is_tuple(dataset.template) or #dataset.template.items < 2
    or #dataset.handle:types() > 3 then
    blame.error("fit: 'class_weight' needs data with one tensor of labels beside the inputs",
      "value")
  end
  return dataset:map(function(x, y, w)
    local classes
    if #y.shape > 1 and y.shape[#y.shape] > 1 then classes = ops.argmax(y, {axis = -1})
    else
      classes = class_numbers(y)
      if #classes.shape > 1 then classes = ops.squeeze(classes, {axis = -1}) end
    end
    local of_class = ops.gather(weights, classes)
    return x, y, w and multiplied(of_class, w) or of_class
  end)
end

---A handler of errors of a dataset with class_weight. A label without a weight makes the dataset's
---gather read outside of the table of weights. The handler raises an error that names the class.
---@param class_weight table<integer, number>
---@return fun(problem: any)
function class_weights.explain(class_weight)
  local outside = string.format("dataset stage 'map'.*: gather: indices%%b[] is (%%-?%%d+), "
    .. "outside 0 … %d$", #class_weight)
  return function(problem)
    local class_number = type(problem) == "string" and problem:match(outside)
    if class_number then
      blame.error(string.format("fit: 'class_weight' must hold all classes of the labels; %s is "
        .. "missing", class_number), "value")
    end
  end
end

---Raises an error if labels in memory have a class without a weight. Labels of a dataset are
---checked while it is read.
---@param who string
---@param class_weight table<integer, number>
---@param y any
function class_weights.check(who, class_weight, y)
  if next(class_weight) == nil or not core.is_tensor(y) or #y.shape > 2
    or (#y.shape == 2 and y.shape[2] > 1) then
    return
  end
  local classes = class_numbers(y)
  for _, outermost in ipairs{ops.reduce_max(classes):item(), ops.reduce_min(classes):item()} do
    if class_weight[outermost] == nil then
      blame.error(string.format("%s: 'class_weight' must hold all classes of the labels; %d is "
        .. "missing", who, outermost), "value")
    end
  end
end

return class_weights
