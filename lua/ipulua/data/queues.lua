-- Outfeed queues: values leave a running program by them, in the structure that was enqueued.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local enums = require "ipulua.enums"
local jobs = require "ipulua.trace.jobs"
local operation = require "ipulua.trace.operation"
local replication = require "ipulua.trace.replication"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"

local queues = {}

---Takes values out of programs, also while they run. Mode ALL keeps every value since the last
---dequeue, LAST the newest.
---Errors: an unknown mode, a buffer_depth below 1: `ipu.IPUOutfeedQueue{outfeed_mode = "SOME"}`
---Source: ipu_outfeed_queue.IPUOutfeedQueue of Graphcore's TensorFlow 2.6
---@class IPUOutfeedQueue
local IPUOutfeedQueue = class.new("IPUOutfeedQueue")

local depth_row <const> = {"buffer_depth", "integer", 3, of = "integer ≥ 1",
  says = "changes nothing: there is room for all values",
  check = function(n)
    if n < 1 then return "must be a buffer depth of at least 1, got " .. n end
  end}

local outfeed_spec <const> = {
  {"outfeed_mode", enums.IPUOutfeedMode, "ALL"},
  {"device_ordinal", "integer", optional = true, range = "[0, inf)",
    says = "the device; 0 by default"},
  depth_row,
  {"optimise_latency", "boolean", false, says = "changes nothing"},
}

IPUOutfeedQueue.argument_rows = outfeed_spec

---The device of a queue: 0 unless it is said.
function queues.check_ordinal(who, ordinal)
  if ordinal and ordinal < 0 then
    blame.error(string.format("%s: 'device_ordinal' must not be negative, got %d", who, ordinal),
      "value")
  end
  return ordinal or 0
end

function IPUOutfeedQueue:init(...)
  local a = args.check("IPUOutfeedQueue", outfeed_spec, ...)
  self.outfeed_mode, self.buffer_depth = a.outfeed_mode, a.buffer_depth
  self.device_ordinal = queues.check_ordinal("IPUOutfeedQueue", a.device_ordinal)
  self.queue = core.new_outfeed(a.outfeed_mode == "LAST")
  self.enqueued, self.forms = false, {}
  replication.remember(self, self.queue)
end

function IPUOutfeedQueue:__tostring()
  return "<IPUOutfeedQueue " .. tostring(self.outfeed_mode) .. ">"
end

-- A program that puts something in is there; used: {form, types}.
function IPUOutfeedQueue:set_replicas(n, used)
  self.replicas, self.enqueued, self.newest = n, true, used
end

local function same_structure(a, b)
  if a.leaf or b.leaf then return a.leaf == b.leaf end
  if #a.items ~= #b.items then return false end
  for i, item in ipairs(a.items) do
    if item[1] ~= b.items[i][1] or not same_structure(item[2], b.items[i][2]) then return false end
  end
  return true
end

