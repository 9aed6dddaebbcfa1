-- ipu.data: datasets. The work is done in C, on flat lists of tensors; here are names, arguments,
-- and how elements nest.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local Dataset = require "ipulua.data.dataset"
local draws = require "ipulua.data.draws"
local elements = require "ipulua.data.elements"
local elsewhere = require "ipulua.base.elsewhere"
local infeed = require "ipulua.data.infeed"
local plain = require "ipulua.base.plain"
local structure = require "ipulua.base.structure"
require "ipulua.data.functions"
require "ipulua.data.order"

local data = {AUTOTUNE = elements.AUTOTUNE, Dataset = class.guard(Dataset),
  IPUInfeedQueue = infeed.IPUInfeedQueue}

-- Several tensors are one argument: a list.
local function check_single(who, ...)
  if select("#", ...) == 0 then return end
  blame.error(string.format("%s takes one argument, got %d; several tensors go in a list, %s{x, y}",
    who, select("#", ...) + 1, who), "type")
end

---One element: x, in any structure.
---Shapes: any → one element of those shapes
---Errors: no tensor in x, a symbolic one: `data.from_tensors{}`
---@param x any a tensor, a number, or a table of them
---@return Dataset
function data.from_tensors(x, ...)
  check_single("from_tensors", ...)
  local leaves, template = elements.components(x, "from_tensors")
  return Dataset(core.data.from_tensors(leaves), template)
end

---Slices along the first axis, which must be equally long in all components.
---Shapes: [n, ...] in each component → n elements [...]
---Errors: scalars, components of unequal lengths: `data.from_tensor_slices(1)`,
---`data.from_tensor_slices{ipu.ones{2}, ipu.ones{3}}`
---@param x any a tensor, a list of numbers, or a table of them
---@return Dataset
function data.from_tensor_slices(x, ...)
  check_single("from_tensor_slices", ...)
  local leaves, template = elements.components(x, "from_tensor_slices")
  return Dataset(core.data.from_slices(leaves), template)
end

local range_spec <const> = {{"start", "integer"}, {"stop", "integer", optional = true},
  {"step", "integer", 1}}

---int64 scalars: start, start + step … below stop. A single argument is stop, and start is 0.
---Shapes: []
---Errors: a step of 0: `data.range(0, 5, 0)`
---@return Dataset
function data.range(...)
  local a = args.check("range", range_spec, ...)
  local start, stop = a.start, a.stop
  if stop == nil then start, stop = 0, start end
  return Dataset(core.data.range(start, stop, a.step), elements.single)
end

local generator_spec <const> = {
  {"f", "callable"}, {"output_types", "any", of = "dtype or table of dtypes",
    says = "of the components, in their structure"},
  {"output_shapes", "any", optional = true, of = "shape or table of shapes",
    says = "in the same structure; -1 where an extent varies"},
}

-- f(). An error about a yield, as in a Python generator, explains the form that is needed here.
local function start(f)
  local results = table.pack(blame.pcall(f))
  if results[1] then return table.unpack(results, 2, results.n) end
  local problem = results[2]
  if type(problem) == "string" and problem:find("attempt to yield", 1, true) then
    problem = problem .. "; the function returns an iterator: a generator that yields is "
      .. "coroutine.wrap(function() … end)"
  end
  error(problem, 0)
end

