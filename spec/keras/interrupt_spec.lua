local command = require "spec.support.command"

-- Ctrl-C while fit runs: the current step ends, the model and the History stay.
describe("Ctrl-C during fit", function()
  it("returns the History, and the script goes on", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    command.write(folder .. "/train.lua", [[
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
        io.open("started", "w"):close()
      end
      local history = model:fit(ds, {epochs = 1000000, steps_per_epoch = 10000, callbacks = {Notice()}})
      io.open("ended", "w"):write(#history.history.loss >= 0 and "history" or "none"):close()
      print("after", model:get_weights()[1].shape[1])
    ]])
    local script = ([[cd '%s'; IPULUA_PROGRESS=off '%s' train.lua >out 2>err & pid=$!
      for i in $(seq 600); do [ -e started ] && break; sleep 0.05; done
      sleep 0.2; kill -INT $pid; wait $pid; echo $? >status]]):format(folder, command.ipulua)
    os.execute("bash -c " .. command.quote(script))
    assert.equal("0\n", command.read(folder .. "/status"), command.read(folder .. "/err"))
    assert.equal("after\t8\n", command.read(folder .. "/out"))
    assert.matches("interrupted", command.read(folder .. "/err"))
  end)

  it("behind its last step ends nothing that is over already; in evaluate it is an error", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    command.write(folder .. "/late.lua", [[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local clock = require "ipulua.core".clock
      local function press()
        os.execute("(sleep 0.1; kill -INT $PPID) &")
        local begun = clock()
        while clock() - begun < 0.3 do end
      end
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
end)
