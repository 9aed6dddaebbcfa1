-- Sessions compute values of the graph. The fetched values, with all that they need, become a
-- program. The same fetches with feeds of the same shapes run it again.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local operation = require "ipulua.trace.operation"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"

---Computes values of the graph that placeholders and ops outside of functions make; to be closed:
---`local sess <close> = ipu.Session()`.
---Errors: arguments that it doesn't have: `ipu.Session{graphs = 1}`
---Source: tf.compat.v1.Session of TensorFlow 2.6
---@class Session
local Session = class.new("Session")

local session_spec <const> = {
  {"target", "string", "", says = "changes nothing"},
  {"graph", "any", optional = true, of = "anything", says = "changes nothing: there is one graph"},
  {"config", "any", optional = true, of = "anything", says = "changes nothing"},
}

local most_programs <const> = 256

local function forget(self) self.programs, self.count, self.calls = {}, 0, 0 end

function Session:init(...)
  args.check("Session", session_spec, ...)
  forget(self)
  self.graph = session_graph.serial()
  self.is_open = true
end

---Drops its compiled programs; none runs any more.
function Session:close()
  self.is_open = false
  forget(self)
end

function Session:__close() self:close() end

function Session:__tostring() return self.is_open and "<Session>" or "<Session, closed>" end

-- ------------------------------------------------ feeds

local function type_text(value) return structure.type_text(core.type_of(value)) end

local function fits(declared, shape)
  if #declared ~= #shape then return false end
  for i, extent in ipairs(declared) do
    if extent ~= -1 and extent ~= shape[i] then return false end
  end
  return true
end

local function fed_tensor(target, value)
  local dtype, declared = core.type_of(target)
  if core.is_variable(value) then value = core.variable_value(value) end
  if core.is_tensor(value) then
    if core.is_symbolic(value) then
      blame.error("sess:run: a fed value must be known, not symbolic", "type")
    end
    local got = core.type_of(value)
    if got ~= dtype then
      blame.error(string.format("sess:run: %s is fed to a placeholder of %s; ipu.cast it",
        type_text(value), type_text(target)),
        "value")
    end
  else
    value = core.tensor(value, dtype, "sess:run: what is fed to a placeholder of "
      .. type_text(target))
  end
  local _, shape = core.type_of(value)
  if not fits(declared, shape) then
    blame.error(string.format("sess:run: %s is fed to a placeholder of %s", type_text(value),
      type_text(target)), "value")
  end
  return value
end

