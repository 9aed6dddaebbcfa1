local summary = require "ipulua.keras.models.summary"
local text_columns = require "ipulua.base.text.columns"

local function mlp()
  return {
    name = "mlp",
    rows = {
      {name = "flatten", class = "Flatten", output_shape = {-1, 784}, params = 0},
      {name = "dense", class = "Dense", output_shape = {-1, 256}, params = 200960, stage = 0,
        cycles = 12345, bytes = 803840},
      {name = "dense_1", class = "Dense", output_shape = {-1, 10}, params = 2570},
    },
    totals = {trainable = 203530, non_trainable = 0},
  }
end

local function functional()
  return {
    name = "two_inputs",
    rows = {
      {name = "input_1", class = "InputLayer", output_shape = {-1, 784}, params = 0,
        connected_to = {}},
      {name = "dense", class = "Dense", output_shape = {-1, 64}, params = 50240,
        connected_to = {"input_1[0][0]"}},
      {name = "dense_1", class = "Dense", output_shape = {-1, 64}, params = 50240,
        connected_to = {"input_1[0][0]"}},
      {name = "add", class = "Add", output_shape = {-1, 64}, params = 0,
        connected_to = {"dense[0][0]", "dense_1[0][0]"}},
    },
    totals = {trainable = 100480, non_trainable = 0},
  }
end

-- Golden tables keep their trailing spaces, so each line ends with a bar here.
local function barred(lines)
  local out = {}
  for i, line in ipairs(lines) do out[i] = line .. "|" end
  return table.concat(out, "\n") .. "\n"
end

describe("the classic summary", function()
  it("has three columns ending at 29, 55 and 65", function()
    assert.equal([[
Model: "mlp"|
_________________________________________________________________|
Layer (type)                 Output Shape              Param #   |
=================================================================|
flatten (Flatten)            (None, 784)               0         |
_________________________________________________________________|
dense (Dense)                (None, 256)               200960    |
_________________________________________________________________|
dense_1 (Dense)              (None, 10)                2570      |
=================================================================|
Total params: 203,530|
Trainable params: 203,530|
Non-trainable params: 0|
_________________________________________________________________|
]], barred(summary.lines(mlp(), {style = "classic"})))
  end)

  it("has a fourth one for connections", function()
    assert.equal([[
Model: "two_inputs"|
__________________________________________________________________________________________________|
Layer (type)                    Output Shape         Param #     Connected to                     |
==================================================================================================|
input_1 (InputLayer)            [(None, 784)]        0                                            |
__________________________________________________________________________________________________|
dense (Dense)                   (None, 64)           50240       input_1[0][0]                    |
__________________________________________________________________________________________________|
dense_1 (Dense)                 (None, 64)           50240       input_1[0][0]                    |
__________________________________________________________________________________________________|
add (Add)                       (None, 64)           0           dense[0][0]                      |
                                                                 dense_1[0][0]                    |
==================================================================================================|
Total params: 100,480|
Trainable params: 100,480|
Non-trainable params: 0|
__________________________________________________________________________________________________|
]], barred(summary.lines(functional(), {style = "classic"})))
  end)

  it("cuts long names and takes a width", function()
    local d = mlp()
    d.rows = {{name = ("n"):rep(40), class = "Dense", output_shape = {-1, 10}, params = 1}}
    local lines = summary.lines(d, {style = "classic", line_length = 40, positions = {.5, .8, 1.}})
    assert.equal(("_"):rep(40), lines[2])
    assert.equal(("n"):rep(19) .. " (None, 10)  1       ", lines[5])
  end)

  it("adds stage, cycles, bytes and stash", function()
    local lines = summary.lines(mlp(), {style = "classic", ipu = true})
    assert.equal(
      "Layer (type)                 Output Shape              Param #   Stage  Cycles        Bytes "
      .. "        Stash  ", lines[3])
    assert.equal(
      "dense (Dense)                (None, 256)               200960    0      12,345        "
      .. "803,840       -      ", lines[7])
  end)
end)