-- Structures of values go by number through the core, which compares them as it compares types.
function IPUOutfeedQueue:form_of(template)
  for number, known in ipairs(self.forms) do
    if same_structure(known, template) then return number end
  end
  self.forms[#self.forms + 1] = template
  return #self.forms
end

-- The values in the queue, as they were enqueued; if there are none, an empty result for the newest
-- program's values.
local function take(self, most)
  local tensors, form = self.queue:take(most)
  local newest = self.newest
  if newest and self.outfeed_mode == "ALL"
    and (#tensors == 0 or form ~= newest.form and tensors[1].shape[1] == 0) then
    form = newest.form
    for i, t in ipairs(newest.types) do
      local shape = {0, table.unpack(t.shape)}
      if (self.replicas or 1) > 1 then table.insert(shape, 2, self.replicas) end
      tensors[i] = core.full(shape, 0, t.dtype)
    end
  end
  return tensors, self.forms[form]
end

local function check_tensors(template)
  if template.leaf then return end
  if not template.items then
    blame.error("IPUOutfeedQueue.enqueue: an outfeed carries tensors, numbers, booleans and tables "
      .. "of them, got "
      .. args.describe(template.static), "type")
  end
  for _, item in ipairs(template.items) do check_tensors(item[2]) end
end

---Only inside a traced function; once per queue and function.
---Shapes: any without extents of 0
---Errors: outside of a compiled function, a second time in one, a value without tensors:
---`ipu.IPUOutfeedQueue():enqueue(x)`
---@param value any a tensor, a number, or a table of them
---@param ... any nothing: values that belong together are one table, enqueue{a, b}
---@return Operation
function IPUOutfeedQueue:enqueue(value, ...)
  if not tracing.is_active() then
    blame.error("IPUOutfeedQueue.enqueue works only inside a compiled function (ipu.func, "
      .. "ipu_compiler.compile)", "value")
  end
  if select("#", ...) > 0 then
    blame.error("IPUOutfeedQueue.enqueue takes one value; a list is written enqueue{a, b}", "type")
  end
  if value == nil then
    blame.error("IPUOutfeedQueue.enqueue: there is nothing to enqueue", "type")
  end
  local root = tracing.root()
  if self.enqueued_in == root then
    blame.error("IPUOutfeedQueue.enqueue: a queue can be enqueued to only once in a program; make "
      .. "a second queue", "value")
  end
  local leaves, template = structure.flatten(value, structure.is_value)
  check_tensors(template)
  if #leaves == 0 then
    blame.error("IPUOutfeedQueue.enqueue: there is no tensor in the value", "value")
  end
  for i, leaf in ipairs(leaves) do
    leaf = core.is_variable(leaf) and leaf:read_value() or structure.number_tensor(leaf)
    leaves[i] = leaf
    local dtype, shape = core.type_of(leaf)
    for _, extent in ipairs(shape) do
      if extent == 0 then
        blame.error(string.format("IPUOutfeedQueue.enqueue: an outfeed can't carry a tensor with "
          .. "an extent of 0, got %s",
          structure.type_text(dtype, shape)), "invalid_argument")
      end
    end
  end
  self.enqueued_in = root
  self.queue:enqueue(leaves, self:form_of(template))
  return operation.new("enqueue")
end

function IPUOutfeedQueue:check_enqueued(who)
  if not self.enqueued then
    blame.error("IPUOutfeedQueue." .. who .. ": this queue has not been enqueued to by any program "
      .. "yet", "value")
  end
end

local dequeue_spec <const> = {{"wait_for_completion", "boolean", false}}

---All values since the last call, stacked (mode ALL); the newest (mode LAST).
---Shapes: mode ALL: [n, ...] of n values [...]; LAST: [...]; with replicas [n, replicas, ...] and
---[replicas, ...]
---Errors: a queue that no program has put anything into, inside of a compiled function:
---`ipu.IPUOutfeedQueue():dequeue()`
---@return any
function IPUOutfeedQueue:dequeue(...)
  local a = args.check("IPUOutfeedQueue.dequeue", dequeue_spec, ...)
  if tracing.is_active() then
    blame.error("IPUOutfeedQueue.dequeue reads what a program has put out; it can't be called "
      .. "inside a compiled function", "runtime")
  end
  self:check_enqueued("dequeue")
  if a.wait_for_completion then core.settle() end
  if self.outfeed_mode == "LAST" then self.queue:settle() end
  local tensors, template = take(self)
  return structure.rebuild(template, tensors)
end

local function unstack(tensors)
  local list = {}
  for i, t in ipairs(tensors) do list[i] = t[1] end
  return list
end

-- Called by `for x in outfeed do`.
function IPUOutfeedQueue.__call()
  blame.error("an outfeed is no function; `for x in outfeed:iter() do` walks over its values",
    "type")
end

---One value at a time, until the queue is empty; with a job, until that has ended too.
---Shapes: [...] of each value; with replicas [replicas, ...]
---Errors: a queue of mode LAST, an argument that is no job:
---`ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}:iter()`
---@param job Job?
---@return fun(): any
function IPUOutfeedQueue:iter(job)
  if self.outfeed_mode ~= "ALL" then
    blame.error("IPUOutfeedQueue.iter: only a queue of mode ALL can be iterated", "runtime")
  end
  if job ~= nil and not class.is_a(job, jobs.Job) then
    blame.error("IPUOutfeedQueue.iter: the argument must be a job of strategy:run_async, got "
      .. args.describe(job), "type")
  end
  return function()
    while true do
      if self.enqueued and self.queue:count() > 0 then
        local tensors, template = take(self, 1)
        return structure.rebuild(template, unstack(tensors))
      end
      if not job or job:done() and self.queue:count() == 0 then return nil end
      job:poll()
    end
  end
end

---Drops values that were not dequeued; not while a program runs with it.
---@return Operation
function IPUOutfeedQueue:deleter()
  self.queue:clear()
  return operation.new("outfeed deleter")
end

---A queue that empties itself when its block ends.
---Errors: an unknown mode: `ipu.ScopedIPUOutfeedQueue{outfeed_mode = "SOME"}`
---Source: ipu_outfeed_queue.ScopedIPUOutfeedQueue of Graphcore's TensorFlow 2.6
---@class ScopedIPUOutfeedQueue: IPUOutfeedQueue
local ScopedIPUOutfeedQueue = IPUOutfeedQueue:extend("ScopedIPUOutfeedQueue")

local scoped_spec <const> = {
  {"outfeed_mode", enums.IPUOutfeedMode, "ALL"},
  {"device_ordinal", "integer", optional = true, range = "[0, inf)",
    says = "the device; 0 by default"},
}

function ScopedIPUOutfeedQueue:init(...)
  local a = args.check("ScopedIPUOutfeedQueue", scoped_spec, ...)
  if tracing.is_active() then
    blame.error("ScopedIPUOutfeedQueue is made outside of compiled functions, by the script that "
      .. "reads it", "runtime")
  end
  IPUOutfeedQueue.init(self, a)
end

function ScopedIPUOutfeedQueue:__close()
  core.settle()
  self:deleter()
end

queues.IPUOutfeedQueue = class.guard(IPUOutfeedQueue)
queues.ScopedIPUOutfeedQueue = ScopedIPUOutfeedQueue
return queues
