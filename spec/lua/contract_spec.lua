-- What scripts write from the interface's description alone: other ways to say the same, and slips,
-- which are told at their line.

local command = require "spec.support.command"
local ipu = require "ipulua"
local keras <const> = ipu.keras
local layers <const> = keras.layers

local w <const> = ipu.Variable({1, 2}, {name = "contract"})
local sgd <const> = ipu.train.GradientDescentOptimizer(0.1)
local symbolic <const> = ipu.placeholder("float32", {2}, {name = "fed"})
local half <const> = layers.Dense{1, input_shape = {1}}

local function traced(f) return ipu.func(f)() end

local slips <const> = {
  {"a module's misspelt op", function() return ipu.nn.reluu end,
    "ipu.nn has no 'reluu'; did you mean 'relu'?"},
  {"a misspelt layer", function() return layers.Densee end,
    "keras.layers has no 'Densee'; did you mean 'Dense'?"},
  {"a misspelt optimizer", function() return keras.optimizers.Adamm end, "did you mean 'Adam'?"},
  {"a misspelt optimizer of ipu.train", function() return ipu.train.AdamOptimzer end,
    "did you mean 'AdamOptimizer'?"},
  {"a misspelt schedule", function() return keras.optimizers.schedules.CosinDecay end,
    "did you mean 'CosineDecay'?"},
  {"a misspelt collective", function() return ipu.within_replica.allreduce end,
    "did you mean 'all_reduce'?"},
  {"the beginning of a name", function() ipu.data.range(3):map(print, {num_parallel = 2}) end,
    "did you mean 'num_parallel_calls'?"},
  {"a table with names as data", function() local _ = ipu.tensor{a = 1} end,
    "tensor has no argument 'a'"},
  {"a table with names among numbers", function() w:assign{1, x = 2} end, "such as 'x'"},
  {"a boolean beside numbers", function() local _ = ipu.ones{2} + true end,
    "'b' must be a number or a tensor beside float32, got boolean (true)"},
  {"a string beside numbers", function() local _ = ipu.ones{2} + "x" end, "got string (x)"},
  {"zeros of a negative extent", function() local _ = ipu.zeros{-1} end, "zeros: extent -1"},
  {"integers that the dtype hasn't", function()
    ipu.random.uniform({2}, {maxval = 300, dtype = "uint8"})
  end,
    "uint8 is from 0 to below 256, minval is 0, maxval 300"},
  {"bounds of integers that are no integers", function()
    ipu.random.uniform({2}, {minval = 0.5, maxval = 7, dtype = "int32"})
  end,
    "int32 bounds are whole numbers, minval is 0.5, maxval 7"},
  {"a negative deviation", function() ipu.random.normal({2}, {stddev = -1}) end,
    "stddev must not be negative, got -1"},
  {"an extent of -2", function() ipu.placeholder("float32", {-2}) end, "got -2"},
  {"a ragged list in a .npy", function() ipu.save("two.npy", {ipu.ones{2}, ipu.ones{3}}) end,
    "save: the list is ragged: its tensors have different shapes"},
  {"two tensors in one .npy",
    function() ipu.save("two.npy", {a = ipu.ones{1}, b = ipu.ones{1}}) end, "one tensor, got 2"},
  {"a string fed", function()
    local session <close> = ipu.Session()
    session:run(symbolic, {feed_dict = {[symbolic] = "x"}})
  end, "fed to a placeholder of float32[2] must be a number, a list or a tensor, got string (x)"},
  {"a string assigned", function() w:assign("x") end,
    "assign: the value of variable 'contract' must be a number"},
  {"nothing added", function() w:assign_add() end, "assign_add: the value of variable 'contract'"},
  {"a string carried", function()
    traced(function() return ipu.loops.repeat_n(1, function(c) return c end, {"a"}) end)
  end,
    "repeat_n: carried value 1 must be a number"},
  {"a string returned by a body", function()
    traced(function() return ipu.loops.repeat_n(1, function(_) return "a" end, {0}) end)
  end,
    "repeat_n: value 1 that the body returned"},
  {"no pairs", function() sgd:apply_gradients() end,
    "pairs {gradient, variable} are wanted, got nil"},
  {"a number as pairs", function() sgd:apply_gradients{3} end,
    "the pairs are {gradient, variable}, got integer (3)"},
  {"a number as a variable", function()
    sgd:minimize(ipu.reduce_sum(symbolic * w), {var_list = {3}})
  end,
    "'var_list' must hold variables, got integer (3) at position 1"},
  {"nothing watched", function() ipu.GradientTape{persistent = true}:watch() end,
    "'value' is missing"},
  {"a number watched", function() ipu.GradientTape{persistent = true}:watch(3) end,
    "'value' must be a tensor"},
  {"an option of gradient, misspelt", function()
    ipu.GradientTape{persistent = true}:gradient(w, w, {output_gradient = w})
  end,
    "did you mean 'output_gradients'?"},
  {"a strategy on no device", function() ipu.IPUStrategy{ipu_device = "/device:IPX:0"} end,
    "'/device:IPX:0' is no device"},
  {"a strategy on the CPU", function() ipu.IPUStrategy{ipu_device = "cpu"} end, "is not an IPU"},
  {"an enumeration with a vowel", function() ipu.IPUOutfeedMode("some") end,
    "'some' is not an IPUOutfeedMode"},
  {"another type than an enumeration with a vowel",
    function() ipu.IPUOutfeedQueue{outfeed_mode = 3} end,
    "'outfeed_mode' must be an IPUOutfeedMode (ALL, LAST), got integer"},
  {"an unknown option of a stage", function() ipu.PipelineStageOptions{conv_options = {}} end,
    "'conv_options'"},
  {"a number among options of a stage", function()
    ipu.PipelineStageOptions{matmul_options = {partialsType = 16}}
  end,
    "'partialsType', integer (16)"},
  {"a timetable's misspelt schedule", function()
    ipu.timetable{schedul = "Grouped", device_mapping = {0, 1}}
  end,
    "timetable has no argument 'schedul'; did you mean 'schedule'?"},
  {"a target on no chip", function()
    ipu.estimate(function() return ipu.ones{1} end, {target = {base = "gc7"}})
  end,
    "base must be one of GC2, GC200, Bow, C600, got 'gc7'"},
  {"an estimate without inputs", function() ipu.estimate(ipu.func(function(x) return x end)) end,
    "the function takes 1 value, but 'inputs' describes 0"},
  {"a loss that is a number", function() keras.Sequential{half}:compile{loss = 3} end,
    "'loss' must be a string"},
  {"a metric that is a number", function()
    keras.Sequential{half}:compile{loss = "mse", metrics = 3}
  end, "'metrics' must be a string"},
  {"a class without a name", function() layers.Layer:extend() end, "must be a string, got nil"},
  {"an argument of any type", function() ipu.GradientTape{persistent = true}:gradient(w) end,
    "'sources' is missing"},
}

