-- The program of the report in README, a small GPT on four IPUs. It is priced and not run: ipulua
-- --estimate --profile DIR docs/source/four_stages.lua
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local length, width, heads, words, blocks <const> = 128, 512, 8, 8192, 8

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 4
cfg:configure_ipu_system()
keras.mixed_precision.set_global_policy("float16")
local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local function block(x)
  local seen = layers.LayerNormalization()(x)
  x = layers.Add(){x, layers.MultiHeadAttention{num_heads = heads, key_dim = width // heads}(seen,
    seen, {use_causal_mask = true})}
  local y = layers.Dense{4 * width, activation = "gelu"}(layers.LayerNormalization()(x))
  return layers.Add(){x, layers.Dense(width)(y)}
end

local input = keras.Input{shape = {length}, dtype = "int32"}
local x
for i = 0, blocks - 1 do
  local _ <close> = keras.PipelineStage(i * 4 // blocks)
  if i == 0 then x = layers.Embedding{words, width}(input) end
  x = block(x)
  if i == blocks - 1 then x = layers.Dense(words)(x) end
end
local model = keras.Model{inputs = input, outputs = x, name = "gpt"}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = 16,
  pipeline_schedule = "Grouped",
  offload_weight_update_variables = false}
model:compile{optimizer = keras.optimizers.SGD{0.1, momentum = 0.9},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  steps_per_execution = 16}
local element = ipu.zeros({8, length}, {dtype = "int32"})
model:fit(ipu.data.from_tensors({element, element}):repeat_n(),
  {epochs = 1, steps_per_epoch = 16, verbose = 0})
