-- Applies PipelineStageOptions in pipelines and in pipelined Keras models. For a stage's matrix
-- products and convolutions they set the dtype of sums and the share of a tile's memory. They
-- differ for the forward pass, the backward pass and the weight update.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local library_options = require "ipulua.config.library_options"
local types = require "ipulua.pipeline.types"

local stage_options = {}

local function check_list(who, name, list, positions)
  if list == nil then return end
  local function refuse(value)
    blame.error(string.format("%s: '%s' must be a list of PipelineStageOptions, got %s", who, name,
      args.describe(value)), "type")
  end
  if not args.is_list(list) then refuse(list) end
  if #list ~= positions then
    blame.error(string.format("%s: '%s' must have an entry for each of the %d stages, got %d", who,
      name, positions,
      #list), "value")
  end
  for _, options in ipairs(list) do
    if not class.is_a(options, types.PipelineStageOptions) then refuse(options) end
  end
end

---Refuses lists of another length than the stages, and values that are no PipelineStageOptions.
---@param who string
---@param a table with forward_propagation_stages_poplar_options and so on
---@param positions integer
---@param training boolean
function stage_options.check(who, a, positions, training)
  check_list(who, "forward_propagation_stages_poplar_options",
    a.forward_propagation_stages_poplar_options, positions)
  if not training then return end
  check_list(who, "backward_propagation_stages_poplar_options",
    a.backward_propagation_stages_poplar_options, positions)
  local update = a.weight_update_poplar_options
  if update ~= nil and not class.is_a(update, types.PipelineStageOptions) then
    blame.error(string.format("%s: 'weight_update_poplar_options' must be a PipelineStageOptions, "
      .. "got %s", who,
      args.describe(update)), "type")
  end
end

local function partials(given)
  local half = library_options.half_partials(given)
  if half ~= nil then return half and 1 or 0 end
end

-- In millionths of a tile's memory.
local function share(given)
  local proportion = library_options.proportion(given)
  if proportion > 0 then return math.max(1, math.floor(proportion * 1e6 + 0.5)) end
end

-- Field of a placement → the options that say it, and how: an integer, or nil.
local kinds <const> = {
  half_products = {"matmul_options", partials},
  half_convolutions = {"convolution_options", partials},
  product_share = {"matmul_options", share}, convolution_share = {"convolution_options", share},
}

-- By kind, the value of the options, else of the settings around.
local function codes(options, around)
  local found = {}
  for kind, row in pairs(kinds) do
    found[kind] = options and row[2](options[row[1]]) or around[kind]
  end
  return found
end

---The options that hold now, by kind.
---@return table<string, integer>
function stage_options.around()
  local now = {}
  for kind in pairs(kinds) do
    now[kind] = core.set_placement(kind, -1)
    core.set_placement(kind, now[kind])
  end
  return now
end

---New nodes take these options. Options that aren't given are as before.
---@param options PipelineStageOptions?
---@param around table<string, integer>
function stage_options.enter(options, around)
  for kind, code in pairs(codes(options, around)) do core.set_placement(kind, code) end
end

---To be closed: until then new nodes take these options.
---@param options PipelineStageOptions?
function stage_options.scope(options)
  local around = stage_options.around()
  stage_options.enter(options, around)
  return setmetatable({}, {__close = function() stage_options.enter(nil, around) end})
end

-- Nodes of gradients would inherit the options of the forward pass. They take the options of the
-- backward pass instead.
---@param a table
---@param position_of integer[] the position of each stage, from 0
---@param first integer the gradients' first node
---@param around table<string, integer>? what holds outside of the stages; by default what holds now
function stage_options.backward(a, position_of, first, around)
  local forward, backward = a.forward_propagation_stages_poplar_options,
    a.backward_propagation_stages_poplar_options
  if not forward and not backward then return end
  around = around or stage_options.around()
  for stage, position in ipairs(position_of) do
    local found = codes((backward or {})[position + 1], around)
    core.set_backward_options(first, stage - 1, found.half_products, found.half_convolutions,
      found.product_share, found.convolution_share)
  end
end

return stage_options
