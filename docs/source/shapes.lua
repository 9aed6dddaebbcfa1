-- Shapes with names, such as "[batch, ..., features] → [batch, ..., units]", and whether a sample
-- has them. A name is an extent: of the sample's input, or the field of that name of what the
-- sample made (units). In results a name may stand in a sum or product, and a name with a prime,
-- which stands nowhere else, is any extent. `...` is any number of extents, the same on both sides.
-- Several shapes in braces are a list. `...'` is any number of any extents.

local shapes = {}

-- "{[a, b], [c]}" → {{"a", "b"}, {"c"}}, "[a, b]" → {{"a", "b"}}
local function parse(text)
  local list = {}
  for inside in text:gmatch("%b[]") do
    local names = {}
    for name in inside:sub(2, -2):gmatch("[^,]+") do
      names[#names + 1] = name:match("^%s*(.-)%s*$")
    end
    list[#list + 1] = names
  end
  return list
end

local function value_of(expression, known)
  local f = load("return " .. expression:gsub("·", "*"), "=shape", "t",
    setmetatable({}, {__index = function(_, name)
    return known[name] or error("nothing is called " .. name, 0)
  end}))
  return math.tointeger(assert(f, expression)())
end

local function bind(known, name, extent)
  if name:find("'$") then return end
  if name:find("^[%a_]+$") and known[name] == nil then known[name] = extent end
  local wanted = math.tointeger(tonumber(name)) or value_of(name, known)
  if wanted ~= extent then error(string.format("%s is %s, not %s", name, wanted, extent), 0) end
end

local function match(names, shape, known)
  local open
  for i, name in ipairs(names) do open = name:find("^%.%.%.") and i or open end
  if not open and #names ~= #shape then
    error(string.format("[%s] has another rank than %s", table.concat(names, ", "), #shape), 0)
  end
  local many = open and #shape - #names + 1 or 0
  for i, name in ipairs(names) do
    if name == "...'" then goto continue end
    if name == "..." then
      local some = table.concat(shape, ", ", i, i + many - 1)
      if known["..."] and known["..."] ~= some then
        error("... is " .. known["..."] .. ", then " .. some, 0)
      end
      known["..."] = some
    else bind(known, name, shape[open and i > open and i + many - 1 or i]) end
    ::continue::
  end
end

---What is wrong with named shapes for a sample; nil when nothing is.
---@param text string
---@param given any a shape, or a list of shapes
---@param results any
---@param made table? whose fields are names, too
---@return string?
function shapes.problem(text, given, results, made)
  local left, right = text:match("^(.-) → (.*)$")
  if not left then return "no arrow in " .. text end
  local known = setmetatable({}, {__index = function(_, name)
    local field = made and name ~= "..." and made[name]
    return type(field) == "table" and #field == 1 and field[1] or field
  end})
  local function listed(s) return type(s[1]) == "table" and s or {s} end
  for _, side in ipairs{{parse(left), listed(given)}, {parse(right), listed(results)}} do
    if #side[1] ~= #side[2] then
      return string.format("%s: %d shapes are %d", text, #side[1], #side[2])
    end
    for i, names in ipairs(side[1]) do
      local ok, problem = pcall(match, names, side[2][i], known)
      if not ok then return text .. ": " .. problem end
    end
  end
end

return shapes
