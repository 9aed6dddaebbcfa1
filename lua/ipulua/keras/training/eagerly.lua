-- run_eagerly: the steps of a model op by op, so that Lua code in them sees numbers. Elements come
-- from the infeed as for programs. Random ops draw the same numbers as in the program.

local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local loops = require "ipulua.trace.loops"
local queues = require "ipulua.data.queues"
local structure = require "ipulua.base.structure"

local eagerly = {}

local depth = 0

---Whether a step is being run now.
---@return boolean
function eagerly.is_running() return depth > 0 end

-- To be closed: until then random ops draw as in the run number `runs` of a program that was traced
-- at `place`.
local function enter_step(draws)
  local streams, counters, eager = core.random_place()
  draws.place = draws.place or {streams, counters}
  core.set_random_place(draws.place[1], draws.place[2], eager)
  local former, stay = core.set_run_number(draws.runs)
  depth = depth + 1
  return setmetatable({}, {__close = function()
    depth = depth - 1
    core.set_run_number(former, stay)
    if draws.runs > 0 then
      local _, _, eager_now = core.random_place()
      core.set_random_place(streams, counters, eager_now)
    end
    draws.runs = draws.runs + 1
  end})
end

---A function that is run op by op, each call as a run of the same program.
---@param f function
---@param former table? of such a function, whose random numbers this one continues
---@return function
---@return table draws how far its random numbers are
function eagerly.step(f, former)
  local draws = former or {runs = 0}
  return function(...)
    local _ <close> = enter_step(draws)
    return f(...)
  end, draws
end

-- A program that returns `count` elements, and a function that takes one of them apart.
local function fetcher(infeed, count, name)
  local outfeed, template = queues.IPUOutfeedQueue(), nil
  local f = func.func(function()
    loops.repeat_n(count, function(...)
      local leaves
      leaves, template = structure.flatten{...}
      outfeed:enqueue(leaves)
    end, {}, infeed)
  end, {name = name})
  local function element(columns, k)
    local leaves = {}
    for i, column in ipairs(columns) do leaves[i] = column[k] end
    return table.unpack(structure.rebuild(template, leaves))
  end
  return f, outfeed, element
end

---A program of `count` steps in the form of traced ones.
---@param kind "train"|"test"|"predict"
---@param name string
---@param infeed IPUInfeedQueue
---@param count integer
---@param step function of an element's values
---@param finish fun(results: any[]): any of what the steps gave: what a run gives
---@return StepProgram
function eagerly.program(kind, name, infeed, count, step, finish)
  local fetch, outfeed, element = fetcher(infeed, count, name)
  local run_step, draws = eagerly.step(step)
  local function run()
    fetch()
    local columns, results = outfeed:dequeue(), {}
    for k = 1, count do results[k] = run_step(element(columns, k)) end
    return finish(results)
  end
  return {count = count, kind = kind, func = fetch, outfeed = outfeed, run = run,
    draws = draws, prepare = function() fetch:concrete() end}
end

return eagerly
