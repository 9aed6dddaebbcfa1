-- A model's computation as a list of ops. Its call is traced once. If the batch is open, it is
-- traced twice with different batches, which shows the values that depend on the batch.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local infer = require "ipulua.keras.base.infer"
local nest = require "ipulua.base.nest"
local tracing = require "ipulua.trace.tracing"

local trace = {}

local guesses <const> = {61, 67}

local open_batch <const> = "the batch, which onnx.export leaves open"
local close_it <const> = "a shape inside of the model fits one batch only, which a file for any "
  .. "batch can't say: give a batch_size"

-- Extent of a batch; extent that the batch has a part in.
trace.BATCH, trace.DERIVED = -1, -2

local function record(model, specs, batch, is_open)
  local _ <close> = tracing.guard()
  local _ <close> = context.infer()
  local _ <close> = is_open and blame.explaining(infer.explainer(batch, open_batch, close_it))
    or nil
  tracing.begin_root()
  local arguments = {}
  for i, spec in ipairs(specs) do
    local shape = {}
    for k, extent in ipairs(spec.shape) do shape[k] = extent < 0 and batch or extent end
    arguments[i] = core.trace_argument(spec.dtype, shape, spec.name)
  end
  local given = #arguments == 1 and arguments[1] or arguments
  local output = model(given, {training = false})
  local records, results, assigned = core.trace_records(nest.flatten(output))
  tracing.give_up_root()
  if assigned then
    blame.error(string.format("onnx.export: the model assigns to the variable '%s' when it is "
      .. "called, and an ONNX file keeps nothing from call to call", assigned), "not_implemented")
  end
  return records, results
end

local function depends(r)
  blame.error(string.format("onnx.export: the op '%s' depends on the batch in a way that ONNX has "
    .. "no words for%s; give a batch_size",
    r.op, r.line and " (" .. r.line .. ")" or ""), "not_implemented")
end

local function merge_list(a, b)
  local open = false
  for i, x in ipairs(a) do
    if x ~= b[i] then
      a[i] = x == guesses[1] and b[i] == guesses[2] and trace.BATCH or trace.DERIVED
      open = true
    end
  end
  return open
end

-- A number that Lua made of the batch's extent is a constant of the trace.
local function check_constant(r, other)
  if not other.tensor or core.to_bytes(r.tensor) == core.to_bytes(other.tensor) then return end
  blame.error("onnx.export: a number that the model computes with depends on the batch (as in x / "
    .. "x.shape[1]), and the file is for any "
    .. "batch; give a batch_size", "not_implemented")
end

-- Marks what differs in two traces of the same model.
local function merge(r, other)
  if r.op ~= other.op or #r.inputs ~= #other.inputs then depends(r) end
  for i, type in ipairs(r.outputs) do merge_list(type.shape, other.outputs[i].shape) end
  if r.tensor and not infer.is_open(r.outputs[1].shape) then check_constant(r, other) end
  for name, value in pairs(r.attributes) do
    if args.is_plain(value) then
      if #value ~= #other.attributes[name] then depends(r) end
      r.open = merge_list(value, other.attributes[name]) or r.open
    -- these number random ops
    elseif value ~= other.attributes[name] and name ~= "stream" and name ~= "seed" then
      depends(r)
    end
  end
end

local function mark_needed(records, results)
  local function visit(reference)
    local r = records[reference[1]]
    if r.needed then return end
    r.needed = true
    for _, each in ipairs(r.inputs) do visit(each) end
  end
  for _, reference in ipairs(results) do visit(reference) end
end

-- Shapes are inferred without changing states, so the trace doesn't show these.
local function check_stateless(model)
  model:walk(function(layer)
    if layer.stateful ~= true then return end
    blame.error(string.format("onnx.export: layer '%s' is stateful, and an ONNX file keeps nothing "
      .. "from call to call; make it with stateful = false", layer.name), "not_implemented")
  end)
end

---@param model Model
---@param specs {name: string, shape: integer[], dtype: string}[] -1 where the batch is open
---@return table[] records see records.c; `needed`, `open`: an attribute depends on the batch
---@return integer[][] results references
function trace.model(model, specs)
  check_stateless(model)
  local open = false
  for _, spec in ipairs(specs) do open = open or infer.is_open(spec.shape) end
  local records, results = record(model, specs, guesses[1], open)
  mark_needed(records, results)
  if open then
    local others = record(model, specs, guesses[2], open)
    for i, r in ipairs(records) do
      if r.needed then merge(r, others[i] or {}) end
    end
  end
  return records, results
end

return trace
