-- JSON, strictly (RFC 8259). Writing: keys sorted, integers exact, floats with the fewest digits
-- that read back the same. Reading: no duplicate names, no trailing text, bounded depth, valid
-- UTF-8 only; an integer literal becomes a Lua integer or is refused, never rounded.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local locale = require "ipulua.base.locale"

local json = {}

local depth_limit <const> = 200

---The value that `null` is read as, and that is written as `null`.
json.null = setmetatable({}, {__name = "null", __tostring = function() return "null" end})

local array_meta = {__name = "json.array", plain = true}

function array_meta:__tostring()
  return tostring(core.plain(table.move(self, 1, #self, 1, {})))
end

---Marks a table as a list, so that it is written as `[]` even if it is empty. Empty lists come back
---marked.
---Errors: a value that is no list: `ipu.json.array{width = 3}`
---@param t table?
---@return table
function json.array(t)
  local args = require "ipulua.base.args"
  if t ~= nil and not args.is_list(t) then
    blame.error("json.array: expected a list, got " .. args.describe(t), "type")
  end
  return setmetatable(t or {}, array_meta)
end

---Whether a table is marked as a list: `[]` was read as one.
---@param t table
---@return boolean
---@package
function json.is_array(t) return getmetatable(t) == array_meta end

-- ---------------------------------------------------------------- writing

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
  ["\r"] = "\\r", ["\t"] = "\\t"}

local function refuse(message)
  error({json = message}, 0)
end

-- Where in the value that is being written: names and numbers from the outside in.
local trail <const> = {}

local function trail_text(depth)
  local text = ""
  for i = 1, depth do
    local step = trail[i]
    text = text .. (type(step) == "number" and "[" .. step .. "]" or (i > 1 and "." or "") .. step)
  end
  return utf8.len(text) and text or text:gsub("[\128-\255]", "?")
end

local function write_string(s)
  if not utf8.len(s) then refuse("a string is not valid UTF-8") end
  return '"' .. s:gsub('[%c"\\]', function(c)
    return escapes[c] or (c ~= "\127" and string.format("\\u%04x", c:byte())) or nil
  end) .. '"'
end

local function write_number(x)
  if math.type(x) == "integer" then return string.format("%d", x) end
  if x ~= x or x == math.huge or x == -math.huge then
    refuse("JSON has no number " .. tostring(x))
  end
  for digits = 15, 17 do
    local s = locale.plain_number(string.format("%." .. digits .. "g", x))
    if tonumber(s) == x then
      return s:find("[.en]") and s or s .. ".0"
    end
  end
end

-- The number of elements if t is written as a list, nil if as an object.
local function list_length(t)
  local n, count = #t, 0
  if n == 0 then return json.is_array(t) and next(t) == nil and 0 or nil end
  for _ in next, t do count = count + 1 end
  return count == n and n or nil
end

local write

local function sorted_names(t)
  local names = {}
  for key in next, t do
    if type(key) ~= "string" then
      refuse("an object's names are strings; this table has a " .. type(key) .. " ("
        .. tostring(key) .. ") among its keys")
    end
    names[#names + 1] = key
  end
  table.sort(names, locale.before)
  return names
end

local function write_table(t, out, indent, depth)
  if depth > depth_limit then
    refuse("nested deeper than " .. depth_limit .. " levels (does a table contain itself?)")
  end
  local inner = indent and "\n" .. indent:rep(depth) or ""
  local outer = indent and "\n" .. indent:rep(depth - 1) or ""
  local n = list_length(t)
  if n then
    out[#out + 1] = "["
    for i = 1, n do
      out[#out + 1] = (i > 1 and "," or "") .. inner
      trail[depth], trail.depth = i, depth
      write(t[i], out, indent, depth)
    end
    out[#out + 1] = (n > 0 and outer or "") .. "]"
    return
  end
  trail.depth = depth - 1
  local names = sorted_names(t)
  local colon = indent and ": " or ":"
  out[#out + 1] = "{"
  for i, name in ipairs(names) do
    trail[depth], trail.depth = name, depth
    out[#out + 1] = (i > 1 and "," or "") .. inner .. write_string(name) .. colon
    write(t[name], out, indent, depth)
  end
  out[#out + 1] = (#names > 0 and outer or "") .. "}"
end

function write(value, out, indent, depth)
  local t = type(value)
  if t == "string" then
    out[#out + 1] = write_string(value)
  elseif t == "number" then
    out[#out + 1] = write_number(value)
  elseif t == "boolean" then
    out[#out + 1] = tostring(value)
  elseif value == json.null or value == nil then
    out[#out + 1] = "null"
  elseif t == "table" then
    write_table(value, out, indent, depth + 1)
  else
    refuse("a " .. t .. " has no JSON form")
  end
end

---The JSON text of a value; or nil, the kind of value that has no JSON, and its place.
---@param value any
---@param indent string?
---@return string? text
---@return string? problem
---@package
function json.text(value, indent)
  local out = {}
  trail.depth = 0
  local ok, problem = pcall(write, value, out, indent, 0)
  if ok then return table.concat(out) end
  if type(problem) ~= "table" then return nil, tostring(problem) end
  local depth = trail.depth < 20 and trail.depth or 0
  return nil, (depth > 0 and trail_text(depth) .. ": " or "") .. problem.json
end

-- ---------------------------------------------------------------- numbers that JSON has not

local odd_numbers <const> = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

---A number as JSON can hold it: infinities and NaN become {"$number": "inf"}.
---@param x any
---@return any
---@package
function json.pack_number(x)
  if type(x) ~= "number" or x - x == 0 then return x end
  return {["$number"] = x ~= x and "nan" or x > 0 and "inf" or "-inf"}
end

---The number that pack_number took apart; nil for any other table.
---@param t table
---@return number?
---@package
function json.packed_number(t) return odd_numbers[t["$number"]] end

---A value whose numbers JSON can all hold.
---@param value any
---@param depth integer?
---@return any
---@package
function json.pack(value, depth)
  depth = depth or 1
  if type(value) ~= "table" then return json.pack_number(value) end
  -- deeper nesting is refused in writing, too
  if value == json.null or depth > depth_limit then return value end
  local out, changed = setmetatable({}, getmetatable(value)), false
  for key, each in next, value do
    out[key] = json.pack(each, depth + 1)
    changed = changed or not rawequal(out[key], each)
  end
  return changed and out or value
end

---The values that json.pack was given.
---@param value any
---@return any
---@package
function json.unpack(value)
  if type(value) ~= "table" or value == json.null then return value end
  if value["$number"] ~= nil then return json.packed_number(value) or value end
  for key, each in next, value do
    if type(each) == "table" then value[key] = json.unpack(each) end
  end
  return value
end

---The JSON text of a value; an empty table is `{}` unless it is marked by `json.array`.
---Errors: values that JSON can't hold (functions, tables in a ring): `ipu.json.encode(print)`
---@param value any
---@param options {indent: integer?}? spaces for each level; without, one line
---@return string
function json.encode(value, options)
  local args = require "ipulua.base.args"
  if options ~= nil and not args.is_plain(options) then
    blame.error("json.encode: options are a table, as in {indent = 2}, got "
      .. args.describe(options), "type")
  end
  if options and options.indent ~= nil
    and (math.type(options.indent) ~= "integer" or options.indent < 0 or options.indent > 80) then
    blame.error("json.encode: 'indent' must be an integer from 0 to 80, got "
      .. args.describe(options.indent), "type")
  end
  local indent = options and options.indent and (" "):rep(options.indent) or nil
  local text, problem = json.text(value, indent)
  if text then return text end
  blame.error("json.encode: " .. problem, "value")
end

-- ---------------------------------------------------------------- reading

---The value of a JSON text, or nil and the problem.
---@param text string
---@return any value
---@return string? problem
---@package
function json.parse(text)
  if type(text) ~= "string" then return nil, "a string was expected, got " .. type(text) end
  return core.read_json(text, json.null, array_meta)
end

---The value of a JSON text; `null` is `json.null`. Raises when the text is not JSON.
---Errors: a text that is not JSON, with its place: `ipu.json.decode "{1}"`
---@param text string
---@return any
function json.decode(text)
  local value, problem = json.parse(text)
  if problem then
    blame.error("json.decode: " .. problem, type(text) == "string" and "value" or "type")
  end
  return type(value) == "table" and value ~= json.null
    and core.plain(value) or value
end

return json
