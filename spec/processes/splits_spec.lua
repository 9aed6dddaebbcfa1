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
  local begin <const> = processes.in_scope() .. [[
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

-- Rows of instances 0 and 1, in batches of two: the last one may be smaller. Three are whole on
-- both. The weight is 1, and stays so.
describe("row 176: own data with a smaller last batch on one instance", function()
  for _, rows in ipairs{{7, 8}, {8, 7}, {7, 9}} do
    it("end on all after the same step: " .. table.concat(rows, " and "), function()
      local result = processes.together{count = 2, script = processes.script(processes.in_scope() .. [[
        local model = keras.Sequential{layers.Dense{1, use_bias = false,
          kernel_initializer = "ones", input_shape = {1}}}
        model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
        local n <const> = ({]] .. table.concat(rows, ",") .. [[})[me + 1]
        local x = ipu.reshape(ipu.arange(n, {dtype = "float32"}), {n, 1}) * (me + 1.0)
        local ds = ipu.data.from_tensor_slices{x, ipu.zeros{n, 1}}:batch(2)
        local losses = model:fit(ds, {epochs = 2, verbose = 0}).history.loss
        say(model.optimizer.iterations:item(), losses[1], losses[2])
        say(model:evaluate(ds, {verbose = 0}))
      ]])}
      -- the mean of the squares of 0 … 5, and of twice these
      local loss <const> = 55 * 5 / 12
      local numbers = {}
      for word in result.out:gmatch "%S+" do numbers[#numbers + 1] = tonumber(word) end
      local want <const> = {6, loss, loss, loss}
      assert.equal(#want, #numbers, result.out .. result.err)
      for i, each in ipairs(want) do assert.is_near(each, numbers[i], 1e-5, result.out) end
    end)
  end
end)

-- Instance 0's value, 5, is everybody's, and of a sum the first replica's alone. Two steps add 2 on
-- each of two replicas.
describe("row 176: a layer's variables that replicas have each for themselves", function()
  it("begin alike in every split", function()
    local script <const> = processes.script(processes.in_scope() .. [[
      local Own = layers.Layer:extend("Own")
      function Own:build()
        self.own = {}
        for i, how in ipairs{"SUM", "MEAN", "ONLY_FIRST_REPLICA"} do
          self.own[i] = ipu.Variable(5.0 + me, {synchronization = "ON_READ", aggregation = how,
            trainable = false})
        end
      end
      function Own:call(x)
        for _, v in ipairs(self.own) do v:assign_add(1) end
        return x
      end
      local own = Own()
      local model = keras.Sequential{layers.InputLayer{input_shape = {1}}, own, layers.Dense(1)}
      model:compile{loss = "mse", optimizer = "sgd"}
      local function show()
        local all = ipu.stack{own.own[1], own.own[2], own.own[3]}
        say(distributed.allreduce(all, "MEAN"))
      end
      show()
      model:fit(strategy:experimental_distribute_dataset(ipu.data.from_tensor_slices{ipu.ones{4, 1},
        ipu.ones{4, 1}}:batch(2, {drop_remainder = true})), {verbose = 0})
      show()
    ]])
    for count = 1, 2 do
      local given = {script = script, count = count, replicas = 2}
      local result = count == 1 and processes.alone(given) or processes.together(given)
      assert.equal("[5. 5. 5.]\n[9. 7. 7.]\n", result.out, result.err)
    end
  end)
end)
