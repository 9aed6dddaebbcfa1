-- Dtype policies: in which dtype a layer computes and in which its variables are kept.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"

local mixed_precision = {}

---In which dtype a layer computes, and in which it keeps its variables: a dtype, "mixed_float16" or
---"mixed_bfloat16".
---@class Policy: Class
---@field name string
---@field compute_dtype string
---@field variable_dtype string
local Policy = class.new("Policy")
mixed_precision.Policy = Policy

local mixed <const> = {mixed_float16 = "float16", mixed_bfloat16 = "bfloat16"}

---"float32", another dtype, "mixed_float16" or "mixed_bfloat16".
function Policy:init(name)
  if type(name) == "table" then name = name.name or name[1] end
  if mixed[name] then
    self.name, self.compute_dtype, self.variable_dtype = name, mixed[name], "float32"
    self.is_mixed = true
    return
  end
  for _, dtype in ipairs(args.dtypes) do
    if dtype == name then
      self.name, self.compute_dtype, self.variable_dtype = name, name, name
      return
    end
  end
  blame.error(string.format("'%s' is neither a dtype (%s) nor a policy (mixed_float16, "
    .. "mixed_bfloat16)",
    type(name) == "string" and name or args.describe(name),
    table.concat(args.dtypes, ", ")), "value")
end

function Policy:__tostring() return '<Policy "' .. self.name .. '">' end

local global

---The policy of layers that are given no dtype.
---@return Policy
function mixed_precision.global_policy()
  global = global or Policy("float32")
  return global
end

---Sets it: "float32", "float16", "mixed_float16", …
---Errors: an unknown policy: `keras.mixed_precision.set_global_policy "float8"`
---@param policy string|Policy
function mixed_precision.set_global_policy(policy)
  global = class.is_a(policy, Policy) and policy or Policy(policy)
end

---The policy that a layer's dtype argument means.
---Errors: an unknown policy: `keras.mixed_precision.resolve "float8"`
---@param dtype any dtype, name of a policy, Policy, or nil
---@return Policy
function mixed_precision.resolve(dtype)
  if dtype == nil then return mixed_precision.global_policy() end
  return class.is_a(dtype, Policy) and dtype or Policy(dtype)
end

return mixed_precision
