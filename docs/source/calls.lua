-- Calls for entries of the references: each runs when the pages are written, and its result stands
-- beside it. Names in them: data is ipu.data, layers is ipu.keras.layers, x a tensor [2, 3], v a
-- variable [3]. ds is data.range(4), f a traced function, model a Keras model of 3 inputs. cfg is
-- an IPUConfig, folder an empty folder.

local calls = {}

local function queue(rest) return "local q = ipu.IPUOutfeedQueue() " .. rest end
local function session(rest) return "local s = ipu.Session() " .. rest end
local rows <const> = "data.from_tensor_slices(ipu.ones{4, 2})"
local function updated(optimizer)
  return "ipu.func(function() " .. optimizer .. ":minimize(ipu.reduce_sum(v * v)) end)() return v"
end
local function applied(optimizer)
  return "ipu.func(function() " .. optimizer .. ":apply_gradients{{ipu.ones{3}, v}} end)() return v"
end
local embedding <const> = 'local e = ipu.create_host_embedding("t", {10, 4}, "float32") '
local function context(code)
  return "local given ipu.PopDistStrategy():distribute_datasets_from_function(function(c) given = "
    .. code .. " return ds end) return given"
end
local function pipelined(stage)
  return "cfg.auto_select_ipus = 2 cfg:configure_ipu_system() "
    .. "local i, o = ipu.IPUInfeedQueue(" .. rows .. ":repeat_n()), ipu.IPUOutfeedQueue() "
    .. "local function stage(a) return " .. stage .. " end "
    .. "ipu.func(function() return ipu.pipeline({stage, stage}, {gradient_accumulation_count = 4, "
    .. "infeed_queue = i, outfeed_queue = o}) end)() return o:dequeue()"
end

-- Functions that no call of one line can show, and the pages that show them.
calls.none = {
  load_op_library = "It takes a compiled library: [extending.md](../../extending.md).",
  ["datasets.text.load_data"] = "It takes a text file: [models.md](../../howto/models.md).",
  ["datasets.imdb.load_data"] = "It takes the reviews' file: "
    .. "[datasets.md](../../howto/datasets.md).",
  ["datasets.cifar10.load_data"] = "It takes the data's files: "
    .. "[datasets.md](../../howto/datasets.md).",
  ["datasets.cifar100.load_data"] =
    "It takes the data's files: [datasets.md](../../howto/datasets.md).",
  ["datasets.fashion_mnist.load_data"] =
    "It takes the data's files: [datasets.md](../../howto/datasets.md).",
  ["ReportHelper:find_report"] = "It takes a folder with a report: [profile.md](../profile.md).",
}

