-- The engine options that have an effect, of IPULUA_ENGINE_OPTIONS and compilation_poplar_options:
-- their values, and slips in their names. The many others of Poplar are accepted and ignored.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local flags = require "ipulua.config.flags"
local log = require "ipulua.base.log"
local nearest = require "ipulua.nearest"

local engine_options = {}

-- name → kind, as for run flags; `least` bounds an integer.
local known <const> = {
  ["autoReport.all"] = {"bool"}, ["autoReport.directory"] = {"text"},
  ["autoReport.outputGraphProfile"] = {"bool"},
  ["autoReport.outputExecutionProfile"] = {"bool"},
  ["autoReport.executionProfileProgramRunCount"] = {"int", least = 1},
  ["debug.allowOutOfMemory"] = {"bool"}, ["debug.floatPointOpException"] = {"bool"},
}

---The options that have an effect.
---@return string[]
function engine_options.names()
  local list = {}
  for name in pairs(known) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local told = {} -- names whose slip was reported

-- A slip in one of those would leave the option without effect, unnoticed.
local function tell_slip(name)
  if known[name] or told[name] then return end
  told[name] = true
  for candidate in pairs(known) do
    if nearest.distance(name:lower(), candidate:lower(), 2) <= 2 then
      log.warn("the engine option '%s' has no effect; did you mean '%s'?", name, candidate)
    end
  end
end

-- The value, or nil and the expected form.
local function read(option, given)
  if type(given) == "table" then return nil, "a string" end
  local value, expected = flags.readers[option[1]](tostring(given))
  if value ~= nil and option.least and value < option.least then
    return nil, "at least " .. option.least
  end
  return value, expected
end

local function check_value(origin, name, given)
  local value, expected = read(known[name], given)
  if value ~= nil then return end
  blame.error(string.format("%s: '%s' must be %s, got %s", origin, name, expected,
    args.describe(given)), "value")
end

---An error for a value that its option can't have; a warning for a misspelt name.
---@param options table<string, any>
---@param origin string where they were given, for messages
function engine_options.check(options, origin)
  for name, given in pairs(options) do
    tell_slip(name)
    if known[name] then check_value(origin, name, given) end
  end
end

---The value of an option, nil where it isn't given.
---@param options table<string, any> checked ones
---@param name string
---@return any
function engine_options.value(options, name)
  if options[name] == nil then return nil end
  return (read(known[name], options[name]))
end

return engine_options
