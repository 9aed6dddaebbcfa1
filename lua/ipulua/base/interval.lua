-- The numbers that an argument may have, as rows of arguments write them: "[0, 1)", "(0, inf)",
-- "[1, inf)". Checks, their messages and the words of the references come from this one text.

local interval = {}

local cache = {}

---The interval of a text: low, high, and whether it holds them. An end that is infinite is none:
---infinity itself is in.
---@param text string
---@return table
function interval.parse(text)
  local found = cache[text]
  if found then return found end
  local left, low, high, right = text:match("^([%[%(])(%S+), (%S+)([%]%)])$")
  local bound <const> = {inf = math.huge, ["-inf"] = -math.huge}
  local first, last = bound[low] or math.tointeger(low) or tonumber(low),
    bound[high] or math.tointeger(high) or tonumber(high)
  if not (first and last) then error("interval: '" .. text .. "' is none") end
  found = {low = first, high = last, has_low = left == "[" or first == -math.huge,
    has_high = right == "]" or last == math.huge, text = text}
  cache[text] = found
  return found
end

local function holds(i, x)
  return (x > i.low or i.has_low and x == i.low) and (x < i.high or i.has_high and x == i.high)
end

-- The condition on x, as words that follow "must".
local function demand(i, x)
  if i.high == math.huge then
    if i.low == 0 then return i.has_low and "not be negative" or "be positive" end
    if i.low == 1 and i.has_low and math.type(x) == "integer" then return "be positive" end
    return (i.has_low and "be at least " or "be more than ") .. i.low
  end
  if i.low == -math.huge then
    if i.high == 0 then return i.has_high and "not be positive" or "be negative" end
    return (i.has_high and "be at most " or "be less than ") .. i.high
  end
  return "lie in " .. i.text
end

---Words for a number, or one of a list of numbers, outside of the interval. They complete "'name'
---…"; nil when all are inside.
---@param text string
---@param x any what is no number is not this function's business
---@return string?
function interval.refusal(text, x)
  if type(x) == "number" then
    local i = interval.parse(text)
    return not holds(i, x) and "must " .. demand(i, x) .. ", got " .. x or nil
  end
  for _, each in ipairs(type(x) == "table" and x or {}) do
    local words = interval.refusal(text, each)
    if words then return words end
  end
end

---The interval as a reference says it after a type: "≥ 1", "in [0, 1)".
---@param text string
---@return string
function interval.words(text)
  local i = interval.parse(text)
  if i.high == math.huge then return (i.has_low and "≥ " or "> ") .. i.low end
  if i.low == -math.huge then return (i.has_high and "≤ " or "< ") .. i.high end
  return "in " .. text
end

return interval
