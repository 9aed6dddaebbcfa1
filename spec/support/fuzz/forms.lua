-- A program in every form that it can take; the results of each must be the same bits.

local config = require "ipulua.config"
local core = require "ipulua.core"
local ipu = require "ipulua"

local forms = {}

local function is_float(t) return t.dtype:find("float") ~= nil end

-- The sign and payload of a NaN are nobody's promise.
local function same(a, b)
  if core.same_bytes(a, b) then return true end
  if a.dtype ~= b.dtype or not is_float(a) or #a.shape ~= #b.shape then return false end
  local nan = ipu.is_nan(a)
  return core.same_bytes(nan, ipu.is_nan(b))
    and core.same_bytes(ipu.where(nan, 0, a), ipu.where(nan, 0, b))
end

---Nil where all are the same; else words.
function forms.difference(expected, got)
  if expected.n ~= got.n then return ("%d results instead of %d"):format(got.n, expected.n) end
  for i = 1, expected.n do
    local a, b = expected[i], got[i]
    if (a == nil) ~= (b == nil) then
      return ("result %d: %s instead of %s"):format(i, tostring(b), tostring(a))
    end
    if a ~= nil and not same(a, b) then
      if a.dtype ~= b.dtype or ipu.json.encode(a.shape) ~= ipu.json.encode(b.shape) then
        return ("result %d: %s %s instead of %s %s"):format(i, b.dtype, ipu.json.encode(b.shape),
          a.dtype, ipu.json.encode(a.shape))
      end
      local x, y = ipu.reshape(a, {-1}), ipu.reshape(b, {-1})
      local differ = ipu.cast(ipu.not_equal(x, y), "int32")
      local at = ipu.argmax(differ):item()
      return ("result %d, %s %s: %d of %d differ, first at %d: %s instead of %s"):format(i, a.dtype,
        ipu.json.encode(a.shape),
        ipu.reduce_sum(differ):item(), a.size, at, tostring(y[at + 1]), tostring(x[at + 1]))
    end
  end
  return nil
end

local function zeros(results)
  local list = {}
  for i = 1, results.n do list[i] = ipu.zeros(results[i].shape, {dtype = results[i].dtype}) end
  return list
end

---Each: (inputs, f, eager results) → results, as pcall gives them.
forms.list = {
  {name = "eager", run = function(inputs, f) return f(table.unpack(inputs)) end},
  {name = "func", run = function(inputs, f) return ipu.func(f)(table.unpack(inputs)) end},
  {name = "func, again", run = function(inputs, f)
    local g = ipu.func(f)
    g(table.unpack(inputs))
    return g(table.unpack(inputs))
  end},
  {name = "captured", run = function(inputs, f)
    return ipu.func(function() return f(table.unpack(inputs)) end)()
  end},
  {name = "outlined", run = function(inputs, f)
    local g = ipu.outlined_function(f)
    return ipu.func(function(...) return g(...) end)(table.unpack(inputs))
  end},
  {name = "loop", run = function(inputs, f, expected)
    local carried = zeros(expected)
    return ipu.func(function(...)
      local given = table.pack(...)
      return ipu.loops.repeat_n(2, function(...) -- luacheck: ignore 212
        return f(table.unpack(given))
      end, carried)
    end)(table.unpack(inputs))
  end},
  {name = "branch", run = function(inputs, f, expected)
    local other = zeros(expected)
    return ipu.func(function(pred, ...)
      local given = table.pack(...)
      return ipu.cond(pred, function() return f(table.unpack(given)) end, function()
        local same_values = {}
        for i, x in ipairs(other) do same_values[i] = ipu.identity(x) end
        return table.unpack(same_values)
      end)
    end)(ipu.less(ipu.tensor(0), 1), table.unpack(inputs))
  end},
}

-- On so many IPUs, whatever becomes of f.
local function on_ipus(count, f)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = count
  cfg.compilation_poplar_options = {["debug.allowOutOfMemory"] = "true"} -- results are compared
  cfg:configure_ipu_system()
  local results = table.pack(pcall(f))
  config.reset_ipu_configuration()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- Results of several replicas or micro-batches, stacked. Gives the first one's results; the others
-- must be equal.
local function first_of(stacked, expected)
  local parts = {}
  for k = 1, stacked[1].shape[1] do
    parts[k] = {n = #stacked}
    for i, t in ipairs(stacked) do parts[k][i] = t[k] end
    local difference = forms.difference(expected, parts[k])
    if difference then error(("part %d: %s"):format(k, difference), 0) end
  end
  return table.unpack(parts[1], 1, #stacked)
end

local function copies(list)
  local out = {}
  for i, t in ipairs(list) do out[i] = ipu.identity(t) end
  return out
end

---Forms that take several IPUs: what replicas say to each other (calls.is_collective) is left out
---by the caller.
forms.devices = {
  {name = "two replicas", run = function(inputs, f, expected)
    return on_ipus(2, function()
      local out = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
      ipu.func(function(...) out:enqueue(copies{f(...)}) end)(table.unpack(inputs))
      return first_of(out:dequeue(), expected)
    end)
  end},
  {name = "pipeline", run = function(inputs, f, expected)
    return on_ipus(2, function()
      local out = ipu.IPUOutfeedQueue()
      local function last(...) return table.unpack(copies{...}) end
      ipu.func(function(...)
        return ipu.pipeline{computational_stages = {f, last}, gradient_accumulation_count = 4,
          inputs = {...}, outfeed_queue = out}
      end)(table.unpack(inputs))
      local found = out:dequeue()
      return first_of(#expected == 1 and type(found) ~= "table" and {found} or found, expected)
    end)
  end},
}

-- The differentiated value: the sum of all real results, each element with a weight of its own
-- place.
local function real_of(list)
  local out = {}
  for i = 1, list.n or #list do if is_float(list[i]) then out[#out + 1] = list[i] end end
  return out
end

local function gradients_by_tape(inputs, f)
  local wanted = real_of(inputs)
  local tape = ipu.GradientTape()
  for _, x in ipairs(wanted) do tape:watch(x) end
  local results = tape(function() return real_of(table.pack(f(table.unpack(inputs)))) end)
  return tape:gradient(results, wanted)
end

-- A list whose holes say where no path is.
local function unpack_gradients(gradients, n) return table.unpack(gradients, 1, n) end

forms.gradients = {
  {name = "eager tape", run = function(inputs, f)
    return unpack_gradients(gradients_by_tape(inputs, f), #real_of(inputs))
  end},
  {name = "tape around a function", run = function(inputs, f)
    return unpack_gradients(gradients_by_tape(inputs, ipu.func(f)), #real_of(inputs))
  end},
  {name = "tape inside a function", run = function(inputs, f)
    local n = #real_of(inputs)
    return ipu.func(function(...) return unpack_gradients(gradients_by_tape({...}, f), n) end)(
      table.unpack(inputs))
  end},
  {name = "ipu.gradients", run = function(inputs, f)
    local n = #real_of(inputs)
    return ipu.func(function(...)
      return unpack_gradients(ipu.gradients(real_of(table.pack(f(...))), real_of{...}), n)
    end)(table.unpack(inputs))
  end},
}

return forms
