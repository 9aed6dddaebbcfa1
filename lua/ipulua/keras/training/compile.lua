-- compile: how a model trains, and the metrics that it reports while it does.

local args = require "ipulua.base.args"
local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local compiled = require "ipulua.keras.training.compiled"
local core = require "ipulua.core"
local nearest = require "ipulua.nearest"
local nest = require "ipulua.base.nest"
local optimizers = require "ipulua.keras.optimizers"

local keep <const> = require "ipulua.keras.base.layer_fields".keep
local trainable = require "ipulua.keras.training.trainable"

local compile = {methods = {}, properties = {}}
local methods <const> = compile.methods

local compile_rows <const> = {
  {"optimizer", {"string", "table"}, "rmsprop"},
  {"loss", {"string", "callable", "table"}, optional = true},
  {"metrics", {"string", "callable", "table"}, optional = true},
  {"loss_weights", "any", optional = true, of = "numbers or table of numbers",
    says = "a factor for each output's loss"},
  {"weighted_metrics", "any", optional = true, of = "metric, name, function or list of them",
    says = "with the samples' weights"},
  {"run_eagerly", "boolean", false,
    says = "steps op by op, so that Lua code in them sees numbers; not on IPUs"},
  {"steps_per_execution", "integer", 1, range = "[1, inf)"},
  {"max_programs", "integer", 64, range = "[1, inf)",
    says = "kept for batches of other shapes; the one that ran longest ago goes first"},
}

-- compile{loss = "mse", lr = 0.1} can be read as a config of an optimizer, which it is not.
local function check_names(optimizer)
  if not args.is_plain(optimizer) or optimizer.class_name then return end
  local known, names = {}, {}
  for i, row in ipairs(compile_rows) do known[row[1]], names[i] = true, row[1] end
  for _, key in ipairs(nest.keys(optimizer)) do
    if type(key) == "string" and not known[key] then
      blame.error(string.format("compile has no argument '%s'%s", key, nearest.hint(key, names)),
        "type")
    end
  end
end

---Says how the model trains: optimizer, loss, metrics, loss_weights, weighted_metrics,
---steps_per_execution, max_programs.
---Shapes: outputs and labels have the shapes that the loss takes
---Errors: an unknown optimizer, loss or metric, a loss for an output that there is not:
---`model:compile{optimizer = "sgdd"}`
---@param ... any
function methods:compile(...)
  local named = select(-1, nil, ...)
  if args.is_plain(named) and (named.learning_rate or named.lr) ~= nil then
    blame.error(string.format("compile has no argument '%s'; it is the optimizer's, as in "
      .. "keras.optimizers.SGD{learning_rate = 0.01}",
      named.learning_rate ~= nil and "learning_rate" or "lr"), "type")
  end
  local a = args.check("compile", compile_rows, ...)
  check_names(a.optimizer)
  rawset(self, "optimizer", optimizers.get(a.optimizer))
  keep(self, "compiled", compiled.new(a))
  keep(self, "compile_arguments", a)
  rawset(self, "run_eagerly", a.run_eagerly)
  rawset(self, "steps_per_execution", a.steps_per_execution)
  rawset(self, "max_programs", a.max_programs)
  trainable.record(self)
  self:discard_programs()
end

---Programs are made anew at the next run.
---@package
function methods:discard_programs()
  keep(self, "_programs", {})
end

function compile.properties.metrics(self)
  local list = self.compiled and self.compiled:all() or {}
  local Model <const> = require "ipulua.keras.models.model".Model
  -- the mean of a loss that an own train_step never computes would be 0
  local has_loss = self.train_step == Model.train_step
    or self.loss ~= nil and self.compiled.losses ~= nil
  if list[1] and not has_loss then table.remove(list, 1) end
  self:walk(function(layer)
    for _, metric in ipairs(layer:all_metrics()) do list[#list + 1] = metric end
  end)
  return list
end

-- The arguments of compile, as in Keras.
function compile.properties.loss(self)
  return self.compile_arguments and self.compile_arguments.loss
end

function compile.properties.metrics_names(self)
  local names = {}
  for i, metric in ipairs(self.metrics) do names[i] = metric.name end
  return names
end

---Sets all metrics back to their beginning.
function methods:reset_metrics()
  for _, metric in ipairs(self.metrics) do metric:reset_state() end
end

-- Whether a model's steps must be programs.
local function is_on_ipus(model)
  return core.here().strategy ~= nil or model:is_pipelined() or assignment.replicas(model) > 1
    or assignment.accumulation(model) > 1 or model._options.asynchronous
end

---An error unless a model can be trained and evaluated: it was compiled, and not to run eagerly on
---IPUs.
---@param model Model
---@param who string
function compile.check(model, who)
  if not model.compiled then
    blame.error(string.format("%s: model '%s' must be compiled first: model:compile{optimizer =, "
      .. "loss =}", who, model.name),
      "runtime")
  end
  if model.run_eagerly and is_on_ipus(model) then
    blame.error(string.format("%s: model '%s' was compiled with run_eagerly = true, which is not "
      .. "possible on IPUs", who,
      model.name), "runtime")
  end
end

return compile
