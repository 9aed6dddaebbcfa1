-- What is being traced now. Errors leave no trace open: a guard closes what was begun.

local core = require "ipulua.core"

local tracing = {}

local serial, roots = 0, {} -- roots: serial numbers of the open root traces, innermost last
local graph_roots = {} -- those that are the graph of sessions

local function changed() end

---f() is called when another root trace has become the innermost one.
function tracing.on_change(f) changed = f end

---@return boolean
function tracing.is_active() return core.trace_depth() > 0 end

---A number for the function being traced, nil outside.
---@return integer?
function tracing.root() return roots[#roots] end

local facts = {} -- by serial number: what is noted of the program being traced

---Notes of the function being traced, to be read when it ends.
---@return table
function tracing.facts()
  local root = tracing.root() or 0
  facts[root] = facts[root] or {}
  return facts[root]
end

---The notes of a function that is about to end, once.
---@return table
function tracing.take_facts()
  local root = tracing.root() or 0
  local noted = facts[root] or {}
  facts[root] = nil
  return noted
end

-- What is still open then was left by an error, whose value may be nil.
local guard_meta = {__close = function(self)
  if core.trace_depth() > self.depth or #roots > self.roots then
    core.trace_give_up(self.depth)
    while #roots > self.roots do
      facts[roots[#roots]] = nil
      table.remove(roots)
    end
    changed()
  end
end}

---To be closed: an error gives up the traces begun since.
function tracing.guard()
  return setmetatable({depth = core.trace_depth(), roots = #roots}, guard_meta)
end

local pretended = 0

---Counts programs that were priced in place of running: their results hold zeros, of which no tape knows where they come from.
function tracing.note_pretended() pretended = pretended + 1 end

---@return integer
function tracing.pretended() return pretended end

---Whether the root trace is the graph of sessions.
---@return boolean
function tracing.is_graph() return graph_roots[roots[#roots]] == true end

function tracing.begin_root()
  serial = serial + 1
  roots[#roots + 1] = serial
  changed()
  core.trace_begin(false)
end

---runs: the program will run even where programs are only priced (functions of datasets).
function tracing.end_root(results, name, runs)
  if core.trace_depth() == 0 then error("no trace is open") end
  local program = core.trace_end(results, name, runs)
  table.remove(roots)
  changed()
  return program
end

---Throw the innermost root trace away, as when only the types of its values were wanted.
function tracing.give_up_root()
  core.trace_give_up(core.trace_depth() - 1)
  facts[table.remove(roots)] = nil
  changed()
end

local left_meta = {__close = function(self)
  core.graph_leave(self.token)
  graph_roots[table.remove(roots)] = nil
  changed()
end}

---To be closed: until then the graph of sessions is what is traced, as a program of its own.
function tracing.enter_graph()
  serial = serial + 1
  roots[#roots + 1] = serial
  graph_roots[serial] = true
  changed()
  if core.trace_depth() > 0 then return setmetatable({token = core.trace_current()}, left_meta) end
  return setmetatable({token = core.graph_enter()}, left_meta)
end

---f(...) inside the graph of sessions.
function tracing.in_graph(f, ...)
  local _ <close> = tracing.enter_graph()
  local _ <close> = tracing.guard()
  return f(...)
end

local shown_meta = {__close = function(self) core.trace_show(self.token) end}

---Run f as if nothing were traced (initialisers, host work).
function tracing.outside(f, ...)
  local _ <close> = setmetatable({token = core.trace_hide()}, shown_meta)
  return f(...)
end

return tracing
