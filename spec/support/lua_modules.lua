-- The library's Lua files as a graph: which module requires which, lazily and by computed names,
-- too.
local lua_modules = {}

-- Files that may name modules in tables and compute what they require: the registries of public
-- names.
local registries <const> = {ipulua = "ipulua.", ["ipulua.keras"] = "ipulua."}

---"lua/ipulua/data/init.lua" → "ipulua.data".
function lua_modules.name(path)
  local name = path:match("^lua/(.*)%.lua$"):gsub("/", ".")
  return (name:gsub("%.init$", ""))
end

-- A file without its comments, since some show how something is required.
local function code_of(path)
  local lines = {}
  for line in io.lines(path) do
    lines[#lines + 1] = line:match("^%s*%-%-") and "" or line:gsub("%s%-%- .*$", "")
  end
  return table.concat(lines, "\n")
end

---Module → {path =, code =} of all files of the library.
function lua_modules.all()
  local all = {}
  local files <close> = assert(io.popen("find lua/ipulua -name '*.lua' | LC_ALL=C sort"))
  for path in files:lines() do
    all[lua_modules.name(path)] = {path = path, code = code_of(path)}
  end
  return all
end

-- The argument of `require`: a literal, a literal with a name added, anything else.
local function argument(text)
  local quoted, behind = text:match('^%s*[%(,]?%s*"([^"]*)"%s*(%.?%.?)')
  if not quoted then return nil end
  return quoted, behind == ".."
end

-- The modules whose names begin with a prefix: "ipulua.keras.layers." of a computed require.
local function below(all, prefix, found)
  for name in pairs(all) do
    if name:sub(1, #prefix) == prefix then found[name] = true end
  end
end

---What a module requires: {name = true}, and what can't be told from the text.
---@return table<string, true> found
---@return string[] problems
function lua_modules.requires(all, module)
  local code, found, problems = all[module].code, {}, {}
  for word, at in code:gmatch("%f[%w_](require)%f[^%w_]()") do
    local quoted, computed = argument(code:sub(at, at + 120))
    if quoted and computed then
      if not registries[module] then below(all, quoted, found) end
    elseif quoted then found[quoted] = all[quoted] and true or nil
    elseif not registries[module] and code:find("^[%s%(,]%s*[^%s\\]", at) then
      problems[#problems + 1] = all[module].path .. ": " .. word .. code:sub(at, at + 40)
    end
  end
  for name in code:gmatch('package%.loaded%["([%w_.]+)"%]') do
    found[name] = all[name] and true or nil
  end
  found[module] = nil
  return found, problems
end

---The modules that a registry of public names leads to.
---@return table<string, true>
function lua_modules.named(all, module)
  local found = {}
  for name in (registries[module] and all[module].code or ""):gmatch('"([%w_.]+)"') do
    local full = registries[module] .. name
    if all[full] then found[full] = true end
  end
  return found
end

---The largest sets of modules each of which leads to all others (strongly connected components).
---@param edges table<string, table<string, true>>
---@return string[][]
function lua_modules.knots(edges)
  local index, low, stack, on_stack, count, knots = {}, {}, {}, {}, 0, {}
  local function visit(v)
    count = count + 1
    index[v], low[v], on_stack[v] = count, count, true
    stack[#stack + 1] = v
    for w in pairs(edges[v] or {}) do
      if not index[w] then
        visit(w)
        low[v] = math.min(low[v], low[w])
      elseif on_stack[w] then low[v] = math.min(low[v], index[w]) end
    end
    if low[v] ~= index[v] then return end
    local knot = {}
    repeat
      local w = table.remove(stack)
      on_stack[w] = false
      knot[#knot + 1] = w
    until w == v
    table.sort(knot)
    knots[#knots + 1] = #knot > 1 and knot or nil
  end
  for v in pairs(edges) do
    if not index[v] then visit(v) end
  end
  table.sort(knots, function(a, b) return #a > #b end)
  return knots
end

return lua_modules
