-- Every public function, class and method, called with each of some odd arguments: it must work, or
-- raise words that name this file. Prints what is wrong, then "N calls, M wrong". To be run in a
-- folder of its own: some calls write files.

local class = require "ipulua.base.class"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"
local keras = ipu.keras
local layers = keras.layers
require "ipulua.base.log".set_writer(function() end)

print = function() end -- luacheck: ignore 121

local function identity(...) return ... end

-- {words, arguments, n = how many}
local function odd_arguments()
  local t, t2 = ipu.ones{2, 3}, ipu.ones{2, 3}
  local dense, model = layers.Dense(3), keras.Sequential{layers.Dense{1, input_shape = {3}}}
  local list = {
    {"()", {}}, {"(nil)", {n = 1}}, {"(1)", {1}}, {"(-1)", {-1}}, {"(1.5)", {1.5}},
    {"('x')", {"x"}}, {"(true)", {true}}, {"(nan)", {0 / 0}},
    {"(inf)", {math.huge}}, {"({})", {{}}}, {"({1, 2})", {{1, 2}}}, {"({'a'})", {{"a"}}},
    {"({{}})", {{{}}}}, {"({false})", {{false}}},
    {"({x = 1})", {{x = 1}}}, {"({f})", {{identity}}}, {"({t, t})", {{t, t2}}}, {"(t)", {t}},
    {"(scalar)", {ipu.tensor(1.0)}},
    {"(variable)", {ipu.Variable(ipu.ones{3})}}, {"(f)", {identity}},
    {"(fails)", {function() error("its own", 0) end}}, {"(dense)", {dense}},
    {"(model)", {model}}, {"(Dense)", {layers.Dense}}, {"(dataset)", {ipu.data.range(4)}},
    {"(symbolic)", {layers.Input{3}}},
    {"(coroutine)", {coroutine.create(print)}}, {"(file)", {io.stdout}}, {"(ipu)", {ipu}},
    {"(1, 2)", {1, 2}}, {"(t, t)", {t, t2}},
    {"(t, 'x')", {t, "x"}}, {"(t, -1)", {t, -1}}, {"(t, {axis = 7})", {t, {axis = 7}}},
    {"('x', {})", {"x", {}}}, {"({}, {})", {{}, {}}},
    {"(f, {})", {identity, {}}}, {"(f, 3)", {identity, 3}}, {"(3, f)", {3, identity}},
  }
  for _, each in ipairs(list) do each[2].n = each[2].n or #each[2] end
  return list
end

local function compiled()
  local m = keras.Sequential{layers.Dense{1, input_shape = {3}}}
  m:compile{optimizer = "sgd", loss = "mse", metrics = {"mae"}}
  return m
end

local train, schedules = ipu.train, keras.optimizers.schedules
local objects <const> = {
  compiled = compiled, Sequential = function() return keras.Sequential{layers.Dense(2)} end,
  Model = function()
    local x = layers.Input{3}
    return keras.Model(x, layers.Dense(2)(x))
  end,
  Dense = function() return layers.Dense(3) end, LSTM = function() return layers.LSTM(3) end,
  Conv2D = function() return layers.Conv2D(3, 3) end,
  built = function()
    local dense = layers.Dense(3)
    dense(ipu.ones{2, 3})
    return dense
  end,
  Normalization = function() return layers.Normalization() end,
  IntegerLookup = function() return layers.IntegerLookup() end,
  Bidirectional = function() return layers.Bidirectional(layers.LSTM(3)) end,
  RNN = function() return layers.RNN(layers.LSTMCell(3)) end,
  TimeDistributed = function() return layers.TimeDistributed(layers.Dense(3)) end,
  MultiHeadAttention = function() return layers.MultiHeadAttention(2, 4) end,
  Adam = function() return keras.optimizers.Adam() end,
  MeanSquaredError = function() return keras.losses.MeanSquaredError() end,
  Mean = function() return keras.metrics.Mean() end,
  AUC = function() return keras.metrics.AUC() end,
  EarlyStopping = function() return keras.callbacks.EarlyStopping() end,
  ModelCheckpoint = function() return keras.callbacks.ModelCheckpoint "w.safetensors" end,
  CSVLogger = function() return keras.callbacks.CSVLogger "log.csv" end,
  schedule = function() return schedules.ExponentialDecay(0.1, 10, 0.9) end,
  GlorotUniform = function() return keras.initializers.GlorotUniform() end,
  L2 = function() return keras.regularizers.L2(0.1) end,
  MaxNorm = function() return keras.constraints.MaxNorm() end,
  Tokenizer = function() return keras.preprocessing.text.Tokenizer() end,
  dataset = function() return ipu.data.range(4) end,
  iterator = function() return ipu.data.range(4):iterator() end,
  infeed = function() return ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(ipu.ones{4, 3})) end,
  outfeed = function() return ipu.IPUOutfeedQueue() end,
  Session = function() return ipu.Session() end, IPUConfig = function() return ipu.IPUConfig() end,
  Checkpoint = function() return train.Checkpoint{v = ipu.Variable(1.0)} end,
  GradientTape = function() return ipu.GradientTape() end,
  func = function() return ipu.func(function(x) return ipu.mul(x, 2) end) end,
  Variable = function() return ipu.Variable(ipu.ones{3}) end,
  CrossReplicaOptimizer = function()
    return ipu.optimizers.CrossReplicaOptimizer(train.GradientDescentOptimizer(0.1))
  end,
}

