-- Variables and functions of ipulua.ffi: tracing, compiling, gradients.

local ffi = require "ffi"

return function(base)
  local C, ipu, context, check, raise, want = base.C, base.ipu, base.context, base.check,
    base.raise, base.want
  local Tensor, Value, Variable, Function = base.Tensor, base.Value, base.Variable, {}
  local is_value, is_operand, as_tensor, as_value = base.is_value, base.is_operand,
    base.as_tensor, base.as_value
  local tracing, set_tracing, is_open = base.tracing, base.set_tracing, base.is_open
  local builder_for, new_value, new_tensor = base.builder_for, base.new_value, base.new_tensor
  local options_of, ints, note, hold = base.options_of, base.ints, base.note, base.hold
  local room, received = base.room, base.received

  ---A variable keeps its value from one call of a function to the next.
  function ipu.variable(initial, options)
    if type(options) == "string" then options = {dtype = options} end
    options = options_of("variable", options, {dtype = "string", shape = "table", name = "string"})
    local t, out = ipu.tensor(initial, {dtype = options.dtype, shape = options.shape}),
      ffi.new("ipu_variable *[1]")
    check(C.ipu_variable_new(context, options.name, t.p, out))
    note(tonumber(C.ipu_tensor_bytes(t.p)))
    return setmetatable({p = ffi.gc(out[0], C.ipu_variable_free), shape = t.shape, dtype = t.dtype},
      Variable)
  end

  -- A variable's value now, whatever is traced.
  function base.value_of(variable)
    local out = ffi.new("ipu_tensor *[1]")
    check(C.ipu_variable_read(context, variable.p, out))
    return new_tensor(out[0])
  end

  ---In a function being traced: its value there, whenever the function runs; else its value now.
  function Variable:read()
    local builder = builder_for("read", {})
    return builder and as_value(self, nil, builder) or base.value_of(self)
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

  -- A method that says that it is called with a colon, if a script writes x.method().
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

  -- Calls f for the variables of xs, or for all others, and notes its results.
  local function gradients_by(f, ctype, builder, y, xs, variables, gradients)
    local keep, places, out = {}, {}, ffi.new("ipu_value *[?]", #xs + 1)
    local list = ffi.new(ctype .. "[?]", #xs + 1)
    for i, x in ipairs(xs) do
      if base.is_variable(x) == variables then
        places[#places + 1] = i
        keep[#places] = variables and x or as_value(x, nil, builder)
        list[#places - 1] = keep[#places].p
      end
    end
    if #places == 0 then return end
    check(f(builder, y.p, list, #places, out))
    for k, i in ipairs(places) do
      gradients[i] = out[k - 1] ~= nil and new_value(out[k - 1], builder) or false
    end
  end

  ---In a function being traced: the gradients of y for a list of values, captured tensors and
  ---variables; false if there is no path. A variable's gradient is the sum over all its readings.
  function ipu.gradients(y, xs)
    local builder = builder_for("gradients", {y})
    if not builder then raise("gradients: only inside a function given to ipu.func") end
    want("gradients", "xs", xs, "table")
    base.length_of("gradients", xs)
    local gradients = {}
    y = as_value(y, nil, builder)
    gradients_by(C.ipu_builder_gradients, "ipu_value *", builder, y, xs, false, gradients)
    gradients_by(C.ipu_builder_variable_gradients, "ipu_variable *", builder, y, xs, true,
      gradients)
    return gradients
  end

  local function type_text(x) return x.dtype .. "[" .. table.concat(x.shape, ", ") .. "]" end

  -- As in Lua 5.4: a variable prints its value; a traced function's values have none yet.
  function Value:__tostring() return "<value of a traced function: " .. type_text(self) .. ">" end
  function Variable:__tostring() return tostring(base.value_of(self)) end

  local function refuse_inside()
    raise("func: functions are not traced inside one another; call the plain function")
  end

  -- The n results of a traced function. Each must be a value that a program can return.
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
    -- compiled already, it would run once, while the other is traced
    if tracing() then refuse_inside() end
    local n = select("#", ...)
    local arguments, key, list = {}, {}, ffi.new("ipu_tensor *[?]", n + 1)
    for i = 1, n do
      local given = select(i, ...)
      if is_value(given) then refuse_inside() end
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
    local mine = room "ipu_tensor *"
    check(C.ipu_function_call(compiled, list, n, mine.out, mine.most, mine.count))
    hold(arguments)
    local results, count = received(mine, new_tensor)
    return unpack(results, 1, count)
  end

  base.guarded = guarded
end
