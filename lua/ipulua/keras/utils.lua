-- keras.utils: small helpers around models and data.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local core = require "ipulua.core"
local ipu = require "ipulua"
local names = require "ipulua.keras.names"

local utils = {}

local categorical_rows <const> = {
  {"y", {"tensor", "list"}}, {"num_classes", "integer", optional = true}, {"dtype", "dtype", "float32"},
}

---Class numbers as vectors of 0 and 1.
---@param ... any y, num_classes, dtype
---@return userdata
function utils.to_categorical(...)
  local a = args.check("to_categorical", categorical_rows, ...)
  local y = ipu.cast(core.is_tensor(a.y) and a.y or core.tensor(a.y), "int32")
  local shape = y.shape
  if #shape > 1 and shape[#shape] == 1 then y = ipu.squeeze(y, {axis = -1}) end
  local highest = y.size > 0 and ipu.reduce_max(y):item() or -1
  local count = a.num_classes or math.tointeger(highest) + 1
  if highest >= count then
    blame.error(string.format("to_categorical: there is a class %d, but num_classes is %d", highest, count), "value")
  end
  return ipu.cast(ipu.one_hot(y, count), a.dtype)
end

local seed_rows <const> = {{"seed", "integer"}}

---Seeds all random numbers: of Lua, of initializers, dropout and shuffling.
---@param ... any seed
function utils.set_random_seed(...)
  local seed = args.check("set_random_seed", seed_rows, ...).seed
  math.randomseed(seed)
  core.set_seed(seed)
end

---Begins to count the names of layers anew.
function utils.reset_names()
  names.reset()
end

return utils
