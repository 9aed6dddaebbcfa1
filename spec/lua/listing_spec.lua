-- ipu.graph: the traced ops and their devices.

local dot = require "spec.support.dot"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local function find(nodes, op)
  local found = {}
  for _, node in ipairs(nodes) do
    if node.op == op then found[#found + 1] = node end
  end
  return table.unpack(found)
end

describe("ipu.graph.nodes", function()
  it("tells op, name, type, place and line", function()
    local line = debug.getinfo(1, "l").currentline + 2
    local f = ipu.func(function(x)
      return ipu.name_scope("outer")(function() return x * 2 end)
    end)
    f(ipu.tensor{1, 2, 3})
    local mul = find(ipu.graph.nodes(f), "mul")
    assert.equal("outer/mul", mul.name)
    assert.same({3}, mul.shape)
    assert.equal("float32", mul.dtype)
    assert.equal("/device:IPU:0", mul.device)
    assert.is_false(mul.backward)
    assert.is_nil(mul.shard)
    assert.matches("listing_spec%.lua:" .. line .. "$", mul.line)
  end)

  it("rows 49, 50: shows the device of a session's ops", function()
    ipu.reset_default_graph()
    local a = ipu.placeholder("float32", {-1, 2}, {name = "a"})
    local on_ipu = ipu.ipu_scope("/device:IPU:0")(function() return a + 1 end)
    local on_host = ipu.device("cpu")(function() return on_ipu * 2 end)
    local nodes = ipu.graph.nodes{on_host}
    assert.equal("/device:IPU:0", find(nodes, "add").device)
    assert.equal("/device:CPU:0", find(nodes, "mul").device)
    assert.equal("a", find(nodes, "input").name)
  end)

  it("rows 51, 52: shows shards, the innermost scope wins", function()
    local f = ipu.func(function(x)
      local _ <close> = ipu.ipu_shard(1)
      local y = x + 1
      return ipu.ipu_shard(2)(function() return y * 2 end)
    end)
    f(ipu.tensor(1.0))
    local nodes = ipu.graph.nodes(f)
    assert.equal(1, find(nodes, "add").shard)
    assert.equal(2, find(nodes, "mul").shard)
  end)

  it(
    "row 53: puts gradients on the shard of their forward op, whatever scope they are asked for in",
    function()
    local f = ipu.func(function(x)
      local y = ipu.ipu_shard(1)(function() return ipu.sin(x) end)
      return ipu.ipu_shard(0)(function() return ipu.gradients(y, {x})[1] end)
    end)
    f(ipu.tensor(1.0))
    local backward = find(ipu.graph.nodes(f), "cos")
    assert.is_true(backward.backward)
    assert.equal(1, backward.shard)
  end)

  it("row 54: shows what runs on the host in the middle of a program", function()
    local f = ipu.func(function(x)
      return ipu.loops.repeat_n(3, function(s)
        local _ <close> = ipu.outside_compilation_scope()
        return s * 2
      end, {x})
    end)
    assert.equal(8, f(ipu.tensor(1.0)):item())
    local mul = find(ipu.graph.nodes(f), "mul")
    assert.equal("/device:CPU:0", mul.device)
    assert.equal(1, mul.depth) -- inside the loop
  end)

  it("carries frontend attributes, to gradients too", function()
    local f = ipu.func(function(x)
      local _ <close> = ipu.frontend_attribute("colour", "red")
      local y = ipu.frontend_attribute("size", "big")(function() return ipu.sin(x) end)
      return ipu.gradients(y, {x})[1] + 1, y
    end)
    f(ipu.tensor(1.0))
    local nodes = ipu.graph.nodes(f)
    assert.same({colour = "red", size = "big"}, find(nodes, "sin").attributes)
    assert.same({colour = "red", size = "big"}, find(nodes, "cos").attributes)
    assert.same({colour = "red"}, find(nodes, "add").attributes)
  end)

  it("refuses anything that wasn't traced", function()
    local function fails(pattern, ...)
      local ok, message = pcall(ipu.graph.nodes, ...)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    fails("not been traced", ipu.func(function(x) return x end))
    fails("is missing")
    fails("got integer", 3)
    fails("expected, got", {})
    fails("expected, got", ipu.tensor(1))
  end)
end)

describe("ipu.graph.print", function()
  local f = ipu.func(function(x) return ipu.reduce_sum(x) end)
  f(ipu.tensor{1, 2})

  it("gives a line a node", function()
    assert.matches("%%2 = reduce_sum%(%%1%) float32%[%]  %[/device:IPU:0%]  "
      .. ".*listing_spec%.lua:%d+\n", ipu.graph.print(f))
  end)

  it("draws for Graphviz", function()
    local text = ipu.graph.print(f, {format = "dot"})
    assert.matches("^digraph", text)
    assert.matches("n1 %-> n2", text)
    assert.is_false(pcall(ipu.graph.print, f, {format = "png"}))
  end)
end)

describe("ipu.graph.print of a program", function()
  local w = ipu.Variable(ipu.ones{3, 3}, {name = "w"})
  local f = ipu.func(function(x)
    local y = ipu.loops.repeat_n(3, function(c)
      local z = ipu.nn.relu(ipu.matmul(c, w) + 1)
      w:assign_sub(ipu.gradients(ipu.reduce_sum(z), {w})[1] * 0.1)
      return ipu.nn.softmax(z)
    end, {x})
    local z = ipu.cond(ipu.greater(ipu.reduce_sum(y), 0), function() return y + 1 end, function()
      return -y
    end)
    return z
  end, {name = 'named "so"'})
  f(ipu.ones{4, 3})

  local _ <close> = pipelines.device(2)
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(ipu.ones{8, 3}):batch(2,
    {drop_remainder = true}):repeat_n())
  local pipelined = ipu.func(function()
    return ipu.pipeline{
      computational_stages = {function(x) return ipu.matmul(x, w) end, function(x)
        return ipu.nn.relu(x)
      end},
      gradient_accumulation_count = 4, infeed_queue = infeed, outfeed_queue = ipu.IPUOutfeedQueue(),
    }
  end)
  pipelined()

  it("gives a line a step, each with the script's", function()
    for _, program in ipairs{f, pipelined} do
      local text = ipu.graph.print(program, {program = true})
      assert.matches("^program ", text)
      local steps = 0
      for line in text:gmatch("[^\n]+") do
        if line:find("^ +%d+ ") then
          assert.matches("listing_spec%.lua:%d+", line)
          steps = steps + 1
          assert.equal(steps, tonumber(line:match("%d+")))
        end
      end
      assert.is_true(steps >= 5, text)
      assert.equal(steps, tonumber(text:match(": (%d+) steps, ")))
    end
  end)

  it("counts one step as one", function()
    local single = ipu.func(function(x) return ipu.exp(x) end)
    single(ipu.ones{2})
    local text = ipu.graph.print(single, {program = true})
    assert.matches(": 1 step, 0%.0 KiB of working memory, 0 variables, 1 replica of 1 IPU\n", text)
    assert.matches(" 1 step over 2  exp ", text)
  end)

  it("draws boxes, frames and arrows that run forwards", function()
    local text = ipu.graph.print(f, {program = true, format = "DOT"})
    local boxes = {}
    for id, label in text:gmatch('\n%s*s(%d+) (%b[])') do
      assert.matches("listing_spec%.lua:%d+", label)
      assert.is_nil(boxes[id])
      boxes[id] = true
    end
    local arrows = 0
    for from, to in text:gmatch("s(%d+) %-> s(%d+)") do
      assert.is_true(boxes[from] and boxes[to] and tonumber(from) < tonumber(to))
      arrows = arrows + 1
    end
    assert.is_true(arrows >= 5)
    for _, frame in ipairs{"repeat", "cond: yes", "cond: no"} do
      assert.matches('label = "' .. frame .. '"', text)
    end
    assert.matches('label = "named \\"so\\""', text, 1, true)
    assert.matches("forward of position 1, lane 1",
      ipu.graph.print(pipelined, {program = true, format = "dot"}))
  end)

  it("is a graph of Graphviz's language, its names as they were given", function()
    for _, program in ipairs{f, pipelined} do
      for _, whole in ipairs{true, false} do
        local graph = dot.read(ipu.graph.print(program, {program = whole, format = "dot"}))
        assert.equal(whole and "program" or nil, whole and graph.name or nil)
        assert.is_truthy(next(graph.nodes))
        for _, each in pairs(graph.nodes) do
          assert.matches("listing_spec%.lua:%d+$", each.label)
        end
      end
    end
    local graph = dot.read(ipu.graph.print(f, {program = true, format = "dot"}))
    assert.equal('named \\"so\\"', graph.label)
    local frames = {}
    for i, frame in ipairs(graph.frames) do frames[i] = frame.label end
    table.sort(frames)
    assert.same({"cond: no", "cond: yes", "repeat"}, frames)
    assert.error_matches(function() dot.read 'digraph { a [label = "x"y"] }' end, "line 1: ")
    assert.error_matches(function() dot.read 'digraph { a -> b }' end, "isn't declared")
  end)
end)

describe("the tensor map", function()
  it("row 253: holds every variable's type and where its elements are", function()
    local v = ipu.Variable(ipu.zeros{3000}, {name = "wide"})
    local f = ipu.func(function() return ipu.reduce_sum(v) end, {name = "summing"})
    ipu.ipu_event_trace()
    f()
    local map
    for _, event in ipairs(ipu.ipu_event_trace()) do map = map or event.tensor_map end
    local row = ipu.json.decode(map).mappings.summing[1]
    assert.same({"wide", 0, {3000}, "float32", false, false, 3000}, {table.unpack(row, 1, 7)})
    local sum = 0
    for _, place in ipairs(row[8]) do sum = sum + place[2] end
    assert.equal(3000, sum)
  end)
end)
