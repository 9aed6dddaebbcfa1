-- Gradients from outside: central differences in float64.

local ipu = require "ipulua"

local differences = {}

---The largest |gradient - difference| / (1 + |gradient|) over x's elements; f gives a scalar tensor
---of a float64 tensor.
---@return number
function differences.worst(f, x)
  local value = ipu.func(f)
  local gradient = ipu.func(function(v) return ipu.gradients(f(v), {v})[1] end)(x):totable()
  local worst, h = 0, 1e-5
  for i = 1, x.size do
    local function at(step)
      local list = x:totable()
      list[i] = list[i] + step
      return value(ipu.tensor(list, {dtype = "float64"})):item()
    end
    worst = math.max(worst, math.abs((at(h) - at(-h)) / (2 * h) - gradient[i])
      / (1 + math.abs(gradient[i])))
  end
  return worst
end

---f's gradient, weighted and summed: for second derivatives.
function differences.derivative(f, weights)
  return function(x) return ipu.reduce_sum(ipu.gradients(f(x), {x})[1] * weights) end
end

return differences
