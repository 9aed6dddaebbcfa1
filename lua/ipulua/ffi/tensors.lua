-- Tensors of ipulua.ffi: how they are made, read, written, and kept in files.

local ffi = require "ffi"
local nearest = require "ipulua.nearest"

return function(base)
  local C, ipu, context, check, raise, want = base.C, base.ipu, base.context, base.check,
    base.raise, base.want
  local Tensor, is_tensor = base.Tensor, base.is_tensor
  local element, flatten, array_of, ints = base.element, base.flatten, base.array_of, base.ints
  local shape_text, check_count, array_from = base.shape_text, base.check_count, base.array_from
  local note, hold = base.note, base.hold

  local function apply_now(...) return base.apply_now(...) end -- ops.lua adds it

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

  local function raw_tensor(dtype, shape, data)
    local out = ffi.new("ipu_tensor *[1]")
    check(C.ipu_tensor_new(context, dtype, #shape, ints(shape), data, out))
    return new_tensor(out[0])
  end

  local function from_numbers(dtype, shape, numbers)
    if element[dtype] then return raw_tensor(dtype, shape, array_of("tensor", numbers, dtype)) end
    local wide = raw_tensor("float64", shape, array_of("tensor", numbers, "float64"))
    return (apply_now("cast", {wide}, {dtype = dtype})) -- rounded once
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

  -- An unknown option is an error: otherwise it would be ignored silently. known: name → type.
  local function options_of(who, options, known)
    if options == nil then return {} end
    want(who, "options", options, "table")
    for name in pairs(options) do
      if not known[name] then
        local names = {}
        for each in pairs(known) do names[#names + 1] = each end
        raise(who .. ": there is no option '" .. tostring(name) .. "'" .. nearest.hint(name, names))
      end
      want(who, name, options[name], known[name])
    end
    return options
  end

  local tensor_options = {dtype = "string", shape = "table"}

  -- The same tensor, where options ask for nothing else.
  local function converted(t, options)
    if options.dtype and options.dtype ~= t.dtype then
      t = apply_now("cast", {t}, {dtype = options.dtype})
    end
    if options.shape and shape_text(options.shape) ~= shape_text(t.shape) then
      check_count("tensor", t:count(), options.shape)
      t = apply_now("reshape", {t}, {shape = options.shape})
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
    return raw_tensor(options_of(who, options, {dtype = "string"}).dtype or "float32", shape, nil)
  end

  function ipu.zeros(shape, options) return zeros("zeros", shape, options) end
  function ipu.ones(shape, options)
    return (apply_now("ones_like", {zeros("ones", shape, options)}))
  end

  -- Of C's tensor, since a script may change the field.
  local function dtype_of(t) return ffi.string(C.ipu_tensor_dtype(t.p)) end

  local function c_type(t)
    local dtype = dtype_of(t)
    return element[dtype] or raise(dtype .. " has no C type; cast it")
  end

  local function elements(t)
    return ffi.cast("const " .. c_type(t) .. " *", C.ipu_tensor_data(t.p))
  end

  -- Captured tensors → values of the function that is being traced. A tensor has one value, however
  -- often it is used, until it is written to.
  local constants = setmetatable({}, {__mode = "k"})
  base.constants = constants

  local kept = setmetatable({}, {__mode = "k"}) -- pointer → the tensor that it leads into

  ---The elements as an array of C's. The pointer keeps the tensor; one made from it doesn't.
  function Tensor:data()
    local pointer = elements(self)
    kept[pointer] = self
    return pointer
  end

  function Tensor:count() return tonumber(C.ipu_tensor_count(self.p)) end

  ---Replaces all elements, from nested lists or an array of C's.
  function Tensor:write(data)
    local count
    if type(data) == "cdata" then
      data, count = array_from("write", data, dtype_of(self))
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
      data = array_of("write", data, dtype_of(self))
    end
    check(C.ipu_tensor_write(context, self.p, data, C.ipu_tensor_bytes(self.p)))
    constants[self] = nil
    return self
  end

  -- float16 and bfloat16 have no type in C.
  local function as_numbers(t)
    return element[dtype_of(t)] and t or apply_now("cast", {t}, {dtype = "float32"})
  end

  -- Lua's number for an element. Of an int64 beyond 2^53 it would be another one.
  local function number_of(who, dtype, value)
    if dtype == "bool" then return value ~= 0 end
    local number = tonumber(value)
    if dtype == "int64" and math.abs(number) >= 2 ^ 53 and ffi.cast("int64_t", number) ~= value
    then
      raise(who .. ": " .. tostring(value):match("%-?%d+") .. " is between two numbers of Lua's; "
        .. "t:data() has it")
    end
    return number
  end

  function Tensor:item()
    if self:count() ~= 1 then
      raise("item: expected a tensor of one element, this has " .. self:count())
    end
    local t = as_numbers(self)
    local value = number_of("item", dtype_of(t), elements(t)[0])
    hold(t)
    return value
  end

  function Tensor:totable()
    local t = as_numbers(self)
    local dtype, rank, data, at = dtype_of(t), C.ipu_tensor_rank(t.p), elements(t), -1
    local function read(axis)
      if axis == rank then
        at = at + 1
        return number_of("totable", dtype, data[at])
      end
      local list = {}
      for i = 1, tonumber(C.ipu_tensor_extent(t.p, axis)) do list[i] = read(axis + 1) end
      return list
    end
    local list = read(0)
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
        raise("save: expected tensors by name, as in {x = tensor}")
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

  base.new_tensor, base.shape_of, base.options_of = new_tensor, shape_of, options_of
end
