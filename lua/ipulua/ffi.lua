-- ipulua for LuaJIT, over the C library: tensors, ops, functions, Keras models. Lua 5.1 syntax.
--
--   local ipu = require "ipulua.ffi"
--   local a = ipu.tensor{{1, 2}, {3, 4}}
--   print(ipu.matmul(a, a, {transpose_b = true}))
--
-- Ops take tensors, then one table of attributes. What C gave out is freed when it is collected.

local ffi = require "ffi"
local json = require "ipulua.ffi.json"
local nearest = require "ipulua.nearest"

local ABI = 1
local MOST = 64 -- results of one call; ffi_models has the same

-- In a second state of the process, and when another library declared them before, the declarations
-- are there already.
if not pcall(ffi.typeof, "ipu_context") then ffi.cdef(require "ipulua.cdef") end

-- ------------------------------------------------ the library

local function is_file(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- IPULUA_LIBRARY, then what lies beside this file (PREFIX/share/lua/5.1/ipulua, or lua/ipulua),
-- then the loader's own search.
local function find_library()
  local named = os.getenv("IPULUA_LIBRARY")
  if named and named ~= "" then return named end
  local folder = debug.getinfo(1, "S").source:match("^@(.*)[/\\][^/\\]*$") or "."
  for _, place in ipairs{"/../../build/libipulua.so.0", "/../../../../lib/libipulua.so.0"} do
    if is_file(folder .. place) then return folder .. place end
  end
  return "libipulua.so.0"
end

-- Errors name the line that called into this file.
local own = debug.getinfo(1, "S").source:match("^(.*)ffi%.lua$") -- these files
local function raise(message)
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then break end
    if info.what ~= "C" and not (own and info.source:sub(1, #own + 3) == own .. "ffi") then
      break
    end
    level = level + 1
  end
  error(message, level)
end

local function load_library()
  local path = find_library()
  local ok, library = pcall(ffi.load, path)
  if not ok then raise("ipulua.ffi: the C library can't be loaded: " .. tostring(library)) end
  if library.ipu_abi_version() ~= ABI then
    raise(string.format("ipulua.ffi is made for version %d of the C interface; this library has "
      .. "version %d", ABI,
      tonumber(library.ipu_abi_version())))
  end
  return library
end

local C = load_library()

local ipu = {json = json, version = ffi.string(C.ipu_version())}

-- The context of this Lua state. Builders, functions and models hold it too, so the order of
-- finalisers is free.
local context = ffi.new("ipu_context *[1]")
if C.ipu_context_new(context) ~= 0 then error("ipulua: out of memory", 0) end
context = ffi.gc(context[0], C.ipu_context_free)

local function check(status)
  if status == 0 then return end
  ipu.last_code = ffi.string(C.ipu_status_name(status))
  raise(ffi.string(C.ipu_last_error(context)))
end

-- Refuses an argument of another type, in words and at the caller's line.
local function want(who, name, value, wanted)
  if wanted == "string" and type(value) == wanted and value:find("%z") then
    raise(who .. ": '" .. name .. "' has a NUL in it, where C would cut it")
  end
  if type(value) == wanted then return end
  raise(who .. ": '" .. name .. "' must be a " .. wanted .. ", got "
    .. (value == nil and "none" or "a " .. type(value)))
end

-- The collector can't see what C allocates: it is told by collecting after so many bytes.
local LIMIT = 32 * 1024 * 1024
local unseen = 0
local function note(bytes)
  unseen = unseen + bytes
  if unseen < LIMIT then return end
  unseen = 0
  collectgarbage()
end

-- What C reads by pointer must not be collected meanwhile: a use behind the call keeps it, also in
-- compiled code.
local function hold(x) ipu._held = x.p or next(x) end

-- A text that C hands out through the last argument.
local function text_of(f, ...)
  local out = ffi.new("const char *[1]")
  local arguments = {...}
  arguments[#arguments + 1] = out
  check(f(unpack(arguments, 1, #arguments)))
  return ffi.string(out[0])
end

-- ------------------------------------------------ tensors

local Tensor, Value, Variable, Function = {}, {}, {}, {}
local apply

local element = {
  float32 = "float", float64 = "double", int8 = "int8_t", uint8 = "uint8_t", int32 = "int32_t",
  int64 = "int64_t",
  bool = "uint8_t",
}

local integers = { -- the least, and the bound
  int8 = {-0x80, 0x80}, uint8 = {0, 0x100}, int32 = {-0x80000000, 0x80000000},
  int64 = {-2 ^ 63, 2 ^ 63},
}

local function is_tensor(v) return getmetatable(v) == Tensor end
local function is_value(v) return getmetatable(v) == Value end
local function is_variable(v) return getmetatable(v) == Variable end

-- Fields and methods of a class; of a name that it doesn't have an error, since nil would be taken
-- for a value.
local function members_of(class, what, elsewhere)
  return function(_, name)
    local member = rawget(class, name)
    if member ~= nil then return member end
    if type(name) == "string" then
      local op = C.ipu_op_summary(name) ~= nil and name or C.ipu_op_summary("nn." .. name) ~= nil
        and "nn." .. name
      if op then
        raise(what .. " has no '" .. name .. "'; it is a function: ipu." .. op .. "(x)")
      end
    end
    raise(what .. " has no '" .. tostring(name) .. "'"
      .. (elsewhere[name] or elsewhere[type(name)] or ""))
  end
end

local function never_compared()
  raise("tensors are compared with ipu.less(a, b), ipu.less_equal(a, b)")
end

local Shape = {__tostring = function(shape) return "{" .. table.concat(shape, ", ") .. "}" end}

local function shape_of(rank, extent)
  local shape = setmetatable({}, Shape)
  for axis = 0, rank - 1 do shape[axis + 1] = tonumber(extent(axis)) end
  return shape
end

-- Takes the reference over.
local function new_tensor(p)
  note(tonumber(C.ipu_tensor_bytes(p)))
  local shape = shape_of(C.ipu_tensor_rank(p), function(axis)
    return C.ipu_tensor_extent(p, axis)
  end)
  return setmetatable({p = ffi.gc(p, C.ipu_tensor_free), shape = shape,
    dtype = ffi.string(C.ipu_tensor_dtype(p))}, Tensor)
end

-- The extents of nested lists, and their numbers in order.
local function flatten(data, shape, depth, out)
  if type(data) ~= "table" then
    if type(data) == "boolean" then data = data and 1 or 0 end
    if type(data) ~= "number" then
      raise("tensor: a number or a list is wanted, got a " .. type(data))
    end
    if depth <= #shape then raise("tensor: the lists have different depths") end
    out[#out + 1] = data
    return
  end
  if #data == 0 and next(data) ~= nil then
    raise("tensor: a number or a list is wanted, got a "
      .. (is_tensor(data) and "tensor; ipu.stack takes a list of them" or is_value(data) and "value"
        or is_variable(data) and "variable; v:read() gives its tensor" or "table with names"))
  end
  if depth > 8 then raise("tensor: the lists are nested deeper than 8") end
  if shape[depth] == nil then
    if #out > 0 then raise("tensor: the lists have different depths") end
    shape[depth] = #data
  end
  if shape[depth] ~= #data then
    raise("tensor: the lists have different lengths, " .. shape[depth] .. " and " .. #data)
  end
  for i = 1, #data do flatten(data[i], shape, depth + 1, out) end
end

-- An array of C's of these numbers; what its dtype doesn't have is an error, as in Lua 5.4, and not
-- cut to fit.
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
  local array = ffi.new("int64_t[?]", #list + 1)
  for i = 1, #list do
    if type(list[i]) ~= "number" or list[i] % 1 ~= 0 then
      raise("a list of integers is wanted, its element " .. i .. " is " .. tostring(list[i]))
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

-- Of "ctype<const float [3]>" or "ctype<float *>": the elements' type, and whether it is an array,
-- whose size is known.
local function element_of(ctype)
  local name, mark = tostring(ctype):match("^ctype<(.-)%s*([%[*&(])")
  return name and name:gsub("^const ", ""):gsub(" const$", ""), mark == "["
end

-- An array of C's as one of a dtype's: { what to read, how many elements, nil: not known}. Where
-- the elements are of another type their values are taken, which a pointer, whose length nobody
-- knows, doesn't allow. What stands behind void * is taken on trust.
local function array_from(what, data, dtype)
  local ctype = ffi.typeof(data)
  local name, is_array = element_of(ctype)
  local wanted = element[dtype] and element_of(ffi.typeof(element[dtype] .. " *"))
    or "unsigned short"
  if not name or name:find("struct", 1, true) then
    raise(what .. ": an array of numbers is wanted, got a " .. tostring(ctype))
  end
  if not is_array then
    if name ~= wanted and name ~= "void" then
      raise(string.format("%s: %s is read from '%s *', got a %s", what, dtype, wanted,
        tostring(ctype)))
    end
    return data
  end
  local count = ffi.sizeof(data) / ffi.sizeof(name)
  if name == wanted then return data, count end
  local flat, numbers = ffi.cast(name .. " *", data), {}
  for i = 1, count do
    local value = flat[i - 1]
    numbers[i] = type(value) == "boolean" and (value and 1 or 0) or tonumber(value)
    if numbers[i] == nil then
      raise(what .. ": an array of numbers is wanted, got a " .. tostring(ctype))
    end
  end
  return numbers, count
end

local function raw_tensor(dtype, shape, data)
  local out = ffi.new("ipu_tensor *[1]")
  check(C.ipu_tensor_new(context, dtype, #shape, ints(shape), data, out))
  return new_tensor(out[0])
end

local function from_numbers(dtype, shape, numbers)
  if element[dtype] then return raw_tensor(dtype, shape, array_of("tensor", numbers, dtype)) end
  return (apply("cast", {raw_tensor("float64", shape, array_of("tensor", numbers, "float64"))},
    {dtype = dtype})) -- rounded once
end

-- Without a shape an array is a vector.
local function from_array(dtype, shape, data)
  local array, count = array_from("tensor", data, dtype)
  if not shape and not count then
    raise("tensor: the shape of what a pointer leads to must be given, as in {shape = {2, 3}}")
  end
  shape = shape or {count}
  if count then check_count("tensor", count, shape) end
  if type(array) == "table" then return from_numbers(dtype, shape, array) end
  return raw_tensor(dtype, shape, array)
end

-- What is not known would be left out without a word.
local function options_of(who, options, known)
  if options == nil then return {} end
  want(who, "options", options, "table")
  for name in pairs(options) do
    if not known[name] then
      local names = {}
      for each in pairs(known) do names[#names + 1] = each end
      raise(who .. ": there is no option '" .. tostring(name) .. "'" .. nearest.hint(name, names))
    end
  end
  return options
end

local tensor_options = {dtype = true, shape = true}

-- The same tensor, where options ask for nothing else.
local function converted(t, options)
  if options.dtype and options.dtype ~= t.dtype then
    t = apply("cast", {t}, {dtype = options.dtype})
  end
  if options.shape and shape_text(options.shape) ~= shape_text(t.shape) then
    check_count("tensor", t:count(), options.shape)
    t = apply("reshape", {t}, {shape = options.shape})
  end
  return t
end

---A tensor of numbers in nested lists, or of an array of C's. Options: dtype (float32), shape,
---which the numbers fill; or the dtype alone.
function ipu.tensor(data, options)
  if type(options) == "string" then options = {dtype = options} end
  options = options_of("tensor", options, tensor_options)
  if is_tensor(data) then return converted(data, options) end
  local dtype = options.dtype or "float32"
  if type(data) == "cdata" then return from_array(dtype, options.shape, data) end
  local shape, numbers = {}, {}
  flatten(data, shape, 1, numbers)
  if options.shape then check_count("tensor", #numbers, options.shape) end
  return from_numbers(dtype, options.shape or shape, numbers)
end

local function zeros(who, shape, options)
  if type(options) == "string" then options = {dtype = options} end
  want(who, "shape", shape, "table")
  return raw_tensor(options_of(who, options, {dtype = true}).dtype or "float32", shape, nil)
end

function ipu.zeros(shape, options) return zeros("zeros", shape, options) end
function ipu.ones(shape, options)
  return (apply("ones_like", {zeros("ones", shape, options)}))
end

local function c_type(t) return element[t.dtype] or raise(t.dtype .. " has no C type; cast it") end

---The elements as an array of C's: read it while the tensor lives.
function Tensor:data()
  local ctype = c_type(self)
  return ffi.cast("const " .. ctype .. " *", C.ipu_tensor_data(self.p))
end

function Tensor:count() return tonumber(C.ipu_tensor_count(self.p)) end

---Replaces all elements, from nested lists or an array of C's.
function Tensor:write(data)
  local count
  if type(data) == "cdata" then
    data, count = array_from("write", data, self.dtype)
  else
    local numbers = {}
    flatten(data, {}, 1, numbers)
    data, count = numbers, #numbers
  end
  if count and count ~= self:count() then
    raise("write: the tensor has " .. self:count() .. " elements, got " .. count)
  end
  if type(data) == "table" then
    c_type(self)
    data = array_of("write", data, self.dtype)
  end
  check(C.ipu_tensor_write(context, self.p, data, C.ipu_tensor_bytes(self.p)))
  return self
end

function Tensor:item()
  if self:count() ~= 1 then
    raise("item: a tensor of one element is wanted, this has " .. self:count())
  end
  local t = element[self.dtype] and self or apply("cast", {self}, {dtype = "float32"})
  local value = tonumber(t:data()[0])
  hold(t)
  if self.dtype == "bool" then return value ~= 0 end
  return value
end

function Tensor:totable()
  local t = element[self.dtype] and self or apply("cast", {self}, {dtype = "float32"})
  local data, at = t:data(), -1
  local function read(axis)
    if axis > #self.shape then
      at = at + 1
      if self.dtype == "bool" then return data[at] ~= 0 end
      return tonumber(data[at])
    end
    local list = {}
    for i = 1, self.shape[axis] do list[i] = read(axis + 1) end
    return list
  end
  local list = read(1)
  hold(t)
  return list
end

function Tensor:__tostring()
  local text = ffi.new("const char *[1]")
  check(C.ipu_tensor_text(context, self.p, text))
  return ffi.string(text[0])
end

-- ------------------------------------------------ files

local function is_npy(path) return path:sub(-4) == ".npy" end

---Tensors by name into .safetensors or .npz; one into .npy.
function ipu.save(path, tensors)
  want("save", "path", path, "string")
  want("save", "tensors", tensors, "table")
  if is_tensor(tensors) and not is_npy(path) then
    raise("save: '" .. path .. "' holds tensors by name, as in {x = tensor}; a .npy holds one")
  end
  local names = {}
  for name, t in pairs(is_tensor(tensors) and {[""] = tensors} or tensors) do
    if type(name) ~= "string" or not is_tensor(t) then
      raise("save: tensors by name are wanted, as in {x = tensor}")
    end
    want("save", "name", name, "string")
    names[#names + 1] = name
  end
  if is_tensor(tensors) then tensors = {[""] = tensors} end
  table.sort(names)
  local list, texts = ffi.new("ipu_tensor *[?]", #names + 1),
    ffi.new("const char *[?]", #names + 1, names)
  for i, name in ipairs(names) do list[i - 1] = tensors[name].p end
  check(C.ipu_save(context, path, texts, list, #names))
end

---The tensors of a file by name; a .npy gives its tensor.
function ipu.load(path)
  want("load", "path", path, "string")
  local archive = ffi.new("ipu_archive *[1]")
  check(C.ipu_archive_open(context, path, archive))
  archive = ffi.gc(archive[0], C.ipu_archive_free)
  local out, tensors = ffi.new("ipu_tensor *[1]"), {}
  for i = 0, C.ipu_archive_count(archive) - 1 do
    local name = C.ipu_archive_name(archive, i)
    check(C.ipu_archive_tensor(context, archive, name, out))
    tensors[ffi.string(name)] = new_tensor(out[0])
  end
  if is_npy(path) then return tensors[""] end
  return tensors
end

-- ------------------------------------------------ ops

-- The builder of the function that a coroutine is tracing; what other coroutines do meanwhile runs
-- at once, unless it takes values of one that is being traced. A coroutine that is forgotten in the
-- middle takes its builder along.
local builders, main = setmetatable({}, {__mode = "k"}), {}
local is_open = setmetatable({}, {__mode = "k"})
local function tracing() return builders[coroutine.running() or main] end
local function set_tracing(builder) builders[coroutine.running() or main] = builder end

-- Where an op on these belongs; nil: it runs at once.
local function builder_for(who, operands)
  local builder = tracing()
  for i = 1, #operands do
    local v = operands[i]
    if is_value(v) then
      builder = builder or is_open[v.builder] and v.builder
      if v.builder ~= builder then
        raise(who .. ": a value is used outside the function that made it")
      end
    end
  end
  return builder or nil
end

local function new_value(p, builder)
  local shape = shape_of(C.ipu_value_rank(p), function(axis) return C.ipu_value_extent(p, axis) end)
  return setmetatable({p = p, shape = shape, dtype = ffi.string(C.ipu_value_dtype(p)),
    builder = builder}, Value)
end

local function as_tensor(v, dtype)
  if is_tensor(v) then return v end
  if is_variable(v) then return v:read() end
  return ipu.tensor(v, {dtype = dtype})
end

local function as_value(v, dtype, builder)
  if is_value(v) then
    if v.builder ~= builder then raise("a value is used outside the function that made it") end
    return v
  end
  local out = ffi.new("ipu_value *[1]")
  if is_variable(v) then check(C.ipu_builder_read(builder, v.p, out))
  else check(C.ipu_builder_constant(builder, as_tensor(v, dtype).p, out)) end
  return new_value(out[0], builder)
end

local function is_operand(v) return is_tensor(v) or is_value(v) or is_variable(v) end

function apply(op, operands, attributes)
  local builder = builder_for(op, operands)
  local traced, dtype = builder ~= nil, nil
  for _, v in ipairs(operands) do
    if is_operand(v) then dtype = dtype or v.dtype end
  end
  local convert, ctype = as_tensor, "ipu_tensor *[?]"
  if traced then convert, ctype = as_value, "ipu_value *[?]" end
  local keep, list = {}, ffi.new(ctype, #operands + 1)
  for i, v in ipairs(operands) do
    keep[i] = convert(v, dtype, builder)
    list[i - 1] = keep[i].p
  end
  local good, text = true, nil
  if attributes and next(attributes) ~= nil then good, text = pcall(json.encode, attributes) end
  if not good then raise(op .. ": " .. text) end
  local out, count = ffi.new(ctype, MOST), ffi.new("int[1]")
  if traced then check(C.ipu_builder_apply(builder, op, list, #operands, text, out, MOST, count))
  else check(C.ipu_apply(context, op, list, #operands, text, out, MOST, count)) end
  hold(keep)
  local results = {}
  for i = 1, count[0] do results[i] = (traced and new_value or new_tensor)(out[i - 1], builder) end
  return unpack(results, 1, count[0])
end

-- What follows an operand that is left out would be taken for it.
local function check_gap(op, i, gap)
  if not gap then return end
  raise(string.format("%s: argument %d is nil, but argument %d is given; only the last ones can be "
    .. "left out", op, gap, i))
end

-- Operands, lists of them, and at the end a table of attributes.
local function call(op, ...)
  local n = select("#", ...)
  local operands, attributes, gap = {}, nil, nil
  for i = 1, n do
    local v = select(i, ...)
    if type(v) == "table" and not is_operand(v) then
      if is_operand(v[1]) then
        check_gap(op, i, gap)
        for k = 1, #v do operands[#operands + 1] = v[k] end
      elseif i == n and v[1] == nil then
        attributes = v
      else
        check_gap(op, i, gap)
        operands[#operands + 1] = v
      end
    elseif v ~= nil then
      check_gap(op, i, gap)
      operands[#operands + 1] = v
    else
      gap = gap or i
    end
  end
  return apply(op, operands, attributes)
end

-- What a module answers to, with its prefix: ops, and of ipu itself its functions.
local function known_names(prefix, place)
  local names = {}
  for op in pairs(ipu.ops()) do
    if op:sub(1, #prefix) == prefix then names[#names + 1] = op end
  end
  for name, value in pairs(place) do
    if type(value) == "function" and name:sub(1, 1) ~= "_" then
      names[#names + 1] = prefix .. name
    end
  end
  table.sort(names)
  return names
end

-- What stands in for names of ipulua in Lua 5.4 that are not here.
local instead = {
  model_load = "; did you mean 'load_model'?",
  keras = "; models come from ipu.model_from_json, ipu.model_from_lua and ipu.load_model",
  data = "; datasets are made in a chunk of Lua 5.4: ipu.run_lua",
  estimate = "; a model has it: model:estimate(options)",
}

-- Ops stand where their names say: ipu.matmul, ipu.nn.relu.
local function module_of(prefix, place)
  local text = "<module ipulua.ffi" .. (prefix == "" and " " .. ipu.version
    or ": " .. prefix:sub(1, -2)) .. "; ipu.ops() lists its ops>"
  return setmetatable(place, {__tostring = function() return text end, __index = function(t, name)
    local op = prefix .. tostring(name)
    if C.ipu_op_summary(op) == nil then
      local hint = prefix == "" and instead[name] or C.ipu_op_summary("nn." .. op) ~= nil
        and "; did you mean 'nn." .. op .. "'?"
      raise("there is no op '" .. op .. "'" .. (hint or nearest.hint(op, known_names(prefix, t))))
    end
    local function f(...) return call(op, ...) end
    rawset(t, name, f)
    return f
  end})
end
module_of("", ipu)
ipu.nn = module_of("nn.", {})
ipu.random = module_of("random.", {})

---All ops: name → summary.
function ipu.ops()
  local list, i = {}, 0
  while true do
    local name = C.ipu_op_name(i)
    if name == nil then return list end
    list[ffi.string(name)] = ffi.string(C.ipu_op_summary(name))
    i = i + 1
  end
end

local operators = {
  __add = function(a, b) return call("add", a, b) end,
  __sub = function(a, b) return call("sub", a, b) end,
  __mul = function(a, b) return call("mul", a, b) end,
  __div = function(a, b) return call("div", a, b) end,
  __pow = function(a, b) return call("pow", a, b) end,
  __mod = function(a, b) return call("mod", a, b) end,
  __unm = function(a) return call("neg", a) end,
}
local unknown = ": its value is not known while a function is traced"
Tensor.__index = members_of(Tensor, "a tensor",
  {number = "; t:totable() has its elements, ipu.slice and ipu.gather its parts"})
Value.__index = members_of(Value, "a value of a traced function",
  {item = unknown, totable = unknown, data = unknown, number = unknown})
Variable.__index = members_of(Variable, "a variable",
  {item = "; v:read() gives its tensor", totable = "; v:read() gives its tensor",
  number = "; v:read() gives its tensor"})
for _, class in ipairs{Tensor, Value, Variable} do
  class.__lt, class.__le = never_compared, never_compared
  for name, f in pairs(operators) do class[name] = f end
end

-- ------------------------------------------------ variables and functions

---What outlives a call of a function.
function ipu.variable(initial, options)
  if type(options) == "string" then options = {dtype = options} end
  options = options_of("variable", options, {dtype = true, shape = true, name = true})
  local t, out = ipu.tensor(initial, {dtype = options.dtype, shape = options.shape}),
    ffi.new("ipu_variable *[1]")
  check(C.ipu_variable_new(context, options.name, t.p, out))
  note(tonumber(C.ipu_tensor_bytes(t.p)))
  return setmetatable({p = ffi.gc(out[0], C.ipu_variable_free), shape = t.shape, dtype = t.dtype},
    Variable)
end

function Variable:read()
  local out = ffi.new("ipu_tensor *[1]")
  check(C.ipu_variable_read(context, self.p, out))
  return new_tensor(out[0])
end

---In a function being traced: whenever it runs; else at once.
function Variable:assign(value)
  local builder = builder_for("assign", {value})
  if builder then
    check(C.ipu_builder_assign(builder, self.p, as_value(value, self.dtype, builder).p))
  else
    check(C.ipu_variable_assign(context, self.p, as_tensor(value, self.dtype).p))
  end
end

-- A method that tells those who write x.method() that a colon is wanted.
local function guarded(class, name, method, object)
  return function(self, ...)
    if getmetatable(self) ~= class then
      raise(name .. " is a method; it is called with a colon, as in " .. (object or "x") .. ":"
        .. name .. "(...)")
    end
    return method(self, ...)
  end
end

for _, class in ipairs{Tensor, Value, Variable} do
  for name, f in pairs(class) do
    if type(f) == "function" and name:sub(1, 2) ~= "__" then
      class[name] = guarded(class, name, f)
    end
  end
end

---In a function being traced: the gradients of y for a list of values and variables; false where
---there is no path.
function ipu.gradients(y, xs)
  local builder = builder_for("gradients", {y})
  if not builder then raise("gradients: only inside a function given to ipu.func") end
  want("gradients", "xs", xs, "table")
  local keep, list, out = {}, ffi.new("ipu_value *[?]", #xs + 1), ffi.new("ipu_value *[?]", #xs + 1)
  for i, x in ipairs(xs) do
    keep[i] = as_value(x, nil, builder)
    list[i - 1] = keep[i].p
  end
  check(C.ipu_builder_gradients(builder, as_value(y, nil, builder).p, list, #xs, out))
  local gradients = {}
  for i = 1, #xs do gradients[i] = out[i - 1] ~= nil and new_value(out[i - 1], builder) or false end
  return gradients
end

local function type_text(x) return x.dtype .. "[" .. table.concat(x.shape, ", ") .. "]" end

-- As in Lua 5.4: a variable prints its value; that of a traced function's values is not known.
function Value:__tostring() return "<value of a traced function: " .. type_text(self) .. ">" end
function Variable:__tostring() return tostring(self:read()) end

-- What a traced function returned; n values, of which each must be one that a program gives.
local function check_results(n, ...)
  for i = 1, n do
    local v = select(i, ...)
    if not is_operand(v) and type(v) ~= "number" then
      raise(string.format("func: a function returns tensors; its result %d is a %s", i, type(v)))
    end
  end
  return {...}
end

local function results_of(...) return check_results(select("#", ...), ...) end

local function trace(f, arguments)
  if tracing() then
    raise("func: functions are not traced inside one another; call the plain function")
  end
  local out = ffi.new("ipu_builder *[1]")
  check(C.ipu_builder_new(context, out))
  local mine = ffi.gc(out[0], C.ipu_builder_free)
  set_tracing(mine)
  is_open[mine] = true
  local ok, result = pcall(function()
    local values, place = {}, ffi.new("ipu_value *[1]")
    for i, t in ipairs(arguments) do
      check(C.ipu_builder_argument(mine, t.dtype, #t.shape, ints(t.shape), place))
      values[i] = new_value(place[0], mine)
    end
    local results = results_of(f(unpack(values)))
    local list, compiled = ffi.new("ipu_value *[?]", #results + 1), ffi.new("ipu_function *[1]")
    for i, v in ipairs(results) do
      results[i] = as_value(v, nil, mine)
      list[i - 1] = results[i].p
    end
    check(C.ipu_builder_finish(mine, list, #results, compiled))
    return ffi.gc(compiled[0], C.ipu_function_free)
  end)
  set_tracing(nil)
  is_open[mine] = nil
  ffi.gc(mine, nil)
  C.ipu_builder_free(mine)
  if not ok then error(result, 0) end
  return result
end

---f, traced once for each combination of argument types, then compiled. Its arguments and results
---are tensors.
function ipu.func(f)
  if type(f) ~= "table" then want("func", "f", f, "function") end
  return setmetatable({f = f, compiled = {}}, Function)
end

function Function:__tostring()
  local count = 0
  for _ in pairs(self.compiled) do count = count + 1 end
  local info = type(self.f) == "function" and debug.getinfo(self.f, "S")
  return string.format("<Function%s, traced for %d signature%s>",
    info and " " .. info.short_src .. ":" .. info.linedefined or "", count,
    count == 1 and "" or "s")
end

function Function:__call(...)
  local n = select("#", ...)
  local arguments, key, list = {}, {}, ffi.new("ipu_tensor *[?]", n + 1)
  for i = 1, n do
    local given = select(i, ...)
    if is_value(given) then
      raise("func: functions are not traced inside one another; call the plain function")
    end
    local t = as_tensor(given)
    arguments[i], list[i - 1] = t, t.p
    key[i] = t.dtype .. "[" .. table.concat(t.shape, ",") .. "]"
  end
  key = table.concat(key, " ")
  local compiled = self.compiled[key]
  if not compiled then
    compiled = trace(self.f, arguments)
    self.compiled[key] = compiled
  end
  local out, count = ffi.new("ipu_tensor *[?]", MOST), ffi.new("int[1]")
  check(C.ipu_function_call(compiled, list, n, out, MOST, count))
  hold(arguments)
  local results = {}
  for i = 1, count[0] do results[i] = new_tensor(out[i - 1]) end
  return unpack(results, 1, count[0])
end

local models = require "ipulua.ffi.models"(C,
  {context = context, guarded = guarded, check = check, raise = raise, want = want,
  ints = ints, is_tensor = is_tensor, new_tensor = new_tensor, text_of = text_of, hold = hold})
for name, f in pairs(models) do ipu[name] = f end

---Runs a chunk of Lua 5.4 in the models' own state; returns what it returns, as text.
function ipu.run_lua(code)
  want("run_lua", "code", code, "string")
  return text_of(C.ipu_run_lua, context, code)
end
local function want_integer(who, n)
  want(who, "n", n, "number")
  if n % 1 ~= 0 or math.abs(n) > 2 ^ 53 then
    raise(who .. ": 'n' must be an integer, got " .. tostring(n))
  end
end
function ipu.set_threads(n)
  want_integer("set_threads", n)
  if math.abs(n) > 2 ^ 30 then raise("set_threads: 0 (one a core) to 256 are wanted, got " .. n) end
  check(C.ipu_set_threads(context, n))
end
function ipu.set_seed(n)
  want_integer("set_seed", n)
  check(C.ipu_set_seed(context, ffi.cast("uint64_t", ffi.cast("int64_t", n))))
end

return ipu
