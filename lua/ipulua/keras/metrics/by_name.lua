-- Metrics take a batch's labels, predictions or values by position or by name.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"

-- The arguments of a class's update_state before the weights: {"y_true", "y_pred"}, {"values"}.
local function names_of(f)
  local names = {}
  for i = 2, debug.getinfo(f, "u").nparams - 1 do names[i - 1] = debug.getlocal(f, i) end
  return names
end

---An update_state that also takes its arguments by name, and says which one is missing.
---@param f function of a class: (self, values…, sample_weight)
---@return function
return function(f)
  local names <const> = names_of(f)
  local count <const> = #names
  return function(self, ...)
    local given = {...}
    local only = given[2] == nil and args.is_plain(given[1]) and given[1]
    if only and (only[names[1]] ~= nil or only[names[count]] ~= nil) then
      given = {[count + 1] = only.sample_weight}
      for i, name in ipairs(names) do given[i] = only[name] end
    end
    for i, name in ipairs(names) do
      if given[i] == nil then
        blame.error(string.format("%s: update_state is called with %s, got no %s",
          class.of(self).__name, table.concat(names, " and "), name), "type")
      end
    end
    return f(self, table.unpack(given, 1, count + 1))
  end
end