-- The fed values in a fixed order: keys, targets, types, tensors.
local function read_feeds(feed_dict)
  local by_key, keys = {}, {}
  for target, value in pairs(feed_dict or {}) do
    if not core.is_deferred(target) or core.is_variable(target) then
      blame.error("sess:run: the keys of feed_dict are placeholders, got " .. args.describe(target)
        .. "; feeds are written {feed_dict = {[placeholder] = value}}", "type")
    end
    local key = core.graph_value_key(target)
    by_key[key] = {target, fed_tensor(target, value)}
    keys[#keys + 1] = key
  end
  table.sort(keys)
  local feeds = {keys = {}, targets = {}, types = {}, tensors = {}}
  for i, key in ipairs(keys) do
    local target, tensor = table.unpack(by_key[key])
    local dtype, shape = core.type_of(tensor)
    feeds.targets[i], feeds.tensors[i], feeds.types[i] = target, tensor, {dtype, shape}
    feeds.keys[i] = key .. ":" .. structure.type_text(dtype, shape)
  end
  return feeds
end

-- ------------------------------------------------ fetches

local function is_fetch(x) return core.is_tensor(x) or core.is_variable(x) or operation.is(x) end

local function check_fetches(template)
  if template.items then
    for _, item in ipairs(template.items) do check_fetches(item[2]) end
  elseif not template.leaf then
    blame.error("sess:run: a fetch must be a tensor, a variable, an operation, or a table of them, "
      .. "got "
      .. args.describe(template.static), "type")
  end
end

-- The symbolic values that have to be computed, and which of them each leaf is.
local function wanted_values(leaves)
  local wanted, position = {}, {}
  local function want(value)
    wanted[#wanted + 1] = value
    return #wanted
  end
  for i, leaf in ipairs(leaves) do
    if operation.is(leaf) then
      for _, value in ipairs(leaf.values) do want(value) end
    elseif core.is_tensor(leaf) and core.is_symbolic(leaf) then
      if not core.is_deferred(leaf) then
        blame.error("sess:run: a fetched tensor is not of the session's graph; return it "
          .. "from the traced function that made it, or fetch it before reset_default_graph",
          "value")
      end
      position[i] = want(leaf)
    end
  end
  return wanted, position
end

-- If there are too many programs, drops the one that ran longest ago. Random numbers are counted by
-- the graph, so none is drawn twice.
local function leave_oldest(self)
  if self.count < most_programs then return end
  local oldest
  for _, entry in pairs(self.programs) do
    if not oldest or entry.called < oldest.called then oldest = entry end
  end
  self.programs[oldest.key], self.count = nil, self.count - 1
end

-- The program of the wanted values, compiled now if need be.
local function find(self, wanted, feeds)
  local keys = {}
  for i, value in ipairs(wanted) do keys[i] = core.graph_value_key(value) end
  local key = table.concat(keys, " ") .. "|" .. table.concat(feeds.keys, " ")
  local entry = self.programs[key]
  if entry and not entry.stale then return entry end
  local is_new = not entry
  local _ <close> = func.compiling{name = "session"}
  entry = func.register{
    program = core.graph_compile(wanted, feeds.targets, feeds.types, "session"),
    name = "session", key = key,
    pipeline = session_graph.pipeline_of(keys), team = session_graph.team_of(keys)
    or teams.current(),
  }
  if is_new then
    leave_oldest(self)
    self.count = self.count + 1
  end
  self.programs[key] = entry
  return entry
end

function Session:program(wanted, feeds)
  local entry = find(self, wanted, feeds)
  self.calls = self.calls + 1
  entry.called = self.calls
  return entry
end

local run_spec <const> = {{"fetches", "any", whole = true}, {"feed_dict", "table", optional = true}}

-- The program of the fetched values, its arguments, and a function from its results to values in
-- the fetches' structure. The program is nil if nothing has to be computed.
local function prepare(self, who, ...)
  local a = args.check(who, run_spec, ...)
  if not self.is_open then blame.error(who .. ": the session has been closed", "runtime") end
  if tracing.is_active() then
    blame.error(who .. " can't be called inside a traced function", "runtime")
  end
  if self.graph ~= session_graph.serial() then
    forget(self)
    self.graph = session_graph.serial()
  end
  local leaves, template = structure.flatten(a.fetches, is_fetch)
  check_fetches(template)
  for _, leaf in ipairs(leaves) do
    if operation.is(leaf) and leaf.run then leaf.run() end
  end
  local wanted, position = wanted_values(leaves)
  local feeds = read_feeds(a.feed_dict)
  local function finish(outputs)
    local values = {}
    for i, leaf in ipairs(leaves) do
      if position[i] then values[i] = outputs[position[i]]
      elseif core.is_variable(leaf) then values[i] = core.variable_value(leaf)
      elseif core.is_tensor(leaf) then values[i] = leaf end
    end
    return structure.rebuild(template, values)
  end
  return #wanted > 0 and self:program(wanted, feeds) or nil, feeds.tensors, finish
end

---The values of the fetches, in their structure. Operations run and have no value.
---Shapes: fetches any; a fed value fits its placeholder, -1 being any extent
---Errors: a closed session, a placeholder that is not fed or fed with another dtype or shape, a
---fetch of another graph: `ipu.Session():run("loss")`
---@param ... any fetches, {feed_dict = {[placeholder] = value}}
---@return any
function Session:run(...)
  local entry, arguments, finish = prepare(self, "sess:run", ...)
  return finish(entry and func.execute(entry, arguments) or {})
end

---Begins to run the fetches, and returns at once: job:wait() gives the result of run.
---Shapes: as run's
---Errors: as run's, and fetches that need no program: `ipu.Session():run_async(v)`
---@param ... any fetches, {feed_dict = {[placeholder] = value}}
---@return Job
function Session:run_async(...)
  local entry, arguments, finish = prepare(self, "sess:run_async", ...)
  if not entry then
    blame.error("sess:run_async: nothing that is fetched has to be computed", "value")
  end
  return func.start(entry, arguments, finish)
end

return {Session = class.guard(Session)}
