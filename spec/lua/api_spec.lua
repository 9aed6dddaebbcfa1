-- The public names, word for word: that each is there, takes its arguments in their order, and has
-- the defaults that it is known for. A line is a name and its arguments; one without a default is
-- just named, `=nil` is one that may be left out.

local class = require "ipulua.base.class"
local core = require "ipulua.core"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"

local function words(text) return text:gmatch("%S+") end

-- The value of the path "a.b.c" within a table.
local function value_of(path, place)
  place = place or ipu
  for name in path:gmatch("[^.]+") do place = place[name] end
  return place
end

local op_of = {} -- function → name of its row
for name, f in pairs(core.ops) do op_of[f] = name end

local function op_signature(name)
  local row, list = core.describe_op(name), {}
  for i, input in ipairs(row.inputs) do list[i] = {input:gsub("%?$", "")} end
  for _, a in ipairs(row.attributes) do list[#list + 1] = {a.name, a.default} end
  return list
end

local function rows_signature(rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = {row[1], row[3]} end
  return list
end

-- A list {name, default} of what a value takes; nil: it does not say.
local function signature(path, value)
  if op_of[value] then return op_signature(op_of[value]) end
  local described = core.describe_op(path)
  if described and not described.internal and described.inputs[1] then return op_signature(path) end
  local rows
  if class.is_class(value) then rows = value.argument_rows or help.rows(value.init)
  else rows = help.rows(value) end
  return rows and rows_signature(rows)
end

local function shown(value)
  if type(value) == "table" then
    local parts = {}
    for i, each in ipairs(value) do parts[i] = shown(each) end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  if math.type(value) == "float" and value == math.floor(value) then
    value = math.tointeger(value)
  end
  return (tostring(value):gsub("^'(.*)'$", "%1"))
end

-- Whether 0.1 and 1e-1, 8192 and 2^13 are meant alike.
local function same_default(want, got)
  if want == shown(got) then return true end
  local a, b = tonumber(want), tonumber(got)
  return a ~= nil and b ~= nil and math.abs(a - b) <= 1e-9 * math.abs(a)
end

local function check(line)
  local next_word = words(line)
  local path = next_word()
  local value = value_of(path)
  assert.is_not_nil(value, path)
  local given = signature(path, value)
  local at = 0
  for argument in next_word do
    local name, default = argument:match("^(.-)=(.*)$")
    name = name or argument
    assert.is_truthy(given, path .. " does not say what it takes")
    local found
    for i, each in ipairs(given) do
      if each[1] == name then found = i end
    end
    assert.is_truthy(found, path .. " has no argument '" .. name .. "'")
    assert.is_true(found > at, path .. ": '" .. name .. "' stands before what it should follow")
    at = found
    if default then
      assert.is_true(same_default(default, given[found][2]),
        ("%s: the default of '%s' is %s, not %s"):format(path, name,
          shown(given[found][2]), default))
    end
  end
end

-- Lines that are indented further go on with the one before.
local function each_line(text, f)
  for line in text:gsub("\n      +", " "):gmatch("[^\n]+") do
    if line:find("%S") then f(line) end
  end
end

describe("ops", function()
  local tensors = [[
    abs neg sign ceil floor round exp expm1 log log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh tanh
    sigmoid erf is_nan is_inf is_finite logical_not identity zeros_like ones_like stop_gradient add sub mul div pow maximum minimum
    mod floordiv squared_difference atan2 equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
    where clip_by_value reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_std reduce_variance reduce_logsumexp
    reduce_any reduce_all argmax argmin cumsum cumprod clip_by_norm reshape transpose split unstack expand_dims squeeze
    broadcast_to tile repeat_n pad reverse slice strided_slice cast gather gather_nd one_hot top_k sort argsort segment_sum matmul
    serialized_matmul cholesky triangular_solve embedding_lookup histogram histogram_normalize fixed_width_bins sequence_slice_pack
    sequence_slice_unpack normalise_image]]

  it("are functions and methods", function()
    local t = ipu.ones{2, 2}
    for name in words(tensors) do
      assert.is_truthy(ipu[name], name)
      assert.is_truthy(t[name], "t:" .. name)
    end
    for name in words("concat stack scatter_nd einsum histogram_update clip_by_global_norm "
      .. "gradients sequence_slice") do
      assert.is_truthy(ipu[name], name)
    end
  end)

  it("of neural networks and chance stand in their modules", function()
    for name in words([[relu relu6 leaky_relu elu selu softplus softsign swish gelu hard_sigmoid softmax log_softmax bias_add moments
      conv1d conv2d conv3d depthwise_conv2d conv2d_transpose max_pool avg_pool batch_norm layer_norm group_norm instance_norm
      l2_normalize l2_loss dropout lstm gru dot_product_attention ctc_loss ctc_loss_with_log_probs ctc_beam_search_decoder
      ctc_beam_search_decoder_with_log_probs sampled_softmax_loss nce_loss multi_conv softmax_cross_entropy_with_logits
      sparse_softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits]]) do
      assert.is_truthy(ipu.nn[name], "nn." .. name)
    end
    for name in words("normal uniform truncated_normal bernoulli categorical shuffle set_seed") do
      assert.is_truthy(ipu.random[name], "random." .. name)
    end
  end)

  local signatures = [[
    reduce_sum x axis keepdims=false
    reduce_logsumexp x axis keepdims=false
    argmax x axis
    cumsum x axis exclusive=false reverse=false
    matmul a b transpose_a=false transpose_b=false
    gather x indices axis=0
    one_hot indices depth
    top_k x k
    sort x axis direction=ASCENDING
    argsort x axis direction=ASCENDING
    pad x paddings mode=CONSTANT constant_values=0
    strided_slice x begins ends strides
    clip_by_value x min max
    segment_sum data segment_ids
    embedding_lookup table ids serialization_factor=1
    serialized_matmul a b serialization_factor serialization_dimension
    triangular_solve a b lower adjoint=false
    histogram x levels absolute_of_input=false
    nn.gelu x approximate=true
    nn.dropout x rate=0.5
    nn.conv2d x kernel strides=1 padding=VALID dilations=1 groups=1
    nn.conv1d x kernel strides=1 padding=VALID dilations=1 groups=1
    nn.conv3d x kernel strides=1 padding=VALID dilations=1 groups=1
    nn.depthwise_conv2d x kernel strides=1 padding=VALID dilations=1
    nn.conv2d_transpose x kernel strides padding output_padding
    nn.max_pool x ksize strides padding
    nn.avg_pool x ksize strides padding
    nn.group_norm x gamma beta groups=2 channels_axis=-1 epsilon=1.53e-5 strided_channel_grouping=true
    nn.instance_norm x
    nn.l2_normalize x axis epsilon
    nn.dot_product_attention q k v mask is_causal=false
    random.normal shape mean=0 stddev=1 seed
    random.uniform shape minval=0 maxval=1 seed
    random.bernoulli shape p
  ]]
  each_line(signatures, function(line)
    it("take their arguments: " .. line:match("%S+"), function() check(line) end)
  end)
end)

describe("the library", function()
  it("has its modules and enumerations", function()
    for name in words("loops train optimizers nn random data keras ipu_compiler dataset_benchmark "
      .. "within_replica graph json") do
      assert.equal("table", type(ipu[name]), name)
    end
    for name, members in pairs{
      PipelineSchedule = "Grouped Interleaved Sequential", IPUOutfeedMode = "ALL LAST",
      GradientAccumulationReductionMethod = "SUM MEAN RUNNING_MEAN",
      RecomputationMode = "Auto RecomputeThenBackpropagate RecomputeAndBackpropagateInterleaved",
      SelectionOrder = "AUTO ZIGZAG SNAKE HOOF",
      StochasticRoundingBehaviour = "OFF ON REPLICA_IDENTICAL_ONLY",
      DeviceConnectionType = "ALWAYS ON_DEMAND PRE_COMPILE NEVER",
      MergeRemoteBuffersBehaviour = "NO_MERGING MERGE IF_BENEFICIAL",
      SchedulingAlgorithm = "CHOOSE_BEST CLUSTERING POST_ORDER LOOK_AHEAD SHORTEST_PATH",
      ExecutionProfileType = "NO_PROFILE DEVICE_PROFILE IPU_PROFILE TILE_PROFILE",
    } do
      for member in words(members) do
        assert.equal(member, ipu[name][member])
        assert.equal(member, ipu[name](member:lower()))
      end
      local ok, message = pcall(ipu[name], "no member")
      assert.is_false(ok)
      for member in words(members) do assert.is_truthy(message:find(member, 1, true), message) end
    end
  end)

  local functions = [[
    tensor data dtype=nil
    constant value dtype=nil shape=nil
    zeros shape dtype=float32
    ones shape dtype=float32
    full shape value dtype=float32
    eye num_rows num_columns=nil batch_shape=nil dtype=float32
    arange start stop=nil step=1
    linspace start stop num=50
    Variable initial_value name trainable=true
    get_variable name shape dtype initializer
    variable_scope name reuse use_resource
    placeholder dtype shape name=nil
    func f name=nil
    cond pred true_fn false_fn
    gradients ys xs grad_ys
    GradientTape persistent=false
    loops.repeat_n n body inputs=nil infeed_queue=nil use_while_v1=true
    loops.while_loop condition body inputs=nil infeed_queue=nil maximum_iterations=nil use_while_v1=true
    ipu_compiler.compile computation inputs=nil
    IPUInfeedQueue dataset device_ordinal=nil prefetch_depth=nil optimise_latency=false
    IPUOutfeedQueue outfeed_mode=ALL device_ordinal=nil buffer_depth=3 optimise_latency=false
    ScopedIPUOutfeedQueue outfeed_mode device_ordinal
    IPUStrategy ipu_device=/device:IPU:0 cpu_device=/device:CPU:0 enable_dataset_iterators=true enable_keras_extensions=true
    reset_ipu_seed seed device=/device:IPU:0 cpu_device=cpu experimental_identical_replicas=false
    dataset_benchmark.dataset_benchmark dataset number_of_epochs elements_per_epochs print_stats=true apply_debug_options=true do_memcpy=true
    dataset_benchmark.infeed_benchmark infeed_queue number_of_epochs elements_per_epochs print_stats=true do_memcpy=true
    pipeline computational_stages gradient_accumulation_count=nil gradient_accumulation_dtype=nil
      gradient_accumulation_for_captured_grads=true repeat_count=1 batch_serialization_iterations=1 inputs=nil infeed_queue=nil
      outfeed_queue=nil optimizer_function=nil device_mapping=nil pipeline_schedule=nil recomputation_mode=Auto
      forward_propagation_stages_poplar_options=nil backward_propagation_stages_poplar_options=nil weight_update_poplar_options=nil
      offload_weight_update_variables=nil replicated_optimizer_state_sharding=false offload_activations=nil
      offload_gradient_accumulation_buffers=nil replicated_weight_sharding=nil offload_weights=nil continuous_weight_updates=false
      outfeed_loss=false accumulate_outfeed=false accumulate_outfeed_dtype=nil outfeed_mask=nil reduction_method=SUM name=pipeline
    OptimizerFunctionOutput opt loss compute_gradients_args=nil compute_gradients_kwargs=nil apply_gradients_args=nil
      apply_gradients_kwargs=nil variables=nil tape=nil gradient_capture_context=nil captured_gradient_outfeed=nil
    PipelineStageOptions convolution_options=nil matmul_options=nil slice_options=nil
    optimizers.CrossReplicaOptimizer opt name=nil
    optimizers.GradientAccumulationOptimizerV2 opt num_mini_batches offload_weight_update_variables=nil
      replicated_optimizer_state_sharding=false dtype=nil reduction_method=SUM name=nil
    optimizers.CrossReplicaGradientAccumulationOptimizerV2 opt num_mini_batches offload_weight_update_variables=nil
      replicated_optimizer_state_sharding=false dtype=nil reduction_method=SUM name=nil
    optimizers.GradientAccumulationOptimizer opt num_mini_batches verify_usage=true name=nil
    optimizers.CrossReplicaGradientAccumulationOptimizer opt num_mini_batches verify_usage=true name=nil
    optimizers.MapGradientOptimizer wrapped_optimizer gradient_mapping_function name=nil
    optimizers.ShardedOptimizer opt
    train.GradientDescentOptimizer learning_rate
    train.MomentumOptimizer learning_rate momentum use_nesterov=false
    train.AdamOptimizer learning_rate beta1=0.9 beta2=0.999 epsilon=1e-8
    train.RMSPropOptimizer learning_rate decay=0.9 momentum=0 epsilon=1e-10
    train.AdagradOptimizer learning_rate
    cross_replica_sum x replica_group_size
    cross_replica_mean x replica_group_size
    all_to_all x split_dimension concat_dimension
    all_gather x
    print_tensor input name
    host_callback f outputs
    capture_upstream_gradients x tag
    create_host_embedding name shape dtype partition_strategy=TOKEN optimizer_spec=nil initializer=nil
    HostEmbeddingOptimizerSpec learning_rate
    HostEmbeddingSGDGAOptimizerSpec learning_rate accumulation_factor
    register_op name call gradient
    data.from_generator f output_types output_shapes
    data.BufferDataset dataset buffer_size
    estimate fn batch_size=nil inputs=nil target=nil ipus=nil
    fifo x depth offload=false
    remap x
    outlined_function func unique_sharding=false keep_input_layouts=nil name=nil
  ]]
  each_line(functions, function(line)
    it("takes the arguments of " .. line:match("%S+"), function() check(line) end)
  end)

  it("has every other name", function()
    for name in words([[configure_ipu_system get_num_of_ipus_in_device load_op_library barrier timetable is_tensor range Session
      reset_default_graph name_scope global_variables_initializer global_variables
      trainable_variables device ipu_scope ipu_shard ipu_jit_scope outside_compilation_scope stochastic_rounding partials_type
      frontend_attribute custom_gradient GradientCaptureTape GradientCaptureContext reduce_scatter assume_equal_across_replicas
      replication_index remap outlined_function recomputation_checkpoint get_current_iteration_counter programs ipu_event_trace
      ReportHelper last_error save load set_num_threads set_flags selection_order IPUConfig reset_ipu_configuration get_ipu_config
      running_on_ipu_model use_synthetic_data_for move_variable_initialization_to_cpu train.get_or_create_global_step
      train.Checkpoint train.Optimizer graph.print graph.nodes json.encode json.decode within_replica.all_reduce
      within_replica.reduce_scatter within_replica.all_gather data.from_tensors data.from_tensor_slices data.range data.zip
      data.AUTOTUNE data.from_idx data.from_cifar data.from_csv data.from_npy data.from_safetensors data.from_text
      data.from_image_folder]]) do
      assert.is_not_nil(value_of(name), name)
    end
  end)

  it("has the methods and fields of what it makes", function()
    local ds = ipu.data.from_tensors(ipu.ones{2})
    for name in words([[map batch padded_batch unbatch window shuffle repeat_n cache prefetch take skip concatenate enumerate filter
      interleave flat_map shard with_options cardinality element_spec iterator iter]]) do
      assert.is_not_nil(ds[name], "dataset:" .. name)
    end
    local v = ipu.Variable(1.0)
    for name in words("name shape dtype trainable assign assign_add assign_sub read_value item "
      .. "totable") do
      assert.is_not_nil(v[name], "variable:" .. name)
    end
    local infeed, outfeed, strategy = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue(),
      ipu.IPUStrategy()
    for name in words("initializer deleter number_of_tuple_elements dequeued") do
      assert.is_not_nil(infeed[name], name)
    end
    for name in words("enqueue dequeue iter deleter enqueued") do
      assert.is_not_nil(outfeed[name], name)
    end
    for name in words("scope run run_async reduce experimental_run_v2 num_replicas_in_sync") do
      assert.is_not_nil(strategy[name], name)
    end
    local job = strategy:run_async(ipu.func(function() return 1 end))
    for name in words("done wait cancel") do assert.is_not_nil(job[name], name) end
    job:wait()
    for name in words(
      [[configure_ipu_system to_dict from_dict to_json from_json copy get_attribute_metadata]]) do
      assert.is_not_nil(ipu.IPUConfig()[name], name)
    end
    local f = ipu.func(function(x) return x end)
    assert.is_not_nil(f.signatures)
    local helper = ipu.ReportHelper()
    for name in words("set_autoreport_options find_report find_reports clear_reports") do
      assert.is_not_nil(helper[name], name)
    end
  end)
end)

describe("Keras", function()
  local signatures = [[
    layers.Dropout rate noise_shape=nil seed=nil
    layers.Embedding input_dim output_dim embeddings_initializer embeddings_regularizer=nil mask_zero=false input_length=nil
      serialization_factor=1
    layers.GroupNormalization groups=32 axis epsilon=1e-3 center=true scale=true
    layers.LayerNormalization axis=-1 epsilon=1e-3 center=true scale=true
    layers.BatchNormalization axis=-1 momentum=0.99 epsilon=1e-3 center=true scale=true
    layers.LSTM units activation=tanh recurrent_activation=sigmoid use_bias=true unit_forget_bias=true dropout=0 recurrent_dropout=0
      return_sequences=false return_state=false go_backwards=false stateful=false
    layers.GRU units activation=tanh recurrent_activation=sigmoid use_bias=true reset_after=true
    layers.SerialDense units serialization_factor serialization_dimension
    layers.CTCPredictionsLayer blank_index=0 beam_width=100 top_paths=1 from_logits=false
    layers.RecomputationCheckpoint
    layers.CaptureUpstreamGradients layer tag=nil
    layers.CaptureActivationGradients layer tag=nil
    layers.AssumeEqualAcrossReplicas
    layers.CTCInferenceLayer
    layers.Dense units activation use_bias=true kernel_initializer=glorot_uniform bias_initializer=zeros
    layers.Conv2D filters kernel_size strides padding=valid
    layers.InstanceNormalization
    losses.CTCLoss blank_index=0 from_logits=false
    losses.SparseCategoricalCrossentropy from_logits=false
    losses.CategoricalCrossentropy from_logits=false label_smoothing=0
    losses.BinaryCrossentropy from_logits=false label_smoothing=0
    losses.MeanSquaredError
    losses.KLDivergence
    metrics.MeanIoU num_classes
    optimizers.SGD learning_rate=0.01 momentum=0 nesterov=false
    optimizers.Adam learning_rate=0.001 beta_1=0.9 beta_2=0.999 epsilon=1e-7
    optimizers.RMSprop learning_rate=0.001 rho=0.9 momentum=0 epsilon=1e-7 centered=false
    optimizers.GradientAccumulationOptimizer opt num_mini_batches offload_weight_update_variables=nil
      replicated_optimizer_state_sharding=false dtype=nil reduction_method=SUM name=nil
    optimizers.ALSOptimizer opt initial_loss_scaling_factor=1 update_frequency=8 increase_factor=2 max_loss_scaling_factor=32768
      accumulate_statistics_over_update_period=true ratio_threshold=1e-5 captured_grads_only=false lpf_alpha=0 histogram_bin_edge=8192
      name=nil
    optimizers.ALSOptimizerSGD learning_rate=0.01 momentum=0
    optimizers.ALSOptimizerAdam learning_rate=0.001 beta_1=0.9 beta_2=0.999 epsilon=1e-7
    optimizers.ALSOptimizerRMSProp learning_rate=0.001 rho=0.9 momentum=0 epsilon=1e-7 centered=false
    optimizers.ALSGradientAccumulationOptimizer
    optimizers.MapGradientOptimizer wrapped_optimizer gradient_mapping_function
    optimizers.MapGradientOptimizerInvertedChaining
    optimizers.CrossReplicaOptimizer opt
    optimizers.AdamW learning_rate=0.001
    optimizers.LAMB learning_rate=0.001
    optimizers.schedules.CosineDecay initial_learning_rate decay_steps
    initializers.GlorotUniform seed=nil
    regularizers.L1L2 l1 l2
    constraints.MaxNorm max_value=2
  ]]
  each_line(signatures, function(line)
    it("takes the arguments of " .. line:match("%S+"), function()
      check("keras." .. line:match("%S.*"))
    end)
  end)

  it("has every other name", function()
    for name in words([[Model Sequential Input PipelineStage PipelineModel SequentialPipelineModel layers.Layer callbacks.Callback
      activations.relu activations.get initializers.get regularizers.get constraints.get losses.get metrics.get optimizers.get
      losses.sparse_categorical_crossentropy models.load_model models.model_from_json datasets.mnist
      datasets.fashion_mnist datasets.cifar10 datasets.cifar100 datasets.imdb datasets.text mixed_precision.set_global_policy
      utils.plot_model utils.to_categorical utils.set_random_seed utils.vocabulary utils.generate_text
      onnx.export onnx.import]]) do
      assert.is_not_nil(value_of(name, ipu.keras), name)
    end
    for name in words("mnist fashion_mnist cifar10 cifar100 imdb text") do
      assert.is_not_nil(ipu.keras.datasets[name].load_data)
    end
  end)

  it("has the methods of models and layers", function()
    local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    for name in words([[compile fit evaluate predict build layers get_layer inputs outputs weights trainable_variables
      non_trainable_variables optimizer losses metrics_names stop_training to_json add_loss add_metric summary get_weights set_weights
      count_params save save_weights load_weights train_on_batch test_on_batch predict_on_batch train_step
      set_asynchronous_callbacks set_replication_options set_gradient_accumulation_options set_pipelining_options
      set_infeed_queue_options set_outfeed_queue_options get_pipeline_stage_assignment set_pipeline_stage_assignment
      reset_pipeline_stage_assignment print_pipeline_stage_assignment_summary is_pipelined]]) do
      assert.is_not_nil(model[name], "model:" .. name)
    end
    for name in words("build call add_weight get_weights extend") do
      assert.is_not_nil(ipu.keras.layers.Layer[name], name)
    end
  end)
end)
