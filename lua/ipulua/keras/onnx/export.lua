-- keras.onnx.export: a model's inference as an ONNX file. The model is traced; each op of the trace
-- is converted (convert.lua).

local Builder = require "ipulua.keras.onnx.builder"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local convert = require "ipulua.keras.onnx.convert"
local core = require "ipulua.core"
local format = require "ipulua.keras.onnx.format"
local ops = require "ipulua.ops"
local trace = require "ipulua.keras.onnx.trace"

local OPSET <const> = 17

-- Before it operators take no such operands: bfloat16 in Where, bytes in Add and Relu.
local narrow_since <const> = 17
local narrow <const> = {bfloat16 = true, int8 = true, uint8 = true}

-- Ops whose conversion allows an attribute that depends on the batch.
local takes_open <const> = {reshape = true, broadcast_to = true, slice = true, strided_slice = true,
  split = true}

-- The batch as a value [1]: the first extent of the first input that has it open.
function Builder:batch()
  if not self.batch_value and self.opset < 15 then
    self.batch_value = self:emit("Slice", {self:emit("Shape", {self.batched}), self:ints{0},
      self:ints{1}})
  end
  self.batch_value = self.batch_value
    or self:emit("Shape", {self.batched}, {start = 0, ["end"] = 1})
  return self.batch_value
end

-- Constants made for a batch have equal rows: one row, expanded.
local function open_constant(g, r)
  local shape, t = r.outputs[1].shape, r.tensor
  local rows, first = {}, {}
  for i, extent in ipairs(shape) do
    if extent == trace.DERIVED then
      blame.error("onnx.export: a constant depends on the batch; give a batch_size",
        "not_implemented")
    end
    rows[i], first[i] = extent < 0 and 1 or extent, 0
  end
  local row = ops.slice(t, first, rows)
  if ops.reduce_any(ops.not_equal(t, row)):item() then
    blame.error("onnx.export: a constant differs from sample to sample; give a batch_size",
      "not_implemented")
  end
  local out = g:emit("Expand", {g:known(row), convert._shape_value(g, shape)})
  out.zero = not ops.reduce_any(ops.not_equal(row, 0)):item()
  return out
end

local function source(g, r, arguments)
  if r.argument then return arguments[r.argument] end
  if r.variable then return g:known(r.variable:read_value(), r.variable.name) end
  if r.tensor then
    for _, extent in ipairs(r.outputs[1].shape) do
      if extent < 0 then return open_constant(g, r) end
    end
    return g:known(r.tensor)
  end
  blame.error("onnx.export: the model reads a value that another function computes",
    "not_implemented")
end

local function convert_record(g, r, values)
  local f = convert[r.op]
  if not f then
    blame.error(string.format("onnx.export: ONNX has no counterpart of the op '%s'%s", r.op,
      r.line and ", used at " .. r.line or ""), "not_implemented")
  end
  if r.open and not takes_open[r.op] then
    blame.error(string.format("onnx.export: an attribute of '%s' depends on the batch; give a "
      .. "batch_size", r.op), "not_implemented")
  end
  local x = {}
  for i, reference in ipairs(r.inputs) do x[i] = values[reference[1]][reference[2]] end
  return {f(g, x, r.attributes, r)}
end

-- A name that is taken is changed: in ONNX each must be unique.
local function unique(g, name)
  local taken = g.taken
  local out = name
  while taken[out] do
    taken[name] = taken[name] + 1
    out = name .. "_" .. taken[name]
  end
  taken[out] = 1
  return out
end

