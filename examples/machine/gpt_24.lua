-- Does a GPT of 24 layers fit on eight IPUs, and how fast is it? Each schedule is priced with and
-- without recomputation of activations in the backward pass. No weight is made, and nothing runs.
-- --short prices Grouped alone.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local short, blocks, ipus, width, micro_batch, accumulation = require "ipulua.script".arguments{
  "short", {"blocks", 24}, {"ipus", 8}, {"width", 1024}, {"micro_batch", 1}, {"accumulation", 64}}
local context <const>, vocabulary <const> = 512, 16384

local function encoder(x)
  local seen = layers.LayerNormalization()(x)
  x = layers.Add(){x, layers.MultiHeadAttention{num_heads = width // 64, key_dim = 64}(seen, seen,
    {use_causal_mask = true})}
  local y = layers.Dense{4 * width, activation = "gelu"}(layers.LayerNormalization()(x))
  return layers.Add(){x, layers.Dense{width}(y)}
end

-- Each IPU has the same number of blocks. The first one also has the embedding, the last one the
-- output layer.
local function gpt()
  local input = keras.Input{shape = {context}, dtype = "int32"}
  local x = input
  local per_stage = (blocks + ipus - 1) // ipus
  do
    local _ <close> = keras.PipelineStage(0)
    x = layers.Embedding{vocabulary, width}(x)
  end
  for i = 0, blocks - 1 do
    local _ <close> = keras.PipelineStage(i // per_stage)
    x = encoder(x)
  end
  local _ <close> = keras.PipelineStage(ipus - 1)
  return keras.Model{inputs = input,
    outputs = layers.Dense{vocabulary}(layers.LayerNormalization()(x)), name = "gpt"}
end

keras.mixed_precision.set_global_policy "float16"
local told = false
for _, recompute in ipairs{false, true} do
  for _, schedule in ipairs(short and {"Grouped"} or {"Grouped", "OneFOneB", "Sequential"}) do
    ipu.reset_ipu_configuration()
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus, cfg.allow_recompute = ipus, recompute
    cfg:configure_ipu_system()
    local _ <close> = ipu.IPUStrategy():scope()
    local model = gpt()
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = accumulation,
      pipeline_schedule = schedule}
    model:compile{optimizer = keras.optimizers.SGD{0.1}, steps_per_execution = accumulation,
      loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
    if not told then
      print(string.format("%d million weights, %d blocks on %d IPUs",
        model:count_params() // 1000000, blocks, ipus))
      told = true
    end
    local e = ipu.estimate(model, {batch_size = micro_batch, target = "bow", ipus = ipus})
    print(string.format("%-10s %-14s %s, fullest tile %4d KiB, %5.1f samples a second", schedule,
      recompute and "recomputation" or "", e.fits and "fits" or "does not fit",
      e.max_tile_bytes // 1024, e.samples_per_second))
  end
end
