-- The conformance cases of Keras' parts: numbers from other implementations and from Keras' own
-- tests.

local jsonl = require "spec.support.jsonl"
local op_runner = require "spec.support.conformance_ops"
local runner = require "spec.support.conformance_keras"

local files <const> = {
  "initializer", "keras_tests", "layer_attention", "layer_core", "layer_recurrent", "loss",
  "metric", "model", "optimizer",
  "schedule", "more", "more_ops",
}

describe("Keras conformance", function()
  for _, file in ipairs(files) do
    it("agrees with every case of " .. file, function()
      local failures = {}
      for _, case in ipairs(jsonl("spec/conformance/keras/" .. file .. ".jsonl")) do
        local ok, message = (case.group == "op" and op_runner or runner).run(case)
        if not ok then failures[#failures + 1] = case.id .. ": " .. tostring(message) end
      end
      assert.are.equal("", table.concat(failures, "\n"))
    end)
  end

  it("notices a wrong number, shape, dtype, count of elements, and an unknown name", function()
    local case = {group = "loss", name = "mean_squared_error", args = {}, inputs = {
      {shape = {1, 2}, dtype = "float32", data = {0, 0}},
      {shape = {1, 2}, dtype = "float32", data = {1, 1}},
    }, rtol = 1e-5, atol = 1e-6}
    local function gives(...)
      case.outputs = {...}
      return (runner.run(case))
    end
    assert.is_true(gives{shape = {}, dtype = "float32", data = {1}})
    assert.is_false(gives{shape = {}, dtype = "float32", data = {2}})
    assert.is_false(gives{shape = {}, dtype = "float32", data = {"nan"}})
    assert.is_false(gives{shape = {1}, dtype = "float32", data = {1}})
    assert.is_false(gives{shape = {}, dtype = "float16", data = {1}})
    assert.is_false(gives{shape = {}, dtype = "int32", data = {1}})
    assert.is_false(gives{shape = {}, dtype = "float32", data = {1, 1}})
    assert.is_false(gives{shape = {}, dtype = "float32", data = {}})
    assert.is_false(gives())
    assert.is_false(gives({shape = {}, dtype = "float32", data = {1}},
      {shape = {}, dtype = "float32", data = {1}}))
    case.name = "mean_squared_eror"
    assert.is_false(gives{shape = {}, dtype = "float32", data = {1}})
  end)

  it("notices a wrong result of an op, and one too many", function()
    local case = {group = "op", name = "split", args = {num_or_size_splits = 2},
      inputs = {{shape = {2}, dtype = "float32", data = {3, 4}}},
      rtol = 0, atol = 0}
    local function gives(...)
      case.outputs = {}
      for i, data in ipairs{...} do
        case.outputs[i] = {shape = {1}, dtype = "float32", data = data}
      end
      return (op_runner.run(case))
    end
    assert.is_true(gives({3}, {4}))
    assert.is_false(gives({3}, {5}))
    assert.is_false(gives({3}))
    assert.is_false(gives({3}, {4}, {5}))
    case.outputs = {{shape = {1}, dtype = "float32", data = {3}},
      {shape = {1}, dtype = "int32", data = {4}}}
    assert.is_false((op_runner.run(case)))
  end)

  it("notices an initializer's mean that is no number", function()
    local case = {group = "initializer", name = "constant", args = {shape = {2}, value = 0 / 0},
      rtol = 0.1, atol = 0.1,
      outputs = {{data = {0, 0, 0, 0}}}}
    assert.is_false((runner.run(case)))
    case.args.value = 0
    assert.is_true((runner.run(case)))
  end)
end)
