-- ipulua/core.so: the library from a stock lua5.4.
local command = require "spec.support.command"

local build = command.ipulua:match("^(.*)/[^/]*$")
local sanitized = command.ipulua:find("/build%-[at]san/") ~= nil
local run_if = sanitized and pending or it

local function stock(code)
  return command.run{"lua5.4", "-e", code,
    env = {LUA_PATH = "lua/?.lua;lua/?/init.lua;;", LUA_CPATH = build .. "/modules/?.so;;",
      IPULUA_PROGRESS = "off"}}
end

describe("require 'ipulua' from lua5.4", function()
  run_if("computes and trains", function()
    local r = stock[[
      local ipu = require "ipulua"
      ipu.random.set_seed(1)
      print(ipu.tensor{1, 2} + 1)
      local keras = ipu.keras
      local m = keras.Sequential{keras.layers.Dense{1}}
      m:compile{optimizer = keras.optimizers.SGD{0.1}, loss = "mse"}
      local x = ipu.ones{4, 1}
      local h = m:fit{x = x, y = x, epochs = 50, batch_size = 4, verbose = 0}
      print(h.history.loss[50] < 1e-2)
    ]]
    assert.equal("", r.err)
    assert.equal("[2. 3.]\ntrue\n", r.out)
  end)

  run_if("raises errors that name the line", function()
    local r = stock "local ipu = require 'ipulua'\nipu.matmul(ipu.ones{2}, ipu.ones{3})"
    assert.equal(1, r.status)
    assert.truthy(r.err:find("(command line):2: matmul", 1, true))
  end)
end)
