-- Random graphs, run by two sessions in random parts. Fetches have any structure. Feeds have any
-- batch, also of values in the middle of the graph. Some runs fail, and nodes are added between
-- runs. Each result has the bits of the same ops computed at once. problems(seed) gives what is
-- wrong.

local core = require "ipulua.core"
local ipu = require "ipulua"

local random <const> = math.random
local function pick(list) return list[random(#list)] end

local ops <const> = {
  {1, ipu.tanh}, {1, function(x) return x * 2 - 1 end}, {1, ipu.square}, {1, ipu.neg},
  {1, function(x) return ipu.reduce_sum(x, {axis = 0, keepdims = true}) end},
  {1, function(x) return ipu.reduce_max(x, {axis = -1, keepdims = true}) end},
  {2, function(x, y) return x + y end}, {2, function(x, y) return x * y end}, {2, ipu.maximum},
  {2, function(x, y) return ipu.where(ipu.less(x, y), x, y - x) end},
}

local function values(batch, seed)
  return ipu.random.normal({batch, 3}, {seed = seed})
end

local function bits(t) return t.dtype .. table.concat(t.shape, ",") .. core.to_bytes(t) end

-- A node's value for these feeds: fed, or computed from others at once.
local function value_of(node, feeds, known)
  if known[node] == nil then known[node] = feeds[node] or node.now end
  if known[node] == nil then
    local given = {}
    for i, each in ipairs(node.inputs or {}) do given[i] = value_of(each, feeds, known) end
    known[node] = node.f(table.unpack(given))
  end
  return known[node]
end

-- The placeholders that must be fed, since no value after them is fed.
local function missing(node, feeds, found)
  if feeds[node] then return found end
  if node.is_placeholder then found[node] = true end
  for _, each in ipairs(node.inputs or {}) do missing(each, feeds, found) end
  return found
end

local function add_node(nodes)
  local op = pick(ops)
  local inputs, given = {}, {}
  for i = 1, op[1] do
    inputs[i] = pick(nodes)
    given[i] = inputs[i].t
  end
  nodes[#nodes + 1] = {inputs = inputs, f = op[2], t = op[2](table.unpack(given))}
end

-- A structure of fetches, and what it should give.
local function structure(nodes, depth, wanted)
  if depth == 0 or random(3) == 1 then
    local node = pick(nodes)
    wanted[#wanted + 1] = node
    return node.t, {node = node}
  end
  local fetches, shape = {}, {}
  local keys = random(2) == 1 and {1, 2, 3} or {"x", "y", 7}
  for i = 1, random(3) do fetches[keys[i]], shape[keys[i]] = structure(nodes, depth - 1, wanted) end
  return fetches, shape
end

local function differs(got, shape, feeds, known)
  if not shape.node then
    for key, inner in pairs(shape) do
      if type(got) ~= "table" then return "a table is missing" end
      local problem = differs(got[key], inner, feeds, known)
      if problem then return problem end
    end
    return
  end
  if not core.is_tensor(got) then return "no tensor came" end
  local want = value_of(shape.node, feeds, known)
  if bits(got) ~= bits(want) then
    return ("%s instead of %s"):format(tostring(got), tostring(want))
  end
end

-- The feeds: all that the fetches need, perhaps a node in the middle, perhaps one too few.
local function feeds_for(wanted, nodes, batch, seed)
  local feeds = {}
  if random(4) == 1 then
    local node = pick(nodes)
    local rows, columns = node.t.shape[1], node.t.shape[2]
    if node.f then
      feeds[node] = values(rows == 1 and 1 or batch, seed):slice({0, 0}, {-1, columns})
    end
  end
  local needed, list = {}, {}
  for _, node in ipairs(wanted) do missing(node, feeds, needed) end
  for node in pairs(needed) do list[#list + 1] = node end
  table.sort(list, function(a, b) return a.number < b.number end)
  local left_out = random(6) == 1 and #list > 0 and random(#list)
  for i, node in ipairs(list) do
    if i ~= left_out then feeds[node] = values(batch, seed + i) end
  end
  return feeds, left_out and true or false
end

local function problems(seed)
  math.randomseed(seed)
  ipu.reset_default_graph()
  local nodes, found = {}, {}
  for i = 1, 2 do
    nodes[i] = {is_placeholder = true, number = i, t = ipu.placeholder("float32", {-1, 3})}
  end
  local start = values(1, seed)
  local v = ipu.get_variable("v" .. seed, {shape = {1, 3},
    initializer = function() return start end})
  nodes[3] = {now = start, t = v}
  for _ = 1, random(3, 8) do add_node(nodes) end
  local sessions = {ipu.Session(), ipu.Session()}
  sessions[1]:run(ipu.global_variables_initializer())
  for turn = 1, 12 do
    if random(4) == 1 then add_node(nodes) end
    local wanted = {}
    local fetches, shape = structure(nodes, 2, wanted)
    local batch = pick{1, 2, 5}
    local feeds, incomplete = feeds_for(wanted, nodes, batch, seed * 100 + turn)
    local feed_dict = {}
    for node, t in pairs(feeds) do feed_dict[node.t] = random(2) == 1 and t or t:totable() end
    local ok, got = pcall(function()
      return pick(sessions):run(fetches, {feed_dict = feed_dict})
    end)
    local problem
    if incomplete then problem = ok and "a placeholder that nobody fed has a value"
    elseif not ok then
      local fits = pcall(function()
        local known = {}
        for _, node in ipairs(wanted) do value_of(node, feeds, known) end
      end)
      problem = fits and got
    else problem = differs(got, shape, feeds, {}) end
    if problem then found[#found + 1] = ("seed %d, run %d: %s"):format(seed, turn, problem) end
    if random(3) == 1 then
      local x = values(1, seed * 50 + turn)
      pick(sessions):run(v:assign(x))
      nodes[3].now = x
    end
  end
  return found
end

return {problems = problems}
