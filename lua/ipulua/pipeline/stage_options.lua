-- PipelineStageOptions at work, in pipelines and in pipelined Keras models: what a stage's matrix
-- products and convolutions add up in, forwards, backwards and in the weight update.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local library_options = require "ipulua.config.library_options"
local types = require "ipulua.pipeline.types"

local stage_options = {}

local function check_list(who, name, list, places)
  if list == nil then return end
  local function refuse(value)
    blame.error(string.format("%s: '%s' must be a list of PipelineStageOptions, got %s", who, name,
      args.describe(value)), "type")
  end
  if not args.is_list(list) then refuse(list) end
  if #list ~= places then
    blame.error(string.format("%s: '%s' must have an entry for each of the %d stages, got %d", who,
      name, places,
      #list), "value")
  end
  for _, options in ipairs(list) do
    if not class.is_a(options, types.PipelineStageOptions) then refuse(options) end
  end
end

---Refuses lists of another length than the stages, and what is no PipelineStageOptions.
---@param who string
---@param a table with forward_propagation_stages_poplar_options and so on
---@param places integer
---@param training boolean
function stage_options.check(who, a, places, training)
  check_list(who, "forward_propagation_stages_poplar_options",
    a.forward_propagation_stages_poplar_options, places)
  if not training then return end
  check_list(who, "backward_propagation_stages_poplar_options",
    a.backward_propagation_stages_poplar_options, places)
  local update = a.weight_update_poplar_options
  if update ~= nil and not class.is_a(update, types.PipelineStageOptions) then
    blame.error(string.format("%s: 'weight_update_poplar_options' must be a PipelineStageOptions, "
      .. "got %s", who,
      args.describe(update)), "type")
  end
end

local kinds <const> = {half_products = "matmul_options", half_convolutions = "convolution_options"}

-- 1 or 0 by kind where the options say it, else what holds around.
local function codes(options, around)
  local found = {}
  for kind, name in pairs(kinds) do
    local half
    if options then half = library_options.half_partials(options[name]) end
    found[kind] = half == nil and around[kind] or half and 1 or half == false and 0 or around[kind]
  end
  return found
end

---What holds now, by kind.
---@return table<string, integer>
function stage_options.around()
  local now = {}
  for kind in pairs(kinds) do
    now[kind] = core.set_placement(kind, -1)
    core.set_placement(kind, now[kind])
  end
  return now
end

---New nodes take these options, where they say nothing what held around.
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

-- Gradients inherit what the forward pass adds its products up in; the options of the backward pass
-- say otherwise.
---@param a table
---@param place_of integer[] the place of each stage, from 0
---@param first integer the gradients' first node
function stage_options.backward(a, place_of, first)
  local forward, backward = a.forward_propagation_stages_poplar_options,
    a.backward_propagation_stages_poplar_options
  if not forward and not backward then return end
  local around = stage_options.around()
  for stage, place in ipairs(place_of) do
    local found = codes((backward or {})[place + 1], around)
    core.set_backward_partials(first, stage - 1, found.half_products, found.half_convolutions)
  end
end

return stage_options
