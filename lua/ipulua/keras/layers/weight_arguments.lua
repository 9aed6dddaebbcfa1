-- Weights as a layer's arguments describe them: kernel_initializer, kernel_regularizer and
-- kernel_constraint are for the weights of kind "kernel".

local weight_arguments = {}

local kernel_rows <const> = {
  {"use_bias", "boolean", true}, {"kernel_initializer", "initializer", "glorot_uniform"},
  {"bias_initializer", "initializer", "zeros"}, {"kernel_regularizer", "regularizer"},
  {"bias_regularizer", "regularizer"},
  {"kernel_constraint", "constraint"}, {"bias_constraint", "constraint"},
}

---Rows of arguments, and after them the rows of a kernel and a bias.
---@param ... any[]
---@return any[][]
function weight_arguments.with_kernel(...)
  local rows = {...}
  return table.move(kernel_rows, 1, #kernel_rows, #rows + 1, rows)
end

---A new weight of a kind. Its name is the kind's, and the kind's argument initializes it, unless
---they are given.
---@param layer Layer
---@param kind string
---@param shape integer[]
---@param name string?
---@param initializer any
---@return userdata
function weight_arguments.add(layer, kind, shape, name, initializer)
  return layer:add_weight{name = name or kind, shape = shape,
    initializer = initializer or layer[kind .. "_initializer"],
    regularizer = layer[kind .. "_regularizer"], constraint = layer[kind .. "_constraint"]}
end

return weight_arguments
