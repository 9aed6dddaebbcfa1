-- Layers with a seed of their own, where they are called outside of programs. Their calls in
-- training draw one after the other from the sequence that the seed begins, as runs of a program
-- do. An op with a seed always draws the same there.

local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local tracing = require "ipulua.trace.tracing"

local seeded = {}

-- Far from the numbers of counters that scripts make, since those are saved and restored by number.
local no_counter <const> = 1 << 61

local runs = setmetatable({}, {__mode = "k"}) -- layer → its calls that drew so far

-- Whether a layer draws by a seed: its own, its cell's, or one of the cells' in its cell.
local function has_seed(layer)
  if layer.seed ~= nil then return true end
  local cell <const> = layer.cell
  if type(cell) ~= "table" then return false end
  local found = cell.seed ~= nil
  for _, each in ipairs(type(cell.cells) == "table" and cell.cells or {}) do
    found = found or each.seed ~= nil
  end
  return found
end

-- A cell draws in the calls of its layer, alike in all steps. Its calls by hand are steps, too.
local function is_cell(layer) return layer.state_size ~= nil and layer.cell == nil end

local Turn = {}
Turn.__close = function(turn)
  core.set_run_number(turn.run, turn.stay)
  local streams, _, eager = core.random_place()
  core.set_random_place(streams, turn.counters, eager)
end

---To be closed: until then ops with a seed draw what belongs to this call of the layer. In a step
---that runs eagerly they draw what belongs to the step, in the function of a dataset what belongs
---to the element.
---@param layer Layer
---@param training boolean?
---@return table?
function seeded.enter(layer, training)
  if not training or tracing.is_active() or context.inferring then return nil end
  if is_cell(layer) or not has_seed(layer) then return nil end
  local number <const> = runs[layer] or 0
  local run, stay = core.set_run_number(number)
  if run and not stay then
    core.set_run_number(run, stay)
    return nil
  end
  if run then core.set_run_number(run) else runs[layer] = number + 1 end
  local streams, counters, eager = core.random_place()
  core.set_random_place(streams, no_counter, eager)
  return setmetatable({run = run, stay = stay, counters = counters}, Turn)
end

---How often each layer of a layer or model drew, in the order of `walk`: part of a checkpoint.
---@param layer Layer
---@return integer[]
function seeded.turns(layer)
  local list = {}
  layer:walk(function(each) list[#list + 1] = runs[each] or 0 end)
  return list
end

---The layers draw on as where the turns were told.
---@param layer Layer
---@param turns any what a checkpoint holds; none where an older version wrote it
function seeded.set_turns(layer, turns)
  local at = 0
  layer:walk(function(each)
    at = at + 1
    local number = type(turns) == "table" and turns[at]
    runs[each] = math.type(number) == "integer" and number or nil
  end)
end

return seeded
