-- model:summary(): the description of a model that summary.lua draws.

local args = require "ipulua.base.args"
local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local graph = require "ipulua.keras.models.functional"
local pricing = require "ipulua.machine.pricing"
local summary = require "ipulua.keras.models.summary"

local kept <const> = require "ipulua.keras.base.layer_fields".get

local describe, methods = {}, {}
describe.methods = methods

local function sizes(list)
  local count, bytes = 0, 0
  local widths <const> = {float64 = 8, int64 = 8, float32 = 4, int32 = 4, float16 = 2, bfloat16 = 2}
  for _, v in ipairs(list) do
    count = count + v.size
    bytes = bytes + v.size * (widths[v.dtype] or 1)
  end
  return count, bytes
end

-- Where a call's inputs come from: "dense[0][0]".
local function connections(model, layer)
  local list = {}
  for _, node in ipairs(model._graph.nodes) do
    if node.layer == layer then
      for _, operand in ipairs(graph.operands(node)) do
        list[#list + 1] = string.format("%s[%d][%d]", operand.layer.name, operand.node.index,
          operand.tensor_index - 1)
      end
    end
  end
  return list
end

-- The shapes of a layer's results in this model, nil when they are unknown.
local function output_shape(model, layer)
  if layer.__name == "InputLayer" then return kept(layer, "batch_input_shape") end
  local node
  for _, each in ipairs(model._graph and model._graph.nodes or {}) do
    if each.layer == layer then node = node or each end
  end
  node = node or kept(layer, "nodes") and kept(layer, "nodes")[1]
  if not node then return nil end
  local shapes = {}
  for i, t in ipairs(node.results) do shapes[i] = t.shape end
  return #shapes == 1 and shapes[1] or shapes
end

describe.output_shape = output_shape

---@param model Model
---@param expand_nested boolean? whether the layers of models in it have rows, too
---@return table as summary.lines takes it
function describe.model(model, expand_nested)
  local rows = {}
  local is_sequential = model._stack ~= nil
  local functional = model._graph ~= nil and not is_sequential
  local ok, stages = blame.attempt(assignment.stages, model)
  local stage_of = {}
  for _, entry in ipairs(ok and stages and model:get_pipeline_stage_assignment() or {}) do
    stage_of[entry.layer] = entry.pipeline_stage
  end
  for i, layer in ipairs(model:sublayers()) do
    local is_built = layer.built or #layer.weights > 0
    rows[i] = {
      name = layer.name, class = class.of(layer).__name, output_shape = output_shape(model, layer),
      built = is_built, trainable = layer.trainable,
      params = (sizes(layer.weights)), connected_to = functional and connections(model, layer)
      or nil, stage = stage_of[layer],
    }
    if expand_nested and class.of(layer).is_model then
      rows[i].nested = describe.model(layer, true).rows
    end
  end
  local totals = {}
  totals.trainable, totals.trainable_bytes = sizes(model.trainable_weights)
  totals.non_trainable, totals.non_trainable_bytes = sizes(model.non_trainable_weights)
  local optimizer = model.optimizer
  if optimizer and optimizer.weights and #optimizer.weights > 1 then
    totals.optimizer, totals.optimizer_bytes = sizes(optimizer.weights)
  end
  return {name = model.name, functional = functional, rows = rows, totals = totals}
end

-- Cycles of a run and bytes of each layer, where the model can be priced: its inputs have shapes.
local function add_prices(model, description)
  local ok, price = blame.attempt(function()
    local _ <close> = pricing.draw_nothing()
    return (model:priced{})
  end)
  if not ok then return end
  local cycles, bytes = price:names()
  local stages = price:summary().stages
  for _, row in ipairs(description.rows) do
    local made, built = model.name .. "/" .. row.name .. "/", row.name .. "/"
    row.cycles, row.bytes = 0, 0
    for name, value in pairs(cycles) do
      if name:sub(1, #made) == made then row.cycles = row.cycles + value end
    end
    for name, value in pairs(bytes) do
      if name:sub(1, #made) == made or name:sub(1, #built) == built then
        row.bytes = row.bytes + value
      end
    end
    row.cycles, row.bytes = math.floor(row.cycles + 0.5), math.floor(row.bytes + 0.5)
    row.stash = row.stage and stages[row.stage + 1] and stages[row.stage + 1].stash_depth or nil
  end
end

local rows <const> = {
  summary.length_row, {"positions", "list", optional = true},
  {"print_fn", "callable", optional = true},
  {"style", "string", optional = true, choices = {"classic", "modern"}}, {"ipu", "boolean", false},
  {"columns", "integer", optional = true}, {"expand_nested", "boolean", false},
  {"show_trainable", "boolean", false, says = "a column that says which layers train"},
}

-- Where columns end: shares of the line or characters, rising.
local function check_positions(positions, count)
  if not positions then return end
  local former, rising = 0, #positions >= count
  for _, each in ipairs(positions) do
    rising = rising and type(each) == "number" and each > former
    former = rising and each or former
  end
  if not rising then
    blame.error(string.format("summary: 'positions' must be a list of %d rising numbers, the ends "
      .. "of the columns", count), "value")
  end
end

---Prints the table of layers. Options: line_length, positions, style, ipu, print_fn, expand_nested
---(the layers of models in this one, too), show_trainable (Y or N for each layer).
---Units: line_length in characters; with ipu = true cycles of the chip's clock, memory in bytes
---Errors: an unknown option, a model that is not built: `model:summary{widths = 3}`,
---`keras.Sequential{keras.layers.Dense(1)}:summary()`
---@param ... any {line_length, positions, style, ipu, print_fn, expand_nested, show_trainable}
function methods:summary(...)
  local a = args.check("summary", rows, ...)
  if not self.built then
    blame.error(string.format("summary: model '%s' is not built yet, so the shapes of its layers "
      .. "are not known; call model:build(shape) or "
      .. "model:fit, or give the first layer an input_shape", self.name), "value")
  end
  local print_line = a.print_fn or print
  local description = describe.model(self, a.expand_nested)
  if a.ipu then add_prices(self, description) end
  check_positions(a.positions, description.functional and 4 or 3)
  for _, line in ipairs(summary.lines(description, a)) do print_line(line) end
end

return describe