describe("the modern summary", function()
  it("is 76 wide on 80 columns", function()
    local d = mlp()
    d.totals.optimizer = 5
    assert.equal([[
Model: "mlp"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓
┃ Layer (type)                    ┃ Output Shape           ┃       Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
│ flatten (Flatten)               │ (None, 784)            │             0 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ dense (Dense)                   │ (None, 256)            │       200,960 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ dense_1 (Dense)                 │ (None, 10)             │         2,570 │
└─────────────────────────────────┴────────────────────────┴───────────────┘
 Total params: 203,535 (795.06 KB)
 Trainable params: 203,530 (795.04 KB)
 Non-trainable params: 0 (0.00 B)
 Optimizer params: 5 (20.00 B)
]], summary.text(d, {style = "modern", columns = 80}))
  end)

  it("wraps and connects", function()
    local d = functional()
    d.rows[2].name = "a_very_long_layer_name_that_breaks"
    assert.equal([[
Model: "two_inputs"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ input_1             │ (None, 784)       │          0 │ -                 │
│ (InputLayer)        │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ a_very_long_layer_n │ (None, 64)        │     50,240 │ input_1[0][0]     │
│ ame_that_breaks     │                   │            │                   │
│ (Dense)             │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_1 (Dense)     │ (None, 64)        │     50,240 │ input_1[0][0]     │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ add (Add)           │ (None, 64)        │          0 │ dense[0][0],      │
│                     │                   │            │ dense_1[0][0]     │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 100,480 (392.50 KB)
 Trainable params: 100,480 (392.50 KB)
 Non-trainable params: 0 (0.00 B)
]], summary.text(d, {style = "modern", columns = 80}))
  end)

  it("is at most 88 wide, and never fails on a narrow terminal", function()
    assert.equal(88, text_columns.width(summary.lines(mlp(), {style = "modern", columns = 300})[2]))
    for columns = 1, 40, 3 do
      local lines = summary.lines(mlp(), {style = "modern", columns = columns})
      local width = text_columns.width(lines[2])
      for _, line in ipairs(lines) do
        if line:find("^[┃│]") then assert.equal(width, text_columns.width(line)) end
      end
    end
  end)

  it("adds stage, cycles, bytes and stash", function()
    for _, line in ipairs(summary.lines(mlp(), {style = "modern", ipu = true, columns = 80})) do
      assert.is_true(utf8.len(line) <= 80, line)
    end
    local lines = summary.lines(mlp(), {style = "modern", ipu = true, line_length = 76})
    assert.matches("┃       Param # ┃ Stage ┃       Cycles ┃        Bytes ┃ Stash ┃",
      lines[3], 1, true)
    assert.matches("│       200,960 │     0 │       12,345 │      803,840 │     - │",
      lines[7], 1, true)
  end)
end)

describe("summaries", function()
  it("print what is not known", function()
    for _, style in ipairs {"classic", "modern"} do
      local all = summary.text({rows = {{}, {name = "d", class = "Dense", built = false}}},
        {style = style, columns = 80})
      assert.matches('Model: "?"', all, 1, true)
      assert.matches("? (?)", all, 1, true)
      assert.matches(style == "classic" and "multiple" or "?", all, 1, true)
      assert.matches(style == "classic" and "0 (unused)" or "0 (unbuilt)", all, 1, true)
      assert.is_string(summary.text({}, {style = style, columns = 80}))
    end
  end)

  for _, case in ipairs {
    {nil, "?"}, {{}, "()"}, {{-1}, "(None,)"}, {{-1, 28, 28.0}, "(None, 28, 28)"},
    {{{-1, 1}, {2}}, "[(None, 1), (2,)]"},
    {"multiple", "multiple"},
  } do
    it("show the shape " .. case[2], function()
      assert.equal(case[2], summary.show_shape(case[1]))
    end)
  end

  it("show bytes and counts for people", function()
    assert.equal("918.54 KB", summary.show_bytes(235146 * 4))
    assert.equal("1.50 GB", summary.show_bytes(1.5 * 2^30))
    assert.equal("1,234,567", text_columns.commas(1234567))
    assert.equal("-1,000", text_columns.commas(-1000))
    assert.equal("999", text_columns.commas(999))
  end)
end)

describe("the pipeline stage table", function()
  it("of a sequential model ends its columns at 50 and 100 %", function()
    local lines = summary.stage_lines({name = "m", rows = {
      {name = "flatten", class = "Flatten"}, {name = "dense", class = "Dense", stage = 1},
    }}, 65)
    assert.equal([[
Model: "m"|
_________________________________________________________________|
Layer (type)                    Pipeline Stage                   |
=================================================================|
flatten (Flatten)               None                             |
_________________________________________________________________|
dense (Dense)                   1                                |
=================================================================|
]], barred(lines))
    assert.equal(("_"):rep(60), summary.stage_lines({name = "m", rows = {}})[2])
  end)

  it("of a functional model has indices and inputs", function()
    assert.equal([[
Model: "two_inputs"|
_________________________________________________________________________________________|
Layer (type) (node index)          Input Layers                        Pipeline Stage    |
=========================================================================================|
dense (Dense) (0)                  input_1                             0                 |
_________________________________________________________________________________________|
add (Add) (0)                      dense                               1                 |
                                   dense_1                                               |
=========================================================================================|
]], barred(summary.stage_lines {name = "two_inputs", functional = true, rows = {
      {name = "dense", class = "Dense", node_index = 0, inputs = {"input_1"}, stage = 0},
      {name = "add", class = "Add", node_index = 0, inputs = {"dense", "dense_1"}, stage = 1},
    }}))
  end)

  it("shows models used as layers", function()
    assert.equal([[
Model: "m"|
________________________________________|
Layer (type)        Pipeline Stage      |
========================================|
a (Dense)           0                   |
========================================|
Nested Model: "inner"|
----------------------------------------|
b (Dense)           0                   |
________________________________________|
c (Dense)           1                   |
========================================|
d (Dense)           1                   |
========================================|
]], barred(summary.stage_lines({name = "m", rows = {
      {name = "a", class = "Dense", stage = 0},
      {nested = {name = "inner", rows = {
        {name = "b", class = "Dense", stage = 0}, {name = "c", class = "Dense", stage = 1}}}},
      {name = "d", class = "Dense", stage = 1},
    }}, 40)))
  end)
end)