describe("a slip of the pen", function()
  for _, case in ipairs(slips) do
    it("is told: " .. case[1], function()
      local good, message = pcall(case[2])
      assert.is_false(good)
      assert.is_string(message)
      assert(message:find(case[3], 1, true), message)
      local line = tonumber(message:match("^[^\n]*contract_spec%.lua:(%d+): "))
      assert(line, message)
      local info = debug.getinfo(case[2], "S")
      assert(line >= info.linedefined and line <= info.lastlinedefined, message)
    end)
  end
end)

describe("a tensor", function()
  it("is made with a dtype by position, by name, and in one table", function()
    for _, t in ipairs{ipu.tensor({1, 2}, "int32"), ipu.tensor({1, 2}, {dtype = "int32"}),
      ipu.tensor{1, 2, dtype = "int32"},
      ipu.tensor{data = {1, 2}, dtype = "int32"}} do
      assert.is_true(ipu.is_tensor(t))
      assert.equal("int32", t.dtype)
      assert.same({1, 2}, t:totable())
    end
    assert.same({2, 2}, ipu.tensor{{1, 2}, {3, 4}, dtype = "float16"}.shape)
  end)

  it("is saved as .npy alone or under a name", function()
    local path = command.scratch ".npy"
    for _, given in ipairs{ipu.tensor{1, 2}, {x = ipu.tensor{1, 2}}} do
      ipu.save(path, given)
      assert.same({1, 2}, ipu.load(path):totable())
    end
    os.remove(path)
  end)
end)

describe("clip_by_global_norm", function()
  it("gives a list and the norm, at once and in a traced function", function()
    local function clip(a, b) return ipu.clip_by_global_norm({a, b}, 1) end
    for _, f in ipairs{clip, ipu.func(clip)} do
      local list, norm = f(ipu.tensor{3}, ipu.tensor{0, 4})
      assert.equal(2, #list)
      assert.near(0.6, list[1][1]:item(), 1e-6)
      assert.near(0.8, list[2][2]:item(), 1e-6)
      assert.equal(5.0, norm:item())
    end
    assert.equal(2, #ipu.clip_by_global_norm({ipu.ones{1}, ipu.ones{1}}, {clip_norm = 9}))
  end)
end)

describe("a variable", function()
  it("takes a list and names in one table", function()
    local v = ipu.Variable{1, 2, name = "listed", trainable = false}
    assert.same({1, 2}, v:totable())
    assert.equal("listed", v.name)
    assert.is_false(v.trainable)
    assert.same({{1, 2}, {3, 4}}, ipu.Variable{{1, 2}, {3, 4}, name = "rows"}:totable())
    assert.equal(5.0, ipu.Variable{5, name = "one"}:item())
    assert.equal("named", ipu.Variable{5, "named"}.name)
  end)
end)

describe("host_callback", function()
  it("takes numbers and lists for what was declared", function()
    local f = ipu.func(function(x)
      return ipu.host_callback(function(t) return t:item() * 2, {1, 2} end,
        {outputs = {{{}, "float32"}, {{2}, "int32"}}})(x)
    end)
    local a, b = f(ipu.tensor(3))
    assert.equal(6.0, a:item())
    assert.same({"int32", {1, 2}}, {b.dtype, b:totable()})
  end)
end)

describe("train_step", function()
  it("is one update with logs, outside of a traced function too", function()
    local model = keras.Sequential{layers.Dense{1, use_bias = false, kernel_initializer = "zeros",
      input_shape = {1}}}
    model:compile{optimizer = keras.optimizers.SGD{0.5}, loss = "mse"}
    -- loss of w = 0 at x = 1, y = 2: 4, gradient -4
    assert.equal(4.0, model:train_step(ipu.ones{1, 1}, ipu.full({1, 1}, 2)).loss:item())
    assert.same({{2.0}}, model:get_weights()[1]:totable())
    model:reset_metrics()
    assert.equal(0.0, model:test_step(ipu.ones{1, 1}, ipu.full({1, 1}, 2)).loss:item())
  end)
end)
