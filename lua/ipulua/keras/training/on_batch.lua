-- train_on_batch, test_on_batch, predict_on_batch: one batch, without an infeed.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local building = require "ipulua.keras.training.building"
local compile = require "ipulua.keras.training.compile"
local eagerly = require "ipulua.keras.training.eagerly"
local feeding = require "ipulua.keras.training.feeding"
local func = require "ipulua.trace.func"
local logs = require "ipulua.keras.training.logs"
local nest = require "ipulua.base.nest"
local nested = require "ipulua.keras.training.nested"
local programs = require "ipulua.keras.training.programs"
local replication = require "ipulua.trace.replication"
local steps = require "ipulua.keras.training.steps"
local together = require "ipulua.keras.base.together"

local on_batch = {methods = {}}
local methods <const> = on_batch.methods

local batch_rows <const> = {
  {"x", "any", of = "tensor or table of tensors"},
  {"y", "any", optional = true, of = "tensor or table of tensors", says = "labels"},
  {"sample_weight", "any", optional = true, of = "tensor or list",
    says = "a factor for each sample"},
  {"class_weight", "table", optional = true}, {"reset_metrics", "boolean", true},
  {"return_dict", "boolean", false},
}

local function batch_function(self, mode)
  return programs.of_batch(self, mode .. "_on_batch", function(x, y, w)
    replication.alone() -- there is one batch
    local values
    if mode == "train" then values = self:train_step(x, y, w)
    else values = self:test_step(x, y, w) end
    return steps.joined_logs(self, mode .. "_step", values)
  end)
end

-- As in fit: the rows of fewer samples could broadcast to the others.
local function check_samples(who, given)
  local with_rows = {}
  for _, each in pairs(given) do
    for _, t in ipairs(nest.flatten(each)) do
      if #t.shape > 0 then with_rows[#with_rows + 1] = t end
    end
  end
  feeding.length_of(with_rows, who)
end

local function run(self, who, mode, ...)
  local a = args.check(who, batch_rows, ...)
  compile.check(self, who)
  local _ <close> = together.enter(self)
  feeding.take_apart(who, self, a)
  local x, y, w = feeding.as_tensors(a.x, who), feeding.as_tensors(a.y, who),
    feeding.as_tensors(a.sample_weight, who)
  check_samples(who, {x = x, y = y, sample_weight = w})
  if a.class_weight then
    local feed = feeding.open(who, self, {x = x, y = y, sample_weight = w,
      class_weight = a.class_weight,
      batch_size = feeding.length_of(x, who)})
    for _, _, weight in feed.dataset:iter() do w = weight end
  end
  building.from_batch(self, x)
  local restore = nested.keep_metrics(self)
  if a.reset_metrics then self:reset_metrics() end
  local ok, values = blame.pcall(batch_function(self, mode), x, y, w)
  if restore then restore() end
  if not ok then error(values, 0) end
  return logs.results(logs.in_order(self, values), a.return_dict)
end

---One weight update on one batch; loss and metrics of it.
---Shapes: x and y [batch, ...] → loss and metrics []
---Errors: as fit's: `model:train_on_batch(x, x)`
---@param ... any x, y, sample_weight, class_weight, reset_metrics, return_dict
---@return any
function methods:train_on_batch(...) return run(self, "train_on_batch", "train", ...) end

---Loss and metrics of one batch.
---Shapes: x and y [batch, ...] → loss and metrics []
---Errors: as fit's: `model:test_on_batch(x, x)`
---@param ... any x, y, sample_weight, reset_metrics, return_dict
---@return any
function methods:test_on_batch(...) return run(self, "test_on_batch", "test", ...) end

---The outputs for one batch.
---Shapes: x [batch, ...] → [batch, ...]
---Errors: an input that the model can't take: `model:predict_on_batch(ipu.ones{4, 7})`
---@param x any tensor or table of tensors
---@return any
function methods:predict_on_batch(x)
  x = feeding.as_tensors(x, "predict_on_batch")
  if nest.first(x) == nil then blame.error("predict_on_batch: there is no data; give x", "type") end
  check_samples("predict_on_batch", {x})
  if self.run_eagerly then compile.check(self, "predict_on_batch") end
  local key <const> = "predict_on_batch" .. (self.run_eagerly and ";eagerly" or "")
  local entry = self._programs[key]
  if not entry then
    local function predict(given)
      replication.alone()
      return self:predict_step(given)
    end
    entry = {f = self.run_eagerly and eagerly.step(predict) or func.func(predict,
      {name = self.name .. ".predict_on_batch", max_programs = self.max_programs})}
    self._programs[key] = entry
    building.from_batch(self, x)
  end
  return entry.f(x)
end

return on_batch
