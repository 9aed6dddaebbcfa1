-- model:inspect: the outputs of layers for a batch, and the size of the gradients of their weights.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local building = require "ipulua.keras.training.building"
local compile = require "ipulua.keras.training.compile"
local core = require "ipulua.core"
local feeding = require "ipulua.keras.training.feeding"
local GradientTape = require "ipulua.trace.tape".GradientTape
local nest = require "ipulua.base.nest"
local observed = require "ipulua.keras.base.observed"
local ops = require "ipulua.ops"
local steps = require "ipulua.keras.training.steps"
local summary = require "ipulua.keras.models.summary"
local tracing = require "ipulua.trace.tracing"

local inspect = {methods = {}}
local methods <const> = inspect.methods

-- Numbers of the finite elements, and how many there are of the others.
local function numbers_of(t)
  local row = {shape = t.shape, dtype = t.dtype}
  if t.size == 0 or t.dtype == "bool" then return row end
  local x = ops.cast(t, "float64")
  local finite = ops.is_finite(x)
  local count = ops.reduce_sum(ops.cast(finite, "int32")):item()
  row.nan = t.size - count
  row.zeros = ops.reduce_mean(ops.cast(ops.equal(x, 0), "float64")):item()
  if count == 0 then return row end
  x = ops.where(finite, x, 0.0)
  row.mean = ops.reduce_sum(x):item() / count
  local distance = ops.where(finite, ops.square(x - row.mean), 0.0)
  row.std = math.sqrt(ops.reduce_sum(distance):item() / count)
  return row
end

local function note(rows, layer, results)
  for _, leaf in ipairs(nest.flatten{table.unpack(results, 1, results.n)}) do
    if core.is_tensor(leaf) and not core.is_symbolic(leaf) then
      local row = numbers_of(leaf)
      row.layer, row.class, row.of = layer.name, getmetatable(layer).__name, layer
      rows[#rows + 1] = row
    end
  end
end

-- The numbers of each layer while f runs, in the order in which the layers end.
local function observe(model, f)
  local rows, former = {}, observed.call
  local _ <close> = setmetatable({}, {__close = function() observed.call = former end})
  observed.call = function(layer, results)
    if layer ~= model then core.unrecorded(note, rows, layer, results) end
  end
  f()
  return rows
end

-- Restores the metrics, and the state that a step in training changes by itself.
local function keep_state(model)
  local kept = {}
  local function keep(list)
    for _, v in ipairs(list) do kept[#kept + 1] = {v, v:read_value()} end
  end
  for _, metric in ipairs(model.metrics) do keep(metric:all_variables()) end
  keep(model.non_trainable_weights)
  return setmetatable({}, {__close = function()
    for _, each in ipairs(kept) do core.set_variable(each[1], each[2]) end
  end})
end

local function norm_of(gradients)
  local sum, found = 0.0, false
  for i = 1, gradients.n do
    if gradients[i] then
      sum = sum + ops.reduce_sum(ops.square(ops.cast(gradients[i], "float64"))):item()
      found = true
    end
  end
  return found and math.sqrt(sum) or nil
end

-- The gradients of the loss beside the layers whose weights they are of.
local function observe_step(model, x, y)
  local _ <close> = keep_state(model)
  local tape, total = GradientTape(), nil
  local rows = observe(model, function()
    total = tape(function()
      x, y = steps.expand(x), steps.expand(y)
      return steps.loss(model, x, y, model(x, {training = true}))
    end)
  end)
  if not total then
    blame.error("inspect: 'y' is given, but model '" .. model.name .. "' has no loss", "value")
  end
  local list = model.trainable_variables
  local gradients, of = tape:gradient(total, list), {}
  for i, v in ipairs(list) do of[core.variable_identity(v)] = gradients[i] end
  for _, row in ipairs(rows) do
    local own = {n = 0}
    for _, v in ipairs(row.of.trainable_weights) do
      own.n = own.n + 1
      own[own.n] = of[core.variable_identity(v)]
    end
    row.gradient_norm = norm_of(own)
  end
  return rows
end

-- ------------------------------------------------ shown

local columns <const> = {
  {"layer", function(row) return string.format("%s (%s)", row.layer, row.class) end},
  {"output", function(row) return summary.show_shape(row.shape) end},
  {"mean"}, {"std"},
  {"zeros", function(row) return row.zeros and string.format("%.1f%%", 100 * row.zeros) or "" end},
  {"nan", function(row) return tostring(row.nan or "") end},
  {"gradient_norm", title = "gradient"},
}

local function shown(row, column)
  if column[2] then return column[2](row) end
  local value = row[column[1]]
  return value and string.format("%.4g", value) or ""
end

local table_meta <const> = {__name = "inspection", __tostring = function(rows)
  local lines = {}
  for i = 0, #rows do lines[i] = {} end
  for _, column in ipairs(columns) do
    local title, width = column.title or column[1], 0
    local cells = {[0] = title}
    for i, row in ipairs(rows) do cells[i] = shown(row, column) end
    for i = 0, #rows do width = math.max(width, #cells[i]) end
    local side = (column[1] == "layer" or column[1] == "output") and "-" or ""
    for i = 0, #rows do
      lines[i][#lines[i] + 1] = string.format("%" .. side .. width .. "s", cells[i])
    end
  end
  for i = 0, #rows do lines[i] = (table.concat(lines[i], "  "):gsub(" +$", "")) end
  return table.concat(lines, "\n", 0, #rows)
end}

local inspect_rows <const> = {
  {"x", "any", of = "tensor or table of tensors"},
  {"y", "any", optional = true, of = "tensor or table of tensors", says = "labels"},
}

---The numbers of each layer's output for a batch. The list holds tables of {layer, class, shape,
---dtype, mean, std, zeros, nan}, and prints as a table. With labels there is gradient_norm too: of
---the loss by the layer's weights, as a training step has it. The model is built, and stays as it
---is.
---Shapes: x and y [batch, ...]
---Units: mean and std of the finite elements; zeros is a share; nan counts NaNs and infinities
---Errors: labels for a model that was not compiled, a call in a traced function:
---`model:inspect(ipu.ones{4, 7})`
---@param ... any x, y
---@return table[]
function methods:inspect(...)
  local a = args.check("inspect", inspect_rows, ...)
  if tracing.is_active() then
    blame.error("inspect: layers have no numbers while a function is traced", "value")
  end
  local x = feeding.as_tensors(a.x, "inspect")
  if nest.first(x) == nil then blame.error("inspect: there is no data; give x", "type") end
  building.from_batch(self, x)
  local rows
  if a.y == nil then
    rows = observe(self, function() self(steps.expand(x), {training = false}) end)
  else
    compile.check(self, "inspect")
    rows = observe_step(self, x, feeding.as_tensors(a.y, "inspect"))
  end
  for _, row in ipairs(rows) do row.of = nil end
  return setmetatable(rows, table_meta)
end

return inspect
