-- Code that the conformance runners of Keras' parts share: tensors of cases, their comparison,
-- parts by name and arguments, layers and how they are called.

local class = require "ipulua.base.class"
local ipu = require "ipulua"
local names = require "ipulua.base.parts.names"
local parts = require "ipulua.base.parts"
local _ = ipu.keras -- its parts are entered
local values = require "spec.support.conformance_values"

-- ------------------------------------------------ tensors

local function read_all(list)
  local out = {}
  for i, t in ipairs(list or {}) do out[i] = values.tensor(t) end
  return out
end

---nil, or words about the first difference.
local function compare(what, got, wanted, case)
  if type(got) == "number" then got = ipu.tensor(got) end
  return values.compare(what, got, wanted, case.rtol or 1e-5, case.atol or 1e-6)
end

local function compare_all(what, got, wanted, case)
  if #got ~= #wanted then return string.format("%d %ss for %d", #got, what, #wanted) end
  for i, t in ipairs(wanted) do
    local problem = compare(what .. " " .. i - 1, got[i], t, case)
    if problem then return problem end
  end
  return nil
end

-- ------------------------------------------------ names

-- The class of a kind of part with a snake_case name, or another name that Keras knows it by.
local function find(kind, name)
  local found = parts.find(kind, name, {prefers_class = true})
  if not class.is_class(found) then error("there is no class '" .. name .. "'", 0) end
  return found
end

-- Decimals that stand for integers are integers here; null is absent.
local function plain_args(args)
  local out = {}
  for key, value in pairs(args or {}) do
    if type(value) == "table" then
      out[key] = value.data and values.tensor(value) or plain_args(value)
    elseif type(value) ~= "userdata" then
      out[key] = value
    end
  end
  return out
end

local function make_optimizer(spec)
  local options = plain_args(spec)
  options.name = nil
  if type(options.learning_rate) == "table" then
    local schedule = options.learning_rate
    local name = schedule.schedule or schedule.name
    schedule.schedule, schedule.name = nil, nil
    options.learning_rate = find("schedule", name)(schedule)
  end
  return find("optimizer", spec.name)(options)
end

-- ------------------------------------------------ layers

-- How many inputs a layer's call takes as one list, and what further ones are.
local merges <const> = {
  add = true, subtract = true, multiply = true, average = true, maximum = true, minimum = true,
  concatenate = true,
  dot = true, attention = true, additiveattention = true,
}

local not_arguments <const> = {
  training = true, mask = true, initial_state = true, query_mask = true, value_mask = true,
  causal_mask = true,
  attention_mask = true, return_attention_scores = true, use_causal_mask = true, alias = true,
}

local function layer_options(case)
  local options = plain_args(case.args)
  for name in pairs(not_arguments) do options[name] = nil end
  return options
end

-- The positional arguments and named options of a layer's call, from the inputs of a case.
local function layer_call(case, inputs)
  local a = case.args
  local options = {training = a.training or false}
  local rest = table.move(inputs, 1, #inputs, 1, {})
  local name = names.plain(case.name)
  if name == "multiheadattention" then
    if a.attention_mask then options.attention_mask = table.remove(rest) end
    options.return_attention_scores, options.use_causal_mask = a.return_attention_scores,
      a.use_causal_mask
    if #rest == 1 then rest[2] = rest[1] end
    if rest[3] then options.key = table.remove(rest, 3) end
    return rest, options
  end
  if name == "attention" or name == "additiveattention" then
    local masks = {}
    if a.value_mask then masks[2] = table.remove(rest) end
    if a.query_mask then masks[1] = table.remove(rest) end
    if next(masks) then options.mask = {masks[1] or false, masks[2] or false} end
    options.return_attention_scores, options.use_causal_mask = a.return_attention_scores,
      a.use_causal_mask
    return {rest}, options
  end
  if merges[name] then return {rest}, options end
  if a.mask then options.mask = table.remove(rest) end
  if #rest > 1 then
    local first = table.remove(rest, 1)
    if a.initial_state or name:find("cell$") then
      if name:find("cell$") then return {first, rest}, options end
      options.initial_state = rest
    else
      options.mask = rest[1]
    end
    rest = {first}
  end
  return rest, options
end

local function as_list(...)
  local results = table.pack(...)
  local out = {}
  for i = 1, results.n do
    if type(results[i]) == "table" and getmetatable(results[i]) == nil then
      table.move(results[i], 1, #results[i], #out + 1, out)
    else
      out[#out + 1] = results[i]
    end
  end
  return out
end

-- Arguments that are parts themselves: a name, {class_name =, config =}, or a name beside the
-- part's own arguments.
local part_kinds <const> = {
  {"_regularizer$", "regularizer", "l1_l2"}, {"_constraint$", "constraint"},
  {"_initializer$", "initializer"},
}

local function make_parts(options)
  for key, value in pairs(options) do
    for _, row in ipairs(part_kinds) do
      if key:find(row[1]) and type(value) == "table" and not value.class_name then
        local name = value.name or row[3]
        value.name = nil
        options[key] = find(row[2], name)(value)
      end
    end
  end
  return options
end

local make_layer

-- A layer or cell inside another: its name beside its arguments, or a table of them.
local function make_inner(given, options)
  if type(given) == "string" then return make_layer(given, options) end
  local name = given.name or given.class_name or given.class
  local inner = given.config or given.args or given
  inner.name, inner.class = nil, nil
  return make_layer(name, inner)
end

local own_of_wrappers <const> = {
  merge_mode = "layer", return_sequences = "cell", return_state = "cell", go_backwards = "cell",
  stateful = "cell",
  unroll = "cell", time_major = "cell", zero_output_for_mask = "cell",
}

function make_layer(name, options)
  if name == "time_distributed_dense" then name, options.layer = "time_distributed", "dense" end
  local wraps = options.layer and "layer" or options.cell and "cell"
  if wraps then
    local outer, inner = {}, {}
    for key, value in pairs(options) do
      if own_of_wrappers[key] == wraps then
        outer[key] = value
      elseif key ~= wraps then
        inner[key] = value
      end
    end
    outer[wraps] = make_inner(options[wraps], inner)
    options = outer
  end
  return find("layer", name)(make_parts(options))
end

return {
  read_tensor = values.tensor, read_all = read_all, close = values.near, compare = compare,
  compare_all = compare_all,
  find = find, plain_args = plain_args, make_optimizer = make_optimizer,
  layer_options = layer_options, layer_call = layer_call, as_list = as_list,
  make_layer = make_layer,
}
