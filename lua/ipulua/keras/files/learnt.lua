-- Values that layers learn by adapt, outside of training: means, vocabularies, boundaries. They are
-- no weights, since programs have them as constants. In a file they stand beside the weights.
--
-- Such a layer has two methods. _learnt() gives the values by name. _learning(values) checks the
-- values of a file, and returns a function that sets them.

local core = require "ipulua.core"

local learnt = {}

-- "norm/mean:learnt": a layer's path, the value's name, this
local mark <const> = ":learnt"
local pattern <const> = "^(.-)([^/]+):learnt$"

---Whether a name in a file names a learnt value.
---@param name string
---@return boolean
function learnt.is(name) return name:find(pattern) ~= nil end

---The names of weights, and the names of learnt values, in their order.
---@param order string[]
---@return string[] weights, string[] values
function learnt.split(order)
  local weights, values = {}, {}
  for _, name in ipairs(order) do
    local list = type(name) == "string" and learnt.is(name) and values or weights
    list[#list + 1] = name
  end
  return weights, values
end

---Adds the learnt values of layers to tensors.
---@param layers table[] {layer =, prefix =}
---@param tensors table<string, userdata> by name in the file
---@return string[] names
function learnt.collect(layers, tensors)
  local names = {}
  for _, each in ipairs(layers) do
    local first <const> = #names + 1
    for name, value in pairs(each.layer:_learnt()) do
      local path <const> = each.prefix .. name .. mark
      names[#names + 1], tensors[path] = path, core.tensor(value)
    end
    local own <const> = table.move(names, first, #names, 1, {})
    table.sort(own)
    table.move(own, 1, #own, first, names)
  end
  return names
end

-- The layers' prefixes in a file. Names that were given automatically differ when a model is made
-- twice. If one isn't there, and the file has as many, they are taken in the file's order.
local function prefixes_in(order, tensors, layers)
  local known, own, in_order, seen, missing = {}, {}, {}, {}, false
  for name in pairs(tensors) do known[name:match(pattern) or 0] = true end
  for i, each in ipairs(layers) do
    own[i], missing = each.prefix, missing or not known[each.prefix]
  end
  for _, name in ipairs(order) do
    local prefix <const> = name:match(pattern)
    if not seen[prefix] then in_order[#in_order + 1] = prefix end
    seen[prefix] = true
  end
  return missing and #in_order == #layers and in_order or own
end

-- Values that are there already aren't set: other programs would be made again.
local function is_there(values, own)
  for name in pairs(own) do
    if not values[name] then return false end
  end
  for name, t in pairs(values) do
    local has <const> = own[name]
    if not has or t.dtype ~= has.dtype or table.concat(t.shape, ",") ~= table.concat(has.shape, ",")
      or core.to_bytes(t) ~= core.to_bytes(has) then return false end
  end
  return true
end

---A plan for weights.commit: layers take the learnt values of a file. An older file has none: then
---the layers keep theirs.
---@param layers table[] {layer =, prefix =}
---@param tensors table<string, userdata>
---@param order string[] names of learnt values in the file's order
---@return table[] plan {learn = function}
---@return table<string, true> expected names
function learnt.plan(layers, tensors, order)
  local plan, expected = {}, {}
  local prefixes <const> = prefixes_in(order, tensors, layers)
  for i, each in ipairs(layers) do
    local values = {}
    for name, t in pairs(tensors) do
      local prefix, value = name:match(pattern)
      if prefix == prefixes[i] then values[value], expected[name] = t, true end
    end
    if next(values) and not is_there(values, each.layer:_learnt()) then
      plan[#plan + 1] = {learn = each.layer:_learning(values)}
    end
  end
  return plan, expected
end

return learnt
