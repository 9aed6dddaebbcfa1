-- Embeddings whose table lies on the host, one for all replicas. In the middle of a run, programs
-- look rows up and gradient descent updates them. Only positions, rows and their gradients cross.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local config = require "ipulua.config"
local core = require "ipulua.core"
local instances = require "ipulua.config.instances"
local effects = require "ipulua.trace.effects"
local ops = require "ipulua.ops"
local scope = require "ipulua.base.scope"
local structure = require "ipulua.base.structure"
local tape = require "ipulua.trace.tape"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local host_embedding = {}

-- ------------------------------------------------ what updates the table

local rate_row <const> = {"learning_rate", "any", one = true, of = "number, variable or tensor",
  check = function(x)
  if type(x) ~= "number" and not core.is_variable(x) and not core.is_tensor(x) then
    return "must be a number, a variable or a tensor, got " .. args.describe(x)
  end
end}
local sgd_rows <const> = {rate_row}
local accumulating_rows <const> = {rate_row, {"accumulation_factor", "integer", range = "[1, inf)"}}

---Rows that were looked up move by minus learning_rate times their gradients.
---Shapes: a learning_rate that is a tensor is []
---Errors: a learning_rate that is no number, variable or tensor:
---`ipu.HostEmbeddingOptimizerSpec "0.1"`
---Source: embedding_ops.HostEmbeddingOptimizerSpec of Graphcore's TensorFlow 2.6
---@class HostEmbeddingOptimizerSpec
local Spec = class.new("HostEmbeddingOptimizerSpec")
Spec.argument_rows = sgd_rows
Spec.accumulation_factor = 1
host_embedding.HostEmbeddingOptimizerSpec = Spec

function Spec:init(...)
  self.learning_rate = args.check("HostEmbeddingOptimizerSpec", sgd_rows, ...).learning_rate
end

function Spec:__tostring()
  return class.text(self, {learning_rate = self.learning_rate,
    accumulation_factor = rawget(self, "accumulation_factor")})
end

---The same with the sum of accumulation_factor updates at a time.
---Shapes: a learning_rate that is a tensor is []
---Errors: as HostEmbeddingOptimizerSpec's; an accumulation_factor below 1:
---`ipu.HostEmbeddingSGDGAOptimizerSpec(0.1, 0)`
---Source: embedding_ops.HostEmbeddingSGDGAOptimizerSpec of Graphcore's TensorFlow 2.6
---@class HostEmbeddingSGDGAOptimizerSpec: HostEmbeddingOptimizerSpec
local AccumulatingSpec = class.new("HostEmbeddingSGDGAOptimizerSpec", Spec)
AccumulatingSpec.argument_rows = accumulating_rows
host_embedding.HostEmbeddingSGDGAOptimizerSpec = AccumulatingSpec

function AccumulatingSpec:init(...)
  local a = args.check("HostEmbeddingSGDGAOptimizerSpec", accumulating_rows, ...)
  self.learning_rate, self.accumulation_factor = a.learning_rate, a.accumulation_factor
end

-- ------------------------------------------------ the table

---A table on the host: lookup(indices), register(session), and its present content as `value`.
---Shapes: value [rows, width]
---Source: embedding_ops.HostEmbedding of Graphcore's TensorFlow 2.6
---@class HostEmbedding
---@field value userdata
local HostEmbedding = class.new("HostEmbedding")
host_embedding.HostEmbedding = HostEmbedding

local create_rows <const> = {
  {"name", "string"}, {"shape", "integers", says = "{rows, width}", check = function(shape)
    if #shape ~= 2 or shape[1] < 1 or shape[2] < 1 then
      return "must be {rows, width}, both positive"
    end
  end}, {"dtype", "dtype", "float32"},
    {"partition_strategy", "string", "TOKEN", choices = {"TOKEN", "ENCODING"}},
  {"optimizer_spec", "table", optional = true,
    says = "a HostEmbeddingOptimizerSpec; nil: not trained"},
  {"initializer", "any", optional = true,
    of = "function of shape and dtype, tensor, number or list",
    says = "first values of the table; glorot_uniform by default"},
}

function HostEmbedding:init(a)
  self.name, self.shape, self.dtype, self.spec = a.name, a.shape, a.dtype, a.optimizer_spec
  self.value = tracing.outside(function()
    return core.tensor(variables.initial_value(a.initializer, a.shape, a.dtype)(), a.dtype)
  end)
  self.sum, self.count = nil, 0 -- of changes that wait
end

