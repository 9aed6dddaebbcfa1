-- Facts about the terminal. Answers are found once, at the first question; a host program that
-- knows better (it can ask the system directly) overrides them. A window changes its width: columns
-- may be a function that is asked anew.

local terminal = {}

-- fields: is_terminal, output_is_terminal, columns, utf8, colour, quiet
local known = {}

---Overrides these facts; nil fields are found out again.
---@param answers table {is_terminal, output_is_terminal, columns (a number, or a function that
---gives it), utf8, colour, quiet}
function terminal.set(answers)
  known = {}
  for name, value in pairs(answers) do known[name] = value end
end

-- Lua itself cannot ask whether a stream is a terminal; the shell's `test` can, of the inherited
-- one.
local function find_is_terminal()
  return os.execute ~= nil and os.execute("test -t 2") == true
end

local function find_utf8()
  for _, name in ipairs {"LC_ALL", "LC_CTYPE", "LANG"} do
    local value = os.getenv(name)
    if value and value ~= "" then return value:lower():find("utf%-?8") ~= nil end
  end
  return false
end

local function find_columns()
  local columns = math.tointeger(tonumber(os.getenv("COLUMNS") or ""))
  return columns and columns > 0 and columns or 80
end

local function find_colour()
  local no_color = os.getenv("NO_COLOR")
  return not (no_color and no_color ~= "") and os.getenv("TERM") ~= "dumb"
end

local function answer(name, find)
  if known[name] == nil then known[name] = find() end
  return known[name]
end

---Whether standard error is a terminal.
---@return boolean
function terminal.is_terminal() return answer("is_terminal", find_is_terminal) end

---Whether standard output is one.
---@return boolean
function terminal.output_is_terminal()
  if known.output_is_terminal == nil then return terminal.is_terminal() end
  return known.output_is_terminal
end

---Whether progress is kept quiet, as nothing is computed.
---@return boolean
function terminal.is_quiet() return known.quiet == true end

---Whether text is shown as UTF-8.
---@return boolean
function terminal.is_utf8() return answer("utf8", find_utf8) end

---@return integer
function terminal.columns()
  local columns = answer("columns", find_columns)
  if type(columns) == "function" then return columns() or find_columns() end
  return columns
end

---Whether colour is wanted on a terminal: NO_COLOR is not set.
---@return boolean
function terminal.wants_colour() return answer("colour", find_colour) end

local told -- the wrong style that was warned of

---"modern" on a UTF-8 terminal, "classic" otherwise; IPULUA_STYLE overrides.
---@return "modern"|"classic"
function terminal.style()
  local wanted = (os.getenv("IPULUA_STYLE") or ""):lower()
  if wanted == "modern" or wanted == "classic" then return wanted end
  if wanted ~= "" and wanted ~= told then
    require "ipulua.base.log".warn("IPULUA_STYLE is '%s'; it can be modern or classic",
      wanted:sub(1, 40))
    told = wanted
  end
  return terminal.is_terminal() and terminal.is_utf8() and "modern" or "classic"
end

return terminal
