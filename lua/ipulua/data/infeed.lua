-- How programs read datasets: IPUInfeedQueue, and the iterator of a dataset.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local Dataset = require "ipulua.data.dataset"
local elements = require "ipulua.data.elements"
local operation = require "ipulua.trace.operation"
local queues = require "ipulua.data.queues"
local replication = require "ipulua.trace.replication"
local structure = require "ipulua.base.structure"
local host_strings = require "ipulua.data.host_strings"
local tracing = require "ipulua.trace.tracing"

local infeed = {}

---The types of a dataset's elements in programs. If its last batch may be smaller, types of whole
---batches: rawget(dataset, "gathered") is their extent then. If batches have any shape, types of
---the first one: rawget(dataset, "first_types").
---@param dataset Dataset
---@return {dtype: string, shape: integer[]}[] types, boolean static
function infeed.fed_types(dataset)
  local first = rawget(dataset, "first_types")
  if first then
    local types = {}
    for i, t in ipairs(first) do
      types[i] = {dtype = t.dtype, shape = table.move(t.shape, 1, #t.shape, 1, {})}
    end
    return types, true
  end
  local _, _, static = dataset.handle:describe()
  local types, batch = dataset.handle:types(), rawget(dataset, "gathered")
  if static or not batch then return types, static end
  static = true
  for _, t in ipairs(types) do
    if t.shape[1] == -1 then t.shape[1] = batch end
    for _, extent in ipairs(t.shape) do static = static and extent >= 0 end
  end
  return types, static
end

---Raise when a program could not be fed with this dataset.
---@package
local function check_feedable(dataset, who)
  host_strings.refuse(who, dataset.template)
  local _, source, _, remainder = dataset.handle:describe()
  local types, static = infeed.fed_types(dataset)
  for i, t in ipairs(types) do
    if t.dtype == "int64" or t.dtype == "float64" then
      blame.error(string.format("%s: component %d of the dataset is %s, which does not go to the "
        .. "device; cast it in map, to %s",
        who, i - 1, t.dtype, t.dtype == "int64" and "int32" or "float32"), "failed_precondition")
    end
    for _, extent in ipairs(t.shape) do
      if extent == 0 then
        blame.error(string.format("%s: component %d of the dataset has a zero-sized dimension: %s",
          who, i - 1,
          structure.type_text(t.dtype, t.shape)), "invalid_argument")
      end
    end
  end
  if static then return end
  local text = {}
  for i, t in ipairs(types) do text[i] = structure.type_text(t.dtype, t.shape) end
  local hint = remainder and "; batch(n, {drop_remainder = true}) makes the batch's extent known"
    .. (remainder ~= "" and " (batched at " .. remainder .. ")" or "") or ""
  blame.error(string.format("%s: every shape must be fully known, the dataset%s has %s%s", who,
    source ~= "" and " of " .. source or "", table.concat(text, ", "), hint), "value")
end
infeed.check_feedable = check_feedable

-- Whether other extents than the first are unknown: batches of texts of any length.
local function has_any_shape(types)
  for _, t in ipairs(types) do
    for k = 2, #t.shape do
      if t.shape[k] < 0 then return true end
    end
  end
  return false
end

-- Whether the first extent alone is unknown in some component: batches of any size.
local function varies_first(types)
  for _, t in ipairs(types) do
    if t.shape[1] == -1 then return true end
  end
  return false
end

-- Whether the components of one element are batches of different sizes, as of zipped datasets.
local function are_unequal(types, first)
  local extent
  for i, t in ipairs(types) do
    local own = t.shape[1] == -1 and first[i].shape[1] or nil
    if own and extent and own ~= extent then return true end
    extent = extent or own
  end
  return false
end

-- The types of the first batch; programs for other shapes are made when they come.
local function first_types(dataset, who)
  local it = dataset.handle:iterator(true) -- looking at it changes no shuffle
  local leaves = it:next()
  it:close()
  if not leaves then blame.error(who .. ": the dataset has no elements", "value") end
  local types = {}
  for i, leaf in ipairs(leaves) do
    local dtype, shape = core.type_of(leaf)
    types[i] = {dtype = dtype, shape = shape}
  end
  return types
end

---Notes how the batches of a dataset differ, for Keras' programs: see fed_types.
---If the last batch of a dataset may be smaller, or their number is unknown, elements are gathered.
---An execution then begins when all elements that it reads are in the queue. Returns the extent of
---whole batches.
---@param dataset Dataset
---@param who string
---@return integer
function infeed.note_batches(dataset, who)
  for _, field in ipairs{"first_types", "any_batch"} do rawset(dataset, field, nil) end
  local types = dataset.handle:types()
  local _, _, static, _, batch, has_others = dataset.handle:describe()
  local is_any_size = not static and batch == 0 and varies_first(types)
  local is_any_shape = has_any_shape(types)
  local first = (is_any_shape or is_any_size or has_others) and first_types(dataset, who)
  if is_any_shape or first and are_unequal(types, first) then
    rawset(dataset, "first_types", first)
    rawset(dataset, "gathered", first[1].shape[1] or 1)
    return first[1].shape[1] or 1
  end
  if is_any_size then
    batch = first[1].shape[1] or 1
    rawset(dataset, "any_batch", true)
  end
  local extent = types[1].shape[1]
  if not static and batch > 0 or static and dataset:cardinality() == -2 then
    rawset(dataset, "gathered", batch > 0 and batch or math.max(extent or 1, 1))
  end
  local fed, feedable = infeed.fed_types(dataset)
  if not feedable then check_feedable(dataset, who) end
  return fed[1].shape[1] or 1
end

local most_ahead <const> = 255 -- elements

-- A queue's facts about batches that may be smaller, or have any shape.
local function whole_of(dataset)
  return rawget(dataset, "gathered"), rawget(dataset, "first_types")
end

---Brings a dataset's elements into programs. Threads read ahead. Loops of ipu.loops and pipelines
---take it. Components must have dtypes that the device has.
---Shapes: every extent of the elements must be known
---Errors: a dataset with unknown extents, int64 or float64 components, extents of 0; a
---prefetch_depth outside of 1 … 255 (nil and 0: 3): `ipu.IPUInfeedQueue(ds)`,
---`ipu.IPUInfeedQueue(data.from_tensors(x), {prefetch_depth = 256})`
---Source: ipu_infeed_queue.IPUInfeedQueue of Graphcore's TensorFlow 2.6
---@class IPUInfeedQueue
local IPUInfeedQueue = class.new("IPUInfeedQueue")
IPUInfeedQueue.feeds_loops = true

local depth_row <const> = {"prefetch_depth", "integer", optional = true, of = "integer in [0, 255]",
  says = "elements read ahead; nil and 0: 3",
  check = function(n)
    if n < 0 or n > most_ahead then
      return string.format("must be greater than zero and at most %d, got %d", most_ahead, n)
    end
  end}

local infeed_spec <const> = {
  {"dataset", "any", one = true, of = "Dataset"},
  {"device_ordinal", "integer", optional = true, range = "[0, inf)",
    says = "the device; 0 by default"},
  depth_row,
  {"optimise_latency", "boolean", false, says = "changes nothing"},
}

IPUInfeedQueue.argument_rows = infeed_spec

-- The depth that a script asked for; nil and 0 are 3.
local function usual_depth(depth) return (depth or 0) == 0 and 3 or depth end

function IPUInfeedQueue:init(...)
  local a = args.check("IPUInfeedQueue", infeed_spec, ...)
  if not class.is_a(a.dataset, Dataset) then
    blame.error("IPUInfeedQueue: 'dataset' must be a dataset, got "
      .. args.describe(a.dataset), "type")
  end
  local depth = usual_depth(a.prefetch_depth)
  check_feedable(a.dataset, "IPUInfeedQueue")
  self.dataset, self.prefetch_depth, self.read_ahead = a.dataset, depth, depth
  self.device_ordinal = queues.check_ordinal("IPUInfeedQueue", a.device_ordinal)
  self.queue = core.data.new_infeed(a.dataset.handle, depth, whole_of(a.dataset))
  self.number_of_tuple_elements = #a.dataset.handle:types()
  self.dequeued = false
  replication.remember(self, self.queue)
end

function IPUInfeedQueue:__tostring()
  return "<IPUInfeedQueue of " .. tostring(self.dataset) .. ">"
end

---@package
---Goes on with a dataset of equal elements, so many of them read ahead; the queue is closed.
function IPUInfeedQueue:read_from(dataset, depth)
  depth = usual_depth(depth)
  if dataset == self.dataset and depth == self.prefetch_depth then return end
  local ahead = math.min(depth * (self.replicas or 1), most_ahead)
  self.queue:replace(dataset.handle, ahead, whole_of(dataset))
  self.dataset, self.prefetch_depth, self.read_ahead = dataset, depth, ahead
end

-- Each replica may have prefetch_depth elements waiting.
function IPUInfeedQueue:set_replicas(n)
  replication.check_infeed(self, n)
  local ahead = math.min(self.prefetch_depth * n, most_ahead)
  if ahead == self.read_ahead or self.queue:state() then return end
  self.queue:replace(self.dataset.handle, ahead, whole_of(self.dataset))
  self.read_ahead = ahead
end

---Start the queue. The first program that reads it does so by itself, except in sessions.
---Errors: a second call without deleter() between
---@return Operation
function IPUInfeedQueue:initializer()
  if self.initialised then
    blame.error("IPUInfeedQueue.initializer can be called only once; after deleter() it can be "
      .. "called again", "value")
  end
  self.queue:open()
  self.initialised = true
  return operation.new("infeed initializer")
end

---Free it; a new start begins with the dataset's first element.
---Errors: a program that runs with it
---@return Operation
function IPUInfeedQueue:deleter()
  self.queue:close()
  self.initialised = false
  return operation.new("infeed deleter")
end

function IPUInfeedQueue:get_next()
  blame.error("IPUInfeedQueue.get_next was removed; hand the queue to ipu.loops.repeat_n, or use a "
    .. "dataset's iterator()", "value")
end

-- In a traced function: the next element, spread.
function IPUInfeedQueue:dequeue_in_loop(who)
  if not tracing.is_active() then
    blame.error((who or "infeed") .. ": an infeed can only be read inside a compiled function",
      "runtime")
  end
  self.dequeued = true
  -- as in the graphs of other frameworks
  if tracing.is_graph() and not self.is_owned then self.queue:open_explicitly() end
  local given, n = elements.spread(self.dataset.template, self.queue:dequeue())
  return table.unpack(given, 1, n)
end

infeed.IPUInfeedQueue = class.guard(IPUInfeedQueue)

---Gives a dataset's elements to programs: dataset:iterator() in a strategy's scope.
---@class IPUOwnedIterator
local IPUOwnedIterator = class.new("IPUOwnedIterator")

function IPUOwnedIterator:init(dataset)
  self.infeed = IPUInfeedQueue(dataset)
  self.infeed.is_owned = true -- no script ever initialises it
  self.element_spec = dataset.element_spec
  self.where = blame.where()
end

---The next element; only inside a traced function.
function IPUOwnedIterator:next()
  if not tracing.is_active() then
    blame.error("iterator:next() works only inside a compiled function (ipu.func); its "
      .. "dataset belongs to " .. (self.where or "this script"), "runtime")
  end
  return self.infeed:dequeue_in_loop("iterator:next")
end

---Gives a dataset's elements one by one to Lua: dataset:iterator() outside of a strategy.
---@class HostIterator
local HostIterator = class.new("HostIterator")

function HostIterator:init(dataset)
  self.step, self.it = elements.reader(dataset)
  self.element_spec, self.dataset = dataset.element_spec, dataset
  -- a BufferDataset says so when more is asked of it than it holds
  self.strict = (dataset.handle:describe()) == "BufferDataset"
end

local function check_end(self, first, ...)
  if first == nil and self.strict then
    blame.error("iterator:next: the BufferDataset has no more elements", "out_of_range")
  end
  return first, ...
end

function HostIterator:__tostring() return "<HostIterator of " .. tostring(self.dataset) .. ">" end

---The next element; nothing at the end.
function HostIterator:next() return check_end(self, self.step()) end

---Give back its threads and buffers; there are no more elements then.
function HostIterator:close() self.it:close() end

---Inside a strategy an infeed, elsewhere an iterator on the host.
---Shapes: elements as in the dataset
---@return IPUOwnedIterator|HostIterator
function Dataset:iterator()
  local strategy = core.here().strategy
  if strategy and strategy.enable_dataset_iterators then return IPUOwnedIterator(self) end
  return HostIterator(self)
end

class.guard(IPUOwnedIterator)
class.guard(HostIterator)

return infeed
