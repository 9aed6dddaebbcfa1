-- Ops of ipulua.ffi, at once or in the function that a coroutine is tracing.

local ffi = require "ffi"
local json = require "ipulua.ffi.json"
local nearest = require "ipulua.nearest"

return function(base)
  local C, ipu, context, check, raise = base.C, base.ipu, base.context, base.check, base.raise
  local Tensor, Value, Variable = base.Tensor, base.Value, base.Variable
  local is_tensor, is_value, is_variable = base.is_tensor, base.is_value, base.is_variable
  local new_tensor, shape_of, hold = base.new_tensor, base.shape_of, base.hold
  local room, received = base.room, base.received

  -- Fields and methods of a class; of a name that it doesn't have an error, since nil would be
  -- taken for a value.
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

  -- The builder of the function that a coroutine is tracing. Ops of other coroutines run at once
  -- meanwhile, unless they take values of a function that is being traced. The builder of a
  -- coroutine that is collected goes with it.
  local builders, main = setmetatable({}, {__mode = "k"}), {}
  local is_open = setmetatable({}, {__mode = "k"})
  local function tracing() return builders[coroutine.running() or main] end
  local function set_tracing(builder) builders[coroutine.running() or main] = builder end

  -- By rawequal: == says that a builder is another, freed one at its address.
  local function is_of(builder, v) return rawequal(v.builder, builder) end

  -- Where an op on these belongs; nil: it runs at once.
  local function builder_for(who, operands)
    local builder = tracing()
    for i = 1, #operands do
      local v = operands[i]
      if is_value(v) then
        builder = builder or is_open[v.builder] and v.builder
        if not is_of(builder, v) then
          raise(who .. ": a value is used outside the function that made it")
        end
      end
    end
    return builder or nil
  end

  local function new_value(p, builder)
    local shape = shape_of(C.ipu_value_rank(p), function(axis)
      return C.ipu_value_extent(p, axis)
    end)
    return setmetatable({p = p, shape = shape, dtype = ffi.string(C.ipu_value_dtype(p)),
      builder = builder}, Value)
  end

  local function as_tensor(v, dtype)
    if is_tensor(v) then return v end
    if is_variable(v) then return base.value_of(v) end
    return ipu.tensor(v, {dtype = dtype})
  end

  local constants = base.constants
  local function as_value(v, dtype, builder)
    if is_value(v) then
      if not is_of(builder, v) then raise("a value is used outside the function that made it") end
      return v
    end
    local known = is_tensor(v) and constants[v]
    if known and is_of(builder, known) then return known end
    local out = ffi.new("ipu_value *[1]")
    if is_variable(v) then check(C.ipu_builder_read(builder, v.p, out))
    else check(C.ipu_builder_constant(builder, as_tensor(v, dtype).p, out)) end
    local value = new_value(out[0], builder)
    if is_tensor(v) then constants[v] = value end
    return value
  end

  local function is_operand(v) return is_tensor(v) or is_value(v) or is_variable(v) end

  -- The dtype of numbers for an input; nil: float32, or no rule of the input's own.
  local function number_dtype(op, i, beside)
    local dtype = ffi.string(C.ipu_op_number_dtype(op, i - 1, beside))
    return dtype ~= "" and dtype or nil
  end

  -- The dtype of the first tensor whose input has no rule of its own. Numbers take after it.
  local function dtype_beside(op, operands)
    for i, v in ipairs(operands) do
      if is_operand(v) and not number_dtype(op, i) then return v.dtype end
    end
  end

  -- In the function of a builder, or at once.
  local function apply_in(builder, op, operands, attributes)
    local traced, beside = builder ~= nil, dtype_beside(op, operands)
    local convert, ctype = as_tensor, "ipu_tensor *"
    if traced then convert, ctype = as_value, "ipu_value *" end
    local keep, list = {}, ffi.new(ctype .. "[?]", #operands + 1)
    for i, v in ipairs(operands) do
      keep[i] = convert(v, not is_operand(v) and number_dtype(op, i, beside) or nil, builder)
      list[i - 1] = keep[i].p
    end
    local good, text = true, nil
    if attributes and next(attributes) ~= nil then good, text = pcall(json.encode, attributes) end
    if not good then raise(op .. ": " .. text) end
    local mine = room(ctype)
    if traced then
      check(C.ipu_builder_apply(builder, op, list, #operands, text, mine.out, mine.most,
        mine.count))
    else
      check(C.ipu_apply(context, op, list, #operands, text, mine.out, mine.most, mine.count))
    end
    hold(keep)
    local results, count = received(mine, traced and new_value or new_tensor, builder)
    return unpack(results, 1, count)
  end

  local function apply(op, operands, attributes)
    return apply_in(builder_for(op, operands), op, operands, attributes)
  end

  -- On tensors alone, whatever is traced: a new tensor has its elements before the function runs.
  function base.apply_now(op, operands, attributes)
    return apply_in(nil, op, operands, attributes)
  end

  -- An argument after an operand that is left out would be taken for that operand.
  local function check_gap(op, i, gap)
    if not gap then return end
    raise(string.format("%s: argument %d is nil, but argument %d is given; only the last ones can "
      .. "be left out", op, gap, i))
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
          for k = 1, base.length_of(op, v) do operands[#operands + 1] = v[k] end
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

  -- The members of a module, with its prefix: ops, and of ipu itself its functions.
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

  -- Replacements for names of ipulua in Lua 5.4 that are not here.
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
      if op:find("%z") or C.ipu_op_summary(op) == nil then
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

  base.tracing, base.set_tracing, base.is_open = tracing, set_tracing, is_open
  base.builder_for, base.new_value, base.is_operand = builder_for, new_value, is_operand
  base.as_tensor, base.as_value = as_tensor, as_value
end
