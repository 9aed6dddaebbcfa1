-- One training on several instances, on the stub: the same bits for every split of its replicas.
local command = require "spec.support.command"
local processes = require "spec.support.processes"

local splits <const> = {{1, 4}, {2, 2}, {4, 1}} -- instances, replicas of each

-- The output of instance 0 in every split of so many replicas. All must print the same.
local function in_every_split(text, o)
  local script <const> = processes.script(text)
  local first
  for _, split in ipairs(splits) do
    local given = {script = script, count = split[1], replicas = 4, threads = o and o.threads}
    local result = split[1] == 1 and processes.alone(given) or processes.together(given)
    assert.equal(0, result.status, result.err)
    first = first or result.out
    assert.equal(first, result.out, split[1] .. " instances\n" .. result.err)
  end
  return first
end

local begin <const> = processes.in_scope(7)

local function run(text, o)
  o = o or {}
  o.script, o.count = processes.script(text), o.count or 2
  return processes.together(o)
end

describe("row 176: PopDistStrategy", function()
  it("trains a network to the same bits, however its replicas are spread", function()
    local out = in_every_split(begin .. [[
      local x = ipu.random.normal({64, 5}, {seed = 1})
      local y = ipu.cast(ipu.floor(ipu.random.uniform({64}, {seed = 2}) * 3), "int32")
      local function batches()
        return strategy:experimental_distribute_dataset(
          ipu.data.from_tensor_slices{x, y}:shuffle(64, {seed = 3}):batch(16,
            {drop_remainder = true}))
      end
      local model = keras.Sequential{layers.Dense{9, activation = "relu", input_shape = {5}},
        layers.BatchNormalization(), layers.Dropout(0.25), layers.Dense{3}}
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2}
      model:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
        optimizer = keras.optimizers.Adam(0.01), metrics = {"accuracy"}, steps_per_execution = 4}
      local history = model:fit(batches(), {epochs = 3, verbose = 0}).history
      for epoch = 1, 3 do say(string.format("%a %a", history.loss[epoch], history.accuracy[epoch])) end
      for _, w in ipairs(model:get_weights()) do say(string.format("%a", ipu.reduce_sum(w):item())) end
      local all = distributed.allgather(ipu.reshape(model:get_weights()[1], {-1}))
      say(ipu.reduce_all(ipu.equal(all, ipu.expand_dims(all[1], 0))):item())
      say(string.format("%a", model:evaluate(batches(), {verbose = 0})[1]))
    ]])
    assert.truthy(out:find("\ntrue\n", 1, true), out)
  end)
  -- A sum begins as the first replica's value and zeros; all replicas add 1, or their number.
  it("combines what replicas have of their own in every split", function()
    local out = in_every_split(begin .. [[
      local v = {}
      for _, how in ipairs{"SUM", "MEAN", "ONLY_FIRST_REPLICA"} do
        v[#v + 1] = ipu.Variable(5.0, {synchronization = "ON_READ", aggregation = how,
          trainable = false})
      end
      local step = ipu.func(function()
        for _, each in ipairs(v) do each:assign_add(ipu.cast(ipu.replication_index(), "float32")) end
      end)
      for _ = 1, 3 do
        say(v[1]:item(), v[2]:item(), v[3]:item())
        strategy:run(step)
      end
    ]])
    assert.equal("5.0\t5.0\t5.0\n11.0\t6.5\t5.0\n17.0\t8.0\t5.0\n", out)
  end)
  it("is one process of as many replicas under IPUStrategy with CrossReplicaOptimizer", function()
    local text = [[
      local layers = keras.layers
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus = 4
      cfg:configure_ipu_system()
      keras.utils.set_random_seed(7)
      local ours = arg[1] == "popdist"
      local strategy = ours and ipu.PopDistStrategy() or ipu.IPUStrategy()
      local _ <close> = strategy:scope()
      local x = ipu.random.normal({32, 5}, {seed = 1})
      local model = keras.Sequential{layers.Dense{9, activation = "tanh", input_shape = {5}},
        layers.Dropout(0.5), layers.Dense{1}}
      local optimizer = keras.optimizers.SGD{0.1, momentum = 0.9}
      model:compile{loss = "mse", optimizer = ours and optimizer
        or ipu.keras.optimizers.CrossReplicaOptimizer(optimizer)}
      model:fit{x = x, y = ipu.reduce_sum(x, {axis = 1, keepdims = true}), batch_size = 4,
        epochs = 3, shuffle = false, verbose = 0}
      for _, w in ipairs(model:get_weights()) do print(string.format("%a", ipu.reduce_sum(w):item())) end
    ]]
    local script <const> = processes.script(text)
    local ours = processes.alone{script = script, args = {"popdist"}}
    local theirs = processes.alone{script = script, args = {"ipu"}}
    assert.equal(0, ours.status, ours.err)
    assert.equal(theirs.out, ours.out)
  end)
  it("adds gradients in loops of a script's own, and takes the mean in fit", function()
    local out = in_every_split(begin .. [[
      local w = ipu.Variable(2.0)
      local optimizer = keras.optimizers.SGD(0.5)
      local step = ipu.func(function(x)
        local tape = ipu.GradientTape()
        local loss = tape(function() return w * x end)
        optimizer:apply_gradients{{tape:gradient(loss, w), w}}
        return strategy:reduce("SUM", loss)
      end)
      say(strategy:run(step, {ipu.tensor(1.0)}), w)
    ]])
    assert.equal("8.0\t0.0\n", out) -- 4 times 2 * 1; 2 - 0.5 * 4
  end)
  it("refuses wrappers that reduce once more, unless it reduces nothing", function()
    local result = run(begin .. [[
      local function step(team)
        local w = ipu.Variable(2.0)
        local optimizer = keras.optimizers.CrossReplicaOptimizer(keras.optimizers.SGD(1.0))
        return pcall(team.run, team, ipu.func(function(x)
          optimizer:apply_gradients{{x, w}}
          return team:reduce("SUM", x)
        end), {ipu.tensor(me + 1.0)}), w
      end
      local ok, w = step(strategy)
      say(ok)
      ok, w = step(ipu.PopDistStrategy{add_ipu_cross_replica_reductions = false})
      say(ok, w:item())
    ]])
    assert.equal("false\ntrue\t0.5\n", result.out, result.err) -- 2 - mean of 1 and 2
  end)
  it("tells weights that one instance alone has assigned", function()
    local result = run(begin .. [[
      local w = ipu.Variable(ipu.ones{3}, {name = "apples"})
      local step = ipu.func(function() w:assign_sub(ipu.cross_replica_mean(w * 0.5)) end)
      strategy:run(step)
      w:assign(ipu.ones{3} * 2)
      strategy:run(step)
      if me == 1 then w:assign(ipu.zeros{3}) end
      say(pcall(strategy.run, strategy, step))
      w:assign(ipu.zeros{3})
      strategy:run(step)
      say("went on", w)
    ]])
    assert.truthy(result.out:find("variable 'apples' differs between instances 0 and 1", 1,
      true),
      result.out .. result.err)
    assert.truthy(result.out:find("went on\t%[0. 0. 0.%]"), result.out)
  end)
  it("meets nobody in programs without collectives, nor where values are read", function()
    local result = run(begin .. [[
      local model = keras.Sequential{layers.Dense{1, input_shape = {2}}}
      local before = distributed.statistics().meetings
      if me == 1 then
        strategy:run(ipu.func(function(x) return x * 2 end), {ipu.ones{2}})
        model:predict(ipu.ones{4, 2})
        io.stderr:write(tostring(model:get_weights()[1]), "\n")
        model:save_weights(os.tmpname() .. ".safetensors")
      end
      say(distributed.statistics().meetings == before)
      distributed.barrier()
    ]])
    assert.equal("true\n", result.out, result.err)
    assert.equal(0, result.status, result.err)
  end)
  it("refuses another number of local replicas than the command says", function()
    local result = run([[
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus = 2
      cfg:configure_ipu_system()
      local strategy = ipu.PopDistStrategy()
      strategy:run(ipu.func(function() return ipu.cross_replica_sum(ipu.tensor(1.0)) end))
    ]], {replicas = 2})
    assert.equal(1, result.status)
    assert.truthy(result.err:find("this program has 2 replicas in each instance, but "
      .. "--replicas "
      .. "2 with 2 instances says 1", 1, true), result.err)
  end)
  it("trains on the least of unequal data, and says so", function()
    local result = run(begin .. [[
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
      model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
      local n = me == 0 and 5 or 7
      local function data() return ipu.data.from_tensor_slices{ipu.ones{n, 1}, ipu.ones{n, 1}} end
      model:fit(data():batch(1, {drop_remainder = true}), {epochs = 2, verbose = 0})
      say(model.optimizer.iterations:read_value())
      model:fit(data():filter(function(x) return ipu.reduce_all(x:greater(0)) end):batch(1),
        {epochs = 1, verbose = 0})
      say(model.optimizer.iterations:read_value())
    ]])
    assert.equal("10\n15\n", result.out, result.err)
    assert.truthy(result.err:find("5 on instance 0, 7 on instance 1", 1, true), result.err)
    assert.truthy(result.err:find("the data of instance 0 have ended", 1, true), result.err)
  end)
  it("is refused on all where one has no data, with its words", function()
    local result = run(begin .. [[
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
      model:compile{loss = "mse", optimizer = "sgd"}
      local ds = ipu.data.from_tensor_slices{ipu.ones{4, 1}, ipu.ones{4, 1}}:take(4 - 4 * me):batch(1)
      say(select(2, pcall(model.fit, model, ds, {verbose = 0})))
      io.stderr:write("on ", me, ": ", select(2, pcall(model.fit, model, ds, {verbose = 0})), "\n")
    ]])
    assert.truthy(result.out:find("fit: instance 1: the dataset has no batches", 1, true),
      result.out)
    assert.truthy(result.err:find("on 1: [^\n]*fit: the dataset has no batches"), result.err)
    assert.equal(0, result.status, result.err)
  end)
  it("is told on all of an error in the data of one, and goes on where that is caught", function()
    local result = run(begin .. [[
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
      model:compile{loss = "mse", optimizer = "sgd"}
      local function rows(wrong)
        return ipu.data.from_generator(function()
          local i = 0
          return function()
            i = i + 1
            if wrong and me == 1 and i == 5 then error("no more plums") end
            if i <= 8 then return ipu.ones{1} * (i + me), ipu.ones{1} end
          end
        end, {"float32", "float32"}, {{1}, {1}}):batch(2, {drop_remainder = true})
      end
      for _, verb in ipairs{"fit", "evaluate"} do
        local _, problem = pcall(model[verb], model, rows(true), {verbose = 0})
        io.stderr:write("on ", me, ": ", problem, "\n")
      end
      say(model.optimizer.iterations:item(), #model:fit(rows(), {verbose = 0}).history.loss)
      say(model.optimizer.iterations:item())
    ]])
    assert.equal("2\t1\n6\n", result.out, result.err)
    for _, verb in ipairs{"fit", "evaluate"} do
      assert.truthy(result.err:find("on 0: [^\n]*" .. verb .. ": instance 1: [^\n]*plums"),
        result.err)
    end
    assert.truthy(result.err:find("on 1: [^\n]*no more plums"), result.err)
    assert.equal(0, result.status, result.err)
  end)
  -- 1, 2, 3 and 4 on the replicas, in a layer that is called while a model is made or traced.
  it("has metrics of layers for the data of all replicas", function()
    local out = in_every_split(begin .. [[
      local Tells = layers.Layer:extend("Tells")
      function Tells:call(x)
        self:add_metric(ipu.reduce_max(x), {name = "largest"})
        return x
      end
      local ds = strategy:experimental_distribute_dataset(
        ipu.data.from_tensor_slices{ipu.tensor{{1.0}, {2.0}, {3.0}, {4.0}}, ipu.ones{4, 1}}:batch(4,
          {drop_remainder = true}))
      for _, first in ipairs{layers.InputLayer{input_shape = {1}}, layers.Activation("linear")} do
        local model = keras.Sequential{first, Tells(), layers.Dense{1}}
        model:compile{loss = "mse", optimizer = "sgd"}
        say(model:fit(ds, {verbose = 0}).history.largest[1])
        say(model:evaluate(ds, {verbose = 0, return_dict = true}).largest)
      end
    ]])
    assert.equal(("2.5\n"):rep(4), out)
  end)
  it("stops on all after the step in which one was asked to end while it waited for a command",
    function()
      local result = run(begin .. [[
        local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
        model:compile{loss = "mse", optimizer = "sgd"}
        local ds = ipu.data.from_tensor_slices{ipu.ones{40, 1} * me, ipu.ones{40, 1}}:batch(1)
        local own <const> = math.tointeger(assert(io.open("/proc/self/stat")):read("n"))
        local ends = keras.callbacks.LambdaCallback{on_batch_end = function(batch)
          if me == 1 and batch == 4 then os.execute("kill -TERM " .. own) end
        end}
        model:fit(ds, {verbose = 0, callbacks = {ends}})
        io.stderr:write("steps of ", me, ": ", model.optimizer.iterations:item(), "\n")
      ]])
      assert.truthy(result.err:find("steps of 0: 5\n", 1, true), result.err)
      assert.truthy(result.err:find("steps of 1: 5\n", 1, true), result.err)
    end)
  it("has as many replicas as there are in all, from Graphcore's names", function()
    local result = run([[
      local cfg = ipu.IPUConfig()
      popdist.set_ipu_config(cfg, {ipus_per_replica = 2})
      cfg:configure_ipu_system()
      say(popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset(), popdist.getDeviceId(),
        popdist.getNumIpusPerReplica(), ipu.get_ipu_config()[1].ipus)
      say(ipu.PopDistStrategy().num_replicas_in_sync, ipu.IPUMultiWorkerStrategy().num_replicas_in_sync)
      local resolver = ipu.MPIClusterResolver()
      say(resolver.task_type, resolver.num_workers, #resolver.hosts)
      say(pcall(ipu.IPUMultiWorkerStrategy, {variables_on_host = true}))
      say(select(2, pcall(popdist.getDeviceId, 16)):match("%-%-ipus %d+"))
      ipu.PopDistStrategy():update_ipu_config(cfg)
      say(cfg.experimental.multi_replica_distribution.process_count)
    ]], {replicas = 4})
    assert.truthy(result.out:find("^4\t0\t24\t2\t4\n4\t4\nworker\t2\t2\nfalse\t.-not "
      .. "implemented.-"
      .. "\n%-%-ipus 64\n2\n$"), result.out .. result.err)
  end)
  it("warns once where all are fed the same", function()
    local function warnings(data)
      local result = run(begin .. [[
        local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
        model:compile{loss = "mse", optimizer = "sgd"}
        for _ = 1, 2 do model:fit(]] .. data .. [[, {epochs = 2, verbose = 0}) end
      ]])
      assert.equal(0, result.status, result.err)
      return select(2, (result.err):gsub("every instance is fed the same",
        ""))
    end
    assert.equal(1, warnings "ipu.data.from_tensors{ipu.ones{2, 1}, ipu.ones{2, 1}}")
    assert.equal(0, warnings "ipu.data.from_tensors{ipu.ones{2, 1} * me, ipu.ones{2, 1}}")
    assert.equal(0, warnings [[strategy:experimental_distribute_dataset(
      ipu.data.from_tensors{ipu.ones{2, 1}, ipu.ones{2, 1}})]])
  end)
  it("refuses features that several instances lack, and names another way", function()
    local result = run(begin .. [[
      say(select(2, pcall(ipu.create_host_embedding, "e", {8, 2}, "float32")):match("layers.Embedding"))
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2,
        offload_weight_update_variables = true, replicated_optimizer_state_sharding = true}
      model:compile{loss = "mse", optimizer = keras.optimizers.Adam(0.1), steps_per_execution = 2}
      say(select(2, pcall(model.fit, model, {x = ipu.ones{4, 1}, y = ipu.ones{4, 1}, batch_size = 1,
        verbose = 0})):match("several instances"))
    ]])
    assert.equal("layers.Embedding\nseveral instances\n", result.out, result.err)
  end)
  it("computes with the kernels of the least of its hosts, and says so", function()
    local script <const> = processes.script [[
      popdist.init()
      say(require "ipulua.core".engine_info().kernels)
    ]]
    local results = processes.with_stub{script = script, count = 2,
      env_of = {{}, {IPULUA_CPU = "base"}}}
    assert.equal("base\n", results[1].out, results[1].err)
    local own = processes.alone{script = script}
    local says = results[1].err:find("all use kernels of base", 1, true) ~= nil
    assert.equal(own.out ~= "base\n", says, results[1].err)
  end)
  it("multiplies matrices with one library on all its hosts, or with none, and says so", function()
    local script <const> = processes.script [[
      popdist.init()
      say(require "ipulua.core".engine_info().products)
      local x = ipu.random.normal({192, 192}, {seed = 1})
      local all = distributed.allgather(ipu.matmul(x, x))
      say(ipu.reduce_all(ipu.equal(all[1], all[2])):item())
    ]]
    local library = processes.alone{script = processes.script [[
      say(require "ipulua.core".engine_info().products)
    ]], env = {IPULUA_BLAS = "openblas"}}
    if library.status ~= 0 then return pending("OpenBLAS is not installed") end
    local function run_with(first, second)
      local results = processes.with_stub{script = script, count = 2,
        env_of = {{IPULUA_BLAS = first}, {IPULUA_BLAS = second}}}
      assert.equal(0, results[1].status, results[1].err)
      return results[1]
    end
    local mixed <const> = run_with("openblas", "own")
    assert.equal("own kernels\ntrue\n", mixed.out)
    assert.truthy(mixed.err:find("matrix products are computed by OpenBLAS ", 1, true), mixed.err)
    assert.truthy(mixed.err:find("by own kernels on instance 1", 1, true), mixed.err)
    local alike <const> = run_with("openblas", "openblas")
    assert.equal(library.out .. "true\n", alike.out)
    assert.falsy(alike.err:find("matrix products", 1, true), alike.err)
    -- the least class of kernels computes with what was asked for
    local results = processes.with_stub{script = script, count = 2, env = {IPULUA_BLAS = "own"},
      env_of = {{}, {IPULUA_CPU = "base"}}}
    assert.equal("own kernels\ntrue\n", results[1].out, results[1].err)
  end)
  it("is priced as one program on the IPUs of all, the same with a launcher and without", function()
    local script <const> = processes.script(begin .. [[
      local model = keras.Sequential{layers.Dense{8, input_shape = {4}}}
      model:compile{loss = "mse", optimizer = "sgd"}
      model:fit{x = ipu.ones{8, 4}, y = ipu.ones{8, 8}, batch_size = 8, verbose = 0}
      if me == 0 then
        local one, four = ipu.estimate(model, {batch_size = 8, instances = 1}),
          ipu.estimate(model, {batch_size = 8, instances = 128})
        io.stderr:write(string.format("%d %d %d %s\n", one.replicas, four.replicas, four.instances,
          four.seconds > one.seconds))
      end
    ]])
    local priced = processes.alone{script = script, options = {"--estimate", "--instances", "2"}}
    assert.equal(0, priced.status, priced.err)
    assert.truthy(priced.out:find("2 IPUs, 2 replicas of 1", 1, true), priced.out)
    assert.truthy(priced.err:find("1 128 128 true", 1, true), priced.err)
    local launched = processes.with_stub{script = script, count = 2, options = {"--estimate"}}
    assert.equal(priced.out, launched[1].out)
    assert.equal("", launched[2].out)
  end)
  it("has one profile, with what its meetings have cost", function()
    local folder <const> = command.folder()
    local result = run(begin .. [[
      local model = keras.Sequential{layers.Dense{8, input_shape = {4}}}
      model:compile{loss = "mse", optimizer = "sgd", steps_per_execution = 2}
      model:fit{x = ipu.ones{8, 4} * me, y = ipu.ones{8, 8}, batch_size = 2, epochs = 2, verbose = 0}
    ]], {options = {"--profile", folder}})
    assert.equal(0, result.status, result.err)
    local pipe <close> = assert(io.popen("ls " .. folder))
    local names = pipe:read("a")
    assert.equal(1, select(2, names:gsub("\n", "")), names)
    local json = require "ipulua.base.json"
    local profile = json.decode(command.read(folder .. "/" .. names:match("%S+")
      .. "/profile.json"))
    assert.equal(2, profile.target.instances)
    assert.equal(2, profile.target.replicas)
    assert.equal(2, profile.session.instances)
    local means, bytes, of_other = 0, 0, 0
    for _, each in ipairs(profile.session.meetings) do
      if each.op == "cross_replica_mean" then means = means + each.count end
      bytes = bytes + each.bytes
      assert.is_true(each.waited <= each.seconds)
      assert.truthy(each.line:find(".lua:", 1, true))
      assert.equal(2, #each.instances)
      local least, most = math.huge, 0
      for _, one in ipairs(each.instances) do
        assert.is_true(one.waited <= one.seconds)
        least, most = math.min(least, one.waited), math.max(most, one.waited)
      end
      assert.equal(each.bytes, each.instances[1].bytes)
      assert.equal(least, each.waited_least)
      assert.equal(most, each.waited_most)
      of_other = of_other + each.instances[2].bytes
    end
    -- told with each meeting: all but what the newest at each place has moved
    assert.is_true(of_other < bytes and of_other >= bytes * 7 // 16, of_other .. " of " .. bytes)
    if os.execute("command -v node > /dev/null 2>&1") then
      local page = command.run{"node", "spec/support/page.js", folder .. "/" .. names:match("%S+")}
      assert.equal(0, page.status, page.err)
      local shown = json.decode(page.out).first
      assert.truthy(shown["meetings-note"]:find("2 instances", 1, true), page.out)
      local collectives = {}
      for i, row in ipairs(shown.meetings) do collectives[i] = row[2] end
      assert.truthy(table.concat(collectives, "\n"):find("cross_replica_mean float32[4, 8]", 1,
        true))
    end
    assert.equal(2 * 8, means) -- of two gradients, in eight steps
    assert.is_true(bytes >= 8 * 2 * (4 * 8 + 8) * 4)
    command.remove(folder)
  end)
end)
