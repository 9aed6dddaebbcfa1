-- Elements of random structures, dtypes and values, through everything that makes or keeps
-- elements, beside the same values as plain Lua tables.

local chains = require "spec.support.dataset_chains"
local ipu = require "ipulua"
local data = ipu.data

local structures = {}

local dtypes <const> = {"bool", "int32", "int64", "float32", "uint8"}
local extents <const> = {{}, {}, {2}, {3, 2}}
local names <const> = {"a", "b", "label", "x"}

-- A structure: {dtype, shape}, or {items = {{key, structure}, …}}: a tuple where keys are 1, 2 …
local function draw(random, depth)
  local kind = random(depth > 2 and 1 or 3)
  if kind == 0 then
    return {dtype = dtypes[random(#dtypes) + 1], shape = extents[random(#extents) + 1]}
  end
  local items, count = {}, random(3) + 2 -- a tuple of one comes as that one
  for i = 1, count do items[i] = {kind == 1 and i or names[i], draw(random, depth + 1)} end
  return {items = items}
end

local function number(random, dtype)
  if dtype == "bool" then return random(2) == 1 end
  if dtype == "uint8" then return random(256) end
  return (random(5) - 2) * (dtype == "int64" and 1 << 40 or 1)
end

local function numbers(random, dtype, shape, axis)
  if axis > #shape then return number(random, dtype) end
  local list = {}
  for i = 1, shape[axis] do list[i] = numbers(random, dtype, shape, axis + 1) end
  return list
end

local function map_structure(s, f)
  if s.dtype then return f(s) end
  local t = {}
  for _, item in ipairs(s.items) do t[item[1]] = map_structure(item[2], f) end
  return t
end

---Values of a structure: numbers, booleans and lists of them, as a script writes them.
function structures.values(random, s)
  return map_structure(s, function(leaf) return numbers(random, leaf.dtype, leaf.shape, 1) end)
end

---The same as tensors.
function structures.tensors(s, values)
  if s.dtype then return ipu.tensor(values, {dtype = s.dtype}) end
  local t = {}
  for _, item in ipairs(s.items) do t[item[1]] = structures.tensors(item[2], values[item[1]]) end
  return t
end

-- Values one after the other along a new first axis.
local function stacked(s, list)
  if s.dtype then return ipu.tensor(list, {dtype = s.dtype}) end
  local t = {}
  for _, item in ipairs(s.items) do
    local inner = {}
    for i, values in ipairs(list) do inner[i] = values[item[1]] end
    t[item[1]] = stacked(item[2], inner)
  end
  return t
end

-- Values that a dataset hands over: a tuple spread, all else as one value.
local function is_tuple(s) return s.items and math.type(s.items[1][1]) == "integer" end
local function arguments(s, values)
  if is_tuple(s) then return table.unpack(values, 1, #s.items) end
  return values
end
local function gathered(s, ...)
  if is_tuple(s) then return {...} end
  return (...)
end

---Text of an element: of tensors or of plain values, equal for equal ones.
function structures.text(s, value)
  if value == nil then return "nil" end
  if s.items then
    local parts = {}
    for i, item in ipairs(s.items) do
      parts[i] = item[1] .. "=" .. structures.text(item[2], value[item[1]])
    end
    return "{" .. table.concat(parts, " ") .. "}"
  end
  if type(value) ~= "table" and type(value) ~= "userdata" then
    return type(value) == "number" and string.format("%.17g", value) or tostring(value)
  end
  if type(value) == "userdata" or value.totable then
    return value.dtype == s.dtype
      and structures.text(s, value.rank == 0 and value:item() or value:totable()) or value.dtype
  end
  local parts = {}
  for i, x in ipairs(value) do parts[i] = structures.text(s, x) end
  return "[" .. table.concat(parts, " ") .. "]"
end

local function spec_of(s, field) return map_structure(s, function(leaf) return leaf[field] end) end

-- name → (structure, list of values) → dataset.
structures.sources = {
  from_tensor_slices = function(s, list) return data.from_tensor_slices(stacked(s, list)) end,
  from_generator = function(s, list, as_tensors)
    return data.from_generator(function()
      local i = 0
      return function()
        i = i + 1
        if list[i] == nil then return nil end
        return arguments(s, as_tensors and structures.tensors(s, list[i]) or list[i])
      end
    end, {output_types = spec_of(s, "dtype"), output_shapes = spec_of(s, "shape")})
  end,
  from_tensors = function(s, list)
    local d
    for _, values in ipairs(list) do
      local one = data.from_tensors(structures.tensors(s, values))
      d = d and d:concatenate(one) or one
    end
    return d
  end,
}

-- name → (dataset, structure, random) → a dataset of the same elements.
structures.stages = {
  map = function(d) return d:map(function(...) return ... end) end,
  map_eager = function(d) return d:map(function(...) return ... end, {eager = true}) end,
  map_declared = function(d, s)
    return d:map(function(...) return ... end,
      {eager = true, output_types = spec_of(s, "dtype"), output_shapes = spec_of(s, "shape")})
  end,
  map_plain = function(d, s) -- numbers, booleans and lists in place of tensors
    local function plainly(t, part)
      if part.dtype then return part.shape[1] and t:totable() or t:item() end
      local out = {}
      for _, item in ipairs(part.items) do out[item[1]] = plainly(t[item[1]], item[2]) end
      return out
    end
    return d:map(function(...) return arguments(s, plainly(gathered(s, ...), s)) end,
      {eager = true, output_types = spec_of(s, "dtype"), output_shapes = spec_of(s, "shape")})
  end,
  filter = function(d) return d:filter(function() return ipu.tensor(true) end) end,
  filter_eager = function(d) return d:filter(function() return true end, {eager = true}) end,
  batch = function(d, _, random) return d:batch(random(3) + 1):unbatch() end,
  batch_map = function(d, s, random) -- retraced for the last one
    return d:batch(random(3) + 2):map(function(...) return arguments(s,
      gathered(s, ...)) end):unbatch()
  end,
  padded_batch = function(d, _, random) return d:padded_batch(random(3) + 1):unbatch() end,
  flat_map = function(d, s)
    return d:flat_map(function(...) return data.from_tensors(gathered(s, ...)) end)
  end,
  interleave = function(d, s)
    return d:interleave(function(...) return data.from_tensors(gathered(s, ...)) end,
      {cycle_length = 2})
  end,
  enumerate = function(d, s)
    return d:enumerate():map(function(_, x) return arguments(s, x) end)
  end,
  zip = function(d, s)
    return data.zip{of = d, n = data.range(50)}:map(function(e) return arguments(s, e.of) end)
  end,
  cache = function(d) return d:cache() end,
  shuffle = function(d) return d:shuffle(1) end,
  concatenate = function(d) return d:take(1):concatenate(d:skip(1)) end,
  prefetch = function(d) return d:prefetch(2) end,
  repeat_n = function(d) return d:repeat_n(2):take(7) end,
}

local function sorted(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end
local source_names <const>, stage_names <const> = sorted(structures.sources),
  sorted(structures.stages)

---A chain for a seed: dataset, structure, list of 7 values, text.
function structures.make(seed)
  local random = chains.random_of(seed)
  local s, list = draw(random, 0), {}
  for i = 1, 7 do list[i] = structures.values(random, s) end
  local source = source_names[random(#source_names) + 1]
  local ds, words = structures.sources[source](s, list, random(2) == 1), {source}
  for _ = 1, random(4) + 1 do
    local name = stage_names[random(#stage_names) + 1]
    ds = structures.stages[name](ds, s, random)
    words[#words + 1] = name
  end
  return ds, s, list, "seed " .. seed .. ": " .. table.concat(words, ":")
end

---What a dataset gives, as texts.
function structures.read(ds, s)
  local it, out = ds:iterator(), {}
  while true do
    local values = table.pack(it:next())
    if values[1] == nil then return out end
    out[#out + 1] = structures.text(s, gathered(s, table.unpack(values, 1, values.n)))
  end
end

return structures
