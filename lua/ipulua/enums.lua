-- Every enumeration of the interface. A field's value is the member's name as a string.

local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"

local enums = {}

local lists <const> = {
  SelectionOrder = {"AUTO", "ZIGZAG", "SNAKE", "HOOF"},
  DeviceConnectionType = {"ALWAYS", "ON_DEMAND", "PRE_COMPILE", "NEVER"},
  StochasticRoundingBehaviour = {"OFF", "ON", "REPLICA_IDENTICAL_ONLY"},
  MergeRemoteBuffersBehaviour = {"NO_MERGING", "MERGE", "IF_BENEFICIAL"},
  SchedulingAlgorithm = {"CHOOSE_BEST", "CLUSTERING", "POST_ORDER", "LOOK_AHEAD", "SHORTEST_PATH"},
  ExecutionProfileType = {"NO_PROFILE", "DEVICE_PROFILE", "IPU_PROFILE", "TILE_PROFILE"},
  PipelineSchedule = {},
  RecomputationMode = {"Auto", "RecomputeThenBackpropagate",
    "RecomputeAndBackpropagateInterleaved"},
  GradientAccumulationReductionMethod = {"SUM", "MEAN", "RUNNING_MEAN"},
  ReplicatedMetricReductionMethod = {"NONE", "LIST", "SUM", "MEAN"},
  IPUOutfeedMode = {"ALL", "LAST"},
}

for _, schedule in ipairs(core.schedules()) do
  if not schedule.given then table.insert(lists.PipelineSchedule, schedule.name) end
end

for name, members in pairs(lists) do enums[name] = enum.new(name, members) end

return enums
