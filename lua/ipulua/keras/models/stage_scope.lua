-- PipelineStage: layers made or called in its scope belong to a pipeline stage.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local scope = require "ipulua.base.scope"
local strategy = require "ipulua.strategy"

local kept <const> = require "ipulua.keras.base.layer_fields".get

local stages = {}

-- While a micro-batch of a pipelined model is traced, here().keras_route is a table:
--   of: the stage of each call of a functional model
--   calls: by layer, the stages of a subclassed model's calls, in order; made: how many were made
--   stage_of: the stage of each variable; last: the last stage
--   go, beside: fun(stage)
-- While a subclassed model is built, here().keras_calls lists the calls of its layers,
-- {layer =, stage =}.
local here <const> = core.here

local spec <const> = {{"stage", "integer"}}

---A scope whose layers and layer calls belong to a stage, from 0.
---Errors: outside of a functional model's definition in a strategy's scope, a stage below 0:
---`keras.PipelineStage(0)`
---Source: ipu.keras.PipelineStage of Graphcore's TensorFlow 2.6
---@param stage integer
---@return Scope
function stages.PipelineStage(...)
  local stage = args.check("PipelineStage", spec, ...).stage
  if stage < 0 then
    blame.error("PipelineStage: a stage is not negative, got " .. stage, "value")
  end
  if not strategy.current() then
    blame.error("PipelineStage works only inside an IPUStrategy's scope", "runtime")
  end
  local current = stages.current()
  if current then
    blame.error(string.format("PipelineStage(%d) is inside PipelineStage(%d): pipeline stages must "
      .. "not be nested", stage,
      current), "runtime")
  end
  here().keras_stage = stage
  local route <const> = here().keras_route
  if route then route.go(stage) end
  return scope.new("PipelineStage(" .. stage .. ")", function() here().keras_stage = nil end)
end

---The stage of the open scope, nil outside.
---@return integer?
function stages.current()
  return here().keras_stage
end

-- ------------------------------------------------ building

---Runs f, which calls a subclassed model with the shapes of its inputs. Returns the layers that the
---model called, in order.
---@return table[] {layer =, stage =}
function stages.record(f)
  local former = here().keras_calls
  here().keras_calls = {}
  local ok, problem = blame.pcall(f)
  local calls = here().keras_calls
  here().keras_calls = former
  if not ok then error(problem, 0) end
  return calls
end

-- ------------------------------------------------ tracing a pipelined model

local left <const> = {__close = function(self) here().keras_route = self.former end}

---To be closed: until then calls of layers go to their stages.
function stages.follow(r)
  local former = here().keras_route
  here().keras_route = r
  return setmetatable({former = former}, left)
end

---A call of a functional model is about to run.
function stages.enter_call(node)
  local route <const> = here().keras_route
  local stage = route and route.of and route.of[node]
  if stage then route.go(stage) end
end

---A layer is about to run inside `depth` calls of others.
function stages.enter_layer(layer, depth)
  local route <const>, recorded <const> = here().keras_route, here().keras_calls
  if recorded then
    if depth == 0 then here().keras_calls = {} -- once more from the beginning
    elseif depth == 1 then recorded[#recorded + 1] = {layer = layer,
      stage = stages.current() or kept(layer, "stage")} end
  end
  if not route or not route.calls then return end
  if depth == 0 then route.made = {} end
  if depth ~= 1 then return end
  local call = (route.made[layer] or 0) + 1
  route.made[layer] = call
  local stage = (route.calls[layer] or {})[call]
  if not stage then
    blame.error(string.format("model '%s': call %d of layer '%s' has no pipeline stage: the model "
      .. "didn't make it when it was built; "
      .. "let its call run the same layers for training and without", route.name, call - 1,
      layer.name), "value")
  end
  route.go(stage)
end

---To be closed: until then new nodes stand beside a variable, in the stage that reads it; nil
---without stages.
function stages.beside(identity)
  local route <const> = here().keras_route
  local stage = route and route.stage_of[identity]
  return stage and stage >= 0 and route.beside(stage) or nil
end

---From now on in the last stage, where the loss is.
function stages.finish()
  local route <const> = here().keras_route
  if route then route.go(route.last) end
end

return stages