calls.api = {
  tensor = {"ipu.tensor{{1, 2, 3}, {4, 5, 6}}"},
  constant = {"ipu.constant(7, {shape = {2, 3}})"},
  zeros = {"ipu.zeros{2, 3}"}, ones = {"ipu.ones{2, 3}"}, full = {"ipu.full({2, 3}, 0.5)"},
  eye = {"ipu.eye(2, {batch_shape = {4}})"}, arange = {"ipu.arange(1, 6, 2)"},
  linspace = {"ipu.linspace(0, 1, 5)"},
  confusion_matrix = {"ipu.confusion_matrix({0, 1, 2}, {0, 2, 2}, 3)"},
  is_tensor = {"ipu.is_tensor(ipu.ones{2})"},
  unique = {"ipu.unique({3, 1, 3})"},
  nonzero = {"ipu.nonzero(ipu.tensor{{0, 5}, {7, 0}})"},
  boolean_mask = {"ipu.boolean_mask(x, {true, false})"},
  set_printoptions = {"ipu.set_printoptions{precision = 4}"},
  clock = {"ipu.clock() > 0"},
  ["debugging.check_numerics"] = {'ipu.debugging.check_numerics(x, "loss")'},
  ["debugging.assert_equal"] = {"ipu.debugging.assert_equal(x, x)"},
  ["debugging.assert_shapes"] = {"ipu.debugging.assert_shapes{{x, {2, -1}}}"},
  print_tensor = {'ipu.print_tensor(ipu.ones{2}, "x")'},
  save = {'ipu.save(folder .. "/a.npz", {a = ipu.ones{2, 3}})'},
  load = {'ipu.save(folder .. "/b.npz", {a = ipu.ones{2, 3}}) return ipu.load(folder .. "/b.npz")'},
  ["random.set_seed"] = {"ipu.random.set_seed(1)"},
  Variable = {"ipu.Variable(ipu.ones{2, 3})"},
  get_variable = {'ipu.get_variable("w", {2, 3})'},
  variable_scope = {'ipu.variable_scope("layer")(function() return ipu.get_variable("w", {2}).name '
    .. "end)"},
  global_variables = {'ipu.reset_default_graph() ipu.get_variable("w", {2}) '
    .. "return ipu.global_variables()"},
  trainable_variables = {'ipu.reset_default_graph() ipu.get_variable("w", {2}) '
    .. "return ipu.trainable_variables()"},
  global_variables_initializer = {session("return s:run(ipu.global_variables_initializer())")},
  move_variable_initialization_to_cpu = {"ipu.move_variable_initialization_to_cpu()"},
  reset_default_graph = {"ipu.reset_default_graph()"},
  func = {"ipu.func(function(a) return a * 2 end)(ipu.ones{2, 3})"},
  range = {"ipu.func(function() for _ in ipu.range(3) do v:assign(v * 2) end end)() return v"},
  cond = {"ipu.cond(true, function() return ipu.ones{2} end, function() return ipu.zeros{2} end)"},
  while_loop = {"ipu.while_loop(function(i) return ipu.less(i, 3) end, function(i) "
    .. "return i + 1 end, {ipu.zeros{}})"},
  ["loops.repeat_n"] = {"ipu.loops.repeat_n(3, function(a) return a * 2 end, {ipu.ones{2}})"},
  ["loops.while_loop"] = {"ipu.loops.while_loop(function(i) return ipu.less(i, 3) end, "
    .. "function(i) return i + 1 end, {ipu.zeros{}})"},
  barrier = {"ipu.barrier{ipu.ones{2}, ipu.ones{3}}"},
  host_callback = {"ipu.func(function(a) return ipu.host_callback(function(b) return b * 2 end, "
    .. '{outputs = {{{2}, "float32"}}})(a) end)(ipu.ones{2})'},
  fifo = {"ipu.func(function(a) return ipu.fifo(a, 2) end)(ipu.ones{2})"},
  remap = {"ipu.remap(ipu.ones{2, 3})"},
  outlined_function = {"ipu.outlined_function(function(a) return a * 2 end)(ipu.ones{2})"},
  ["nn.multi_conv"] = {"ipu.nn.multi_conv(function(a, k) return ipu.nn.conv2d(a, k) end)"
    .. "(ipu.ones{1, 4, 4, 1}, ipu.ones{3, 3, 1, 2})"},
  Function = {"ipu.func(function(a) return a + 1 end)"},
  ["Function:signatures"] = {"f:signatures()"},
  GradientTape = {"local t = ipu.GradientTape() local y = ipu.reduce_sum(v * v) "
    .. "return t:gradient(y, v)"},
  ["GradientTape:gradient"] = {"local t = ipu.GradientTape() local y = v * v "
    .. "return t:gradient(y, {v})"},
  ["GradientTape:jacobian"] = {"local t = ipu.GradientTape() local y = v * v "
    .. "return t:jacobian(y, {v})"},
  ["GradientTape:batch_jacobian"] = {"local t = ipu.GradientTape() local y = x * x "
    .. "return t:batch_jacobian(y, x)"},
  ["GradientTape:watch"] = {"local t = ipu.GradientTape() t:watch(x) return t:gradient(x * x, x)"},
  gradients = {"ipu.func(function(a) return ipu.gradients(a * a, a) end)(ipu.ones{2})"},
  custom_gradient = {"ipu.custom_gradient(function(a) return a, function(g) return g * 2 end end)"
    .. "(ipu.ones{2})"},
  capture_upstream_gradients = {"ipu.capture_upstream_gradients(ipu.ones{2}, \"a\")"},
  GradientCaptureContext = {"ipu.GradientCaptureContext()"},
  GradientCaptureTape = {"ipu.GradientCaptureTape()"},
  ["GradientCaptureTape:gradient"] = {"local t = ipu.GradientCaptureTape() local y = "
    .. "ipu.capture_upstream_gradients(v * v, \"a\") return t:gradient(y, v)"},
  register_op = {'ipu.register_op{name = "twice", call = function(a) return a * 2 end} '
    .. "return ipu.twice(ipu.ones{2})"},
  Session = {session("return s:run(ipu.ones{2} * 2)")},
  ["Session:close"] = {session("s:close()")},
  ["Session:run"] = {session('local a = ipu.placeholder("float32", {2}) '
    .. "return s:run(a * 2, {feed_dict = {[a] = {1, 2}}})")},
  ["Session:run_async"] = {session('local a = ipu.placeholder("float32", {2}) '
    .. "return s:run_async(a * 2, {feed_dict = {[a] = {1, 2}}}):wait()")},
  placeholder = {'ipu.placeholder("float32", {2, 3})'},
  ["ipu_compiler.compile"] = {session("return s:run(ipu.ipu_compiler.compile(function(a) return a "
    .. "* "
    .. "2 end, {ipu.ones{2}}))")},
  device = {'ipu.device("/cpu:0")(function() return ipu.ones{2} end)'},
  ipu_scope = {'ipu.ipu_scope("/device:IPU:0")(function() return ipu.ones{2} end)'},
  ipu_shard = {"ipu.ipu_shard(0)(function() return ipu.ones{2} end)"},
  ipu_jit_scope = {"ipu.ipu_jit_scope(0)(function() return ipu.ones{2} end)"},
  outside_compilation_scope = {"ipu.func(function(a) return "
    .. "ipu.outside_compilation_scope()(function() "
    .. "return a * 2 end) end)(ipu.ones{2})"},
  name_scope = {'ipu.name_scope("layer")(function() return ipu.ones{2} end)'},
  frontend_attribute = {'ipu.frontend_attribute("a", "b")(function() return ipu.ones{2} end)'},
  partials_type = {'ipu.partials_type("float16")(function() return ipu.ones{2} end)'},
  stochastic_rounding = {"ipu.stochastic_rounding(true)(function() return ipu.ones{2} end)"},
  ["data.from_tensors"] = {"data.from_tensors(ipu.ones{2, 3}):iter()()"},
  ["data.from_tensor_slices"] = {"data.from_tensor_slices(ipu.ones{2, 3}):iter()()"},
  ["data.from_generator"] = {"data.from_generator(function() local i = 0 return function() i = i + "
    .. "1 if i < 3 then return {i, i} end end end, {output_types = \"float32\", output_shapes = "
    .. "{2}}):iter()()"},
  ["data.range"] = {"#data.range(1, 10, 3)"},
  ["data.zip"] = {"data.zip(data.range(3), data.range(3)):iter()()"},
  ["data.BufferDataset"] = {"data.BufferDataset(data.range(4), 2)"},
  ["data.from_csv"] = {'local out = io.open(folder .. "/a.csv", "w") out:write("a,b\\n1,2\\n") '
    .. 'out:close() return data.from_csv(folder .. "/a.csv"):iter()()'},
  ["data.read_csv"] = {'local out = io.open(folder .. "/b.csv", "w") out:write("a,b\\n1,2\\n") '
    .. 'out:close() return data.read_csv(folder .. "/b.csv")'},
  ["data.from_npy"] = {'ipu.save(folder .. "/a.npy", ipu.ones{4, 2}) '
    .. 'return data.from_npy(folder .. "/a.npy"):iter()()'},
  ["data.from_safetensors"] = {'ipu.save(folder .. "/a.safetensors", {a = ipu.ones{4, 2}}) '
    .. 'return data.from_safetensors(folder .. "/a.safetensors"):iter()()'},
  ["data.from_text"] = {'local out = io.open(folder .. "/a.txt", "w") out:write("one\\ntwo\\n") '
    .. 'out:close() return #data.from_text(folder .. "/a.txt", {unit = "char"})'},
  ["data.from_image_folder"] = {"data.from_image_folder(pictures):iter()()"},
  ["data.from_idx"] = {'local out = io.open(folder .. "/a", "wb") '
    .. 'out:write("\\0\\0\\8\\3\\0\\0\\0\\1" '
    .. '.. "\\0\\0\\0\\2\\0\\0\\0\\2abcd") out:close() return data.from_idx(folder .. '
    .. '"/a"):iter()()'},
  ["data.from_cifar"] = {'local out = io.open(folder .. "/b.bin", "wb") '
    .. 'out:write(("\\0"):rep(3073)) '
    .. 'out:close() return data.from_cifar(folder .. "/b.bin"):iter()()'},
  ["data.Dataset"] = {"data.Dataset.range(4)"},
  ["data.Dataset:batch"] = {"data.range(5):batch(2, true):iter()()"},
  ["data.Dataset:bucket_by_sequence_length"] = {"data.range(8):bucket_by_sequence_length{"
    .. "element_length_func = function() return 1 end, bucket_boundaries = {4}, "
    .. "bucket_batch_sizes = {2, 2}}:iter()()"},
  ["data.Dataset:apply"] = {"ds:apply(function(d) return d:take(2) end):iter()()"},
  ["data.Dataset:cache"] = {"ds:cache():iter()()"},
  ["data.Dataset:cardinality"] = {"ds:cardinality()"},
  ["data.Dataset:concatenate"] = {"#ds:concatenate(data.range(3))"},
  ["data.Dataset:enumerate"] = {"ds:enumerate():iter()()"},
  ["data.Dataset:filter"] = {"ds:filter(function(i) return ipu.greater(i, 1) end):iter()()"},
  ["data.Dataset:flat_map"] = {"ds:flat_map(function(i) return data.from_tensors(i) end):iter()()"},
  ["data.Dataset:interleave"] = {"ds:interleave(function(i) return data.from_tensors(i) "
    .. "end):iter()()"},
  ["data.Dataset:iter"] = {"ds:iter()()"}, ["data.Dataset:iterator"] = {"ds:iterator():next()"},
  ["data.Dataset:map"] = {"ds:map(function(i) return i:cast(\"float32\") * ipu.ones{2} "
    .. "end):iter()()"},
  ["data.Dataset:padded_batch"] = {"data.from_tensor_slices(ipu.ones{4, "
    .. "2}):padded_batch(2):iter()()"},
  ["data.Dataset:prefetch"] = {"ds:prefetch(2):iter()()"},
  ["data.Dataset:reduce"] = {"ds:reduce(0, function(sum, i) return sum + i end)"},
  ["data.Dataset:repeat_n"] = {"#ds:repeat_n(3)"}, ["data.Dataset:shard"] = {"#ds:shard(2, 0)"},
  ["data.Dataset:shuffle"] = {"ds:shuffle(4, {seed = 1}):iter()()"},
  ["data.Dataset:skip"] = {"#ds:skip(1)"}, ["data.Dataset:take"] = {"#ds:take(3)"},
  ["data.Dataset:take_while"] = {
    "ds:take_while(function(i) return ipu.less(i, 1) end):iter()()"},
  ["data.Dataset:unbatch"] = {"data.from_tensors(ipu.ones{4, 2}):unbatch():iter()()"},
  ["data.Dataset:window"] = {"ds:window(2):iter()()"},
  ["data.Dataset:with_options"] = {"ds:with_options{}"},
  ["dataset_benchmark.dataset_benchmark"] = {
    "type(ipu.dataset_benchmark.dataset_benchmark(ds, 1, 4, {print_stats = false}))"},
  ["dataset_benchmark.infeed_benchmark"] = {"local q = ipu.IPUInfeedQueue(" .. rows .. ") return "
    .. "type(ipu.dataset_benchmark.infeed_benchmark(q, 1, 4, {print_stats = false}))"},
  ["image.write"] = {'ipu.image.write(folder .. "/a.png", ipu.zeros({4, 6, 3}, "uint8"))'},
  ["image.read"] = {'ipu.image.write(folder .. "/b.png", ipu.zeros({4, 6, 3}, "uint8")) '
    .. 'return ipu.image.read(folder .. "/b.png")'},
  ["image.grid"] = {"ipu.image.grid(ipu.zeros{4, 8, 8, 1}, {columns = 2})"},
  IPUInfeedQueue = {"local q = ipu.IPUInfeedQueue(" .. rows .. ") return ipu.func(function() "
    .. "return "
    .. "ipu.loops.repeat_n(4, function(a, b) return a + b end, {ipu.zeros{2}}, q) end)()"},
  ["IPUInfeedQueue:deleter"] = {"local q = ipu.IPUInfeedQueue(" .. rows .. ") q:initializer() "
    .. "return q:deleter()"},
  ["IPUInfeedQueue:initializer"] = {"ipu.IPUInfeedQueue(" .. rows .. "):initializer()"},
  IPUOutfeedQueue = {queue("ipu.func(function() q:enqueue(ipu.ones{2}) end)() return q:dequeue()")},
  ["IPUOutfeedQueue:enqueue"] = {queue("ipu.func(function() q:enqueue{ipu.ones{2}, ipu.ones{3}} "
    .. "end)() return q:dequeue()")},
  ["IPUOutfeedQueue:dequeue"] = {queue("ipu.func(function() q:enqueue(ipu.ones{2}) end)() "
    .. "return q:dequeue()")},
  ["IPUOutfeedQueue:deleter"] = {queue("return q:deleter()")},
  ["IPUOutfeedQueue:iter"] = {queue("ipu.func(function() q:enqueue(ipu.ones{2}) end)() "
    .. "return q:iter()()")},
  ScopedIPUOutfeedQueue = {"ipu.ScopedIPUOutfeedQueue()"},
  IPUStrategy = {"ipu.IPUStrategy():run(f, {ipu.ones{2}})"},
  IPUStrategyV1 = {"ipu.IPUStrategyV1():run(f, {ipu.ones{2}})"},
  ["IPUStrategy:run"] = {"ipu.IPUStrategy():run(f, {ipu.ones{2}})"},
  ["IPUStrategy:run_async"] = {"ipu.IPUStrategy():run_async(f, {ipu.ones{2}}):wait()"},
  ["IPUStrategy:reduce"] = {'ipu.IPUStrategy():reduce("SUM", ipu.ones{2})'},
  ["IPUStrategy:scope"] = {"ipu.IPUStrategy():scope()(function() return ipu.Variable(ipu.ones{2}) "
    .. "end)"},
  Job = {"ipu.IPUStrategy():run_async(f, {ipu.ones{2}})"},
  ["Job:wait"] = {"ipu.IPUStrategy():run_async(f, {ipu.ones{2}}):wait()"},
  ["Job:done"] = {"local j = ipu.IPUStrategy():run_async(f, {ipu.ones{2}}) j:wait() return "
    .. "j:done()"},
  ["Job:cancel"] = {"local j = ipu.IPUStrategy():run_async(f, {ipu.ones{2}}) j:wait() j:cancel()"},
  PopDistStrategy = {"ipu.PopDistStrategy()"},
  ["PopDistStrategy:update_ipu_config"] = {"ipu.PopDistStrategy():update_ipu_config(cfg)"},
  IPUMultiWorkerStrategy = {"ipu.IPUMultiWorkerStrategy(ipu.MPIClusterResolver())"},
  InputContext = {context "c"},
  ["InputContext:get_per_replica_batch_size"] = {context "c:get_per_replica_batch_size(8)"},
  MPIClusterResolver = {"ipu.MPIClusterResolver()"},
  ["popdist.init"] = {"ipu.popdist.init()"},
  ["popdist.isPopdistEnvSet"] = {"ipu.popdist.isPopdistEnvSet()"},
  ["popdist.getNumInstances"] = {"ipu.popdist.getNumInstances()"},
  ["popdist.getInstanceIndex"] = {"ipu.popdist.getInstanceIndex()"},
  ["popdist.getNumTotalReplicas"] = {"ipu.popdist.getNumTotalReplicas()"},
  ["popdist.getNumLocalReplicas"] = {"ipu.popdist.getNumLocalReplicas()"},
  ["popdist.getReplicaIndexOffset"] = {"ipu.popdist.getReplicaIndexOffset()"},
  ["popdist.getNumIpusPerReplica"] = {"ipu.popdist.getNumIpusPerReplica()"},
  ["popdist.getDeviceId"] = {"ipu.popdist.getDeviceId()"},
  ["popdist.set_ipu_config"] = {"ipu.popdist.set_ipu_config(cfg)"},
  ["popdist.execute_on_instances"] = {"ipu.popdist.execute_on_instances({0}, function() return 1 "
    .. "end)"},
  ["popdist.finalizeBackend"] = {"ipu.popdist.finalizeBackend()"},
  ["distributed.allreduce"] = {'ipu.distributed.allreduce(ipu.ones{2}, "SUM")'},
  ["distributed.allgather"] = {"ipu.distributed.allgather(ipu.ones{2})"},
  ["distributed.broadcast"] = {"ipu.distributed.broadcast(ipu.ones{2})"},
  ["distributed.barrier"] = {"ipu.distributed.barrier()"},
  ["distributed.statistics"] = {"ipu.distributed.statistics()"},
  ["train.Optimizer"] = {'ipu.train.Optimizer(0.1)'},
  ["train.GradientDescentOptimizer"] = {updated "ipu.train.GradientDescentOptimizer(0.1)"},
  ["train.MomentumOptimizer"] = {updated "ipu.train.MomentumOptimizer(0.1, 0.9)"},
  ["train.AdamOptimizer"] = {updated "ipu.train.AdamOptimizer(0.1)"},
  ["train.RMSPropOptimizer"] = {updated "ipu.train.RMSPropOptimizer(0.1)"},
  ["train.AdagradOptimizer"] = {updated "ipu.train.AdagradOptimizer(0.1)"},
  ["train.Optimizer:minimize"] = {updated "ipu.train.GradientDescentOptimizer(0.1)"},
  ["train.Optimizer:apply_gradients"] = {applied "ipu.train.AdamOptimizer(0.1)"},
  ["train.Optimizer:apply_gradient"] = {
    "ipu.func(function() ipu.train.GradientDescentOptimizer(0.1):apply_gradient(ipu.ones{3}, v) "
      .. "end)() "
    .. "return v"},
  ["train.Optimizer:compute_gradients"] = {"ipu.func(function() return ipu.train.AdamOptimizer(0.1)"
    .. ":compute_gradients(ipu.reduce_sum(v * v))[1][1] end)()"},
  ["train.Optimizer:begin_update"] = {"ipu.train.AdamOptimizer(0.1):begin_update()"},
  ["train.Optimizer:entries"] = {"ipu.train.AdamOptimizer(0.1):entries()"},
  ["train.Optimizer:rate"] = {'ipu.train.AdamOptimizer(0.1):rate("float32")'},
  ["train.Optimizer:restore"] = {"ipu.train.AdamOptimizer(0.1):restore{}"},
  ["train.Optimizer:scalar"] = {'ipu.train.AdamOptimizer(0.1):scalar("power", 1)'},
  ["train.Optimizer:slot"] = {'ipu.train.AdamOptimizer(0.1):slot(v, "m")'},
  ["train.get_or_create_global_step"] = {"ipu.train.get_or_create_global_step()"},
  ["train.Checkpoint"] = {"ipu.train.Checkpoint{v = v}:save(folder .. \"/c\")"},
  ["train.Checkpoint:save"] = {"ipu.train.Checkpoint{v = v}:save(folder .. \"/d\")"},
  ["train.Checkpoint:restore"] = {"local c = ipu.train.Checkpoint{v = v} c:save(folder .. \"/e\") "
    .. "c:restore(folder .. \"/e\")"},
  ["train.latest_checkpoint"] = {"ipu.train.latest_checkpoint(folder .. \"/none\")"},
  ["optimizers.IpuOptimizer"] = {
    updated "ipu.optimizers.IpuOptimizer(ipu.train.AdamOptimizer(0.1))"},
  ["optimizers.CrossReplicaOptimizer"] = {
    updated "ipu.optimizers.CrossReplicaOptimizer(ipu.train.AdamOptimizer(0.1))"},
  ["optimizers.ShardedOptimizer"] = {
    updated "ipu.optimizers.ShardedOptimizer(ipu.train.AdamOptimizer(0.1))"},
  ["optimizers.MapGradientOptimizer"] = {updated("ipu.optimizers.MapGradientOptimizer("
    .. "ipu.train.AdamOptimizer(0.1), function(g, w) return g / 2 end)")},
  ["optimizers.MapGradientOptimizer:apply_gradients"] = {applied("ipu.optimizers."
    .. "MapGradientOptimizer(ipu.train.AdamOptimizer(0.1), function(g, w) return g / 2 end)")},
  ["optimizers.GradientAccumulationOptimizerV2"] = {
    updated("ipu.optimizers." .. "GradientAccumulationOptimizerV2"
      .. "(ipu.train.AdamOptimizer(0.1), 1)")},
  ["optimizers.GradientAccumulationOptimizer"] = {
    updated("ipu.optimizers." .. "GradientAccumulationOptimizer"
      .. "(ipu.train.MomentumOptimizer(0.1, 0.9), 1)")},
  ["optimizers.CrossReplicaGradientAccumulationOptimizerV2"] = {
    updated("ipu.optimizers." .. "CrossReplicaGradientAccumulationOptimizerV2"
      .. "(ipu.train.AdamOptimizer(0.1), 1)")},
  ["optimizers.CrossReplicaGradientAccumulationOptimizer"] = {
    updated("ipu.optimizers." .. "CrossReplicaGradientAccumulationOptimizer"
      .. "(ipu.train.MomentumOptimizer(0.1, 0.9), 1)")},
  OptimizerFunctionOutput = {"ipu.OptimizerFunctionOutput(ipu.train.AdamOptimizer(0.1), "
    .. "ipu.ones{})"},
  PipelineStageOptions = {"ipu.PipelineStageOptions{convolution_options = {}}"},
  pipeline = {pipelined "a + 1"},
  get_current_iteration_counter = {
    pipelined 'a + ipu.cast(ipu.get_current_iteration_counter(), "float32")'},
  recomputation_checkpoint = {"ipu.recomputation_checkpoint(ipu.ones{2})"},
  timetable = {'ipu.timetable{schedule = "Grouped", device_mapping = {0, 1}, count = 4}'},
  ["within_replica.all_reduce"] = {"ipu.within_replica.all_reduce({ipu.ones{2}, ipu.ones{2}}, "
    .. "\"ADD\")"},
  ["within_replica.reduce_scatter"] = {
    "ipu.within_replica.reduce_scatter({ipu.ones{2}, ipu.ones{2}}, \"ADD\")"},
  ["within_replica.all_gather"] = {"ipu.within_replica.all_gather{ipu.ones{2}, ipu.ones{2}}"},
  ["nn.sampled_softmax_loss"] = {"ipu.nn.sampled_softmax_loss{weights = ipu.ones{10, 3}, biases = "
    .. "ipu.zeros{10}, labels = ipu.zeros({2, 1}, \"int32\"), inputs = ipu.ones{2, 3}, "
    .. "num_sampled = 4, num_classes = 10}"},
  ["nn.nce_loss"] = {"ipu.nn.nce_loss{weights = ipu.ones{10, 3}, biases = ipu.zeros{10}, labels = "
    .. "ipu.zeros({2, 1}, \"int32\"), inputs = ipu.ones{2, 3}, num_sampled = 4, num_classes = 10}"},
  create_host_embedding = {'ipu.create_host_embedding("table", {10, 4}, "float32")'},
  HostEmbeddingOptimizerSpec = {"ipu.HostEmbeddingOptimizerSpec(0.1)"},
  HostEmbeddingSGDGAOptimizerSpec = {"ipu.HostEmbeddingSGDGAOptimizerSpec(0.1, 4)"},
  HostEmbedding = {'ipu.create_host_embedding("words", {10, 4}, "float32")'},
  ["HostEmbedding:lookup"] = {embedding .. "local _ <close> = e:register() "
    .. "return ipu.func(function(i) return e:lookup(i) end)(ipu.zeros({2}, \"int32\"))"},
  ["HostEmbedding:register"] = {embedding .. "local r <close> = e:register() return r"},
  ["ReportHelper:clear_reports"] = {"ipu.ReportHelper(folder):clear_reports()"},
  ["ReportHelper:find_reports"] = {"ipu.ReportHelper(folder):find_reports()"},
  ["ReportHelper:set_autoreport_options"] = {
    "ipu.ReportHelper(folder):set_autoreport_options(cfg)"},
  IPUConfig = {"ipu.IPUConfig().auto_select_ipus"},
  ["IPUConfig:configure_ipu_system"] = {"cfg.auto_select_ipus = 2 cfg:configure_ipu_system()"},
  ["IPUConfig:copy"] = {"cfg:copy()"}, ["IPUConfig:from_dict"] = {"cfg:from_dict{auto_select_ipus "
    .. "= 2}"},
  ["IPUConfig:from_json"] = {"cfg:from_json(cfg:to_json())"},
  ["IPUConfig:get_attribute_metadata"] = {'cfg:get_attribute_metadata("auto_select_ipus").default'},
  ["IPUConfig:to_dict"] = {"cfg:to_dict().auto_select_ipus"},
    ["IPUConfig:to_json"] = {"#cfg:to_json() > 0"},
  configure_ipu_system = {"ipu.configure_ipu_system(cfg)"},
  reset_ipu_configuration = {"ipu.reset_ipu_configuration()"},
  get_ipu_config = {"cfg:configure_ipu_system() return ipu.get_ipu_config()"},
  get_num_of_ipus_in_device = {"cfg.auto_select_ipus = 4 cfg:configure_ipu_system() "
    .. 'return ipu.get_num_of_ipus_in_device("/device:IPU:0")'},
  running_on_ipu_model = {"ipu.running_on_ipu_model()"},
  use_synthetic_data_for = {'ipu.use_synthetic_data_for("infeed")'},
  set_flags = {"ipu.set_flags(\"\")"}, set_num_threads = {"ipu.set_num_threads(2)"},
  reset_ipu_seed = {"ipu.reset_ipu_seed(1)"}, selection_order = {'ipu.selection_order("ZIGZAG", '
    .. '4)'},
  estimate = {"ipu.estimate(f).fits"},
  programs = {"f(ipu.ones{2}) return ipu.programs()"},
  ["graph.nodes"] = {"ipu.graph.nodes(f)"}, ["graph.print"] = {"ipu.graph.print(f)"},
  ipu_event_trace = {"ipu.ipu_event_trace()"},
  ReportHelper = {"ipu.ReportHelper()"},
  enable_check_numerics = {"ipu.enable_check_numerics()"},
  disable_check_numerics = {"ipu.disable_check_numerics()"},
  last_error = {"pcall(ipu.ones, -1) return ipu.last_error().kind"},
  ["json.encode"] = {"ipu.json.encode{a = {1, 2}}"}, ["json.decode"] = {"ipu.json.decode('[1, "
    .. "2]')"},
}

