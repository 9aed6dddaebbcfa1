-- Inputs, outputs and shapes of a layer's calls in functional models.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local counted = require "ipulua.base.counted"
local nest = require "ipulua.base.nest"
local shapes = require "ipulua.keras.base.shapes"

local kept <const> = require "ipulua.keras.base.layer_fields".get

---@class Layer
local Layer = {} -- methods that this file adds to the class
local properties = {}

local function nodes_of(self, what)
  local nodes = kept(self, "nodes")
  if #nodes == 0 then
    blame.error(string.format("layer '%s' has no %s: it was not called with the tensors of a "
      .. "functional model", self.name, what),
      "value")
  end
  return nodes
end

local function shapes_of(tensors) return nest.map(function(t) return t.shape end, tensors) end

local function same_shapes(a, b)
  local p, q = nest.flatten(shapes_of(a)), nest.flatten(shapes_of(b))
  return shapes.equal(p, q)
end

-- The field of a layer's only call. Several calls have only shapes in common, or nothing.
local function of_all_nodes(self, what, field, only_shapes)
  local nodes = nodes_of(self, what)
  local first = nodes[1][field]
  for i = 2, #nodes do
    if not only_shapes or not same_shapes(first, nodes[i][field]) then
      blame.error(string.format("layer '%s' was called %d times with the tensors of functional "
        .. "models, so it has no one %s; layer:get_%s_at(i) gives call i's, from 0",
        self.name, #nodes, what, what:gsub(" ", "_")), "value")
    end
  end
  return first
end

function properties.input(self) return of_all_nodes(self, "input", "inputs") end
function properties.output(self) return of_all_nodes(self, "output", "outputs") end
function properties.output_shape(self)
  return shapes_of(of_all_nodes(self, "output shape", "outputs", true))
end
function properties.input_shape(self)
  return shapes_of(of_all_nodes(self, "input shape", "inputs", true))
end

local at_rows <const> = {{"node_index", "integer", 0, range = "[0, inf)"}}

local function at(self, what, field, ...)
  local who = "get_" .. what:gsub(" ", "_") .. "_at"
  local index = args.check(who, at_rows, ...).node_index
  local nodes = nodes_of(self, what)
  if index < #nodes then return nodes[index + 1][field] end
  blame.error(string.format("%s: layer '%s' was called %s, counted from 0; there is no call %d",
    who, self.name, counted(#nodes, "time"), index), "out_of_range")
end

---The inputs of one of the layer's calls in functional models; node_index counts calls from 0.
---Errors: a layer that was not called with such tensors, a call that is not there:
---`keras.layers.Dense{1, name = "d"}:get_input_at(0)`
---@param ... any node_index
---@return any
function Layer:get_input_at(...) return at(self, "input", "inputs", ...) end

---The results of one of the layer's calls in functional models; node_index counts calls from 0.
---Errors: as get_input_at: `keras.layers.Dense{1, name = "d"}:get_output_at(0)`
---@param ... any node_index
---@return any
function Layer:get_output_at(...) return at(self, "output", "outputs", ...) end

---The shapes of get_input_at.
---Errors: as get_input_at: `keras.layers.Dense{1, name = "d"}:get_input_shape_at(0)`
---@param ... any node_index
---@return any
function Layer:get_input_shape_at(...) return shapes_of(at(self, "input shape", "inputs", ...)) end

---The shapes of get_output_at.
---Errors: as get_input_at: `keras.layers.Dense{1, name = "d"}:get_output_shape_at(0)`
---@param ... any node_index
---@return any
function Layer:get_output_shape_at(...)
  return shapes_of(at(self, "output shape", "outputs", ...))
end

return {methods = Layer, properties = properties}
