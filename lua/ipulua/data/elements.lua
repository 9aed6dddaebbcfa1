-- How the elements of datasets nest: several values are a tuple, a table with names is a dict, one
-- tensor is itself. A template says it, and in which order the flat list of tensors has the
-- components.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local nearest = require "ipulua.nearest"
local plain = require "ipulua.base.plain"
local structure = require "ipulua.base.structure"
local host_strings = require "ipulua.data.host_strings"

local elements = {single = {leaf = 1}, AUTOTUNE = -1}

function elements.is_tuple(template)
  if not template.items then return false end
  for _, item in ipairs(template.items) do
    if math.type(item[1]) ~= "integer" then return false end
  end
  return true
end

-- An element as arguments: a tuple is spread, anything else is one value.
function elements.spread(template, leaves)
  if elements.is_tuple(template) then
    local list = {}
    for i, item in ipairs(template.items) do list[i] = structure.rebuild(item[2], leaves) end
    return list, #template.items
  end
  return {structure.rebuild(template, leaves)}, 1
end

---The values of an element, as a function that is mapped over a dataset returns them. A list alone
---would be taken for several values, so it stands in a list of its own.
---@param values any[]
---@param count integer
---@return any ...
function elements.returned(values, count)
  if count == 1 and args.is_list(values[1]) then return {values[1]} end
  return table.unpack(values, 1, count)
end

-- Whether it is a number, or nested lists of numbers, which become one tensor.
local function holds_numbers(value)
  if type(value) ~= "table" then return false end
  local first = value[1]
  for _ = 1, 100 do -- a list may hold itself
    if not plain.is(first) then break end
    first = first[1]
  end
  if type(first) ~= "number" and type(first) ~= "boolean" then return false end
  for _, each in ipairs(type(value[1]) == "table" and value or {}) do -- {numbers, texts}
    if host_strings.is(each) then return false end
  end
  return true
end

local function is_component(v)
  return structure.is_value(v) or host_strings.is(v) or holds_numbers(v)
end

local function component(who, leaf)
  if core.is_symbolic(leaf) then
    blame.error(who .. ": a symbolic tensor has no value to make a dataset of", "value")
  end
  if host_strings.is(leaf) then return host_strings.tensor(who, leaf) end
  return core.is_variable(leaf) and leaf:read_value() or core.tensor(leaf)
end

-- Without its gaps a list would have its values in other places.
local function refuse_gap(who, at, further)
  blame.error(string.format("%s: an element has a value at position %d and nil at position %d", who,
    further, at), "value")
end

---Raises if a list of an element has a gap: a nil before a value.
---@param who string
---@param template table
function elements.check_gaps(who, template)
  local expected = 1
  for _, item in ipairs(template.items or {}) do
    if math.type(item[1]) == "integer" then
      if item[1] ~= expected then refuse_gap(who, expected, item[1]) end
      expected = expected + 1
    end
    elements.check_gaps(who, item[2])
  end
end

---The components of a nested value: tensors, numbers and nested lists of numbers, strings and lists
---of strings.
---@return userdata[] leaves, table template
function elements.components(value, who)
  local leaves, template = structure.flatten(value, is_component)
  elements.check_gaps(who, template)
  local function check(t)
    if t.leaf then
      t.text = host_strings.is(leaves[t.leaf]) or nil
      leaves[t.leaf] = component(who, leaves[t.leaf])
    end
    if t.static ~= nil then
      blame.error(who .. ": a dataset holds tensors, got " .. args.describe(t.static), "type")
    end
    for _, item in ipairs(t.items or {}) do check(item[2]) end
  end
  check(template)
  if #leaves == 0 then blame.error(who .. ": there is no tensor in the element", "value") end
  return leaves, template
end

