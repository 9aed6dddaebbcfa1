-- InputSpec: a layer's conditions on its input.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local counted = require "ipulua.base.counted"

local layers = {}

local rows <const> = {
  {"dtype", "dtype", optional = true}, {"shape", "integers", optional = true},
  {"ndim", "integer", optional = true, range = "[0, inf)"},
  {"max_ndim", "integer", optional = true, range = "[0, inf)"},
  {"min_ndim", "integer", optional = true, range = "[0, inf)"},
  {"axes", "table", optional = true},
}

---The input that a layer expects. It is checked at each call if the layer or its class has it as
---`input_spec`, or a list of them for several inputs. axes: extents by axis, from 0 or, negative,
---from the end. shape: rank and extents at once, -1 for any. A plain table with the fields ndim,
---max_ndim, min_ndim, axes and dtype does as well.
---@class InputSpec: Class
local InputSpec = class.new("InputSpec")
layers.InputSpec = InputSpec
InputSpec.argument_rows = rows

function InputSpec:init(...)
  for name, value in pairs(args.check("InputSpec", rows, ...)) do self[name] = value end
  if self.shape then
    if self.ndim and self.ndim ~= #self.shape then
      blame.error(string.format("InputSpec: 'ndim' is %d, but 'shape' has %s", self.ndim,
        counted(#self.shape, "extent")), "value")
    end
    self.ndim = #self.shape
  end
  rawset(self, "_given_axes", self.axes)
  local axes = {}
  for i, extent in ipairs(self.shape or {}) do
    if extent >= 0 then axes[i - 1] = extent end
  end
  for axis, extent in pairs(self.axes or {}) do
    if math.type(axis) ~= "integer" or math.type(extent) ~= "integer" then
      blame.error(
        "InputSpec: 'axes' is a table from numbers of axes to extents, such as {[-1] = 3}", "type")
    end
    axes[axis] = extent
  end
  self.axes = axes
end

local function shape_text(shape)
  local extents = {}
  for i, extent in ipairs(shape) do extents[i] = extent < 0 and "None" or tostring(extent) end
  return "(" .. table.concat(extents, ", ") .. (#extents == 1 and ",)" or ")")
end

local function axes_text(axes)
  local list, parts = {}, {}
  for axis in pairs(axes) do list[#list + 1] = axis end
  table.sort(list)
  for i, axis in ipairs(list) do parts[i] = axis .. ": " .. axes[axis] end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- As Keras prints it: the given fields, in this order.
function InputSpec:__tostring()
  local shown = {}
  local function add(name, value, text)
    if value ~= nil then shown[#shown + 1] = name .. "=" .. (text or tostring)(value) end
  end
  add("dtype", self.dtype)
  add("shape", self.shape, shape_text)
  for _, name in ipairs{"ndim", "max_ndim", "min_ndim"} do add(name, self[name]) end
  add("axes", self._given_axes, axes_text)
  return "InputSpec(" .. table.concat(shown, ", ") .. ")"
end

about.say("layers", {
  {"InputSpec", section = "Core", sample = "InputSpec{shape = {-1, 3}}",
    wrong = "InputSpec{shape = {-1, 3}, ndim = 3}", shapes = "any"},
}, layers)

return layers
