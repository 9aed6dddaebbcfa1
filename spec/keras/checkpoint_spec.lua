-- Checkpoints. A saved state comes back to the bit. A killed process leaves a complete checkpoint,
-- and a killed training goes on as if nothing had been.

local ipu = require "ipulua"
local log = require "ipulua.base.log"
local core = require "ipulua.core"
local keras = ipu.keras
local command = require "spec.support.command"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function output_of(line)
  local pipe <close> = assert(io.popen(line .. " 2>&1"))
  return pipe:read("a")
end

local folder
before_each(function() folder = command.folder() end)
after_each(function() command.remove(folder) end)

describe("a training that was killed", function()
  local function run(kind, name, kill, freq, seed)
    return output_of(string.format("IPULUA_LOG=error '%s' %s spec/support/resume_training.lua %s "
      .. "%s/backup %s/%s.safetensors %s %s",
      command.ipulua, seed and "--seed " .. seed or "", kind, folder, folder, name, kill, freq))
  end

  for _, case in ipairs{{"dense", "epoch", 15}, {"dense", 4, 15}, {"dense", 1, 1}, {"uneven", 2, 6},
    {"endless", "epoch", 20}, {"endless", 6, 9},
    {"stateful", "epoch", 14}, {"stateful", 4, 11}, {"pipeline", 2, 11}, {"replicas", 2, 11},
    {"validated", "epoch", 15},
    {"validated", 4, 15}} do
    local kind, freq, kill = table.unpack(case)
    it(string.format("goes on to the same bits: %s, save_freq %s", kind, freq), function()
      local whole = run(kind, "whole", 0, freq, 3)
      assert.is_truthy(whole:find("^{"), whole)
      assert.is_false(core.folder_exists(folder .. "/backup")) -- its end was reached
      run(kind, "killed", kill, freq, 3)
      assert.is_false(core.file_exists(folder .. "/killed.safetensors"))
      if kill > 1 then assert.is_true(core.file_exists(folder .. "/backup/latest.json")) end
      local resumed = run(kind, "killed", 0, freq, kill == 1 and 3)
      assert.equal(whole, resumed)
      assert.equal(read(folder .. "/whole.safetensors"), read(folder .. "/killed.safetensors"))
      assert.equal(read(folder .. "/whole.safetensors.csv"),
        read(folder .. "/killed.safetensors.csv"))
    end)
  end

  -- Ctrl-C in the midst of an epoch, at an epoch's last step, while it validates, at the
  -- validation's end.
  for _, case in ipairs{{"dense", "epoch", 4}, {"dense", "epoch", 6}, {"pipeline", 2, 4},
    {"replicas", 2, 4}, {"replicas", 2, 6},
    {"validated", "epoch", 6}, {"validated", 4, 9}, {"validated", "epoch", "test3"},
    {"validated", "epoch", "test4"}} do
    local kind, freq, stop = table.unpack(case)
    it(string.format("goes on to the same bits after Ctrl-C: %s, save_freq %s, stopped after %s "
      .. "calls", kind, freq, stop), function()
      local whole = run(kind, "whole", 0, freq, 3)
      local stopped = run(kind, "stopped", type(stop) == "number" and -stop or stop, freq, 3)
      assert.is_true(core.file_exists(folder .. "/backup/latest.json"), stopped)
      assert.not_equal(read(folder .. "/whole.safetensors"), read(folder .. "/stopped.safetensors"))
      assert.equal(whole, (run(kind, "stopped", 0, freq)))
      assert.equal(read(folder .. "/whole.safetensors"), read(folder .. "/stopped.safetensors"))
      assert.equal(read(folder .. "/whole.safetensors.csv"),
        read(folder .. "/stopped.safetensors.csv"))
    end)
  end

  -- fit(epochs) backs up into folder/b: four epochs at once, and two, then four.
  local function ends_alike(fit)
    local whole = fit(4)
    core.remove_folder(folder .. "/b")
    fit(2)
    assert.same(whole, fit(4))
  end

  it("goes on to the same bits within one process, with data held back for validation", function()
    local function fit(epochs)
      keras.utils.set_random_seed(2)
      local model = keras.Sequential{keras.layers.Dense{4, input_shape = {3}},
        keras.layers.Dropout(0.5), keras.layers.Dense(1)}
      model:compile{optimizer = "adam", loss = "mse", metrics = {"mae"}}
      local history = model:fit{ipu.reshape(ipu.linspace(0, 1, 60), {20, 3}), ipu.ones{20, 1},
        batch_size = 4, validation_split = 0.2,
        epochs = epochs, verbose = 0,
        callbacks = {keras.callbacks.BackupAndRestore{folder .. "/b", delete_checkpoint = false}}}
      assert.matches("^History{.*loss = {", tostring(history))
      return {history.history, model:get_weights()[1]:totable()}
    end
    ends_alike(fit)
  end)

  it("double_checkpoint goes back to the one before when the newest is damaged", function()
    local x, y = ipu.ones{8, 2}, ipu.ones{8, 1}
    local function fit(epochs)
      local model = keras.Sequential{keras.layers.Dense{1, kernel_initializer = "ones"}}
      model:compile{optimizer = keras.optimizers.SGD(0.01), loss = "mse"}
      return model:fit(x, y, {batch_size = 4, epochs = epochs, verbose = 0,
        callbacks = {keras.callbacks.BackupAndRestore{
        folder .. "/b", double_checkpoint = true, delete_checkpoint = false}}})
    end
    assert.equal(3, #fit(3).history.loss)
    assert.same({"latest.json", "step-000004", "step-000006"}, core.list_folder(folder .. "/b"))
    write(folder .. "/b/step-000006/weights.safetensors", "no tensors")
    local warned, history = log.capture("warn", fit, 4)
    assert.equal(1, #warned)
    assert.matches("/b/step%-000006/weights.safetensors is not as it was written; the one before "
      .. "it is taken$", warned[1])
    assert.same({0, 1, 2, 3}, history.epoch) -- two from the backup, two made now
  end)

  it("prints the names of what it holds", function()
    local model = keras.Sequential{keras.layers.Dense(1), name = "m"}
    local all = ipu.train.Checkpoint{model = model, best = ipu.Variable(1.0),
      optimizer = keras.optimizers.SGD(), epoch = 3, seen = {1, 2}}
    assert.equal("Checkpoint{best = a variable, epoch = 3, model = <Sequential m>, optimizer = "
      .. "SGD, save_counter = 0, seen = table}",
      tostring(all))
  end)

  it("an error names what is wrong", function()
    assert.error_matches(function()
      keras.callbacks.BackupAndRestore{folder, save_freq = "step"}
    end, "save_freq")
    assert.error_matches(function() keras.callbacks.BackupAndRestore{folder, save_freq = 0} end,
      "positive")
    assert.error_matches(function() keras.callbacks.BackupAndRestore() end, "backup_dir")
  end)
end)

describe("ipu.train.Checkpoint", function()
  it("has what a Keras optimizer keeps beside variables that are given by name", function()
    for _, make in ipairs{function() return keras.optimizers.Adam(0.1) end,
      function() return keras.optimizers.SGD{0.1, momentum = 0.9} end} do
      local function train(first, last)
        local w, opt = ipu.Variable(ipu.ones{3}), make()
        local checkpoint = ipu.train.Checkpoint{optimizer = opt, w = w}
        local step = ipu.func(function()
          local tape = ipu.GradientTape()
          local loss = tape(function() return ipu.reduce_sum(w * w) end)
          opt:apply_gradients({tape:gradient(loss, w)}, {w})
        end)
        if first > 1 then checkpoint:restore(folder) end
        for _ = first, last do step() end
        checkpoint:save(folder)
        return w:read_value():totable()
      end
      local whole = train(1, 6)
      train(1, 3)
      assert.same(whole, train(4, 6))
    end
  end)

  local function model_of()
    local model = keras.Sequential{keras.layers.Dense{4, activation = "tanh"},
      keras.layers.Dense(1)}
    model:build{-1, 3}
    return model
  end

  it("brings back model, optimizer, variables and values", function()
    local x, y = ipu.random.normal{8, 3}, ipu.random.normal{8, 1}
    local model, opt, v = model_of(), keras.optimizers.Adam(0.1), ipu.Variable(3.5)
    model:compile{optimizer = opt, loss = "mse"}
    for _ = 1, 3 do model:train_on_batch(x, y) end
    local path = ipu.train.Checkpoint{model = model, optimizer = opt, v = v, epoch = 7,
      notes = {"a", "b"}}:save(folder)
    assert.equal(folder .. "/step-000003", path)
    local wanted = {model:train_on_batch(x, y), model:train_on_batch(x, y)}

    local other, other_opt, w = model_of(), keras.optimizers.Adam(0.5), ipu.Variable(0.0)
    other:compile{optimizer = other_opt, loss = "mse"}
    local checkpoint = ipu.train.Checkpoint{model = other, optimizer = other_opt, v = w, epoch = 0,
      notes = {}}
    assert.equal(path, checkpoint:restore(folder))
    assert.equal(3, other_opt.iterations:item())
    assert.equal(3.5, w:item())
    assert.equal(7, checkpoint.epoch)
    assert.same({"a", "b"}, checkpoint.notes)
    assert.same(wanted, {other:train_on_batch(x, y), other:train_on_batch(x, y)})
    local again = model_of()
    -- weights alone are an ordinary file of weights
    again:load_weights(path .. "/weights.safetensors")
  end)

  it("brings back tables with names that begin with a dollar", function()
    local saved = {["$number"] = "x", ["$tensor"] = {["$$"] = 1, ["$number"] = "inf"}, ["$"] = {}}
    ipu.train.Checkpoint{notes = saved}:save(folder)
    local read_back = ipu.train.Checkpoint{notes = 0}
    read_back:restore(folder)
    assert.same(saved, read_back.notes)
  end)

  it("keeps tensors of a callback's state apart, whatever their names", function()
    local state = require "ipulua.keras.files.state"
    local tensors = {}
    local packed = state.pack({["a/b"] = ipu.tensor{1}, a = {b = ipu.tensor{2}}}, tensors, "state")
    local value = state.unpack(ipu.json.decode(ipu.json.encode(packed)), tensors)
    assert.same({{1}, {2}}, {value["a/b"]:totable(), value.a.b:totable()})
  end)

  -- A limit on the size of files stands for a full disk.
  it("leaves nothing of a checkpoint that could not be written", function()
    local script = ([[
      local ipu = require "ipulua"
      local v = ipu.Variable(ipu.zeros{100000})
      local ok, message = pcall(function() ipu.train.Checkpoint{v = v}:save(%q) end)
      print(ok, message)]]):format(folder)
    local path = command.scratch ".lua"
    command.write(path, script)
    local r = command.run{"sh", "-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$1\"",
      command.ipulua, path}
    os.remove(path)
    assert.matches("^false\t.*cannot write: File too large", r.out, r.err)
    for _, name in ipairs(require "ipulua.core".list_folder(folder)) do
      assert.is_nil(name:find("step"), name)
    end
  end)

  it(
    "brings back values that JSON has no words for, and tables that show what they hold", function()
    local saved = ipu.train.Checkpoint{best = math.huge, worst = {-math.huge}, none = 0 / 0,
      log = {loss = {0.5, 0.25}}}
    saved:save(folder)
    local read_back = ipu.train.Checkpoint{best = 0, worst = {}, none = 0, log = {}}
    read_back:restore(folder)
    assert.equal(math.huge, read_back.best)
    assert.equal(-math.huge, read_back.worst[1])
    assert.is_true(read_back.none ~= read_back.none)
    assert.equal("{loss = {0.5, 0.25}}", tostring(read_back.log))
  end)

  it("brings back an optimizer of graphs and the place in a dataset", function()
    local function begin()
      local strategy = ipu.IPUStrategy()
      local _ <close> = strategy:scope()
      local opt, w = ipu.train.MomentumOptimizer(0.1, 0.9), ipu.Variable(1.0)
      local iterator = ipu.data.range(0, 100,
        1):shuffle(10):map(function(i) return ipu.cast(i, "float32") / 100 end):iterator()
      local seen = ipu.IPUOutfeedQueue()
      local step = ipu.func(function()
        local x = iterator:next()
        seen:enqueue(x)
        opt:minimize(ipu.square(w * x - 1), {var_list = {w}})
      end)
      return {w = w, opt = opt, iterator = iterator}, function()
        strategy:run(step)
        return seen:dequeue()[1]:item(), w:item()
      end
    end
    local objects, step = begin()
    for _ = 1, 5 do step() end
    local checkpoint = ipu.train.Checkpoint(objects)
    checkpoint:save(folder)
    local wanted = {}
    for i = 1, 4 do wanted[i] = {step()} end
    checkpoint:restore(folder)
    for i = 1, 4 do assert.same(wanted[i], {step()}) end
    local fresh, fresh_step = begin()
    ipu.train.Checkpoint(fresh):restore(folder)
    for i = 1, 4 do assert.same(wanted[i], {fresh_step()}) end
  end)

  it("does not count what could not be written", function()
    local checkpoint = ipu.train.Checkpoint{v = ipu.Variable(0.0)}
    assert.has_error(function() checkpoint:save("/proc/none") end)
    assert.equal(folder .. "/step-000001", checkpoint:save(folder))
  end)

  it(
    "is numbered by the updates of the first optimizer, and replaces one of the same number",
    function()
    local v, first, second = ipu.Variable(0.0), keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)
    local checkpoint = ipu.train.Checkpoint{v = v, a = first, b = second}
    for _ = 1, 2 do first:apply_gradients{{ipu.tensor(1.0), v}} end
    assert.equal(folder .. "/step-000002", checkpoint:save(folder))
    v:assign(7.0)
    checkpoint:save(folder, {best = true})
    assert.equal(folder .. "/step-000002", checkpoint:save(folder))
    assert.is_nil(ipu.json.decode(read(folder .. "/latest.json")).best, "what was best is replaced")
    assert.same({"latest.json", "step-000002"}, core.list_folder(folder))
    v:assign(0.0)
    checkpoint:restore(folder)
    assert.equal(7, v:item())
  end)

  it(
    "takes the first of several optimizers by name, whether it was given itself or with its model",
    function()
    local x, y = ipu.ones{4, 1}, ipu.ones{4, 1}
    local model = keras.Sequential{keras.layers.Dense{1, input_shape = {1}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    for _ = 1, 3 do model:train_on_batch(x, y) end
    local other = keras.optimizers.SGD()
    assert.equal(folder .. "/step-000003",
      ipu.train.Checkpoint{model = model, other = other}:save(folder))
    assert.equal(folder .. "/step-000000",
      ipu.train.Checkpoint{model = model, before = other}:save(folder))
  end)

  it("clears away what a killed process left unfinished, and nothing else", function()
    local checkpoint = ipu.train.Checkpoint{v = ipu.Variable(0.0)}
    checkpoint:save(folder)
    core.make_folder(folder .. "/.step-000002.1.tmp")
    for _, name in ipairs{"latest.json.0123456789abcdef.tmp", "mine.json.tmp"} do
      write(folder .. "/" .. name, "{")
    end
    checkpoint:save(folder)
    assert.same({"latest.json", "mine.json.tmp", "step-000001", "step-000002"},
      core.list_folder(folder))
  end)

  it("keeps the newest three and the best, with the hashes that sha256sum prints", function()
    local v = ipu.Variable(0.0)
    local checkpoint = ipu.train.Checkpoint{v = v}
    checkpoint:save(folder, {best = true})
    for _ = 1, 4 do checkpoint:save(folder) end
    assert.same({"latest.json", "step-000001", "step-000003", "step-000004", "step-000005"},
      core.list_folder(folder))
    assert.equal(folder .. "/step-000005", ipu.train.latest_checkpoint(folder))
    assert.equal("step-000001", ipu.json.decode(read(folder .. "/latest.json")).best)
    local state = ipu.json.decode(read(folder .. "/step-000005/state.json"))
    local sums = output_of(string.format("cd %s/step-000005 && sha256sum *.safetensors", folder))
    for file, hash in pairs(state.files) do
      assert.is_truthy(sums:find(hash .. "  " .. file, 1, true))
    end
  end)

  it("passes over what is damaged, and says so when nothing is left", function()
    local v = ipu.Variable(0.0)
    local checkpoint = ipu.train.Checkpoint{v = v}
    for i = 1, 3 do
      v:assign(i + 0.0)
      checkpoint:save(folder)
    end
    os.remove(folder .. "/latest.json")
    checkpoint:restore(folder)
    assert.equal(3, v:item())
    -- The result of restoring, and the warnings on the way, without the folder.
    local function restored()
      local lines, ok, result = log.capture("warn", pcall, checkpoint.restore, checkpoint, folder)
      for i, line in ipairs(lines) do lines[i] = line:gsub("^.-/(step%-%d+/)", "%1") end
      return lines, ok and result or tostring(result)
    end
    local damaged, missing = "step-000003/state.json is missing or damaged; the one before it is "
      .. "taken",
      "step-000002/weights.safetensors is missing; "
    write(folder .. "/step-000003/state.json", "{")
    assert.same({damaged}, (restored()))
    assert.equal(2, v:item())
    os.remove(folder .. "/step-000002/weights.safetensors")
    local lines, path = restored()
    assert.same({damaged, missing .. "the one before it is taken"}, lines)
    assert.equal(folder .. "/step-000001", path)
    assert.equal(1, v:item())
    core.remove_folder(folder .. "/step-000001")
    local last, message = restored()
    assert.same({damaged, missing .. "there is no other"}, last)
    assert.is_truthy(
      message:find("checkpoint_spec.lua:%d+: Checkpoint.restore: there is no checkpoint in '/"))
    assert.error_matches(function() checkpoint:restore(folder .. "/none") end,
      "there is no checkpoint in")
  end)

  it("refuses another optimizer's state, and changes nothing where anything doesn't fit", function()
    local x, y = ipu.random.normal({8, 3}, {seed = 1}), ipu.ones{8, 1}
    local function trained(optimizer)
      local model = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
      model:compile{optimizer = optimizer, loss = "mse"}
      model:fit{x, y, batch_size = 4, verbose = 0}
      return model
    end
    local function state(model)
      local list = {}
      for i, w in ipairs(model.optimizer.weights) do list[i] = {w.name,
        w:read_value():totable()} end
      return list
    end
    local O = keras.optimizers
    local saved = ipu.train.Checkpoint{model = trained(O.Adam(0.1))}:save(folder .. "/adam")
    for _, other in ipairs{O.SGD(0.1), O.SGD{0.1, momentum = 0.9}, O.RMSprop(0.1)} do
      local model = trained(other)
      local before = state(model)
      assert.error_matches(function() ipu.train.Checkpoint{model = model}:restore(saved) end,
        "state of another optimizer: beside its weights that kept m, v, optimizer '"
          .. other.name .. "' keeps ")
      assert.same(before, state(model))
    end
    local nadam = ipu.train.Checkpoint{model = trained(O.Nadam(0.1))}:save(folder .. "/nadam")
    local fresh = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
    fresh:compile{optimizer = O.Nadam(0.1), loss = "mse"}
    local function restore(more)
      ipu.train.Checkpoint{model = fresh, variable = more}:restore(nadam)
    end
    assert.error_matches(function() restore(ipu.Variable(1.0)) end,
      "the file has no weight 'variable'")
    assert.equal(1, fresh.optimizer:state("momentum_cache", 1):item())
    restore()
  end)

  it("refuses to pass over the weights of a model that isn't built", function()
    local function make() return keras.Sequential{keras.layers.Dense(1)} end
    local model, other = make(), make()
    model:build{-1, 2}
    ipu.train.Checkpoint{model = model, epoch = 3}:save(folder)
    local checkpoint = ipu.train.Checkpoint{model = other, epoch = 0}
    local ok, message = pcall(checkpoint.restore, checkpoint, folder)
    assert.is_false(ok)
    assert.matches("'model' has no weights yet; build it first", message)
    other:build{-1, 2}
    checkpoint:restore(folder)
    assert.same(model:get_weights()[1]:totable(), other:get_weights()[1]:totable())
    assert.equal(3, checkpoint.epoch)
  end)

  it("refuses what it can't save", function()
    assert.error_matches(function() ipu.train.Checkpoint{model = print} end,
      "'model' must be a model.*got function")
    assert.error_matches(function() ipu.train.Checkpoint{ipu.Variable(1.0)} end,
      "has a name, as in .*; a variable has none")
    assert.error_matches(function() ipu.train.Checkpoint{log = {ipu.ones{1}}}:save(folder) end,
      "'log' is a table with a tensor in it")
    assert.error_matches(function() ipu.train.Checkpoint(3) end,
      "expected a table of the parts to save")
    assert.error_matches(function() ipu.train.Checkpoint{save = 3} end, "the name 'save' is taken")
    assert.error_matches(function() ipu.train.Checkpoint{v = 1}:save() end, "dir")
    assert.error_matches(function() ipu.train.Checkpoint{v = 1}:save(folder, {max_to_keep = 0}) end,
      "must be positive")
    local v, w = ipu.Variable{ipu.zeros{2}}, ipu.Variable{ipu.zeros{3}}
    ipu.train.Checkpoint{v = v}:save(folder)
    assert.error_matches(function() ipu.train.Checkpoint{v = w}:restore(folder) end,
      "%[2%] in the file, %[3%] in the model")
    assert.error_matches(function() ipu.train.Checkpoint{u = v}:restore(folder) end,
      "no weight 'u'")
  end)

  it("a process killed at any moment leaves a complete checkpoint", function()
    local v, w = ipu.Variable{ipu.ones{64, 1024}}, ipu.Variable{ipu.ones{1000}}
    local checkpoint = ipu.train.Checkpoint{first = v, second = w, number = 1}
    checkpoint:save(folder)
    -- Killed when what the watching command prints has been seen to change so many times.
    local shell <const> = [[
      "$0" spec/support/checkpoint_forever.lua "$1" "$2" & pid=$!
      for change in $(seq "$3"); do
        before=$(eval "$4"); while [ "$(eval "$4")" = "$before" ]; do kill -0 $pid || break; done
      done
      kill -KILL $pid; wait $pid]]
    local function killed_after(changes, watch, kept)
      command.run{"bash", "-c", shell, command.ipulua, folder, tostring(kept), tostring(changes),
        watch}
      checkpoint:restore(folder)
      assert.equal(checkpoint.number, ipu.reduce_min(v):item())
      assert.equal(checkpoint.number, ipu.reduce_max(v):item())
      assert.equal(checkpoint.number, ipu.reduce_max(w):item())
    end
    -- Another moment each round, inside a checkpoint's writing too.
    for round = 1, 12 do killed_after(round, 'ls -R "$1"', round % 2 + 1) end
    -- The second change of the file that names the newest one comes with the second checkpoint.
    killed_after(2, 'cat "$1/latest.json"', 2)
    assert.is_true(checkpoint.number > 1)
  end)
end)