-- Keras 2.6 raises ValueError for a model that is not built, and shows "multiple" for layers of a
-- subclass's own `call`.
describe("model:summary", function()
  local ipu = require "ipulua"
  local keras, layers = ipu.keras, ipu.keras.layers
  local Own = keras.Model:extend("Own")
  function Own:init()
    keras.Model.init(self, {name = "own"})
    self.inner = layers.Dense{2, name = "inner"}
  end
  function Own:call(x) return self.inner(x) end

  local function shown(model)
    local lines = {}
    model:summary{print_fn = function(line) lines[#lines + 1] = line end}
    return table.concat(lines, "\n")
  end

  it("shows the layers of models in the model", function()
    local inner = keras.Sequential{layers.Dense{4, input_shape = {3}, name = "a"},
      layers.Dense{2, name = "b"}, name = "inner"}
    local middle = keras.Sequential{inner, layers.Dense{5, name = "c"}, name = "middle"}
    local outer = keras.Sequential{middle, layers.Dense{1, name = "d"}, name = "outer"}
    local function lines_of(style, expand_nested)
      local lines = {}
      outer:summary{style = style, expand_nested = expand_nested, line_length = 65,
        print_fn = function(line) lines[#lines + 1] = line end}
      return table.concat(lines, "\n")
    end
    local expanded = lines_of("classic", true)
    assert.matches([[
|---------------------------------------------------------------|
| inner (Sequential)         (None, 2)                 26       |
||-------------------------------------------------------------||
|| a (Dense)                 (None, 4)                 16      ||
|| b (Dense)                 (None, 2)                 10      ||
|---------------------------------------------------------------|
| c (Dense)                  (None, 5)                 15       |
-----------------------------------------------------------------
_________________________________________________________________
d (Dense)]], expanded, 1, true)
    assert.matches("\nTotal params: 47\n", expanded)
    assert.is_nil(lines_of("classic"):find("a (Dense)", 1, true))
    assert.matches("│ middle .*│ └ inner .*│ └└ a .*│ └└ b .*│ └ c .*│ d ",
      lines_of("modern", true))
  end)

  it("says which layers train", function()
    local m = ipu.keras.Sequential{layers.Dense{4, input_shape = {3}, name = "a"},
      layers.Dense{2, name = "b"}}
    m.layers[1].trainable = false
    for _, style in ipairs{"classic", "modern"} do
      local lines = {}
      m:summary{style = style, show_trainable = true,
        print_fn = function(line) lines[#lines + 1] = line end}
      local text = table.concat(lines, "\n")
      assert.matches("Trainable", text)
      assert.matches("a %(Dense%)[^\n]* N ", text)
      assert.matches("b %(Dense%)[^\n]* Y ", text)
    end
  end)

  it("refuses a model that is not built", function()
    for _, model in ipairs{keras.Sequential{layers.Dense(1), name = "bare"}, Own()} do
      local ok, message = pcall(function() model:summary() end)
      assert.is_false(ok)
      assert.matches("^[^\n]*summary_spec%.lua:%d+: summary: model '" .. model.name
        .. "' is not built yet", message)
    end
    local empty = keras.Sequential()
    assert.has_error(function() empty:summary() end)
  end)

  it("shows the same models once they are built", function()
    local bare = keras.Sequential{layers.Dense{1, name = "one"}}
    bare:build{2, 3}
    assert.matches("one (Dense)                  (None, 1)                 4", shown(bare), 1, true)
    local own = Own()
    own(ipu.ones{2, 3})
    assert.matches("inner (Dense)                multiple                  8", shown(own), 1, true)
  end)
end)
