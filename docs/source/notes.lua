-- The notes of comments (help.notes) for the references. Words in backquotes are code that is run.
-- In Errors each must raise a message, which is shown beside it. In Shapes each must give a tensor
-- of the shape that follows.

local help = require "ipulua.tools.help"
local ipu = require "ipulua"

local made = {} -- folders to remove
local notes = {problems = {}} -- samples that don't do what they should

---Notes that a sample was wrong.
function notes.problem(format, ...)
  notes.problems[#notes.problems + 1] = string.format(format, ...)
end

-- A folder with the folder of one class in it.
local function class_folder()
  local path = os.tmpname()
  os.remove(path)
  made[#made + 1] = path
  require "ipulua.core".make_folder(path .. "/cat")
  return path
end

---What samples may use, made anew for each: x [2, 3], v a variable [3], ds a dataset of four
---numbers, f a function, m a model.
local function environment()
  local keras = ipu.keras
  local makers = {
    x = function() return ipu.ones{2, 3} end, v = function() return ipu.Variable(ipu.ones{3}) end,
    ds = function() return ipu.data.range(4) end,
    f = function()
      local f = ipu.func(function(a) return a * 2 end)
      f(ipu.ones{2})
      return f
    end,
    model = function() return keras.Sequential{keras.layers.Dense{1, input_shape = {3}}} end,
    compiled = function()
      local m = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
      m:compile{optimizer = "sgd", loss = "mse"}
      return m
    end,
    cfg = function() return ipu.IPUConfig() end,
    pictures = function()
      local path = class_folder()
      ipu.image.write(path .. "/cat/1.png", ipu.zeros({4, 6, 3}, "uint8"))
      return path
    end,
    texts = function()
      local path = class_folder()
      local out <close> = assert(io.open(path .. "/cat/1.txt", "w"))
      out:write("a cat")
      return path
    end,
  }
  local env = {ipu = ipu, keras = keras, data = ipu.data, print = print, error = error,
    ipairs = ipairs, pairs = pairs, pcall = pcall, table = table, string = string, math = math,
      io = io,
    layers = keras.layers, K = keras.backend, require = require, tostring = tostring, type = type}
  env.set = load("return function(t, key, value) t[key] = value; return t end", "=sample")()
  return setmetatable(env, {__index = function(_, name)
    if makers[name] then
      env[name] = makers[name]()
      return env[name]
    end
    for _, module in ipairs{keras, keras.optimizers} do
      local ok, value = pcall(function() return module[name] end)
      if ok and value ~= nil then return value end
    end
  end})
end

local folder = os.tmpname()
os.remove(folder)
require "ipulua.core".make_folder(folder)

---Runs a call of a page in a folder of its own: true and its results as `shown` writes them, or
---false and the message. Its configuration is forgotten afterwards.
---@param code string
---@param shown fun(value: any): string
---@return boolean, any
function notes.try(code, shown)
  local env = environment()
  rawset(env, "folder", folder)
  local f = load("return " .. code, "=call", "t", env)
  local problem
  if not f then f, problem = load(code, "=call", "t", env) end
  if not f then return false, problem end
  ipu.keras.utils.set_random_seed(1)
  local before = {}
  for name in next, ipu do before[name] = true end
  local results = table.pack(pcall(function()
    local given = table.pack(f())
    for i = 1, given.n do
      given[i] = shown(given[i]):gsub(folder:gsub("%p", "%%%0"), "folder")
    end
    return table.unpack(given, 1, given.n)
  end))
  ipu.reset_ipu_configuration()
  ipu.disable_check_numerics()
  ipu.reset_default_graph()
  for name in pairs(ipu) do
    if not before[name] and rawget(ipu, name) ~= nil then rawset(ipu, name, nil) end
  end
  return table.unpack(results, 1, results.n)
end

---Removes the folders of the calls.
function notes.finish()
  made[#made + 1] = folder
  for _, each in ipairs(made) do os.execute("rm -rf '" .. each .. "'") end
end

---The values that code gives, or nil and its message without the line.
---@param code string
function notes.run(code)
  local f, problem_in_code = load("return " .. code, "=sample", "t", environment())
  if not f then error(code .. ": " .. problem_in_code, 0) end
  local results = table.pack(pcall(f))
  if results[1] then return table.unpack(results, 2, results.n) end
  return nil, notes.words(code, results[2])
end

---The words of the message that a sample raises, which must name the sample's line.
---@param code string
---@param message any
---@return string
function notes.words(code, message)
  local words = tostring(message):match("^sample:1: ([^\n]*)")
  if not words then notes.problem("%s: the message names another line: %s", code, message) end
  return words or tostring(message)
end

-- Errors with the messages after the code that provokes them.
local function with_messages(name, text)
  return (text:gsub("`([^`]+)`", function(code)
    local value, message = notes.run(code)
    if value ~= nil or not message then
      notes.problem("%s should raise an error: %s", name, code)
    end
    return string.format("`%s` (*%s*)", code, (tostring(message):gsub("[*`]", "\\%0")))
  end))
end

local function check_shapes(name, text)
  for code, shape in text:gmatch("`([^`]+)` → (%b[])") do
    local value, message = notes.run(code)
    local got = value and "[" .. table.concat(value.shape, ", ") .. "]" or message
    if got ~= shape then notes.problem("%s: %s gives %s, not %s", name, code, got, shape) end
  end
end

---The notes as lines for a list, indented.
---@param name string whose they are
---@param given table<string, string>
---@param indent string
---@return string[]
function notes.lines(name, given, indent)
  local list = {}
  for _, kind in ipairs(help.notes) do
    local text = given[kind]
    if kind == "Shapes" and text then check_shapes(name, text) end
    if kind == "Errors" and text then
      text = with_messages(name, text)
    else
      text = text and text:gsub("%*", "\\*")
    end
    if text then list[#list + 1] = string.format("%s- %s: %s", indent, kind, text) end
  end
  return list
end

---Raises when samples were wrong.
function notes.check()
  if #notes.problems > 0 then error("\n" .. table.concat(notes.problems, "\n"), 0) end
end

return notes
