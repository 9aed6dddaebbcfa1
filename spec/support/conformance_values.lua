-- Code that conformance runners share: tensors from cases, tensors to numbers, comparison within a
-- case's tolerance.

local ipu = require "ipulua"

local values = {}

local special <const> = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

---A number of a case: non-finite ones are words.
---@param x number|string
---@return number
function values.number(x) return special[x] or x end

local function is_integer_type(dtype)
  return dtype ~= "bool" and not dtype:find("float", 1, true)
end

---A tensor from {shape =, dtype =, data = flat list}.
---@param t table
---@return userdata
function values.tensor(t)
  local dtype, list = t.dtype or "float32", {}
  for i, x in ipairs(t.data) do
    x = special[x] or x
    if dtype == "bool" then
      x = x == true or x == 1
    elseif is_integer_type(dtype) then
      x = math.tointeger(x) or x
    end
    list[i] = x
  end
  if #t.shape == 0 then return ipu.tensor(list[1], {dtype = dtype}) end
  if #list == 0 then return ipu.full(t.shape, 0, {dtype = dtype}) end
  return ipu.reshape(ipu.tensor(list, {dtype = dtype}), t.shape)
end

local function collect(value, flat)
  if type(value) == "table" then
    for _, item in ipairs(value) do collect(item, flat) end
  else
    if value == true then value = 1 elseif value == false then value = 0 end
    flat[#flat + 1] = value
  end
  return flat
end

---All elements of a tensor in row-major order; booleans as 0 and 1.
---@param t userdata
---@return number[]
function values.flat(t) return collect(t:totable(), {}) end

---`[2, 3]`
---@param shape integer[]
---@return string
function values.shape_text(shape) return "[" .. table.concat(shape, ", ") .. "]" end

---Whether two numbers agree: nan with nan, infinities by sign; what isn't there agrees with
---nothing. Booleans are 0 and 1, words what they stand for.
---@param got number?
---@param want number|string|boolean
---@param rtol number
---@param atol number
---@return boolean
function values.near(got, want, rtol, atol)
  if want == true then
    want = 1
  elseif want == false then
    want = 0
  else
    want = special[want] or want
  end
  if type(got) ~= "number" or type(want) ~= "number" then return false end
  if want ~= want then return got ~= got end
  if got == want then return true end
  local difference = math.abs(got - want)
  return difference <= atol + rtol * math.abs(want) and difference < math.huge
end

-- Of an index's integer type only that it is one is asked; all others must be as wanted.
local function same_type(got, want)
  if is_integer_type(want) then return is_integer_type(got) end
  return got == want
end

---nil when a tensor is as wanted, else words. Integers and booleans must be equal.
---@param what string
---@param got userdata?
---@param want table a tensor of a case
---@param rtol number
---@param atol number
---@return string?
function values.compare(what, got, want, rtol, atol)
  if got == nil then return what .. ": there is none" end
  local shape, wanted = values.shape_text(got.shape), values.shape_text(want.shape)
  if shape ~= wanted then
    return string.format("%s: the shape is %s, expected %s", what, shape, wanted)
  end
  local dtype = want.dtype or "float32"
  if not same_type(got.dtype, dtype) then
    return string.format("%s: the dtype is %s, expected %s", what, got.dtype, dtype)
  end
  if dtype == "bool" or is_integer_type(dtype) then rtol, atol = 0, 0 end
  local found = values.flat(got)
  if #found ~= #want.data then
    return string.format("%s: %d elements, expected %d", what, #found, #want.data)
  end
  for i, x in ipairs(found) do
    if not values.near(x, want.data[i], rtol, atol) then
      return string.format("%s: element %d is %.9g, expected %.9g", what, i - 1, x,
        values.number(want.data[i]))
    end
  end
  return nil
end

---JSON's null is whatever the decoder makes of it: anything that is no table.
function values.is_given(t) return type(t) == "table" and t.shape ~= nil end

return values
