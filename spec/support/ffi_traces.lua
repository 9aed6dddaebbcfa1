-- A LuaJIT program, run by spec/api/ffi_spec.lua: what else runs while ipulua.ffi traces.
-- Lua 5.1 syntax.
local ipu = require "ipulua.ffi"

local function call(f, x) return ipu.func(f)(ipu.tensor(x)) end

-- A variable's reading belongs to the function, as its assignment does.
local v = ipu.variable(1)
local reading = ipu.func(function(x) return x + v:read() end)
assert(reading(1):item() == 2)
v:assign(10)
assert(reading(1):item() == 11)
assert(v:read():item() == 10 and tostring(v) == "10.0")
call(function(x)
  assert(tostring(v) == "10.0")
  return x
end, 1)

-- A compiled function that is called in another would run once, while that one is traced.
local bump = ipu.func(function(x)
  v:assign(v + x)
  return x
end)
bump(1)
local ok, message = pcall(call, function(x)
  bump(1)
  return x
end, 1)
assert(not ok and message:find("not traced inside one another", 1, true), message)
assert(message:find("ffi_traces.lua:%d+: "), message)
assert(v:read():item() == 11)

-- New tensors are tensors there, of any dtype.
local half = ipu.tensor({1.5}, "float16")
assert(call(function(x) return x * half:item() * half:totable()[1] end, 2):item() == 4.5)
assert(call(function(x) return x * ipu.variable(ipu.ones{3}) end, 2):totable()[3] == 2)
assert(call(function(x)
  return x * ipu.cast(ipu.variable({1, 2}, "bfloat16"), {dtype = "float32"})
end, 2):totable()[2] == 4)
assert(call(function(x) return x + ipu.tensor(half, "float32"):item() end, 1):item() == 2.5)

print "done"
