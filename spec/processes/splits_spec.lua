-- Random trainings and programs: what they print is the same in every split of their replicas. A
-- backup that one split made is resumed by another.
local command = require "spec.support.command"
local processes = require "spec.support.processes"
local splits = require "spec.support.all_splits"

local launcher <const> = os.getenv "LAUNCHER" or "stub"

describe("row 176: random trainings in every split", function()
  for seed = 1, 2 do
    it("print the same: " .. seed, function()
      for _, script in ipairs(splits.scripts) do
        assert.is_nil(splits.check(script, seed, seed % 2 == 0 and 2 or 4, {launcher}))
      end
    end)
    it("go on in another one: " .. seed, function()
      assert.is_nil(splits.check_resumed(seed, seed % 2 == 0 and 2 or 4, launcher))
    end)
  end
end)

describe("row 176: a backup of several instances", function()
  local begin <const> = [[
    local layers = keras.layers
    local cfg = ipu.IPUConfig()
    popdist.set_ipu_config(cfg)
    cfg:configure_ipu_system()
    local strategy = ipu.PopDistStrategy()
    local _ <close> = strategy:scope()
    local x = ipu.ones{16, 1}
    local ds = strategy:experimental_distribute_dataset(ipu.data.from_tensor_slices{x, x}:batch(4,
      {drop_remainder = true}))
    local function fit(callbacks)
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
      model:compile{loss = "mse", optimizer = "sgd", metrics = {"mae"}}
      callbacks[#callbacks + 1] = keras.callbacks.BackupAndRestore{arg[1],
        delete_checkpoint = false, save_freq = 3}
      local done, problem = pcall(model.fit, model, ds, {epochs = 4, verbose = 0,
        callbacks = callbacks})
      say(model.optimizer.iterations:item(), done and "" or problem:match("BackupAndRestore: .*"))
    end
  ]]
  local function run(text, folder, o)
    o.script, o.args = processes.script(begin .. text), {folder}
    local result = o.count == 1 and processes.alone(o) or processes.together(o)
    assert.equal(0, result.status, result.err)
    return result.out
  end

  -- Four steps an epoch. The last instance stops the training after the second one.
  it("knows that another instance's callback has stopped the training", function()
    local folder <const> = command.folder()
    finally(function() command.remove(folder) end)
    local out = run([[
      local Stops = keras.callbacks.Callback:extend("Stops")
      function Stops:on_epoch_end(epoch)
        if me == count - 1 and epoch == 1 then self.model.stop_training = true end
      end
      fit{Stops()}
      fit{Stops()}
    ]], folder .. "/backup", {count = 2})
    assert.equal("8\t\n8\t\n", out)
  end)

  -- Its metrics are sums of so many replicas.
  it("is refused by more or fewer replicas", function()
    local folder <const> = command.folder()
    finally(function() command.remove(folder) end)
    assert.equal("16\t\n", run("fit{}", folder .. "/backup", {count = 2}))
    for _, others in ipairs{1, 4} do
      assert.equal("0\tBackupAndRestore: the backup is of 2 replicas, these are " .. others .. "\n",
        run("fit{}", folder .. "/backup", {count = 1, replicas = others}))
    end
  end)
end)
