-- Values of system cases: fills, expected arrays, expected errors.

local blame = require "ipulua.base.blame"
local ipu = require "ipulua"
local values = require "spec.support.conformance_values"

local system = {}

local dtypes <const> = {
  f32 = "float32", f16 = "float16", f64 = "float64", bf16 = "bfloat16", i32 = "int32",
  i64 = "int64", i8 = "int8", u8 = "uint8",
  bool = "bool",
}

---@param name string? "f32", …; nil is float32
---@return string
function system.dtype(name) return dtypes[name or "f32"] or name end

local function count(shape)
  local n = 1
  for _, extent in ipairs(shape) do n = n * extent end
  return n
end
system.count = count

-- Element i's value at position j, both from 0.
local fills = {
  const = function(c) return c end,
  data = function(list, _, j) return list[j + 1] end,
  index = function(p, i) return p[1] * i + p[2] end,
  rows = function(list, i) return list[i + 1] end,
  ramp = function(p, i, j) return ((p[1] * i + p[2] * j + p[3]) % p[4]) * p[5] + p[6] end,
}

local function filled(fill, i, j)
  if type(fill) ~= "table" then return values.number(fill) end
  for name, f in pairs(fills) do
    if fill[name] ~= nil then return values.number(f(fill[name], i, j)) end
  end
  error("unknown fill")
end

-- A number in a field of a device's dtype: wrapped unsigned bytes, truth values.
local function stored(x, dtype)
  if dtype == "u8" then return math.floor(x) % 256 end
  if dtype == "bool" then return x ~= 0 and x ~= false and 1 or 0 end
  return x
end

local function append_element(data, fill, field, i)
  for j = 0, count(field.shape) - 1 do
    local x = filled(fill, i, j)
    if field.idiv then x = x // field.idiv end
    if field.mod then x = x % field.mod end
    data[#data + 1] = stored(x, field.dtype)
  end
end

---A tensor of a shape from a fill (element 0).
function system.tensor(fill, shape, dtype)
  local data = {}
  append_element(data, fill, {shape = shape, dtype = dtype}, 0)
  return values.tensor{shape = shape, dtype = system.dtype(dtype), data = data}
end

---All elements of a field of a dataset, stacked.
function system.elements(field, n)
  local data = {}
  for i = 0, n - 1 do append_element(data, field.fill, field, i) end
  return values.tensor{shape = {n, table.unpack(field.shape)}, dtype = system.dtype(field.dtype),
    data = data}
end

-- ------------------------------------------------ what must come out

local function expected_data(want, shape)
  if want.data then return want.data end
  local data, n = {}, count(shape)
  local per_row = shape[1] and shape[1] > 0 and n // shape[1] or 1
  for i = 0, n - 1 do
    if want.rows then data[i + 1] = want.rows[i // per_row + 1] else data[i + 1] = want.all end
  end
  return data
end

local function compare_array(what, got, want, tolerance)
  if not ipu.is_tensor(got) then return what .. ": there is no tensor" end
  local shape = want.shape or got.shape
  local dtype = system.dtype(want.dtype or (got.dtype:find("int", 1, true) and got.dtype) or nil)
  if want.dtype and dtype ~= got.dtype then
    return string.format("%s: dtype %s, expected %s", what, got.dtype, dtype)
  end
  local wanted = {shape = shape, dtype = dtype, data = expected_data(want, shape)}
  return values.compare(what, got, wanted, tolerance.rtol, tolerance.atol)
end

local function is_array(want)
  return type(want) == "table" and (want.shape or want.all ~= nil or want.rows or want.data) ~= nil
end

-- A field under its name, which may be a number.
local function field(t, key)
  if type(t) ~= "table" then return nil end
  if t[key] ~= nil then return t[key] end
  return t[math.tointeger(tonumber(key))]
end

---nil when a structure of tensors is as wanted, else words.
function system.compare(what, got, want, tolerance)
  if type(want) == "number" then return compare_array(what, got, {all = want}, tolerance) end
  if is_array(want) then return compare_array(what, got, want, tolerance) end
  if type(got) ~= "table" then return what .. ": a table is expected, got " .. type(got) end
  for key, inner in pairs(want) do
    local problem = system.compare(what .. "[" .. tostring(key) .. "]", field(got, key),
      inner, tolerance)
    if problem then return problem end
  end
  if #want > 0 and #got ~= #want then
    return string.format("%s: %d values, expected %d", what, #got, #want)
  end
  return nil
end

-- ------------------------------------------------ errors

---nil when a raised message is as wanted, else words.
function system.check_error(wanted, message)
  local lower = tostring(message):lower()
  local last = blame.last_error()
  if wanted.kind ~= "any" and (not last or last.kind ~= wanted.kind) then
    return "the error's kind is " .. tostring(last and last.kind) .. ", not " .. wanted.kind .. ": "
      .. tostring(message)
  end
  for _, text in ipairs(wanted.must_mention or {}) do
    if not lower:find(tostring(text):lower(), 1, true) then
      return "the error does not mention '" .. text .. "': " .. tostring(message)
    end
  end
  for _, text in ipairs(wanted.must_not_mention or {}) do
    if lower:find(text:lower(), 1, true) then
      return "the error mentions '" .. text .. "': " .. tostring(message)
    end
  end
  return nil
end

return system
