-- Files of models that somebody else may have written: what they may name, and what is damaged in them.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"
local json = require "ipulua.json"

local keras, layers = ipu.keras, ipu.keras.layers

local function described(layer, shape, dtype)
  local i = keras.Input{shape = shape, dtype = dtype, name = "i"}
  return json.decode(keras.Model{inputs = i, outputs = layer(i)}:to_json())
end

describe("a model's file", function()
  it("names no op that only gradients and programs call", function()
    local spec, refused = described(function(x) return ipu.square(x) end, {3}), 0
    for name in pairs(core.ops) do
      if core.describe_op(name).internal then
        spec.config.layers[1].config.op = name
        spec.config.layers[2].config.op = name
        assert.error_matches(function() keras.models.model_from_json(json.encode(spec)) end, "there is no op '" .. name .. "'", 1, true)
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
      "IntegerLookup:from_config: a configuration has a list of integers as its 'vocabulary', got string")
    os.remove(path)
  end)
end)
