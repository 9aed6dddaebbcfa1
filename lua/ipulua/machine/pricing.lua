-- Pricing a program that isn't run: nothing of its size is made, and no random number is drawn.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local core = require "ipulua.core"
local devices = require "ipulua.config.devices"
local structure = require "ipulua.base.structure"

local pricing = {}

local estimating_meta = {__close = function(self) core.set_estimating(self.former) end}

---To be closed: until then programs are only outlined and variables made have no values.
function pricing.mode()
  return setmetatable({former = core.set_estimating(true)}, estimating_meta)
end

local drawn_meta <const> = {__close = function(self)
  core.set_random_place(self[1], self[2], self[3], true)
end}

---To be closed: until then, tracing draws no random numbers that later code would draw.
function pricing.draw_nothing() return setmetatable({core.random_place()}, drawn_meta) end

---Devices have 1, 2, 4 … IPUs; the IPU Model takes any number.
---@param ipus integer?
function pricing.check_ipus(ipus)
  if not ipus or devices.is_system_size(ipus) or config.running_on_ipu_model() then return end
  blame.error(string.format("estimate: there is no device of %d IPUs; devices have a power of two, "
    .. "at most 1024", ipus), "value")
end

---A shape whose extents are all known.
---@param shape any
---@param argument string whose it is
---@return integer[]
function pricing.known(shape, argument)
  if not structure.is_plain(shape) then
    blame.error(string.format("estimate: '%s': 'shape' must be a list, got %s", argument,
      args.describe(shape)), "type")
  end
  for _, extent in ipairs(shape) do
    if math.type(extent) == "integer" and extent < 0 then
      blame.error(string.format("estimate: '%s': every extent must be known, the batch's, too; got "
        .. "{%s}", argument,
        table.concat(shape, ", ")), "value")
    end
  end
  return shape
end

return pricing
