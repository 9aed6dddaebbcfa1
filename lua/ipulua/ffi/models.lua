-- Keras models of ipulua.ffi.

local ffi = require "ffi"
local json = require "ipulua.ffi.json"
local nearest = require "ipulua.nearest"

return function(base)
  local C, ipu, context, check, raise, want, ints = base.C, base.ipu, base.context, base.check,
    base.raise, base.want, base.ints
  local is_tensor, new_tensor, text_of, hold = base.is_tensor, base.new_tensor, base.text_of,
    base.hold
  local room, received = base.room, base.received
  local Model = {}
  function Model.__index(_, name)
    local member = rawget(Model, name)
    if member == nil then
      local names = {}
      for each in pairs(Model) do names[#names + 1] = each:sub(1, 2) ~= "__" and each or nil end
      raise("a model has no '" .. tostring(name) .. "'" .. nearest.hint(name, names))
    end
    return member
  end

  local function new_model(create, text)
    local out = ffi.new("ipu_model *[1]")
    check(create(context, text, out))
    return setmetatable({p = ffi.gc(out[0], C.ipu_model_free)}, Model)
  end

  local function as_json(who, name, v)
    if type(v) == "string" then want(who, name, v, "string") -- it has no NUL
    elseif v ~= nil then v = json.encode(v) end
    return v
  end

  ---A Keras model from its JSON (a text, or a table like it).
  function ipu.model_from_json(description)
    return new_model(C.ipu_model_from_json, as_json("model_from_json", "description", description))
  end
  ---A model that a chunk of Lua 5.4 returns; it runs in a state of its own.
  function ipu.model_from_lua(code)
    want("model_from_lua", "code", code, "string")
    return new_model(C.ipu_model_from_lua, code)
  end
  function ipu.load_model(path)
    want("load_model", "path", path, "string")
    return new_model(C.ipu_model_load, path)
  end

  -- A tensor, or a list of them.
  local function tensors(given)
    if given == nil then return ffi.new("ipu_tensor *[1]"), 0, {} end
    local keep = is_tensor(given) and {given} or given
    if type(keep) ~= "table" then
      raise("expected a tensor or a list of tensors, got a " .. type(keep))
    end
    local length = base.length_of("tensors", keep)
    local list = ffi.new("ipu_tensor *[?]", length + 1)
    for i = 1, length do
      if not is_tensor(keep[i]) then
        raise("expected a tensor or a list of tensors, got a " .. type(keep[i]))
      end
      list[i - 1] = keep[i].p
    end
    return list, length, keep
  end

  function Model:build(shape)
    want("build", "shape", shape, "table")
    check(C.ipu_model_build(self.p, #shape, ints(shape)))
  end
  function Model:compile(options)
    check(C.ipu_model_compile(self.p, as_json("compile", "options", options)))
  end
  function Model:save(path)
    want("save", "path", path, "string")
    check(C.ipu_model_save(self.p, path))
  end
  function Model:save_weights(path)
    want("save_weights", "path", path, "string")
    check(C.ipu_model_save_weights(self.p, path))
  end
  function Model:load_weights(path)
    want("load_weights", "path", path, "string")
    check(C.ipu_model_load_weights(self.p, path))
  end
  function Model:to_json() return text_of(C.ipu_model_to_json, self.p) end
  function Model:summary() return text_of(C.ipu_model_summary, self.p) end

  local function logs(f, self, x, y, options)
    local xs, x_count, keep_x = tensors(x)
    local ys, y_count, keep_y = tensors(y)
    local out = ffi.new("const char *[1]")
    if options == false then check(f(self.p, xs, x_count, ys, y_count, out))
    else
      local text = as_json("model", "options", options)
      check(f(self.p, xs, x_count, ys, y_count, text, out))
    end
    hold(keep_x)
    hold(keep_y)
    return json.decode(ffi.string(out[0]), 0 / 0) -- JSON has no NaN
  end

  ---Returns the history: a list of numbers, one an epoch, for each name; NaN for what is no number.
  function Model:fit(x, y, options) return (logs(C.ipu_model_fit, self, x, y, options)) end
  function Model:evaluate(x, y, options)
    return (logs(C.ipu_model_evaluate, self, x, y, options))
  end
  function Model:train_on_batch(x, y)
    return (logs(C.ipu_model_train_on_batch, self, x, y, false))
  end

  ---What training would cost on IPUs.
  function Model:estimate(options)
    local out = ffi.new("const char *[1]")
    check(C.ipu_model_estimate(self.p, as_json("estimate", "options", options), out))
    return json.decode(ffi.string(out[0]))
  end

  function Model:predict(x, options)
    local xs, n, keep = tensors(x)
    local text, mine = as_json("predict", "options", options), room "ipu_tensor *"
    check(C.ipu_model_predict(self.p, xs, n, text, mine.out, mine.most, mine.count))
    hold(keep)
    local list, count = received(mine, new_tensor)
    return unpack(list, 1, count)
  end

  function Model:get_weights()
    local mine = room "ipu_tensor *"
    check(C.ipu_model_get_weights(self.p, mine.out, mine.most, mine.count))
    return (received(mine, new_tensor))
  end

  function Model:set_weights(weights)
    local list, n, keep = tensors(weights)
    check(C.ipu_model_set_weights(self.p, list, n))
    hold(keep)
  end

  for name, f in pairs(Model) do
    if name:sub(1, 2) ~= "__" then Model[name] = base.guarded(Model, name, f, "model") end
  end
  function Model:__tostring()
    local config = json.decode(self:to_json()).config
    return "<model '" .. config.name .. "', " .. #config.layers .. " layer"
      .. (#config.layers == 1 and "" or "s")
      .. "; m:summary() shows them>"
  end
end
