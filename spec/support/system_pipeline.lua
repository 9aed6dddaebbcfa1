-- Pipelines of conformance cases: programs of kind "pipeline" for spec/support/system_program.

local ipu = require "ipulua"
local json = require "ipulua.base.json"
local system = require "spec.support.system_values"

-- Keys of a program that the pipeline call does not take under the same name.
local own_keys <const> = {
  kind = true, stages = true, ga_count = true, inputs = true, infeed = true, outfeed = true,
  schedule = true, reduction = true,
  optimizer = true, ga_count_is_argument = true, outfeed_structure = true, cross_replica = true,
  device_ordinal = true,
  compute_gradients_args = true, gradient_accumulation_dtype = true,
  accumulate_outfeed_dtype = true,
}

local function absent(value) return value == nil or value == json.null end

local function stage_options(value)
  if value == "PipelineStageOptions()" then return ipu.PipelineStageOptions() end
  if type(value) ~= "table" or #value == 0 then return value end
  local list = {}
  for i, each in ipairs(value) do list[i] = stage_options(each) end
  return list
end

local function results(env, names)
  local list = {}
  for i, name in ipairs(names) do list[i] = env[name] end
  return table.unpack(list, 1, #names)
end

return function(runner)
  -- A stage as a function that declares its parameters. The first one's infeed element may be a
  -- table.
  local function stage_function(at, program, spec, is_first, is_last, outer)
    local infeed = is_first and at.case.infeeds and at.case.infeeds[program.infeed]
    local before = infeed and #(program.inputs or {}) or #spec["in"]
    return function(...)
      local env = {outer_tensor = outer, iteration = ipu.get_current_iteration_counter()}
      for i = 1, before do env[spec["in"][i]] = (select(i, ...)) end
      if infeed then runner.bind_element(env, infeed, select(before + 1, ...)) end
      runner.evaluate(at, env, spec.ops)
      if is_last and program.outfeed_structure then
        local t = {}
        for key, name in pairs(program.outfeed_structure) do t[key] = env[name] end
        return t
      end
      return results(env, spec.out)
    end
  end

  local function stage_functions(at, program, outer)
    local list, count = {}, #program.stages
    for i, spec in ipairs(program.stages) do
      if spec[1] then
        list[i] = {}
        for k, each in ipairs(spec) do
          list[i][k] = stage_function(at, program, each, i == 1, i == count, outer)
        end
      else
        list[i] = stage_function(at, program, spec, i == 1, i == count, outer)
      end
    end
    return list
  end

  local function optimizer_function(at, program)
    local o = program.optimizer
    if absent(o) then return nil end
    local last = program.stages[#program.stages]
    return function(...)
      local env = {}
      for i, name in ipairs(last.out) do env[name] = (select(i, ...)) end
      runner.evaluate(at, env, o.loss_ops or {})
      local wrap = program.cross_replica and {"CrossReplicaOptimizer"} or nil
      at.optimizers[program] = at.optimizers[program]
        or runner.optimizer(at, {opt = o, wrap = wrap})
      return ipu.OptimizerFunctionOutput{
        opt = at.optimizers[program], loss = env[o.loss],
        compute_gradients_args = program.compute_gradients_args,
      }
    end
  end

  local function call_arguments(at, program, inputs, count, outer)
    local given = {
      computational_stages = stage_functions(at, program, outer),
      gradient_accumulation_count = count,
      pipeline_schedule = program.schedule, inputs = inputs,
      optimizer_function = optimizer_function(at, program),
      infeed_queue = program.infeed and at:infeed(program.infeed) or nil,
      outfeed_queue = program.outfeed and at:outfeed(program.outfeed) or nil,
      reduction_method = program.reduction,
    }
    for _, name in ipairs {"gradient_accumulation_dtype", "accumulate_outfeed_dtype"} do
      given[name] = not absent(program[name]) and system.dtype(program[name]) or nil
    end
    for key, value in pairs(program) do
      if not own_keys[key] and value ~= json.null then
        given[key] = key:find("options", 1, true) and stage_options(value) or value
      end
    end
    return given
  end

  function runner.kinds.pipeline(at, program)
    return function(...)
      local inputs = table.pack(...)
      local count = not absent(program.ga_count) and program.ga_count or nil
      if program.ga_count_is_argument then count = table.remove(inputs) end
      inputs.n = nil
      local outer = inputs[1] and ipu.identity(inputs[1]) * 2
      ipu.pipeline(call_arguments(at, program, inputs, count, outer))
    end
  end

  function runner.arguments.pipeline(program, feeds)
    local list = {}
    for i, input in ipairs(program.inputs or {}) do
      local fill = feeds[input.name]
      if fill == nil then fill = input.init end
      list[i] = system.tensor(fill == nil and 0 or fill, input.shape, input.dtype)
    end
    local argument = program.ga_count_is_argument
    if argument then
      list[#list + 1] = ipu.tensor(feeds[argument] or program.ga_count, {dtype = "int32"})
    end
    return list
  end

  -- Words of a case for things that tables can't hold.
  local optimizers <const> = {
    keras_sgd = function() return ipu.keras.optimizers.SGD(0.1) end,
    sgd = function() return ipu.train.GradientDescentOptimizer(0.1) end,
  }

  -- "a gradient tape" and its like.
  local function meant(value)
    if type(value) ~= "string" or not value:find("^an? ") then return value end
    if value:find("outfeed", 1, true) then return ipu.IPUOutfeedQueue() end
    local captures, tape = value:find("capture", 1, true), value:find("tape", 1, true)
    local scope = captures and (tape and ipu.GradientCaptureTape() or ipu.GradientCaptureContext())
      or tape and ipu.GradientTape()
    if not scope then return value end
    scope:close()
    return scope
  end

  function runner.constructors.OptimizerFunctionOutput(a)
    ipu.func(function(x)
      local given = {loss = x}
      for key, value in pairs(a) do given[key] = meant(value) end
      given.opt = optimizers[a.opt] and optimizers[a.opt]() or a.opt
      ipu.OptimizerFunctionOutput(given)
      return x
    end):concrete(ipu.tensor(1.0))
  end

  function runner.constructors.PipelineStageOptions(a) ipu.PipelineStageOptions(a) end
end
