-- Loaded before a script (ipulua -l spec.support.plans). The plan of each program that it compiles
-- may take a tenth more memory than the fullest step, and no more.
local core = require "ipulua.core"

-- starts at multiples of 64 bytes matter in small plans
local SLACK <const>, ALIGNMENT <const> = 1.1, 4096

local trace_end = core.trace_end
core.trace_end = function(...)
  local program = trace_end(...)
  local d = program and program:describe()
  if d and d.memory_bytes > SLACK * d.live_bytes + ALIGNMENT then
    error(string.format("the plan of %s takes %d bytes, at most %d are live at once", d.name,
      d.memory_bytes, d.live_bytes), 0)
  end
  return program
end
