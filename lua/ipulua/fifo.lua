-- A queue inside of a program: what is pushed in one execution comes out some executions later. Its places are a variable.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local core = require "ipulua.core"
local graph = require "ipulua.graph"
local offloading = require "ipulua.offloading"
local tracing = require "ipulua.tracing"
local variables = require "ipulua.variables"

local fifo = {}

local ops <const> = core.ops

local rows <const> = {{"value", "any"}, {"depth", "integer"}, {"offload", "boolean", false}, {"name", "string", "fifo"}}

-- The oldest value; x takes the place behind the newest.
local function push(x, a)
  local dtype, shape = core.type_of(x)
  local places, first, rest, rest_count = {a.depth}, {0}, {1}, {a.depth - 1}
  local first_count = {1}
  for i, extent in ipairs(shape) do
    places[i + 1], first[i + 1], first_count[i + 1], rest[i + 1], rest_count[i + 1] = extent, 0, extent, 0, extent
  end
  local queue = variables.make(a.name, dtype, places, false, function() return core.full(places, 0, dtype) end)
  local held, last = queue:read_value(), ops.expand_dims(x, {axis = 0})
  local oldest = ops.reshape(ops.slice(held, first, first_count), shape)
  queue:assign(a.depth > 1 and ops.concat({ops.slice(held, rest, rest_count), last}, {axis = 0}) or last)
  if a.offload then offloading.move(queue, "fifo", "offload") end
  return oldest
end

---The value that was given `depth` executions ago; zeros before. No gradient flows through. offload: it waits in
---remote memory.
---@return userdata
function fifo.fifo(...)
  local a = args.check("fifo", rows, ...)
  if a.depth < 1 then blame.error("fifo: 'depth' must be at least 1, got " .. a.depth, "value") end
  local x = core.is_variable(a.value) and a.value:read_value() or core.tensor(a.value)
  if not tracing.is_active() and not graph.any_deferred{x} then
    blame.error("fifo: it remembers executions of a compiled function: call it inside of ipu.func", "failed_precondition")
  end
  return push(x, a)
end

return fifo
