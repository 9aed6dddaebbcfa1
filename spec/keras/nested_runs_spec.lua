-- A callback may fit, evaluate and predict with the model whose run calls it. That run sees only
-- the changes of weights.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"
local keras = ipu.keras
local callbacks, layers = keras.callbacks, keras.layers

local x, y = ipu.random.normal({32, 3}, {seed = 1}), ipu.random.normal({32, 1}, {seed = 2})
local other <const> = {x = ipu.ones{32, 3}, y = ipu.full({32, 1}, 7), batch_size = 4, verbose = 0}

local function new_model(form)
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "ones", input_shape = {3}}}
  model:compile{optimizer = keras.optimizers.SGD(0.01), loss = "mse", metrics = {"mae"},
    steps_per_execution = form.per_execution}
  if form.asynchronous then model:set_asynchronous_callbacks(true) end
  return model
end

local function values(t) return ipu.reshape(t, {-1}):totable() end

-- The numbers that each run gives.
local outer <const> = {
  fit = function(model, list)
    local h = model:fit{x = x, y = y, batch_size = 4, epochs = 3, verbose = 0, callbacks = list,
      validation_data = {x, y}}.history
    return {h.loss, h.mae, h.val_loss, values(model:get_weights()[1])}
  end,
  evaluate = function(model, list)
    return model:evaluate{x = x, y = y, batch_size = 4, verbose = 0, callbacks = list}
  end,
  predict = function(model, list)
    return values(model:predict(x, {batch_size = 4, callbacks = list}))
  end,
}
local hooks <const> = {
  fit = {"on_train_begin", "on_epoch_begin", "on_train_batch_begin", "on_train_batch_end",
    "on_test_batch_end", "on_test_end", "on_epoch_end"},
  evaluate = {"on_test_begin", "on_test_batch_begin", "on_test_batch_end", "on_test_end"},
  predict = {"on_predict_begin", "on_predict_batch_begin", "on_predict_batch_end"},
}

local inner <const> = {
  evaluate = function(model) return model:evaluate(other) end,
  ["evaluate another batch"] = function(model)
    return model:evaluate{x = other.x, y = other.y, batch_size = 8, verbose = 0}
  end,
  predict = function(model) return values(model:predict(other.x, {batch_size = 4})) end,
  test_on_batch = function(model) return model:test_on_batch(other.x, other.y) end,
  -- puts back what it changes
  fit = function(model)
    local weights, iterations = model:get_weights(), model.optimizer:get_weights()
    local history = model:fit(other).history
    model:set_weights(weights)
    model.optimizer:set_weights(iterations)
    return history
  end,
}

describe("a run inside of a run", function()
  for name, run in pairs(outer) do
    for form_name, form in pairs{["each step"] = {per_execution = 1},
      ["several steps"] = {per_execution = 2},
      asynchronously = {per_execution = 2, asynchronous = true}} do
      it("changes nothing of " .. name .. ", " .. form_name, function()
        local want = run(new_model(form), nil)
        for inner_name, begin in pairs(inner) do
          for _, hook in ipairs(hooks[name]) do
            local Inside = callbacks.Callback:extend "Inside"
            local model, calls, given = new_model(form), 0, nil
            Inside[hook] = function()
              calls = calls + 1
              if calls == 2 or hook:find "^on_%a+_begin$" then given = begin(model) end
            end
            assert.same(want, run(model, Inside()), inner_name .. " in " .. hook)
            if given and inner_name ~= "fit" and name ~= "fit" then
              assert.same(begin(new_model(form)), given, inner_name .. " in " .. hook)
            end
          end
        end
      end)
    end
  end

  -- Replicas have sums of their own in metrics.
  it("changes nothing of an evaluation on two replicas", function()
    local _ <close> = pipelines.device(2)
    local want = outer.evaluate(new_model{per_execution = 2}, nil)
    for _, inner_name in ipairs{"evaluate", "evaluate another batch", "fit"} do
      local Inside = callbacks.Callback:extend "Inside"
      local model, calls = new_model{per_execution = 2}, 0
      function Inside:on_test_batch_end() -- luacheck: ignore 212
        calls = calls + 1
        if calls == 1 then inner[inner_name](model) end
      end
      assert.same(want, outer.evaluate(model, Inside()), inner_name)
      assert.is_true(calls > 1)
    end
  end)

  it("has queues of its own where it begins before a smaller batch of that size", function()
    for name, event in pairs{evaluate = "on_test_batch_begin",
      predict = "on_predict_batch_begin"} do
      local function run(list, begin)
        local model = new_model{per_execution = 1}
        local Inside = callbacks.Callback:extend "Inside"
        Inside[event] = function(_, step) if begin and step == 2 then begin(model) end end
        local options = {x = x[{1, 10}], batch_size = 4, verbose = 0,
          callbacks = list and Inside() or nil}
        if name == "evaluate" then options.y = y[{1, 10}] end
        local given = model[name](model, options)
        return name == "predict" and values(given) or given
      end
      assert.same(run(), run(true, function(model)
        local same <const> = {x = other.x[{1, 2}], batch_size = 2, verbose = 0}
        if name == "evaluate" then same.y = other.y[{1, 2}] end
        model[name](model, same)
      end), name)
    end
  end)

  it("leaves what callbacks of the fit around it know", function()
    local folder = os.tmpname()
    os.remove(folder)
    local Inside = callbacks.Callback:extend "Inside"
    function Inside:on_epoch_end(epoch) if epoch == 0 then self.model:fit(other) end end
    local model = new_model{per_execution = 1}
    local history = model:fit{x = x, y = y, batch_size = 4, epochs = 3, verbose = 0,
      callbacks = {Inside(), callbacks.BackupAndRestore{folder}}}
    assert.equal(3, #history.history.loss)
    assert.equal(history, model.history)
    local Stop = callbacks.Callback:extend "Stop"
    function Stop:on_epoch_end()
      self.model.stop_training = true
      self.model:fit(other)
    end
    assert.equal(1, #model:fit{x = x, y = y, batch_size = 4, epochs = 3, verbose = 0,
      callbacks = Stop()}.history.loss)
  end)
end)
