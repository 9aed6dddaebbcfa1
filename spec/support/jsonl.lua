-- Reads the cases of a file: one JSON object per line.

local json = require "ipulua.base.json"

return function(path)
  local cases = {}
  for line in io.lines(path) do
    local case, problem = json.parse(line)
    if problem then error(path .. ":" .. #cases + 1 .. ": " .. problem) end
    cases[#cases + 1] = case
  end
  return cases
end
