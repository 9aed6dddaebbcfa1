-- Helpers and data sets.

local command = require "spec.support.command"
local dot = require "spec.support.dot"
local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("keras.utils", function()
  it("to_categorical", function()
    assert.are.same({{1, 0, 0}, {0, 0, 1}}, keras.utils.to_categorical{{0, 2}}:totable())
    assert.are.same({{0, 1, 0, 0}}, keras.utils.to_categorical({1}, 4):totable())
  end)

  it("set_random_seed repeats weights", function()
    local function weights()
      keras.utils.set_random_seed(7)
      return keras.initializers.GlorotUniform(){3, 2}:totable()
    end
    assert.are.same(weights(), weights())
  end)

  it("plot_model draws with graphviz's dot, or leaves the graph where there is none", function()
    local folder = command.folder()
    local function plotted(path)
      local code = [[local keras = require "ipulua".keras
        local model = keras.Sequential{keras.layers.Dense{2, input_shape = {3}}}
        keras.utils.plot_model(model, {to_file = "it's.png"})]]
      return command.run{"/usr/bin/env", "PATH=" .. path, command.ipulua, "-e", code, dir = folder}
    end
    local r = plotted "/nowhere"
    assert.matches("graphviz's 'dot' is needed for 'it's.png' (.svg needs nothing); 'it's.dot' was "
      .. "written instead",
      r.err, 1, true)
    assert.equal("dense: Dense", dot.read(command.read(folder .. "/it's.dot")).nodes.l1.label)
    command.write(folder .. "/dot", '#!/bin/sh\n{ echo "$1 $2 $3 $4"; /bin/cat "$4"; } >"$3"\n')
    assert(os.execute("chmod +x " .. command.quote(folder .. "/dot")))
    r = plotted(folder)
    assert.equal(0, r.status, r.err)
    local asked, text = command.read(folder .. "/it's.png"):match("^([^\n]*)\n(.*)")
    assert.equal("-Tpng -o it's.png.tmp.png it's.png.tmp.dot", asked)
    assert.equal("dense: Dense", dot.read(text).nodes.l1.label)
    -- the former graph is a file of the user's
    assert.equal("dense: Dense", dot.read(command.read(folder .. "/it's.dot")).nodes.l1.label)
    assert.is_nil(io.open(folder .. "/it's.png.tmp.dot"))
    command.write(folder .. "/dot", '#!/bin/sh\necho half >"$3"\nexit 1\n')
    assert.equal(1, plotted(folder).status)
    assert.equal(asked .. "\n" .. text, command.read(folder .. "/it's.png"))
    assert.is_nil(io.open(folder .. "/it's.png.tmp.png"))
    command.remove(folder)
    local model = keras.Sequential{keras.layers.Dense{2, input_shape = {3}}}
    assert.matches("'model' must be", message_of(keras.utils.plot_model, 3))
    assert.matches("must end in .dot, .png",
      message_of(keras.utils.plot_model, model, {to_file = "model.txt"}))
    assert.is_nil(io.open("model.dot"))
  end)

  it("plot_model writes the graph of layers", function()
    local x = keras.Input{shape = {2}, name = "in"}
    local y = layers.Dense{3, name = "left"}(x)
    local model = keras.Model{inputs = x, outputs = layers.Add{name = "sum"}{y, y}, name = "m"}
    local path = command.scratch ".dot"
    local text = keras.utils.plot_model(model, {to_file = path, show_shapes = true})
    os.remove(path)
    local graph = dot.read(text)
    assert.equal("m", graph.name)
    assert.same({l1 = "in: InputLayer\\n(None, 2)", l2 = "left: Dense\\n(None, 3)",
      l3 = "sum: Add\\n(None, 3)"},
      {l1 = graph.nodes.l1.label, l2 = graph.nodes.l2.label, l3 = graph.nodes.l3.label})
    assert.same({{"l1", "l2"}, {"l2", "l3"}}, graph.edges)
  end)

  it("plot_model draws SVG by itself: boxes apart, each after its inputs", function()
    local a, b = keras.Input{shape = {8}, name = "left"}, keras.Input{shape = {4}, name = "right"}
    local x, y = layers.Dense{16, name = "x"}(a), layers.Dense{16, name = "a<b"}(b)
    local sum = layers.Add{name = "sum"}{x, y}
    local last = layers.Concatenate{name = "last"}{layers.Multiply{name = "product"}{x, y}, sum}
    local model = keras.Model{inputs = {a, b}, outputs = last}
    for rankdir, axis in pairs{TB = 2, LR = 1} do
      local path = command.scratch ".svg"
      local graph = dot.read(keras.utils.plot_model(model, {to_file = path, rankdir = rankdir}))
      local svg = command.read(path)
      os.remove(path)
      local boxes = {}
      local box <const> = '<rect x="([%d.]+)" y="([%d.]+)" width="(%d+)" height="(%d+)" rx="4"/>\n'
        .. '<text[^>]*>([^<]+)</text>'
      for left, top, width, height, label in svg:gmatch(box) do
        boxes[#boxes + 1] = {tonumber(left), tonumber(top), left + width, top + height,
          label = label}
      end
      assert.equal(7, #boxes)
      assert.equal("a&lt;b: Dense", boxes[4].label)
      for i, p in ipairs(boxes) do
        for k = 1, i - 1 do
          local q = boxes[k]
          assert(p[1] >= q[3] or q[1] >= p[3] or p[2] >= q[4] or q[2] >= p[4],
            p.label .. " covers " .. q.label)
        end
      end
      local _, arrows = svg:gsub("<path ", "")
      assert.equal(#graph.edges, arrows)
      for _, edge in ipairs(graph.edges) do
        local from, to = boxes[tonumber(edge[1]:sub(2))], boxes[tonumber(edge[2]:sub(2))]
        assert.is_true(to[axis] > from[axis + 2], from.label .. " and " .. to.label)
      end
    end
  end)

  it("vocabulary numbers characters, generate_text writes", function()
    local v = keras.utils.vocabulary("hello wörld")
    assert.equal("?d", v:decode{v.size, v:encode("d"):item()})
    assert.error_matches(function() v:decode(3) end,
      "list of integers, got integer %(3%)")
    assert.error_matches(function() v:decode{0.5} end, "expected integers, got number %(0.5%)")
    assert.error_matches(function() v:encode(3) end, "expected a string, got integer")
    assert.are.equal(" ", v.characters[1])
    assert.are.equal("hell", v:decode(v:encode("hell")))
    assert.matches("the character 'x' is unknown", message_of(v.encode, v, "x"))
    -- a model that says that the next character is the one after in the vocabulary
    local Next = keras.Model:extend("Next")
    function Next:call(x) -- luacheck: ignore 212
      return ipu.one_hot(ipu.mod(x + 1, v.size), v.size) * 100
    end
    assert.are.equal("dehl", keras.utils.generate_text(Next(), v, "d", {length = 3}))
  end)
end)
