-- The options after a script's name. --help prints the comment at the head of the script, and the
-- options with their defaults.

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

-- Whether there is --short: as a row of its own, or by another row's value for it.
local function has_short(rows)
  for _, row in ipairs(rows) do
    if row == "short" or not is_word(row) and row.short ~= nil then return true end
  end
  return false
end

local function option(name) return "--" .. name:gsub("_", "-") end

local function shown(row)
  if is_word(row) then return "  " .. option(row) end
  local less = row.short ~= nil and string.format(" (%s with --short)", row.short) or ""
  return string.format("  %s %s%s", option(row[1]), row[2], less)
end

local function help(rows)
  local lines = {}
  for _, row in ipairs(rows) do
    if row ~= "short" then lines[#lines + 1] = shown(row) end
  end
  if has_short(rows) then lines[#lines + 1] = "  --short: only as much as shows that it works" end
  return #lines > 0 and "Options, and what they are otherwise:\n" .. table.concat(lines, "\n")
    or "It takes no options."
end

local function refuse(format, ...)
  stop(1, io.stderr, string.format("%s: %s (--help lists all options)", arg[0],
    string.format(format, ...)))
end

local function read_count(row, word)
  local value, least = math.tointeger(tonumber(word)), row.least or 1
  if not value then refuse("'%s' must be an integer, got '%s'", option(row[1]), word) end
  if value < least then refuse("'%s' must be at least %d, got %d", option(row[1]), least, value) end
  return value
end

-- The value of a row: a number where the default is one.
local function read(row, word)
  if math.type(row[2]) == "integer" then return read_count(row, word) end
  if type(row[2]) ~= "number" then return word end
  return tonumber(word) or refuse("'%s' must be a number, got '%s'", option(row[1]), word)
end

-- The words after the name of the script that calls the caller. None if another script runs it, by
-- dofile.
local function words_of_caller()
  local chunk = debug.getinfo(3, "S").source
  return type(arg) == "table" and arg[0] == chunk:sub(2) and arg or {}
end

local function print_help(rows)
  stop(0, io.stdout, head(arg[0]) .. (rows and "\n\n" .. help(rows) or ""))
end

local function is_help(word) return word == "--help" or word == "-h" end

---Prints the help for --help, and refuses other words that begin with a dash. For scripts that read
---their arguments themselves.
function script.options()
  for _, word in ipairs(words_of_caller()) do
    if is_help(word) then print_help() end
    if word:find("^%-%-?%a") then
      refuse("it has no option '%s'%s", word, nearest.hint(word, {"--help"}))
    end
  end
end

---For files that other scripts load: run by itself, such a file says so, and whose part it is.
---@param of string the scripts
function script.part(of)
  if arg and arg[0] == debug.getinfo(2, "S").source:sub(2) then
    stop(1, io.stderr, arg[0] .. ": it is a part of " .. of)
  end
end

-- Which row an option names: the row and its index; 0: --short of other rows.
local function place_of(rows, word)
  local names = {"--help"}
  if has_short(rows) then names[2] = "--short" end
  for i, row in ipairs(rows) do
    local name = option(is_word(row) and row or row[1])
    if name == word then return i end
    names[#names + 1] = name
  end
  if word == "--short" and has_short(rows) then return 0 end
  if word:find "^%-" then refuse("it has no option '%s'%s", word, nearest.hint(word, names)) end
  refuse("it takes options only, got '%s'%s", word, nearest.hint("--" .. word, names))
end

-- Options by place: words, "--steps 5" and "--steps=5".
local function read_options(given, rows)
  local found, at = {}, 1
  while given[at] do
    if is_help(given[at]) then print_help(rows) end
    local word, value = given[at]:match "^(%-%-[^=]+)=(.*)$"
    word = word or given[at]
    local place = place_of(rows, word)
    local row = rows[place] or "short"
    if is_word(row) then
      if value then refuse("'%s' takes no value", word) end
      found[place], found.short = true, found.short or row == "short"
    else
      if not value then at, value = at + 1, given[at + 1] end
      if not value then refuse("'%s' needs a value", word) end
      found[place] = read(row, value)
    end
    at = at + 1
  end
  return found
end

---The options of a script, in the order of the rows. {"steps", 500, short = 20} is the option
---`--steps 5`; without it the value is 500, with `--short` 20. The option has the type of that
---value. An integer is at least 1; {"steps", 5, least = 0} says otherwise. A string alone is an
---option without a value: true or false. --help prints the comment at the head of the script. An
---unknown option ends the script with a message.
---@param rows table
---@return any ...
function script.arguments(rows)
  local found, values = read_options(words_of_caller(), rows), {}
  for i, row in ipairs(rows) do
    if found[i] ~= nil then values[i] = found[i]
    elseif is_word(row) then values[i] = false
    elseif found.short and row.short ~= nil then values[i] = row.short
    else values[i] = row[2] end
  end
  return table.unpack(values, 1, #rows)
end

return script
