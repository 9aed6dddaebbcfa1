-- ipu.data: datasets. The work is done in C, on flat lists of tensors; here are names, arguments, and how elements nest:
-- several values are a tuple, a table with names is a dict, one tensor is itself.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local core = require "ipulua.core"
local creation = require "ipulua.creation"
local nearest = require "ipulua.nearest"
local operation = require "ipulua.operation"
local queues = require "ipulua.queues"
local replication = require "ipulua.replication"
local structure = require "ipulua.structure"
local tracing = require "ipulua.tracing"

local data = {AUTOTUNE = -1}

---A chain of C iterators: each method makes a longer one. An element is a value, several, or a table of them.
---@class Dataset
local Dataset = class.new("Dataset")
data.Dataset = Dataset

local single <const> = {leaf = 1}

function Dataset:init(handle, template)
  self.handle = handle
  self.template = template
end

local function is_tuple(template)
  if not template.items then return false end
  for _, item in ipairs(template.items) do
    if math.type(item[1]) ~= "integer" then return false end
  end
  return true
end
data.is_tuple = is_tuple

-- An element as arguments: a tuple is spread, anything else is one value.
local function spread(template, leaves)
  if is_tuple(template) then
    local list = {}
    for i, item in ipairs(template.items) do list[i] = structure.rebuild(item[2], leaves) end
    return list, #template.items
  end
  return {structure.rebuild(template, leaves)}, 1
end
data.spread = spread

-- Components of a nested value: tensors, or numbers and nested lists of numbers, which become one tensor.
local function holds_numbers(value)
  if type(value) ~= "table" then return false end
  local first = value[1]
  for _ = 1, 100 do -- a list may hold itself
    if type(first) ~= "table" or getmetatable(first) ~= nil then break end
    first = first[1]
  end
  return type(first) == "number" or type(first) == "boolean"
end

local function components(value, who)
  local leaves, template = structure.flatten(value, function(v)
    return core.is_tensor(v) or core.is_variable(v) or type(v) == "number" or type(v) == "boolean" or holds_numbers(v)
  end)
  for i, leaf in ipairs(leaves) do
    if core.is_symbolic(leaf) then blame.error(who .. ": a symbolic tensor has no value to make a dataset of", "value") end
    leaves[i] = core.is_variable(leaf) and leaf:read_value() or core.tensor(leaf)
  end
  local function check(t)
    if t.static ~= nil then blame.error(who .. ": a dataset holds tensors, got " .. args.describe(t.static), "type") end
    for _, item in ipairs(t.items or {}) do check(item[2]) end
  end
  check(template)
  if #leaves == 0 then blame.error(who .. ": there is no tensor in the element", "value") end
  return leaves, template
end

---One element: x, in any structure.
---Shapes: any → one element of those shapes
---Errors: no tensor in x, a symbolic one: `data.from_tensors{}`
---@param x any a tensor, a number, or a table of them
---@return Dataset
function data.from_tensors(x)
  local leaves, template = components(x, "from_tensors")
  return Dataset(core.data.from_tensors(leaves), template)
end

---Slices along the first axis; all components have as many.
---Shapes: [n, ...] in each component → n elements [...]
---Errors: scalars, components of unequal lengths: `data.from_tensor_slices(1)`, `data.from_tensor_slices{ipu.ones{2}, ipu.ones{3}}`
---@param x any a tensor, a list of numbers, or a table of them
---@return Dataset
function data.from_tensor_slices(x)
  local leaves, template = components(x, "from_tensor_slices")
  return Dataset(core.data.from_slices(leaves), template)
end

local range_spec <const> = {{"start", "integer"}, {"stop", "integer", optional = true}, {"step", "integer", 1}}

---int64 scalars.
---Shapes: []
---Errors: a step of 0: `data.range(0, 5, 0)`
---@return Dataset
function data.range(...)
  local a = args.check("range", range_spec, ...)
  local start, stop = a.start, a.stop
  if stop == nil then start, stop = 0, start end
  return Dataset(core.data.range(start, stop, a.step), single)
end

