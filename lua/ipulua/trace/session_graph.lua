-- The graph of sessions: placeholders, and programs that begin in it.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local names = require "ipulua.trace.name_scopes"

local session_graph = {}

local serial, placeholders = 1, 0
local made = {} -- placeholders of the graph: value, dtype, shape

---A number for the current graph; another one after reset_default_graph.
---@return integer
function session_graph.serial() return serial end

local placeholder_spec <const> = {
  {"dtype", "dtype"}, {"shape", "integers"}, {"name", "string", optional = true},
}

---A value that a session is fed; -1 where an extent is not known yet.
---Shapes: shape, -1 where an extent is not known
---Errors: an unknown dtype, a shape that is no list of extents: `ipu.placeholder("float", {2})`
---@return userdata
function session_graph.placeholder(...)
  local a = args.check("placeholder", placeholder_spec, ...)
  placeholders = placeholders + 1
  local name = a.name or (placeholders == 1 and "Placeholder" or "Placeholder_" .. placeholders - 1)
  local made_now = core.graph_placeholder(a.dtype, a.shape, names.qualified(name))
  made[#made + 1] = {made_now, a.dtype, a.shape}
  return made_now
end

---Every placeholder with a type that it could be fed: 1 where an extent is not known. For looking
---at graphs.
---@return userdata[] targets
---@return table[] types
function session_graph.fed_by_default()
  local targets, types = {}, {}
  for i, p in ipairs(made) do
    local shape = {}
    for k, extent in ipairs(p[3]) do shape[k] = extent < 0 and 1 or extent end
    targets[i], types[i] = p[1], {p[2], shape}
  end
  return targets, types
end

local notes = {} -- by value: the program that computes it
local teams = {} -- by value: the strategy for several processes in whose scope it was made

---Notes that a value is computed by all replicas of that strategy.
function session_graph.note_team(value, team) teams[core.graph_value_key(value)] = team end

---The strategy for several processes of a program that computes values with these keys.
---@param keys string[]
function session_graph.team_of(keys)
  for _, key in ipairs(keys) do
    if teams[key] then return teams[key] end
  end
  return nil
end

---Notes that computing a value runs a pipeline.
function session_graph.note_pipeline(value, facts) notes[core.graph_value_key(value)] = facts end

---The pipeline of a program that computes values with these keys.
---@param keys string[]
function session_graph.pipeline_of(keys)
  for _, key in ipairs(keys) do
    if notes[key] then return notes[key] end
  end
  return nil
end

local resets = {}

---f() is called when the graph is forgotten.
function session_graph.on_reset(f) resets[#resets + 1] = f end

---Forgets the graph, its names, and the variables of get_variable.
function session_graph.reset_default_graph()
  if core.trace_depth() > 0 then
    blame.error("reset_default_graph can't be called while a function is traced", "runtime")
  end
  core.graph_reset()
  notes, teams = {}, {}
  serial, placeholders, made = serial + 1, 0, {}
  for _, f in ipairs(resets) do f() end
end

---Whether any of a list of values is computed by sessions.
---@param values any[]
---@return boolean
function session_graph.any_deferred(values)
  for _, value in pairs(values) do
    if core.is_deferred(value) then return true end
  end
  return false
end

return session_graph
