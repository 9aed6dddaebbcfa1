-- Calls of ipu.keras with arguments of all kinds: each must work or raise words that name this
-- file. fuzz_keras.lua SEED COUNT; prints what is wrong, then "N calls, M wrong".
local class = require "ipulua.base.class"
local ipu = require "ipulua"
local keras = ipu.keras
require "ipulua.base.log".set_writer(function() end)

local seed, count = math.tointeger(tonumber(arg[1])) or 1, math.tointeger(tonumber(arg[2])) or 2000
math.randomseed(seed)
keras.utils.set_random_seed(seed)

local function pick(list) return list[math.random(#list)] end

local function scalar()
  return pick{0, 1, -1, 2, 3, 0.5, -0.25, 1e13, math.maxinteger, 0 / 0, math.huge, "relu", "same",
    "", "\0", "nonsense", true, false,
    "float16", "mse", "adam", "softmax", "channels_first", "valid", "sum"}
end

local value
local makers <const> = {
  scalar, scalar, scalar, function() return nil end,
  function() return {} end, function() return {1, 2} end, function() return {2, 3, 4} end,
  function() return {-1, 3} end,
  function() return {value()} end, function() return {a = value()} end,
  function() return {name = value()} end,
  function() return {{1, 2}, {3}} end, function() return {{1, 1}, {2, 2}} end,
  function() return ipu.ones{2, 3} end, function() return ipu.ones{2, 4, 4, 3} end,
  function() return ipu.ones({}, {dtype = "int32"}) end,
  function() return ipu.tensor({0, 1}, {dtype = "int32"}) end,
  function() return ipu.ones({2, 3}, {dtype = "float64"}) end,
  function() return ipu.zeros{0, 3} end, function() return ipu.Variable(1.0) end,
  function() return function(x) return x end end,
  function() return function() error("own error", 0) end end, function() return print end,
  function() return keras.layers.Dense(2) end, function() return keras.layers.LSTM(2) end,
  function() return keras.layers.Dense end,
  function() return keras.optimizers.SGD(0.1) end,
  function() return keras.losses.MeanSquaredError() end,
  function() return keras.Input{shape = {3}} end, function() return ipu.data.range(0, 4, 1) end,
  function() return ipu.data.from_tensor_slices{ipu.ones{4, 3}, ipu.ones{4, 1}}:batch(2,
    {drop_remainder = true}) end,
  function() return ipu.data.from_tensor_slices{ipu.ones{5, 3}, ipu.ones{5, 1}}:batch(2) end,
  function() return keras.callbacks.EarlyStopping() end,
  function() return coroutine.create(print) end,
}
local depth = 0
function value()
  depth = depth + 1
  local made = depth > 4 and scalar() or pick(makers)()
  depth = depth - 1
  return made
end

-- Arguments: positional ones, then perhaps named ones. Some have a name that the class knows.
local function arguments(rows)
  local list, n = {}, math.random(0, 3)
  for i = 1, n do list[i] = value() end
  if math.random() < 0.7 then
    local named = {}
    for _ = 1, math.random(0, 3) do
      local row = rows and #rows > 0 and pick(rows)
      named[row and row[1] or pick{"name", "units", "axis", "whatever"}] = value()
    end
    n = n + 1
    list[n] = named
  end
  return list, n
end

-- Names that need files, or are for the library itself.
local skipped <const> = {
  load_model = true, reset_names = true, reduce = true, prepare = true, CallbackList = true,
  plot_model = true,
  save_model = true,
  custom_object_scope = true, register_keras_serializable = true, -- these change what names mean
}

local functions = {} -- {what, function, rows}

for _, module in ipairs{"layers", "losses", "metrics", "optimizers", "initializers", "regularizers",
  "constraints", "callbacks",
  "activations", "models", "utils", "mixed_precision", "backend", "preprocessing",
  "preprocessing.sequence", "preprocessing.text"} do
  local owner = keras
  for each in module:gmatch("[^.]+") do owner = owner[each] end
  for name, f in pairs(owner) do
    local is_public = type(name) == "string" and name:find("^%a") and not skipped[name]
    if is_public and (type(f) == "function" or class.is_class(f)) then
      functions[#functions + 1] = {module .. "." .. name, f, class.is_class(f) and f.argument_rows}
    end
  end
end
for name, c in pairs(keras.optimizers.schedules) do
  functions[#functions + 1] = {"schedules." .. name, c, class.is_class(c) and c.argument_rows}
end
for _, name in ipairs{"Model", "Sequential", "Input", "PipelineStage"} do
  functions[#functions + 1] = {name, keras[name]}
end

local method_rows <const> = {}
for _, name in ipairs{"x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split",
  "validation_data", "shuffle",
  "class_weight", "sample_weight", "initial_epoch", "steps_per_epoch", "validation_steps",
  "validation_batch_size", "validation_freq",
  "prefetch_depth", "steps", "return_dict", "optimizer", "loss", "metrics", "loss_weights",
  "weighted_metrics",
  "steps_per_execution", "device_mapping", "gradient_accumulation_steps_per_replica"} do
  method_rows[#method_rows + 1] = {name}
end

local function model()
  local m = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
  if math.random() < 0.8 then m:compile{optimizer = "sgd", loss = "mse", metrics = {"mae"}} end
  return m
end
for _, name in ipairs{"compile", "fit", "evaluate", "predict", "train_on_batch", "test_on_batch",
  "predict_on_batch", "get_layer",
  "set_weights", "summary", "count_params", "build", "add_loss", "add_metric",
  "set_pipelining_options",
  "set_gradient_accumulation_options", "set_replication_options", "set_asynchronous_callbacks",
  "set_pipeline_stage_assignment",
  "set_infeed_queue_options", "set_outfeed_queue_options",
  "print_pipeline_stage_assignment_summary", "add", "pop",
  "get_config", "to_json", "save", "save_weights", "load_weights"} do
  for _ = 1, 4 do -- methods are what scripts call most
    functions[#functions + 1] = {"model:" .. name, function(...)
      local m = model()
      return m[name](m, ...)
    end, method_rows}
  end
end
table.sort(functions, function(a, b) return a[1] < b[1] end)

-- Objects made of odd arguments are called with inputs, too.
local function use(what, made)
  if what == "layers.Input" or not class.of(made).__call then return end
  if what:find("^layers") then
    return made(pick{ipu.ones{2, 3}, ipu.ones{2, 4, 4, 3}, ipu.ones{2, 5, 3}})
  end
  if what:find("^losses") then return made(ipu.ones{2, 3}, ipu.ones{2, pick{3, 3, 4}}) end
  if what:find("^metrics") then return made(ipu.ones{2, 3}, ipu.ones{2, pick{3, 3, 4}}) end
  if what:find("^initializers") then return made(pick{{2, 3}, {}, {4}, {-1}}) end
  if what:find("^regularizers") or what:find("^constraints") then return made(ipu.ones{2, 3}) end
  if what:find("^schedules") then return made(ipu.tensor(3, {dtype = "int64"})) end
  if what:find("^optimizers") then
    local v = ipu.Variable{ipu.ones{2}}
    return made:apply_gradients({{ipu.ones{2}, v}})
  end
end

local here <const> = debug.getinfo(1, "S").short_src
local wrong = 0
local function check(what, given, n, message)
  local bad
  if type(message) ~= "string" then bad = "an error that is no string: " .. type(message)
  elseif message == "own error" then return
  elseif not message:find(here, 1, true) then bad = "another file's line"
  elseif message:find("attempt to ", 1, true) or message:find("bad argument", 1, true)
    or message:find("stack overflow", 1, true)
    or message:find("IPU_E_INTERNAL", 1, true)
    or message:find("table: 0x", 1, true) then bad = "not the words of a user"
  end
  if not bad then return end
  wrong = wrong + 1
  local shown = {}
  local function show(v, level)
    if type(v) ~= "table" or getmetatable(v) or level > 2 then
      return (tostring(v):gsub("0x%x+", ""):gsub("%c", " "):sub(1, 30))
    end
    local list = {}
    for k, each in pairs(v) do list[#list + 1] = tostring(k) .. " = " .. show(each, level + 1) end
    return "{" .. table.concat(list, ", ") .. "}"
  end
  for i = 1, n do shown[i] = show(given[i], 1) end
  print(string.format("%s(%s): %s: %s", what, table.concat(shown, ", "), bad, tostring(message)))
end

local quiet = io.open("/dev/null", "w")
io.output(quiet)
local script_print = print
for _ = 1, count do
  local each = pick(functions)
  local given, n = arguments(each[3])
  local what = each[1]
  print = function() end -- luacheck: ignore 121
  local ok, made = pcall(each[2], table.unpack(given, 1, n))
  local used, problem = true, nil
  if ok and class.of(made) then used, problem = pcall(use, what, made) end
  print = script_print -- luacheck: ignore 121
  if not ok then check(what, given, n, made)
  elseif not used then check(what .. " in use", given, n, problem) end
end
script_print(string.format("%d calls, %d wrong", count, wrong))
os.exit(wrong == 0, true)