-- Where the sample of an op's row, with ones and zeros, is no good call.
calls.ops = {}

-- Operands of ops.
calls.operands = {
  a = "left operand", b = "right operand", beta = "added to each channel",
  bias = "added along the last axis", channel_offsets = "offset of each channel",
  channel_scales = "factor of each channel", chol = "Cholesky factor",
  condition = "where a is taken, else b", data = "rows", dst = "packed tensor that is written to",
  dst_offsets = "first row of each piece in dst", gamma = "factor of each channel",
  hist = "counts so far", ids = "rows that are looked up", image = "image",
  indices = "positions", initial_c = "first cell state", initial_h = "first state",
  k = "keys", kernel = "weights", label_length = "labels of each sample", labels = "true classes",
  lengths = "time steps of each sample", levels = "edges between the bins",
  log_probs = "log probabilities", logit_length = "time steps of each sample",
  logits = "unnormalised predictions", mask = "true for the elements that count",
  matrix = "coefficients", mean = "mean; without, it is computed from x",
  num_elems = "rows of each piece", q = "queries", recurrent_kernel = "weights of the state",
  rhs = "right-hand sides", segment_ids = "segment of each row, rising",
  src = "packed tensor that is read", src_offsets = "first row of each piece in src",
  table = "rows to look up", tensors = "list of tensors", updates = "values that are added",
  v = "values", variance = "variance; without, it is computed from x", x = "operand",
}

