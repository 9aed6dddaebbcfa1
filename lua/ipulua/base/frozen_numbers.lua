-- Lua's random numbers in a traced function: drawn once, they are constants of the program, which
-- is seldom meant. While a function is traced, math.random tells of it, once for each line.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local log = require "ipulua.base.log"

local frozen_numbers = {}

local told <const>, traces = {}, 0
local original, telling

local function tell()
  local where = blame.where() or "?"
  if told[where] then return end
  told[where] = true
  log.warn("%s: math.random is called while a function is traced: its number is a constant of the "
    .. "program; ipu.random draws another one in each call", where)
end

---A trace has begun.
function frozen_numbers.begin()
  traces = traces + 1
  if traces > 1 or math.random == telling then return end
  local random <const> = math.random
  original = random
  telling = function(...)
    if core.trace_depth() > 0 then tell() end
    return random(...)
  end
  math.random = telling -- luacheck: ignore 122
end

---A trace has ended.
function frozen_numbers.finish()
  traces = traces - 1
  if traces == 0 and math.random == telling then math.random = original end -- luacheck: ignore 122
end

return frozen_numbers
