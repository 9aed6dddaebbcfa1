-- Lua's random numbers in a traced function are drawn once, and are constants of the program. That
-- is seldom meant. So while a function is traced, math.random warns, once for each line.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local log = require "ipulua.base.log"

local frozen_numbers = {}

local told <const> = {}
local open <const> = setmetatable({}, {__mode = "k"}) -- traces; some are forgotten while open
local original, telling

local function tell()
  local where = blame.where() or "?"
  if told[where] then return end
  told[where] = true
  log.warn("%s: math.random is called while a function is traced: its number is a constant of the "
    .. "program; ipu.random draws another one in each call", where)
end

---A trace has begun.
---@param trace table
function frozen_numbers.begin(trace)
  open[trace] = true
  if telling and math.random == telling then return end
  local random <const> = math.random
  original = random
  telling = function(...)
    if core.trace_depth() > 0 then tell() end
    return random(...)
  end
  math.random = telling -- luacheck: ignore 122
end

---A trace has ended.
---@param trace table
function frozen_numbers.finish(trace)
  open[trace] = nil
  if next(open) == nil and math.random == telling then
    math.random = original -- luacheck: ignore 122
  end
end

return frozen_numbers
