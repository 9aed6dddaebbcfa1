-- JSON for ipulua.ffi, in Lua 5.1 as LuaJIT has it. Jansson reads; the C library is linked to it.

local ffi = require "ffi"

local MAX_NESTED = 200 -- lists and objects in each other, as in ipulua.json

local raise -- how an error names the caller's line
local json = {}

-- Stands for null in lists, where a nil would move the elements after it.
json.null = setmetatable({}, {__tostring = function() return "null" end})

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
  ["\r"] = "\\r", ["\t"] = "\\t"}

local function write_string(s)
  return '"' .. s:gsub('[%c"\\]',
    function(c) return escapes[c] or string.format("\\u%04x", c:byte()) end) .. '"'
end

local function write_number(x)
  if x ~= x or x == math.huge or x == -math.huge then
    raise("JSON has no number " .. tostring(x))
  end
  return x == math.floor(x) and math.abs(x) < 2 ^ 63 and string.format("%.0f", x)
    or string.format("%.17g", x)
end

local write
local function write_table(t, depth)
  if depth > MAX_NESTED then
    raise("JSON: tables are nested more than " .. MAX_NESTED .. " deep")
  end
  local parts = {}
  if #t > 0 or next(t) == nil then
    local count = 0
    for key in pairs(t) do
      if type(key) ~= "number" and key ~= "is_list" then
        raise("JSON has no list with a name in it, '" .. tostring(key) .. "'")
      end
      if key ~= "is_list" then count = count + 1 end
    end
    if count ~= #t then
      raise("JSON has no list with a hole in it; json.null stands for none")
    end
    for i = 1, #t do parts[i] = write(t[i], depth) end
    return (#t == 0 and not t.is_list) and "{}" or "[" .. table.concat(parts, ",") .. "]"
  end
  for key, value in pairs(t) do
    parts[#parts + 1] = write_string(tostring(key)) .. ":" .. write(value, depth)
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- int64_t and uint64_t, digit by digit.
local function write_int64(x)
  return tostring(x):match("^(%-?%d+)U?LL$") or raise("JSON has no cdata")
end

local writers = {string = write_string, number = write_number, boolean = tostring,
  table = write_table, cdata = write_int64}

function write(value, depth)
  if value == json.null then return "null" end
  local writer = writers[type(value)]
  if not writer then raise("JSON has no " .. type(value)) end
  return writer(value, depth + 1)
end

---A table without positions is an object; an empty one is {}.
function json.encode(value) return write(value, 0) end

-- Jansson's interface. The types have names of ours, so other declarations of it do not clash.
local declarations = [[
  struct ipu_json { int type; size_t references; };
  struct ipu_json_error { int line, column, position; char source[80], text[160]; };
  struct ipu_json *ipu_json_loadb(const char *text, size_t bytes, size_t flags,
    struct ipu_json_error *error) __asm__("json_loadb");
  void ipu_json_delete(struct ipu_json *root) __asm__("json_delete");
  size_t ipu_json_array_size(const struct ipu_json *list) __asm__("json_array_size");
  struct ipu_json *ipu_json_array_get(const struct ipu_json *list, size_t i)
    __asm__("json_array_get");
  void *ipu_json_iter(struct ipu_json *object) __asm__("json_object_iter");
  void *ipu_json_iter_next(struct ipu_json *object, void *at) __asm__("json_object_iter_next");
  const char *ipu_json_iter_key(void *at) __asm__("json_object_iter_key");
  size_t ipu_json_iter_key_length(void *at) __asm__("json_object_iter_key_len");
  struct ipu_json *ipu_json_iter_value(void *at) __asm__("json_object_iter_value");
  const char *ipu_json_string(const struct ipu_json *text) __asm__("json_string_value");
  size_t ipu_json_string_length(const struct ipu_json *text) __asm__("json_string_length");
  double ipu_json_number(const struct ipu_json *number) __asm__("json_real_value");
]]

-- Any value is a text. Integers are read as doubles. A string may contain NUL.
local READ_FLAGS = 0x4 + 0x8 + 0x10

---Adds json.decode, which calls Jansson through the library `C`; `raise_error` raises errors.
function json.load(C, raise_error)
  raise = raise_error
  if not pcall(ffi.typeof, "struct ipu_json") then ffi.cdef(declarations) end

  local value_of
  local function list_of(value, null, depth)
    local out = {}
    for i = 1, tonumber(C.ipu_json_array_size(value)) do
      local element = value_of(C.ipu_json_array_get(value, i - 1), null, depth)
      if element == nil then element = json.null end
      out[i] = element
    end
    return out
  end

  local function object_of(value, null, depth)
    local out, at = {}, C.ipu_json_iter(value)
    while at ~= nil do
      local key = ffi.string(C.ipu_json_iter_key(at), C.ipu_json_iter_key_length(at))
      out[key] = value_of(C.ipu_json_iter_value(at), null, depth)
      at = C.ipu_json_iter_next(value, at)
    end
    return out
  end

  -- By Jansson's json_type, in its order.
  local readers = {[0] = object_of, list_of,
    function(value)
      return ffi.string(C.ipu_json_string(value), C.ipu_json_string_length(value))
    end,
    nil, -- integers are read as doubles
    function(value) return C.ipu_json_number(value) end,
    function() return true end,
    function() return false end,
    function(_, null) return null end}

  function value_of(value, null, depth)
    if depth > MAX_NESTED then raise("JSON: nested more than " .. MAX_NESTED .. " deep") end
    return readers[value.type](value, null, depth + 1)
  end

  ---null becomes nil in objects and json.null in lists, or `instead` where that is given.
  function json.decode(text, instead)
    local wrong = ffi.new("struct ipu_json_error")
    local root = C.ipu_json_loadb(text, #text, READ_FLAGS, wrong)
    if root == nil then
      raise("JSON: " .. ffi.string(wrong.text) .. ", at byte " .. wrong.position .. " of "
        .. text:sub(1, 60))
    end
    root = ffi.gc(root, C.ipu_json_delete) -- the one reference to it is ours
    local value = value_of(root, instead, 0)
    C.ipu_json_delete(ffi.gc(root, nil))
    return value
  end
end

return json
