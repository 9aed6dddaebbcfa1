-- The modules of parts (layers, initializers, losses, …) register here by their kind. So a name in
-- a config is found without one part requiring the others.

local registry = {}

---Kind → the module of ipulua.keras that holds it. Beside them "model" is entered: models are
---layers.
---@type table<string, string>
registry.kinds = {
  activation = "activations", initializer = "initializers", regularizer = "regularizers",
  constraint = "constraints", loss = "losses", metric = "metrics", optimizer = "optimizers",
  schedule = "schedules", layer = "layers",
}

local entered = {} -- kind → classes and functions by name
local load -- see registry.load_by

---Whoever knows where the modules are gives load(kind), after which the kind has been entered.
---@param f fun(kind: string)
function registry.load_by(f) load = f end

---Registers a module of parts of a kind. If several files have parts of one kind, each registers
---its own.
---@param kind string
---@param module table classes and functions by name
function registry.enter(kind, module)
  if not entered[kind] then
    entered[kind] = module
    return
  end
  for name, value in next, module do entered[kind][name] = value end
end

---The parts of a kind that are loaded; nil where none is.
---@param kind string
---@return table?
function registry.loaded(kind) return entered[kind] end

---The parts of a kind, by name.
---@param kind string
---@return table
function registry.module(kind)
  if load and not entered[kind] then load(kind) end
  return entered[kind] or error("registry: nothing has entered a part of the kind " .. kind)
end

return registry
