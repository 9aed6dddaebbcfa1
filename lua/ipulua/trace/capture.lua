-- Captured gradients: the gradient that arrives at a value, by tag. A captured value is an identity
-- op. Code that computes gradients in the trace also asks for the gradients of its captures.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local scope = require "ipulua.base.scope"
local tape = require "ipulua.trace.tape"
local tracing = require "ipulua.trace.tracing"

local capture = {}

-- core.here().capture: {context, below} of the innermost context that is open

-- ------------------------------------------------ contexts

local function begin(self)
  self.captured_gradients = {}
  self.captures = {} -- {tag =, value =}
  local open = core.here()
  open.capture = {context = self, below = open.capture}
end

local function finish(self)
  self.is_finished = true
  local open = core.here()
  while open.capture and open.capture.context.is_finished do open.capture = open.capture.below end
end

---Collects captured gradients while it is open. Afterwards captured_gradients[tag] is a gradient,
---or a list if several values had the tag.
---Source: GradientCaptureContext of Graphcore's TensorFlow 2.6
---@class GradientCaptureContext: Scope
---@field captured_gradients table<string, any>
local GradientCaptureContext = scope.Scope:extend("GradientCaptureContext")
capture.GradientCaptureContext = GradientCaptureContext

function GradientCaptureContext:init()
  begin(self)
  scope.Scope.init(self, "GradientCaptureContext()", finish)
end

---A GradientTape whose gradient() fills captured_gradients, too.
---Shapes: each gradient has its source's shape
---Errors: an unknown argument: `ipu.GradientCaptureTape{persist = true}`
---Source: GradientCaptureTape of Graphcore's TensorFlow 2.6
---@class GradientCaptureTape: GradientTape
---@field captured_gradients table<string, any>
local GradientCaptureTape = tape.GradientTape:extend("GradientCaptureTape")
capture.GradientCaptureTape = GradientCaptureTape

function GradientCaptureTape:init(...)
  tape.GradientTape.init(self, ...) -- which may refuse the arguments
  begin(self)
end

function GradientCaptureTape:stop()
  finish(self)
  tape.GradientTape.stop(self)
end

-- ------------------------------------------------ capturing

local rows <const> = {{"x", {"tensor"}}, {"tag", "string", ""}}

---x itself; the gradient that arrives at it is recorded under the tag in the innermost context or
---tape.
---Shapes: [...] → [...]
---Errors: x is no tensor: `ipu.capture_upstream_gradients(1)`
---Source: grad_util_ops.capture_upstream_gradients of Graphcore's TensorFlow 2.6
---@param ... any x, tag
---@return userdata
function capture.capture_upstream_gradients(...)
  local a = args.check("capture_upstream_gradients", rows, ...)
  local value = core.ops.identity(a.x)
  local open = core.here().capture
  while open and open.context.is_finished do open = open.below end
  local context = open and open.context
  if context then
    context.captures[#context.captures + 1] = {tag = a.tag, value = value, root = tracing.root()}
  end
  return value
end

-- Captures of the context in the present trace, and their values. A traced function that is called
-- in it, and a context's earlier trace, have values of their own.
local function captures_here(context)
  local list, values, root = {}, {}, tracing.root()
  for _, each in ipairs(context.captures) do
    if each.root == root then list[#list + 1], values[#values + 1] = each, each.value end
  end
  return list, values
end

-- Gradients at captured values go to the context.
local function collect(context, list, found)
  local by_tag = {}
  for i, each in ipairs(list) do
    local of_tag = by_tag[each.tag] or {}
    by_tag[each.tag] = of_tag
    of_tag[#of_tag + 1] = found[i] or nil
  end
  for tag, of_tag in pairs(by_tag) do
    context.captured_gradients[tag] = #of_tag > 1 and of_tag or of_tag[1]
  end
end

---ipu.gradients(ys, xs), and the gradients that the context captured.
---@param context GradientCaptureContext
---@param ys any
---@param xs any[]
---@return any[]
function capture.gradients(context, ys, xs)
  local list, values = captures_here(context)
  if #list == 0 then return tape.gradients(ys, xs) end
  local found = tape.gradients(ys, table.move(values, 1, #values, #xs + 1, {table.unpack(xs)}))
  collect(context, list, table.move(found, #xs + 1, #xs + #list, 1, {}))
  return table.move(found, 1, #xs, 1, {})
end

---Calls f, in which gradients by variables are computed. The context gets the gradients at the
---values that it captured, of the same loss and with the same upstream gradient.
---@param context GradientCaptureContext
---@param f fun(): any
---@return any
function capture.beside(context, f)
  local list, values = captures_here(context)
  local found = {}
  for i, value in ipairs(values) do
    tape.observe(value, function(gradient) found[i] = gradient end)
  end
  local results = f()
  collect(context, list, found)
  return results
end

---As GradientTape's; captured_gradients[tag] is filled beside it.
---Shapes: as GradientTape's
---Errors: arguments in one table, sources that are no tensors:
---`ipu.GradientCaptureTape():gradient(x, 1)`
---@param target any a tensor, or a list of them
---@param sources any a tensor, a variable, or a table of them
---@param ... any output_gradients, unconnected_gradients
---@return any
function GradientCaptureTape:gradient(target, sources, ...)
  if args.is_plain(target) and not core.is_value(target) and sources == nil then
    blame.error("GradientCaptureTape.gradient: give target and sources by position", "type")
  end
  local list, values = captures_here(self)
  if #list == 0 then return tape.GradientTape.gradient(self, target, sources, ...) end
  local found = tape.GradientTape.gradient(self, target, {sources, values}, ...)
  collect(self, list, found[2])
  return found[1]
end
class.guard(GradientCaptureTape)

return capture
