-- Bad inputs: an error at the script's line, in its terms; never a crash or a hang.

local ipu = require "ipulua"

local t <const> = ipu.tensor{{1, 2}, {3, 4}}

local function sequential() return ipu.keras.Sequential{ipu.keras.layers.Dense(1)} end
local function compiled(loss)
  local m = sequential()
  m:compile{loss = loss}
  return m
end
local function train(m, callbacks)
  m:fit(ipu.ones{4, 3}, ipu.ones{4, 1}, {batch_size = 4, verbose = 0, callbacks = callbacks})
end

local holds_itself = {}
holds_itself[1] = holds_itself

local cases <const> = {
  {"nothing", function() ipu.tensor(nil) end, "'data' is missing"},
  {"a function as a tensor", function() ipu.tensor(print) end, "got function"},
  {"ragged lists", function() ipu.tensor{{1, 2}, {3}} end, "ragged"},
  {"a list in itself", function() ipu.tensor(holds_itself) end, "nested deeper than 8"},
  {"a string among numbers", function() ipu.tensor{1, "a"} end, "must hold numbers, got string"},
  {"a number that a dtype can't hold", function() ipu.tensor(300, {dtype = "uint8"}) end,
    "300 does not fit uint8"},
  {"a float that a dtype can't hold", function() ipu.tensor({300.0}, {dtype = "uint8"}) end,
    "300%.0 does not fit uint8"},
  {"a power that a dtype can't hold", function() ipu.tensor(2 ^ 31, {dtype = "int32"}) end,
    "2147483648%.0 does not fit int32"},
  {"a float beyond all integers", function() ipu.tensor(-2 ^ 64, {dtype = "int64"}) end,
    "%-1%.8.*e%+19 does not fit int64"},
  {"a float operand that the other's dtype can't hold", function()
    return ipu.ones({2}, {dtype = "int8"}) + 128.0
  end,
    "add: 'b': 128%.0 does not fit int8"},
  {"a fraction as an integer", function() ipu.tensor(0.5, {dtype = "int32"}) end,
    "0%.5 is no int32"},
  {"negative extents", function() ipu.zeros{-1} end, "extent %-1 of dimension 0 is negative"},
  {"more bytes than there are addresses", function() ipu.zeros{1 << 40, 1 << 40} end, "too large"},
  {"more bytes than there is memory", function() ipu.zeros{1 << 42} end, "cannot allocate"},
  {"eye without end", function() ipu.eye(1 << 40) end, "too many"},
  {"arange to infinity", function() ipu.arange(math.huge) end, "inf elements are too many"},
  {"arange to NaN", function() ipu.arange(0 / 0) end, "not NaN"},
  {"arange by nothing", function() ipu.arange(0, 5, 0) end, "'step' must not be 0"},
  {"a step as a count", function() ipu.linspace(0, 1, -1) end, "must not be negative"},
  {"constant in another shape", function() ipu.constant({1, 2, 3}, {shape = {2}}) end,
    "%[3%] has 3 elements.*%[2%]"},
  -- luacheck: ignore 122
  {"assigning to a field", function() t.rows = 3 end, "can't be assigned to, such as 'rows'"},
  {"the value of a matrix", function() t:item() end, "only a tensor of one element has one value"},
  {"a misspelt field", function() return t.sahpe end,
    "a tensor has no 'sahpe'; did you mean 'shape'"},
  {"a tensor's ndim", function() return t.ndim end, "a tensor has no 'ndim'; did you mean 'rank'"},
  {"a tensor's H", function() return t.H end, "a tensor has no 'H'; did you mean 'T'"},
  {"a name that nothing is like", function() return t.kwyjibo end, "a tensor has no 'kwyjibo'$"},
  {"a misspelt method", function() t:resahpe{4} end,
    "a tensor has no 'resahpe'; did you mean 'reshape'"},
  {"indexing by nothing", function() return t[nil] end,
    "a row's number, from 1, or by the name of a field or method, got nil"},
  {"indexing by a boolean", function() return t[true] end, "or method, got boolean %(true%)"},
  {"indexing by a list of rows", function() return t[{{1, 2, 1}}] end,
    "a range in a tensor's index is {first, last}, got 3 numbers"},
  {"indexing by a fraction", function() return t[1.5] end, "a row's number must be an integer"},
  {"a misspelt field of a model's tensor", function() return ipu.keras.Input{3}.sahpe end,
    "has no 'sahpe'; did you mean 'shape'"},
  {"the value of a model's tensor", function() return ipu.keras.Input{3}:item() end,
    "has no 'item'; model:predict"},
  {"comparing tensors", function() return t < t end, "ipu%.less"},
  {"adding a string", function() return t + "x" end,
    "'b' must be a number, a list or a tensor, got string"},
  {"a product of the wrong shapes", function() t:matmul(ipu.ones{3, 3}) end,
    "inner extents 2 and 3 differ"},
  {"a misspelt argument", function() ipu.reduce_sum(t, {axes = 1}) end, "did you mean 'axis'"},
  {"an axis that isn't there", function() ipu.reduce_sum(t, {axis = 5}) end,
    "axis: 5 is out of range"},
  {"a label that is no class", function()
    ipu.nn.sparse_softmax_cross_entropy_with_logits(ipu.tensor({0, 2, 3}, {dtype = "int64"}),
      ipu.zeros{3, 3})
  end, "labels%[2%] is 3, outside 0 … 2"},
  {"a label below the classes", function()
    ipu.keras.losses.sparse_categorical_crossentropy(ipu.tensor{-1}, ipu.tensor{{0.5, 0.5}})
  end, "labels%[0%] is %-1, outside 0 … 1"},
  {"an index out of range", function() ipu.gather(t, ipu.tensor({5}, {dtype = "int32"})) end,
    "indices%[0%] is 5, outside 0"},
  {"saving to no folder", function() ipu.save("/no/such/x.npz", {a = t}) end, "/no/such/x%.npz"},
  {"what NumPy has no name for", function()
    ipu.save("/no/such/x.npz", {a = ipu.ones({2}, {dtype = "bfloat16"})})
  end,
    "/no/such/x%.npz: member 'a%.npy': npy files can't hold bfloat16"},
  {"one tensor without a name", function() ipu.save("x.npz", t) end,
    "'x.npz' holds tensors by name, as in {x = tensor}"},
  {"one tensor in no format", function() ipu.save("x.txt", t) end,
    "'x.txt' must end in .safetensors, .npz or .npy"},
  {"a tensor as a list of tensors", function() ipu.concat(t, t) end,
    "must be a list of tensors, got a tensor float32%[2, 2%]"},
  {"tensors of a dataset one by one", function() ipu.data.from_tensor_slices(t, t) end,
    "several tensors go in a list, from_tensor_slices{x, y}"},
  {"a list for a layer of one input", function() ipu.keras.layers.Dense{4}{t} end,
    "layer 'dense[_%d]*' takes one tensor, got a list of 1"},
  {"a misspelt first argument", function()
    ipu.keras.Sequential{ipu.keras.layers.Dense{1}}:compile{optimiser = "sgd", loss = "mse"}
  end, "compile has no argument 'optimiser'; did you mean 'optimizer'"},
  {"a dataset as an iterator", function() for x in ipu.data.range(3) do print(x) end end,
    "for x in ds:iter%(%) do"},
  {"an outfeed as an iterator", function() for x in ipu.IPUOutfeedQueue() do print(x) end end,
    "for x in outfeed:iter%(%) do"},
  {"saving no tensors", function() ipu.save("x.npz", 3) end,
    "must be a table of tensors by name, got integer"},
  {"saving to no path", function() ipu.save(nil, {a = t}) end, "'path' must be a string"},
  {"loading nothing", function() ipu.load() end, "'path' is missing"},
  {"a seed that is none", function() ipu.random.set_seed(1.5) end, "'seed' must be an integer"},
  {"a shape that is two numbers", function() ipu.random.normal(2, 3) end,
    "random.normal: 'shape' must be one list, as in {2, 3}, or {2} before mean = 3"},
  {"a shape that is three numbers", function() ipu.random.bernoulli(2, 3, 4) end,
    "random.bernoulli: 'shape' must be one list, as in {2, 3}"},
  {"threads that are none", function() ipu.set_num_threads("a") end,
    "'n' must be an integer, got string"},
  {"negative threads", function() ipu.set_num_threads(-1) end,
    "must be 0 %(one a core%) to 256, got %-1"},
  {"a function that is none", function() ipu.func(3) end, "'f' must be a function, got integer"},
  {"a shard that no machine has", function() ipu.ipu_shard(1 << 40) end, "no machine has an IPU"},
  {"no shard at all", function() ipu.ipu_shard{} end, "an integer or a list of integers, got nil"},
  {"a branch on a number", function() ipu.cond(1, print, print) end,
    "'pred' must be a bool scalar, got integer"},
  {"a branch on a float tensor", function() ipu.cond(ipu.tensor(1.0), print, print) end,
    "must be a bool scalar, got float32%[%]"},
  {"branches of different types", function()
    ipu.func(function(p)
      return ipu.cond(p, function() return ipu.tensor(1.0) end, function() return ipu.ones{2} end)
    end)(ipu.tensor(true))
  end, "the branches return different values: float32%[%] and float32%[2%]"},
  {"a branch that returns a number", function()
    ipu.func(function(x)
      return ipu.cond(ipu.less(x, 2), function() return x end, function() return 0.0 end)
    end)(ipu.tensor(1.0))
  end, "return different values: float32%[%] and number %(0.0%); ipu.tensor%(…%) makes a tensor of "
    .. "a number"},
  {"a branch that returns nothing", function()
    ipu.func(function(x)
      return ipu.cond(ipu.less(x, 2), function() return x end, function() end)
    end)(ipu.tensor(1.0))
  end, "return different values: float32%[%] and nothing"},
  {"an unknown combination of shards", function()
    ipu.func(function()
      return ipu.within_replica.all_reduce({ipu.ones{2}, ipu.ones{2}}, {op = "HALF"})
    end)()
  end, "'HALF' is not a CollectiveOp; choose one of ADD"},
  {"a symbolic value that is kept", function()
    local kept
    ipu.func(function(x) kept = x + 1 end)(ipu.tensor(1.0))
    return kept + 1
  end, "after the function that made it was traced"},
  {"a symbolic value that steers", function()
    ipu.func(function(x) if x:item() > 0 then return x end end)(ipu.tensor(1.0))
  end, "use ipu%.cond, ipu%.while_loop or an outfeed"},
  {"a placeholder of extent -2", function() ipu.placeholder("float32", {-2}) end,
    "must be %-1 %(unknown%) or at least 0"},
  {"a session that is closed", function()
    local session = ipu.Session()
    session:close()
    session:run(t)
  end, "has been closed"},
  {"fetching nothing", function() ipu.Session():run(nil) end, "'fetches' is missing"},
  {"feeding what is no placeholder", function() ipu.Session():run(t, {feed_dict = {x = 1}}) end,
    "keys of feed_dict are placeholders"},
  {"a misspelt feed_dict", function()
    ipu.Session():run(ipu.placeholder("float32", {}), {feeddict = {}})
  end, "written {feed_dict = {%[placeholder%] = value}}"},
  {"fetching from a graph that is gone", function()
    local x = ipu.placeholder("float32", {})
    ipu.reset_default_graph()
    ipu.Session():run(x)
  end, "fetch it before reset_default_graph"},
  {"a host callback's outputs as numbers", function() ipu.host_callback(print, {outputs = {3}}) end,
    "output 1 must be {shape, dtype}"},
  {"a scope that was closed", function()
    local s = ipu.name_scope("x")
    s(function() end)
    s(function() end)
  end, "has been closed already"},
  {"a layer inside itself", function()
    local Loop = ipu.keras.layers.Layer:extend("Loop")
    function Loop:call(x) return self(x) end
    Loop()(ipu.ones{2})
  end, "is called inside itself"},
  {"a layer of -1 units", function() ipu.keras.layers.Dense(-1) end,
    "'units' must be positive, got %-1"},
  {"a dot for a colon, of a queue", function() ipu.IPUOutfeedQueue().dequeue() end,
    "IPUOutfeedQueue%.dequeue is a method.*colon"},
  {"a dot for a colon, of a dataset", function() ipu.data.range(3).batch(2) end,
    "Dataset%.batch is a method.*x:batch"},
  {"a dot for a colon, of a session", function() ipu.Session().run(t) end,
    "Session%.run is a method"},
  {"a dot for a colon, of a strategy", function() ipu.IPUStrategy().run(print) end,
    "IPUStrategy%.run is a method"},
  {"a dot for a colon, of an iterator", function() ipu.data.range(3):iterator().next() end,
    "next is a method"},
  {"training with a dot", function()
    local m = ipu.keras.Sequential{ipu.keras.layers.Dense(1)}
    m.fit{x = t, y = t}
  end, "Model.fit is a method; it is called with a colon"},
  {"training on a dataset that isn't batched", function()
    local m = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {3}}}
    m:compile{loss = "mse"}
    m:fit(ipu.data.from_tensor_slices{ipu.ones{4, 3}, ipu.ones{4, 1}}, {verbose = 0})
  end, "has the shape %[%-1, 3%], but got %[3, 1%]; the batch axis is missing: "
    .. "ds:batch"},
  {"one picture without a batch", function()
    ipu.keras.Sequential{ipu.keras.layers.Conv2D{1, 3, input_shape = {8, 8, 2}}}(ipu.ones{8, 8, 2})
  end, "but got %[8, 8, 2%]; the batch axis is missing"},
  {"a layer for an initializer", function()
    ipu.keras.layers.Dense{3, kernel_initializer = ipu.keras.layers.Dense(2)}
  end,
    "'kernel_initializer' must be an initializer: .*, got Dense"},
  {"an initializer for a constraint", function()
    ipu.keras.layers.Dense{3, kernel_constraint = ipu.keras.initializers.Zeros()}
  end,
    "'kernel_constraint' must be a constraint: .*, got Zeros"},
  {"from_config with a dot", function() ipu.keras.Model.from_config{} end,
    "called of a class with a colon"},
  {"from_config of a number", function() ipu.keras.layers.Dense:from_config(3) end,
    "Dense:from_config: expected a config .* got integer"},
  {"serialize of a dataset",
    function() ipu.keras.optimizers.serialize(ipu.data.Dataset.range(3)) end,
    "optimizers.serialize: expected a function, a name or an object with get_config, got"},
  {"from_config of a number, where a loss is scaled",
    function() ipu.keras.optimizers.ALSOptimizerSGD:from_config(3) end,
    "ALSOptimizerSGD:from_config: expected a config .* got integer"},
  {"from_config of a number, where texts are taken",
    function() ipu.keras.layers.Hashing:from_config(3) end,
    "Hashing:from_config: expected a config .* got integer"},
  {"no axis to normalise", function() ipu.keras.layers.LayerNormalization{axis = {}} end,
    "'axis' must name an axis"},
  {"an axis twice", function() ipu.keras.layers.LayerNormalization{axis = {1, -1}}(t) end,
    "axis 1 is named twice"},
  {"a part of Keras out of its module", function() return ipu.keras.Dense end,
    "keras has no 'Dense'; did you mean 'layers.Dense'"},
  {"an old name of the learning rate", function() ipu.keras.optimizers.Adam{lr = 0.1} end,
    "did you mean 'learning_rate'"},
  {"training without compiling", function()
    ipu.keras.Sequential{ipu.keras.layers.Dense(1)}:fit{x = t, y = t}
  end, "must be compiled first"},
  {"a dtype where the name of a variable is", function() ipu.Variable(1, "int32") end,
    "'int32' would be its name; .*dtype = \"int32\""},
  -- luacheck: ignore 122
  {"assigning to an element of a variable", function() ipu.Variable{1, 2}[1] = 3 end, "v:assign"},
  {"a misspelt field of a variable", function() return ipu.Variable(1.0).sahpe end,
    "a variable has no 'sahpe'; did you mean 'shape'"},
  {"a variable's value", function() return ipu.Variable(1.0).value end,
    "a variable has no 'value'; did you mean 'read_value'"},
  {"a misspelt method of a variable", function() ipu.Variable(1.0):assign_ad(2) end,
    "a variable has no 'assign_ad'; did you mean 'assign_add'"},
  -- luacheck: ignore 122
  {"assigning to a variable's value", function() ipu.Variable(1.0).value = 3 end,
    "has no 'value'; v:assign%(values%)"},
  -- luacheck: ignore 122
  {"assigning to a variable's method", function() ipu.Variable(1.0).assign = 3 end,
    "'assign' is a method"},
  {"assign_add of another shape", function() ipu.Variable{1, 2}:assign_add(ipu.ones{2, 2}) end,
   "assign_add: variable '[%w_]+' is float32%[2%], got float32%[2, 2%]"},
  {"a variable of no numbers", function() ipu.Variable("a") end,
    "Variable: 'initial_value' must be a number, a list or a tensor, got string"},
  {"a loop's tensor after the loop", function()
    ipu.func(function(a)
      local s = a
      for _ in ipu.range(3) do s = s + a end
      return s
    end)(t)
  end, "the function's result: a tensor made inside a loop or branch is used after it"},
  {"calling a tensor", function() t() end, "attempt to call a tensor value"},
  {"calling a variable", function() local v = ipu.Variable(1.0) v() end,
    "attempt to call a variable value"},
  -- luacheck: ignore 122
  {"renaming a variable", function() ipu.Variable(1.0).name = "w" end,
    "a variable's 'name' can't be assigned to"},
  -- luacheck: ignore 512
  {"a dataset as a list", function() for _ in ipairs(ipu.data.range(3)) do break end end,
    "for x in ds:iter%(%) do"},
  {"the length of an endless dataset", function() return #ipu.data.range(3):repeat_n() end,
    "endless can't be told"},
  {"a dataset made by its class", function() ipu.data.Dataset{t} end,
    "made by ipu.data.from_tensor_slices"},
  {"a function of ipu with a colon", function() ipu:ones{2} end,
    "'shape' must be .*called with a dot, not with a colon"},
  {"an op with a colon", function() ipu:reduce_sum(t) end,
    "reduce_sum .*called with a dot, not with a colon"},
  {"an op of a module with a colon", function() ipu.random:normal{2} end,
    "random.normal .*called with a dot, not with a colon"},
  {"a layer with a colon", function() ipu.keras.layers:Dense(3) end,
    "'units' must be an integer, .*called with a dot"},
  {"load_data with a colon", function() ipu.keras.datasets.cifar10:load_data() end,
    "load_data.*called with a dot"},
  {"a tensor's method with a dot", function() t.item() end,
    "item is a method; it is called with a colon"},
  {"a constant of no numbers", function() ipu.constant("a") end,
    "constant must be a number, a list or a tensor, got string %(a%)"},
  {"saving what is no tensor", function() ipu.save("none.npz", {a = "b"}) end,
    "save: 'a' must be a number, a list or a tensor, got string"},
  {"gradients of a number", function()
    ipu.func(function(x) return ipu.gradients(3, {x}) end)(t)
  end, "gradients: 'ys' must be a tensor, a variable or a list of them, got integer %(3%)"},
  {"a gradient by a number in a list", function()
    ipu.func(function(x) return ipu.gradients(x * x, {x, 3}) end)(t)
  end, "gradients: 'xs' must be a tensor, a variable or a list of them, got integer %(3%)"},
  {"a metric of a string", function() ipu.keras.metrics.Mean():update_state("a") end,
    "what a metric is given must be a number"},
  {"a loss of a string", function() return (ipu.keras.losses.MeanSquaredError()(t, "a")) end,
    "what a loss is given must be a number"},
  {"a loss of one argument", function() return (ipu.keras.losses.Huber()(t)) end,
    "Huber: it is called with y_true and y_pred, got no y_pred"},
  {"a layer called with a string", function() return (ipu.keras.layers.Flatten()("a")) end,
    "layer '[%w_]+' takes one tensor, got string %(a%)"},
  {"a layer of one tensor called with two", function() return (ipu.keras.layers.ReLU(){t, t}) end,
    "takes one tensor, got a list of 2"},
  {"the same in a model", function()
    local input = ipu.keras.Input{3}
    return (ipu.keras.layers.BatchNormalization(){input, input})
  end, "takes one tensor, got a list of 2"},
  {"a recurrent layer called with a function",
    function() return (ipu.keras.layers.LSTM(2)(print)) end, "takes one tensor, got function"},
  {"an initializer called without a shape", function()
    return (ipu.keras.initializers.GlorotUniform()())
  end,
   "GlorotUniform: it is called with a shape, got nil"},
  {"a regularizer called without a weight", function() return (ipu.keras.regularizers.L1L2()()) end,
    "L1L2: it is called with a weight"},
  {"a constraint called without a weight", function() return (ipu.keras.constraints.NonNeg()()) end,
    "NonNeg: it is called with a weight"},
  {"a layer's method with a dot", function() ipu.keras.layers.Dense(3).get_weights() end,
    "Layer.get_weights is a method; it is called"},
  {"a layer's own method with a dot", function() ipu.keras.layers.LSTM(3).get_config() end,
    "LSTM.get_config is a method"},
  {"an optimizer's method with a dot", function() ipu.train.AdamOptimizer(0.1).minimize(t) end,
    "Optimizer.minimize is a method"},
  {"a wrapper's method with a dot", function()
    ipu.optimizers.CrossReplicaOptimizer(ipu.train.AdamOptimizer(0.1)).apply_gradients()
  end, "apply_gradients is a method"},
  {"a configuration's method with a dot", function() ipu.IPUConfig().to_dict() end,
    "IPUConfig.to_dict is a method"},
  {"a report helper's method with a dot", function() ipu.ReportHelper().find_reports() end,
    "ReportHelper.find_reports is a method"},
  {"a host embedding's method with a dot", function()
    ipu.create_host_embedding("dotted", {3, 2}, "float32").lookup(t)
  end, "HostEmbedding.lookup is a method"},
  {"a variable's method with a dot", function() ipu.Variable(1.0).assign_add(1) end,
    "assign_add is a method; it is called with a colon"},
  {"a variable's value with a dot", function() ipu.Variable(1.0).item() end,
    "item is a method; it is called with a colon"},
  {"extend with a dot", function() ipu.keras.layers.Layer.extend("L") end,
    "called with a colon, as in Base:extend%(\"L\"%)"},
  {"an unknown extent as nil", function() ipu.keras.Input{shape = {nil, 8}} end,
    "an extent that is not known is %-1"},
  {"an argument that compile lacks", function() sequential():compile{loss = "mse", lr = 0.1} end,
    "compile has no argument 'lr'"},
  {"a misspelt short name of a loss", function() sequential():compile{loss = "msee"} end,
    "unknown loss 'msee'; did you mean 'mse'"},
  {"training without labels", function()
    compiled("mse"):fit(ipu.ones{4, 3}, {batch_size = 4, verbose = 0})
  end, "'y' is missing"},
  {"a target's number that isn't one", function()
    ipu.estimate(ipu.abs, {target = {base = "gc200", tile = 3}, inputs = {{2}}})
  end,
   "no number called 'tile'; did you mean 'tiles'%?"},
  {"a choice that an op lacks", function()
    ipu.nn.max_pool(ipu.ones{1, 4, 4, 1}, {ksize = 2, padding = "half"})
  end,
   "max_pool: 'padding' must be one of VALID, SAME, got 'half'"},
  {"a misspelt base of a target", function()
    ipu.estimate(ipu.abs, {target = {bas = "gc200"}, inputs = {{2}}})
  end,
   "no number called 'bas'; did you mean 'base'%?"},
  {"a loss that gives nothing", function() train(compiled(function() end)) end,
    "a loss must return a tensor, .* returned nil"},
  {"a loss that gives a number", function() train(compiled(function() return 5 end)) end,
    "a loss must return a tensor, .* integer %(5%)"},
  {"numbers of classes for one-hot labels", function()
    local m = ipu.keras.Sequential{ipu.keras.layers.Dense(10, "softmax")}
    m:compile{loss = "categorical_crossentropy"}
    train(m)
  end, "%[4, 1%] and %[4, 10%]; .*sparse_categorical_crossentropy"},
  {"training on a dataset that isn't batched", function()
    compiled("mse"):fit(ipu.data.from_tensor_slices{ipu.ones{4, 3}, ipu.ones{4, 1}}, {verbose = 0})
  end, "is the dataset batched"},
  {"training on no batch", function()
    compiled("mse"):fit(ipu.data.from_tensor_slices{ipu.ones{4, 3}, ipu.ones{4, 1}}:batch(8, true),
      {verbose = 0})
  end, "the dataset has no batches"},
  {"a class without a weight", function()
    local m = ipu.keras.Sequential{ipu.keras.layers.Dense(3, "softmax")}
    m:compile{loss = "sparse_categorical_crossentropy"}
    m:fit(ipu.ones{3, 2}, ipu.arange(3),
      {batch_size = 3, class_weight = {[0] = 1, [1] = 2}, verbose = 0})
  end, "'class_weight' must hold all classes of the labels; 2 is missing"},
  {"a metric's method with a dot", function() ipu.keras.metrics.Mean().reset_state() end,
    "Metric.reset_state is a method; .* colon"},
  {"an optimizer's method with a dot", function()
    ipu.keras.optimizers.Adam().apply_gradients({}, {})
  end,
    "Optimizer.apply_gradients is a method; .* colon"},
  {"saving the weights of a model that isn't built", function()
    sequential():save_weights("x.safetensors")
  end,
    "has no weights yet; build it first"},
  {"a layer's call without self", function()
    local Same = ipu.keras.layers.Layer:extend("Same")
    function Same.call(x) return x end
    Same()(t)
  end, "function Same:call%(x%)"},
  {"a dataset as a tensor", function() ipu.exp(ipu.data.range(3)) end,
    "'x' must be a number, a list or a tensor, got Dataset"},
  {"a tensor where a function is", function() ipu.custom_gradient(function(x) return x end)(t) end,
    "to input gradients, got a tensor$"},
  {"a tensor in a checkpoint", function() ipu.train.Checkpoint{weight = t} end,
    "or a plain value, got a tensor$"},
  {"shapes tried with a batch of 61", function()
    ipu.keras.layers.Add(){ipu.keras.Input{shape = {4}}, ipu.keras.Input{shape = {3}}}
  end, "%[61, 4%] and %[61, 3%] don't broadcast %(61 stands for an extent that is not known yet, "
    .. "such as the batch%)$"},
  {"the batch flattened together with other axes", function()
    local keras = ipu.keras
    local flat = keras.layers.Lambda(function(x) return ipu.reshape(x, {-1}) + ipu.ones{8} end)
    keras.Sequential{flat}:build{2, 4}
  end, "%[244%] and %[8%] don't broadcast %(244 is 4 times 61, which stands for an extent that is "
    .. "not known yet, such as the batch; "
    .. "keras.Input{shape =, batch_size =} makes it known%)$"},
  {"a layer with a multiple of 61 in its name", function()
    ipu.keras.layers.Lambda{function(x) return x + ipu.ones{3} end, name = "add_122"}(
      ipu.keras.Input{shape = {4}})
  end, "layer 'add_122': .*broadcast %(61 stands for an extent that is not known yet, such as the "
    .. "batch%)$"},
  {"a stage for one of two layers", function()
    ipu.keras.Sequential{ipu.keras.layers.Dense(1),
      ipu.keras.layers.Dense(1)}:set_pipeline_stage_assignment{0}
  end, "needs a stage for each layer, got 1 stage for 2 layers"},
  {"a name of NumPy", function() return ipu.sum end, "did you mean 'reduce_sum'"},
  {"a dtype as a name", function() return ipu.float32 end, "a dtype is a string: \"float32\""},
  {"a layer of PyTorch", function() return ipu.keras.layers.Linear end, "did you mean 'Dense'"},
  {"a dataset of PyTorch", function() return ipu.data.DataLoader end,
    "did you mean 'from_tensor_slices'"},
  {"an op where TensorFlow has it", function() return ipu.nn.top_k end, "did you mean 'ipu.top_k'"},
  {"row 0", function() return ipu.ones{2, 2}[0] end,
    "there is no row 0: a tensor's rows count from 1"},
  {"a row before the first one", function() return t[-9] end,
    "position %-9 lies outside of axis 0, which has"},
  {"a name that was never set, to the right", function() return t + nil end,
    "add: the right operand is nil"},
  {"a name that was never set, to the left", function() return nil / t end,
    "div: the left operand is nil"},
  {"reshape as in PyTorch", function() t:reshape(3, 2) end,
    "'shape' must be one list, as in {3, 2}"},
  {"zeros as in PyTorch", function() ipu.zeros(2, 3) end,
    "'shape' must be one list, as in zeros{2, 3}"},
  {"a tape's method with a dot", function() ipu.GradientTape().gradient(t, t) end,
    "GradientTape.gradient is a method; .* colon"},
  {"add of a model with a dot", function() sequential().add(ipu.keras.layers.Dense(1)) end,
    "Sequential.add is a method; .* colon"},
  {"save of a checkpoint with a dot", function() ipu.train.Checkpoint{a = 1}.save("x") end,
    "Checkpoint.save is a method; .* colon"},
  {"a method of a metric's base with a dot",
    function() ipu.keras.metrics.Mean().update_state(3) end, "update_state is a method; .* colon"},
  {"a tape around a value", function() ipu.GradientTape()(t) end,
    "called with a function, got a tensor"},
  {"training by position", function() ipu.keras.layers.Dropout(0.5)(t, true) end,
    "layer%(x, {training = true}%)"},
  {"one batch without labels", function() compiled("mse"):train_on_batch(ipu.ones{4, 3}) end,
    "model '[%w_]+': 'y' is missing"},
  {"a price of training without a loss", function()
    local m = sequential()
    m:compile{optimizer = "sgd"}
    ipu.estimate(m, {inputs = {4, 3}})
  end, "model '[%w_]+' has no loss to optimize"},
  {"ops as a shard's second argument", function() ipu.ipu_shard(0, function() return t end) end,
    "ipu_shard takes one argument; .* ipu.ipu_shard%(0%)%(function"},
  {"a timetable's schedule", function()
    ipu.timetable{schedule = {{ipu = 0}}, device_mapping = {0}, count = 1}
  end,
    "timetable: 'schedule' must be a name, .* each a list of entries; step 1 is no list, but as an "
    .. "entry is"},
  {"a schedule that a timetable doesn't know", function()
    ipu.timetable{schedule = "Round", device_mapping = {0, 1}, count = 1}
  end,
    "timetable: 'schedule': 'Round' is not a PipelineSchedule"},
  {"a model of half a text", function() ipu.keras.models.model_from_json "{" end,
    "model_from_json: line 1, column 1: "},
  {"a tokenizer of half a text", function()
    ipu.keras.preprocessing.text.tokenizer_from_json "{"
  end,
    "tokenizer_from_json: line 1, column 1: "},
  {"evaluating without labels", function()
    compiled("mse"):evaluate(ipu.ones{4, 3}, nil, {batch_size = 4, verbose = 0})
  end,
    "model '[%w_]+': 'y' is missing"},
  {"a callback that wasn't called", function()
    train(compiled("mse"), {ipu.keras.callbacks.EarlyStopping})
  end,
    "entry 1 is no callback, got the class EarlyStopping; a class is called: EarlyStopping%(%)"},
  {"functions by name as callbacks", function() train(compiled("mse"), {on_epoch_end = print}) end,
    "entry 'on_epoch_end' is no callback, got function; .*LambdaCallback{on_epoch_end = f}"},
  {"accuracy misspelt", function() sequential():compile{loss = "mse", metrics = {"accurracy"}} end,
    "did you mean 'accuracy'%?"},
  {"arguments for what takes none", function() ipu.keras.constraints.NonNeg(3) end,
    "NonNeg takes no arguments, got 1"},
  {"the beginning of an option's name", function() ipu.random.normal({2}, {std = 3}) end,
    "no argument 'std'; did you mean 'stddev'%?"},
  {"a padding that there is not", function() ipu.nn.conv2d(t, t, {padding = "SAMEE"}) end,
    "must be one of VALID, SAME, got 'SAMEE'"},
  {"a list where arguments by name are", function() ipu.full(7, {2}) end,
    "should hold arguments by name, as in {name = value}; it is a list"},
  {"a window that a layer of many doesn't fit", function()
    local many = ipu.keras.Sequential{ipu.keras.layers.Conv2D(3, 3),
      ipu.keras.layers.Conv2D(4, 9, {name = "wide"})}
    return many(ipu.ones{2, 8, 8, 3})
  end, "layer 'wide': nn.conv2d: a window of 9 does not fit"},
  {"the graph of a layer that was not called", function()
    return ipu.graph.nodes(ipu.func(ipu.keras.layers.Dense(3)))
  end,
    "graph.nodes: the function has not been traced yet"},
  {"the price of a layer without inputs", function()
    return ipu.estimate(ipu.func(ipu.keras.layers.Dense(3)))
  end,
    "layer 'dense.*' was called without inputs"},
  {"the price of a function of the library without inputs", function()
    return ipu.estimate(ipu.keras.activations.relu)
  end,
    "estimate: the function takes 1 value, but 'inputs' describes 0"},
  {"load_model in keras itself", function() return ipu.keras.load_model end,
    "did you mean 'models.load_model'"},
}

describe("a script's mistake:", function()
  for _, case in ipairs(cases) do
    it(case[1], function()
      local ok, message = pcall(case[2])
      assert.is_false(ok)
      assert.matches("misuse_spec%.lua:%d+: .*" .. case[3], message)
      assert.is_truthy(ipu.last_error())
    end)
  end
end)
