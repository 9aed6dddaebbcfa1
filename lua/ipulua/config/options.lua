-- The options of IPUConfig: one row each, in the order in which they are shown. An option's type,
-- default, bounds and words stand here alone; assignment, metadata, dictionaries and messages
-- follow from them.
--
-- {full name, type, default, words, fields}. Types: "bool", "int", "float", "str", "dict" (text to
-- text), "ints" (a number or a list of numbers), an enumeration. Fields: `least` and `most` bound a
-- number, `above` excludes the bound itself, and `choices` has the allowed texts. They are checked
-- when the configuration is applied. `deprecated` has the words that follow "… is deprecated: ".
-- `unused`: scripts may set it, but nothing here reads it.

local chips = require "ipulua.config.chips"
local enums = require "ipulua.enums"

local options = {}

-- far beyond any chip: limits the size that a script can ask of the machine model
local largest_tile_count <const> = 65536

options.table = {
  {"auto_select_ipus", "ints", {},
    "Number of IPUs for /device:IPU:0; a list makes one device of each of its numbers. Free IPUs "
    .. "are taken."},
  {"select_ipus", "ints", {}, "Device ids, one for each device. Cannot be used together with "
    .. "auto_select_ipus."},
  {"selection_order", enums.SelectionOrder, "AUTO",
    "The order in which the shards of a program take the IPUs of a device. "
    .. "Never changes results."},
  {"allow_recompute", "bool", false,
    "Compute activations again in the backward pass of a pipeline, instead of keeping them."},
  {"serialization_output_folder", "str", "", "Folder that every compiled program is written to.",
    {unused = true}},
  {"compilation_poplar_options", "dict", {},
    "Options of the compiler, such as autoReport.directory."},
  {"gcl_poplar_options", "dict", {}, "Options of the collectives.", {unused = true}},
  {"convolutions.poplar_options", "dict", {},
    "Options of convolutions: availableMemoryProportion (above 0, at most 1), partialsType "
    .. "('float', 'half')."},
  {"matmuls.poplar_options", "dict", {},
    "Options of matrix products: availableMemoryProportion (above 0, at most 1), partialsType "
    .. "('float', 'half')."},
  {"matmuls.clear_pass_type", "bool", false,
    "Plan matrix products alike in forward and backward passes.", {unused = true}},
  {"slices.poplar_options", "dict", {}, "Options of slices and embeddings.", {unused = true}},
  {"pooling.poplar_options", "dict", {}, "Options of pooling.", {unused = true}},
  {"device_connection.type", enums.DeviceConnectionType, "ALWAYS",
    "When devices are attached: when the configuration is applied, "
    .. "at the first run, or never."},
  {"device_connection.version", "str", "",
    "Chip version to compile for without a device: " .. chips.any_version .. ". Required by "
    .. "PRE_COMPILE and NEVER.", {choices = {"", table.unpack(chips.versions)}}},
  {"device_connection.enable_remote_buffers", "bool", false,
    "Whether the device that is not attached has remote buffers."},
  {"experimental.always_rearrange_copies_on_the_host", "bool", false,
    "Rearrange the data of streams on the host.", {unused = true}},
  {"experimental.enable_remote_buffer_embedding", "bool", false,
    "Keep host embeddings in remote buffers, spread over replicas.",
    {unused = true}},
  {"experimental.enable_prng_stability", "bool", false,
    "Keep replicas identical to the bit under stochastic rounding. They "
    .. "are either way: an operation rounds by the same random bits on all replicas, so that "
    .. "weights that begin equal and are changed alike "
    .. "stay equal.", {unused = true}},
  {"experimental.multi_replica_distribution.process_index", "int", 0,
    "The index of this process, from 0.",
    {least = 0, unused = true}},
  {"experimental.multi_replica_distribution.process_count", "int", 0,
    "The number of processes; 0: not distributed.",
    {least = 0, unused = true}},
  {"floating_point_behaviour.inv", "bool", false,
    "Stop at invalid operations (0/0, inf - inf, sqrt(-1))."},
  {"floating_point_behaviour.div0", "bool", false, "Stop at divisions by zero."},
  {"floating_point_behaviour.oflo", "bool", false, "Stop at overflows."},
  {"floating_point_behaviour.esr", enums.StochasticRoundingBehaviour, "OFF",
    "Stochastic rounding of float16 results: of all (ON), or of those "
    .. "that all replicas compute alike (REPLICA_IDENTICAL_ONLY), such as updates of weights from "
    .. "summed gradients."},
  {"floating_point_behaviour.nanoo", "bool", false,
    "Overflow of float16 gives NaN; otherwise it clips to the largest value."},
  {"floating_point_behaviour.set_all", "bool", false,
    "As if inv, div0, oflo, nanoo were true and esr ON."},
  {"io_tiles.num_io_tiles", "int", 0,
    "Tiles of each IPU that only move data; odd numbers are rounded up.",
    {least = 0, most = 192}},
  {"io_tiles.place_ops_on_io_tiles", "bool", false,
    "Put operations that move data on those tiles, so that they overlap with "
    .. "computing."},
  {"io_tiles.available_memory_proportion", "float", 0.9,
    "The share of these tiles' memory that may hold what infeeds and "
    .. "outfeeds move at once, with place_ops_on_io_tiles; where it is more, it is on all tiles "
    .. "and nothing overlaps.", {above = 0, most = 1}},
  {"ipu_model.compile_ipu_code", "bool", true, "Count the memory of code."},
  {"ipu_model.tiles_per_ipu", "int", 0, "Tiles of an IPU; 0: as many as the version has.",
    {least = 0, most = largest_tile_count}},
  {"ipu_model.version", "str", "ipu2",
    "The chip: " .. chips.described .. ".", {choices = {"", table.unpack(chips.versions)}}},
  {"norms.use_stable_statistics", "bool", false,
    "Subtract the mean before squaring when a variance is computed, as is "
    .. "done in any case.", {unused = true}},
  {"norms.experimental.distributed_batch_norm_replica_group_size", "int", 1,
    "How many replicas share the statistics of batch "
    .. "normalisation in training.", {least = 1}},
  {"optimizations.math.fast", "bool", false,
    "Allow programs rewrites that change how results of float32 and float64 are rounded: a "
    .. "product with the reciprocal for a division by a constant, with rsqrt for one by a square "
    .. "root, with one number for products "
    .. "with several."},
  {"optimizations.math.dot_strength", "bool", true, "Simplify matrix products.", {unused = true}},
  {"optimizations.prefetch_data_streams", "bool", true, "Fetch the data of streams ahead of time."},
  {"optimizations.combine_embedding_lookups", "bool", false, "Join lookups of one table.",
    {unused = true}},
  {"optimizations.combine_matmuls", "bool", false, "Join matrix products that share an operand.",
    {unused = true}},
  {"optimizations.enable_graph_outlining", "bool", true,
    "Use the code of repeated structure again."},
  {"optimizations.merge_infeed_io_copies", "bool", true,
    "One copy from the host for all tensors of an infeed's element that go to "
    .. "one IPU; otherwise each is copied by itself, after a sync of its own. Changes prices, "
    .. "never results."},
  {"optimizations.maximum_cross_replica_sum_buffer_size", "int", 0,
    "Bytes of a replica up to which sums over "
    .. "replicas wait to be joined; 0: each is on its own. Changes prices, never results.",
    {least = 0}},
  {"optimizations.maximum_reduce_scatter_buffer_size", "int", 0,
    "Bytes of a replica's operands up to which "
    .. "reduce-scatters wait to be joined; 0: each is on its own. Changes prices, never results.",
    {least = 0}},
  {"optimizations.maximum_inter_ipu_copies_buffer_size", "int", 0,
    "Bytes up to which copies from one IPU to "
    .. "another are joined; 0: each is on its own. Copies of a pipeline are joined at the end of "
    .. "each time step anyway. Changes prices, "
    .. "never results.", {least = 0}},
  {"optimizations.maximum_send_recv_cluster_size", "int", 0,
    "Bytes up to which transfers to the host are joined.",
    {unused = true, least = 0}},
  {"optimizations.maximum_reduce_many_buffer_size", "int", 0,
    "Bytes up to which reductions on an IPU are joined.",
    {unused = true, least = 0}},
  {"optimizations.maximum_all_gather_buffer_size", "int", 0,
    "Bytes of a replica's operands up to which "
    .. "all-gathers wait to be joined; 0: each is on its own. Changes prices, never results.",
    {least = 0}},
  {"optimizations.minimum_remote_tensor_size", "int", 128,
    "Bytes below which a tensor is never put into remote memory.",
    {least = 0}},
  {"optimizations.merge_remote_buffers", enums.MergeRemoteBuffersBehaviour, "IF_BENEFICIAL",
    "Whether remote buffers are joined.", {unused = true}},
  {"optimizations.enable_gather_simplifier", "bool", true, "Simplify gathers.", {unused = true}},
  {"optimizations.triangular_solve_expander_block_size", "int", 0,
    "Rows of a block of triangular solves; 0: the quickest.",
    {least = 0}},
  {"optimizations.cholesky_block_size", "int", 0,
    "Rows of a block of Cholesky decompositions; 0: the quickest.", {least = 0}},
  {"optimizations.enable_fast_math", "bool", false, "Allow rewrites that change rounding.",
    {deprecated = "use 'optimizations.math.fast' instead"}},
  {"optimizations.enable_dynamic_slice_replacement", "bool", true,
    "Replace dynamic slices by cheaper operations.", {unused = true}},
  {"scheduling.algorithm", enums.SchedulingAlgorithm, "CHOOSE_BEST",
    "How operations are ordered. Never changes results.", {unused = true}},
  {"scheduling.maximum_scheduler_lookahead_depth", "int", 5,
    "How many operations LOOK_AHEAD looks ahead.", {unused = true, least = 0}},
  {"scheduling.maximum_scheduler_search_space_size", "int", 64,
    "How many orders of operations LOOK_AHEAD looks at.",
    {unused = true, least = 0}},
}

for _, row in ipairs(options.table) do
  if row[5] and row[5].unused then row[4] = row[4] .. " Accepted, without effect." end
end

-- Categories: their subject, and `deprecated` words if all their options are deprecated.
options.categories = {
  convolutions = {"Convolutions."}, matmuls = {"Matrix products."},
  slices = {"Slices and embeddings."},
  pooling = {"Pooling."}, device_connection = {"When and how devices are attached."},
  experimental = {"Options that may change."},
  ["experimental.multi_replica_distribution"] = {"Replicas spread over several processes."},
  floating_point_behaviour = {"Traps of unusual floating-point results, and rounding."},
  io_tiles = {"Tiles set aside for moving data."}, ipu_model = {"The simulated chip."},
  norms = {"Normalisation."}, ["norms.experimental"] = {"Options that may change."},
  optimizations = {"Optimizations that the compiler may make."},
  ["optimizations.math"] = {"Arithmetic rewrites."},
  scheduling = {"The order of operations."},
}

return options
