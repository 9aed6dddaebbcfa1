-- F scores, R², focal losses and confusion matrices, with the numbers of Keras' documentation of
-- 2.13 (its pages of these classes and functions).

local ipu = require "ipulua"

local keras = ipu.keras

local function near(expected, tensor, tolerance)
  local got = type(tensor) == "number" and {tensor} or ipu.reshape(tensor, {-1}):totable()
  assert.equal(#expected, #got)
  for i, value in ipairs(expected) do assert.is_near(value, got[i], tolerance or 1e-6) end
end

local truth <const> = {{1, 1, 1}, {1, 0, 0}, {1, 1, 0}}
local guess <const> = {{0.2, 0.6, 0.7}, {0.2, 0.6, 0.6}, {0.6, 0.8, 0.0}}

describe("F scores", function()
  it("of decisions above a threshold", function()
    near({0.5, 0.8, 0.6666667}, keras.metrics.F1Score{threshold = 0.5}(truth, guess))
    near({0.3846154, 0.90909094, 0.8333334},
      keras.metrics.FBetaScore{beta = 2.0, threshold = 0.5}(truth, guess))
  end)

  -- The greatest of the rows are in columns 3, 2 and 3, and 2. True positives are 0, 1, 1, false
  -- ones 0, 1, 1, missed ones 3, 1, 0.
  it("of the greatest class, and averages", function()
    local f = {0, 2 / (2 + 1 + 1), 2 / (2 + 1 + 0)}
    near(f, keras.metrics.F1Score()(truth, guess))
    near({(f[1] + f[2] + f[3]) / 3}, keras.metrics.F1Score{average = "macro"}(truth, guess))
    near({4 / (4 + 2 + 4)}, keras.metrics.F1Score{average = "micro"}(truth, guess))
    near({(3 * f[1] + 2 * f[2] + 1 * f[3]) / 6},
      keras.metrics.F1Score{average = "weighted"}(truth, guess))
  end)

  it("weigh samples, add up over batches and begin anew", function()
    local whole, parts = keras.metrics.F1Score{threshold = 0.5},
      keras.metrics.F1Score{threshold = 0.5}
    whole:update_state({truth[1], truth[2]}, {guess[1], guess[2]}, {2, 1})
    for _, i in ipairs{1, 1, 2} do parts:update_state({truth[i]}, {guess[i]}) end
    near(whole:result():totable(), parts:result())
    parts:reset_state()
    near({0.5, 0.8, 0.6666667}, parts(truth, guess))
  end)

  it("are metrics of compile", function()
    local model = keras.Sequential{keras.layers.Dense{3, activation = "softmax", input_shape = {2}}}
    model:compile{loss = "categorical_crossentropy", optimizer = "sgd",
      metrics = {keras.metrics.F1Score{average = "macro"}}}
    local x = ipu.random.uniform{{6, 2}, seed = 1}
    local y = ipu.one_hot(ipu.tensor({0, 1, 2, 0, 1, 2}, "int32"), 3)
    local logs = model:evaluate{x, y, verbose = 0, return_dict = true}
    near({keras.metrics.F1Score{average = "macro"}(y, model:predict(x)):item()}, logs.f1_score)
  end)
end)

describe("R2Score", function()
  it("is as on its page", function()
    near({0.57142854}, keras.metrics.R2Score()({{1}, {4}, {3}}, {{2}, {4}, {4}}))
  end)

  -- Column 1: labels 1, 2, 3, 6 (mean 3, squares 14), errors 1, 0, 1, 1. Column 2: labels 0, 2, 4,
  -- 2 (mean 2, squares 8), errors 0, 1, 0, 1.
  local y <const>, p <const> = {{1, 0}, {2, 2}, {3, 4}, {6, 2}}, {{2, 0}, {2, 3}, {4, 4}, {5, 3}}
  local first <const>, second <const> = 1 - 3 / 14, 1 - 2 / 8

  it("of several columns", function()
    near({first, second}, keras.metrics.R2Score{class_aggregation = "none"}(y, p))
    near({(first + second) / 2}, keras.metrics.R2Score()(y, p))
    near({(14 * first + 8 * second) / 22},
      keras.metrics.R2Score{class_aggregation = "variance_weighted_average"}(y, p))
  end)

  it("is adjusted by the number of variables, where there are more labels", function()
    local r = (first + second) / 2
    near({1 - (1 - r) * (8 - 1) / (8 - 2 - 1)}, keras.metrics.R2Score{num_regressors = 2}(y, p))
    near({r}, keras.metrics.R2Score{num_regressors = 7}(y, p))
  end)
end)

describe("focal losses", function()
  it("of two classes", function()
    near({0.330, 0.206},
      keras.losses.binary_focal_crossentropy(ipu.tensor{{0, 1}, {0, 0}},
        ipu.tensor{{0.6, 0.4}, {0.4, 0.6}}, {gamma = 2}), 5e-4)
    local y, logits = ipu.tensor{0, 1, 0, 0}, ipu.tensor{-18.6, 0.51, 2.94, -12.8}
    near({0.691}, keras.losses.BinaryFocalCrossentropy{gamma = 2, from_logits = true}(y, logits),
      5e-4)
    near({0.51}, keras.losses.BinaryFocalCrossentropy{gamma = 2, from_logits = true,
      apply_class_balancing = true}(y, logits), 5e-3)
  end)

  it("of several classes", function()
    local y = ipu.tensor{{0, 1, 0}, {0, 0, 1}}
    local p = ipu.tensor{{0.05, 0.95, 0}, {0.1, 0.8, 0.1}}
    near({0.23315276}, keras.losses.CategoricalFocalCrossentropy()(y, p))
    near({0.1632}, keras.losses.CategoricalFocalCrossentropy()(y, p, ipu.tensor{0.3, 0.7}), 5e-4)
    near({0.23315276},
      keras.losses.CategoricalFocalCrossentropy{from_logits = true}(y, ipu.log(p + 1e-30)), 1e-5)
  end)
end)

describe("a confusion matrix", function()
  it("counts predictions by label", function()
    assert.same({{0, 0, 0, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 0, 0, 0},
      {0, 0, 0, 0, 1}}, ipu.confusion_matrix({1, 2, 4}, {2, 2, 4}, 5):totable())
    assert.equal("int32", ipu.confusion_matrix({1}, {0}, 2).dtype)
    local weighted = ipu.confusion_matrix({0, 1, 1}, {1, 1, 1}, 2, {weights = {0.5, 2, 3}})
    assert.same({{0, 0.5}, {0, 5}}, weighted:totable())
  end)

  it("gives weights the gradient of their cells", function()
    local w = ipu.Variable{ipu.tensor{0.5, 2, 3}}
    local tape = ipu.GradientTape()
    local loss = tape(function()
      local m = ipu.confusion_matrix({0, 1, 1}, {1, 1, 0}, 2, {weights = w})
      return ipu.reduce_sum(m * ipu.tensor{{1, 10}, {100, 1000}})
    end)
    assert.same({10, 1000, 100}, tape:gradient(loss, w):totable())
  end)

  it("refuses classes that there are not", function()
    assert.error_matches(function() ipu.confusion_matrix({0, 3}, {1, 1}, 3) end,
      "confusion_matrix: labels%[1%] is 3, outside 0 … 2")
    assert.error_matches(function() ipu.confusion_matrix({0, 1}, {1, 1, 1}, 3) end,
      "one length, got %[2%] and %[3%]")
  end)
end)

describe("metric functions", function()
  it("have the names of the lines that define them", function()
    local function smape(y, p) return ipu.reduce_mean(ipu.abs(y - p)) end
    local own = {}
    own.twice = function(y, p) return ipu.reduce_mean(ipu.abs(y - p)) * 2 end
    function own.thrice(y, p) return ipu.reduce_mean(ipu.abs(y - p)) * 3 end
    local model = keras.Sequential{keras.layers.Dense{1, input_shape = {1}}}
    model:compile{loss = "mse", optimizer = "sgd", metrics = {smape, own.twice, own.thrice,
      keras.metrics.mean_absolute_error}}
    local logs = model:evaluate{ipu.ones{4, 1}, ipu.ones{4, 1}, verbose = 0, return_dict = true}
    local names = {}
    for name in pairs(logs) do names[#names + 1] = name end
    table.sort(names)
    assert.same({"loss", "mean_absolute_error", "smape", "thrice", "twice"}, names)
  end)
end)

-- TensorFlow's page of in_top_k: true where the prediction of the target class is finite and among
-- the k greatest.
describe("top k accuracies of predictions that are no finite numbers", function()
  local nan <const>, inf <const> = 0 / 0, math.huge
  local rows <const> = { -- predictions, label, among the first, among the first two
    {{nan, nan, nan}, 0, 0, 0}, {{0.5, nan, 0.1}, 0, 0, 0}, {{-1, -2, -inf}, 0, 1, 1},
    {{-1, -2, -inf}, 1, 0, 1}, {{-1, -2, -inf}, 2, 0, 0}, {{inf, 1, 2}, 0, 0, 0},
    {{inf, 1, 2}, 2, 0, 1}, {{-3, -1, -2}, 7, 0, 0}, {{-3, -1, -2}, -1, 0, 0},
  }

  it("count what is finite, in order and a class", function()
    for _, row in ipairs(rows) do
      for k = 1, 2 do
        local label, hot = ipu.tensor({row[2]}, "int32"), ipu.one_hot({row[2]}, 3)
        local wanted = {row[2 + k]}
        near(wanted, keras.metrics.sparse_top_k_categorical_accuracy(label, {row[1]}, k))
        near(wanted, keras.metrics.SparseTopKCategoricalAccuracy{k = k}(label, {row[1]}))
        if row[2] >= 0 and row[2] < 3 then
          near(wanted, keras.metrics.top_k_categorical_accuracy(hot, {row[1]}, k))
        end
      end
    end
  end)
end)

describe("AUC of several labels", function()
  it("takes a batch without samples", function()
    local metric = keras.metrics.AUC{multi_label = true, num_thresholds = 3}
    metric:update_state(ipu.zeros{0, 2}, ipu.zeros{0, 2})
    -- thresholds below 0, 0.5 and above 1: the first label's curve passes (0, 1), the second's
    -- lies on the diagonal
    near({(1 + 0.5) / 2}, metric({{1, 1}, {0, 0}}, {{0.9, 0.9}, {0.1, 0.8}}))
  end)
end)

-- of four labels three are right, and of the weights 1, 1, 1, 3 the right ones' are 3 of 6
it("metrics and losses take their values by name, too", function()
  local given <const> = {y_true = ipu.tensor{{1}, {0}, {1}, {1}},
    y_pred = ipu.tensor{{1}, {0}, {1}, {0}}, sample_weight = ipu.tensor{1, 1, 1, 3}}
  local metric = ipu.keras.metrics.BinaryAccuracy()
  metric:update_state(given)
  assert.near(0.5, metric:result():item(), 1e-6)
  assert.near(3 / 4, ipu.keras.losses.MeanSquaredError()(given):item(), 1e-6)
  assert.near(2, ipu.keras.metrics.Mean(){values = {1, 2, 3}}:item(), 1e-6)
end)

-- A label that doesn't count, as in Keras 2.13: the mean is over the others.
describe("ignore_class", function()
  local labels <const> = {{0, 1}, {255, 2}}
  local p <const> = {{{0.8, 0.1, 0.1}, {0.2, 0.5, 0.3}}, {{0.1, 0.1, 0.8}, {0.3, 0.3, 0.4}}}
  local each <const> = {-math.log(0.8), -math.log(0.5), 0, -math.log(0.4)}
  local sum <const> = each[1] + each[2] + each[4]
  local loss_of = keras.losses.SparseCategoricalCrossentropy
  local function ids(list) return ipu.tensor(list, {dtype = "int32"}) end

  it("leaves the loss of a label out", function()
    local y, y_pred = ids(labels), ipu.tensor(p)
    near({sum / 3}, loss_of{ignore_class = 255}(y, y_pred))
    near({sum}, loss_of{ignore_class = 255, reduction = "sum"}(y, y_pred))
    near(each, loss_of{ignore_class = 255, reduction = "none"}(y, y_pred))
    near(each, keras.losses.sparse_categorical_crossentropy(y, y_pred, {ignore_class = 255}))
    near({(each[1] + 2 * each[4]) / 3},
      loss_of{ignore_class = 255}(y, y_pred, ipu.tensor{{1, 0}, {5, 2}}))
    near({0}, loss_of{ignore_class = -1}(ipu.full({2, 2}, -1), y_pred))
    assert.error_matches(function() loss_of{ignore_class = 254}(y, y_pred) end,
      "is 255, outside 0 … 2")
  end)

  it("has no gradient there", function()
    local logits = ipu.Variable(ipu.zeros{2, 4})
    local tape = ipu.GradientTape()
    local loss = tape(function()
      return loss_of{from_logits = true, ignore_class = 3}(ids{1, 3}, logits)
    end)
    near({0.25, -0.75, 0.25, 0.25, 0, 0, 0, 0}, tape:gradient(loss, {logits})[1])
  end)

  it("is trained with", function()
    local model = keras.Sequential{keras.layers.Dense{3, activation = "softmax",
      kernel_initializer = "zeros", input_shape = {2}}}
    model:compile{optimizer = "sgd", loss = loss_of{ignore_class = 0}}
    local history = model:fit{ipu.ones{4, 2}, ids{0, 0, 0, 1}, batch_size = 4, verbose = 0}.history
    near({math.log(3)}, history.loss[1])
  end)

  it("leaves the pairs of a label out of MeanIoU", function()
    local metric = keras.metrics.MeanIoU{num_classes = 3, ignore_class = 0}
    -- labels left: 1 for 1, 2 for 1; 1 of 2 and 0 of 1
    near({(1 / 2 + 0) / 2}, metric(ids{0, 0, 1, 2}, ids{1, 2, 1, 1}))
  end)
end)

-- The numbers of Keras' page of OneHotMeanIoU.
it("MeanIoU takes scores of classes", function()
  local metric = keras.metrics.MeanIoU{num_classes = 3, sparse_y_true = false,
    sparse_y_pred = false}
  metric:update_state({{0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {1, 0, 0}},
    {{0.2, 0.3, 0.5}, {0.1, 0.2, 0.7}, {0.5, 0.3, 0.1}, {0.1, 0.4, 0.5}},
    ipu.tensor{0.1, 0.2, 0.3, 0.4})
  near({0.1 / (0.7 + 0.1 - 0.1) / 3}, metric:result())
end)
