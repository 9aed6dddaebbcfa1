-- Shapes of what a function gives, found by calling it with symbolic tensors in a trace that is
-- thrown away. Unknown extents are tried with two different numbers; what differs in the results is
-- unknown there too.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local context = require "ipulua.keras.base.context"
local nest = require "ipulua.base.nest"
local tracing = require "ipulua.trace.tracing"

local infer = {}

local guesses <const> = {61, 67}

---Whether a shape has an unknown extent.
---@param shape integer[]
---@return boolean
function infer.is_open(shape)
  for _, extent in ipairs(shape) do
    if extent < 0 then return true end
  end
  return false
end

---The shape with unknown extents replaced.
---@param shape integer[]
---@param guess integer
---@return integer[]
function infer.close(shape, guess)
  local closed = {}
  for i, extent in ipairs(shape) do closed[i] = extent < 0 and guess or extent end
  return closed
end

---Words about a guess that a message shows, or a multiple of it (after flattening), since no script
---wrote that number. Numbers in names, such as dense_61, are none.
---@param guess integer a prime that few shapes have in them
---@param means string what the guess stands for
---@param advice string what to do where it was flattened together with other axes
---@return fun(message: string): string for blame.explaining; "" without such a number
function infer.explainer(guess, means, advice)
  return function(message)
    for text in message:gmatch("%f[%w._]%d+%f[^%w._]") do
      local number = tonumber(text)
      if number == guess then return string.format(" (%d stands for %s)", guess, means) end
      if number > 0 and number % guess == 0 then
        return string.format(" (%d is %d times %d, which stands for %s; %s)", number,
          number // guess, guess, means, advice)
      end
    end
    return ""
  end
end

local unknown <const> = "an extent that is not known yet, such as the batch"
local make_known <const> = "keras.Input{shape =, batch_size =} makes it known"

-- A symbolic tensor like a leaf of the arguments. If the leaf has a mask, so has the tensor.
local function symbolic_like(leaf, guess)
  local mask <const> = rawget(leaf, "mask_type")
  local t = core.trace_argument(leaf.dtype, infer.close(leaf.shape, guess), "input")
  if mask then
    context.set_mask(t, core.trace_argument(mask.dtype, infer.close(mask.shape, guess), "mask"))
  end
  return t
end

local function type_of(leaf)
  local dtype, shape = core.type_of(leaf)
  return dtype and setmetatable({dtype = dtype, shape = shape}, infer.Type)
end

-- The types of f's results, a list of structures, for symbolic tensors like the ones in `given`.
local function try(f, given, is_spec, guess, is_open)
  local _ <close> = tracing.guard()
  local _ <close> = context.infer()
  local _ <close> = is_open and blame.explaining(infer.explainer(guess, unknown, make_known)) or nil
  tracing.begin_root()
  local symbolic = {n = given.n}
  for i = 1, given.n do
    symbolic[i] = nest.map(function(leaf)
      return is_spec(leaf) and symbolic_like(leaf, guess) or leaf
    end, given[i])
  end
  local results = table.pack(f(table.unpack(symbolic, 1, symbolic.n)))
  local types = {n = results.n}
  for i = 1, results.n do
    types[i] = nest.map(function(leaf)
      local type, mask = type_of(leaf), context.mask(leaf)
      if type and mask ~= nil then type.mask_type = type_of(mask) end
      return type or leaf
    end, results[i])
  end
  tracing.give_up_root()
  return types
end

infer.Type = {__name = "TensorType"} -- the metatable of the results: a leaf of a structure

local function merge(a, b)
  for i = 1, #a.shape do
    if a.shape[i] ~= b.shape[i] then a.shape[i] = -1 end
  end
  if a.mask_type and b.mask_type then merge(a.mask_type, b.mask_type) end
end

---Types {dtype, shape, mask_type} of f's results, a list of structures with a count n.
---@param f function
---@param given table packed arguments; leaves for which is_spec holds have a shape and a dtype
---@param is_spec fun(leaf: any): boolean
---@return table
function infer.results(f, given, is_spec)
  local open = false
  for i = 1, given.n do
    open = open
      or nest.any(function(leaf) return is_spec(leaf) and infer.is_open(leaf.shape) end, given[i])
  end
  local types = try(f, given, is_spec, guesses[1], open)
  if not open then return types end
  local others = try(f, given, is_spec, guesses[2], open)
  for i = 1, types.n do
    local a, b = nest.flatten(types[i]), nest.flatten(others[i])
    for k = 1, #a do
      if getmetatable(a[k]) == infer.Type and getmetatable(b[k]) == infer.Type then
        merge(a[k], b[k])
      end
    end
  end
  return types
end

return infer
