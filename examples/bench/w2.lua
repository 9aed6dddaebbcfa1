-- W2: an MLP 784-256-128-64-32-10 on MNIST, batch 32, SGD with momentum. Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path

local steps = require "ipulua.script".arguments{{"steps", 5000}}
require "mlp"("w2", steps, ipu.train.MomentumOptimizer(0.01, 0.9))
