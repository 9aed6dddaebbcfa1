-- Weights in files: .safetensors, a tensor a weight, under the weight's name.

local blame = require "ipulua.blame"
local core = require "ipulua.core"

local saving = {}

-- Names in the file: the weights' own; a second weight of the same name gets a number.
local function named_weights(model, who)
  local weights = model.weights
  if #weights == 0 then
    blame.error(string.format("%s: model '%s' has no weights yet; build it or call it first", who, model.name), "value")
  end
  local list, used = {}, {}
  for i, v in ipairs(weights) do
    local name = v.name
    used[name] = (used[name] or 0) + 1
    if used[name] > 1 then name = name .. ":" .. used[name] - 1 end
    list[i] = {name, v}
  end
  return list
end

local function check_path(who, path)
  if type(path) ~= "string" then blame.error(who .. ": a path is wanted, got " .. type(path), "type") end
  if not path:match("%.safetensors$") then
    blame.error(string.format("%s: '%s' must end in .safetensors", who, path), "value")
  end
end

---Writes all weights; the file is replaced as a whole.
---@param model Model
---@param path string
function saving.save_weights(model, path)
  check_path("save_weights", path)
  local tensors = {}
  for _, pair in ipairs(named_weights(model, "save_weights")) do tensors[pair[1]] = pair[2]:read_value() end
  core.save(path, tensors)
end

---Reads what save_weights wrote. Nothing changes when a weight is missing or has another shape.
---@param model Model
---@param path string
function saving.load_weights(model, path)
  check_path("load_weights", path)
  local tensors = core.load(path)
  local list = named_weights(model, "load_weights")
  local count = 0
  for _ in pairs(tensors) do count = count + 1 end
  for _, pair in ipairs(list) do
    local name, v = pair[1], pair[2]
    local t = tensors[name]
    if not t then blame.error(string.format("load_weights: '%s' has no weight '%s'", path, name), "value") end
    local want, got = table.concat(v.shape, ", "), table.concat(t.shape, ", ")
    if want ~= got or v.dtype ~= t.dtype then
      blame.error(string.format("load_weights: weight '%s' is %s[%s], the file has %s[%s]", name, v.dtype, want, t.dtype, got),
        "invalid_argument")
    end
  end
  if count ~= #list then
    blame.error(string.format("load_weights: '%s' has %d weights, the model %d", path, count, #list), "value")
  end
  for _, pair in ipairs(list) do pair[2]:assign(tensors[pair[1]]) end
end

return saving