-- The values of an iterator: several values are a tuple, which may also come as one table.
local function element_of(template, values)
  local count = values.n
  values.n = nil
  while values[count] == nil do count = count - 1 end
  if count > 1 then return values end
  local one_table = structure.is_plain(values[1])
  if not elements.is_tuple(template) or (one_table and #template.items > 1) then
    return values[1]
  end
  return values
end

---f is called at each start and returns an iterator as `for` takes it.
---Shapes: output_shapes, in the structure of output_types; -1 where an extent varies
---Errors: no output_shapes; when read, an element of another shape or without a component:
---`data.from_generator(ipairs, "float32")`
---@return Dataset
function data.from_generator(...)
  local a = args.check("from_generator", generator_spec, ...)
  if a.output_shapes == nil then
    blame.error("from_generator: 'output_shapes' must be given: an infeed needs every shape",
      "value")
  end
  local types, template = elements.generator_types("from_generator", a.output_types,
    a.output_shapes)
  local place = draws.place()
  local beginning = draws.beside(place) -- of what it draws before its first element
  local function open()
    local _, step, state, control = draws.at(beginning, core.data.element_number(), start, a.f)
    local meta = getmetatable(step)
    if type(step) ~= "function" and not (type(meta) == "table" and meta.__call) then
      blame.error("from_generator: the function must return an iterator, as `for` takes it; it "
        .. "returned " .. args.describe(step),
        "type")
    end
    return function()
      local values = table.pack(select(2, draws.at(place, core.data.element_number(), step, state,
        control)))
      control = values[1]
      if control == nil then return nil end
      return elements.checked_element("from_generator", template, types,
        element_of(template, values))
    end
  end
  return Dataset(core.data.from_generator(open, types), template)
end

---Elements of several datasets side by side; ends with the shortest. A table of datasets gives
---elements in its structure.
---Shapes: as in the datasets
---Errors: an argument that is no dataset: `data.zip(1)`
---@param ... Dataset|table
---@return Dataset
function data.zip(...)
  local given = {...}
  for i = 1, select("#", ...) do
    if given[i] == nil then
      blame.error(string.format("zip: argument %d must be a dataset, got nil", i), "type")
    end
  end
  if #given == 1 and structure.is_plain(given[1]) then given = given[1] end
  local handles, offset = {}, 0
  local function walk(value, name, depth)
    if class.is_a(value, Dataset) then
      handles[#handles + 1] = value.handle
      local template = elements.shifted(value.template, offset)
      offset = offset + #value.handle:types()
      return template
    end
    if not structure.is_plain(value) then
      blame.error(string.format("zip: argument %s must be a dataset, got %s", name,
        args.describe(value)), "type")
    end
    local items, inner = {}, plain.deeper(depth)
    for i, key in ipairs(structure.sorted_keys(value)) do
      items[i] = {key, walk(value[key], tostring(key), inner)}
    end
    return {items = items}
  end
  local template = walk(given, "", 0)
  elements.check_gaps("zip", template)
  if #handles == 0 then blame.error("zip: no dataset is given", "value") end
  return Dataset(core.data.zip(handles), template)
end

local buffer_spec <const> = {{"dataset", Dataset},
  {"buffer_size", "integer", range = "[1, inf)", says = "elements"}}

---The first buffer_size elements, kept in memory.
---Shapes: as in the dataset
---Errors: a size below 1; its iterator's next() beyond the last element:
---`data.BufferDataset(ds, 0)`
---Source: ipu.data.ops.dataset_ops.BufferDataset of Graphcore's TensorFlow 2.6
---@return Dataset
function data.BufferDataset(...)
  local a = args.check("BufferDataset", buffer_spec, ...)
  return Dataset(a.dataset.handle:buffer(a.buffer_size), a.dataset.template)
end

---Every public name, for completion and help.
---@package
function data.__names()
  local names = {}
  for _, module in ipairs{data, (require "ipulua.data.files")} do
    for name in next, module do
      -- that one is in ipu
      if name:sub(1, 1) ~= "_" and name ~= "IPUInfeedQueue" then names[#names + 1] = name end
    end
  end
  table.sort(names)
  return names
end

-- tf.data.Dataset.from_tensor_slices: the class also has the functions that make datasets.
local makers <const> = {"from_tensors", "from_tensor_slices", "from_generator", "range", "zip"}
local made = {}
for _, name in ipairs(makers) do made[name] = data[name] end
getmetatable(Dataset).__index = made

-- Readers of files load when first asked for.
setmetatable(data, {__index = function(_, name)
  if type(name) ~= "string" then return nil end
  local files = require "ipulua.data.files"
  if files[name] then return files[name] end
  local known = elsewhere.hint("ipu.data", name)
  if known then blame.error(string.format("ipu.data has no '%s'%s", name, known), "value") end
  elements.suggest("ipu.data", name, files)
  elements.suggest("ipu.data", name, data)
end})

return data
