-- W5: a character GPT, 4 layers, width 128, 4 heads, 128 characters of context, batch 16, AdamW.
-- Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path
local report = require "report"
local step_count = require "ipulua.script".arguments{{"steps", 120}}
local keras, nn = ipu.keras, ipu.nn
local layers = keras.layers

local batch <const>, context <const>, width <const>, heads <const>, depth <const> = 16,
  128, 128, 4, 4
local text, _, vocabulary = keras.datasets.text.load_data()
local infeed = ipu.IPUInfeedQueue(report.windows(text, batch, context))
local outfeed = ipu.IPUOutfeedQueue()

local Block = layers.Layer:extend("Block")

function Block:init()
  layers.Layer.init(self)
  self.norm_1, self.norm_2 = layers.LayerNormalization{epsilon = 1e-5},
    layers.LayerNormalization{epsilon = 1e-5}
  self.qkv, self.out = layers.Dense(3 * width), layers.Dense(width)
  self.up, self.down = layers.Dense{4 * width, activation = "gelu"}, layers.Dense(width)
end

function Block:call(x)
  local parts = {ipu.split(self.qkv(self.norm_1(x)), 3, {axis = -1})}
  for i, part in ipairs(parts) do parts[i] = part:reshape{batch, context, heads, width // heads} end
  local seen = nn.dot_product_attention(parts[1], parts[2], parts[3], {is_causal = true})
  x = x + self.out(seen:reshape{batch, context, width})
  return x + self.down(self.up(self.norm_2(x)))
end

local GPT = keras.Model:extend("GPT")

function GPT:init()
  keras.Model.init(self)
  self.embedding = layers.Embedding(vocabulary.size, width)
  self.position = self:add_weight{name = "position", shape = {context, width},
    initializer = keras.initializers.RandomNormal{stddev = 0.02}}
  self.blocks = {}
  for i = 1, depth do self.blocks[i] = Block() end
  self.norm = layers.LayerNormalization{epsilon = 1e-5}
  self.head = layers.Dense{vocabulary.size, use_bias = false}
end

function GPT:call(characters)
  local x = self.embedding(characters) + self.position
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

local model = GPT()
local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
local optimizer = keras.optimizers.AdamW{learning_rate = 3e-4, weight_decay = 0.01}

local train = ipu.func(function(steps)
  return ipu.loops.repeat_n(steps, function(x, y)
    local loss = loss_of(y, model(x))
    local variables = model.trainable_variables
    optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
    outfeed:enqueue(loss)
  end, {}, infeed)
end)

local rows = batch * context
report.run{workload = "w5", steps = step_count, train = train, outfeed = outfeed,
  flops = 6 * rows * (depth * 12 * width ^ 2 + width * vocabulary.size)
  + 12 * depth * rows * context * width}
