-- Metrics, losses, optimizers and schedules where an argument is rare: numbers worked out by hand
-- from the formulas of their documentation.

local ipu = require "ipulua"

local keras = ipu.keras
local metrics <const> = keras.metrics

local function near(expected, tensor)
  local got = ipu.reshape(tensor, {-1}):totable()
  assert.equal(#expected, #got)
  for i, value in ipairs(expected) do assert.is_near(value, got[i], 1e-5) end
end

describe("metrics of values that have more axes than their weights", function()
  local values <const> = ipu.reshape(ipu.arange(1, 13, {dtype = "float32"}), {2, 3, 2})

  -- 1 + … + 6 = 21 once, 7 + … + 12 = 57 ten times
  it("Sum adds up what a weight is for", function()
    local sum = metrics.Sum()
    sum:update_state(values, {1, 10})
    near({591}, sum:result())
    near({591 + 57}, sum(values, {0, 1}))
    sum:reset_state()
    near({78}, sum(values))
  end)

  it("Mean takes its mean", function()
    near({(3.5 + 10 * 9.5) / 11}, metrics.Mean()(values, {1, 10}))
  end)

  it("MeanTensor keeps the elements apart", function()
    local mean = metrics.MeanTensor()
    mean:update_state({{1, 2}, {3, 4}}, {1, 3})
    near({1, 2, 3, 4}, mean:result())
    near({(1 + 5 * 2) / 3, (2 + 6 * 2) / 3, (3 * 3 + 7) / 4, (4 * 3 + 8) / 4},
      mean({{5, 6}, {7, 8}}, {2, 1}))
  end)
end)

describe("labels and predictions of a metric", function()
  local function int(list) return ipu.tensor(list, {dtype = "int32"}) end

  -- The errors are 1, 0, 0, 2, relative to 2. If [4] and [4, 1] made [4, 4], there would be 16.
  it("differ by a last axis of 1 at most", function()
    local y, p = ipu.tensor{1, 2, 3, 4}, ipu.tensor{{2}, {2}, {3}, {2}}
    for _, pair in ipairs{{y, p}, {p, y}} do
      assert.equal(3 / 8, metrics.MeanRelativeError{normalizer = 2}(pair[1], pair[2]):item())
      assert.near(math.sqrt(5 / 4),
        metrics.RootMeanSquaredError()(pair[1], pair[2]):item(), 1e-6)
    end
    for _, metric in ipairs{metrics.MeanRelativeError{normalizer = 2},
      metrics.RootMeanSquaredError()} do
      assert.error_matches(function() metric(ipu.ones{3}, ipu.ones{4, 3}) end,
        metric.name .. ": y_true and y_pred have different shapes, %[3%] and %[4, 3%]")
    end
  end)

  it("are as many where labels are class numbers", function()
    for _, metric in ipairs{metrics.SparseCategoricalAccuracy(),
      metrics.SparseTopKCategoricalAccuracy{k = 1}} do
      assert.error_matches(function() metric(int{1}, ipu.ones{4, 3}) end,
        "the labels and the prediction without its classes have different shapes, %[1%] and %[4%]")
      assert.error_matches(function() metric(int{0, 1, 2, 0}, ipu.ones{2, 4, 3}) end,
        "%[4%] and %[2, 4%]")
      assert.equal(0.75, metric(int{{0}, {1}, {2}, {0}}, ipu.eye(4)[{1, 4}]):item())
    end
  end)
end)

describe("weights of another shape", function()
  it("are refused where they would broadcast", function()
    local y, p = ipu.eye(3), ipu.eye(3) * 0.5
    assert.error_matches(function() metrics.AUC{multi_label = true, label_weights = {2}}(y, p) end,
      "auc: label_weights and the labels of a sample have different shapes, %[1%] and %[3%]")
    local layer = keras.layers.Layer{name = "own"}
    for _, own in ipairs{layer, metrics.Metric{name = "own"}} do
      assert.error_matches(function()
        own:add_weight{name = "w", shape = {3}, initializer = function() return ipu.ones{1} end}
      end, "the weight 'w' has the shape %[3%], but its initializer gave %[1%]")
    end
    assert.same({1, 2, 3}, layer:add_weight{name = "v", shape = {3},
      initializer = function() return {1, 2, 3} end}:totable())
  end)

  it("are refused for samples of one batch, as in fit", function()
    local model = keras.Sequential{keras.layers.Dense(1)}
    model:compile{loss = function(y, p) return ipu.square(y - p) end, optimizer = "sgd"}
    for _, call in ipairs{"train_on_batch", "test_on_batch"} do
      for _, given in ipairs{{y = ipu.ones{1, 1}},
        {y = ipu.ones{8, 1}, sample_weight = ipu.ones{1}}} do
        given.x = ipu.ones{8, 3}
        assert.error_matches(function() model[call](model, given) end,
          call .. ": the tensors have different numbers of samples: [18] and [18]")
      end
    end
    local a, b = keras.Input{shape = {3}}, keras.Input{shape = {3}}
    local sum = keras.Model{inputs = {a, b}, outputs = keras.layers.Add(){a, b}}
    assert.error_matches(function() sum:predict_on_batch{ipu.ones{8, 3}, ipu.ones{1, 3}} end,
      "predict_on_batch: the tensors have different numbers of samples: 8 and 1")
  end)
end)

describe("decisions", function()
  -- Weights 1, 2 / 3, 6 of labels 1, 0 / 0, 1; beyond the threshold 0.5 lie the first two.
  it("are weighed by sample and by label in one curve of AUC", function()
    local y <const>, p <const> = {{1, 0}, {0, 1}}, {{0.9, 0.6}, {0.4, 0.2}}
    local function auc() return metrics.AUC{thresholds = {0.5}, label_weights = {1, 2}} end
    near({1 / 3 * (1 + 1 / 3) / 2 + 2 / 3 * (1 / 3) / 2}, auc()(y, p))
    near({0.6 * (1 + 1 / 7) / 2 + 0.4 * (1 / 7) / 2}, auc()(y, p, {1, 3}))
  end)

  it("of a class stand at its place in the last axis", function()
    local y <const> = ipu.tensor{{{1, 0, 1}, {0, 1, 0}}}
    local p <const> = ipu.tensor{{{0.1, 0.9, 0.9}, {0.9, 0.8, 0.1}}}
    near({1 / 2}, metrics.Precision{class_id = 1}(y, p))
    near({1}, metrics.Recall{class_id = 2}(y, p))
    near({0}, metrics.Recall{class_id = 0}(y, p))
  end)

  it("for the k greatest predictions count whatever their sign", function()
    near({1 / 2}, metrics.Recall{top_k = 1}({{1, 0}, {1, 0}}, {{-1, -2}, {-3, -2}}))
  end)

  -- Class 1: true positives 1, false ones 5. Class 2: 2 true ones, 5 missed.
  it("of an F score weighed by the classes count samples by their weights", function()
    near({(2 / 7 * 1 + 4 / 9 * 7) / 8}, metrics.F1Score{average = "weighted"}(
      {{1, 0}, {0, 1}, {0, 1}}, {{0.9, 0.1}, {0.2, 0.8}, {0.7, 0.3}}, {1, 2, 5}))
  end)

  it("are none where all predictions are 0", function()
    near({2 / 3}, metrics.F1Score{average = "micro"}({{1, 0}, {1, 0}}, {{0, 0}, {0.9, 0.1}}))
  end)
end)

describe("a loss", function()
  it("of no sample is 0", function()
    near({0}, keras.losses.MeanSquaredError()(ipu.zeros{0, 3}, ipu.zeros{0, 3}))
  end)

  it("of hinges takes labels of 0 and 1 for -1 and 1, and others as they are", function()
    near({(0.5 + 1.5) / 2}, keras.losses.Hinge()(ipu.tensor{{1, 0}}, ipu.tensor{{0.5, 0.5}}))
    near({(0 + 0.5) / 2}, keras.losses.Hinge()(ipu.tensor{{2, 1}}, ipu.tensor{{0.5, 0.5}}))
  end)
end)

describe("LAMB", function()
  it("moves zeros by its learning rate", function()
    local v <const> = ipu.Variable(ipu.zeros{2})
    keras.optimizers.LAMB(0.25):apply_gradients({ipu.tensor{2, -3}}, {v})
    near({-0.25, 0.25}, v:read_value())
  end)
end)

describe("CosineDecay", function()
  it("begins its cosine where the warm-up ends", function()
    local rate <const> = keras.optimizers.schedules.CosineDecay{0.1, 100, warmup_target = 1,
      warmup_steps = 10}
    for step, expected in pairs{[0] = 0.1, [5] = 0.55, [10] = 1, [60] = 0.5, [110] = 0,
      [200] = 0} do near({expected}, rate(step)) end
  end)
end)

describe("a metric of other metrics", function()
  -- Of predictions {1, 1, 0} one of two is right, and one of one label is found.
  it("begins again with them", function()
    local Both = metrics.Metric:extend("Both")
    function Both:setup() self.parts = {metrics.Precision(), {metrics.Recall()}} end
    function Both:update_state(y, p)
      self.parts[1]:update_state(y, p)
      self.parts[2][1]:update_state(y, p)
    end
    function Both:result() return ipu.stack{self.parts[1]:result(), self.parts[2][1]:result()} end
    local both = Both()
    near({0.5, 1}, both(ipu.tensor{1, 0, 0}, ipu.tensor{1, 1, 0}))
    both:reset_state()
    near({0, 0}, both:result())
    near({1, 0.5}, both(ipu.tensor{1, 1}, ipu.tensor{0, 1}))
  end)
end)

describe("a metric's name", function()
  it("is Keras' own where it differs from its class' name", function()
    for class, name in pairs{
      KLDivergence = "kullback_leibler_divergence", LogCoshError = "logcosh",
      AUC = "auc", RootMeanSquaredError = "root_mean_squared_error", Mean = "mean",
    } do
      assert.equal(name, keras.metrics[class]().name)
      assert.equal("own", keras.metrics[class]{name = "own"}.name)
    end
  end)
end)
