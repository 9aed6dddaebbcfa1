-- An op of your own, written in C. The script compiles it, calls it eagerly, then trains with it in
-- a compiled step.

local ipu = require "ipulua"
local steps = require "ipulua.script".arguments{{"steps", 200, least = 0},
  "short"} -- it is short as it stands

local here = arg[0]:match("^(.*)/") or "."
local library = os.tmpname()
local compile = string.format("cc -O2 -shared -fPIC -I'%s/../../src' -o '%s' '%s/custom_op.c' -lm",
  here, library, here)
assert(os.execute(compile), "the C compiler failed: " .. compile)
local snake = ipu.load_op_library(library).snake
os.remove(library)

print(snake(ipu.tensor{0, 0.5, 1}))

-- Fit y = snake(x, frequency 2) by a weight and a bias before the op.
local weight, bias = ipu.Variable(ipu.tensor(0.7)), ipu.Variable(ipu.tensor(0.3))
local x = ipu.linspace(-1, 1, 64)
local y = snake(x, {frequency = 2})
local step = ipu.func(function(input, target)
  local loss = ipu.reduce_mean((snake(input * weight + bias, {frequency = 2}) - target) ^ 2)
  local grads = ipu.gradients(loss, {weight, bias})
  weight:assign_sub(grads[1] * 0.1)
  bias:assign_sub(grads[2] * 0.1)
  return loss
end)
local first = step(x, y):item()
local last = first
for _ = 1, steps do last = step(x, y):item() end
print(string.format("loss %.4f -> %.6f, weight %.2f, bias %.2f", first, last, weight:item(),
  bias:item()))
