-- The words behind a script's name. What --help prints is the comment at the head of the script,
-- and the arguments with their defaults.

local nearest = require "ipulua.nearest"

local script = {}

local function stop(status, file, text)
  file:write(text, "\n")
  os.exit(status, true)
end

-- The comment that a file begins with.
local function head(path)
  local file <close> = path and io.open(path) or nil
  local lines = {}
  for line in file and file:lines() or function() end do
    local text = line:match("^%-%- ?(.*)$")
    if not text then break end
    lines[#lines + 1] = text
  end
  return table.concat(lines, "\n")
end

local function is_word(row) return type(row) == "string" end

local function shown(row)
  if is_word(row) then return "  " .. row .. ", which may be left out" end
  return string.format("  %s: %s", row[1], row[2])
end

local function help(rows)
  local lines = {}
  for i, row in ipairs(rows) do lines[i] = shown(row) end
  return #rows > 0 and "Arguments, in this order, and what they are otherwise:\n"
    .. table.concat(lines, "\n") or "It takes no arguments."
end

local function refuse(format, ...)
  stop(1, io.stderr, string.format("%s: %s (--help lists all arguments)", arg[0],
    string.format(format, ...)))
end

local function read_count(row, word)
  local value, least = math.tointeger(tonumber(word)), row.least or 1
  if not value then refuse("'%s' must be an integer, got '%s'", row[1], word) end
  if value < least then refuse("'%s' must be at least %d, got %d", row[1], least, value) end
  return value
end

-- The value of a row: a number where the default is one.
local function read(row, word)
  if math.type(row[2]) == "integer" then return read_count(row, word) end
  if type(row[2]) ~= "number" then return word end
  return tonumber(word) or refuse("'%s' must be a number, got '%s'", row[1], word)
end

local function hint(rows, word)
  local words = {}
  for _, row in ipairs(rows) do words[#words + 1] = is_word(row) and row or nil end
  return nearest.hint(word, words)
end

-- The words behind the script whose chunk is at a level of the caller's stack; none where another
-- script runs it, by dofile.
local function words_of(level)
  local chunk = debug.getinfo(level + 1, "S").source
  return type(arg) == "table" and arg[0] == chunk:sub(2) and arg or {}
end

local function take_options(words, rows)
  for _, word in ipairs(words) do
    if word == "--help" or word == "-h" then
      stop(0, io.stdout, head(arg[0]) .. (rows and "\n\n" .. help(rows) or ""))
    end
    if word:find("^%-%-?%a") then
      refuse("it has no option '%s'%s", word, nearest.hint(word, {"--help"}))
    end
  end
end

---Does what --help asks for, and refuses other words that begin with a dash. For scripts that read
---their arguments themselves.
function script.options()
  local words = words_of(2)
  take_options(words)
end

---For files that other scripts load: run by itself, such a file says so, and whose part it is.
---@param of string the scripts
function script.part(of)
  if arg and arg[0] == debug.getinfo(2, "S").source:sub(2) then
    stop(1, io.stderr, arg[0] .. ": it is a part of " .. of)
  end
end

---What the script was given, in the order of the rows: {"epochs", 5} is an argument and its
---default, whose type it has; an integer is at least 1, or what {"steps", 5, least = 0} says; a
---string is a word that may be there: true or false. --help prints the comment at the head of the
---script; what isn't understood ends it with a message.
---@param rows table
---@return any ...
function script.arguments(rows)
  local given, values, places, words = words_of(2), {}, {}, {}
  take_options(given, rows)
  for i, row in ipairs(rows) do
    if is_word(row) then
      words[row], values[i] = i, false
    else
      places[#places + 1], values[i] = i, row[2]
    end
  end
  local taken = 0
  for _, word in ipairs(given) do
    taken = taken + (words[word] and 0 or 1)
    local i = words[word] or places[taken]
    if not i then refuse("it has no argument '%s'%s", word, hint(rows, word)) end
    values[i] = words[word] and true or read(rows[i], word)
  end
  return table.unpack(values, 1, #rows)
end

return script
