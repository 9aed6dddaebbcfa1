-- A locale with a decimal comma and its own order of letters must not change defaults of ops,
-- files, or values read from them. A program that ipulua is embedded in may have set one.

local command = require "spec.support.command"

local folder
local function make_locale()
  folder = command.folder()
  local made = ("localedef -i de_DE -f UTF-8 %s >/dev/null 2>&1"):format(command.quote(folder
    .. "/de_DE.UTF-8"))
  return os.execute(made) and true or false
end
local if_locale = make_locale() and it or pending

local script <const> = [[
local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers
ipu.random.set_seed(1)
assert(os.setlocale(os.getenv "WANTED"))
assert(os.getenv "WANTED" == "C" or tostring(0.5) == "0,5")
local told = {}
local function tell(...) told[#told + 1] = table.concat({...}, " ") end
local function bytes(t) return (require "ipulua.core".to_bytes(t):gsub(".",
  function(c) return ("%02x"):format(c:byte()) end)) end
tell(ipu.json.encode{0.5, 1e-3, 1e300, 2.0, -0.25})
tell(bytes(ipu.tensor(ipu.json.decode "[0.5, 1e-3, 2.0]")))
local x = ipu.tensor{{1e-3, 2e-3, 3e-3}, {-0.5, 0.25, 0.125}}
for name, y in pairs{norm = ipu.nn.layer_norm(x), leaky = ipu.nn.leaky_relu(x),
  unit = ipu.nn.l2_normalize(x * 1e-6)} do
  told[name] = name .. bytes(y)
end
tell(told.norm, told.leaky, told.unit)
local model = keras.Sequential{L.Dense{2, input_shape = {3}}, L.LeakyReLU{alpha = 0.3},
  L.BatchNormalization{epsilon = 0.0625}}
model:compile{optimizer = keras.optimizers.Adam{0.125, epsilon = 1e-5}, loss = "mse"}
local path = os.getenv "FOLDER" .. "/m"
model:fit{x, x:slice({0, 0}, {2, 2}), epochs = 2, verbose = 0,
  callbacks = {keras.callbacks.CSVLogger(path .. ".csv")}}
model:save(path .. ".safetensors")
local again = keras.models.load_model(path .. ".safetensors")
tell(bytes(again(x)), bytes(again(x)) == bytes(model(x)) and "same" or "other")
keras.onnx.export(model, path .. ".onnx")
tell(bytes(keras.onnx.import(path .. ".onnx")(x)))
local cfg = ipu.IPUConfig()
cfg:from_json(cfg:to_json())
tell(cfg:to_json())
ipu.train.Checkpoint{model = model, select_ipus = 1, selection_order = 2}:save(path
  .. os.getenv "WANTED")
for _, saved in ipairs{"C", "de_DE.UTF-8"} do -- the other locale's point, too
  if #(ipu.train.latest_checkpoint(path .. saved) or "") > 0 then
    ipu.train.Checkpoint{model = model, select_ipus = 0, selection_order = 0}:restore(path .. saved)
  end
end
for line in io.lines(path .. ".csv") do tell(line) end
print(table.concat(told, "\n"))
]]

describe("a locale with a decimal comma", function()
  teardown(function() command.remove(folder) end)

  if_locale("changes neither numbers nor files", function()
    local function told(locale, profile)
      local r = command.run{command.ipulua, "--profile", folder .. "/" .. profile, "-",
        stdin = script,
        env = {LOCPATH = folder, WANTED = locale, FOLDER = folder, IPULUA_PROGRESS = "off"}}
      assert.equal(0, r.status, r.err)
      return r.out
    end
    assert.equal(told("C", "c"), told("de_DE.UTF-8", "de"))
    local pipe <close> = io.popen("cat " .. command.quote(folder) .. "/de/*/profile.json")
    assert(require "ipulua.base.json".parse(pipe:read("a")))
  end)
end)
