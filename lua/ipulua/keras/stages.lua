-- PipelineStage: layers made or called in its scope belong to a pipeline stage.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local scope = require "ipulua.scope"
local strategy = require "ipulua.strategy"

local stages = {}

local current -- the open scope's stage

local spec <const> = {{"stage", "integer"}}

---A scope whose layers and layer calls belong to a stage, from 0.
---@param stage integer
---@return Scope
function stages.PipelineStage(...)
  local stage = args.check("PipelineStage", spec, ...).stage
  if stage < 0 then blame.error("PipelineStage: a stage is not negative, got " .. stage, "value") end
  if not strategy.current() then
    blame.error("PipelineStage works only inside an IPUStrategy's scope", "runtime")
  end
  if current then
    blame.error(string.format("PipelineStage(%d) is inside PipelineStage(%d): pipeline stages must not be nested", stage,
      current), "runtime")
  end
  current = stage
  return scope.new("PipelineStage(" .. stage .. ")", function() current = nil end)
end

---The stage of the open scope, nil outside.
---@return integer?
function stages.current()
  return current
end

return stages
