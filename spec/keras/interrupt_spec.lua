local command = require "spec.support.command"

-- Ctrl-C while fit runs: the current step ends, the model and the History stay.
describe("Ctrl-C during fit", function()
  it("returns the History, and the script goes on", function()
    local r = command.interrupted{command.ipulua, "-e", [[
      local ipu = require "ipulua"
      local keras, layers = ipu.keras, ipu.keras.layers
      local x = ipu.random.normal({320, 8}, {seed = 1})
      local ds = ipu.data.from_tensor_slices{x, x}:batch(32, {drop_remainder = true}):repeat_n()
      local model = keras.Sequential{layers.Dense{8}}
      model:compile{optimizer = "sgd", loss = "mse", steps_per_execution = 1000}
      local started = false
      local Notice = keras.callbacks.Callback:extend("Notice")
      function Notice:on_train_batch_end()
        if started then return end
        started = true
        ]] .. command.ready .. [[
      end
      local history = model:fit(ds, {epochs = 1000000, steps_per_epoch = 10000, callbacks = {Notice()}})
      print(#history.history.loss >= 0 and "history", model:get_weights()[1].shape[1])]],
        env = {IPULUA_PROGRESS = "off"}}
    assert.equal(0, r.status, r.err)
    assert.equal("history\t8\n", r.out)
    assert.matches("interrupted", r.err)
  end)

  it(
    "behind its last step ends nothing that is over already; in evaluate it is an error", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    command.write(folder .. "/late.lua", [[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local function press() io.popen("kill -INT $PPID"):close() end -- os.execute would leave the signal alone
      local model = keras.Sequential{keras.layers.Dense{1}}
      model:compile{optimizer = "sgd", loss = "mse"}
      local history = model:fit(ipu.ones{8, 2}, ipu.ones{8, 1}, {verbose = 0, callbacks = keras.callbacks.LambdaCallback{
        on_epoch_end = press}})
      print(#history.history.loss)
      local Press = keras.callbacks.Callback:extend("Press")
      function Press:on_test_batch_begin() press() end
      model:evaluate(ipu.ones{64, 2}, ipu.ones{64, 1}, {verbose = 0, callbacks = Press()})
      print "never"
    ]])
    local got = command.run{command.ipulua, folder .. "/late.lua"}
    assert.equal("1\n", got.out, got.err)
    assert.equal(1, got.status)
    assert.matches("fit: interrupted when all its epochs were over", got.err)
    assert.matches("late.lua:%d+: interrupted!", got.err)
  end)

  it("is backed up at the step that it ended, and a later fit begins with the next", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    command.write(folder .. "/again.lua", [[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local x, y = ipu.random.normal({64, 3}, {seed = 1}), ipu.random.normal({64, 1}, {seed = 2})
      local function press() io.popen("kill -INT $PPID"):close() end
      local function trained(at, backed_up)
        keras.utils.set_random_seed(4)
        local steps, Steps = {}, keras.callbacks.Callback:extend "Steps"
        function Steps:on_train_batch_end(step)
          steps[#steps + 1] = step
          if step == at then press() end
        end
        local model = keras.Sequential{keras.layers.Dropout{0.5, input_shape = {3}}, keras.layers.Dense{1}}
        model:compile{optimizer = "adam", loss = "mse"}
        model:fit{x = x, y = y, batch_size = 4, verbose = 0, callbacks = {Steps(), backed_up
          and keras.callbacks.BackupAndRestore(arg[1]) or nil}}
        return string.format("%s: %a", table.concat(steps, " "), model:get_weights()[1][1]:item())
      end
      print(trained(nil, false))
      print((trained(5, true):match "^[^:]*"))
      print(trained(nil, true))
    ]])
    local got = command.run{command.ipulua, folder .. "/again.lua", folder .. "/backup"}
    local whole, weight = got.out:match "^([%d ]+): (%S+)\n"
    assert.equal("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", whole, got.err)
    assert.equal(whole .. ": " .. weight .. "\n0 1 2 3 4 5\n6 7 8 9 10 11 12 13 14 15: "
      .. weight .. "\n", got.out)
  end)
end)
