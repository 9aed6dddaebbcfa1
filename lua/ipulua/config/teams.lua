-- Programs of all replicas of all instances: the ones that are traced, made or run in the scope of
-- a strategy for several processes. `core.here().team` is that strategy; nil elsewhere.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local launch = require "ipulua.config.launch"

local teams = {}

local instances = setmetatable({}, { -- loaded when there is a strategy
  __index = function(_, name) return require("ipulua.config.instances")[name] end,
})

---The strategy for several processes whose scope is open, nil outside.
---@return table?
function teams.current() return core.here().team end

local left_meta = {__close = function(self) core.here().team = self.former end}

---To be closed: until then new programs and variables belong to that strategy (nil: to none).
---@param team table?
function teams.enter(team)
  local former = core.here().team
  core.here().team = team
  return setmetatable({former = former}, left_meta)
end

---All replicas of a program that has so many in this instance.
---@param replicas integer
---@return integer
function teams.all(replicas) return replicas * launch.count() end

---The first of a program's replicas, and how many there are in all.
---@param replicas integer of this instance
---@return integer, integer
function teams.place(replicas) return replicas * launch.index(), replicas * launch.count() end

-- ------------------------------------------------ variables

local sharing -- a list, while new variables wait for a common message

---A variable was made in a scope: it takes instance 0's value, at once or with others.
---@param v userdata
function teams.share(v)
  if not core.here().team or not instances.are_several() then return end
  if sharing then sharing[#sharing + 1] = v else instances.share{v} end
end

local shared_meta = {__close = function(_, problem)
  local list = sharing
  sharing = nil
  if problem ~= nil then return end
  instances.share(list)
  for _, begin in ipairs(list.begins) do begin() end
end}

---To be closed: variables that are made until then take instance 0's values in one message.
---@return table? closable nil where there is nobody to tell, or somebody collects them already
function teams.share_together()
  if sharing or not core.here().team or not instances.are_several() then return nil end
  sharing = {begins = {}}
  return setmetatable({}, shared_meta)
end

local unshared_meta = {__close = function(self) core.here().team = self.team end}

---To be closed: variables that are made until then are each instance's own.
function teams.share_nothing()
  local team = core.here().team
  core.here().team = nil
  return setmetatable({team = team}, unshared_meta)
end

-- ------------------------------------------------ variables that are combined at reading

local aggregated = setmetatable({}, {__mode = "v"}) -- by identity: {of, aggregate, how}
-- by identity: weights of layers that no gradient may change
local weights = setmetatable({}, {__mode = "v"})

local combine <const> = {
  SUM = function(x) return core.ops.cross_replica_sum(x) end,
  MEAN = function(x) return core.ops.cross_replica_mean(x) end,
  ONLY_FIRST_REPLICA = function(x)
    return core.ops.gather(core.ops.all_gather(x), 0)
  end,
}

---Outside of programs the variable is read as this combination of all replicas' values. make()
---gives the variable that holds it, and a function that gives it v's value.
---@param v userdata
---@param how "SUM"|"MEAN"|"ONLY_FIRST_REPLICA"
---@param make fun(): userdata, fun()
function teams.aggregate(v, how, make)
  if not core.here().team then return end
  local of, copy = make()
  -- Of a sum only the first replica has the value. A common message brings it to all before that.
  local function begin()
    copy()
    core.set_aggregate(v, of, how == "SUM")
    if how == "SUM" and instances.are_several() and not instances.is_first() then
      core.set_zero(v)
    end
  end
  if sharing then table.insert(sharing.begins, begin) else begin() end
  local entry = {variable = v, aggregate = of, how = how}
  aggregated[core.variable_identity(v)] = entry
  v.replicated = entry -- lives as long as the variable does
end

---@param v userdata
---@return table?
function teams.aggregate_of(v) return aggregated[core.variable_identity(v)] end

---Calls f in a traced function, where each variable stands for the states of all replicas, not for
---the state of its own replica.
---@param list userdata[]
---@param f function
function teams.with_joined(list, f)
  local own = {}
  for i, v in ipairs(list) do
    local entry = teams.aggregate_of(v)
    if entry then
      own[i] = v:read_value()
      v:assign(combine[entry.how](own[i]))
    end
  end
  local results = table.pack(f())
  for i, v in ipairs(list) do
    if own[i] then v:assign(own[i]) end
  end
  return table.unpack(results, 1, results.n)
end

---A weight of a layer: if a program assigns it without a gradient, all replicas have the mean after
---that.
---@param v userdata
function teams.note_weight(v)
  if core.here().team and v.dtype:find("float", 1, true) then
    weights[core.variable_identity(v)] = v
  end
end

---A variable that an optimizer updates in the program that is traced.
---@param v userdata
function teams.note_trained(v)
  local here = core.here()
  if here.team and here.team_trained then here.team_trained[core.variable_identity(v)] = true end
end

-- ------------------------------------------------ the end of a trace

local trained_meta = {__close = function(self) core.here().team_trained = self.former end}

---To be closed: a program of the team is traced.
function teams.begin_trace()
  local here = core.here()
  local former = here.team_trained
  here.team_trained = here.team and {} or nil
  return setmetatable({former = former}, trained_meta)
end

---The end of a program: aggregates of variables that it wrote, and means of statistics.
function teams.end_trace()
  local here = core.here()
  if not here.team then return end
  for _, v in ipairs(core.trace_written_variables()) do
    local entry = teams.aggregate_of(v)
    if entry then entry.aggregate:assign(combine[entry.how](v:read_value()))
    elseif weights[core.variable_identity(v)]
      and not here.team_trained[core.variable_identity(v)] then
      v:assign(core.ops.cross_replica_mean(v:read_value()))
    end
  end
end

-- ------------------------------------------------ gradients

---How an optimizer's gradients are combined in the program that is traced. "mean" where fit trains,
---"sum" in loops of a script's own, nil where nothing is reduced.
---@return string?
function teams.reduction()
  local team = core.here().team
  if not team or not team.add_ipu_cross_replica_reductions then return nil end
  return core.here().team_fits and "mean" or "sum"
end

local fits_meta = {__close = function(self) core.here().team_fits = self.former end}

---To be closed: gradients that are applied until then are averaged.
function teams.fitting()
  local former = core.here().team_fits
  core.here().team_fits = true
  return setmetatable({former = former}, fits_meta)
end

---Refuses a wrapper that reduces where the strategy does.
---@param name string
function teams.refuse_wrapper(name)
  local team = core.here().team
  if team and team.add_ipu_cross_replica_reductions and not core.here().team_fits then
    blame.error(string.format("%s: %s adds gradients over the replicas by itself; make it with "
      .. "add_ipu_cross_replica_reductions = false, or "
      .. "use the optimizer without the wrapper", name, team.__name), "failed_precondition")
  end
end

return teams
