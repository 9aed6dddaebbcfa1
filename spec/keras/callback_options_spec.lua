-- Every option of every callback changes an observation here, unless its description says that it
-- changes nothing.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras = ipu.keras
local callbacks, layers = keras.callbacks, keras.layers

local x, y = ipu.random.normal({16, 3}, {seed = 1}), ipu.random.normal({16, 1}, {seed = 2})
local folder

local function new_model(rate)
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "ones", input_shape = {3}}}
  model:compile{loss = "mse", optimizer = keras.optimizers.SGD(rate or 0.05), metrics = {"mae"}}
  return model
end

local function fit(list, o)
  o = o or {}
  local model = new_model(o.rate)
  local history = model:fit{x = x, y = y, batch_size = 4, epochs = o.epochs or 4, verbose = 0,
    shuffle = false, validation_data = {x, y}, callbacks = list}
  return history.history, model, history
end

local function files_in(path)
  local list = {}
  for _, name in ipairs(core.list_folder(path)) do
    list[#list + 1] = name:gsub("%d%d%d%d+.*", "N")
  end
  table.sort(list)
  return table.concat(list, " ")
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

-- Each observes what a callback with these options does, as text.
local function epochs_of(name)
  return function(o) return tostring(#fit({callbacks[name](o)}, {epochs = 8}).loss) end
end
local function rates(o)
  return table.concat(fit({callbacks.ReduceLROnPlateau(o)}, {epochs = 8}).lr, " ")
end
local function saved(o)
  o.filepath = o.filepath or folder .. "/{epoch}.safetensors"
  fit{callbacks.ModelCheckpoint(o)}
  local list, sizes = core.list_folder(folder), {}
  for i, name in ipairs(list) do sizes[i] = #read(folder .. "/" .. name) end
  return files_in(folder) .. " " .. table.concat(sizes, " ")
end
local function weights_after(name)
  return function(o)
    local _, model = fit({callbacks[name](o)}, {epochs = 6, rate = 0.6})
    return tostring(model:get_weights()[1])
  end
end
-- The output on the terminal.
local function words_of(name, others)
  return function(o)
    local r = command.run{command.ipulua, "-e", string.format([[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local model = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
      model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.05)}
      model:fit{ipu.ones{16, 3}, ipu.ones{16, 1}, batch_size = 4, epochs = 4, verbose = 0,
        callbacks = keras.callbacks.%s{%s, verbose = %d}}]], name, others, o.verbose or 0)}
    assert.equal(0, r.status, r.err)
    return (r.out .. r.err):gsub("%d+", "")
  end
end
local function csv(o)
  o.filename = o.filename or folder .. "/log.csv"
  for _ = 1, 2 do fit({callbacks.CSVLogger(o)}, {epochs = 1}) end
  return files_in(folder) .. read(o.filename)
