-- Reads a graph in the DOT language as Graphviz's grammar has it. dot.read(text) → {name, nodes =
-- {[id] = attributes}, edges = {{from, to}, …}, frames = {label, …}}. Text that the grammar hasn't
-- is an error with its line.
local dot = {}

local word <const> = "^([%a_\128-\255][%w_\128-\255]*)()"

local function next_token(text, at)
  at = text:match("^%s*()", at)
  if at > #text then return nil, at end
  local quoted = text:match('^"()', at)
  while quoted do -- an escaped character is two bytes
    local stop = text:match('^[^"\\]*()', quoted)
    local mark = text:sub(stop, stop)
    if mark == '"' then return "id", stop + 1, text:sub(at + 1, stop - 1) end
    if mark ~= "\\" then error "a string without an end" end
    quoted = stop + 2
  end
  local id, behind = text:match(word, at)
  if not id then id, behind = text:match("^(%-?%.?%d[%d.]*)()", at) end
  if id then return id:find("^[%d.-]") and "id" or "word", behind, id end
  if text:sub(at, at + 1) == "->" then return "->", at + 2 end
  local mark = text:sub(at, at)
  if not mark:find("[%[%]{}=,;]") then error(("%q stands where nothing may"):format(mark)) end
  return mark, at + 1
end

local function reader(text)
  local kind, at, value = next_token(text, 1)
  local self = {}
  function self.is(wanted) return kind == wanted or kind == "word" and value:lower() == wanted end
  function self.take(wanted)
    if wanted and not self.is(wanted) then
      error(("%s where %s belongs"):format(value or kind or "the end", wanted))
    end
    local taken = value or kind
    kind, at, value = next_token(text, at)
    return taken
  end
  function self.id()
    if kind ~= "id" and kind ~= "word" then
      error(("%s where a name belongs"):format(kind or "the end"))
    end
    return self.take()
  end
  function self.line() return select(2, text:sub(1, at):gsub("\n", "")) + 1 end
  return self
end

local function attributes(r)
  local list = {}
  while r.is "[" do
    r.take()
    while not r.is "]" do
      local name = r.id()
      r.take "="
      list[name] = r.id()
      if r.is "," or r.is ";" then r.take() end
    end
    r.take()
  end
  return list
end

local statements

local function statement(r, graph, frame)
  if r.is "subgraph" then
    r.take()
    local inner = {}
    if not r.is "{" then inner.name = r.id() end
    graph.frames[#graph.frames + 1] = inner
    return statements(r, graph, inner)
  elseif r.is "graph" or r.is "node" or r.is "edge" then
    r.take()
    attributes(r)
    return
  end
  local from = r.id()
  if r.is "=" then
    r.take()
    frame[from] = r.id()
  elseif r.is "->" then
    while r.is "->" do
      r.take()
      local to = r.id()
      graph.edges[#graph.edges + 1], from = {from, to}, to
    end
    attributes(r)
  else
    assert(not graph.nodes[from], from .. " is declared twice")
    graph.nodes[from] = attributes(r)
  end
end

function statements(r, graph, frame)
  r.take "{"
  while not r.is "}" do
    statement(r, graph, frame)
    if r.is ";" then r.take() end
  end
  r.take()
end

function dot.read(text)
  local r
  local graph = {nodes = {}, edges = {}, frames = {}}
  local ok, why = pcall(function()
    r = reader(text)
    r.take "digraph"
    if not r.is "{" then graph.name = r.id() end
    statements(r, graph, graph)
    assert(r.is(nil), "something follows the graph")
  end)
  if not ok then error(("line %d: %s"):format(r and r.line() or 1, why), 2) end
  for _, edge in ipairs(graph.edges) do
    for i = 1, 2 do
      assert(graph.nodes[edge[i]], "an arrow of " .. edge[i] .. ", which isn't declared")
    end
  end
  return graph
end

return dot
