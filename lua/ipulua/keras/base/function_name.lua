-- The name that a function has in the line that defines it: functions themselves have none.

local patterns <const> = {"function%s+([%w_.:]+)%s*%(", "([%w_]+)%s*=%s*function%s*%("}

-- Line `number` of a file, or of a chunk that was given as text.
local function line_of(source, number)
  local text = source
  if source:sub(1, 1) == "@" then
    local file <close> = io.open(source:sub(2))
    text = file and file:read("a")
  elseif source:sub(1, 1) == "=" then
    return nil
  end
  local at = 1
  for line in ((text or "") .. "\n"):gmatch("(.-)\n") do
    if at == number then return line end
    at = at + 1
  end
end

---"smape" of `local function smape(y_true, y_pred)`; nil where the line names none.
---@param f function
---@return string?
return function(f)
  if type(f) ~= "function" then return nil end
  local info = debug.getinfo(f, "S")
  if info.what ~= "Lua" then return nil end
  local line = line_of(info.source, info.linedefined)
  for _, pattern in ipairs(line and patterns or {}) do
    local name = line:match(pattern)
    if name then return name:match("[%w_]+$") end
  end
end
