-- Layers, losses, metrics, optimizers and dataset stages at random: `ipulua
-- spec/support/fuzz/cases.lua SEED COUNT FOLDER [FAMILY [NAME]]`. Each case gives the same bits
-- eagerly and compiled, on one thread and on several; FOLDER/cases.jsonl and FOLDER/values.npz are
-- for NumPy to judge (cases.py). The last line is "N passed, N failed".

package.path = "./?.lua;" .. package.path
local ipu = require "ipulua"
local forms = require "spec.support.fuzz.forms"
local losses = require "spec.support.fuzz.losses"
require "ipulua.base.log".set_writer(function() end)

local families <const> = {
  require "spec.support.fuzz.layers", losses.losses, losses.metrics,
    require "spec.support.fuzz.optimizers",
  (require "spec.support.fuzz.stages"),
}
local first_seed, count, folder = math.tointeger(tonumber(arg[1])),
  math.tointeger(tonumber(arg[2])), arg[3]
local only_family, only_name = arg[4], arg[5]
local threads <const> = {2, 3, 7}

local function compiled(f, inputs) return ipu.func(f)(table.unpack(inputs)) end
local function eager(f, inputs) return f(table.unpack(inputs)) end

-- name → what runs a case so.
local function forms_of(case)
  if case.read then return {{"read", case.read}, {"read again", case.read}} end
  if case.train then
    return {{"eager", function() return case.train(false, case.inputs) end},
      {"func", function() return case.train(true, case.inputs) end}}
  end
  return {{"eager", function() return eager(case.f, case.inputs) end},
    {"func", function() return compiled(case.f, case.inputs) end}}
end

local function run(case, form)
  if case.reset then case.reset() end
  return table.pack(pcall(form[2]))
end

local function results_of(packed)
  if not packed[1] then return nil, tostring(packed[2]) end
  return table.pack(table.unpack(packed, 2, packed.n))
end

-- The results. If a form gives others than the first one on one thread, the difference; if no form
-- takes the case, the reason.
local function compare(case)
  local expected, wrong
  for _, form in ipairs(forms_of(case)) do
    for _, n in ipairs{1, threads[math.random(#threads)]} do
      ipu.set_num_threads(n)
      local got, words = results_of(run(case, form))
      if not expected and not got then return nil, nil, words end
      expected = expected or got
      local difference = got and forms.difference(expected, got) or words
      if difference and not wrong then wrong = ("%s, %d threads: %s"):format(form[1], n,
        difference) end
    end
  end
  return expected, wrong
end

local lines, values = {}, {}
local function write(seed, case, results)
  local function keep(kind, list)
    for i, t in ipairs(list) do values[("%d.%s%d"):format(seed, kind, i)] = t end
    return #list
  end
  local line = case.about
  line.id, line.family, line.name, line.source = seed, case.family, case.name,
    ("seed %d: %s"):format(seed, case.source)
  line.inputs, line.weights, line.results = keep("x", case.inputs), keep("w", case.weights or {}),
    keep("y", results)
  lines[#lines + 1] = ipu.json.encode(line)
end

local function chosen(seed)
  local family = families[seed % #families + 1]
  for _, each in ipairs(families) do if each.family == only_family then family = each end end
  local turn = only_family and seed or seed // #families
  return family, only_name or family.names[turn % #family.names + 1]
end

local passed, failed = 0, 0
for _, name in ipairs(require "spec.support.fuzz.stages".unknown()) do
  failed = failed + 1
  print(("FAIL datasets have a stage that stages.lua doesn't call: %s"):format(name))
end
for seed = first_seed, first_seed + count - 1 do
  math.randomseed(seed)
  ipu.random.set_seed(seed)
  ipu.set_num_threads(1)
  local family, name = chosen(seed)
  local made, case = pcall(family.random, name)
  if made and case then
    case.family = family.family
    local results, wrong, refusal = compare(case)
    if refusal and only_name then print(("seed %d: %s is refused: %s"):format(seed, case.source,
      refusal)) end
    if wrong then
      failed = failed + 1
      print(("FAIL seed %d: %s: %s"):format(seed, case.source, wrong))
    elseif results then
      passed = passed + 1
    end
    if results then write(seed, case, results) end
  elseif not made and only_name then print(("seed %d: %s is refused: %s"):format(seed, name, case))
  end
  if seed % 50 == 0 then collectgarbage() end
end
ipu.save(folder .. "/values.npz", values)
local file <close> = assert(io.open(folder .. "/cases.jsonl", "w"))
file:write(table.concat(lines, "\n"), "\n")
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