local fitted <const> = "compiled:fit(ipu.ones{4, 3}, ipu.ones{4, 1}, {verbose = 0})"
local shared <const> = "local l = layers.Dense(2) l(keras.Input{shape = {3}}) "
local staged <const> = 'local s <const> = ipu.IPUStrategy() return s:scope()(function() local m = '
  .. "keras.Sequential{layers.Dense{2, input_shape = {3}}, layers.Dense(1)} "
local function tokenizer(rest)
  return 'local t = keras.preprocessing.text.Tokenizer() t:fit_on_texts{"a b a"} return t:' .. rest
end
local function vocabulary(rest)
  return 'local v = keras.utils.vocabulary("abc abc") ' .. rest
end

-- compiled is a model of 3 inputs and 1 output, with sgd and the mean squared error.
calls.keras = {
  ["model:build"] = {"keras.Sequential{layers.Dense(2)}:build{-1, 3}"},
  ["model:compile"] = {'model:compile{optimizer = "sgd", loss = "mse"}'},
  ["model:compute_loss"] = {"compiled:compute_loss(ipu.ones{4, 3}, ipu.ones{4, 1}, ipu.zeros{4, "
    .. "1})"},
  ["model:compute_mask"] = {"model:compute_mask(ipu.ones{4, 3})"},
  ["model:evaluate"] = {"compiled:evaluate(ipu.ones{4, 3}, ipu.ones{4, 1}, {verbose = 0})"},
  ["model:fit"] = {fitted},
  ["model:get_layer"] = {"model:get_layer{index = 0}"},
  ["model:get_pipeline_stage_assignment"] = {staged
    .. "m:set_pipeline_stage_assignment{0, 1} return #m:get_pipeline_stage_assignment() end)"},
  ["model:get_weights"] = {"model:get_weights()"},
    ["model:is_pipelined"] = {"model:is_pipelined()"},
  ["model:load_weights"] = {'model:save_weights(folder .. "/w.safetensors") '
    .. 'model:load_weights(folder .. "/w.safetensors")'},
  ["model:predict"] = {"model:predict(ipu.ones{4, 3})"},
  ["model:inspect"] = {"#model:inspect(ipu.ones{4, 3})"},
  ["model:predict_on_batch"] = {"model:predict_on_batch(ipu.ones{4, 3})"},
  ["model:predict_step"] = {"model:predict_step(ipu.ones{4, 3})"},
  ["model:print_pipeline_stage_assignment_summary"] = {staged
    .. "m:set_pipeline_stage_assignment{0, "
    .. "1} m:print_pipeline_stage_assignment_summary{print_fn = function() end} end)"},
  ["model:reset_metrics"] = {"compiled:reset_metrics()"},
  ["model:reset_pipeline_stage_assignment"] = {staged .. "m:reset_pipeline_stage_assignment() "
    .. "end)"},
  ["model:reset_states"] = {"model:reset_states()"},
  ["model:save"] = {'compiled:save(folder .. "/m.safetensors")'},
  ["model:save_weights"] = {'model:save_weights(folder .. "/v.safetensors")'},
  ["model:set_asynchronous_callbacks"] = {staged .. "m:set_asynchronous_callbacks(true) end)"},
  ["model:set_gradient_accumulation_options"] = {staged .. "m:set_gradient_accumulation_options{"
    .. "gradient_accumulation_steps_per_replica = 4} end)"},
  ["model:set_infeed_queue_options"] = {staged .. "m:set_infeed_queue_options{prefetch_depth = 2} "
    .. "end)"},
  ["model:set_outfeed_queue_options"] = {staged
    .. "m:set_outfeed_queue_options{buffer_depth = 2} end)"},
  ["model:set_pipeline_stage_assignment"] = {staged .. "m:set_pipeline_stage_assignment{0, 1} "
    .. "end)"},
  ["model:set_pipelining_options"] = {staged .. "m:set_pipelining_options{pipeline_schedule = "
    .. '"Grouped"} end)'},
  ["model:set_replication_options"] = {staged
    .. 'm:set_replication_options{replicated_metric_reduction_method = "SUM"} end)'},
  ["model:summary"] = {"model:summary{print_fn = function() end, expand_nested = true, "
    .. "show_trainable = true}"},
  ["model:test_on_batch"] = {"compiled:test_on_batch(ipu.ones{4, 3}, ipu.ones{4, 1})"},
  ["model:test_step"] = {"compiled:test_step(ipu.ones{4, 3}, ipu.ones{4, 1})"},
  ["model:to_json"] = {"#model:to_json() > 0"},
  ["model:train_on_batch"] = {"compiled:train_on_batch(ipu.ones{4, 3}, ipu.ones{4, 1})"},
  ["model:train_step"] = {"compiled:train_step(ipu.ones{4, 3}, ipu.ones{4, 1})"},
  Model = {"local i = keras.Input{3} return keras.Model{inputs = i, outputs = layers.Dense(2)(i)}"
    .. "(ipu.ones{4, 3})"},
  Sequential = {"keras.Sequential{layers.Dense(2)}(ipu.ones{4, 3})"},
  ["model:add"] = {"model:add(layers.Dense(2))"}, ["model:pop"] = {"model:pop()"},
  ["layer:add_loss"] = {"model:add_loss(function() return ipu.zeros{} end)"},
  ["layer:add_metric"] = {"local l = layers.Layer() l:add_metric(ipu.ones{}, \"m\")"},
  ["layer:add_weight"] = {"layers.Layer():add_weight{shape = {2, 3}}"},
  ["layer:build"] = {"layers.Dense(2):build{4, 3}"},
  ["layer:call"] = {"layers.Activation(\"relu\"):call(ipu.ones{2, 3})"},
  ["layer:compute_mask"] = {"layers.Masking():compute_mask(ipu.ones{2, 4, 3})"},
  ["layer:compute_output_shape"] = {"layers.Dense(2):compute_output_shape{4, 3}"},
  ["layer:count_params"] = {"model:count_params()"},
  ["layer:get_config"] = {"layers.Dense(2):get_config().units"},
  ["layer:get_input_at"] = {shared .. "return tostring(l:get_input_at(0))"},
  ["layer:get_input_shape_at"] = {shared .. "return l:get_input_shape_at(0)"},
  ["layer:get_output_at"] = {shared .. "return tostring(l:get_output_at(0))"},
  ["layer:get_output_shape_at"] = {shared .. "return l:get_output_shape_at(0)"},
  ["layer:get_weights"] = {"model:get_weights()"},
  ["layer:set_weights"] = {"model:set_weights(model:get_weights())"},
  ["models.load_model"] = {'compiled:save(folder .. "/n.safetensors") '
    .. 'return keras.models.load_model(folder .. "/n.safetensors")'},
  ["models.model_from_json"] = {"keras.models.model_from_json(model:to_json())"},
  ["models.model_from_config"] = {"keras.models.model_from_config(model:get_config())"},
  ["models.save_model"] = {'keras.models.save_model(model, folder .. "/o.safetensors")'},
  ["models.clone_model"] = {"keras.models.clone_model(model)"},
  ["utils.to_categorical"] = {"keras.utils.to_categorical({0, 2, 1}, 3)"},
  ["utils.normalize"] = {"keras.utils.normalize(ipu.ones{2, 3})"},
  ["utils.set_random_seed"] = {"keras.utils.set_random_seed(1)"},
  ["utils.reset_names"] = {"keras.utils.reset_names()"},
  ["utils.plot_model"] = {'#keras.utils.plot_model(model, folder .. "/m.svg") > 0'},
  ["utils.custom_object_scope"] = {"local _ <close> = keras.utils.custom_object_scope{a = print} "
    .. 'return keras.utils.get_registered_object("a")'},
  ["utils.get_custom_objects"] = {"keras.utils.get_custom_objects()"},
  ["utils.register_keras_serializable"] = {
    'keras.utils.register_keras_serializable(layers.Layer:extend("Own"))'},
  ["utils.get_registered_name"] = {"keras.utils.get_registered_name(layers.Dense)"},
  ["utils.get_registered_object"] = {'keras.utils.get_registered_object("none")'},
  ["utils.vocabulary"] = {'keras.utils.vocabulary("abc abc")'},
  ["utils.Vocabulary"] = {vocabulary 'return v:encode("cab"), v:decode{0, 1}'},
  ["vocabulary:encode"] = {vocabulary 'return v:encode("cab")'},
  ["vocabulary:decode"] = {vocabulary "return v:decode{0, 1}"},
  ["utils.generate_text"] = {vocabulary('local m = keras.Sequential{layers.Embedding{4, 5, '
    .. "input_length = 2}, layers.Dense(4)} return keras.utils.generate_text(m, v, \"ab\", "
    .. "{length = "
    .. "3, window = 2})")},
  ["preprocessing.timeseries_dataset_from_array"] = {
    "keras.preprocessing.timeseries_dataset_from_array(ipu.ones{9, 2}, nil, 3, {batch_size = 4})"
    .. ":iter()()"},
  ["preprocessing.image_dataset_from_directory"] = {
    "keras.preprocessing.image_dataset_from_directory(pictures, {image_size = {2, 3}}):iter()()"},
  ["preprocessing.text_dataset_from_directory"] = {
    "keras.preprocessing.text_dataset_from_directory(texts):iter()()"},
  ["preprocessing.sequence.pad_sequences"] = {
    "keras.preprocessing.sequence.pad_sequences({{1, 2}, {3}}, {maxlen = 4})"},
  ["preprocessing.sequence.make_sampling_table"] = {
    "keras.preprocessing.sequence.make_sampling_table(10)"},
  ["preprocessing.sequence.skipgrams"] = {
    "local pairs = keras.preprocessing.sequence.skipgrams({1, 2, 3}, 4, {seed = 1}) return pairs"},
  ["preprocessing.text.text_to_word_sequence"] = {
    'keras.preprocessing.text.text_to_word_sequence("One, two!")'},
  ["preprocessing.text.hashing_trick"] = {'keras.preprocessing.text.hashing_trick("one two", 10)'},
  ["preprocessing.text.Tokenizer"] = {tokenizer 'texts_to_sequences{"b a"}'},
  ["tokenizer:fit_on_sequences"] = {tokenizer "fit_on_sequences{{1, 2}}"},
  ["tokenizer:fit_on_texts"] = {tokenizer 'fit_on_texts{"c"}'},
  ["tokenizer:get_config"] = {tokenizer "get_config().char_level"},
  ["tokenizer:sequences_to_matrix"] = {tokenizer "sequences_to_matrix{{1, 2}}"},
  ["tokenizer:sequences_to_texts"] = {tokenizer "sequences_to_texts{{1, 2}}"},
  ["tokenizer:texts_to_matrix"] = {tokenizer 'texts_to_matrix{"a b"}'},
  ["tokenizer:texts_to_sequences"] = {tokenizer 'texts_to_sequences{"b a"}'},
  ["tokenizer:to_json"] = {"#keras.preprocessing.text.Tokenizer():to_json() > 0"},
  ["preprocessing.text.tokenizer_from_json"] = {"local t = keras.preprocessing.text return "
    .. "t.tokenizer_from_json(t.Tokenizer():to_json())"},
  ["preprocessing.image.array_to_img"] = {
    "keras.preprocessing.image.array_to_img(ipu.ones{4, 6, 3})"},
  ["preprocessing.image.img_to_array"] = {
    'keras.preprocessing.image.img_to_array(ipu.zeros({4, 6, 3}, "uint8"))'},
  ["preprocessing.image.load_img"] = {
    'keras.preprocessing.image.load_img(pictures .. "/cat/1.png", {target_size = {2, 3}})'},
  ["preprocessing.image.save_img"] = {
    'keras.preprocessing.image.save_img(folder .. "/s.png", ipu.ones{4, 6, 3})'},
  ["mixed_precision.set_global_policy"] = {'keras.mixed_precision.set_global_policy("float32")'},
  ["mixed_precision.global_policy"] = {"keras.mixed_precision.global_policy()"},
  ["mixed_precision.resolve"] = {'keras.mixed_precision.resolve("mixed_float16")'},
  ["mixed_precision.Policy"] = {'keras.mixed_precision.Policy("mixed_float16").compute_dtype'},
  ["datasets.mnist.load_data"] = {"keras.datasets.mnist.load_data()"},
  ["onnx.export"] = {'keras.onnx.export(model, folder .. "/m.onnx")'},
  ["onnx.import"] = {'keras.onnx.export(model, folder .. "/p.onnx") '
    .. 'return keras.onnx.import(folder .. "/p.onnx")'},
  PipelineStage = {"local s <const> = ipu.IPUStrategy() return s:scope()(function() local i = "
    .. "keras.Input{3} local a, b do local _ <close> = keras.PipelineStage(0) a = "
    .. "layers.Dense(2)(i) "
    .. "end do local _ <close> = keras.PipelineStage(1) b = layers.Dense(1)(a) end "
    .. "return keras.Model{inputs = i, outputs = b} end)"},
  SequentialLayerPipelineStageAssignment = {
    "keras.SequentialLayerPipelineStageAssignment(layers.Dense(1), 0)"},
  FunctionalLayerPipelineStageAssignment = {
    "local d = layers.Dense(1) d(keras.Input{3}) "
    .. "return keras.FunctionalLayerPipelineStageAssignment(d, 0, 1)"},
  ModelLayerPipelineStageAssignment = {
    "keras.ModelLayerPipelineStageAssignment(layers.Dense(1), 0, 1)"},
  PipelineModel = {"local s <const> = ipu.IPUStrategy() return s:scope()(function() local i = "
    .. "keras.Input{3} local o do local _ <close> = keras.PipelineStage(0) o = layers.Dense(1)(i) "
    .. "end "
    .. "return keras.PipelineModel{inputs = i, outputs = o, gradient_accumulation_count = 4} end)"},
  SequentialPipelineModel = {"local s <const> = ipu.IPUStrategy() return s:scope()(function() "
    .. "return "
    .. "keras.SequentialPipelineModel{{{layers.Dense(2)}, {layers.Dense(1)}}, "
    .. "gradient_accumulation_count = 4} end)"},
  onnx = {'keras.onnx.export(model, folder .. "/q.onnx")'},
  Loss = {"keras.losses.Loss:extend(\"Own\")"},
  FunctionLoss = {"keras.losses.FunctionLoss(function(y, p) return ipu.reduce_mean(ipu.abs(y - p), "
    .. "{axis = -1}) end)(ipu.zeros{2, 3}, ipu.ones{2, 3})"},
  CTCLoss = {"keras.losses.CTCLoss()({ipu.ones({2, 2}, \"int32\"), ipu.tensor({1, 2}, \"int32\"), "
    .. "ipu.tensor({5, 5}, \"int32\")}, ipu.zeros{5, 2, 4})"},
  Metric = {'keras.metrics.Metric:extend("Own")'},
  MeanMetricWrapper = {"keras.metrics.MeanMetricWrapper(function(y, p) return ipu.abs(y - p) end)"
    .. "(ipu.zeros{2}, ipu.ones{2})"},
  Optimizer = {'keras.optimizers.Optimizer:extend("Own")'},
  LearningRateSchedule = {'keras.optimizers.schedules.LearningRateSchedule:extend("Own")'},
  Initializer = {'keras.initializers.Initializer:extend("Own")'},
  Regularizer = {'keras.regularizers.Regularizer:extend("Own")'},
  Constraint = {'keras.constraints.Constraint:extend("Own")'},
  Constant = {"keras.initializers.Constant(0.5)({2, 3})"},
  Identity = {"keras.initializers.Identity()({3, 3})"},
}

