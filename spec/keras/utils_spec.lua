-- Helpers and data sets.

local command = require "spec.support.command"
local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("keras.utils", function()
  it("to_categorical", function()
    assert.are.same({{1, 0, 0}, {0, 0, 1}}, keras.utils.to_categorical{{0, 2}}:totable())
    assert.are.same({{0, 1, 0, 0}}, keras.utils.to_categorical({1}, 4):totable())
  end)

  it("set_random_seed repeats weights", function()
    local function weights()
      keras.utils.set_random_seed(7)
      return keras.initializers.GlorotUniform(){3, 2}:totable()
    end
    assert.are.same(weights(), weights())
  end)

  it("plot_model draws with graphviz, where that is", function()
    local model = keras.Sequential{keras.layers.Dense{2, input_shape = {3}}}
    local path = command.scratch ".png"
    if os.execute("command -v dot >/dev/null") then
      keras.utils.plot_model(model, {to_file = path, show_shapes = true})
      local file <close> = assert(io.open(path, "rb"))
      assert.equal("\137PNG\r\n\26\n", file:read(8))
    else
      assert.matches("graphviz's 'dot' is needed", message_of(keras.utils.plot_model, model, {to_file = path}))
    end
    os.remove(path)
    assert.matches("'model' must be", message_of(keras.utils.plot_model, 3))
    assert.matches("must end in .dot, .png", message_of(keras.utils.plot_model, model, {to_file = "model.txt"}))
    assert.is_nil(io.open("model.dot"))
  end)

  it("plot_model writes the graph of layers", function()
    local x = keras.Input{shape = {2}, name = "in"}
    local y = layers.Dense{3, name = "left"}(x)
    local model = keras.Model{inputs = x, outputs = layers.Add{name = "sum"}{y, y}, name = "m"}
    local path = command.scratch ".dot"
    local text = keras.utils.plot_model(model, {to_file = path, show_shapes = true})
    os.remove(path)
    assert.matches('digraph "m"', text)
    assert.is_not_nil(text:find('label="left: Dense\\n(None, 3)"', 1, true))
    assert.matches("l1 %-> l2;\n  l2 %-> l3;", text)
  end)

  it("vocabulary numbers characters, generate_text writes", function()
    local v = keras.utils.vocabulary("hello wörld")
    assert.equal("?d", v:decode{v.size, v:encode("d"):item()})
    assert.error_matches(function() v:decode(3) end, "a list of integers is wanted, got integer %(3%)")
    assert.error_matches(function() v:decode{0.5} end, "integers are wanted, got number %(0.5%)")
    assert.error_matches(function() v:encode(3) end, "a string is wanted, got integer")
    assert.are.equal(" ", v.characters[1])
    assert.are.equal("hell", v:decode(v:encode("hell")))
    assert.matches("the character 'x' is unknown", message_of(v.encode, v, "x"))
    -- a model that says that the next character is the one after in the vocabulary
    local Next = keras.Model:extend("Next")
    function Next:call(x) -- luacheck: ignore 212
      return ipu.one_hot(ipu.mod(x + 1, v.size), v.size) * 100
    end
    assert.are.equal("dehl", keras.utils.generate_text(Next(), v, "d", {length = 3}))
  end)
end)
