-- Windows over a time series, as a dataset.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local data = require "ipulua.data"
local ops = require "ipulua.ops"

local timeseries = {}

local rows <const> = {
  {"data", {"tensor", "list"}}, {"targets", {"tensor", "list"}, optional = true},
  {"sequence_length", "integer", range = "[1, inf)"},
  {"sequence_stride", "integer", 1, range = "[1, inf)"},
  {"sampling_rate", "integer", 1, range = "[1, inf)"},
  {"batch_size", "integer", 128, range = "[1, inf)"}, {"shuffle", "boolean", false},
  {"seed", "integer", optional = true},
  {"start_index", "integer", optional = true}, {"end_index", "integer", optional = true},
  {"drop_remainder", "boolean", false},
}

local who <const> = "timeseries_dataset_from_array"

local function as_tensor(value, name)
  if value == nil then return nil end
  local t = core.is_tensor(value) and value or core.tensor(value)
  if t.rank == 0 then
    blame.error(string.format("%s: '%s' must have steps along its first axis, got one number", who,
      name), "value")
  end
  return t
end

local function check_less(name, n, length)
  if n < length then return end
  blame.error(string.format("%s: '%s' must be lower than the length of the data, %d, got %d", who,
    name, length, n), "value")
end

-- The range of the data to take steps from: first, and after the last.
local function range_of(a, length)
  local first, behind = a.start_index or 0, a.end_index or length
  if first < 0 or first >= length then
    blame.error(string.format("%s: 'start_index' must lie between 0 and %d, the data's last step, "
      .. "got %d", who, length - 1, first),
      "value")
  end
  if behind <= first or behind > length then
    blame.error(string.format("%s: 'end_index' must be higher than start_index, %d, and at most "
      .. "%d, got %d", who, first, length, behind),
      "value")
  end
  return first, behind
end

-- How many positions a window can begin at.
local function count_windows(a, first, behind, targets)
  local fits = a.sequence_length <= behind - first
  local count = fits and behind - first - a.sequence_length * a.sampling_rate + 1 or 0
  if targets then count = math.min(count, targets.shape[1] - first) end
  if count < 1 then
    blame.error(string.format("%s: no window of %s, %d apart, fits into %s%s", who,
      counted(a.sequence_length, "step"),
      a.sampling_rate, counted(behind - first, "step"), targets
      and " with " .. counted(targets.shape[1], "target") or ""), "value")
  end
  return count
end

---A dataset of batches of windows over a series; by position data, targets or nil, sequence_length.
---A window has sequence_length steps, sampling_rate apart, and begins each sequence_stride steps.
---With targets elements are pairs: targets[i] belongs to the window that begins at step i.
---start_index and end_index bound the part of the series that is used. A last smaller batch comes,
---too, unless drop_remainder is set.
---Shapes: data [steps, ...], targets [steps, ...] → [batch_size, sequence_length, ...],
---[batch_size, ...]
---Units: lengths, strides and indices in steps of the data; indices from 0
---Errors: a stride, a rate or an index outside of the data, no window that fits:
---`keras.preprocessing.timeseries_dataset_from_array(ipu.arange(5), nil, 6)`
---@param ... any data, targets (or nil), sequence_length; the others by name
---@return Dataset
function timeseries.timeseries_dataset_from_array(...)
  local a = args.check(who, rows, ...)
  local x, targets = as_tensor(a.data, "data"), as_tensor(a.targets, "targets")
  local length = x.shape[1]
  check_less("sampling_rate", a.sampling_rate, length)
  check_less("sequence_stride", a.sequence_stride, length)
  local first, behind = range_of(a, length)
  local count = count_windows(a, first, behind, targets)
  local positions = ops.arange(first, first + count, a.sequence_stride)
  local offsets = ops.arange(0, a.sequence_length * a.sampling_rate, a.sampling_rate)
  local dataset = data.from_tensor_slices(positions)
  if a.shuffle then dataset = dataset:shuffle(positions.shape[1], {seed = a.seed}) end
  return dataset:batch(a.batch_size, {drop_remainder = a.drop_remainder}):map(function(p)
    local windows = ops.gather(x, ops.expand_dims(p, 1) + offsets)
    if not targets then return windows end
    return windows, ops.gather(targets, p)
  end)
end

return timeseries
