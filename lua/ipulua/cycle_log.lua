-- --log_cycle_count: a line for each run, with the cycles that the machine model counts for it.

local func = require "ipulua.func"
local log = require "ipulua.log"
local machine = require "ipulua.machine"

local cycle_log = {}

local ipu = -1 -- which IPU's cycles; -1: none are logged
local counted = setmetatable({}, {__mode = "k"}) -- by program

local function count(entry)
  counted[entry] = counted[entry] or machine.price(entry, machine.options(nil, entry.device)):summary().cycles.total
  return counted[entry]
end

func.listen(function(event, entry)
  if event ~= "execute" or ipu < 0 then return end
  log.always("IPU %d: %d cycles in a run of '%s'", ipu, math.floor(count(entry) + 0.5), entry.name)
end)

---Log the cycles of an IPU from now on; -1: of none.
function cycle_log.set(index) ipu = index end

return cycle_log