local here <const> = debug.getinfo(1, "S").short_src
local calls, wrong, told = 0, 0, {}

local function check(what, message)
  if message == "its own" then return end
  local in_words = type(message) == "string" and message:find(here, 1, true) == 1
    and not message:find("attempt to ", 1, true)
    and not message:find("bad argument", 1, true) and not message:find("0x%x")
    and not message:find("IPU_E_INTERNAL", 1, true)
  if in_words then return end
  wrong = wrong + 1
  local kind = what:gsub("%b()$", "") .. tostring(message):gsub("%d+", "")
  if not told[kind] then told[#told + 1] = what .. ": " .. tostring(message) end
  told[kind] = true
end

-- Objects of the library are shown by their kind. An argument that comes back may be anything, and
-- lists are Lua's.
local function check_shown(what, result, arguments)
  if type(result) ~= "table" and type(result) ~= "userdata" then return end
  for i = 1, arguments.n do
    if rawequal(result, arguments[i]) then return end
  end
  if type(result) == "table" and not getmetatable(result) then return end
  local text = tostring(result)
  if text:find(": 0x%x") and not text:find("function: 0x%x") then
    check(what .. " is shown as", text)
  end
end

local function call(what, f, arguments)
  calls = calls + 1
  local results = table.pack(pcall(function()
    local made = table.pack(f(table.unpack(arguments, 1, arguments.n)))
    return table.unpack(made, 1, made.n)
  end))
  if not results[1] then return check(what, results[2]) end
  for i = 2, results.n do check_shown(what, results[i], arguments) end
end

-- ------------------------------------------------ functions and classes

-- dataset_benchmark runs for a while; the others change what all that follows does.
local skipped <const> = {dataset_benchmark = true, set_num_threads = true,
  enable_check_numerics = true, CallbackList = true}
local seen = {[ipu.json.null] = true}

local function try_module(name, module)
  seen[module] = true
  for _, each in ipairs(help.names(module) or {}) do
    local value = not skipped[each] and module[each]
    if type(value) == "function" or class.is_class(value) then
      for _, odd in ipairs(odd_arguments()) do
        call(name .. "." .. each .. odd[1], value, odd[2])
      end
    elseif type(value) == "table" and not seen[value] then
      try_module(name .. "." .. each, value)
    end
  end
end

-- ------------------------------------------------ methods

local function method(object, name)
  if name == "__call" then return getmetatable(object).__call end
  return object[name]
end

local function try_methods(name, make)
  local names = help.members(make(), true) or {}
  names[#names + 1] = "__call"
  for _, each in ipairs(names) do
    for _, odd in ipairs(odd_arguments()) do
      local object = make()
      local f = method(object, each)
      if f then
        call(name .. ":" .. each .. odd[1], f,
          table.pack(object, table.unpack(odd[2], 1, odd[2].n)))
      end
    end
  end
end

try_module("ipu", ipu)
local names = {}
for name in pairs(objects) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do try_methods(name, objects[name]) end
io.output():write(table.concat(told, "\n"), "\n", calls, " calls, ", wrong, " wrong\n")
