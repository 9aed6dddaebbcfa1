-- ONNX files: the messages that a model is made of, to bytes and back. Field numbers are as in
-- onnx.proto.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local protobuf = require "ipulua.keras.base.protobuf"

local format = {}

-- Our dtypes, and the numbers of TensorProto.DataType.
local type_numbers <const> = {
  float32 = 1, uint8 = 2, int8 = 3, int32 = 6, int64 = 7, bool = 9, float16 = 10, float64 = 11,
  bfloat16 = 16,
}
local dtypes = {}
for dtype, number in pairs(type_numbers) do dtypes[number] = dtype end

-- ONNX's numbers of the types that the library lacks.
local foreign <const> = {
  [4] = "uint16", [5] = "int16", [8] = "string", [12] = "uint32", [13] = "uint64",
  [14] = "complex64", [15] = "complex128", [17] = "float8e4m3fn", [18] = "float8e4m3fnuz",
  [19] = "float8e5m2", [20] = "float8e5m2fnuz", [21] = "uint4", [22] = "int4", [23] = "float4e2m1",
}

function format.type_number(dtype) return type_numbers[dtype] end
---nil when there is none of ours.
function format.dtype(number) return dtypes[number] end
---The name that ONNX has for a type, for errors.
---@param number any of TensorProto.DataType; opset 1's Cast has names
function format.type_name(number) return dtypes[number] or foreign[number] or tostring(number) end

-- ------------------------------------------------ writing

local integer, bytes = protobuf.integer, protobuf.bytes

-- TensorProto: 1 dims, 2 data_type, 8 name, 9 raw_data.
local function tensor(name, t)
  return protobuf.integers(1, t.shape) .. integer(2, type_numbers[t.dtype]) .. bytes(8, name)
    .. bytes(9, core.to_bytes(t))
end

-- AttributeProto: 1 name, 2 f, 3 i, 4 s, 7 floats, 8 ints, 9 strings, 20 type.
local function attribute(name, value)
  local body
  if math.type(value) == "integer" then body = integer(3, value) .. integer(20, 2)
  elseif math.type(value) == "float" then body = protobuf.float(2, value) .. integer(20, 1)
  elseif type(value) == "string" then body = bytes(4, value) .. integer(20, 3)
  elseif type(value[1]) == "string" then
    local parts = {}
    for i, s in ipairs(value) do parts[i] = bytes(9, s) end
    body = table.concat(parts) .. integer(20, 8)
  elseif math.type(value[1]) == "float" then
    local parts = {}
    for i, x in ipairs(value) do parts[i] = protobuf.float(7, x) end
    body = table.concat(parts) .. integer(20, 6)
  else body = protobuf.integers(8, value) .. integer(20, 7)
  end
  return bytes(5, bytes(1, name) .. body)
end