---The components of several values, a tuple: a list of numbers is a component of its own.
---@return userdata[] leaves, table template
function elements.tuple_components(values, who)
  local leaves, items = {}, {}
  for i in next, values do
    if i > 1 and values[i - 1] == nil then refuse_gap(who, i - 1, i) end
  end
  for i, value in ipairs(values) do
    local own, template = elements.components(value, who)
    items[i] = {i, elements.shifted(template, #leaves)}
    table.move(own, 1, #own, #leaves + 1, leaves)
  end
  return leaves, {items = items}
end

---Whether two templates nest alike, names included.
function elements.same_structure(a, b) return structure.key(a) == structure.key(b) end

---`{a = float32[2], b = {int32[], int32[]}}`: how elements nest, with their types or without.
function elements.text(template, types)
  if template.leaf then
    local t = types and types[template.leaf]
    if t and template.text then return structure.type_text("string", t.shape) end
    return t and structure.type_text(t.dtype, t.shape) or "a tensor"
  end
  local parts, tuple = {}, elements.is_tuple(template)
  for i, item in ipairs(template.items) do
    parts[i] = (tuple and "" or tostring(item[1]) .. " = ") .. elements.text(item[2], types)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function is_shape(v)
  if type(v) ~= "table" then return false end
  for _, extent in pairs(v) do
    if math.type(extent) ~= "integer" then return false end
  end
  return true
end

-- The shapes of output_shapes, in the order of a template's components.
local function generator_shapes(who, template, count, shapes)
  if count == 1 and template.leaf then shapes = {shapes} end
  local list, nested = structure.flatten(shapes, is_shape)
  if #list ~= count then
    blame.error(string.format("%s: output_types has %s, output_shapes has %d", who,
      counted(count, "component"), #list), "value")
  end
  if not template.leaf and not elements.same_structure(template, nested) then
    blame.error(string.format("%s: output_shapes must have the structure of output_types, %s", who,
      elements.text(template)), "value")
  end
  return list
end

-- {dtype, shape} lists for output_types and output_shapes in one structure.
function elements.generator_types(who, types, shapes)
  local leaves, template = structure.flatten(types, function(v) return type(v) == "string" end)
  elements.check_gaps(who, template)
  local list = {}
  for i, shape in ipairs(generator_shapes(who, template, #leaves, shapes)) do
    list[i] = {dtype = leaves[i] == "string" and "int64" or leaves[i], shape = shape}
  end
  local function mark(t)
    if t.leaf then t.text = leaves[t.leaf] == "string" or nil end
    for _, item in ipairs(t.items or {}) do mark(item[2]) end
  end
  mark(template)
  return list, template
end

-- A component as a tensor of the declared dtype. A tensor of another one must keep its values where
-- that holds whole numbers, as numbers must.
local function checked_component(who, value, dtype)
  local tensor = core.tensor(value, dtype, who .. ": what an element holds")
  if not core.is_tensor(value) then return tensor end
  local own = core.type_of(value)
  local rounds = dtype == "float16" or dtype == "bfloat16" or dtype == "float32"
    or dtype == "float64"
  if own == dtype or rounds or core.data.same({core.tensor(tensor, own)}, {value}) then
    return tensor
  end
  blame.error(string.format("%s: a component is declared %s, but an element has %s values that it"
    .. " can't hold", who, dtype, own), "value")
end

local function check_names(who, items, value)
  local known = {}
  for _, item in ipairs(items) do known[item[1]] = true end
  for key in next, value do
    if not known[key] then
      blame.error(string.format("%s: an element has a component '%s', which is not declared", who,
        tostring(key)), "value")
    end
  end
end

-- The results of a host function, as tensors of the declared types.
function elements.checked_element(who, template, types, value)
  local leaves = {}
  local function walk(t, v)
    if t.leaf then
      local want = types[t.leaf]
      local tensor = t.text and host_strings.tensor(who, v) or checked_component(who, v, want.dtype)
      local _, shape = core.type_of(tensor)
      local fits = #shape == #want.shape
      for i = 1, #want.shape do
        fits = fits and (want.shape[i] == -1 or want.shape[i] == shape[i])
      end
      if not fits then
        blame.error(string.format("%s: a component is declared %s, but an element has %s", who,
          structure.type_text(want.dtype, want.shape), structure.type_text(want.dtype, shape)),
          "invalid_argument")
      end
      leaves[t.leaf] = tensor
      return
    end
    local is_plain = structure.is_plain(v)
    for _, item in ipairs(t.items) do
      local inner
      if is_plain then inner = v[item[1]] end
      if inner == nil then
        blame.error(string.format("%s: an element has no component '%s'", who, tostring(item[1])),
          "value")
      end
      walk(item[2], inner)
    end
    check_names(who, t.items, v)
  end
  walk(template, value)
  return leaves
end

function elements.shifted(template, by)
  if template.leaf then return {leaf = template.leaf + by, text = template.text} end
  local items = {}
  for i, item in ipairs(template.items) do items[i] = {item[1], elements.shifted(item[2], by)} end
  return {items = items}
end

function elements.has_unknown(types)
  for _, t in ipairs(types) do
    for _, extent in ipairs(t.shape) do
      if extent < 0 then return true end
    end
  end
  return false
end

-- Element types to trace with: unknown extents are tried as `extent`.
function elements.representative(types, extent)
  local list = {}
  for i, t in ipairs(types) do
    local shape = {}
    for k, known in ipairs(t.shape) do shape[k] = known < 0 and extent or known end
    list[i] = {dtype = t.dtype, shape = shape}
  end
  return list
end

---An element as Lua gets it: components that are datasets themselves (windows) come as datasets,
---texts as strings.
function elements.present(dataset, leaves)
  local shown, text = leaves, host_strings.components(dataset.template) or {}
  for i, t in ipairs(dataset.handle:types()) do
    if t.nested or text[i] then
      if shown == leaves then shown = table.move(leaves, 1, #leaves, 1, {}) end
      shown[i] = t.nested and class.of(dataset)(core.data.from_slices{leaves[i]},
        {leaf = 1, text = text[i]}) or host_strings.value(leaves[i])
    end
  end
  return shown
end

-- A function that gives one element after another, and the C iterator.
function elements.reader(dataset)
  local it = dataset.handle:iterator()
  return function()
    local leaves = it:next()
    if not leaves then
      it:close() -- its threads and buffers
      return nil
    end
    local given, n = elements.spread(dataset.template, elements.present(dataset, leaves))
    return table.unpack(given, 1, n)
  end, it
end

-- Raise if name is a slip of the pen for one of the known names.
function elements.suggest(what, name, known)
  local names = {}
  for key in pairs(known) do
    if type(key) == "string" and key:sub(1, 1) ~= "_" then names[#names + 1] = key end
  end
  table.sort(names)
  local near = nearest.find(name, names)
  if near then
    blame.error(string.format("%s has no '%s'; did you mean '%s'?", what, name, near), "value")
  end
end

return elements
