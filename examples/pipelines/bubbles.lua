-- Where a pipeline waits: eight micro-batches go through four stages in each schedule, drawn step
-- by step. A dot is a bubble. In a forward pass of S stages and M micro-batches, the share of
-- bubbles is (S - 1) / (M + S - 1). The paper on GPipe counts them so. More micro-batches make it
-- smaller.
local ipu = require "ipulua"
local stages, count = require "ipulua.script".arguments{{"stages", 4, least = 2},
  {"micro_batches", 8}, "short"} -- it is short as it stands

local mapping = {}
for s = 1, stages do mapping[s] = s - 1 end
local function timetable(schedule, micro_batches)
  return ipu.timetable{schedule = schedule, device_mapping = mapping, training = true,
    count = micro_batches}
end

for _, schedule in ipairs{"Sequential", "Grouped", "Interleaved", "OneFOneB"} do
  print(timetable(schedule, count))
  print()
end
print("bubbles of Grouped, forward and backward, by micro-batches:")
for _, micro_batches in ipairs{count, 2 * count, 4 * count, 8 * count} do
  local used = timetable("Grouped", micro_batches).utilisation
  local share = (stages - 1) / (micro_batches + stages - 1)
  print(string.format("%4d: %4.1f %% of the slots; of one pass, (S - 1) / (M + S - 1): %.1f %%",
    micro_batches, 100 * (1 - used), 100 * share))
end
