-- Random graphs with updates of variables, run by two sessions in random parts: assignments,
-- functions that assign, and compiled functions. Nodes are added between runs. A model in plain Lua
-- computes what the fetches need, in the order in which it was written. Compared: each fetched
-- value, and all variables after each run. problems(seed) gives what is wrong.

local ipu = require "ipulua"

local random <const> = math.random
local function pick(list) return list[random(#list)] end

-- ------------------------------------------------ kinds of nodes

-- By name: operands, the number of nodes that it reads. make(v, a, b) gives a value, or an
-- operation and true. model(state, a, b) gives the value and the variable's new value. v is the
-- variable, a and b are values of nodes.
local kinds <const> = {
  read = {operands = 0, make = function(v) return v:read_value() end,
    model = function(state) return state end},
  use = {operands = 0, make = function(v) return v * 2 end,
    model = function(state) return state * 2 end},
  sum = {operands = 2, make = function(_, a, b) return ipu.minimum(a + b * 0.5, 500) end,
    model = function(_, a, b) return math.min(a + b * 0.5, 500) end},
  assign = {operands = 1, make = function(v, a) return v:assign(a), true end,
    model = function(_, a) return nil, a end},
  assign_add = {operands = 1, make = function(v, a) return v:assign_add(a * 0.5), true end,
    model = function(state, a) return nil, state + a * 0.5 end},
  assign_sub = {operands = 1, make = function(v, a) return v:assign_sub(a), true end,
    model = function(state, a) return nil, state - a end},
  call = {
    operands = 1,
    make = function(v, a)
      return ipu.func(function(x)
        v:assign(v * 0.5 + x)
        return x + v
      end)(a)
    end,
    model = function(state, a) return a + state * 0.5 + a, state * 0.5 + a end,
  },
  compile = {
    operands = 1,
    make = function(v, a)
      return ipu.ipu_compiler.compile(function(x)
        v:assign(x * 0.5 + v * 0.25)
        return x - v
      end, {a})[1]
    end,
    model = function(state, a)
      local new <const> = a * 0.5 + state * 0.25
      return a - new, new
    end,
  },
}
local names <const> = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)

local function add_node(nodes, variables)
  local values = {}
  for _, node in ipairs(nodes) do values[#values + 1] = node.t and node or nil end
  local kind, v = kinds[pick(names)], random(#variables)
  local node = {kind = kind, v = v}
  node.a = kind.operands > 0 and pick(values) or nil
  node.b = kind.operands > 1 and pick(values) or nil
  local made, is_operation = kind.make(variables[v], node.a and node.a.t, node.b and node.b.t)
  node.fetch, node.t = made, not is_operation and made or nil
  nodes[#nodes + 1] = node
end

-- ------------------------------------------------ runs

local function mark(node, needed)
  if not node or needed[node] then return end
  needed[node] = true
  mark(node.a, needed)
  mark(node.b, needed)
end

-- The nodes' values; state becomes what the variables hold afterwards.
local function modelled(nodes, wanted, state, fed)
  local needed, values = {}, {}
  for _, node in ipairs(wanted) do mark(node, needed) end
  for _, node in ipairs(nodes) do
    if needed[node] and not node.kind then values[node] = fed
    elseif needed[node] then
      local new
      values[node], new = node.kind.model(state[node.v], values[node.a], values[node.b])
      state[node.v] = new or state[node.v]
    end
  end
  return values
end

local function near(got, want) return math.abs(got - want) <= 1e-3 * math.max(1, math.abs(want)) end

local function run(session, fetches, feeds)
  if random(4) > 1 then return session:run(fetches, feeds) end
  return session:run_async(fetches, feeds):wait()
end

local function problem_of(session, nodes, variables, state, fed)
  local wanted, fetches = {}, {}
  for i = 1, random(4) do
    wanted[i] = pick(nodes)
    fetches[i] = wanted[i].fetch
  end
  for i, v in ipairs(variables) do fetches["v" .. i] = v end
  local values = modelled(nodes, wanted, state, fed)
  local ok, got = pcall(run, session, fetches, {feed_dict = {[nodes[1].t] = fed}})
  if not ok then return got end
  for i, node in ipairs(wanted) do
    if node.t and not near(got[i]:item(), values[node]) then
      return string.format("fetch %d is %s, not %s", i, got[i]:item(), values[node])
    end
  end
  for i, want in ipairs(state) do
    for _, have in ipairs{got["v" .. i], session:run(variables[i])} do
      if not near(have:item(), want) then
        return string.format("variable %d is %s, not %s", i, have:item(), want)
      end
    end
  end
end

local function problems(seed)
  math.randomseed(seed)
  ipu.reset_default_graph()
  local variables, state, found = {}, {}, {}
  for i = 1, 3 do
    variables[i], state[i] = ipu.get_variable("v" .. i, {shape = {}, initializer = i}), i
  end
  local fed = ipu.placeholder("float32", {})
  local nodes = {{t = fed, fetch = fed}}
  for _ = 1, random(3, 12) do add_node(nodes, variables) end
  local sessions = {ipu.Session(), ipu.Session()}
  sessions[1]:run(ipu.global_variables_initializer())
  for turn = 1, 8 do
    if random(3) == 1 then add_node(nodes, variables) end
    local problem = problem_of(pick(sessions), nodes, variables, state, random(9))
    if problem then
      found[1] = string.format("seed %d, run %d: %s", seed, turn, problem)
      return found
    end
  end
  return found
end

return {problems = problems}
