-- Losses over a sample of the classes, if there are too many classes for all of them; and
-- convolutions planned together.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"

local ops <const> = core.ops

local candidates = {}

local spec <const> = {
  {"weights", "tensor"}, {"biases", "tensor"}, {"labels", "tensor"}, {"inputs", "tensor"},
  {"num_sampled", "integer"},
  {"num_classes", "integer"}, {"num_true", "integer", 1},
  {"sampled_values", "list", optional = true},
  {"remove_accidental_hits", "boolean", optional = true}, {"seed", "integer", optional = true},
}

-- log P(class) when small class numbers are frequent: P(k) = log((k + 2) / (k + 1)) / log(classes +
-- 1). [classes]
local function log_probability(classes)
  local k = ops.cast(core.ops.cumsum(core.full({classes}, 1, "float32")), "float32") -- 1 … classes
  return ops.log(ops.log((k + 1) / k) / math.log(classes + 1))
end

-- Distinct classes, the likelier the more often: those with the greatest log P plus Gumbel noise.
-- Then how often the true and the sampled ones are to be expected among so many.
local function sample(a, labels)
  local log_p = log_probability(a.num_classes)
  local noise = -ops.log(
    -ops.log(ops["random.uniform"]({a.num_classes}, {minval = 1e-20, maxval = 1, seed = a.seed})))
  local _, sampled = ops.top_k(log_p + noise, {k = a.num_sampled})
  local missed = ops.log1p(-ops.exp(log_p)) * a.num_sampled -- log P(none of the draws hits)
  local expected = -ops.expm1(missed)
  return sampled, ops.gather(expected, labels), ops.gather(expected, sampled)
end

local function check_sizes(who, a)
  if a.num_true < 1 then
    blame.error(who .. ": 'num_true' must be at least 1, got " .. a.num_true, "value")
  end
  if a.num_sampled < 1 or a.num_sampled > a.num_classes then
    blame.error(string.format("%s: 'num_sampled' must be between 1 and num_classes (%d), got %d",
      who, a.num_classes, a.num_sampled), "value")
  end
  local _, shape = core.type_of(a.weights)
  if #shape ~= 2 or shape[1] ~= a.num_classes then
    blame.error(string.format("%s: 'weights' must be [%d, dim], got [%s]", who, a.num_classes,
      table.concat(shape, ", ")), "invalid_argument")
  end
end

-- A lower bound of logits, which gives a class no share.
local function lowest(dtype) return dtype == "float16" and -65504 or -3.3e38 end

-- Classes as int32. Numbers beyond int32 stay outside of all classes.
local function as_classes(v)
  if core.type_of(v) == "int64" then v = ops.clip_by_value(v, -(1 << 31), (1 << 31) - 1) end
  return ops.cast(v, "int32")
end

-- Logits and labels [batch, num_true + num_sampled], corrected by how often each class is drawn.
local function sampled_logits(who, remove_hits, a)
  check_sizes(who, a)
  if a.remove_accidental_hits ~= nil then remove_hits = a.remove_accidental_hits end
  local _, inputs_shape = core.type_of(a.inputs)
  local batch, dim = inputs_shape[1], inputs_shape[2]
  local labels = ops.reshape(as_classes(a.labels), {batch, a.num_true})
  local sampled, true_expected, sampled_expected
  if a.sampled_values then
    sampled, true_expected, sampled_expected = table.unpack(a.sampled_values)
    sampled, true_expected = as_classes(sampled),
      ops.reshape(true_expected, {batch, a.num_true})
  else
    sampled, true_expected, sampled_expected = sample(a, labels)
  end
  sampled = ops.stop_gradient(sampled)
  local true_weights = ops.gather(a.weights, labels) -- [batch, num_true, dim]
  local hits = ops.reduce_sum(true_weights * ops.reshape(a.inputs, {batch, 1, dim}), {axis = 2})
    + ops.gather(a.biases, labels)
  local others = ops.matmul(a.inputs, ops.gather(a.weights, sampled), {transpose_b = true})
    + ops.gather(a.biases, sampled)
  local dtype = core.type_of(hits)
  local function log(expected) return ops.stop_gradient(ops.cast(ops.log(expected), dtype)) end
  if remove_hits then
    local same = ops.equal(ops.expand_dims(labels, 2), ops.reshape(sampled, {1, 1, -1}))
    others = ops.where(ops.reduce_any(same, {axis = 1}),
      core.full({}, lowest(dtype), dtype), others)
  end
  hits = hits - log(true_expected)
  others = others - log(sampled_expected)
  local right = core.full({batch, a.num_true}, 1 / a.num_true, dtype)
  local wrong = core.full({batch, (select(2, core.type_of(others)))[2]}, 0, dtype)
  return ops.concat({hits, others}, 1), ops.concat({right, wrong}, 1)
end

---Softmax cross-entropy over the true classes and a sample of the others, for training only.
---sampled_values are classes, with the expected counts of the true and of the sampled ones. Without
---them, classes are drawn, small numbers more often.
---Shapes: weights [classes, dim], biases [classes], labels [batch, num_true], inputs [batch, dim] →
---[batch]
---Errors: counts that don't fit:
---`ipu.nn.sampled_softmax_loss(ipu.ones{5, 3}, ipu.ones{5}, ipu.zeros{2, 1}, ipu.ones{2, 3}, 6, 5)`
---Source: tf.nn.sampled_softmax_loss; Jean et al. 2015, arXiv:1412.2007
---@return userdata
function candidates.sampled_softmax_loss(...)
  local logits, labels = sampled_logits("sampled_softmax_loss", true,
    args.check("sampled_softmax_loss", spec, ...))
  return ops["nn.softmax_cross_entropy_with_logits"](labels, logits)
end

---Noise-contrastive estimation: true classes told from a sample of the others, each by itself.
---Shapes: weights [classes, dim], biases [classes], labels [batch, num_true], inputs [batch, dim] →
---[batch]
---Errors: counts that don't fit:
---`ipu.nn.nce_loss(ipu.ones{5, 3}, ipu.ones{5}, ipu.zeros{2, 1}, ipu.ones{2, 3}, 6, 5)`
---Source: tf.nn.nce_loss; Gutmann & Hyvärinen 2010
---@return userdata
function candidates.nce_loss(...)
  local logits, labels = sampled_logits("nce_loss", false, args.check("nce_loss", spec, ...))
  return ops.reduce_sum(ops["nn.sigmoid_cross_entropy_with_logits"](labels, logits), {axis = 1})
end

local multi_spec <const> = {{"fn", "callable"}, {"options", "table", optional = true}}

---A function like fn, whose convolutions don't wait for each other. The results don't change.
---Shapes: as fn takes and gives them
---Errors: an fn that can't be called: `ipu.nn.multi_conv(3)`
---Source: nn_ops.multi_conv of Graphcore's TensorFlow 2.6
---@return fun(...): ...
function candidates.multi_conv(...)
  local a = args.check("multi_conv", multi_spec, ...)
  return function(...) return a.fn(...) end
end

return candidates
