-- Calling a layer: with tensors it is built and runs, with KerasTensors it becomes a node of a
-- functional model.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local KerasTensor = require "ipulua.keras.base.tensor"
local nearest = require "ipulua.nearest"
local nest = require "ipulua.base.nest"
local observed = require "ipulua.keras.base.observed"
local seeded = require "ipulua.keras.base.seeded"
local shapes = require "ipulua.keras.base.shapes"
local stages = require "ipulua.keras.models.stage_scope"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"

local keep <const> = require "ipulua.keras.base.layer_fields".keep
local kept <const> = require "ipulua.keras.base.layer_fields".get

---@class Layer
local Layer = {} -- functions of this file for the class

-- ------------------------------------------------ what layers define

---Makes the weights, given the shape of the input (a structure of shapes for several). Layers
---override it.
---Shapes: input_shape with the batch, -1 where an extent is not known
---Errors: an extent that a weight needs and that is not known: `keras.layers.Dense(3):build{2, -1}`
---@param input_shape any a shape, or a table of shapes
function Layer:build(input_shape) -- luacheck: ignore 212
end

---The computation of the layer: call(x, {training =, mask =}) gives its output. Layers override it.
function Layer:call()
  blame.error(string.format("layer '%s': its class %s defines no call(inputs)", self.name,
    class.of(self).__name),
    "not_implemented")
end

---The mask of the outputs. By default the mask of the inputs passes on where supports_masking is
---set.
---Shapes: inputs [batch, steps, ...], mask [batch, steps]
---Errors: none of its own
---@param inputs any tensor or table of tensors
---@param mask any tensor, or nil
function Layer:compute_mask(inputs, mask) -- luacheck: ignore 212
  return self.supports_masking and mask or nil
end

-- ------------------------------------------------ inputs

-- Lists of numbers become tensors.
local function as_inputs(value)
  if type(value) == "number" then return core.tensor(value) end
  if args.is_plain(value) and next(value) ~= nil
    and not nest.any(function(leaf) return type(leaf) ~= "number" end, value) then
    return core.tensor(value)
  end
  return value
end

-- A class whose inputs have names in Keras says input_names: layer{query = q, value = v} is
-- layer(q, v).
local function take_named(given, options, input_names)
  local rest = {}
  for name, value in pairs(options) do rest[name] = value end
  for i, name in ipairs(input_names) do
    if given[i] == nil and rest[name] ~= nil then
      given[i], given.n, rest[name] = rest[name], math.max(given.n, i), nil
    end
  end
  return rest
end

