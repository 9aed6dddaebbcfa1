-- Single calls at random sizes, for NumPy to judge:
-- `ipulua spec/support/fuzz/oracle.lua SEED COUNT FOLDER [OP]` writes FOLDER/calls.jsonl and
-- FOLDER/values.npz, which oracle.py reads.

package.path = "./?.lua;" .. package.path
local ipu = require "ipulua"
local calls = require "spec.support.fuzz.calls"
local programs = require "spec.support.fuzz.program"

local first_seed, count, folder, only = math.tointeger(tonumber(arg[1])),
  math.tointeger(tonumber(arg[2])), arg[3], arg[4]
calls.most_elements = 50000

-- NumPy has no bfloat16; float32 holds each of its numbers.
local function storable(t) return t.dtype == "bfloat16" and ipu.cast(t, "float32") or t end

-- The given arguments, and the row's defaults for the others.
local function attributes_of(call)
  local list = call.attributes and assert(load("return " .. call.attributes))() or {}
  for _, each in ipairs(calls.by_name[call.name].attributes) do
    if list[each.name] == nil and each.default then
      list[each.name] = assert(load("return " .. each.default))()
    end
  end
  return list
end

local lines, values = {}, {}
for seed = first_seed, first_seed + count - 1 do
  math.randomseed(seed)
  local program = programs.random(1, only or calls.registry[seed % #calls.registry + 1].name)
  if program then
    ipu.set_num_threads(seed % 2 + 1)
    local step = program.steps[1]
    local given = programs.operands(program)
    local inputs, f = programs.load(program)
    local results = table.pack(f(table.unpack(inputs)))
    local dtypes = {}
    for i, t in ipairs(given) do values[("%d.in%d"):format(seed, i)] = storable(t) end
    for i, t in ipairs(results) do
      values[("%d.out%d"):format(seed, i)] = storable(t)
      dtypes[i] = t.dtype
    end
    lines[#lines + 1] = ipu.json.encode{
      id = seed, op = step.call.name, dtype = program.dtype, operands = #given, results = results.n,
      result_dtypes = dtypes,
      attributes = attributes_of(step.call),
      source = ("seed %d: %s"):format(seed, programs.source(program)),
    }
  end
end
ipu.save(folder .. "/values.npz", values)
local file <close> = assert(io.open(folder .. "/calls.jsonl", "w"))
file:write(table.concat(lines, "\n"), "\n")
