-- "Did you mean …?": the known name with the smallest edit distance, if it is near enough to be a
-- slip. Otherwise it is a known name that the given one begins or ends, as schedule does
-- pipeline_schedule. Otherwise it is the one that the given name abbreviates, as lr does
-- learning_rate. Lua 5.1 syntax: ipulua.ffi asks it, too.

local nearest = {}

local longest = 80 -- a name beyond this is no slip of the pen; also bounds the work

---Edits that turn a into b: insert, delete, replace a character, or swap two neighbours.
---@param a string
---@param b string
---@param limit integer? give up beyond this distance
---@return integer distance limit + 1 when it is larger than the limit
function nearest.distance(a, b, limit)
  limit = limit or math.huge
  if math.abs(#a - #b) > limit then return limit + 1 end
  local before, row = {}, {} -- rows i - 2 and i - 1 of the table; position 0 is the empty prefix
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local current, smallest = {[0] = i}, i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local d = math.min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        d = math.min(d, before[j - 2] + 1)
      end
      current[j] = d
      if d < smallest then smallest = d end
    end
    if smallest > limit then return limit + 1 end
    before, row = row, current
  end
  return row[#b]
end

-- The first candidate of several words that begin with the letters of name.
local function abbreviated(name, candidates)
  local best
  for _, candidate in ipairs(candidates) do
    local initials = candidate:lower():gsub("(%a)%a*_?", "%1")
    if #name > 1 and initials == name and (not best or candidate < best) then best = candidate end
  end
  return best
end

-- Of two words equally near to name: the one whose first letter has the case of name's, else the
-- first in alphabetical order.
local function goes_before(a, b, name)
  local fits_a, fits_b = a:find("^%u") == name:find("^%u"), b:find("^%u") == name:find("^%u")
  if fits_a ~= fits_b then return fits_a end
  return a < b
end

---The candidate nearest to name, nil when none is near. Letter case decides only between equally
---near ones (accuracy, Accuracy), then alphabetical order, so that the answer does not depend on
---table order.
---@param name any
---@param candidates string[]
---@return string?
function nearest.find(name, candidates)
  if type(name) ~= "string" or #name == 0 or #name > longest then return nil end
  local wanted = name:lower()
  local limit = math.max(1, math.floor(#name / 3))
  local best, best_distance
  for _, candidate in ipairs(candidates) do
    local d = nearest.distance(wanted, candidate:lower(), limit)
    local known = candidate:lower()
    -- a beginning of it
    if #name >= 3 and known:sub(1, #name) == wanted then d = math.min(d, limit, 2)
    -- its last words
    elseif #name >= 4 and d > limit and known:sub(-#name - 1) == "_" .. wanted then d = limit end
    if d <= limit and d < #candidate and
      (not best or d < best_distance
        or (d == best_distance and goes_before(candidate, best, name))) then
      best, best_distance = candidate, d
    end
  end
  return best or abbreviated(wanted, candidates)
end

---"; did you mean 'activation'?" or "".
---@param name any
---@param candidates string[]
---@return string
function nearest.hint(name, candidates)
  local found = nearest.find(name, candidates)
  return found and ("; did you mean '" .. found .. "'?") or ""
end

return nearest
