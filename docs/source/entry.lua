-- An entry of the references, always in one form. It has a sentence, the way to call it, and a call
-- that runs, with the shapes that go in and come out. A table of arguments and a list of further
-- facts follow.

local class = require "ipulua.base.class"
local core = require "ipulua.core"
local help = require "ipulua.tools.help"
local notes = require "notes"
local rows = require "rows"
local see = require "see"
local words = require "argument_words"

local entry = {}

local function shape_text(t) return "[" .. table.concat(t.shape, ", ") .. "]" end

local function quoted(text)
  text = string.format("%q", text):gsub("\\\n", "\\n")
  return "`" .. (#text > 60 and text:sub(1, 56) .. "…\"" or text) .. "`"
end

---A result in a few words: a tensor by its shape, an object by its class.
---@param value any
---@param deep boolean? inside of a table
---@return string
function entry.shown(value, deep)
  if core.is_tensor(value) or core.is_variable(value) then return shape_text(value) end
  if type(value) == "string" then return quoted(value) end
  if math.type(value) == "float" then return string.format("%.4g", value) end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  if type(value) == "function" then return "a function" end
  if class.is_class(value) then return "the class " .. value.__name end
  local c = class.of(value)
  if c then return (c.__name:find("^[AEIO]") and "an " or "a ") .. c.__name end
  if type(value) ~= "table" then return value == nil and "nil" or "an object" end
  local list, count = {}, 0
  for i, each in ipairs(value) do list[i] = not deep and entry.shown(each, true) or "…" end
  for _ in pairs(value) do count = count + 1 end
  if count > #list then
    local names = {}
    for key, each in pairs(value) do
      if math.type(key) ~= "integer" then
        names[#names + 1] = tostring(key) .. (deep and "" or " = " .. entry.shown(each, true))
      end
    end
    table.sort(names)
    for _, each in ipairs(names) do list[#list + 1] = each end
  end
  if #list > 6 then list = {table.unpack(list, 1, 5), "…"} end
  return "{" .. table.concat(list, ", ", 1, math.min(#list, 6)) .. "}"
end

---Runs a call as the pages show it: "`code` → [2, 3]".
---@param name string whose it is
---@param code string
---@return string
function entry.call(name, code)
  local results = table.pack(notes.try(code, entry.shown))
  if not results[1] then
    notes.problem("%s: the call %s fails: %s", name, code, tostring(results[2]))
    return code
  end
  local list = {}
  for i = 2, results.n do list[i - 1] = results[i] end
  local gives = #list > 0 and table.concat(list, ", ") or "nothing"
  return string.format("`%s` → %s", code, (gives:gsub("|", "\\|")))
end

-- The meaning of an argument: its row's own words, else those for its name.
local function meaning(owner, row)
  local short = owner:match("[^.]+$") or owner
  local method = owner:match("[^.]+:[%w_]+$")
  local found = row.says or words[(method or short) .. "." .. row[1]]
    or words[short .. "." .. row[1]] or words[row[1]]
  if not found then notes.problem("%s: nothing says what %s means: give its row `says`", owner,
    row[1]) end
  return found or ""
end

local function cell(text) return (text:gsub("%s*|%s*", ", ")) end

local function default_of(row)
  if row[3] ~= nil then return "`" .. rows.value_text(row[3]) .. "`" end
  return row.optional and "none" or "required"
end

-- Arguments that annotations alone tell of: "name type words".
local function annotated(owner, text)
  local name, rest = text:match("^(%S+)%s+(.*)$")
  local kind, said
  if rest:find("^any%?? ") then kind, said = "any", rest:gsub("^any%?? ", "") -- words say the type
  else
    kind, said = rest:match("^(%b{}%??)%s*(.*)$")
    if not kind then kind, said = rest:match("^(%S+)%s*(.*)$") end
  end
  kind = help.plain(kind)
  local optional = rest:find("^any%? ") or kind:find("%?$") or kind:find("|nil$") or name == "..."
  if kind == "any" and said ~= "" then kind, said = said, "" end
  if kind == "any[]" then kind, said = said ~= "" and "list of " .. said or "list", "" end
  if said == "" then said = words[owner:match("[^.]+$") .. "." .. name] or words[name] or "" end
  return {(name:gsub("^%.%.%.$", "…")), kind:gsub("%?$", ""):gsub("|nil$", ""),
    optional and "none" or "required", said}
end

---The table of arguments: {name, type with its limits, default, meaning}.
---@param owner string
---@param about table what help.about or help.class says
---@param kinds table<string, string>? of Keras' parts
---@return table[]
function entry.arguments(owner, about, kinds)
  local list = {}
  for i, row in ipairs(about.rows or {}) do
    local kind = kinds and kinds[row[1]] or help.type_text(row)
    list[i] = {row[1], kind, default_of(row), meaning(owner, row)}
  end
  for i, text in ipairs(about.rows and {} or about.takes or {}) do
    list[i] = annotated(owner, text)
  end
  return list
end

local function write_table(add, list)
  add "| argument | type | default | meaning |"
  add "| --- | --- | --- | --- |"
  for _, row in ipairs(list) do
    add("| `" .. row[1] .. "` | " .. cell(row[2]) .. " | " .. cell(row[3]) .. " | " .. cell(row[4])
      .. " |")
  end
  add ""
end

local kinds <const> = {"Result", "Shapes", "dtypes", "Weights", "State", "Units", "Gradient",
  "Errors", "Source", "See also"}

---The lines of an entry. o.heading "###"; o.name; o.text; o.signature; o.calls, code that runs;
---o.arguments; o.notes, lines by their kind; o.names, how examples write it.
---@param o table
---@return string[]
function entry.lines(o)
  local lines = {}
  local function add(text) lines[#lines + 1] = text end
  add(o.heading .. " " .. o.name)
  add ""
  add(o.text:find("[.:]$") and o.text or o.text .. ".")
  add ""
  if o.signature then
    add("`" .. o.signature .. "`")
    add ""
  end
  for i, code in ipairs(o.calls or {}) do
    add((i == 1 and "Call: " or "") .. entry.call(o.name, code) .. (i < #o.calls and "  " or ""))
  end
  if o.unshown then add("Call: " .. o.unshown) end
  if o.unshown or o.calls and #o.calls > 0 then add "" end
  if o.arguments and #o.arguments > 0 then write_table(add, o.arguments) end
  local listed = o.notes or {}
  local links = o.names and see.links(o.names, o.folder, o.near)
  if links == "" then links = "[all entries](../" .. o.folder:match("(%w+)/$") .. ".md)" end
  listed["See also"] = listed["See also"] or links
  for _, kind in ipairs(kinds) do
    for _, text in ipairs(type(listed[kind]) == "table" and listed[kind] or {listed[kind]}) do
      add("- " .. kind .. ": " .. text)
    end
  end
  add ""
  return lines
end

---Notes of a comment by kind, as entry.lines wants them.
---@param name string
---@param about table
---@return table<string, string>
function entry.notes(name, about)
  local found = {}
  for _, line in ipairs(notes.lines(name, about.notes, "")) do
    local kind, text = line:match("^%- (%a+): (.*)$")
    found[kind] = text
  end
  if about.gives and about.gives[1] then found.Result = help.plain(about.gives[1]) end
  return found
end

return entry
