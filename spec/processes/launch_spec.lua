-- An instance's variables from its launcher, and its configuration from them.
local command = require "spec.support.command"
local processes = require "spec.support.processes"

-- The environment of instance 0 of so many under MPICH's mpirun, so many of them on this host.
local function launched(count, here)
  return {PMI_SIZE = tostring(count), PMI_RANK = "0", MPI_LOCALNRANKS = tostring(here or count),
    MPI_LOCALRANKID = "0"}
end

local function output(words)
  local pipe <close> = assert(io.popen(words))
  return pipe:read("a")
end

describe("row 175: an instance", function()
  local says_threads <const> =
    'require "ipulua" print(require "ipulua.core".engine_info().threads)'

  it("shares the processors of its host with those beside it", function()
    local processors <const> = math.tointeger(tonumber(output("getconf _NPROCESSORS_ONLN")))
    for _, here in ipairs{1, 2, 3, 1000} do
      local result = command.run{command.ipulua, "-e", says_threads, env = launched(1000, here)}
      local share <const> = math.max(1, processors // here)
      assert.equal(share .. "\n", result.out, result.err)
    end
  end)

  it("computes with those that it is bound to, and with the given number of threads", function()
    if not os.execute("command -v taskset > /dev/null 2>&1") then return pending("no taskset") end
    local first <const> = output("taskset -cp $$"):match(": (%d+)")
    local bound = command.run{"taskset", "-c", first, command.ipulua, "-e", says_threads,
      env = launched(2, 1)}
    assert.equal("1\n", bound.out, bound.err)
    local told = command.run{command.ipulua, "--threads", "3", "-e", says_threads,
      env = launched(2, 2)}
    assert.equal("3\n", told.out, told.err)
  end)

  it("is alone where its number is none of the instances'", function()
    local says <const> = 'local p = require "ipulua".popdist '
      .. "print(p.getNumInstances(), p.getInstanceIndex(), p.isPopdistEnvSet())"
    for rank, told in pairs{["2"] = "1\t0\tfalse\n", ["3"] = "1\t0\tfalse\n",
      ["1"] = "2\t1\ttrue\n"} do
      local env <const> = launched(2)
      env.PMI_RANK = rank
      local result = command.run{command.ipulua, "-e", says, env = env}
      assert.equal(told, result.out, result.err)
    end
    -- a job step of one task is a script alone in a batch job
    for tasks, told in pairs{["1"] = "1\t0\tfalse\n", ["2"] = "2\t0\ttrue\n"} do
      local result = command.run{command.ipulua, "-e", says,
        env = {SLURM_STEP_NUM_TASKS = tasks, SLURM_PROCID = "0"}}
      assert.equal(told, result.out, result.err)
    end
  end)

  it("refuses replicas that are not a multiple of the instances", function()
    local result = command.run{command.ipulua, "--replicas", "3", "-e",
      'require "ipulua".popdist.getNumLocalReplicas()', env = launched(2)}
    assert.equal(1, result.status)
    assert.truthy(result.err:find("--replicas 3 can't be shared among 2 instances", 1, true),
      result.err)
  end)

  it("has no prompt beside others", function()
    local result = command.run{command.ipulua, "-i", env = launched(2)}
    assert.equal(1, result.status)
    assert.truthy(result.err:find("the prompt is for one process alone", 1, true), result.err)
  end)

  it("has IPUs of its own, and an error if the machine has too few", function()
    -- 2 instances with 2 replicas of 2 IPUs each: groups of 4 among 16, numbered after the 16
    -- single IPUs and the 8 pairs
    for rank, id in pairs{[0] = 24, [1] = 25} do
      local env <const> = launched(2)
      env.PMI_RANK = tostring(rank)
      local result = command.run{command.ipulua, "--replicas", "4", "-e",
        'local p = require "ipulua".popdist print(p.getDeviceId(2), p.getReplicaIndexOffset())',
        env = env}
      assert.equal(id .. "\t" .. 2 * rank .. "\n", result.out, result.err)
    end
    local few = command.run{command.ipulua, "--replicas", "4", "-e",
      'require "ipulua".popdist.getDeviceId(16)', env = launched(2)}
    assert.equal(1, few.status)
    assert.truthy(few.err:find("--ipus 64", 1, true), few.err)
  end)

  it("lists the plug-ins that there are", function()
    local told = command.run{command.ipulua, "info"}.out:match("\nplug%-ins +([^\n]*)")
    for _, name in ipairs(processes.launchers()) do
      assert.truthy((" " .. told .. " "):find(" comm_" .. name .. " ", 1, true), told)
    end
  end)
end)

describe("row 176: IPUMultiWorkerStrategy", function()
  it("says that mpirun decides, where TF_CONFIG names another number of workers", function()
    local function warnings(workers)
      local result = processes.together{count = 2, script = processes.script [[
        ipu.IPUMultiWorkerStrategy()
        ipu.IPUMultiWorkerStrategy()
        say(ipu.MPIClusterResolver().num_workers)
      ]], env = {TF_CONFIG = '{"cluster": {"worker": [' .. workers
        .. ']}, "task": {"type": "worker", "index": 0}}'}}
      assert.equal(0, result.status, result.err)
      assert.equal("2\n", result.out)
      assert.equal(1, select(2, result.err:gsub("PopDistStrategy is preferred", "")), result.err)
      return select(2, result.err:gsub("TF_CONFIG names 3 workers, but there are 2", ""))
    end
    assert.truthy(warnings '"a:1", "b:1", "c:1"' >= 1)
    assert.equal(0, warnings '"a:1", "b:1"')
  end)
end)

describe("row 176: a training's words", function()
  it("are instance 0's alone: epochs, summaries and files of callbacks", function()
    local folder <const> = command.folder()
    local results = processes.with_stub{count = 2, args = {folder}, env = {IPULUA_PROGRESS = ""},
      script = processes.script [[
      local cfg = ipu.IPUConfig()
      popdist.set_ipu_config(cfg)
      cfg:configure_ipu_system()
      local _ <close> = ipu.PopDistStrategy():scope()
      local model = keras.Sequential{keras.layers.Dense{1, input_shape = {1}}}
      model:compile{loss = "mse", optimizer = "sgd"}
      model:fit{x = ipu.ones{4, 1} * me, y = ipu.ones{4, 1}, batch_size = 2, epochs = 2, verbose = 2,
        callbacks = {keras.callbacks.CSVLogger{arg[1] .. "/log.csv"}}}
      distributed.barrier()
    ]]}
    local words <const> = results[1].out .. results[1].err
    assert.equal(0, results[1].status, words)
    assert.truthy(words:find("Epoch 2/2", 1, true), words)
    assert.falsy((results[2].out .. results[2].err):find("Epoch", 1, true), results[2].out)
    local lines = select(2, command.read(folder .. "/log.csv"):gsub("\n", ""))
    assert.equal(3, lines) -- names, and two epochs
    command.remove(folder)
  end)
end)

-- Of digits that are drawn, where $IPULUA_DATA has no files of MNIST.
describe("row 176: a training of MNIST", function()
  local begin <const> = processes.in_scope(5)

  it("on 4 processes has the weights of one process with 4 replicas", function()
    local script <const> = processes.script(begin .. [[
      local images, labels = keras.datasets.mnist.load_data()
      local x = ipu.cast(ipu.slice(images, {0, 0, 0}, {1280, 28, 28}), "float32") / 255
      local y = ipu.cast(ipu.slice(labels, {0}, {1280}), "int32")
      local ds = strategy:experimental_distribute_dataset(
        ipu.data.from_tensor_slices{x, y}:shuffle(1280, {seed = 2}):batch(64,
          {drop_remainder = true}))
      local model = keras.Sequential{layers.Flatten{input_shape = {28, 28}},
        layers.Dense{128, activation = "relu"}, layers.Dropout(0.2), layers.Dense{10}}
      model:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
        optimizer = keras.optimizers.Adam(0.001), metrics = {"accuracy"}, steps_per_execution = 10}
      local h = model:fit(ds, {epochs = 2, verbose = 0}).history
      say(string.format("%a %.3f", h.loss[2], h.accuracy[2]))
      for _, w in ipairs(model:get_weights()) do
        for _, value in ipairs{ipu.reduce_sum(w):item(), ipu.reduce_max(w):item(),
          ipu.reduce_sum(w * w):item()} do say(string.format("%a", value)) end
      end
    ]])
    local one = processes.alone{script = script, replicas = 4}
    assert.equal(0, one.status, one.err)
    local four = processes.together{script = script, count = 4, replicas = 4}
    assert.equal(0, four.status, four.err)
    assert.equal(one.out, four.out)
    assert.truthy(tonumber(one.out:match("^%S+ (%S+)")) > 0.5, one.out)
  end)
end)
