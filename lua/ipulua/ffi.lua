-- ipulua for LuaJIT, over the C library: tensors, ops, functions, Keras models. Lua 5.1 syntax.
--
--   local ipu = require "ipulua.ffi"
--   local a = ipu.tensor{{1, 2}, {3, 4}}
--   print(ipu.matmul(a, a, {transpose_b = true}))
--
-- Ops take tensors, then one table of attributes. Objects of the C library are freed when they are
-- collected.

local ffi = require "ffi"

local base = require "ipulua.ffi.library"()
local C, ipu, context, check, raise, want = base.C, base.ipu, base.context, base.check, base.raise,
  base.want

-- The files of the folder extend these classes, and the tests that tell them apart.
local Tensor, Value, Variable = {}, {}, {}
base.Tensor, base.Value, base.Variable = Tensor, Value, Variable

function base.is_tensor(v) return getmetatable(v) == Tensor end
function base.is_value(v) return getmetatable(v) == Value end
function base.is_variable(v) return getmetatable(v) == Variable end

require "ipulua.ffi.arrays"(base)
require "ipulua.ffi.tensors"(base)
require "ipulua.ffi.ops"(base)
require "ipulua.ffi.functions"(base)
require "ipulua.ffi.models"(base)

---Runs a chunk of Lua 5.4 in the models' own state; returns its result as text.
function ipu.run_lua(code)
  want("run_lua", "code", code, "string")
  return base.text_of(C.ipu_run_lua, context, code)
end
local function want_integer(who, n)
  want(who, "n", n, "number")
  if n % 1 ~= 0 or math.abs(n) > 2 ^ 53 then
    raise(who .. ": 'n' must be an integer, got " .. tostring(n))
  end
end
function ipu.set_threads(n)
  want_integer("set_threads", n)
  if math.abs(n) > 2 ^ 30 then raise("set_threads: expected 0 (one a core) to 256, got " .. n) end
  check(C.ipu_set_threads(context, n))
end
function ipu.set_seed(n)
  want_integer("set_seed", n)
  check(C.ipu_set_seed(context, ffi.cast("uint64_t", ffi.cast("int64_t", n))))
end

return ipu
