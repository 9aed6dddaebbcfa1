-- Differentiation: ipu.gradients in a traced function, ipu.GradientTape anywhere.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local nearest = require "ipulua.nearest"
local scope = require "ipulua.base.scope"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"

local tape = {}

-- The values for the leaves of a template, in the order of leaves: false for a leaf without one.
local function beside(template, given, list)
  if template.leaf then
    if given ~= nil and not core.is_value(given) then return false end
    list[template.leaf] = given or false
    return true
  end
  if given == nil then given = {} end
  if not structure.is_plain(given) then return false end
  local named = {}
  for _, item in ipairs(template.items or {}) do
    named[item[1]] = true
    if not beside(item[2], given[item[1]], list) then return false end
  end
  for key in next, given do
    if not named[key] then return false end
  end
  return true
end

-- Gradients of the leaves of ys, in the form that the binding takes. A tensor may stand in a list,
-- and a list of one for a tensor.
local function seeds(who, what, dys, template)
  if dys == nil or (structure.is_plain(dys) and next(dys) == nil) then return nil end
  local list = {}
  if template.leaf and structure.is_plain(dys) and #dys == 1 then dys = dys[1] end
  if template.items and core.is_value(dys) then dys = {dys} end
  if beside(template, dys, list) then return list end
  blame.error(string.format("%s: '%s' must have a gradient for each of the outputs, or nil, and "
    .. "nothing else", who, what), "type")
end

-- ------------------------------------------------ observers of gradients

-- In the facts of the present root trace, `observed`: a list of {value, f, depth of its region};
-- loss_scale: the factor of the loss that is differentiated next.

