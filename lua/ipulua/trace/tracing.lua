-- The current trace. An error leaves no trace open: a guard closes the traces that were begun.

local core = require "ipulua.core"
local frozen_numbers = require "ipulua.base.frozen_numbers"
local plain = require "ipulua.base.plain"

local tracing = {}

-- here().root: the innermost root trace, {serial, is_graph, facts, ended, below}. An ended one may
-- be below a trace that another coroutine began inside of it.
local here <const> = core.here
local serial = 0
local no_root <const> = {} -- the facts of code outside of all traces

local function changed() end

---f() is called when another root trace has become the innermost one.
function tracing.on_change(f) changed = f end

---@return boolean
function tracing.is_active() return core.trace_depth() > 0 end

local function innermost()
  local root = here().root
  while root and root.ended do root = root.below end
  return root
end

local function push(is_graph)
  serial = serial + 1
  here().root = {serial = serial, is_graph = is_graph, below = innermost()}
  frozen_numbers.begin(here().root)
  changed()
end

local function pop()
  local root = innermost()
  if not root then return end
  root.ended = true
  frozen_numbers.finish(root)
  here().root = root.below
end

---A number for the function being traced, nil outside.
---@return integer?
function tracing.root()
  local root = innermost()
  return root and root.serial
end

---Notes of the function being traced, to be read when it ends.
---@return table
function tracing.facts()
  local root = innermost() or no_root
  root.facts = root.facts or {}
  return root.facts
end

---The notes of a function that is about to end, once.
---@return table
function tracing.take_facts()
  local root = innermost() or no_root
  local noted = root.facts or {}
  root.facts = nil
  return noted
end

-- A trace that is open then was left by an error, whose value may be nil.
local guard_meta = {__close = function(self)
  local root = innermost()
  if core.trace_depth() > self.depth or (root and root.serial or 0) > self.root then
    core.trace_give_up(self.depth)
    while root and root.serial > self.root do
      pop()
      root = innermost()
    end
    changed()
  end
end}

---To be closed: an error gives up the traces begun since.
function tracing.guard()
  return setmetatable({depth = core.trace_depth(), root = tracing.root() or 0}, guard_meta)
end

local pretended = 0

---Counts programs that were priced instead of running: their results hold zeros, which no tape can
---follow back.
function tracing.note_pretended() pretended = pretended + 1 end

---@return integer
function tracing.pretended() return pretended end

---Whether the root trace is the graph of sessions.
---@return boolean
function tracing.is_graph()
  local root = innermost()
  return root ~= nil and root.is_graph == true
end

function tracing.begin_root()
  push()
  core.trace_begin(false)
end

---runs: the program will run even where programs are only priced (functions of datasets).
function tracing.end_root(results, name, runs)
  if core.trace_depth() == 0 then error("no trace is open") end
  local program = core.trace_end(results, name, runs)
  pop()
  changed()
  return program
end

---Discards the innermost root trace, for example after only the types of its values were needed.
function tracing.give_up_root()
  core.trace_give_up(core.trace_depth() - 1)
  pop()
  changed()
end

local left_meta = {__close = function(self)
  core.graph_leave(self.token)
  pop()
  changed()
end}

---To be closed: until then the current trace is the graph of sessions, as a program of its own.
function tracing.enter_graph()
  push(true)
  if core.trace_depth() > 0 then return setmetatable({token = core.trace_current()}, left_meta) end
  return setmetatable({token = core.graph_enter()}, left_meta)
end

local function inside(f, ...)
  local _ <close> = tracing.enter_graph()
  local _ <close> = tracing.guard()
  return f(...)
end

-- Assignments made since the graph had that size are repeated in each run that computes a value.
local function assign_with(value, effects, nodes)
  if core.is_tensor(value) and core.is_deferred(value) then
    core.graph_assign_with(value, effects, nodes)
  elseif plain.is(value) then
    for _, each in next, value do assign_with(each, effects, nodes) end
  end
end

---f(...) inside the graph of sessions. Assignments in f happen in each run that computes one of
---its results.
function tracing.in_graph(f, ...)
  local effects, nodes = core.graph_size()
  local results = table.pack(inside(f, ...))
  if core.graph_size() ~= effects then assign_with(results, effects or 0, nodes or 0) end
  return table.unpack(results, 1, results.n)
end

local shown_meta = {__close = function(self) core.trace_show(self.token) end}

---Run f as if nothing were traced (initialisers, host work).
function tracing.outside(f, ...)
  local _ <close> = setmetatable({token = core.trace_hide()}, shown_meta)
  return f(...)
end

return tracing
