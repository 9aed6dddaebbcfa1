-- Conformance cases of kind "table": rows of facts about schedules and devices, compared with what
-- answers such questions.

local ipu = require "ipulua"

local runner = {}

local function mapping_of(row)
  if row.device_mapping then return row.device_mapping end
  local mapping = {}
  for stage = 1, row.stages do mapping[stage] = stage - 1 end
  return mapping
end

local function timetable(row)
  local training = row.training
  return ipu.timetable{schedule = row.schedule, device_mapping = mapping_of(row),
    training = training == nil or training, count = row.count}
end

local function text(value)
  return type(value) == "table" and table.concat(value, ", ") or tostring(value)
end

-- How often each stage runs forward; nil when not all run equally often.
local function executions(order)
  local counts = {}
  for _, step in ipairs(order) do
    for _, e in ipairs(step) do
      if e.kind == "forward" then counts[e.stage] = (counts[e.stage] or 0) + 1 end
    end
  end
  for _, n in pairs(counts) do
    if n ~= counts[0] then return nil end
  end
  return counts[0]
end

-- A letter for each stage, in the order in which a time step issues them: its micro-batches, oldest
-- first.
local function letters(table_of, from, to, micro_batches)
  local parts = {}
  for t = from, to do
    local slots = {}
    for m = 1, micro_batches do slots[m] = "." end
    for _, e in ipairs(table_of.order[t] or {}) do
      slots[e.micro_batch + 1] = string.char(("a"):byte() + e.stage)
    end
    parts[#parts + 1] = table.concat(slots)
  end
  return table.concat(parts)
end

local function is_issued_last_first(order)
  for _, step in ipairs(order) do
    for i = 2, #step do
      if step[i].stage >= step[i - 1].stage then return false end
    end
  end
  return true
end

-- A row's value of a fact, by its key.
local facts = {
  count_must_be_multiple_of = function(row) return timetable(row).count_multiple end,
  depth_per_stage = function(row) return timetable(row).stash_depth end,
  time_steps = function(row) return timetable(row).time_steps end,
  executions_per_stage = function(row) return executions(timetable(row).order) end,
  physical = function(row) return ipu.selection_order(row.order, row.ipus) end,
}

local function grouped_pass(stages, from, to)
  local t = ipu.timetable{schedule = "Grouped", device_mapping = mapping_of{stages = stages},
    training = false, count = stages}
  return is_issued_last_first(t.order) and letters(t, from, to, stages) or "issued in another order"
end

local function stage_count(row) return tonumber(row.stages:match("%((%d+)")) end

function facts.ramp_up(row) return grouped_pass(stage_count(row), 1, stage_count(row)) end
function facts.ramp_down(row)
  return grouped_pass(stage_count(row), stage_count(row) + 1, 2 * stage_count(row))
end

-- "dcba repeated 4 times": of a run three times as long, the middle.
function facts.steady(row)
  local n = stage_count(row)
  local t = ipu.timetable{schedule = "Grouped", device_mapping = mapping_of{stages = n},
    training = false, count = 3 * n}
  local pass = {}
  for _, e in ipairs(t.order[n + 1]) do pass[#pass + 1] = string.char(("a"):byte() + e.stage) end
  return table.concat(pass) .. " repeated " .. n .. " times"
end

---@param case table
---@return boolean ok, string? message
function runner.run(case)
  for _, step in ipairs(case.script) do
    for i, row in ipairs(step.rows or {}) do
      local asked = 0
      for key, want in pairs(row) do
        local f = facts[key]
        if f then
          asked = asked + 1
          local got = f(row)
          if text(got) ~= text(want) then
            return false, string.format("row %d: %s is %s, expected %s", i, key, text(got),
              text(want))
          end
        end
      end
      if asked == 0 then return false, "row " .. i .. " asks nothing that is known here" end
    end
  end
  return true
end

return runner
