-- What would a weight update of BERT-Large cost on a pipeline of 16 IPUs? The model has 340 million
-- weights. None of them is made, and nothing runs. --accumulation is the number of micro-batches of
-- a weight update.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers

local target, micro_batch, accumulation = require "ipulua.script".arguments{{"target", "bow"},
  {"micro_batch", 4}, {"accumulation", 512},
  "short"} -- it is short as it stands
local sequence, masked, width, heads, vocabulary, blocks, stages <const> =
  128, 20, 1024, 16, 30528, 24, 16

local function encoder(x)
  local attended = layers.MultiHeadAttention{num_heads = heads, key_dim = width // heads}(x, x)
  x = layers.LayerNormalization()(layers.Add(){x, attended})
  local wide = layers.Dense{4 * width, activation = "gelu"}(x)
  return layers.LayerNormalization()(layers.Add(){x, layers.Dense{width}(wide)})
end

-- The first stage has the embedding and a block, the last one a block and the prediction of masked
-- words. The other blocks are shared out among the stages between.
local function stage_of(block)
  if block == 0 or block == blocks - 1 then return block == 0 and 0 or stages - 1 end
  return 1 + (block - 1) * (stages - 2) // (blocks - 2)
end

local function bert()
  local words = keras.Input{shape = {sequence}, dtype = "int32"}
  local x
  do
    local _ <close> = keras.PipelineStage(0)
    x = layers.Embedding{vocabulary, width}(words)
    x = layers.LayerNormalization()(x)
  end
  for block = 0, blocks - 1 do
    local _ <close> = keras.PipelineStage(stage_of(block))
    x = encoder(x)
  end
  local _ <close> = keras.PipelineStage(stages - 1)
  x = layers.Cropping1D{{0, sequence - masked}}(x)
  local model = keras.Model{inputs = words, outputs = layers.Dense{vocabulary}(x),
    name = "bert_large"}
  model:compile{optimizer = keras.optimizers.Adam{epsilon = 1e-3},
    loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
  model:set_pipelining_options{gradient_accumulation_steps_per_replica = accumulation,
    pipeline_schedule = "Grouped",
    recomputation_mode = ipu.RecomputationMode.Auto}
  return model
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = stages
cfg.allow_recompute = true
cfg.matmuls.poplar_options = {partialsType = "half"}
cfg.convolutions.poplar_options = {partialsType = "half"}
cfg.optimizations.maximum_cross_replica_sum_buffer_size = 64 << 20
cfg:configure_ipu_system()

keras.mixed_precision.set_global_policy("float16")
local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local e = ipu.estimate(bert, {batch_size = micro_batch, target = target, ipus = 16})

print(string.format("BERT-Large on %d IPUs (%s): %s", e.ipus, e.target,
  e.fits and "fits" or "does not fit"))
print(string.format("%d ops, %d of them priced; a weight update takes %.3g s: %.0f sequences a "
  .. "second", e.ops, e.ops_priced,
  e.seconds, e.samples_per_second))
print(string.format("%.0f %% of the time is work; the fullest tile has %d of %d bytes",
  100 * e.utilisation, e.max_tile_bytes,
  e.tile_bytes))
for _, stage in ipairs(e.stages) do
  print(string.format("  stage %2d  forward %8.0f  backward %8.0f cycles  stash %2d deep  fullest "
    .. "tile %d", stage.stage,
    stage.forward_cycles, stage.backward_cycles, stage.stash_depth, stage.max_tile_bytes))
end
