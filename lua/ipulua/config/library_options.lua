-- The options of matrix products and convolutions that have an effect, as configurations and
-- pipeline stages give them: text to text. Others of Poplar are taken and have none.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local nearest = require "ipulua.nearest"

local library_options = {}

-- name → the words after "must be", and a test of a text
local known <const> = {
  partialsType = {"'float' or 'half'", function(text)
    return text == "float" or text == "half" or text == "float32" or text == "float16"
  end},
  availableMemoryProportion = {"a number above 0, at most 1", function(text)
    local x = tonumber(text)
    return x ~= nil and x > 0 and x <= 1
  end},
}

local names <const> = {"availableMemoryProportion", "partialsType"}

---An error for a value that an option can't have, and for a name that is nearly one of them.
---@param given table<string, string>
---@param origin string what they were given to, for messages
function library_options.check(given, origin)
  for name, text in pairs(given) do
    local row = known[name]
    if not row and nearest.find(name, names) then
      blame.error(string.format("%s: there is no option '%s'%s", origin, name,
        nearest.hint(name, names)), "value")
    end
    if row and not row[2](text) then
      blame.error(string.format("%s: '%s' must be %s, got %s", origin, name, row[1],
        args.describe(text)), "value")
    end
  end
end

---The share of a tile's memory that products may take while they run; 0: the default.
---@param given table<string, string>
---@return number
function library_options.proportion(given)
  return tonumber(given.availableMemoryProportion or 0)
end

---Whether sums are float16; nil where nothing says.
---@param given table<string, string>
---@return boolean?
function library_options.half_partials(given)
  local word = given.partialsType
  return word and (word == "half" or word == "float16")
end

return library_options