-- Nodes and constants that no output needs, since a conversion left them out.
local function prune(g, outputs)
  local needed, nodes, initializers = {}, {}, {}
  for _, v in ipairs(outputs) do needed[v.name] = true end
  for i = #g.nodes, 1, -1 do
    local n, wanted = g.nodes[i], false
    for _, name in ipairs(n.outputs) do wanted = wanted or needed[name] end
    if wanted then
      table.insert(nodes, 1, n)
      for _, name in ipairs(n.inputs) do needed[name] = true end
    end
  end
  for _, v in ipairs(g.initializers) do
    if needed[v.name] then initializers[#initializers + 1] = v end
  end
  return nodes, initializers
end

local function check_type(r, dtype, opset)
  if opset >= narrow_since or not narrow[dtype] then return end
  blame.error(string.format("onnx.export: '%s' gives %s, which takes opset %d, got %d", r.op, dtype,
    narrow_since, opset), "value")
end

local function build(model, specs, opset)
  local records, results = trace.model(model, specs)
  local g = Builder(opset)
  g.taken = {}
  local inputs = {}
  for i, spec in ipairs(specs) do
    inputs[i] = {name = unique(g, spec.name), dtype = spec.dtype, shape = spec.shape}
    if spec.shape[1] == -1 then g.batched = g.batched or inputs[i] end
  end
  local values = {}
  for i, r in ipairs(records) do
    if r.needed then
      local is_given = #r.inputs == 0 and (r.argument or r.variable or r.tensor)
      values[i] = is_given and {source(g, r, inputs)} or convert_record(g, r, values)
      for k, v in ipairs(values[i]) do
        local type = r.outputs[k]
        if not is_given then check_type(r, type.dtype, opset) end
        v.dtype, v.shape = v.dtype or type.dtype, v.shape or type.shape
        if r.variable then v.name = unique(g, v.name) end
      end
    end
  end
  local outputs = {}
  for i, reference in ipairs(results) do
    local v = values[reference[1]][reference[2]]
    local out = g:emit("Identity", {v})
    local name = unique(g, #results == 1 and "output" or "output_" .. i)
    g.nodes[#g.nodes].outputs[1] = name
    out.name = name
    outputs[i] = {name = name, dtype = v.dtype, shape = {}}
    for k, extent in ipairs(v.shape) do outputs[i].shape[k] = math.max(extent, -1) end
  end
  local nodes, initializers = prune(g, outputs)
  return {name = model.name, nodes = nodes, initializers = initializers, inputs = inputs,
    outputs = outputs}
end

local function specs_of(model, batch_size)
  local inputs = model.inputs
  if not inputs then
    blame.error(string.format("onnx.export: the inputs of model '%s' are not known; build it, "
      .. "or export a functional model", model.name), "value")
  end
  local specs = {}
  for i, t in ipairs(inputs) do
    local shape = table.move(t.shape, 1, #t.shape, 1, {})
    if batch_size and (shape[1] or -1) >= 0 and shape[1] ~= batch_size then
      blame.error(string.format("onnx.export: 'batch_size' is %d, but input '%s' was made for "
        .. "batches of %d", batch_size, t.layer.name,
        shape[1]), "value")
    end
    for k, extent in ipairs(shape) do
      if extent < 0 and k == 1 then shape[1] = batch_size or -1 end
      if extent < 0 and k > 1 then
        blame.error(string.format("onnx.export: extent %d of input '%s' is not known; only the "
          .. "batch may be open", k - 1, t.layer.name),
          "value")
      end
    end
    specs[i] = {name = t.layer.name, shape = shape, dtype = t.dtype}
  end
  return specs
end

local rows <const> = {{"model", "any", one = true, of = "Model"}, {"path", "string"},
  {"batch_size", "integer", optional = true},
  {"opset", "integer", OPSET, range = "[13, 22]", says = "version of the operators in the file"}}

---Writes a model's inference as an ONNX file. The batch stays open unless batch_size is given.
---Shapes: inputs and outputs with the batch, which is free unless batch_size says it
---Errors: a layer or op that ONNX has no counterpart for, a stateful layer or another assignment to
---a variable, bfloat16, int8 or uint8 before opset 17, a path that can't be written:
---`keras.onnx.export(1, "m.onnx")`
---Source: onnx.ai, opsets 13 to 22
---@param ... any model, path, {batch_size, opset}
return function(...)
  local a = args.check("onnx.export", rows, ...)
  if type(a.model) ~= "table" or not a.model.get_weights then
    blame.error("onnx.export: expected a Keras model, got " .. args.describe(a.model), "type")
  end
  if a.batch_size and a.batch_size < 1 then
    blame.error("onnx.export: 'batch_size' must be positive, got " .. a.batch_size, "value")
  end
  local g = build(a.model, specs_of(a.model, a.batch_size), a.opset)
  core.replace_file(a.path, format.encode(g, a.opset, core.version))
end
