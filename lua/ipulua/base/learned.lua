-- Values that layers have learnt outside of training, such as a vocabulary: constants of a program.
-- A count of changes is part of the keys of programs, so that none is taken that holds former
-- values. Functions of datasets and graphs of sessions are traced once. If values in them change
-- later, a warning says so.

local core = require "ipulua.core"
local log = require "ipulua.base.log"

local learned = {}

local changes = 0
local keepers = setmetatable({}, {__mode = "k"}) -- layer → what keeps its values

---The current trace is not traced again when values change.
---@param what string in words
function learned.keep(what) core.here().root.keeps_learnt = what end

---A layer's values become constants of the trace that x is in.
---@param layer Layer
---@param x any
function learned.use(layer, x)
  local root, keeper = core.here().root, nil
  while root and not keeper do
    keeper = not root.ended
      and (root.keeps_learnt or root.is_graph and "the graph of sessions") or nil
    root = root.below
  end
  if not keeper and core.is_tensor(x) and core.is_deferred(x) then
    keeper = "the graph of sessions"
  end
  if keeper then keepers[layer] = keeper end
end

---A layer's values that a program may hold are others now.
---@param layer Layer
function learned.change(layer)
  changes = changes + 1
  if not keepers[layer] then return end
  log.warn("layer '%s' has learnt other values, but %s was made with the former ones and keeps "
    .. "them; make it again", layer.name, keepers[layer])
  keepers[layer] = nil
end

---How often that was so, as part of a program's key.
---@return string
function learned.key() return "l" .. changes end

return learned
