-- The loops that pipelined models run in: over the micro-batches of a run, each call of a layer in
-- its stage. Training that only accumulates gradients takes the same way without stages.

local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local capture = require "ipulua.trace.capture"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local loop = require "ipulua.pipeline.loop"
local loops = require "ipulua.trace.loops"
local offloading = require "ipulua.trace.offloading"
local optimizers = require "ipulua.keras.optimizers.base"
local placement = require "ipulua.trace.placement"
local plans = require "ipulua.pipeline.plan"
local stage_options = require "ipulua.pipeline.stage_options"
local stages = require "ipulua.keras.models.stage_scope"
local structure = require "ipulua.base.structure"

local pipelined, methods = {}, {}
pipelined.methods = methods

-- ------------------------------------------------ plans

local function name_of(model) return "model '" .. model.name .. "'" end

---The plan of a pipelined model, nil for another.
---@param model Model
---@param training boolean
---@return PipelineFacts?
function pipelined.facts(model, training)
  local count = assignment.check(model)
  if not count then return nil end
  local o = {}
  for key, value in pairs(model._options.pipelining) do o[key] = value end
  local widths = {}
  for i = 1, count do widths[i] = {concurrent = false, count = 1} end
  o.training, o.widths, o.schedule = training, widths,
    plans.read_schedule(name_of(model), o.pipeline_schedule or plans.default_schedule)
  stage_options.check(name_of(model), o, count, training)
  if not training then -- they are there for fit
    o.offload_weight_update_variables, o.replicated_optimizer_state_sharding = nil, nil
  end
  offloading.check(name_of(model), o, training)
  return plans.new(name_of(model), o)
end

---Refuses a number of micro-batches that the schedule can't have; `option` is the name by which its
---writer knows it.
---@return PipelineFacts?
function pipelined.check_count(model, training, count, option)
  local facts = pipelined.facts(model, training)
  local words = facts and plans.refuse_count(facts, count, option)
  if words then blame.error(name_of(model) .. ": " .. words, "failed_precondition") end
  if facts then facts.count = count end
  return facts
end

-- ------------------------------------------------ a micro-batch

local function new_route(model, facts)
  local route = assignment.route(model)
  route.last, route.stage_of = route.count - 1, {}
  local function ipu_of(stage) return facts.ipu_of[stage + 1] end
  local options, around = model._options.pipelining.forward_propagation_stages_poplar_options or {},
    stage_options.around()
  function route.go(stage)
    placement.move_to_stage(stage, ipu_of(stage))
    stage_options.enter(options[stage + 1], around)
  end
  function route.beside(stage) return placement.in_stage(stage, ipu_of(stage), false) end
  route.ipu_of, route.position_of, route.around = ipu_of, facts.position_of, around
  return route
end

-- Runs f(element of the infeed…) with its nodes in their stages.
local function in_stages(route, f)
  if not route then return f() end
  local _ <close> = placement.in_stage(0, route.ipu_of(0), false)
  local _ <close> = stage_options.scope()
  local _ <close> = stages.follow(route)
  route.go(0)
  return f()
end

---The model's outputs for a micro-batch. Later nodes are in the last stage.
---@param options {training: boolean}
function pipelined.forward(model, x, options)
  local y = model(x, options)
  local route <const> = core.here().keras_route
  if route then
    loop.note_uses(name_of(model), 0, route.stage_of, route.ipu_of)
    stages.finish()
  end
  return y
end

local function gradients(route, captures, total, model)
  local _ <close> = route and placement.in_stage(route.last, route.ipu_of(route.last), true) or nil
  local list, first = model.trainable_variables, core.trace_uses()
  local found, given = capture.gradients(captures, total, list), {}
  for i, v in ipairs(list) do
    local stage = route and (route.stage_of[core.variable_identity(v)] or route.last) or nil
    given[i] = {found[i] and model.optimizer:each_gradient(found[i], v), v, stage = stage}
  end
  if route then
    stage_options.backward(model._options.pipelining, route.position_of, first, route.around)
  end
  return given
end

-- ------------------------------------------------ loops

local function run_loop(model, facts, o, times)
  local route = facts and new_route(model, facts)
  local trace = o.trace
  o.who, o.plan = name_of(model), facts and facts.plan
  if facts then
    loop.note(o.who, facts)
    o.ipu_of, o.last_stage = route.ipu_of, route.last
  end
  function o.trace()
    return in_stages(route, function() return trace(route) end)
  end
  loop.trace_repeated(o, times)
end

---Training: `times` updates of `count` micro-batches each. total(element…) is the loss of a
---micro-batch, and traces all else that is done with it.
function pipelined.train(model, infeed, count, times, total)
  local facts = pipelined.facts(model, true)
  if facts then facts.count = count
  else offloading.of_updates(name_of(model), model._options.gradient_accumulation) end
  local _, method, dtype = assignment.accumulation(model)
  run_loop(model, facts, {
    count = count, reduction = method, dtype = dtype,
    trace = function(route)
      local captures <close> = capture.GradientCaptureContext()
      local loss = total(infeed:dequeue_in_loop("fit"))
      local given = gradients(route, captures, loss, model)
      local captured, template = structure.flatten(captures.captured_gradients)
      local accumulates = model._options.pipelining.gradient_accumulation_for_captured_grads
      return {gradients = given, captured = accumulates and captured or nil,
        finish = function(sums, _, accumulated)
        local grads, list, options = {}, {}, nil
        for i, pair in ipairs(sums) do grads[i], list[i] = pair[1] or false, pair[2] end
        if #captured > 0 and model.optimizer.takes_captured then
          options = {captured_grads = structure.rebuild(template, accumulates and accumulated
            or captured)}
        end
        local _ <close> = facts
          and stage_options.scope(model._options.pipelining.weight_update_poplar_options) or nil
        optimizers.apply_accumulated(true, model.optimizer, grads, list, options)
      end}
    end,
  }, times)
end

---Anything else that is done with `count` micro-batches.
function pipelined.run(model, infeed, count, body)
  local facts = pipelined.facts(model, false)
  if not facts then
    loops.repeat_n(count, function(...) body(...) end, {}, infeed)
    return
  end
  facts.count = count
  run_loop(model, facts, {count = count, trace = function()
    body(infeed:dequeue_in_loop("model"))
    return {gradients = {}}
  end}, 1)
end

-- ------------------------------------------------ looking

-- The model's pipelined program of this kind ("train", "test" or "predict"), nil if it has none.
local function made_program(model, kind)
  for _, key in ipairs(structure.sorted_keys(model._programs)) do
    local program = model._programs[key].program
    local entry = program and program.kind == kind and func.is_function(program.func)
      and program.func.order[1]
    if entry and entry.pipeline then return entry end
  end
  return nil
end

---The timetable of a pipelined model: of a program that it has run, training first; otherwise of
---training.
---@package
---@param Timetable table the class
function methods:timetable_of(Timetable, timing)
  local facts = pipelined.facts(self, true)
  if not facts then
    blame.error(string.format("timetable: model '%s' is not pipelined", self.name), "value")
  end
  local entry = made_program(self, "train") or made_program(self, "test")
    or made_program(self, "predict")
  if entry then return Timetable(entry.pipeline, entry.pipeline.count, timing, entry) end
  return Timetable(facts, (assignment.accumulation(self)), timing)
end

return pipelined