-- Functions of ipu.keras.backend, by the code after "local K = keras.backend return ".
calls.backend = {
  arange = "K.arange(0, 6, 2)", batch_dot = "K.batch_dot(ipu.ones{2, 3}, ipu.ones{2, 3}, 1)",
  batch_get_value = "K.batch_get_value{v}", batch_set_value = "K.batch_set_value{{v, {1, 2, 3}}}",
  bias_add = "K.bias_add(ipu.ones{2, 3}, ipu.ones{3})",
  binary_crossentropy = "K.binary_crossentropy(ipu.ones{2, 3}, ipu.ones{2, 3})",
  categorical_crossentropy = "K.categorical_crossentropy(ipu.ones{2, 3}, ipu.ones{2, 3})",
  clear_session = "K.clear_session()", clip = "K.clip(ipu.ones{2, 3}, 0, 1)",
  concatenate = "K.concatenate({ipu.ones{2, 3}, ipu.ones{2, 4}})", constant = "K.constant(1)",
  count_params = "K.count_params(ipu.ones{2, 3})", dot = "K.dot(ipu.ones{2, 3}, ipu.ones{3, 4})",
  dropout = "K.dropout(ipu.ones{2, 3}, 0.5, {seed = 1})", epsilon = "K.epsilon()", eye = "K.eye(3)",
  floatx = "K.floatx()", gather = "K.gather(ipu.ones{4, 3}, ipu.tensor({0, 2}, \"int32\"))",
    get_value = "K.get_value(v)",
  gradients = "ipu.func(function(a) return K.gradients(ipu.reduce_sum(a * a), a) end)(ipu.ones{2})",
  image_data_format = "K.image_data_format()",
  in_test_phase = "K.in_test_phase(ipu.ones{2}, ipu.zeros{2})",
  in_train_phase = "K.in_train_phase(ipu.ones{2}, ipu.zeros{2})",
  ones = "K.ones{2, 3}", repeat_elements = "K.repeat_elements(ipu.ones{2, 3}, 2, 1)",
  ["repeat"] = "K[\"repeat\"](ipu.ones{2, 3}, 4)", reset_uids = "K.reset_uids()",
  reverse = "K.reverse(ipu.ones{2, 3}, 1)", set_value = "K.set_value(v, {1, 2, 3})",
  sparse_categorical_crossentropy =
    'K.sparse_categorical_crossentropy(ipu.zeros({2}, "int32"), ipu.ones{2, 3})',
  squeeze = "K.squeeze(ipu.ones{2, 1}, 1)", stack = "K.stack({ipu.ones{2}, ipu.ones{2}})",
  switch = 'K.switch(ipu.ones({2}, "bool"), ipu.ones{2}, ipu.zeros{2})', update = "K.update(v, "
    .. "{1, 2, 3})",
  update_add = "K.update_add(v, 1)", update_sub = "K.update_sub(v, 1)",
  variable = "K.variable(ipu.ones{2})", zeros = "K.zeros{2, 3}",
}

return calls
