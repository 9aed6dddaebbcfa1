-- predict: a model's outputs for data.

local args = require "ipulua.base.args"
local compile = require "ipulua.keras.training.compile"
local concat = require "ipulua.keras.base.concat"
local elements = require "ipulua.data.elements"
local executions = require "ipulua.keras.training.executions"
local feeding = require "ipulua.keras.training.feeding"
local logs = require "ipulua.keras.training.logs"
local nest = require "ipulua.base.nest"
local runs = require "ipulua.keras.training.runs"
local together = require "ipulua.keras.base.together"

local predict = {methods = {}}
local methods <const> = predict.methods

local predict_rows <const> = {
  {"x", "any", optional = true, of = "tensor, table of tensors or Dataset"}, feeding.batch_size_row,
  {"verbose", {"integer", "string", "boolean"}, 0, of = "0, 1, 2, boolean or \"auto\""},
  feeding.count_row "steps",
  {"callbacks", "table", optional = true, says = "a callback or a list"},
}

-- Labels of a dataset play no part in predicting.
local function only_inputs(x)
  if not feeding.is_dataset(x) or not elements.is_tuple(x.template) or #x.template.items == 1 then
    return x
  end
  return x:map(function(first) return elements.returned({first}, 1) end)
end

-- Each output of all executions together.
local function join(parts)
  if #parts == 1 then return parts[1] end
  local joined = {}
  for i = 1, #parts[1] do
    local list = {}
    for k, part in ipairs(parts) do list[k] = part[i] end
    joined[i] = concat.all(list, 0)
  end
  return joined
end

---The outputs for data, in its order: a tensor, or a structure of them.
---Shapes: x [samples, ...] → [samples, ...]
---Errors: an input that the model can't take, samples that batches don't divide:
---`model:predict(ipu.ones{4, 7}, {verbose = 0})`
---@param ... any x, batch_size, verbose, steps, callbacks
---@return any
function methods:predict(...)
  local a = args.check("predict", predict_rows, ...)
  if self.run_eagerly then compile.check(self, "predict") end
  local _ <close> = together.enter(self)
  a.x = only_inputs(a.x)
  local parts, form = {}, nil
  local run = runs.begin(self, "predict", "predict", a, function(outputs, structure_of_outputs)
    parts[#parts + 1], form = outputs, structure_of_outputs
  end)
  local _ <close> = runs.closing(self, run)
  run.callbacks:on_predict_begin(logs.by_name{})
  runs.epoch(self, run)
  run.callbacks:on_predict_end(logs.by_name{})
  local joined = executions.cut(join(parts), run.added, run.made * run.replicas)
  return nest.pack(form, joined)
end

return predict
