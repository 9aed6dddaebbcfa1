-- Tables that hold themselves, given wherever tables are walked through: an error in words, not the
-- end of the stack.

local ipu = require "ipulua"
local keras = ipu.keras

local function list() local t = {} t[1] = t return t end
local function record() local t = {} t.a = t return t end
local function model() return keras.Sequential{keras.layers.Dense{1, input_shape = {2}}} end
local function compiled()
  local m = model()
  m:compile{optimizer = "sgd", loss = "mse"}
  return m
end

local cases <const> = {
  ["a tensor"] = function() ipu.tensor(list()) end,
  ["arguments of a function"] = function() ipu.func(function(x) return x end)(list()) end,
  ["results of a function"] = function() ipu.func(function() return record() end)() end,
  ["results of a branch"] = function()
    ipu.func(function(x) return ipu.cond(x:greater(0), list, list) end)(ipu.tensor(1.0))
  end,
  ["fetches of a session"] = function() ipu.Session():run(list()) end,
  ["values of a tape"] = function()
    local tape = ipu.GradientTape()
    tape(function() end)
    tape:gradient(ipu.tensor(1.0), list())
  end,
  ["inputs of a pipeline"] = function()
    ipu.pipeline({function(x) return x end, function(x) return x end},
      {inputs = list(), gradient_accumulation_count = 4})
  end,
  ["elements of a dataset"] = function() ipu.data.from_tensors(list()) end,
  ["what a map gives"] = function() ipu.data.range(3):map(list) end,
  ["what an eager map gives"] = function()
    for _ in ipu.data.range(3):map(list, {eager = true}):iter() do end
  end,
  ["datasets of a zip"] = function() ipu.data.zip(list()) end,
  ["types of a generator"] = function()
    ipu.data.from_generator(function() return list end,
      {output_types = list(), output_shapes = list()})
  end,
  ["inputs of a layer"] = function() keras.layers.Concatenate()(list()) end,
  ["shapes of a layer"] = function() keras.layers.Dense(2):build(list()) end,
  ["inputs of predict"] = function() compiled():predict(list()) end,
  ["named inputs of predict"] = function() compiled():predict(record()) end,
  ["inputs of fit"] = function() compiled():fit(list(), list(), {verbose = 0}) end,
  ["losses"] = function() model():compile{optimizer = "sgd", loss = list()} end,
  ["metrics"] = function() model():compile{optimizer = "sgd", loss = "mse", metrics = list()} end,
  ["a layer's description"] = function()
    keras.Sequential{keras.layers.Lambda{function(x) return x end, arguments = record()}}:to_json()
  end,
  ["objects of a checkpoint"] = function() ipu.train.Checkpoint{a = list()}:save(os.tmpname()) end,
  ["sequences"] = function() keras.preprocessing.sequence.pad_sequences(list()) end,
  ["steps of sequences"] = function()
    keras.preprocessing.sequence.pad_sequences{list(), list()}
  end,
}

describe("tables that hold themselves are refused as", function()
  for name, f in pairs(cases) do
    it(name, function()
      local ok, message = pcall(f)
      assert.is_false(ok)
      assert.matches("nested_spec.lua:%d+: .*nested", message)
      assert.is_nil(message:find("overflow", 1, true))
    end)
  end
end)

describe("batches larger than the samples", function()
  it("are all samples at once", function()
    local m = compiled()
    for _, batch in ipairs{2 ^ 31 | 0, math.maxinteger, 11} do
      assert.equal(10, m:predict(ipu.ones{10, 2}, {batch_size = batch}).shape[1])
    end
  end)

  it("are refused at once where inputs fix another, with the nearest divisor", function()
    local input = ipu.keras.Input{shape = {2}, batch_size = 7}
    local m = ipu.keras.Model{inputs = input, outputs = ipu.keras.layers.Dense{1}(input)}
    for batch, divisor in pairs{[2 ^ 31 | 0] = 10, [math.maxinteger] = 10, [9] = 10, [4] = 5,
      [3] = 2} do
      local ok, message = pcall(m.predict, m, ipu.ones{10, 2}, {batch_size = batch})
      assert.is_false(ok)
      assert.matches("divides 10 %(" .. divisor .. ", say%)", message)
    end
    assert.error_matches(function() m:predict(ipu.ones{10, 2}, {batch_size = 7}) end,
      "partial batch; the inputs of the model fix it, so add 4, or leave 3 out")
  end)
end)
