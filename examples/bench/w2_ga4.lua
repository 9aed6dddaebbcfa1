-- W2 with gradients accumulated over four micro-batches; times and losses are a micro-batch's.
-- Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path

local momentum = ipu.train.MomentumOptimizer(0.01, 0.9)
local steps = require "ipulua.script".arguments{{"steps", 5000}}
require "mlp"("w2_ga4", steps,
  ipu.optimizers.GradientAccumulationOptimizerV2(momentum, {num_mini_batches = 4}))
