-- Datasets of several instances: global batches cut into the replicas' parts, and datasets that a
-- function makes for each instance.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local Dataset = require "ipulua.data.dataset"
local elements = require "ipulua.data.elements"
local launch = require "ipulua.config.launch"
local structure = require "ipulua.base.structure"

local data = {}

local function check_dataset(who, dataset)
  if class.is_a(dataset, Dataset) then return end
  blame.error(who .. ": expected a dataset, got " .. args.describe(dataset), "type")
end

-- The rows of a global batch, which all components have.
local function rows_of(who, dataset)
  local rows
  for _, t in ipairs(dataset.handle:types()) do
    local extent = t.shape[1]
    if not extent then
      blame.error(who .. ": the elements must be global batches, got "
        .. structure.type_text(t.dtype, t.shape), "value")
    end
    if extent < 0 then
      blame.error(string.format("%s: the rows of a global batch must be known; batch(n, "
        .. "{drop_remainder = true}) makes them so", who),
        "value")
    end
    if rows and rows ~= extent then
      blame.error(string.format("%s: the components have other numbers of rows: %d and %d", who,
        rows, extent), "value")
    end
    rows = extent
  end
  return rows
end

---@package
function data.distribute(team, dataset)
  local who <const> = "experimental_distribute_dataset"
  check_dataset(who, dataset)
  local replicas <const>, mine <const> = team.num_replicas_in_sync, launch.local_replicas()
  local rows <const> = rows_of(who, dataset)
  if rows % replicas ~= 0 then
    blame.error(string.format("%s: a global batch of %d rows can't be cut for %d replicas", who,
      rows, replicas), "value")
  end
  local size <const>, first <const> = rows // replicas, launch.index() * mine
  local function part(t)
    local begin, extent, shape = {}, {}, {mine, size}
    for i, n in ipairs(t.shape) do begin[i], extent[i] = 0, n end
    begin[1], extent[1] = first * size, mine * size
    table.move(t.shape, 2, #t.shape, 3, shape)
    return core.ops.reshape(core.ops.slice(t, begin, extent), shape)
  end
  local parts = dataset:map(function(...)
    local count = select("#", ...)
    local leaves, template = structure.flatten{...}
    for i, leaf in ipairs(leaves) do leaves[i] = part(leaf) end
    return elements.returned(structure.rebuild(template, leaves), count)
  end)
  local mine_only = parts:unbatch()
  mine_only.is_distributed = true
  return mine_only
end

---The argument of a function of distribute_datasets_from_function.
---@class InputContext
---@field num_input_pipelines integer instances
---@field input_pipeline_id integer this one
---@field num_replicas_in_sync integer
local InputContext = class.new("InputContext")

function InputContext:init(team)
  self.num_input_pipelines, self.input_pipeline_id = launch.count(), launch.index()
  self.num_replicas_in_sync = team.num_replicas_in_sync
end

---A replica's share of a global batch.
---Errors: a size that the replicas don't divide
---@param size integer of the global batch
---@return integer
function InputContext:get_per_replica_batch_size(size)
  args.check_value("get_per_replica_batch_size", {"global_batch_size", "integer"}, size)
  if size % self.num_replicas_in_sync ~= 0 then
    blame.error(string.format("get_per_replica_batch_size: a global batch of %d rows can't be cut "
      .. "for %d replicas", size,
      self.num_replicas_in_sync), "value")
  end
  return size // self.num_replicas_in_sync
end
class.guard(InputContext)
data.InputContext = InputContext

---@package
function data.from_function(team, f)
  local who <const> = "distribute_datasets_from_function"
  if type(f) ~= "function" then
    blame.error(who .. ": expected a function, got " .. args.describe(f), "type")
  end
  local dataset = f(InputContext(team))
  check_dataset(who, dataset)
  return dataset
end

return data