function HostEmbedding:__tostring()
  return string.format("<HostEmbedding '%s' %s>", self.name,
    structure.type_text(self.dtype, self.shape))
end

-- On the host, in the middle of a run.
local function update(self, ids, gradient, rate)
  local n, width = ids.size, self.shape[2]
  local change = ops.scatter_nd(ids:reshape{n, 1}, gradient:reshape{n, width} * rate, self.shape)
  self.sum, self.count = self.sum and self.sum + change or change, self.count + 1
  if self.count < self.spec.accumulation_factor then return end
  self.value = self.value - self.sum
  self.sum, self.count = nil, 0
end

local function rate_of(self)
  local rate = self.spec.learning_rate
  if core.is_variable(rate) then rate = rate:read_value() end
  return core.is_tensor(rate) and core.ops.cast(rate, self.dtype) or core.full({}, rate, self.dtype)
end

local lookup_rows <const> = {
  {"indices", "any", nested = true, of = "tensor or nested lists of integers"},
  {"clip_indices", "boolean", true, says = "to 0 … rows - 1, instead of an error"},
}

---The rows of the table at indices: [indices…, width]. Indices outside are clipped, or an error.
---Shapes: indices [...] → [..., width]
---Errors: indices that are no integers; with clip_indices = false one outside of the table:
---`ipu.create_host_embedding("table", {4, 2}):lookup{0.5}`
---@param ... any indices (int32), clip_indices = true
---@return userdata
function HostEmbedding:lookup(...)
  local a = args.check("lookup", lookup_rows, ...)
  local ids = core.is_variable(a.indices) and a.indices:read_value() or a.indices
  if not core.is_tensor(ids) then ids = core.tensor(ids, "int32") end
  if not ids.dtype:find("int", 1, true) then
    blame.error("lookup: 'indices' must be int32, got " .. ids.dtype, "type")
  end
  if a.clip_indices then ids = ops.clip_by_value(ids, 0, self.shape[1] - 1) end
  local function rows(positions) return ops.gather(self.value, positions) end
  local shape = table.move(ids.shape, 1, #ids.shape, 1, {})
  shape[#shape + 1] = self.shape[2]
  if tracing.is_active() and config.use_synthetic_data_for("hostembedding") then -- nothing crosses
    return core.full(shape, tonumber(config.flag("synthetic_data_initializer")) or 0, self.dtype)
  end
  if self.spec and not tracing.is_active() and core.is_deferred(ids) then
    blame.error(string.format("lookup: '%s' is trained, and its rows follow only where a whole "
      .. "function is compiled; look them up inside ipu_compiler.compile or ipu.func, or make the "
      .. "table without an optimizer_spec",
      self.name), "value")
  end
  local look_up = effects.host_callback(rows, {outputs = {{shape, self.dtype}}})
  local found = look_up(ids)
  if not self.spec or not (tracing.is_active() or core.tape_records()) then return found end
  local rate = rate_of(self)
  tape.observe(found, function(gradient, scale)
    if scale then gradient = gradient / core.ops.cast(scale, gradient.dtype) end
    effects.host_callback(function(...)
      update(self, ...)
      return core.full({}, 0, self.dtype)
    end, {outputs = {{{}, self.dtype}}})(ids, gradient, rate)
  end)
  return found
end

---A scope within which a session's runs look rows up; the table is there with or without it.
---@return Scope
function HostEmbedding:register()
  return scope.new("register(" .. self.name .. ")", function() end)
end

---A table of embeddings on the host, {rows, width}; without an optimizer_spec it is not trained.
---Shapes: [rows, width]
---Errors: another shape, an optimizer_spec that is none: `ipu.create_host_embedding("table", {10})`
---Source: embedding_ops.create_host_embedding of Graphcore's TensorFlow 2.6
---@param ... any name, shape, dtype, partition_strategy, optimizer_spec, initializer
---@return HostEmbedding
function host_embedding.create_host_embedding(...)
  local a = args.check("create_host_embedding", create_rows, ...)
  if a.optimizer_spec ~= nil and not class.is_a(a.optimizer_spec, Spec) then
    blame.error("create_host_embedding: 'optimizer_spec' must be a HostEmbeddingOptimizerSpec or a "
      .. "HostEmbeddingSGDGAOptimizerSpec, got "
      .. args.describe(a.optimizer_spec), "type")
  end
  instances.refuse("create_host_embedding", "a table on the host", "keras.layers.Embedding keeps "
    .. "one on each replica")
  return HostEmbedding(a)
end

class.guard(HostEmbedding)

return host_embedding
