-- Names that were given. A name stays taken when its object is gone, so that later names don't
-- depend on garbage collection. A script that makes objects for ever mostly gives names that differ
-- in one number. Each of these costs a bit at most.

local used_names = {}

local word_bits <const> = 64
local most_digits <const> = 15

-- A name with a zero byte instead of its largest number, and that number plus one; a name without
-- numbers as it is, and 0. The result is another one for each name.
local function taken_apart(name)
  local largest
  if name:find("\0", 1, true) then return name, 0 end
  for digits in name:gmatch("%d+") do
    local number = #digits <= most_digits and math.tointeger(tonumber(digits))
    if number and tostring(number) == digits then largest = math.max(largest or 0, number) end
  end
  if not largest then return name, 0 end
  local digits = tostring(largest)
  return (name:gsub("%d+", {[digits] = "\0"})), largest + 1
end

-- A set of numbers as words of bits. Full words, from the `low`th to before the `high`th, are not
-- kept.
local function holds(set, number)
  local at <const> = number // word_bits
  if not set then return false end
  if set.low <= at and at < set.high then return true end
  return (set[at] or 0) & 1 << number % word_bits ~= 0
end

local function add(set, number)
  local at <const> = number // word_bits
  set[at] = (set[at] or 0) | 1 << number % word_bits
  if set.low == set.high and set[at] == -1 then set.low, set.high = at, at end
  while set[set.high] == -1 do
    set[set.high] = nil
    set.high = set.high + 1
  end
end

---An empty set: its `unique(name)` gives name, or the first of name_1, name_2, … that was not given
---before.
---@return {unique: fun(name: string): string}
function used_names.new()
  local wanted = {}   -- name without its number → a set of numbers
  local suffixes = {} -- name asked for again → the number to try next: all before are given

  local function is_given(name)
    local rest, number = taken_apart(name)
    if holds(wanted[rest], number) then return true end
    local first, digits = name:match("^(.*)_([1-9]%d*)$")
    if not first or not suffixes[first] or #digits > most_digits then return false end
    return tonumber(digits) < suffixes[first]
  end

  local function unique(name)
    if not is_given(name) then
      local rest, number = taken_apart(name)
      wanted[rest] = wanted[rest] or {low = 0, high = 0}
      add(wanted[rest], number)
      return name
    end
    local suffix = suffixes[name] or 1
    while is_given(name .. "_" .. suffix) do suffix = suffix + 1 end
    suffixes[name] = suffix + 1
    return name .. "_" .. suffix
  end

  return {unique = unique}
end

return used_names