-- {dtype, shape} lists for output_types and output_shapes in one structure.
local function generator_types(types, shapes)
  local leaves, template = structure.flatten(types, function(v) return type(v) == "string" end)
  local list = {}
  if #leaves == 1 and template.leaf then shapes = {shapes} end
  local function is_shape(v)
    if type(v) ~= "table" then return false end
    for _, extent in pairs(v) do
      if math.type(extent) ~= "integer" then return false end
    end
    return true
  end
  local shape_leaves = structure.flatten(shapes, is_shape)
  if #shape_leaves ~= #leaves then
    blame.error(string.format("from_generator: output_types has %d components, output_shapes has %d", #leaves, #shape_leaves),
      "value")
  end
  for i, dtype in ipairs(leaves) do list[i] = {dtype = dtype, shape = shape_leaves[i]} end
  return list, template
end

-- What a host function gave, as tensors of the declared types.
local function checked_element(who, template, types, value)
  local leaves = {}
  local function walk(t, v)
    if t.leaf then
      local want = types[t.leaf]
      local tensor = core.tensor(v, want.dtype)
      local _, shape = core.type_of(tensor)
      local fits = #shape == #want.shape
      for i = 1, #want.shape do fits = fits and (want.shape[i] == -1 or want.shape[i] == shape[i]) end
      if not fits then
        blame.error(string.format("%s: a component is declared %s, but an element has %s", who,
          structure.type_text(want.dtype, want.shape), structure.type_text(want.dtype, shape)), "invalid_argument")
      end
      leaves[t.leaf] = tensor
      return
    end
    for _, item in ipairs(t.items) do
      local inner = type(v) == "table" and v[item[1]] or nil
      if inner == nil then blame.error(string.format("%s: an element has no component '%s'", who, tostring(item[1])), "value") end
      walk(item[2], inner)
    end
  end
  walk(template, value)
  return leaves
end

local generator_spec <const> = {{"f", "callable"}, {"output_types", "any"}, {"output_shapes", "any", optional = true}}

---f is called at each start and returns an iterator as `for` takes it.
---Shapes: output_shapes, in the structure of output_types; -1 where an extent varies
---Errors: no output_shapes; when read, an element of another shape or without a component: `data.from_generator(ipairs, "float32")`
---@return Dataset
function data.from_generator(...)
  local a = args.check("from_generator", generator_spec, ...)
  if a.output_shapes == nil then
    blame.error("from_generator: 'output_shapes' must be given: an infeed needs every shape", "value")
  end
  local types, template = generator_types(a.output_types, a.output_shapes)
  local function open()
    local step, state, control = a.f()
    local meta = getmetatable(step)
    if type(step) ~= "function" and not (type(meta) == "table" and meta.__call) then
      blame.error("from_generator: the function must return an iterator, as `for` takes it; it returned " .. args.describe(step),
        "type")
    end
    return function()
      local values = table.pack(step(state, control))
      control = values[1]
      if control == nil then return nil end
      values.n = nil
      local value = values
      local one_table = #values == 1 and structure.is_plain(values[1])
      if not is_tuple(template) or (one_table and #template.items > 1) then value = values[1] end
      return checked_element("from_generator", template, types, value)
    end
  end
  return Dataset(core.data.from_generator(open, types), template)
end

local function shifted(template, by)
  if template.leaf then return {leaf = template.leaf + by} end
  local items = {}
  for i, item in ipairs(template.items) do items[i] = {item[1], shifted(item[2], by)} end
  return {items = items}
end

---Elements of several datasets side by side; ends with the shortest. A table of datasets gives elements in its structure.
---Shapes: those of the datasets
---Errors: an argument that is no dataset: `data.zip(1)`
---@param ... Dataset|table
---@return Dataset
function data.zip(...)
  local given = {...}
  if #given == 1 and structure.is_plain(given[1]) then given = given[1] end
  local handles, offset = {}, 0
  local function walk(value, name)
    if class.is_a(value, Dataset) then
      handles[#handles + 1] = value.handle
      local template = shifted(value.template, offset)
      offset = offset + #value.handle:types()
      return template
    end
    if not structure.is_plain(value) then
      blame.error(string.format("zip: argument %s is no dataset, it is %s", name, args.describe(value)), "type")
    end
    local items = {}
    for i, key in ipairs(structure.sorted_keys(value)) do items[i] = {key, walk(value[key], tostring(key))} end
    return {items = items}
  end
  local template = walk(given, "")
  if #handles == 0 then blame.error("zip: no dataset is given", "value") end
  return Dataset(core.data.zip(handles), template)
end

-- ---- functions on elements ----

local function wrap_results(results)
  local n = results.n
  results.n = nil
  if n <= 1 then
    local value = results[1]
    return value
  end
  return results
end

local function check_result(who, template)
  if template.static ~= nil then
    blame.error(string.format("%s: the function must return tensors, got %s", who, args.describe(template.static)), "type")
  end
  for _, item in ipairs(template.items or {}) do check_result(who, item[2]) end
end

-- Trace f on components of these types → program, template of its results.
local function trace_element(who, f, types, template)
  local _ <close> = tracing.guard()
  tracing.begin_root()
  local symbolic = {}
  for i, t in ipairs(types) do symbolic[i] = core.trace_argument(t.dtype, t.shape, "component " .. i) end
  local given, n = spread(template, symbolic)
  local value = wrap_results(table.pack(f(table.unpack(given, 1, n))))
  if value == nil then blame.error(who .. ": the function returned nothing", "value") end
  local leaves, result_template = structure.flatten(value, function(v)
    return core.is_tensor(v) or core.is_variable(v) or type(v) == "number" or type(v) == "boolean"
  end)
  check_result(who, result_template)
  if #leaves == 0 then blame.error(who .. ": the function returned nothing", "value") end
  for i, leaf in ipairs(leaves) do
    if math.type(leaf) == "integer" then leaves[i] = core.tensor(leaf, "int32") end
    if not core.is_tensor(leaves[i]) and not core.is_variable(leaves[i]) then leaves[i] = core.tensor(leaf) end
  end
  return tracing.end_root(leaves, who, true), result_template
end

local function has_unknown(types)
  for _, t in ipairs(types) do
    for _, extent in ipairs(t.shape) do
      if extent < 0 then return true end
    end
  end
  return false
end

-- Element types to trace with: unknown extents are tried as `extent`.
local function representative(types, extent)
  local list = {}
  for i, t in ipairs(types) do
    local shape = {}
    for k, known in ipairs(t.shape) do shape[k] = known < 0 and extent or known end
    list[i] = {dtype = t.dtype, shape = shape}
  end
  return list
end

-- Two traces with different extents tell which result extents are unknown.
local function unknown_results(a, b)
  local types = {}
  for i, t in ipairs(a) do
    local shape = {}
    for k, extent in ipairs(t.shape) do shape[k] = extent == b[i].shape[k] and extent or -1 end
    types[i] = {dtype = t.dtype, shape = shape}
  end
  return types
end

local function trace_function(who, f, dataset)
  local types = dataset.handle:types()
  for _, t in ipairs(types) do
    if t.nested then blame.error(who .. ": components that are datasets need {eager = true}, or flat_map", "value") end
  end
  local ok, program, template = pcall(trace_element, who, f, representative(types, 2), dataset.template)
  if not ok then
    blame.error(string.format("%s: the function can't be traced: %s; {eager = true} runs it in Lua, element by element", who,
      tostring(program)), "value")
  end
  if not has_unknown(types) then return program, template end
  local other = trace_element(who, f, representative(types, 3), dataset.template)
  local function retrace(static) return (trace_element(who, f, static, dataset.template)) end
  return program, template, retrace, unknown_results(program:result_types(), other:result_types())
end

-- Components that are datasets themselves (windows) come as datasets.
local function present(dataset, leaves)
  local shown = leaves
  for i, t in ipairs(dataset.handle:types()) do
    if t.nested then
      if shown == leaves then shown = table.move(leaves, 1, #leaves, 1, {}) end
      shown[i] = Dataset(core.data.from_slices{leaves[i]}, single)
    end
  end
  return shown
end

local function call_with(f, dataset, leaves)
  local given, n = spread(dataset.template, present(dataset, leaves))
  return wrap_results(table.pack(f(table.unpack(given, 1, n))))
end

-- The first element, or zeros of the right shapes when there is none. Looking at it changes no shuffle.
local function sample(dataset)
  local it = dataset.handle:iterator(true)
  local leaves = it:next()
  it:close()
  if leaves then return leaves, true end
  leaves = {}
  for i, t in ipairs(representative(dataset.handle:types(), 1)) do leaves[i] = creation.zeros(t.shape, {dtype = t.dtype}) end
  return leaves, false
end

-- What a Lua function makes of the first element tells what it makes of all; the first time that this element comes, it
-- isn't computed again, so that the script sees one call for each element.
local function with_sample(dataset, compute)
  local input, real = sample(dataset)
  local output = compute(input)
  local function f(leaves)
    if not real then return compute(leaves) end
    local same = core.data.same(leaves, input)
    local known = output
    input, output, real = nil, nil, false
    if same then return known end
    return compute(leaves)
  end
  return f, output
end

local map_spec <const> = {
  {"f", "callable"}, {"num_parallel_calls", "integer", 0}, {"eager", "boolean", false}, {"deterministic", "boolean", true},
  {"output_types", "any", optional = true}, {"output_shapes", "any", optional = true},
}

-- A Lua function called for each element, on the script's thread.
local function map_eager(self, a)
  local types, template
  if a.output_types then
    types, template = generator_types(a.output_types, a.output_shapes)
    return Dataset(self.handle:map_host(function(leaves)
      return checked_element("map", template, types, call_with(a.f, self, leaves))
    end, types), template)
  end
  local unknown = has_unknown(self.handle:types())
  local function compute(leaves)
    local value = call_with(a.f, self, leaves)
    if types then return checked_element("map", template, types, value) end
    local list
    list, template = components(value, "map")
    types = {}
    for i, leaf in ipairs(list) do
      local dtype, shape = core.type_of(leaf)
      -- of elements that differ in shape the results may, too
      for k in ipairs(unknown and shape or {}) do shape[k] = -1 end
      types[i] = {dtype = dtype, shape = shape}
    end
    return list
  end
  local f = with_sample(self, compute)
  return Dataset(self.handle:map_host(f, types), template)
end

---f of every element, in order; traced once, run on worker threads. {eager = true}: called in Lua instead; what it gives
---is learnt from the first element, unless output_types and output_shapes say it.
---Shapes: those that f gives
---Errors: f can't be traced (it asks for a value, or opens a file); without eager, what its ops say:
---`ds:map(function(i) return i:item() end)`
---@return Dataset
function Dataset:map(...)
  local a = args.check("map", map_spec, ...)
  if a.num_parallel_calls < 0 and a.num_parallel_calls ~= data.AUTOTUNE then
    blame.error("map: 'num_parallel_calls' must not be negative, got " .. a.num_parallel_calls, "value")
  end
  if a.eager then return map_eager(self, a) end
  local program, template, retrace, results = trace_function("map", a.f, self)
  return Dataset(self.handle:map(a.num_parallel_calls, program, retrace, results), template)
end

local filter_spec <const> = {{"predicate", "callable"}, {"eager", "boolean", false}}

---The elements for which predicate gives true (a bool scalar).
---Shapes: predicate [...] → []; elements as they were
---Errors: a predicate that can't be traced or gives no bool scalar: `ds:filter(function(i) return ipu.tensor{true, false} end)`
---@return Dataset
function Dataset:filter(...)
  local a = args.check("filter", filter_spec, ...)
  if a.eager then
    return Dataset(self.handle:filter_host(function(leaves)
      return {core.tensor(call_with(a.predicate, self, leaves), "bool")}
    end), self.template)
  end
  local program, template, retrace, results = trace_function("filter", a.predicate, self)
  if not template.leaf then blame.error("filter: the predicate must give one bool scalar", "type") end
  return Dataset(self.handle:filter(program, retrace, results), self.template)
end

-- f makes a dataset of an element; what the first one's elements are holds for all.
local function dataset_function(who, f, dataset)
  local template
  local make, first = with_sample(dataset, function(leaves)
    local made = call_with(f, dataset, leaves)
    if not class.is_a(made, Dataset) then
      blame.error(who .. ": the function must return a dataset, got " .. args.describe(made), "type")
    end
    template = template or made.template
    return made.handle
  end)
  local types = first:types()
  -- the datasets of other elements may be longer or shorter batches and windows
  if has_unknown(dataset.handle:types()) then
    for _, t in ipairs(types) do
      for k in ipairs(t.shape) do t.shape[k] = -1 end
    end
  end
  return make, types, template
end

local interleave_spec <const> = {
  {"f", "callable"}, {"cycle_length", "integer", 1}, {"block_length", "integer", 1},
  {"num_parallel_calls", "integer", optional = true},
}

---Elements of the datasets that f makes, cycle_length of them in turn, block_length at a time.
---Shapes: those of the datasets that f makes
---Errors: f gives no dataset, a cycle_length or block_length below 1: `ds:interleave(function() return ds end, {cycle_length = 0})`
---@return Dataset
function Dataset:interleave(...)
  local a = args.check("interleave", interleave_spec, ...)
  local make, types, template = dataset_function("interleave", a.f, self)
  return Dataset(self.handle:interleave(make, types, a.cycle_length, a.block_length), template)
end

local flat_map_spec <const> = {{"f", "callable"}}

---Elements of the datasets that f makes, one dataset after another.
---Shapes: those of the datasets that f makes
---Errors: f gives no dataset: `ds:flat_map(function(i) return i end)`
---@return Dataset
function Dataset:flat_map(...)
  local a = args.check("flat_map", flat_map_spec, ...)
  local make, types, template = dataset_function("flat_map", a.f, self)
  return Dataset(self.handle:flat_map(make, types), template)
end

-- ---- grouping and order ----

local batch_spec <const> = {{"batch_size", "integer"}, {"drop_remainder", "boolean", false}}

---Stacks batch_size elements; without drop_remainder the first extent is unknown.
---Shapes: [...] → [batch_size, ...]; [-1, ...] without drop_remainder where the count doesn't divide or is unknown
---Errors: a size below 1; when read, elements of unequal shapes: `ds:batch(0)`
---@return Dataset
function Dataset:batch(...)
  local a = args.check("batch", batch_spec, ...)
  return Dataset(self.handle:batch(a.batch_size, a.drop_remainder), self.template)
end

local padded_spec <const> = {
  {"batch_size", "integer"}, {"padded_shapes", "any", optional = true}, {"padding_values", "any", optional = true},
  {"drop_remainder", "boolean", false},
}

-- A value for each component: one for all, or in the element's structure.
local function for_components(who, what, template, given, is_value, count)
  if is_value(given) then
    local list = {}
    for i = 1, count do list[i] = given end
    return list
  end
  local list = {}
  local function walk(t, value)
    if t.leaf then
      if not is_value(value) then
        blame.error(string.format("%s: '%s' must have the element's structure", who, what), "type")
      end
      list[t.leaf] = value
      return
    end
    if not structure.is_plain(value) then
      blame.error(string.format("%s: '%s' must have the element's structure", who, what), "type")
    end
    for _, item in ipairs(t.items) do walk(item[2], value[item[1]]) end
  end
  walk(template, given)
  return list
end

local function is_shape_list(v)
  if not structure.is_plain(v) then return false end
  for _, extent in pairs(v) do
    if math.type(extent) ~= "integer" then return false end
  end
  return true
end

local function is_number_or_tensor(v) return type(v) == "number" or type(v) == "boolean" or core.is_tensor(v) end

---Batches of elements padded to one shape; -1: as long as the longest of the batch.
---Shapes: [a, ...] → [batch_size, longest or padded_shapes, ...]
---Errors: padded_shapes or padding_values of another structure; an element longer than its shape:
---`ds:padded_batch(2, {padded_shapes = "all"})`
---@return Dataset
function Dataset:padded_batch(...)
  local a = args.check("padded_batch", padded_spec, ...)
  local types, shapes, values = self.handle:types(), nil, nil
  if a.padded_shapes ~= nil then
    local list = for_components("padded_batch", "padded_shapes", self.template, a.padded_shapes, is_shape_list, #types)
    shapes = {}
    for i, t in ipairs(types) do shapes[i] = {dtype = t.dtype, shape = list[i]} end
  end
  if a.padding_values ~= nil then
    local list = for_components("padded_batch", "padding_values", self.template, a.padding_values, is_number_or_tensor, #types)
    values = {}
    for i, t in ipairs(types) do values[i] = core.tensor(list[i], t.dtype) end
  end
  return Dataset(self.handle:padded_batch(a.batch_size, a.drop_remainder, shapes, values), self.template)
end

---The slices of the elements along their first axis, one by one.
---Shapes: [n, ...] → n elements [...]
---Errors: scalars: `ds:unbatch()`
---@return Dataset
function Dataset:unbatch() return Dataset(self.handle:unbatch(), self.template) end

local window_spec <const> = {
  {"size", "integer"}, {"shift", "integer", 0}, {"stride", "integer", 1}, {"drop_remainder", "boolean", false},
}

---Elements that are datasets of size neighbours.
---Shapes: datasets of the shapes that the elements had
---Errors: a size or stride below 1: `ds:window(0)`
---@return Dataset
function Dataset:window(...)
  local a = args.check("window", window_spec, ...)
  return Dataset(self.handle:window(a.size, a.shift, a.stride, a.drop_remainder), self.template)
end

local shuffle_spec <const> = {
  {"buffer_size", "integer"}, {"seed", "integer", optional = true}, {"reshuffle_each_iteration", "boolean", true},
}

---In random order: each time one of the buffer_size elements that come next.
---Shapes: as they were
---Errors: a size below 1: `ds:shuffle(0)`
---@return Dataset
function Dataset:shuffle(...)
  local a = args.check("shuffle", shuffle_spec, ...)
  return Dataset(self.handle:shuffle(a.buffer_size, a.seed, a.reshuffle_each_iteration), self.template)
end

local repeat_spec <const>, count_spec <const> = {{"count", "integer", -1}}, {{"count", "integer"}}

local function counted(self, name, spec, ...)
  return Dataset(self.handle[name](self.handle, args.check(name, spec, ...).count), self.template)
end

---All its elements, count times; without a count for ever.
---Shapes: as they were
---Errors: a count that is no integer: `ds:repeat_n(0.5)`
---@return Dataset
function Dataset:repeat_n(...) return counted(self, "repeat_n", repeat_spec, ...) end

---The first count elements.
---Shapes: as they were
---Errors: a count that is no integer: `ds:take "one"`
---@return Dataset
function Dataset:take(...) return counted(self, "take", count_spec, ...) end

---What comes after the first count elements.
---Shapes: as they were
---Errors: a count that is no integer: `ds:skip "one"`
---@return Dataset
function Dataset:skip(...) return counted(self, "skip", count_spec, ...) end

local shard_spec <const> = {{"num_shards", "integer"}, {"index", "integer"}}

---Every num_shards-th element, from index (0-based).
---Shapes: as they were
---Errors: an index outside of 0 … num_shards - 1: `ds:shard(2, 2)`
---@return Dataset
function Dataset:shard(...)
  local a = args.check("shard", shard_spec, ...)
  return Dataset(self.handle:shard(a.num_shards, a.index), self.template)
end

local enumerate_spec <const> = {{"start", "integer", 0}}

---Pairs of an int64 number and the element.
---Shapes: [...] → [], [...]
---Errors: a start that is no integer: `ds:enumerate("a")`
---@return Dataset
function Dataset:enumerate(...)
  local a = args.check("enumerate", enumerate_spec, ...)
  return Dataset(self.handle:enumerate(a.start), {items = {{1, single}, {2, shifted(self.template, 1)}}})
end

---Its elements, then those of another dataset.
---Shapes: as they were; -1 where the two differ
---Errors: another structure, dtype or rank: `ds:concatenate(data.range(3):batch(2))`
---@param other Dataset
---@return Dataset
function Dataset:concatenate(other)
  if not class.is_a(other, Dataset) then blame.error("concatenate: the argument is no dataset", "type") end
  return Dataset(self.handle:concatenate(other.handle), self.template)
end

local cache_spec <const> = {{"filename", "string", ""}}

---Keep what the first full pass reads, in memory or in a file.
---Shapes: as they were
---Errors: a file that can't be written, when it is read: `ds:cache(1)`
---@return Dataset
function Dataset:cache(...)
  local a = args.check("cache", cache_spec, ...)
  return Dataset(self.handle:cache(a.filename), self.template)
end

local prefetch_spec <const> = {{"buffer_size", "integer", data.AUTOTUNE}}

---Read ahead on a thread; nil or data.AUTOTUNE: as far as helps.
---Shapes: as they were
---Errors: a size below -1: `ds:prefetch(-2)`
---@return Dataset
function Dataset:prefetch(...)
  local a = args.check("prefetch", prefetch_spec, ...)
  return Dataset(self.handle:prefetch(a.buffer_size), self.template)
end

---Options of other frameworks' pipelines are accepted; order is always deterministic here.
---Shapes: as they were
---@return Dataset
function Dataset:with_options() return self end

local buffer_spec <const> = {{"dataset", Dataset}, {"buffer_size", "integer"}}

---The first buffer_size elements, kept in memory.
---Shapes: those of the dataset
---Errors: a size below 1; its iterator's next() beyond the last element: `data.BufferDataset(ds, 0)`
---Source: ipu.data.ops.dataset_ops.BufferDataset of the original
---@return Dataset
function data.BufferDataset(...)
  local a = args.check("BufferDataset", buffer_spec, ...)
  return Dataset(a.dataset.handle:buffer(a.buffer_size), a.dataset.template)
end

---How many elements: -1 endless, -2 unknown.
---@return integer
function Dataset:cardinality() return self.handle:cardinality() end

-- ---- reading ----

-- A slip is an error; other names are nil, as in any table.
local function unknown(what, name, known)
  local names = {}
  for key in pairs(known) do
    if type(key) == "string" and key:sub(1, 1) ~= "_" then names[#names + 1] = key end
  end
  table.sort(names)
  local near = nearest.find(name, names)
  if near then blame.error(string.format("%s has no '%s'; did you mean '%s'?", what, name, near), "value") end
end

function Dataset:__index(name)
  if name == "element_spec" then
    local specs = {}
    for i, t in ipairs(self.handle:types()) do specs[i] = {shape = t.shape, dtype = t.dtype} end
    return structure.rebuild(self.template, specs)
  end
  local method = rawget(Dataset, name)
  if method == nil and type(name) == "string" then unknown("a dataset", name, Dataset) end
  return method
end

function Dataset:__tostring()
  local specs = {}
  for i, t in ipairs(self.handle:types()) do specs[i] = structure.type_text(t.dtype, t.shape) end
  return string.format("Dataset(%s: %s)", (self.handle:describe()), table.concat(specs, ", "))
end

-- A function that gives one element after another, and the C iterator.
local function reader(self)
  local it = self.handle:iterator()
  return function()
    local leaves = it:next()
    if not leaves then
      it:close() -- its threads and buffers
      return nil
    end
    local given, n = spread(self.template, present(self, leaves))
    return table.unpack(given, 1, n)
  end, it
end

local closer_meta <const> = {__close = function(self) self.it:close() end}

---`for x, y in ds:iter() do`: on the host, from the beginning.
---Shapes: those of the elements
---@return fun(): ...
function Dataset:iter()
  local step, it = reader(self)
  return step, nil, nil, setmetatable({it = it}, closer_meta)
end

-- ---- infeeds ----

---Raise when a program could not be fed with this dataset.
---@package
local function check_feedable(dataset, who)
  local _, source, static, remainder = dataset.handle:describe()
  for i, t in ipairs(dataset.handle:types()) do
    if t.dtype == "int64" or t.dtype == "float64" then
      blame.error(string.format("%s: component %d of the dataset is %s, which does not go to the device; cast it in map, to %s",
        who, i - 1, t.dtype, t.dtype == "int64" and "int32" or "float32"), "failed_precondition")
    end
    for _, extent in ipairs(t.shape) do
      if extent == 0 then
        blame.error(string.format("%s: component %d of the dataset has a zero-sized dimension: %s", who, i - 1,
          structure.type_text(t.dtype, t.shape)), "invalid_argument")
      end
    end
  end
  if static then return end
  local text = {}
  for i, t in ipairs(dataset.handle:types()) do text[i] = structure.type_text(t.dtype, t.shape) end
  local hint = remainder and "; batch(n, {drop_remainder = true}) makes the batch's extent known"
    .. (remainder ~= "" and " (batched at " .. remainder .. ")" or "") or ""
  blame.error(string.format("%s: every shape must be fully known, the dataset%s has %s%s", who,
    source ~= "" and " of " .. source or "", table.concat(text, ", "), hint), "value")
end
data.check_feedable = check_feedable

local most_ahead <const> = 255 -- elements

---Brings a dataset's elements into programs, read ahead by threads: what a loop of ipu.loops or a pipeline is given. Component types
---are those that the device has.
---Shapes: every extent of the elements must be known
---Errors: a dataset with unknown extents, int64 or float64 components, extents of 0; a prefetch_depth outside of 1 … 255 (nil and
---0: 3): `ipu.IPUInfeedQueue(ds)`, `ipu.IPUInfeedQueue(data.from_tensors(x), {prefetch_depth = 256})`
---Source: ipu_infeed_queue.IPUInfeedQueue of the original
---@class IPUInfeedQueue
local IPUInfeedQueue = class.new("IPUInfeedQueue")

local infeed_spec <const> = {
  {"dataset", "any"}, {"device_ordinal", "integer", optional = true}, {"prefetch_depth", "integer", optional = true},
  {"optimise_latency", "boolean", false},
}

function IPUInfeedQueue:init(...)
  local a = args.check("IPUInfeedQueue", infeed_spec, ...)
  if not class.is_a(a.dataset, Dataset) then
    blame.error("IPUInfeedQueue: 'dataset' must be a dataset, got " .. args.describe(a.dataset), "type")
  end
  local depth = a.prefetch_depth or 0
  if depth == 0 then depth = 3 end
  if depth < 1 or depth > most_ahead then
    blame.error(string.format("IPUInfeedQueue: 'prefetch_depth' must be greater than zero and at most %d, got %d", most_ahead,
      depth), "value")
  end
  check_feedable(a.dataset, "IPUInfeedQueue")
  self.dataset, self.prefetch_depth, self.read_ahead = a.dataset, depth, depth
  self.device_ordinal = queues.check_ordinal("IPUInfeedQueue", a.device_ordinal)
  self.queue = core.data.new_infeed(a.dataset.handle, depth)
  self.number_of_tuple_elements = #a.dataset.handle:types()
  self.dequeued = false
  replication.remember(self, self.queue)
end

-- Each replica may have prefetch_depth elements waiting.
function IPUInfeedQueue:set_replicas(n)
  replication.check_infeed(self, n)
  local ahead = math.min(self.prefetch_depth * n, most_ahead)
  if ahead == self.read_ahead or self.queue:state() then return end
  self.queue:replace(self.dataset.handle, ahead)
  self.read_ahead = ahead
end

---Start the queue; the first program that reads it does so by itself, but for those of sessions.
---Errors: a second call without deleter() between
---@return Operation
function IPUInfeedQueue:initializer()
  if self.initialised then
    blame.error("IPUInfeedQueue.initializer can be called only once; after deleter() it can be called again", "value")
  end
  self.queue:open()
  self.initialised = true
  return operation.new("infeed initializer")
end

---Free it; a new start begins with the dataset's first element.
---Errors: a program that runs with it
---@return Operation
function IPUInfeedQueue:deleter()
  self.queue:close()
  self.initialised = false
  return operation.new("infeed deleter")
end

function IPUInfeedQueue:get_next()
  blame.error("IPUInfeedQueue.get_next was removed; hand the queue to ipu.loops.repeat_n, or use a dataset's iterator()", "value")
end

-- In a traced function: the next element, spread.
function IPUInfeedQueue:dequeue_in_loop(who)
  if not tracing.is_active() then
    blame.error((who or "infeed") .. ": an infeed can only be read inside a compiled function", "runtime")
  end
  self.dequeued = true
  if tracing.is_graph() and not self.is_owned then self.queue:open_explicitly() end -- as in the graphs of other frameworks
  local given, n = spread(self.dataset.template, self.queue:dequeue())
  return table.unpack(given, 1, n)
end

data.IPUInfeedQueue = class.guard(IPUInfeedQueue)

---@class IPUOwnedIterator
local IPUOwnedIterator = class.new("IPUOwnedIterator")

function IPUOwnedIterator:init(dataset)
  self.infeed = IPUInfeedQueue(dataset)
  self.infeed.is_owned = true -- no script ever initialises it
  self.element_spec = dataset.element_spec
  self.where = blame.where()
end

---The next element; only inside a traced function.
function IPUOwnedIterator:next()
  if not tracing.is_active() then
    blame.error("iterator:next() works only inside a compiled function (ipu.func); the dataset is that of "
      .. (self.where or "this script"), "runtime")
  end
  return self.infeed:dequeue_in_loop("iterator:next")
end

---@class HostIterator
local HostIterator = class.new("HostIterator")

function HostIterator:init(dataset)
  self.step, self.it = reader(dataset)
  self.element_spec = dataset.element_spec
  -- a BufferDataset says so when more is asked of it than it holds
  self.strict = (dataset.handle:describe()) == "BufferDataset"
end

local function check_end(self, first, ...)
  if first == nil and self.strict then
    blame.error("iterator:next: the BufferDataset has no more elements", "out_of_range")
  end
  return first, ...
end

---The next element; nothing at the end.
function HostIterator:next() return check_end(self, self.step()) end

---Give back its threads and buffers; there are no more elements then.
function HostIterator:close() self.it:close() end

---Inside a strategy an infeed, elsewhere an iterator on the host.
---Shapes: those of the elements
---@return IPUOwnedIterator|HostIterator
function Dataset:iterator()
  local strategy = require("ipulua.strategy").current()
  if strategy and strategy.enable_dataset_iterators then return IPUOwnedIterator(self) end
  return HostIterator(self)
end

for _, c in ipairs {Dataset, IPUOwnedIterator, HostIterator} do class.guard(c) end

---Every public name, for completion and help; names of the library itself are left out.
---@package
function data.__names()
  local names = {"AUTOTUNE", "BufferDataset", "Dataset", "from_generator", "from_tensor_slices", "from_tensors", "range", "zip"}
  for name in pairs(require "ipulua.data_files") do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Readers of files load when first asked for.
setmetatable(data, {__index = function(_, name)
  if type(name) ~= "string" then return nil end
  local files = require "ipulua.data_files"
  if files[name] then return files[name] end
  unknown("ipu.data", name, files)
  unknown("ipu.data", name, data)
end})

return data
