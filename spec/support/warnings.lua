-- Warnings that specs provoke: caught, so that none is shown; one that nobody expects fails, and so
-- does one that doesn't come.
--
--   local caught = warnings.expected{"a pattern", "another"}
--   setup(caught.start)
--   teardown(caught.stop)

local log = require "ipulua.base.log"

local warnings = {}

local function first_match(line, patterns)
  for i, pattern in ipairs(patterns) do
    if line:find(pattern) then return i end
  end
  return nil
end

---Catches from start to stop, which then compares: each line must match a pattern, each pattern a
---line.
---@param patterns string[]
---@return {start: fun(), stop: fun(), lines: string[]}
function warnings.expected(patterns)
  local caught, former = {lines = {}}, nil
  function caught.start()
    former = log.set_writer(function(line) caught.lines[#caught.lines + 1] = line end)
  end
  function caught.stop()
    log.set_writer(former)
    local came = {}
    for _, line in ipairs(caught.lines) do
      local i = first_match(line, patterns)
      if not i then error("a warning that nobody expects: " .. line, 0) end
      came[i] = true
    end
    for i, pattern in ipairs(patterns) do
      if not came[i] then error("no warning matches '" .. pattern .. "'", 0) end
    end
  end
  return caught
end

return warnings
