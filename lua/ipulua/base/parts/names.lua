-- Names of layers: the class' name in snake_case, numbered from the second one on, as Keras does.

local names = {}

local counts = {} -- base name → how many were given

---"MaxPooling2D" → "max_pooling2d".
---@param class_name string
---@return string
function names.snake(class_name)
  local s = class_name:gsub("(.)(%u[%l%d]+)", "%1_%2"):gsub("(%l)(%u)", "%1_%2")
  return s:lower()
end

---base, base_1, base_2 …
---@param base string
---@return string
function names.unique(base)
  local count = counts[base] or 0
  counts[base] = count + 1
  return count == 0 and base or base .. "_" .. count
end

---base_1, base_2 …: the names that Keras gives to inputs.
---@param base string
---@return string
function names.numbered(base)
  counts[base] = (counts[base] or 0) + 1
  return base .. "_" .. counts[base]
end

---Begins to count anew.
function names.reset()
  counts = {}
end

---A name without case and underscores, by which names of classes are compared.
---@param name string
---@return string
function names.plain(name)
  return (name:gsub("_", ""):lower())
end

return names
