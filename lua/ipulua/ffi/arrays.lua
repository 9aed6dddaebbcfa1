-- Numbers for C: nested lists, lists of integers and C's arrays, as arrays of a dtype.

local ffi = require "ffi"

return function(base)
  local raise = base.raise
  local is_tensor, is_value, is_variable = base.is_tensor, base.is_value, base.is_variable

  local element = {
    float32 = "float", float64 = "double", int8 = "int8_t", uint8 = "uint8_t", int32 = "int32_t",
    int64 = "int64_t",
    bool = "uint8_t",
  }

  local integers = { -- the least, and the bound
    int8 = {-0x80, 0x80}, uint8 = {0, 0x100}, int32 = {-0x80000000, 0x80000000},
    int64 = {-2 ^ 63, 2 ^ 63},
  }

  -- The length of a list. Beside a hole or a name it would be another one than its writer meant.
  local function length_of(who, list)
    local count = 0
    for key in pairs(list) do
      if type(key) ~= "number" then
        raise(who .. ": the list has a name in it, '" .. tostring(key) .. "'")
      end
      count = count + 1
    end
    if count ~= #list or (count > 0 and list[1] == nil) then
      raise(who .. ": the list has a hole; nil is no element")
    end
    return count
  end

  -- The extents of nested lists, and their numbers in order.
  local function flatten(data, shape, depth, out)
    if type(data) ~= "table" then
      if type(data) == "boolean" then data = data and 1 or 0 end
      if type(data) ~= "number" then
        raise("tensor: expected a number or a list, got a " .. type(data))
      end
      if depth <= #shape then raise("tensor: the lists have different depths") end
      out[#out + 1] = data
      return
    end
    if #data == 0 and next(data) ~= nil then
      raise("tensor: expected a number or a list, got a "
        .. (is_tensor(data) and "tensor; ipu.stack takes a list of them"
          or is_value(data) and "value"
          or is_variable(data) and "variable; v:read() gives its tensor" or "table with names"))
    end
    if depth > 8 then raise("tensor: the lists are nested deeper than 8") end
    local length = length_of("tensor", data)
    if shape[depth] == nil then
      if #out > 0 then raise("tensor: the lists have different depths") end
      shape[depth] = length
    end
    if shape[depth] ~= length then
      raise("tensor: the lists have different lengths, " .. shape[depth] .. " and " .. length)
    end
    for i = 1, length do flatten(data[i], shape, depth + 1, out) end
  end

  -- A C array of these numbers. A number that its dtype doesn't have is an error, as in Lua 5.4,
  -- and isn't cut to fit.
  local function array_of(what, numbers, dtype)
    local range = integers[dtype]
    for i = 1, #numbers do
      local x = numbers[i]
      if dtype == "bool" then numbers[i] = x ~= 0 and 1 or 0 end
      if range and x % 1 ~= 0 then raise(what .. ": " .. x .. " is no " .. dtype) end
      if range and (x < range[1] or x >= range[2]) then
        raise(what .. ": " .. x .. " does not fit " .. dtype)
      end
    end
    return ffi.new(element[dtype] .. "[?]", #numbers + 1, numbers)
  end

  local function ints(list)
    local length = length_of("a list of integers", list)
    local array = ffi.new("int64_t[?]", length + 1)
    for i = 1, length do
      if type(list[i]) ~= "number" or list[i] % 1 ~= 0 or math.abs(list[i]) >= 2 ^ 63 then
        raise("expected a list of integers, its element " .. i .. " is " .. tostring(list[i]))
      end
      array[i - 1] = list[i]
    end
    return array
  end

  local function count_of(shape)
    local count = 1
    for i = 1, #shape do count = count * shape[i] end
    return count
  end

  local function shape_text(shape) return "{" .. table.concat(shape, ", ") .. "}" end

  local function check_count(what, count, shape)
    if count == count_of(shape) then return end
    raise(string.format("%s: %d element%s can't fill the shape %s", what, count,
      count == 1 and "" or "s", shape_text(shape)))
  end

  -- Of "ctype<const float [3]>" or "ctype<float *>": the elements' type, and whether it is an
  -- array, whose size is known. nil: the elements are no numbers (float **, float *[3], complex).
  local function element_of(ctype)
    local name, rest = tostring(ctype):match("^ctype<(.-)%s*([%[*&(].*)>$")
    if not name then return end
    local _, stars = rest:gsub("%*", "")
    if stars > 1 or rest:find("^%*.*%[") or rest:find("()", 1, true) then return end
    name = name:gsub("^const ", ""):gsub(" const$", "")
    for _, kind in ipairs{"struct", "union", "enum", "complex"} do
      if name:find(kind, 1, true) then return end
    end
    return name, rest:sub(1, 1) == "["
  end

  -- int64 from uint64_t: through Lua's numbers they would be rounded.
  local function check_unsigned(what, data, count)
    local values, most = ffi.cast("const uint64_t *", data), ffi.cast("uint64_t", 2 ^ 63)
    for i = 0, count - 1 do
      if values[i] >= most then
        raise(what .. ": " .. tostring(values[i]):match("%d+") .. " does not fit int64")
      end
    end
  end

  -- A C array as one of a dtype: {pointer to read, number of elements, nil: unknown}. Elements of
  -- another type are converted. A pointer's can't be, since its length is unknown. The elements at
  -- a void * aren't checked.
  local function array_from(what, data, dtype)
    local ctype = ffi.typeof(data)
    local name, is_array = element_of(ctype)
    local wanted = element[dtype] and element_of(ffi.typeof(element[dtype] .. " *"))
      or "unsigned short"
    if not name then
      raise(what .. ": expected an array of numbers, got a " .. tostring(ctype))
    end
    if not is_array and data == nil then raise(what .. ": the pointer is NULL") end
    if not is_array then
      if name ~= wanted and name ~= "void" then
        raise(string.format("%s: %s is read from '%s *', got a %s", what, dtype, wanted,
          tostring(ctype)))
      end
      return data
    end
    local count = ffi.sizeof(data) / ffi.sizeof(name)
    if name == wanted then return data, count end
    if name == "uint64_t" and dtype == "int64" then
      check_unsigned(what, data, count)
      return data, count
    end
    local flat, numbers = ffi.cast(name .. " *", data), {}
    for i = 1, count do
      local value = flat[i - 1]
      numbers[i] = type(value) == "boolean" and (value and 1 or 0) or tonumber(value)
      if numbers[i] == nil then
        raise(what .. ": expected an array of numbers, got a " .. tostring(ctype))
      end
    end
    return numbers, count
  end

  base.element, base.flatten, base.array_of, base.ints = element, flatten, array_of, ints
  base.length_of = length_of
  base.shape_text, base.check_count, base.array_from = shape_text, check_count, array_from
end
