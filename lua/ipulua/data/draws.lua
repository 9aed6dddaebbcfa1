-- Random numbers that Lua functions of datasets draw. As in traced functions, they depend on the
-- seed, the pass and the element's number, not on earlier numbers.

local core = require "ipulua.core"

local draws = {}

-- Far from the numbers of counters that scripts make, since those are saved and restored by number.
local no_counter <const> = 1 << 61

-- Spreads numbers over 63 bits; the constants are splitmix64's.
local function mixed(n)
  n = (n ~ n >> 30) * 0xBF58476D1CE4E5B9
  n = (n ~ n >> 27) * 0x94D049BB133111EB
  return (n ~ n >> 31) & math.maxinteger
end

---A place among the random numbers that nothing else draws from.
---@return integer
function draws.place()
  local streams, counters, eager = core.random_place()
  core.set_random_place(streams + 1, counters, eager)
  return mixed(streams + 1)
end

---Another place that belongs to a place.
---@param place integer
---@return integer
function draws.beside(place) return mixed(place + 1) end

---f(...), which draws at a place what belongs to an element. An op with a seed of its own draws
---what it always does.
---@param place integer
---@param number integer of the element
---@param f function
---@return boolean drew whether it drew anything
---@return any ... results
function draws.at(place, number, f, ...)
  local streams, counters = core.random_place()
  local run, stay = core.set_run_number(number, true)
  local _, _, eager = core.random_place()
  core.set_random_place(place, no_counter, eager)
  local results = table.pack(pcall(f, ...))
  local now, _, drawn = core.random_place()
  core.set_random_place(streams, counters, drawn, true)
  core.set_run_number(run, stay)
  if not results[1] then error(results[2], 0) end
  return now ~= place, table.unpack(results, 2, results.n)
end

---A function that is called for elements: it draws what belongs to each.
---@param f function
---@return function
function draws.of_elements(f)
  local place = draws.place()
  return function(...)
    return select(2, draws.at(place, core.data.element_number(), f, ...))
  end
end

return draws