end
local function backup(o)
  o.backup_dir = o.backup_dir or folder .. "/backup"
  local seen = {}
  local Watch = callbacks.Callback:extend "Watch"
  local function note()
    local there = pcall(core.list_folder, o.backup_dir) and files_in(o.backup_dir) or "none"
    seen[#seen + 1] = there
  end
  Watch.on_epoch_begin, Watch.on_train_batch_begin = note, note
  fit({callbacks.BackupAndRestore(o), Watch()}, {epochs = 3})
  note()
  return table.concat(seen, "; ") .. files_in(folder)
end
local function board(o)
  o.log_dir = o.log_dir or folder .. "/logs"
  fit({callbacks.TensorBoard(o)}, {epochs = 2})
  local pipe <close> = assert(io.popen(command.python "struct" .. " spec/support/read_events.py "
    .. command.quote(o.log_dir) .. " 2>&1"))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line:match "^(%S+ %S+ %-?%d+) %S+$" or "" end
  table.sort(lines)
  return o.log_dir .. table.concat(lines, "\n")
end
local function board_bytes(o)
  o.log_dir = folder .. "/board"
  fit({callbacks.TensorBoard(o)}, {epochs = 2})
  local bytes = 0
  for _, name in ipairs(core.list_folder(o.log_dir .. "/train")) do
    bytes = bytes + #read(o.log_dir .. "/train/" .. name)
  end
  return tostring(bytes)
end
local function infinite(o)
  local fine, problem = pcall(fit, {callbacks.TerminateOnNaN(o)}, {rate = 1e38})
  return tostring(fine or problem)
end
local function lambda(event)
  return function(o)
    local count, given = 0, nil
    if o[event] then given = function() count = count + 1 end end
    local model = new_model()
    local list = {callbacks.LambdaCallback{[event] = given}}
    model:fit{x = x, y = y, batch_size = 4, verbose = 0, callbacks = list,
      validation_data = {x, y}}
    model:predict(x, {batch_size = 4, callbacks = list})
    return tostring(count)
  end
end

local plateau <const> = {monitor = "loss", patience = 1, min_delta = 10, factor = 0.5}
local stopping <const> = {monitor = "loss", patience = 2, min_delta = 10}

-- callback → option → {value, what is observed, others}
local observed <const> = {
  EarlyStopping = {
    monitor = {"lr", epochs_of "EarlyStopping", {min_delta = 10}},
    min_delta = {10, epochs_of "EarlyStopping", {monitor = "loss"}},
    patience = {1, epochs_of "EarlyStopping", stopping},
    verbose = {1, words_of("EarlyStopping", [[monitor = "loss", min_delta = 10]])},
    mode = {"max", epochs_of "EarlyStopping", {monitor = "loss"}},
    baseline = {1e-9, epochs_of "EarlyStopping", {monitor = "loss", patience = 3,
      min_delta = 0.2}},
    restore_best_weights = {true, weights_after "EarlyStopping",
      {monitor = "loss", mode = "max", patience = 2}},
    start_from_epoch = {3, epochs_of "EarlyStopping", stopping},
  },
  ReduceLROnPlateau = {
    monitor = {"none", rates, {patience = 1, min_delta = 10}}, factor = {0.25, rates, plateau},
    patience = {2, rates, plateau},
    verbose = {1, words_of("ReduceLROnPlateau",
      [[monitor = "loss", min_delta = 10, patience = 1]])},
    mode = {"max", rates, {monitor = "loss", patience = 1}},
    min_delta = {10, rates, {monitor = "loss", patience = 1}}, cooldown = {2, rates, plateau},
    min_lr = {0.03, rates, plateau},
  },
  LearningRateScheduler = {
    schedule = {function() return 0.25 end, weights_after "LearningRateScheduler",
      {schedule = function(_, rate) return rate end}},
    verbose = {1, words_of("LearningRateScheduler", "function(_, rate) return rate end")},
  },
  TerminateOnNaN = {raise_error = {true, infinite}},
  ModelCheckpoint = {
    filepath = {function() return folder .. "/{epoch}-{loss:.2f}.safetensors" end, saved},
    monitor = {"loss", saved, {monitor = "nothing", save_best_only = true}},
    verbose = {1, function(o)
      return words_of("ModelCheckpoint", string.format("%q", folder .. "/{epoch}.safetensors"))(o)
    end},
    save_best_only = {true, saved, {monitor = "loss", mode = "max"}},
    save_weights_only = {true, saved},
    mode = {"max", saved, {monitor = "loss", save_best_only = true}}, save_freq = {8, saved},
    initial_value_threshold = {1e-9, saved, {monitor = "loss", save_best_only = true}},
  },
  CSVLogger = {
    filename = {function() return folder .. "/other.csv" end, csv}, separator = {";", csv},
    append = {true, csv},
  },
  BackupAndRestore = {
    backup_dir = {function() return folder .. "/other" end, backup, {delete_checkpoint = false}},
    save_freq = {2, backup}, double_checkpoint = {true, backup},
    delete_checkpoint = {false, backup},
    verbose = {1, function(o)
      return words_of("BackupAndRestore", string.format("%q", folder .. "/backup"))(o)
    end},
  },
  TensorBoard = {
    log_dir = {function() return folder .. "/other" end, board}, histogram_freq = {1, board},
    write_steps_per_second = {true, board}, update_freq = {2, board},
    write_graph = {false, board_bytes}, write_images = {true, board_bytes, {histogram_freq = 1}},
  },
  LambdaCallback = {},
}
for _, row in ipairs(callbacks.LambdaCallback.argument_rows) do
  observed.LambdaCallback[row[1]] = {print, lambda(row[1])}
end

describe("an argument that a callback accepts is used:", function()
  local writer -- missing metrics have a warning
  before_each(function()
    folder = command.scratch()
    os.execute("mkdir -p " .. folder)
    writer = log.set_writer(function() end)
  end)
  after_each(function()
    log.set_writer(writer)
    os.execute("rm -rf " .. folder)
  end)

  local function observe(seen, option, value)
    local given = {}
    for k, v in pairs(seen[3] or {}) do given[k] = v end
    if value ~= nil then given[option] = value end
    os.execute("rm -rf " .. folder .. "/*")
    return seen[2](given)
  end

  for name, class in pairs(callbacks) do
    for _, row in ipairs(type(class) == "table" and rawget(class, "argument_rows") or {}) do
      local option = row[1]
      it(name .. "'s " .. option, function()
        local seen = observed[name] and observed[name][option]
        if row.says == "changes nothing" then
          assert.is_nil(seen)
          return
        end
        assert.is_table(seen, "nothing shows what this option changes")
        local value = seen[1]
        if type(value) == "function" and row[2] ~= "callable" then value = value() end
        assert.not_equal(observe(seen, option), observe(seen, option, value))
      end)
    end
  end
end)
