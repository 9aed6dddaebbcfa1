-- The values that a pipeline enqueues: the last stage's outputs, without masked ones, or the loss;
-- of each micro-batch, or summed over a run.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local structure = require "ipulua.base.structure"

local outputs = {}

---Checks the arguments that concern outputs, before anything is traced.
function outputs.check(who, a)
  local function refuse(text) blame.error(who .. ": " .. text, "value") end
  if a.outfeed_loss and a.outfeed_mask then
    refuse("'outfeed_loss' and 'outfeed_mask' exclude each other")
  end
  if a.outfeed_loss and not a.training then
    refuse("'outfeed_loss' needs an 'optimizer_function', which gives the loss")
  end
  if a.outfeed_mask and not a.training then
    refuse("'outfeed_mask' needs an 'optimizer_function'")
  end
  if a.outfeed_loss and not a.outfeed_queue then
    refuse("'outfeed_loss' needs an 'outfeed_queue'")
  end
  if not a.accumulate_outfeed then return end
  if not a.outfeed_queue then refuse("'accumulate_outfeed' needs an 'outfeed_queue'") end
  if a.outfeed_queue.outfeed_mode ~= "ALL" then
    refuse("'accumulate_outfeed' needs an outfeed of the mode ALL")
  end
end

local function masked(who, mask, results)
  if #mask ~= results.n then
    blame.error(string.format("%s: 'outfeed_mask' has %s, but the last stage has %s", who,
      counted(#mask, "entry", "entries"),
      counted(results.n, "output")), "value")
  end
  local kept = {}
  for i = 1, results.n do
    if type(mask[i]) ~= "boolean" then
      blame.error(string.format("%s: 'outfeed_mask' must hold booleans, got %s", who,
        args.describe(mask[i])), "type")
    end
    if not mask[i] then kept[#kept + 1] = results[i] end
  end
  return kept
end

---The enqueued values, in their structure; nil: nothing.
---@param results table packed outputs of the last stage
---@param loss userdata?
function outputs.choose(who, a, results, loss)
  local value
  if a.outfeed_loss then
    value = loss
  elseif a.outfeed_mask then
    value = masked(who, a.outfeed_mask, results)
    if #value == 0 then value = nil end
  elseif results.n == 1 and structure.is_plain(results[1]) then
    value = results[1]
  elseif results.n == 1 and not a.training and not a.accumulate_outfeed then
    value = results[1]
  elseif results.n > 0 then
    value = {table.unpack(results, 1, results.n)}
  end
  if value ~= nil and not a.outfeed_queue then
    blame.error(who .. ": the last stage has outputs, but there is no 'outfeed_queue'", "value")
  end
  return value
end

---Enqueues a micro-batch's values, or returns the values that are to be summed.
---@return userdata[]
function outputs.enqueue(a, value)
  if value == nil then return {} end
  if a.accumulate_outfeed then return (structure.flatten(value)) end
  a.outfeed_queue:enqueue(value)
  return {}
end

---Enqueues the sums of a run.
function outputs.enqueue_sums(a, value, sums)
  if #sums == 0 then return end
  local _, template = structure.flatten(value, core.is_tensor)
  a.outfeed_queue:enqueue(structure.rebuild(template, sums))
end

return outputs
