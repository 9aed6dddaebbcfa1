-- JSON for ffi.lua, in the Lua that LuaJIT speaks (5.1). Options and logs are small; the strict
-- reader is ipulua.json.

local json = {}

-- What stands for null in lists, where a nil would move what follows.
json.null = setmetatable({}, {__tostring = function() return "null" end})

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
  ["\r"] = "\\r", ["\t"] = "\\t"}
local unescapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t"}

local function write_string(s)
  return '"' .. s:gsub('[%c"\\]',
    function(c) return escapes[c] or string.format("\\u%04x", c:byte()) end) .. '"'
end

local function write_number(x)
  if x ~= x or x == math.huge or x == -math.huge then
    error("JSON has no number " .. tostring(x), 0)
  end
  return x == math.floor(x) and math.abs(x) < 2 ^ 63 and string.format("%.0f", x)
    or string.format("%.17g", x)
end

local write
local function write_table(t)
  local parts = {}
  if #t > 0 or next(t) == nil then
    local count = 0
    for key in pairs(t) do
      if type(key) ~= "number" and key ~= "is_list" then
        error("JSON has no list with a name in it, '" .. tostring(key) .. "'", 0)
      end
      if key ~= "is_list" then count = count + 1 end
    end
    if count ~= #t then
      error("JSON has no list with a hole in it; json.null stands for none", 0)
    end
    for i = 1, #t do parts[i] = write(t[i]) end
    return (#t == 0 and not t.is_list) and "{}" or "[" .. table.concat(parts, ",") .. "]"
  end
  for key, value in pairs(t) do
    parts[#parts + 1] = write_string(tostring(key)) .. ":" .. write(value)
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- int64_t and uint64_t, digit by digit.
local function write_int64(x)
  return tostring(x):match("^(%-?%d+)U?LL$") or error("JSON has no cdata", 0)
end

local writers = {string = write_string, number = write_number, boolean = tostring,
  table = write_table, cdata = write_int64}

function write(value)
  if value == json.null then return "null" end
  local writer = writers[type(value)]
  if not writer then error("JSON has no " .. type(value), 0) end
  return writer(value)
end

---A table without positions is an object; an empty one is {}.
json.encode = write

local function utf8_char(code)
  if code < 0x80 then return string.char(code) end
  if code < 0x800 then return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then
    return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64,
      0x80 + code % 64)
  end
  return string.char(0xF0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64,
    0x80 + math.floor(code / 64) % 64,
    0x80 + code % 64)
end

local function unescape(body)
  body = body:gsub("\\u([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", function(high, low)
    return utf8_char(0x10000 + (tonumber(high, 16) - 0xD800) * 1024 + tonumber(low, 16) - 0xDC00)
  end)
  return (body:gsub("\\(.)(%x?%x?%x?%x?)", function(c, digits)
    if c == "u" then return utf8_char(tonumber(digits, 16)) end
    return (unescapes[c] or c) .. digits
  end))
end

local words = {["true"] = true, ["false"] = false}

local read
local null -- what the present text's nulls become; nil: nothing in objects, json.null in lists
local function fail(text, at)
  error("JSON: trouble at byte " .. at .. " of " .. text:sub(1, 60), 0)
end

local function read_string(text, at)
  local stop = at + 1
  while true do
    stop = text:find('["\\]', stop)
    if not stop then fail(text, at) end
    if text:sub(stop, stop) == '"' then return unescape(text:sub(at + 1, stop - 1)), stop + 1 end
    stop = stop + 2
  end
end

local function read_members(text, at, close, member)
  local out = {}
  at = text:match("^%s*()", at + 1)
  if text:sub(at, at) == close then return out, at + 1 end
  while true do
    at = member(out, at)
    local mark, after = text:match("^%s*(.)()", at)
    if mark == close then return out, after end
    if mark ~= "," then fail(text, at) end
    at = after
  end
end

function read(text, at)
  at = text:match("^%s*()", at)
  local first = text:sub(at, at)
  if first == '"' then return read_string(text, at) end
  if first == "[" then
    return read_members(text, at, "]", function(out, from)
      local value, after = read(text, from)
      if value == nil then value = json.null end
      out[#out + 1] = value
      return after
    end)
  end
  if first == "{" then
    return read_members(text, at, "}", function(out, from)
      local name, after = read_string(text, text:match('^%s*()"', from) or fail(text, from))
      local value
      value, after = read(text, text:match("^%s*:()", after) or fail(text, after))
      out[name] = value
      return after
    end)
  end
  local word, after = text:match("^([%w%.%+%-]+)()", at)
  if not word then fail(text, at) end
  if word == "null" then return null, after end
  if words[word] ~= nil then return words[word], after end
  return tonumber(word) or fail(text, at), after
end

---null becomes nil in objects, json.null in lists; or `instead`, where that is given.
function json.decode(text, instead)
  null = instead
  local value, after = read(text, 1)
  if text:find("%S", after) then fail(text, after) end
  return value
end

return json