-- (inputs, more…, {training = …}) → packed positional arguments, options.
local function read_call(self, ...)
  local given = table.pack(...)
  local options = {}
  local last, input_names = given[given.n], class.of(self).input_names
  local all_named = input_names and given.n == 1 and args.is_plain(last)
    and last[input_names[1]] ~= nil
  if (given.n > 1 or all_named) and args.is_plain(last) and (next(last) == nil or #last == 0) then
    options, given[given.n], given.n = last, nil, given.n - 1
  end
  if input_names then options = take_named(given, options, input_names) end
  while given.n > 1 and given[given.n] == nil do given.n = given.n - 1 end
  if given.n > 1 and type(given[given.n]) == "boolean" then
    blame.error(string.format("layer '%s': training is given by name, layer(x, {training = %s})",
      self.name, given[given.n]), "type")
  end
  if not self.takes_numbers then given[1] = as_inputs(given[1]) end
  return given, options
end

local function is_input(leaf) return core.is_value(leaf) or KerasTensor.is(leaf) end

local function shape_text(shape)
  return "[" .. table.concat(shape, ", ") .. "]"
end

local function check_spec_leaf(self, spec, leaf, index)
  local shape = leaf.shape
  local rank, where = #shape, string.format("input %d of layer '%s'", index - 1, self.name)
  local function refuse(wanted, got)
    blame.error(string.format("%s doesn't fit the layer: expected %s, got %s", where, wanted,
      got or "the shape " .. shape_text(shape)),
      "value")
  end
  if spec.dtype and leaf.dtype ~= spec.dtype then refuse("the dtype " .. spec.dtype, leaf.dtype) end
  if spec.ndim and rank ~= spec.ndim then refuse("rank " .. spec.ndim) end
  if spec.min_ndim and rank < spec.min_ndim then refuse("a rank of at least " .. spec.min_ndim) end
  if spec.max_ndim and rank > spec.max_ndim then refuse("a rank of at most " .. spec.max_ndim) end
  for axis, extent in pairs(spec.axes or {}) do
    local got = shape[axis < 0 and rank + axis + 1 or axis + 1]
    if got and got >= 0 and got ~= extent then
      refuse(string.format("axis %d to have %s", axis, counted(extent, "element")))
    end
  end
end

local function check_one(self, inputs)
  if core.is_value(inputs) or KerasTensor.is(inputs) then return end
  local several = args.is_plain(inputs) and #inputs > 0 and "a list of " .. #inputs
  blame.error(string.format("layer '%s' takes one tensor, got %s", self.name,
    several or args.describe(inputs)), "type")
end

-- input_spec = {ndim =, min_ndim =, max_ndim =, axes = {[-1] = 784}, dtype =}, an InputSpec, or a
-- list of them. takes_one = true: one tensor of any kind. takes_states = true: the spec is for the
-- first tensor of a list.
local function check_spec(self, inputs)
  local c = class.of(self)
  local spec = rawget(self, "input_spec") or c.input_spec
  local is_list = c.takes_states and args.is_list(inputs) and #inputs > 0
  if not is_list and (c.takes_one or spec and spec[1] == nil and (spec.ndim or spec.min_ndim)) then
    check_one(self, inputs)
  end
  if not spec then return end
  local leaves = is_list and {inputs[1]} or nest.flatten(inputs)
  for i, leaf in ipairs(leaves) do
    local each = spec[i] or (spec[1] == nil and spec) or nil
    if each and (core.is_value(leaf) or KerasTensor.is(leaf)) then
      check_spec_leaf(self, each, leaf, i)
    end
  end
end

-- Values that can't be an input of any layer are refused. Objects of a script's own are accepted.
local function check_inputs(self, first)
  check_spec(self, first)
  local of = type(first)
  if of == "number" or is_input(first) or of == "table"
    and (not args.is_plain(first) or nest.any(is_input, first)) then
    return
  end
  blame.error(string.format("layer '%s' is called with a tensor, or a table of tensors, got %s",
    self.name,
    of == "table" and "a table without any" or args.describe(first)), "type")
end

local function want_inputs(self, first, count)
  if first == nil then
    local hint = count and count > 0 and ": the first is nil; a model with several outputs returns "
      .. "one list, for table.unpack" or ""
    blame.error(string.format("layer '%s' was called without inputs%s", self.name, hint), "type")
  end
end

-- ------------------------------------------------ building

---Makes the weights if there are none yet, by the shapes of `inputs`.
---@package
function Layer:ensure_built(inputs)
  self:ensure_initialised()
  if self.built then return end
  self:build_once(nest.map(function(leaf)
    local shape = (core.is_value(leaf) or KerasTensor.is(leaf)) and leaf.shape or {}
    return table.move(shape, 1, #shape, 1, {})
  end, inputs))
end

---build(shape), once, outside of whatever is being traced.
---@package
function Layer:build_once(input_shape)
  if self.built then return end
  self:ensure_initialised()
  local _ <close> = teams.share_together()
  tracing.outside(function()
    local path = context.path
    local inside = path[#path] == self.name
    if not inside then context.path = context.extended(self.name) end
    keep(self, "_building", true)
    local ok, problem = blame.pcall(self.build, self, input_shape)
    keep(self, "_building", nil)
    context.path = path
    if not ok then error(problem, 0) end
  end)
  rawset(self, "built", true)
  keep(self, "build_shape", input_shape)
  local values = kept(self, "initial_weights")
  if values then self:set_weights(values) end
end

-- ------------------------------------------------ dtypes and masks

---A variable as call sees it: in the compute dtype; it is assigned to all the same.
---@package
function Layer:in_compute_dtype(v)
  local dtype = self.compute_dtype
  if v.dtype == dtype or not v.dtype:find("float") then return v end
  local cast = v:cast(dtype)
  core.set_behind(cast, v)
  return cast
end

local function autocast(self, value)
  local dtype = self.compute_dtype
  return nest.map(function(leaf)
    if core.is_tensor(leaf) and leaf.dtype ~= dtype and leaf.dtype:find("float") then
      local cast = leaf:cast(dtype)
      context.set_mask(cast, context.mask(leaf))
      return cast
    end
    return leaf
  end, value)
end

local function masks_of(inputs)
  if not args.is_plain(inputs) then return context.mask(inputs) end
  local found = false
  local masks = nest.map(function(leaf)
    local mask = context.mask(leaf)
    found = found or mask ~= nil
    return mask
  end, inputs)
  return found and masks or nil
end

-- A class whose call gives its results their masks says masks_by_call beside its compute_mask.
local function masks_by_call(self)
  local c = class.of(self)
  while c and rawget(c, "compute_mask") == nil do c = rawget(c, "super") end
  return c and rawget(c, "masks_by_call")
end

-- Results that have masks, of layers called inside, keep them.
local function record_masks(self, inputs, mask, results)
  local leaves = {}
  for i = 1, results.n do nest.flatten(results[i], leaves) end
  local known = #leaves > 0
  for _, leaf in ipairs(leaves) do known = known and context.mask(leaf) ~= nil end
  if known or masks_by_call(self) then return end
  local mine = self:compute_mask(inputs, mask)
  if mine == nil then return end
  if not args.is_plain(mine) then return context.set_mask(leaves[1], mine) end
  for i, leaf in ipairs(leaves) do context.set_mask(leaf, mine[i]) end
end

-- ------------------------------------------------ calling

-- Tensors among the options of a library's layer are inputs, too, but for masks.
local function autocast_options(self, options)
  for _, name in ipairs(class.of(self).call_options or {}) do
    if options[name] ~= nil then options[name] = autocast(self, options[name]) end
  end
end

-- A call's options. Options that aren't given come from the calls around it.
local function complete(options, inputs)
  local passed = {}
  for key, value in next, options do passed[key] = value end
  if passed.training == nil then passed.training = context.training end
  if passed.training == nil then passed.training = false end
  if passed.mask == nil then passed.mask = masks_of(inputs) end
  return passed
end

local guarded = setmetatable({}, {__mode = "k"}) -- classes of the library

-- The library's layers list the options of their call besides training and mask, as call_options.
-- Own layers may do so, too; otherwise their call may read any.
local function check_options(self, options)
  local c = class.of(self)
  while c and rawget(c, "call") == nil do c = rawget(c, "super") end
  if not c or not guarded[c] and not rawget(c, "call_options") then return end
  local known = self.call_options or {}
  for name in next, options do
    local is_known = name == "training" or name == "mask"
    for _, other in ipairs(known) do is_known = is_known or other == name end
    if not is_known then
      blame.error(string.format("layer '%s': its call has no option '%s'%s", self.name,
        tostring(name),
        nearest.hint(tostring(name), {"training", "mask", table.unpack(known)})), "type")
    end
  end
end

-- `function L.call(x) return x end` takes the layer itself for x, and a call may lack its return.
local function refuse_self(self, result)
  if result ~= nil and not rawequal(result, self) then return end
  local name = getmetatable(self).__name
  if result == nil then
    blame.error(string.format("layer '%s': its call returned nothing; %s:call(x) must end with "
      .. "`return`", self.name, name), "type")
  end
  blame.error(string.format("layer '%s': its call returned the layer itself; a method is written "
    .. "with a colon, function %s:call(x)",
    self.name, name), "type")
end

local function is_deferred(leaf) return core.is_tensor(leaf) and core.is_deferred(leaf) end

local function has_deferred(given)
  for i = 1, given.n do
    if given[i] ~= nil and nest.any(is_deferred, given[i]) then return true end
  end
  return false
end

-- With values of a session's graph the whole call belongs to it, so that weights are read, and
-- assigned, when a session runs.
local function compute(self, given)
  local is_active = tracing.is_active()
  local of_graph = is_active and tracing.is_graph() or not is_active and has_deferred(given)
  if of_graph ~= (kept(self, "_of_graph") or false) then keep(self, "_of_graph", of_graph) end
  if is_active or not of_graph then
    return table.pack(self:call(table.unpack(given, 1, given.n + 1)))
  end
  return table.pack(tracing.in_graph(self.call, self, table.unpack(given, 1, given.n + 1)))
end

local function run(self, given, options)
  if context.depth == 0 and not context.inferring then
    self:walk(function(layer) keep(layer, "_losses", {}) end)
  end
  check_inputs(self, given[1])
  self:ensure_built(given[1])
  self:settle_fields()
  stages.enter_layer(self, context.depth)
  if self.autocast ~= false then
    for i = 1, given.n do given[i] = autocast(self, given[i]) end
  end
  local passed = complete(options, given[1])
  if self.autocast ~= false then autocast_options(self, passed) end
  given[given.n + 1] = passed
  local results
  do
    local _ <close> = context.enter(self.name, passed.training)
    local _ <close> = guarded[class.of(self)] and seeded.enter(self, passed.training)
    results = compute(self, given)
    refuse_self(self, results[1])
    self:add_activity_loss(results)
  end
  record_masks(self, given[1], passed.mask, results)
  if observed.call then observed.call(self, results) end
  return table.unpack(results, 1, results.n)
end

-- KerasTensors of the shapes of inputs.
local function tensors_of(self, shape)
  if next(shape) == nil or type(nest.first(shape)) == "number"
    and math.type(shape[1]) == "integer" then
    return KerasTensor(shape, rawget(self, "input_dtype") or self.compute_dtype)
  end
  local out = {}
  for _, key in ipairs(nest.keys(shape)) do out[key] = tensors_of(self, shape[key]) end
  return out
end

-- layer.call(x) hands no layer over.
local function want_layer(self, name, method)
  local c = class.of(self)
  if c and c.ensure_built then return end
  blame.error(string.format("%s.%s is a method; it is called with a colon, as in x:%s(...)", name,
    method, method), "type")
end

-- build of the library's layers, called by a script: as a first call of the layer would, so that
-- this doesn't make the weights again.
local function build_by_hand(f, name)
  local build
  build = core.entry(function(self, ...)
    want_layer(self, name, "build")
    if self._building or not rawequal(self.build, build) then return f(self, ...) end
    shapes.check_given(string.format("layer '%s': build", self.name), (...))
    check_spec(self, tensors_of(self, (...)))
    return self:build_once(...)
  end)
  return build
end

-- How many inputs a call declares before its options; nil: any number.
local function inputs_of(f)
  local info = debug.getinfo(f, "u")
  local last = not info.isvararg and info.nparams > 1 and debug.getlocal(f, info.nparams)
  return last and info.nparams - (last == "options" and 2 or 1)
end

-- call of the library's layers: `run` gives all options, a script that calls it by hand need not;
-- but it has to build the layer.
local function call_by_hand(f, name)
  local most = inputs_of(f)
  return core.entry(function(self, ...)
    want_layer(self, name, "call")
    if most and select("#", ...) > most + 1 then
      blame.error(string.format("layer '%s' is called with %s; options follow by name, as in "
        .. "layer(x, {training = true})", self.name,
        most == 1 and "one input, a tensor or a table of them" or counted(most, "input")), "type")
    end
    local last = select("#", ...) > 0 and (select(-1, ...))
    if type(last) == "table" and rawget(last, "training") ~= nil then return f(self, ...) end
    if not self.built and self.build ~= Layer.build then
      blame.error(string.format("layer '%s' is not built yet, so it has no weights to call: call "
        .. "the layer itself, layer(x), which builds it, "
        .. "or layer:build(shape) first", self.name), "value")
    end
    local given, options = read_call(self, ...)
    want_inputs(self, given[1])
    check_inputs(self, given[1])
    given[given.n + 1] = complete(options, given[1])
    return f(self, table.unpack(given, 1, given.n + 1))
  end)
end

---Prepares a class of the library, and its bases, for scripts that call build and call by hand.
---@param c Class
local function guard(c)
  while c and not guarded[c] and rawget(c, "build") ~= Layer.build do
    guarded[c] = true
    local build, call = rawget(c, "build"), rawget(c, "call")
    c.build = build and build_by_hand(build, c.__name)
    c.call = call and call_by_hand(call, c.__name)
    c = rawget(c, "super")
  end
end

function Layer:__call(...)
  self:ensure_initialised()
  local given, options = read_call(self, ...)
  want_inputs(self, given[1], select("#", ...))
  check_options(self, options)
  for i = 1, given.n do
    if nest.any(KerasTensor.is, given[i]) then
      check_spec(self, given[1])
      return require "ipulua.keras.models.functional".apply(self, given, options)
    end
  end
  return run(self, given, options)
end

---The shape of the output for a shape of the input (a structure of shapes for several); -1:
---unknown.
---Shapes: input_shape with the batch, -1 where an extent is not known → the output's
---Errors: a shape that the layer can't take: `keras.layers.Conv2D(4, 3):compute_output_shape{2, 3}`
---@param input_shape any a shape, or a table of shapes
---@return any
function Layer:compute_output_shape(input_shape)
  shapes.check_given("compute_output_shape", input_shape)
  local inputs = tensors_of(self, input_shape)
  check_spec(self, inputs)
  self:ensure_built(inputs)
  local types = require "ipulua.keras.base.infer".results(function(x) return self(x) end,
    {n = 1, inputs}, KerasTensor.is)
  return nest.map(function(leaf) return leaf.shape end, types[1])
end

return {methods = Layer, guard = guard}
