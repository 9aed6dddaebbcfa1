-- Layers of the IPU extensions that are about speech decoding and about watching gradients.

local about = require "ipulua.base.parts.about"
local Layer = require "ipulua.keras.base.layer"
local Wrapper = require "ipulua.keras.layers.layer_wrapper"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local capture = require "ipulua.trace.capture"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local ops = require "ipulua.ops"

local layers = {}

local ctc_rows <const> = {
  {"blank_index", "integer", 0, range = "[0, inf)"},
  {"beam_width", "integer", 100, range = "[1, inf)"},
  {"top_paths", "integer", 1, range = "[1, inf)"},
  {"from_logits", "boolean", false},
}

---The most probable label sequences of [time, batch, classes]: probabilities, lengths, labels.
---Called with the data and their lengths.
---@class CTCInferenceLayer: Layer
local CTCInferenceLayer = Layer.declare("CTCInferenceLayer", ctc_rows)
layers.CTCInferenceLayer = CTCInferenceLayer

local function decode(self, data, lengths)
  local f = self.from_logits and ops.nn.ctc_beam_search_decoder
    or ops.nn.ctc_beam_search_decoder_with_log_probs
  return f(data, lengths,
    {blank_index = self.blank_index, beam_width = self.beam_width, top_paths = self.top_paths})
end

local function operands(data, lengths)
  if args.is_plain(data) then return data[1], data[2] end
  return data, core.is_tensor(lengths) and lengths or nil
end

local function check_operands(self, data, lengths)
  if #data.shape == 3 and lengths ~= nil then return end
  blame.error(string.format("layer '%s': it is called with data [time, batch, classes] and their "
    .. "lengths [batch]", self.name), "value")
end

function CTCInferenceLayer:call(data, lengths)
  check_operands(self, operands(data, lengths))
  return decode(self, operands(data, lengths))
end

---The most probable label sequence of each sample, filled up with the blank index.
---@class CTCPredictionsLayer: Layer
local CTCPredictionsLayer = Layer.declare("CTCPredictionsLayer", ctc_rows)
layers.CTCPredictionsLayer = CTCPredictionsLayer

function CTCPredictionsLayer:call(data, lengths)
  check_operands(self, operands(data, lengths))
  local probabilities, label_lengths, labels = decode(self, operands(data, lengths))
  -- labels [batch, paths, length]: the best path is the one of the highest probability
  local best = ops.argmax(probabilities, {axis = 1})
  local chosen = ops.cast(ops.one_hot(best, probabilities.shape[2]), "int32")
  local path = ops.reduce_sum(labels * ops.expand_dims(chosen, -1), {axis = 1})
  local length = ops.reduce_sum(label_lengths * chosen, {axis = 1, keepdims = true})
  local positions = ops.reshape(ops.arange(path.shape[2]), {1, path.shape[2]})
  local used = ops.less(positions, ops.broadcast_to(length, path.shape))
  return ops.where(used, path, ops.zeros_like(path) + self.blank_index)
end

-- ------------------------------------------------ gradients

---A layer whose result's gradient is recorded under a tag.
---@class CaptureUpstreamGradients: Wrapper
local CaptureUpstreamGradients = Layer.declare("CaptureUpstreamGradients",
  {{"layer", {Layer, "dict"}}, {"tag", "string", optional = true}}, Wrapper)
layers.CaptureUpstreamGradients = CaptureUpstreamGradients

function CaptureUpstreamGradients:call(x, options)
  local y = self.layer(x, {training = options.training, mask = options.mask})
  local captured = capture.capture_upstream_gradients(y, {tag = self.tag or self.name})
  context.set_mask(captured, context.mask(y))
  return captured
end

---A layer the gradient of whose activation's input is recorded under a tag.
---@class CaptureActivationGradients: CaptureUpstreamGradients
local CaptureActivationGradients = CaptureUpstreamGradients:extend("CaptureActivationGradients")
layers.CaptureActivationGradients = CaptureActivationGradients

function CaptureActivationGradients:call(x, options)
  local layer, tag = self.layer, self.tag or self.name
  local activation = layer.activation
  if not activation then return CaptureUpstreamGradients.call(self, x, options) end
  rawset(layer, "activation", function(z)
    return activation(capture.capture_upstream_gradients(z, {tag = tag}))
  end)
  local ok, y = pcall(layer, x, {training = options.training, mask = options.mask})
  rawset(layer, "activation", activation)
  if not ok then error(y, 0) end
  return y
end

about.say("layers", {
  {"CTCInferenceLayer", source = "Graves et al. 2006 (ICML); ipu.keras.layers.CTCInferenceLayer of "
    .. "Graphcore's TensorFlow 2.6", takes_one = true,
    section = "Sequences of labels, captured gradients",
    sample = "CTCInferenceLayer{beam_width = 4}", wrong = "CTCInferenceLayer{beam_width = 0}",
    shapes = "data [time, batch, classes], lengths [batch] → probabilities [batch, paths], lengths "
    .. "[batch, paths], labels [batch, paths, time]"},
  {"CTCPredictionsLayer", source = "Graves et al. 2006 (ICML); "
    .. "ipu.keras.layers.CTCPredictionsLayer of Graphcore's TensorFlow 2.6", takes_one = true,
    section = "Sequences of labels, captured gradients",
    sample = "CTCPredictionsLayer{beam_width = 4}", wrong = "CTCPredictionsLayer{beam_width = 0}",
    shapes = "data [time, batch, classes], lengths [batch] → labels [batch, time]"},
  {"CaptureUpstreamGradients",
    source = "ipu.keras.layers.CaptureUpstreamGradients of Graphcore's TensorFlow 2.6",
    section = "Sequences of labels, captured gradients",
    sample = "CaptureUpstreamGradients(Dense(4))", input = {2, 3},
    wrong = "CaptureUpstreamGradients(4)", is = "[batch, ...] → [batch, ...']",
    also = "as the layer inside"},
  {"CaptureActivationGradients", source = "ipu.keras.layers.CaptureActivationGradients of "
    .. "Graphcore's TensorFlow 2.6", section = "Sequences of labels, captured gradients",
    sample = "CaptureActivationGradients(Dense{4, activation = \"relu\"})", input = {2, 3},
    wrong = "CaptureActivationGradients(4)", is = "[batch, ...] → [batch, ...']",
    also = "as the layer inside"},
}, layers)

return layers
