-- Loads the files of h5_random.py: run(folder, seed, count) gives a list of what is wrong.

local command = require "spec.support.command"
local ipu = require "ipulua"

local layers <const> = ipu.keras.layers

local function model_of(case)
  local list = {}
  for i, each in ipairs(case.layers) do
    local name, inputs, outputs = each[1], each[2], each[3]
    local shape = i == 1 and {inputs} or nil
    list[i] = outputs > 0 and layers.Dense{outputs, name = name, input_shape = shape}
      or layers.BatchNormalization{name = name, input_shape = shape}
  end
  return ipu.keras.Sequential(list)
end

local function same(wanted, t)
  local got = t:reshape{-1}:totable()
  for i, x in ipairs(wanted) do
    if got[i] ~= x then return false end
  end
  return #got == #wanted
end

local function problem_of(case, path)
  local model = model_of(case)
  local before = model:get_weights()
  local ok, message = pcall(model.load_weights, model, path)
  local after = model:get_weights()
  if case.refused ~= ipu.json.null then
    if ok then return "taken, though a number of " .. case.refused .. " doesn't fit" end
    for i, t in ipairs(before) do
      if not same(t:reshape{-1}:totable(), after[i]) then
        return "refused, but weight " .. i .. " is another one"
      end
    end
    return not message:find("hold", 1, true) and message or nil
  end
  if not ok then return message end
  for i, wanted in ipairs(case.weights) do
    if not same(wanted, after[i]) then return "weight " .. i .. " is another one" end
  end
end

local function run(folder, seed, count)
  local made = command.run{command.python "h5py", "spec/support/h5_random.py", folder,
    tostring(seed), tostring(count)}
  assert(made.status == 0, made.err)
  local wrong = {}
  for i, case in ipairs(ipu.json.decode(command.read(folder .. "/cases.json"))) do
    local path = ("%s/%d.h5"):format(folder, i - 1)
    local problem = problem_of(case, path)
    if problem then wrong[#wrong + 1] = ("seed %d, file %d: %s"):format(seed, i - 1, problem) end
  end
  return wrong
end

return {run = run}
