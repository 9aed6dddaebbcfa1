-- evaluate: loss and metrics of data.

local args = require "ipulua.base.args"
local compile = require "ipulua.keras.training.compile"
local feeding = require "ipulua.keras.training.feeding"
local logs = require "ipulua.keras.training.logs"
local runs = require "ipulua.keras.training.runs"
local together = require "ipulua.keras.base.together"

local evaluate = {methods = {}}
local methods <const> = evaluate.methods

local evaluate_rows <const> = {
  {"x", "any", optional = true, of = "tensor, table of tensors or Dataset"},
  {"y", "any", optional = true, of = "tensor or table of tensors", says = "labels"},
  feeding.batch_size_row,
  {"verbose", {"integer", "string", "boolean"}, 1, of = "0, 1, 2, boolean or \"auto\""},
  {"sample_weight", "any", optional = true, of = "tensor or list",
    says = "a factor for each sample"}, feeding.count_row "steps",
  {"callbacks", "table", optional = true, says = "a callback or a list"},
  {"return_dict", "boolean", false},
}

---Loss and metrics of data: a number, a list, or with return_dict a table by name.
---Shapes: x and y [samples, ...] → loss and metrics []
---Errors: as fit's: `model:evaluate(x)`
---@param ... any x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict
---@return any
function methods:evaluate(...)
  local a = args.check("evaluate", evaluate_rows, ...)
  compile.check(self, "evaluate")
  local _ <close> = together.enter(self)
  local who <const> = runs.who_tests(self, a.callbacks)
  feeding.take_apart(who, self, a)
  local run = runs.begin(self, who, "test", a)
  local _ <close> = runs.closing(self, run)
  self:reset_metrics()
  run.callbacks:on_test_begin(logs.by_name{})
  local latest, interrupted = runs.epoch(self, run)
  run.callbacks.interrupted = interrupted -- for a fit that validates
  run.callbacks:on_test_end(logs.by_name(latest))
  return logs.results(latest, a.return_dict)
end

return evaluate
