-- A layer holds all layers and variables of its fields, under any name, in any table, whatever the
-- fields held first.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local x = ipu.random.normal({4, 3}, {seed = 1})

-- A model whose init and call are given; called once.
local function made(init, call, model)
  local Net = (model or keras.Model):extend("Net")
  function Net:init(...)
    keras.Model.init(self, {...})
    init(self)
  end
  Net.call = call or function(self, inputs) return self.head(inputs) end
  local net = Net()
  net.head = net.head or L.Dense(2)
  net(x)
  return net
end

-- The model learns all its weights: the expected number of its variables changes.
local function check_trained(net, count)
  assert.equal(count, #net.trainable_variables)
  local before = {}
  for i, v in ipairs(net.trainable_variables) do before[i] = v:read_value() end
  net:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.5)}
  net:fit(x, ipu.ones{4, 2}, {verbose = 0, batch_size = 4})
  for i, v in ipairs(net.trainable_variables) do
    assert.is_true(ipu.reduce_max(ipu.abs(v:read_value() - before[i])):item() > 0, v.name)
  end
end

describe("fields of layers", function()
  it("hold layers that came after another value, whatever that was", function()
    for _, first in ipairs{false, 7, "none", true, {}, function() end} do
      check_trained(made(function(self)
        self.body = first
        self.body = L.Dense(3)
      end, function(self, t) return self.head(self.body(t)) end), 4)
    end
    check_trained(made(function(self)
      self.body = L.Dense(7)
      self.body = L.Dense(3)
    end, function(self, t) return self.head(self.body(t)) end), 4)
    local net = made(function(self) self.body = L.Dense(3) end, function(self,
      t) return self.head(self.body(t)) end)
    net.body = nil
    assert.equal(2, #net.weights)
    net.body = false
    assert.equal(2, #net.weights)
  end)

  it("hold them under private names, numbers, and names that the library uses for itself",
    function()
    for _, name in ipairs{"_body", "__body", 1, 2.5, true, "nodes", "stage", "policy",
      "batch_input_shape", "states"} do
      check_trained(made(function(self) self[name] = L.Dense(3) end, function(self,
        t) return self.head(self[name](t)) end), 4)
    end
  end)

  it("hold them in lists with holes, nested tables, keys and tables of a script's own kind",
    function()
    local function call(find) return function(self, t) return self.head(find(self)(t)) end end
    check_trained(made(function(self) self.list = {nil, L.Dense(3)} end,
      call(function(s) return s.list[2] end)), 4)
    check_trained(made(function(self) self.list = {[40] = {deep = {L.Dense(3)}}} end,
      call(function(s) return s.list[40].deep[1] end)), 4)
    check_trained(made(function(self) self.list = {[false] = L.Dense(3)} end,
      call(function(s) return s.list[false] end)), 4)
    check_trained(made(function(self)
      self.list = setmetatable({}, {__index = {}, __name = "own"})
      self.list.inner = L.Dense(3)
    end, call(function(s) return s.list.inner end)), 4)
    check_trained(made(function(self) self.set = {[L.Dense(3)] = true} end,
      call(function(s) return (next(s.set)) end)), 4)
    check_trained(made(function(self)
      self.list = {}
      self.list.itself = self.list
      self.list[1] = L.Dense(3)
    end, call(function(s) return s.list[1] end)), 4)
  end)

  it("are walked in the order of their first assignment, lists in theirs, numbers by size",
    function()
    local net = made(function(self)
      self.second = false
      self.first = L.Dense{2, name = "first"}
      self.list = {[10] = L.Dense{2, name = "tenth"}, [2] = L.Dense{2, name = "two"}}
      self.second = L.Dense{2, name = "second"}
    end)
    local names = {}
    for i, layer in ipairs(net.layers) do names[i] = layer.name end
    assert.same({"second", "first", "two", "tenth", net.head.name}, names)
    local keys = require "ipulua.base.nest".keys{[10] = 1, [2] = 1, [-3] = 1,
      [1.5] = 1, a = 1,
      B = 1}
    assert.same({-3, 1.5, 2, 10, "B", "a"}, keys)
  end)

  it("hold variables and metrics", function()
    local net = made(function(self)
      self.scale = 0
      self.scale = ipu.Variable(ipu.ones{2}, {name = "scale"})
      self.seen = {keras.metrics.Mean{name = "seen"}}
    end, function(self, t) return self.head(t) * self.scale end)
    check_trained(net, 3)
    assert.equal("seen", net.metrics[#net.metrics].name)
    net.seen[1]:update_state(ipu.tensor{4})
    net:reset_metrics()
    assert.equal(0, net.seen[1]:result():item())
  end)

  it("count in functional models and Sequentials as well", function()
    local i = keras.Input{shape = {3}}
    local functional, stack = keras.Model{inputs = i, outputs = L.Dense(2)(i)},
      keras.Sequential{L.Dense{2, input_shape = {3}}}
    for _, model in ipairs{functional, stack} do
      model.extra = L.Dense(4)
      model.extra(x)
      assert.equal(4, #model.weights)
      assert.equal(model.extra, model.layers[#model.layers])
    end
  end)

  it("that would hide what every layer has are refused in words", function()
    local function assigning(name, value, of)
      return function() (of or L.Layer:extend("Own")())[name] = value end
    end
    for _, name in ipairs{"losses", "metrics", "weights", "trainable_weights", "variables", "input",
      "output", "dtype", "_losses", "_own",
      "get_weights", "add_loss", "walk"} do
      assert.error_matches(assigning(name, {}), "its field can't be called '" .. name
        .. "'.*choose another name")
    end
    local model = keras.Model:extend("Own")()
    for _, name in ipairs{"layers", "inputs", "_graph", "_options", "fit", "compiled"} do
      assert.error_matches(assigning(name, {}, model), "its field can't be called '" .. name
        .. "'.*of every model")
    end
    assigning("summary", function() end, model)() -- a method may be replaced by another
    assigning("layers", {}, L.Layer:extend("Own")())()
  end)

  it("in mixed precision are read in the compute dtype, whatever they held first, and forgotten "
    .. "with nil", function()
    local Own = L.Layer:extend("Own")
    function Own:build()
      self.late = false
      self.late = self:add_weight{name = "late", shape = {3}}
      self.w = self:add_weight{name = "w", shape = {3}}
    end
    function Own:call(t)
      self.dtypes = {self.w and self.w.dtype or "none", self.late.dtype, t.dtype}
      return t
    end
    local layer = Own{dtype = "mixed_float16"}
    layer(x)
    assert.same({"float16", "float16", "float16"}, layer.dtypes)
    assert.equal("float32", layer.w.dtype)
    layer.w = nil
    assert.is_nil(layer.w)
    layer(x)
    assert.equal("none", layer.dtypes[1])
    layer.w = 5
    assert.equal(5, layer.w)
  end)

  it("that layers are born with hold none in silence, and what fails leaves none open", function()
    local function net(name)
      local Own = keras.Model:extend("Own")
      function Own:init()
        keras.Model.init(self, {})
        self.head = L.Dense(3)
        self[name] = {L.Dense(5)}
      end
      function Own:call(t) return self.head(t) end -- luacheck: ignore 432
      return Own()
    end
    for name, told in pairs{name = "a layer's name must be a string, its field 'name' is table",
      built = "can't be called 'built', which is a mark of every model",
      stop_training = "can't be called 'stop_training', which is a mark of every model",
      trainable = "'trainable' must be true or false, got"} do
      local fine, why = pcall(function() return net(name)(x) end)
      assert.is_false(fine)
      assert.matches(told, why)
      assert.equal(3, L.Dense(3)(x).shape[2]) -- a call that fails is not left open
    end
  end)
end)
