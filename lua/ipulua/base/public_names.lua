-- The names by which scripts reach the library's functions.

local class = require "ipulua.base.class"
local core = require "ipulua.core"
local modules = require "ipulua.base.modules"

local public_names = {}

-- Name → function, of tensors and of variables: each have their own.
local methods_of <const> = {getmetatable(core.tensor(0)).methods,
  getmetatable(core.new_variable("", "float32", {}, false)).methods}
public_names.methods_of = methods_of

local op_names -- function → the op that it calls

local function add_functions()
  local ipu <const> = modules.public()
  for name, f in pairs(core.ops) do
    op_names[f] = name
    local module, leaf = name:match("^(.-)%.?([^.]+)$")
    local place = module == "" and ipu or rawget(ipu, module)
    local public = place and rawget(place, leaf) -- of some, a Lua function around the row
    if public and not core.is_internal(name) then op_names[public] = name end
  end
end

local function add_methods()
  for _, methods in ipairs(methods_of) do
    for name in pairs(core.ops) do
      for _, called in ipairs{name:match("[^.]+$"), core.describe_op(name).method} do
        local method = methods[called]
        if type(method) == "function" and not op_names[method] then op_names[method] = name end
      end
    end
  end
end

---Function → name of the op that it calls, of functions and methods: "nn.relu".
---@return table<function, string>
function public_names.ops()
  if op_names then return op_names end
  op_names = {}
  add_functions()
  add_methods()
  return op_names
end

-- Public names, the longest first: "mean_squared_error" says more than "mse".
local function names_in(module)
  local names = {}
  local function add(name)
    if type(name) == "string" and name:find("^%a") then names[#names + 1] = name end
  end
  for name in next, module do add(name) end
  -- names of ipu that were used are loaded
  local listed = module ~= modules.public() and rawget(module, "__names")
  for _, name in ipairs(listed and listed() or {}) do add(name) end
  table.sort(names, function(a, b)
    if #a == #b then return a < b end
    return #a > #b
  end)
  return names
end

local function method_in(prefix, c, f)
  for name, value in next, c do
    if value == f and type(name) == "string" then return prefix .. "." .. name end
  end
end

-- Functions of modules come before methods of classes in them.
local function found_name(f)
  local function search(prefix, module, depth, methods)
    local inner = {}
    for _, name in ipairs(names_in(module)) do
      local value = module[name]
      local found = value == f and prefix .. name or methods and class.is_class(value)
        and method_in(prefix .. name, value, f)
      if found then return found end
      if depth > 0 and type(value) == "table" and not class.is_class(value) then
        inner[#inner + 1] = name
      end
    end
    table.sort(inner)
    for _, name in ipairs(inner) do
      local found = search(prefix .. name .. ".", module[name], depth - 1, methods)
      if found then return found end
    end
  end
  local ipu, keras = modules.public(), rawget(modules.public(), "keras")
  for _, methods in ipairs{false, true} do
    local name = search("ipu.", ipu, 0, methods) or keras and search("keras.", keras, 2, methods)
      or search("ipu.", ipu, 2, methods)
    if name then return name end
  end
end

---The name by which a script reaches a function of the library: "ipu.func".
---@param f function
---@return string?
function public_names.of(f)
  local op <const> = public_names.ops()[f]
  return op and "ipu." .. op or found_name(f)
end

return public_names