-- NodeProto: 1 input, 2 output, 3 name, 4 op_type, 5 attribute.
local function node(n)
  local parts = {}
  for _, name in ipairs(n.inputs) do parts[#parts + 1] = bytes(1, name) end
  for _, name in ipairs(n.outputs) do parts[#parts + 1] = bytes(2, name) end
  parts[#parts + 1] = bytes(3, n.name) .. bytes(4, n.op)
  local names = {}
  for name in pairs(n.attributes) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do parts[#parts + 1] = attribute(name, n.attributes[name]) end
  return table.concat(parts)
end

-- ValueInfoProto: 1 name, 2 type{1 tensor{1 elem_type, 2 shape{1 dim{1 value | 2 name}}}}; -1 is
-- the batch. Outputs need no type.
local function value_info(v)
  if not v.dtype then return bytes(1, v.name) end
  local dims = {}
  for i, extent in ipairs(v.shape) do
    dims[i] = bytes(1, extent < 0 and bytes(2, "batch") or integer(1, extent))
  end
  return bytes(1, v.name)
    .. bytes(2, bytes(1, integer(1, type_numbers[v.dtype]) .. bytes(2, table.concat(dims))))
end

-- The ir_version that came with an opset.
local function ir_version(opset)
  return opset < 15 and 7 or opset < 19 and 8 or opset < 21 and 9 or 10
end

---A graph's bytes.
---@param g {name: string, nodes: table[], initializers: table[], inputs: table[], outputs: table[]}
---@param opset integer
---@param version string of the producer
---@return string
function format.encode(g, opset, version)
  local parts = {}
  for _, n in ipairs(g.nodes) do parts[#parts + 1] = bytes(1, node(n)) end
  parts[#parts + 1] = bytes(2, g.name)
  for _, v in ipairs(g.initializers) do parts[#parts + 1] = bytes(5, tensor(v.name, v.tensor)) end
  for _, v in ipairs(g.inputs) do parts[#parts + 1] = bytes(11, value_info(v)) end
  for _, v in ipairs(g.outputs) do parts[#parts + 1] = bytes(12, value_info(v)) end
  -- ModelProto: 1 ir_version, 2 producer_name, 3 producer_version, 7 graph, 8 opset_import{1
  -- domain, 2 version}
  return integer(1, ir_version(opset)) .. bytes(2, "ipulua") .. bytes(3, version)
    .. bytes(7, table.concat(parts)) .. bytes(8, bytes(1, "") .. integer(2, opset))
end

-- ------------------------------------------------ reading

-- Where a tensor's elements are when they are not raw: field, how to pack one.
local typed_fields <const> = {
  float32 = {4, "<f"}, int32 = {5, "<i4"}, uint8 = {5, "<I1"}, int8 = {5, "<i1"}, bool = {5, "<I1"},
  float16 = {5, "<I2"},
  bfloat16 = {5, "<I2"}, int64 = {7, "<i8"}, float64 = {10, "<d"},
}

local function typed_bytes(f, dtype, what)
  local field, pack = table.unpack(typed_fields[dtype])
  if dtype == "float32" or dtype == "float64" then return table.concat(f[field] or {}) end
  local out = protobuf.read_integers(f[field], what)
  for i, value in ipairs(out) do out[i] = string.pack(pack, value) end
  return table.concat(out)
end

-- A tensor of the file, which its errors name: bytes may not fit the shape.
local function from_bytes(what, name, ...)
  local ok, t = blame.attempt(core.from_bytes, ...)
  if ok then return t end
  local last <const> = blame.last
  blame.error(string.format("%s: tensor '%s': %s", what, name, last.message), last.kind)
end

local function read_tensor(data, what)
  local f = protobuf.fields(data, what)
  local name = f[8] and f[8][1] or ""
  local number = f[2] and f[2][1] or 0
  local dtype = dtypes[number]
  if not dtype then
    blame.error(string.format("%s: tensor '%s' has an element type that is not known here: %s",
      what,
      name, format.type_name(number)), "not_implemented")
  end
  if f[13] or f[14] and f[14][1] ~= 0 then
    blame.error(string.format("%s: tensor '%s' is in a file of its own; such files are not read",
      what, name), "value")
  end
  local shape = protobuf.read_integers(f[1], what)
  return name, from_bytes(what, name, dtype, shape,
    f[9] and f[9][1] or typed_bytes(f, dtype, what))
end

local function read_attribute(f, what)
  local kind = f[20] and f[20][1]
  if kind == 1 or not kind and f[2] then
    return (string.unpack("<f", f[2] and f[2][1] or "\0\0\0\0"))
  end
  if kind == 2 or not kind and f[3] then return f[3] and f[3][1] or 0 end
  if kind == 3 then return f[4] and f[4][1] or "" end
  if kind == 4 then return select(2, read_tensor(f[5][1], what)) end
  if kind == 6 then return protobuf.read_floats(f[7]) end
  if kind == 7 then return protobuf.read_integers(f[8], what) end
  if kind == 8 then return f[9] or {} end
  blame.error(string.format("%s: attribute '%s' is of a kind that is not known here", what,
    f[1] and f[1][1] or "?"), "value")
end

local function read_node(data, what)
  local f = protobuf.fields(data, what)
  local n = {inputs = f[1] or {}, outputs = f[2] or {}, name = f[3] and f[3][1] or "",
    op = f[4] and f[4][1] or "", attributes = {}}
  n.domain = f[7] and f[7][1] or ""
  for _, each in ipairs(f[5] or {}) do
    local a = protobuf.fields(each, what)
    n.attributes[a[1] and a[1][1] or ""] = read_attribute(a, what)
  end
  return n
end

-- TypeProto's fields beside tensors.
local kinds_of_value <const> = {
  [4] = "sequence", [5] = "map", [8] = "sparse tensor", [9] = "optional",
}

-- A dimension without a number is -1. There is no shape where even the rank is unknown. `foreign`
-- names a type that is none of ours.
local function read_value_info(data, what)
  local f = protobuf.fields(data, what)
  local v = {name = f[1] and f[1][1] or ""}
  local type = f[2] and protobuf.fields(f[2][1], what)
  local t = type and type[1] and protobuf.fields(type[1][1], what)
  if not t then
    for number in pairs(type or {}) do v.foreign = kinds_of_value[number] or v.foreign end
    return v
  end
  local number = t[1] and t[1][1] or 0
  v.dtype = dtypes[number]
  if not v.dtype and number ~= 0 then v.foreign = format.type_name(number) end
  if not t[2] then return v end
  v.shape = {}
  for i, dim in ipairs(protobuf.fields(t[2][1], what)[1] or {}) do
    local d = protobuf.fields(dim, what)
    v.shape[i] = d[1] and d[1][1] or -1
  end
  return v
end

local VERSION_KEY <const> = 1 << 3

-- The outermost message. Every writer begins with the version of the format, field 1: a file that
-- doesn't is something else.
local function read_model(data, what)
  local ok, model = blame.attempt(protobuf.fields, data, what)
  if ok and model[7] then return model end
  if not ok and data:byte(1) == VERSION_KEY then error(model, 0) end
  blame.error(what .. ": this is no ONNX model", "value")
end

---A file's graph, as encode takes it, with `opset`; initializers by name.
---@param data string
---@param what string names the file in errors
---@return table
function format.decode(data, what)
  local model = read_model(data, what)
  local f = protobuf.fields(model[7][1], what)
  local g = {name = f[2] and f[2][1] or "graph", nodes = {}, initializers = {}, inputs = {},
    outputs = {}, opset = 0}
  for _, each in ipairs(model[8] or {}) do
    local import = protobuf.fields(each, what)
    if not import[1] or import[1][1] == "" then g.opset = import[2] and import[2][1] or 0 end
  end
  for i, each in ipairs(f[1] or {}) do
    g.nodes[i] = read_node(each, what)
    g.nodes[i].opset = g.opset
  end
  for _, each in ipairs(f[5] or {}) do
    local name, t = read_tensor(each, what)
    g.initializers[name] = t
  end
  for _, each in ipairs(f[11] or {}) do
    local v = read_value_info(each, what)
    if not g.initializers[v.name] then g.inputs[#g.inputs + 1] = v end
  end
  for i, each in ipairs(f[12] or {}) do g.outputs[i] = read_value_info(each, what) end
  return g
end

return format
