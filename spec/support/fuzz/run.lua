-- Random programs in all forms, from a seed:
-- `ipulua spec/support/fuzz/run.lua SEED COUNT [STEPS [OP]]`. Each failure is shrunk and printed as
-- a script; the last line is "N passed, N failed".

package.path = "./?.lua;" .. package.path
local ipu = require "ipulua"
local calls = require "spec.support.fuzz.calls"
local forms = require "spec.support.fuzz.forms"
local programs = require "spec.support.fuzz.program"
local shrink = require "spec.support.fuzz.shrink"

local first_seed, count = math.tointeger(tonumber(arg[1])) or 1,
  math.tointeger(tonumber(arg[2])) or 100
local steps, only = math.tointeger(tonumber(arg[3])) or 4, arg[4]
local threads <const> = {2, 3, 7}

-- A form's results and the words of its error.
local function outcome(form, inputs, f, expected)
  local results = table.pack(pcall(form.run, inputs, f, expected))
  if results[1] then return table.pack(table.unpack(results, 2, results.n)) end
  return nil, tostring(results[2])
end

-- The first form in which the program gives something else than eagerly on one thread, and what.
local function compare(list, inputs, f)
  ipu.set_num_threads(1)
  local expected, refusal = outcome(list[1], inputs, f)
  for i, form in ipairs(list) do
    for _, n in ipairs{1, threads[math.random(#threads)]} do
      if not (i == 1 and n == 1) then
        ipu.set_num_threads(n)
        local got, words = outcome(form, inputs, f, expected)
        local difference
        if not expected and got then difference = "taken, though refused eagerly: " .. refusal
        elseif expected and not got then difference = "refused: " .. words
        elseif expected then difference = forms.difference(expected, got) end
        if difference then return ("%s, %d threads: %s"):format(form.name, n, difference) end
      end
    end
  end
  return nil, expected
end

-- One that several IPUs run alike: with inputs, without words between replicas, and with results
-- that a queue carries.
local function is_alike(program, results)
  for _, step in ipairs(program.steps) do
    if calls.is_collective(step.call.name) then return false end
  end
  for i = 1, results.n do if results[i].size == 0 then return false end end
  return #program.inputs > 0
end

local function wrong_with(program)
  local inputs, f = programs.load(program)
  local wrong, expected = compare(forms.list, inputs, f)
  if wrong or not expected then return wrong end
  if program.on_devices and is_alike(program, expected) then
    wrong = compare({forms.list[1], table.unpack(forms.devices)}, inputs, f)
    if wrong then return wrong end
  end
  return compare(forms.gradients, inputs, f)
end

local passed, failed = 0, 0
for seed = first_seed, first_seed + count - 1 do

  math.randomseed(seed)
  -- Each op in turn, then whatever comes.
  local name = only or calls.registry[seed % #calls.registry + 1].name
  local program = programs.random(steps, name)
  if program then
    program.on_devices = seed % 6 == 0
    local wrong = wrong_with(program)
    if not wrong then passed = passed + 1
    else
      failed = failed + 1
      program, wrong = shrink(program, wrong, wrong_with)
      print(("seed %d: %s"):format(seed, wrong))
      print(programs.source(program))
    end
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
