-- Methods of datasets that take a function on elements.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local creation = require "ipulua.base.creation"
local Dataset = require "ipulua.data.dataset"
local drawing = require "ipulua.data.draws"
local elements = require "ipulua.data.elements"
local structure = require "ipulua.base.structure"
local host_strings = require "ipulua.data.host_strings"
local learned = require "ipulua.base.learned"
local tracing = require "ipulua.trace.tracing"

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
    blame.error(string.format("%s: the function must return tensors, got %s", who,
      args.describe(template.static)), "type")
  end
  for _, item in ipairs(template.items or {}) do check_result(who, item[2]) end
end

-- An element as words: how a function that is called with it would take it.
local function element_words(template)
  local is_tuple = elements.is_tuple(template)
  if is_tuple then return counted(#template.items, "value") end
  local names = {}
  for _, item in ipairs(template.items or {}) do
    if type(item[1]) == "string" then names[#names + 1] = item[1] end
  end
  if #names == 0 then return template.leaf and "one value" or "one list" end
  return string.format("one table, with '%s'; function(x) finds x.%s in it",
    table.concat(names, "', '"), names[1])
end

-- A function with more parameters than an element has values would find nil in the last ones.
local function check_parameters(who, f, dataset)
  local info = type(f) == "function" and debug.getinfo(f, "Su")
  if not info or blame.is_own(info.source) then return end
  local declared = info.nparams
  local given = elements.is_tuple(dataset.template) and #dataset.template.items or 1
  if declared <= given then return end
  blame.error(string.format("%s: the function has %s, but an element of the dataset is %s", who,
    counted(declared, "parameter"), element_words(dataset.template)), "type")
end

-- Trace f on components of these types → program, template of its results.
local function trace_element(who, f, types, template)
  local _ <close> = tracing.guard()
  tracing.begin_root()
  learned.keep "a dataset's function"
  local symbolic = {}
  for i, t in ipairs(types) do
    symbolic[i] = core.trace_argument(t.dtype, t.shape, "component " .. i)
  end
  local given, n = elements.spread(template, symbolic)
  local value = wrap_results(table.pack(f(table.unpack(given, 1, n))))
  if value == nil then blame.error(who .. ": the function returned nothing", "value") end
  local leaves, result_template = structure.flatten(value, structure.is_value)
  check_result(who, result_template)
  elements.check_gaps(who, result_template)
  if #leaves == 0 then blame.error(who .. ": the function returned nothing", "value") end
  for i, leaf in ipairs(leaves) do leaves[i] = structure.number_tensor(leaf) end
  return tracing.end_root(leaves, who, true), result_template
end

-- Results for elements of other shapes equal results for one shape, except in extents that are
-- known to change (-1 in a).
local function check_alike(who, a, b, template, other)
  local alike = elements.same_structure(template, other)
  for i, t in ipairs(alike and a or {}) do
    alike = alike and t.dtype == b[i].dtype and #t.shape == #b[i].shape
    for k, extent in ipairs(alike and t.shape or {}) do
      alike = alike and (extent == -1 or extent == b[i].shape[k])
    end
  end
  if alike then return end
  blame.error(string.format("%s: the function gives %s for elements of one shape, %s for "
    .. "elements of another", who, elements.text(template, a), elements.text(other, b)), "type")
end

-- Two traces with different extents show which result extents are unknown.
local function unknown_results(who, a, b, template, other)
  local types = {}
  for i, t in ipairs(a) do
    local shape = {}
    for k, extent in ipairs(t.shape) do
      shape[k] = b[i] and extent == b[i].shape[k] and extent or -1
    end
    types[i] = {dtype = t.dtype, shape = shape}
  end
  check_alike(who, types, b, template, other)
  return types
end

-- A call that the library itself refuses would fail in Lua, too, and its error stays. So does one
-- of a misspelt name. The exception are questions for values.
local function refuse(who, message)
  local own = blame.last and message:sub(-#blame.last.message) == blame.last.message
  local fails_in_lua = own or message:find("; did you mean '", 1, true)
  if fails_in_lua and not message:find("is not known while a function is traced", 1, true) then
    error(message, 0)
  end
  blame.error(string.format("%s: the function can't be traced: %s; {eager = true} runs it in Lua, "
    .. "element by element", who, message), "value")
end

-- Extents that are tried in place of unknown ones. Result extents that change with them are
-- unknown.
local trials <const> = {{2, 3}, {61, 67}}

-- The program of f on the elements; nil if it calls what computes in Lua.
local function trace_function(who, f, dataset)
  local types = dataset.handle:types()
  local streams, counters, draws = core.random_place()
  local _ <close> = setmetatable({}, {__close = function(_, problem)
    if problem ~= nil then core.set_random_place(streams, counters, draws) end
  end})
  for _, t in ipairs(types) do
    if t.nested then
      blame.error(who .. ": components that are datasets need {eager = true}, or flat_map", "value")
    end
  end
  local first, second = table.unpack(trials[1])
  host_strings.wanted = nil
  local ok, program, template = blame.attempt(trace_element, who, f,
    elements.representative(types, first), dataset.template)
  if not ok and host_strings.wanted then return nil end
  if not ok and elements.has_unknown(types) then -- it may need longer ones
    first, second = table.unpack(trials[2])
    core.set_random_place(streams, counters, draws)
    local longer, made, made_template = blame.attempt(trace_element, who, f,
      elements.representative(types, first), dataset.template)
    if longer then ok, program, template = longer, made, made_template end
  end
  if not ok then refuse(who, tostring(program)) end
  if not elements.has_unknown(types) then return program, template end
  local other, other_template = trace_element(who, f, elements.representative(types, second),
    dataset.template)
  local results = unknown_results(who, program:result_types(), other:result_types(), template,
    other_template)
  -- when a shape comes first doesn't matter: its random ops draw the same numbers
  local function retrace(static)
    local streams_now, counters_now, draws_now = core.random_place()
    core.set_random_place(streams, counters, draws)
    local fine, made, made_template = pcall(trace_element, who, f, static, dataset.template)
    core.set_random_place(streams_now, counters_now, draws_now)
    if not fine then error(made, 0) end
    check_alike(who, results, made:result_types(), template, made_template)
    return made
  end
  return program, template, retrace, results
end

local function call_with(f, dataset, leaves)
  local given, n = elements.spread(dataset.template, elements.present(dataset, leaves))
  local results = table.pack(f(table.unpack(given, 1, n)))
  return wrap_results(results), #results > 1
end

-- The first element, or zeros of the right shapes when there is none. Looking at it changes no
-- shuffle.
local function sample(dataset)
  local it = dataset.handle:iterator(true)
  local leaves = it:next()
  it:close()
  if leaves then return leaves, true end
  leaves = {}
  for i, t in ipairs(elements.representative(dataset.handle:types(), 1)) do
    leaves[i] = creation.zeros(t.shape, {dtype = t.dtype})
  end
  return leaves, false
end

-- A Lua function's result for the first element gives the types of all results. When that element
-- comes, the result isn't computed again, so the script sees one call for each element. Where it
-- drew random numbers, that holds in the first pass alone.
local function with_sample(dataset, compute)
  local place = drawing.place()
  local input, real = sample(dataset)
  local drew, output = drawing.at(place, 0, compute, input)
  local function call(number, leaves)
    return (select(2, drawing.at(place, number, compute, leaves)))
  end
  local function f(leaves)
    local number = core.data.element_number()
    if not real then return call(number, leaves) end
    local same = core.data.same(leaves, input) and (number == 0 or not drew)
    local known = output
    input, output, real = nil, nil, false
    if same then return known end
    return call(number, leaves)
  end
  return f, output
end

local map_spec <const> = {
  {"f", "callable"},
  {"num_parallel_calls", "integer", 0, range = "[-1, inf)",
    says = "elements at a time; 0: one, -1: as many as the host has threads"},
  {"eager", "boolean", false},
  {"deterministic", "boolean", true, says = "changes nothing: order stays"},
  {"output_types", "any", optional = true, of = "dtype or table of dtypes",
    says = "of f's results; for eager"},
  {"output_shapes", "any", optional = true, of = "shape or table of shapes",
    says = "-1 where an extent varies; for eager"},
}

-- The types of an eager map's results: as declared, dtypes and shapes or shapes alone, else as the
-- first element has them.
---@param unknown integer how many axes may differ in other elements
local function learnt_types(list, template, shapes, unknown)
  local types = {}
  for i, leaf in ipairs(list) do
    local dtype, shape = core.type_of(leaf)
    for k = 1, math.min(#shape, unknown) do shape[k] = -1 end
    types[i] = {dtype = dtype, shape = shape}
  end
  if shapes == nil then return types end
  local dtypes = {}
  local text = host_strings.components(template) or {}
  for i, t in ipairs(types) do dtypes[i] = text[i] and "string" or t.dtype end
  return (elements.generator_types("map", structure.rebuild(template, dtypes), shapes))
end

-- The last axis of any component that differs among elements; 0: none.
local function last_unknown(types)
  local last = 0
  for _, t in ipairs(types) do
    for k, extent in ipairs(t.shape) do last = extent < 0 and math.max(last, k) or last end
  end
  return last
end

-- A Lua function called for each element, on the script's thread.
---@param keeps_axes boolean? whether the axes of results follow those of elements
local function map_eager(self, a, keeps_axes)
  local types, template
  if a.output_types then
    if a.output_shapes == nil then
      blame.error("map: output_types needs output_shapes beside it", "value")
    end
    types, template = elements.generator_types("map", a.output_types, a.output_shapes)
    return Dataset(self.handle:map_host(drawing.of_elements(function(leaves)
      return elements.checked_element("map", template, types, (call_with(a.f, self, leaves)))
    end), types), template)
  end
  -- of elements that differ in shape the results may, too; of a batch of texts in their number
  local unknown = last_unknown(self.handle:types())
  if unknown > 0 and not keeps_axes then
    unknown = host_strings.components(self.template) and 1 or math.maxinteger
  end
  local function compute(leaves)
    local value, several = call_with(a.f, self, leaves)
    if types then return elements.checked_element("map", template, types, value) end
    local list
    list, template = elements[several and "tuple_components" or "components"](value, "map")
    types = learnt_types(list, template, a.output_shapes, unknown)
    if a.output_shapes then return elements.checked_element("map", template, types, value) end
    return list
  end
  local f = with_sample(self, compute)
  return Dataset(self.handle:map_host(f, types), template)
end

---f of every element, in order; traced once, run on worker threads. With {eager = true} it is
---called in Lua instead. Its types are then learnt from the first element, unless output_types and
---output_shapes say them. Elements with strings are for Lua, too. So is an f that calls Hashing,
---StringLookup or TextVectorization.
---Shapes: as f gives them
---Errors: f can't be traced (it asks for a value, or opens a file); without eager, errors of its
---ops: `ds:map(function(i) return i:item() end)`
---@return Dataset
function Dataset:map(...)
  local a = args.check("map", map_spec, ...)
  check_parameters("map", a.f, self)
  if a.eager or host_strings.components(self.template) then return map_eager(self, a) end
  if a.output_types ~= nil or a.output_shapes ~= nil then
    blame.error("map: output_types and output_shapes are for {eager = true}; a traced function's"
      .. " results have types of their own", "value")
  end
  local program, template, retrace, results = trace_function("map", a.f, self)
  if not program then return map_eager(self, a, true) end
  return Dataset(self.handle:map(a.num_parallel_calls, program, retrace, results), template)
end

local predicate_rows <const> = {{"predicate", "callable"}}
local filter_spec <const> = {predicate_rows[1], {"eager", "boolean", false}}

-- The result of a predicate called in Lua, in the form of a traced one's.
local function answer_of(who, value)
  if type(value) == "boolean" then return core.tensor(value, "bool") end
  if core.is_tensor(value) then
    local dtype, shape = core.type_of(value)
    if dtype == "bool" and #shape == 0 then return value end
  end
  blame.error(who .. ": the predicate must give one bool scalar, got " .. args.describe(value),
    "type")
end

-- A predicate that is called in Lua, as datasets of the core take it.
local function predicate_function(who, predicate, dataset)
  return drawing.of_elements(function(leaves)
    return {answer_of(who, (call_with(predicate, dataset, leaves)))}
  end)
end

---The elements for which predicate gives true (a bool scalar).
---Shapes: predicate [...] → []; elements as they were
---Errors: a predicate that can't be traced or gives no bool scalar:
---`ds:filter(function(i) return ipu.tensor{true, false} end)`
---@return Dataset
function Dataset:filter(...)
  local a = args.check("filter", filter_spec, ...)
  check_parameters("filter", a.predicate, self)
  local program, template, retrace, results
  if not a.eager and not host_strings.components(self.template) then
    program, template, retrace, results = trace_function("filter", a.predicate, self)
  end
  if not program then
    return Dataset(self.handle:filter_host(predicate_function("filter", a.predicate, self)),
      self.template)
  end
  if not template.leaf then
    blame.error("filter: the predicate must give one bool scalar", "type")
  end
  return Dataset(self.handle:filter(program, retrace, results), self.template)
end

---The elements before the first one for which predicate gives false (a bool scalar). It is called
---in Lua.
---Shapes: predicate [...] → []; elements as they were
---Errors: when read, a predicate that gives no bool scalar:
---`ds:take_while(function(i) return i end):iter()()`
---@return Dataset
function Dataset:take_while(...)
  local a = args.check("take_while", predicate_rows, ...)
  check_parameters("take_while", a.predicate, self)
  return Dataset(self.handle:take_while_host(predicate_function("take_while", a.predicate, self)),
    self.template)
end

local reduce_rows <const> = {
  {"initial_state", "any", of = "number, tensor or table of them", says = "first state"},
  {"reduce_func", "callable", says = "function of the state and an element; gives the new state"},
}

---The last state. For each element in turn, f makes a new state of the state and the element. It is
---called in Lua.
---Shapes: as f gives them
---Errors: f gives nothing: `ds:reduce(0, function() end)`
---@return any
function Dataset:reduce(...)
  local a = args.check("reduce", reduce_rows, ...)
  local state = a.initial_state
  local it = self.handle:iterator()
  for leaves in function() return it:next() end do
    local given, n = elements.spread(self.template, elements.present(self, leaves))
    local results = table.pack(a.reduce_func(state, table.unpack(given, 1, n)))
    if results[1] == nil then
      blame.error("reduce: the function returned nothing; it returns the new state", "type")
    end
    state = wrap_results(results)
  end
  it:close()
  if type(state) ~= "number" then return state end
  return core.tensor(state, math.type(state) == "integer" and "int32" or "float32")
end

local apply_rows <const> = {{"transformation_func", "callable",
  says = "function that gives a dataset"}}

---f(dataset), for use in a chain of methods. f returns a dataset.
---Shapes: as in the dataset that f gives
---Errors: f gives no dataset: `ds:apply(function() return 1 end)`
---@param f fun(dataset: Dataset): Dataset
---@return Dataset
function Dataset:apply(f)
  local made = args.check("apply", apply_rows, f).transformation_func(self)
  if class.is_a(made, Dataset) then return made end
  blame.error("apply: the function must return a dataset, got " .. args.describe(made), "type")
end

-- f makes a dataset of an element. The first one's elements give the types of all.
local function dataset_function(who, f, dataset)
  check_parameters(who, f, dataset)
  local template
  local make, first = with_sample(dataset, function(leaves)
    local made = call_with(f, dataset, leaves)
    if not class.is_a(made, Dataset) then
      blame.error(who .. ": the function must return a dataset, got "
        .. args.describe(made), "type")
    end
    template = template or made.template
    if not elements.same_structure(template, made.template) then
      blame.error(string.format("%s: the datasets that the function makes have elements %s and %s",
        who, elements.text(template),
        elements.text(made.template)), "type")
    end
    return made.handle
  end)
  local types = first:types()
  -- the datasets of other elements may be longer or shorter batches and windows
  if elements.has_unknown(dataset.handle:types()) then
    for _, t in ipairs(types) do
      for k in ipairs(t.shape) do t.shape[k] = -1 end
    end
  end
  return make, types, template
end

local interleave_spec <const> = {
  {"f", "callable"}, {"cycle_length", "integer", 1, range = "[1, 1048576]",
    says = "datasets in turn"},
  {"block_length", "integer", 1, range = "[1, inf)", says = "elements of one before the next"},
  {"num_parallel_calls", "integer", optional = true, says = "changes nothing"},
}

---Elements of the datasets that f makes, cycle_length of them in turn, block_length at a time.
---Shapes: as in the datasets that f makes
---Errors: f gives no dataset, a cycle_length or block_length below 1:
---`ds:interleave(function() return ds end, {cycle_length = 0})`
---@return Dataset
function Dataset:interleave(...)
  local a = args.check("interleave", interleave_spec, ...)
  local make, types, template = dataset_function("interleave", a.f, self)
  return Dataset(self.handle:interleave(make, types, a.cycle_length, a.block_length), template)
end

local flat_map_spec <const> = {{"f", "callable"}}

---Elements of the datasets that f makes, one dataset after another.
---Shapes: as in the datasets that f makes
---Errors: f gives no dataset: `ds:flat_map(function(i) return i end)`
---@return Dataset
function Dataset:flat_map(...)
  local a = args.check("flat_map", flat_map_spec, ...)
  local make, types, template = dataset_function("flat_map", a.f, self)
  return Dataset(self.handle:flat_map(make, types), template)
end