---Registers f: where gradients by variables are computed next, f(gradient, scale) is called there
---with the gradient at the value. scale: the factor of the loss, nil for none.
---@param value userdata
---@param f fun(gradient: userdata, scale: userdata?)
function tape.observe(value, f)
  local facts = tracing.facts()
  local observed = facts.observed or {}
  facts.observed = observed
  observed[#observed + 1] = {value = value, f = f, depth = core.trace_depth()}
end

---The loss that is differentiated next was multiplied by a factor.
---@param factor userdata
function tape.note_scale(factor) tracing.facts().loss_scale = factor end

-- Removes the observers of the current region, and of inner regions that have ended; returns them
-- and the factor of the loss.
local function take_observers(xs)
  local by_variables = false
  for _, x in ipairs(xs) do by_variables = by_variables or core.is_variable(x) end
  local facts = tracing.facts()
  local observed, scale = facts.observed, facts.loss_scale
  if not by_variables then return {} end
  facts.loss_scale = nil
  if not observed then return {} end
  local depth, taken, kept = core.trace_depth(), {}, {}
  for _, each in ipairs(observed) do
    local list = each.depth == depth and taken or each.depth < depth and kept
    if list then list[#list + 1] = each end
  end
  facts.observed = kept
  return taken, scale
end

-- The gradients that compute(list of sources) gives for xs; observers get theirs.
local function with_observers(xs, compute)
  local observers, scale = take_observers(xs)
  if #observers == 0 then return compute(xs) end
  local all = table.move(xs, 1, #xs, 1, {})
  for i, each in ipairs(observers) do all[#xs + i] = each.value end
  local found = compute(all)
  for i, each in ipairs(observers) do
    if found[#xs + i] then each.f(found[#xs + i], scale) end
  end
  return core.plain(table.move(found, 1, #xs, 1, {}))
end

local function differentiate(ys, xs, dys, window)
  return with_observers(xs, function(all) return core.gradients(ys, all, dys, window) end)
end

-- A tensor, a variable, or a table of them, taken apart.
local function leaves_of(what, value)
  local leaves, template = structure.flatten(value, function(v)
    return not structure.is_plain(v)
  end)
  for _, leaf in ipairs(leaves) do
    if not core.is_value(leaf) then
      blame.error(string.format("gradients: '%s' must be a tensor, a variable or a list of them, "
        .. "got %s", what, args.describe(leaf)), "type")
    end
  end
  return leaves, template
end

local gradients_spec <const> = {
  {"ys", "any", of = "tensor or list of tensors"},
  {"xs", "any", of = "tensor, variable or list of them"},
  {"grad_ys", "any", optional = true, of = "tensor or list of tensors",
    says = "upstream gradients, as ys; ones by default"},
}

---d(sum of ys) / d xs, a list; nil where there is no path.
---Shapes: ys any, summed; each gradient has its x's shape
---Errors: outside of a traced function and a graph: `ipu.gradients(x, {v})`
---@return userdata[]
function tape.gradients(...)
  local a = args.check("gradients", gradients_spec, ...)
  local ys, ys_template = leaves_of("ys", a.ys)
  local xs, xs_template = leaves_of("xs", a.xs)
  if not tracing.is_active() and not session_graph.any_deferred(ys) then
    blame.error("gradients: outside a traced function, record with ipu.GradientTape()", "runtime")
  end
  local found = differentiate(ys, xs, seeds("gradients", "grad_ys", a.grad_ys, ys_template))
  for i = 1, #xs do found[i] = found[i] or nil end
  return xs_template.leaf and found or structure.rebuild(xs_template, found)
end

---Records the ops that run while it is open. Then gradient() differentiates them by any recorded
---variable or tensor. A tape gives gradients once, unless persistent is set. It works in compiled
---functions and outside.
---Shapes: each gradient has its source's shape
---Errors: an unknown argument: `ipu.GradientTape{persist = true}`
---Source: tf.GradientTape of TensorFlow 2.6
---@class GradientTape: Scope
local GradientTape = scope.Scope:extend("GradientTape")

local tape_spec <const> = {
  {"persistent", "boolean", false, says = "gradient() may be called several times"},
  {"watch_accessed_variables", "boolean", true, says = "if false, only arguments of watch()"},
}

function GradientTape:init(...)
  local a = args.check(getmetatable(self).__name, tape_spec, ...)
  self.persistent, self.watch_accessed_variables = a.persistent, a.watch_accessed_variables
  self.watched = {}
  self.eager = not tracing.is_active()
  self.recording = true
  self.used = false
  self.pretended = tracing.pretended()
  if self.eager then self.record = core.tape_new() else self.window = core.window_begin() end
  scope.Scope.init(self, "GradientTape()", function(s) s:stop() end, true)
end

function GradientTape:stop()
  if not self.recording then return end
  self.recording = false
  if self.eager then core.tape_pause(self.record) else core.window_end(self.window) end
end

local function check_values(who, what, value)
  for _, v in ipairs(structure.is_plain(value)
    and structure.flatten(value, function(v) return not structure.is_plain(v) end) or {value}) do
    if not core.is_tensor(v) and not core.is_variable(v) then
      blame.error(string.format("%s: '%s' must be a tensor, a variable or a table of them, got %s",
        who, what,
        args.describe(v)), "type")
    end
  end
end

---Everything recorded can be differentiated; only variables need watching, if
---watch_accessed_variables is false.
---Shapes: any
---Errors: a value that is no tensor: `ipu.GradientTape():watch("x")`
---@param value any a tensor, a variable, or a table of them
function GradientTape:watch(value)
  if value == nil then
    blame.error("GradientTape.watch: 'value' is missing: a tensor, a variable or a table of them",
      "type")
  end
  check_values("GradientTape.watch", "value", value)
  for _, leaf in ipairs((structure.flatten(value))) do self.watched[leaf] = true end
  return self
end

function GradientTape:is_watched(source)
  return self.watch_accessed_variables or not core.is_variable(source)
    or self.watched[source] == true
end

local function joined(outer, inner)
  return table.move(inner, 1, #inner, #outer + 1, {table.unpack(outer)})
end

local gradient_spec <const> = {
  {"target", "any", of = "tensor or table of tensors"},
  {"sources", "any", of = "tensor, variable or table of them"},
  {"output_gradients", "any", optional = true, of = "tensor or table of tensors",
    says = "upstream gradients, as target; ones by default"},
  {"unconnected_gradients", "string", "none", choices = {"none", "zero"},
    says = "nil, or zeros, where there is no path"},
}

-- A misspelt option would be read as the gradients of outputs.
local function check_names(a)
  local given = a.output_gradients
  if not structure.is_plain(given) or #given > 0
    or (structure.is_plain(a.target) and #a.target == 0) then
    return
  end
  local key = next(given)
  if key == nil then return end
  blame.error(string.format("GradientTape.gradient has no argument '%s'%s", tostring(key),
    nearest.hint(key, {"output_gradients", "unconnected_gradients"})), "type")
end

local function check_unused(self, who)
  if not self.used or self.persistent then return end
  blame.error(who .. ": a tape gives gradients once; make it with {persistent = true}", "runtime")
end

-- Ends the recording of a tape that gives gradients once.
local function use_up(self)
  self.used = true
  if not self.persistent then self:stop() end
end

local function release(self)
  if self.eager and not self.persistent then core.tape_release(self.record) end
end

-- A gradient for each leaf, false where there is no path from one that is watched.
local function gradients_of(self, ys, leaves, dys)
  local found
  if self.eager and not tracing.is_active() then
    found = with_observers(leaves, function(all)
      return core.tape_gradients(self.record, ys, all, dys)
    end)
  else found = differentiate(ys, leaves, dys, self.window) end
  for i, leaf in ipairs(leaves) do found[i] = self:is_watched(leaf) and found[i] or false end
  return found
end

-- Whether zeros stand where there is no path.
local function is_zero(self, unconnected)
  return unconnected == "zero" or self.pretended < tracing.pretended()
end

-- The results in the structure of the sources. Each has `outer` before its source's shape.
local function in_structure(self, found, leaves, template, unconnected, outer)
  local fills = is_zero(self, unconnected)
  for i, leaf in ipairs(leaves) do
    if not found[i] then
      found[i] = fills and core.full(joined(outer, leaf.shape), 0, leaf.dtype) or nil
    end
  end
  if template.leaf then return found[1] end
  return structure.rebuild(template, found)
end

---Gradients of target (a tensor or a list) for sources, in the structure of sources; nil where
---there is no path.
---Shapes: target any, summed; each gradient has its source's shape
---Errors: a second call without persistent, sources that are no tensors:
---`ipu.GradientTape():gradient(1, 2)`
---@return any
function GradientTape:gradient(...)
  local a = args.check("GradientTape.gradient", gradient_spec, ...)
  check_unused(self, "GradientTape.gradient")
  check_values("GradientTape.gradient", "target", a.target)
  check_values("GradientTape.gradient", "sources", a.sources)
  check_names(a)
  if a.output_gradients ~= nil then
    check_values("GradientTape.gradient", "output_gradients", a.output_gradients)
  end
  local ys, ys_template = structure.flatten(a.target)
  local leaves, template = structure.flatten(a.sources)
  local dys = seeds("GradientTape.gradient", "output_gradients", a.output_gradients, ys_template)
  use_up(self)
  local found = gradients_of(self, ys, leaves, dys)
  release(self)
  return in_structure(self, found, leaves, template, a.unconnected_gradients, {})
end

-- ------------------------------------------------ Jacobians

-- A pass for each of `count` upstream gradients of y: of each leaf the results, stacked before it,
-- or false.
local function passes(self, y, leaves, count, seed)
  local lists = {}
  for k = 1, count do
    for i, g in ipairs(gradients_of(self, {y}, leaves, {seed(k - 1)})) do
      lists[i] = lists[i] or {}
      lists[i][k] = g
    end
  end
  release(self)
  for i, list in ipairs(lists) do lists[i] = list[1] and core.ops.stack(list) end
  return lists
end

-- Zeros but for 1 at a place, of the dtype of x.
local function unit(place, shape, x)
  local count = 1
  for _, extent in ipairs(shape) do count = count * extent end
  local row = core.ops.one_hot(core.tensor(place, "int32"), count)
  return core.ops.cast(core.ops.reshape(row, shape), x.dtype)
end

local function check_target(who, y)
  if not core.is_tensor(y) then
    blame.error(string.format("%s: 'target' must be one tensor, got %s", who, args.describe(y)),
      "type")
  end
  if y.size < 1 then
    blame.error(string.format("%s: 'target' must have elements, and known extents; it is %s", who,
      structure.type_text(core.type_of(y))), "value")
  end
end

local unconnected_row <const> = gradient_spec[4]

local jacobian_spec <const> = {
  {"target", "any", of = "tensor"}, {"sources", "any", of = "tensor, variable or table of them"},
  unconnected_row,
}

---The derivatives of each element of target for each element of sources, in the structure of
---sources; nil where there is no path. It makes a backward pass for each element of target.
---Shapes: each result has target's shape, then its source's
---Errors: a second call without persistent, a target that is no tensor:
---`ipu.GradientTape():jacobian(1, 2)`
---Source: tf.GradientTape.jacobian of TensorFlow 2.6
---@return any
function GradientTape:jacobian(...)
  local who <const> = "GradientTape.jacobian"
  local a = args.check(who, jacobian_spec, ...)
  check_unused(self, who)
  check_target(who, a.target)
  check_values(who, "sources", a.sources)
  local y = a.target
  local shape, leaves, template = y.shape, structure.flatten(a.sources)
  use_up(self)
  local found = passes(self, y, leaves, y.size, function(k) return unit(k, shape, y) end)
  for i, leaf in ipairs(leaves) do
    found[i] = found[i] and core.ops.reshape(found[i], joined(shape, leaf.shape))
  end
  return in_structure(self, found, leaves, template, a.unconnected_gradients, shape)
end

local batch_spec <const> = {{"target", "any", of = "tensor"},
  {"source", "any", of = "tensor or variable", says = "of the same batch size"}, unconnected_row}

---The derivatives of each sample of target for the same sample of source. No sample may depend on
---another one. Without a path the result is nil. It makes a backward pass for each element of a
---sample.
---Shapes: target [batch, …], source [batch, …] → [batch, target's …, source's …]
---Errors: a second call without persistent, a source of another batch size:
---`ipu.GradientTape():batch_jacobian(ipu.ones{2, 3}, ipu.ones{3, 2})`
---Source: tf.GradientTape.batch_jacobian of TensorFlow 2.6
---@return any
function GradientTape:batch_jacobian(...)
  local who <const> = "GradientTape.batch_jacobian"
  local a = args.check(who, batch_spec, ...)
  check_unused(self, who)
  check_target(who, a.target)
  check_values(who, "source", a.source)
  local y, x = a.target, a.source
  local batch = y.shape[1]
  if structure.is_plain(x) or not batch or x.shape[1] ~= batch then
    blame.error(string.format("%s: 'target' and 'source' must be tensors of one batch size, got %s "
      .. "and %s", who, structure.type_text(core.type_of(y)),
      structure.is_plain(x) and "a table" or structure.type_text(core.type_of(x))), "value")
  end
  local inner = table.move(y.shape, 2, #y.shape, 1, {})
  use_up(self)
  local found = passes(self, y, {x}, y.size // batch, function(k)
    return core.ops.broadcast_to(unit(k, inner, y), y.shape)
  end)
  local shape = joined(inner, table.move(x.shape, 2, #x.shape, 1, {}))
  table.insert(shape, 1, batch)
  if found[1] then
    local order = {1, 0}
    for axis = 2, #x.shape do order[axis + 1] = axis end
    return core.ops.reshape(core.ops.transpose(found[1], order), shape)
  end
  return is_zero(self, a.unconnected_gradients) and core.full(shape, 0, x.dtype) or nil
end

tape.GradientTape = class.guard(GradientTape)
tape.class = class
return tape
