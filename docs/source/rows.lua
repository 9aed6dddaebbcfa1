-- Rows of arguments as text, for the references.

local rows = {}

---A default as Lua writes it.
function rows.value_text(value)
  if type(value) == "string" then return string.format("%q", value) end
  if type(value) == "table" then
    local list = {}
    for i, each in ipairs(value) do list[i] = rows.value_text(each) end
    return "{" .. table.concat(list, ", ") .. "}"
  end
  if type(value) == "number" and math.type(value) == "float" and value == math.floor(value) then
    return string.format("%d", value)
  end
  return tostring(value)
end

---Whether an argument must be given.
function rows.is_required(row) return row[3] == nil and not row.optional end

---How many rows are written by position: those up to the last that must be given.
function rows.position_count(list)
  local count = 0
  for i, row in ipairs(list) do
    if rows.is_required(row) then count = i end
  end
  return count
end

---units, {activation = nil, use_bias = true}
function rows.signature(list)
  list = list or {}
  local count, by_position, by_name = rows.position_count(list), {}, {}
  for i, row in ipairs(list) do
    local text = row[1]
    if not rows.is_required(row) then
      text = text .. " = " .. (row[3] == nil and "nil" or rows.value_text(row[3]))
    end
    local into = i <= count and by_position or by_name
    into[#into + 1] = text
  end
  if #by_name > 0 then by_position[#by_position + 1] = "{" .. table.concat(by_name, ", ") .. "}" end
  return table.concat(by_position, ", ")
end

---The type of a row as LuaLS says it.
function rows.lua_type(row, kind)
  if kind then return kind == "activation" and "string|function" or "string|table" end
  local names = {integer = "integer", number = "number", string = "string", boolean = "boolean",
    ["function"] = "function",
    callable = "function", list = "any[]", table = "table", dict = "table", tensor = "userdata",
    dtype = "string"}
  local found, list = {}, {}
  local types = type(row[2]) == "table" and getmetatable(row[2]) == nil and row[2] or {row[2]}
  for _, t in ipairs(types) do
    local name = type(t) == "string" and (names[t] or "any") or "any"
    if not found[name] then
      found[name] = true
      list[#list + 1] = name
    end
  end
  return table.concat(list, "|")
end

return rows
