-- Effort in the interpreter's steps, which are the same on every machine, however busy; what C does
-- is not among them.
local steps = {}

---Calls f(...) as pcall does.
---@return integer thousands of steps that it took
---@return boolean ok
---@return any ... what f returned, or the error
function steps.count(f, ...)
  local n = 0
  debug.sethook(function() n = n + 1 end, "", 1000)
  local results = table.pack(pcall(f, ...))
  debug.sethook()
  return n, table.unpack(results, 1, results.n)
end

return steps
