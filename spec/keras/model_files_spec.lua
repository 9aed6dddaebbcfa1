-- Files of models that somebody else may have written: what they may name, and what is damaged in
-- them.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"
local json = require "ipulua.base.json"

local keras, layers = ipu.keras, ipu.keras.layers

local function described(layer, shape, dtype)
  local i = keras.Input{shape = shape, dtype = dtype, name = "i"}
  return json.decode(keras.Model{inputs = i, outputs = layer(i)}:to_json())
end

-- As Python's reader has it, which takes neither NaN nor a name twice nor other text than UTF-8
-- here.
local strict <const> = [[
import json, sys
def pairs(list):
    names = [name for name, _ in list]
    assert len(set(names)) == len(names), names
    return dict(list)
def refuse(word): raise ValueError(word)
for path in sys.argv[1:]:
    json.loads(open(path, "rb").read().decode("utf-8"), object_pairs_hook=pairs, parse_constant=refuse)
print("read", len(sys.argv) - 1)]]

describe("JSON", function()
  it("that is written is read by other programs", function()
    local folder, i = command.folder(), keras.Input{shape = {2}}
    finally(function() command.remove(folder) end)
    local m = keras.Model{inputs = i,
      outputs = layers.ReLU{max_value = math.huge}(layers.Dense{2, name = "grö\"ß\\e"}(i))}
    m:compile{optimizer = keras.optimizers.SGD{0.1, clipnorm = math.huge}, loss = "mse"}
    m:save(folder .. "/m.safetensors")
    ipu.train.Checkpoint{model = m,
      values = {1, math.huge, {x = -math.huge, y = 0 / 0}, "\127é\1"}}:save(folder)
    local words = keras.preprocessing.text.Tokenizer()
    words:fit_on_texts{"é \1 b", "b"}
    local _, metadata = core.load(folder .. "/m.safetensors")
    local texts = {m:to_json(), metadata.model, metadata.training, metadata.options, metadata.order,
      words:to_json(), ipu.IPUConfig():to_json()}
    local paths = {folder .. "/latest.json", folder .. "/step-000000/state.json"}
    for k, text in ipairs(texts) do
      paths[#paths + 1] = folder .. "/" .. k .. ".json"
      command.write(paths[#paths], text)
    end
    local r = command.run{"/usr/bin/python3", "-c", strict, table.unpack(paths)}
    assert.equal("read " .. #paths .. "\n", r.out, r.err)
  end)

  it("of a profile is UTF-8, whatever the layers are called", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local script <const> = string.format([[
      local ipu = require "ipulua"
      local keras, cfg = ipu.keras, ipu.IPUConfig()
      cfg.auto_select_ipus = 1
      cfg.compilation_poplar_options = {["autoReport.all"] = "true", ["autoReport.directory"] = %q}
      cfg:configure_ipu_system()
      local scope <close> = ipu.IPUStrategy():scope()
      local m = keras.Sequential{keras.layers.Dense{2, input_shape = {3}, name = "gr\xf6\xdfe"}}
      m:compile{optimizer = "sgd", loss = "mse"}
      m:fit{ipu.ones{8, 3}, ipu.ones{8, 2}, batch_size = 4, verbose = 0}]], folder)
    local r = command.run{command.ipulua, "-e", script}
    assert.equal(0, r.status, r.err)
    local list = io.popen("ls " .. command.quote(folder) .. "/*/*.json")
    local paths = {}
    for path in list:lines() do paths[#paths + 1] = path end
    list:close()
    assert(#paths >= 1)
    r = command.run{"/usr/bin/python3", "-c", strict, table.unpack(paths)}
    assert.equal("read " .. #paths .. "\n", r.out, r.err)
    assert.matches("gr\\ufffd\\ufffde", command.read(paths[1]))
  end)
end)

describe("a model's file", function()
  it("names no op that only gradients and programs call", function()
    local spec, refused = described(function(x) return ipu.square(x) end, {3}), 0
    for name in pairs(core.ops) do
      if core.describe_op(name).internal then
        spec.config.layers[1].config.op = name
        spec.config.layers[2].config.op = name
        assert.error_matches(function() keras.models.model_from_json(json.encode(spec)) end,
          "there is no op '" .. name .. "'", 1, true)
        refused = refused + 1
      end
    end
    assert.is_true(refused > 40)
  end)

  it("opens no other file: IntegerLookup's vocabulary is a list", function()
    local path = command.scratch ".txt"
    command.write(path, "11\n12\n")
    local spec = described(layers.IntegerLookup{vocabulary = path}, {1}, "int64")
    assert.same({11, 12}, spec.config.layers[2].config.vocabulary)
    spec.config.layers[2].config.vocabulary = path
    assert.error_matches(function() keras.models.model_from_json(json.encode(spec)) end,
      "IntegerLookup:from_config: a configuration has a list of integers as its 'vocabulary', got "
      .. "string")
    os.remove(path)
  end)
end)
