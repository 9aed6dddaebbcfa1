-- Weights in files: their names, which files fit a model, and that other files change nothing.

local command = require "spec.support.command"
local ipu = require "ipulua"
local json = require "ipulua.base.json"

local keras, layers = ipu.keras, ipu.keras.layers

local function most(v) return ipu.reduce_max(v):item() end

local function dense(name)
  return keras.Sequential{layers.Dense{2, input_shape = {3}, name = name or "d"}}
end

-- Sets each element of the k-th weight to k, and returns the weights' numbers.
local function fill(model)
  for k, w in ipairs(model.weights) do w:assign(ipu.full(w.shape, k, {dtype = w.dtype})) end
end
local function held(model)
  local list = {}
  for k, w in ipairs(model.weights) do list[k] = math.tointeger(most(w:read_value())) end
  return list
end

describe("names of weights in files", function()
  local Three = layers.Layer:extend("Three")
  function Three:build()
    for k, name in ipairs{"w", "w_1", "w", "w"} do
      self["v" .. k] = self:add_weight{name = name, shape = {2}, initializer = "zeros"}
    end
  end
  function Three:call(x) return x * self.v1 + self.v2 * self.v3 + self.v4 end
  local makers = {
    ["of one layer that repeat, and one that looks repeated"] = function()
      local i = keras.Input{shape = {2}}
      return keras.Model{inputs = i, outputs = Three()(i)}
    end,
    ["of a layer called as another's place"] = function()
      local i = keras.Input{shape = {2}}
      local inner = keras.Sequential({layers.Dense{2, input_shape = {2}, name = "b"}}, "a")
      return keras.Model{inputs = i, outputs = layers.Dense{2, name = "a/b"}(inner(i))}
    end,
    ["of no layer at all"] = function()
      local i = keras.Input{shape = {4, 4, 1}}
      return keras.Model{inputs = i, outputs = layers.Flatten()(layers.MaxPooling2D()(i))}
    end,
  }
  for name, make in pairs(makers) do
    for _, ending in ipairs{".safetensors", ".npz"} do
      it("differ: " .. name .. ", in " .. ending, function()
        local path, from, to = command.scratch(ending), make(), make()
        fill(from)
        from:save_weights(path)
        to:load_weights(path)
        os.remove(path)
        assert.same(held(from), held(to))
      end)
    end
  end

  it("are those they were where nothing repeats", function()
    local path = command.scratch ".safetensors"
    dense():save_weights(path)
    local names = {}
    for each in pairs(ipu.load(path)) do names[#names + 1] = each end
    table.sort(names)
    os.remove(path)
    assert.same({"d/bias", "d/kernel"}, names)
  end)
end)

describe("a layer that several models hold", function()
  local path
  before_each(function() path = command.scratch ".safetensors" end)
  after_each(function() os.remove(path) end)

  local function again(model, x, objects)
    model:save(path)
    local loaded = keras.models.load_model(path, objects)
    assert.equal(#model.weights, #loaded.weights)
    assert.equal(0, most(ipu.abs(loaded(x) - model(x))))
    if not objects then
      assert.equal(#model.weights, #keras.models.model_from_json(model:to_json()).weights)
    end
    return loaded
  end

  it("is one layer again after loading", function()
    local shared = layers.Dense{3, name = "sh"}
    local function part(name)
      local i = keras.Input{shape = {3}}
      return keras.Model{inputs = i, outputs = shared(i), name = name}
    end
    local a, b, i = part "A", part "B", keras.Input{shape = {3}}
    local loaded = again(keras.Model{inputs = i, outputs = layers.Add(){a(i), shared(b(i))}},
      ipu.random.normal{4, 3})
    assert.equal(2, #loaded.weights)
  end)

  it("may be a model", function()
    local core = keras.Sequential({layers.Dense{3, input_shape = {3}}, layers.Dense(3)}, "core")
    local i = keras.Input{shape = {3}}
    local m = keras.Model{inputs = i,
      outputs = layers.Add(){core(i), keras.Sequential{layers.ReLU{input_shape = {3}}, core}(i)}}
    assert.equal(4, #again(m, ipu.random.normal{4, 3}).weights)
  end)

  it("leaves the descriptions of other layers as they were", function()
    local m = keras.Sequential{layers.Bidirectional{layers.LSTM(2), input_shape = {3, 2}},
      layers.Dense(1)}
    assert.is_nil(m:to_json():find("shared_object_id"))
  end)

  it("is found by its order in a subclass whose layers were named later", function()
    local Net = keras.Model:extend("Net")
    function Net:init()
      keras.Model.init(self)
      self.net = keras.Sequential{layers.Dense(4), layers.Dense(3)}
    end
    function Net:call(x) return self.net(x) end
    function Net:get_config() return {} end -- luacheck: ignore 212
    local m, x = Net(), ipu.random.normal{5, 6}
    m(x)
    m:compile{optimizer = keras.optimizers.Adam(0.1), loss = "mse"}
    m:fit{x, ipu.zeros{5, 3}, batch_size = 5, verbose = 0}
    local loaded = again(m, x, {Net = Net})
    -- slots, too
    assert.equal(m:train_on_batch(x, ipu.zeros{5, 3}), loaded:train_on_batch(x, ipu.zeros{5, 3}))
    assert.equal(0, most(ipu.abs(loaded(x) - m(x))))
  end)
end)

describe("numbers that JSON has not", function()
  local i = keras.Input{shape = {4, 3}}
  for name, layer in pairs{ReLU = layers.ReLU{max_value = math.huge},
    Masking = layers.Masking{mask_value = -math.huge},
    MaxNorm = layers.Dense{3, kernel_constraint = keras.constraints.MaxNorm{max_value = math.huge}},
    constant = function(x) return ipu.minimum(x, ipu.tensor{math.huge, 0, -math.huge}) end} do
    it("are saved with a model and loaded: " .. name, function()
      local path, m = command.scratch ".safetensors", keras.Model{inputs = i, outputs = layer(i)}
      m:compile{optimizer = keras.optimizers.SGD{0.1, clipnorm = math.huge}, loss = "mse"}
      m:save(path)
      local x, loaded = ipu.random.normal{2, 4, 3}, keras.models.load_model(path)
      os.remove(path)
      assert.is_true(ipu.reduce_all(ipu.equal(m(x), loaded(x))):item())
      assert.equal(math.huge, loaded.optimizer.clipnorm)
      local text <const> = m:to_json()
      assert.same(json.decode(text), json.decode(keras.models.model_from_json(text):to_json()))
    end)
  end

  it("come back as they were from a packed value", function()
    local value = {a = {1, math.huge, {-math.huge}}, b = {}, c = json.array(), d = 0 / 0,
      e = "$number"}
    local back = json.unpack(json.decode(json.encode(json.pack(value))))
    assert.equal("[1,", json.encode(json.pack(back.a)):sub(1, 3))
    assert.same({1, math.huge, {-math.huge}}, {back.a[1], back.a[2], {back.a[3][1]}})
    assert.is_true(json.is_array(back.c) and not json.is_array(back.b) and back.d ~= back.d
      and back.e == "$number")
  end)

  it("and texts that aren't UTF-8 are told with their place", function()
    local m = keras.Sequential{layers.Dense{2, input_shape = {3}, name = "gr\xf6n"}}
    assert.error_matches(function() m:to_json() end,
      "to_json: the model can't be written as JSON: config.layers%[1%].config.name: a string is "
      .. "not valid UTF%-8")
    local function saved()
      ipu.train.Checkpoint{v = ipu.Variable(1.0),
        notes = {{1, "\xff"}}}:save(command.scratch() .. "d")
    end
    assert.error_matches(saved, "Checkpoint.save: 'notes' can't be written as JSON: %[1%]%[2%]: a "
      .. "string is not valid UTF%-8")
  end)
end)

-- Dtypes into which weights may be loaded. Values, not dtypes, decide it.
describe("values of another dtype", function()
  for _, case in ipairs{
    {"float32", {1.7, 2.9}, "int32", false}, {"int64", {(1 << 40) + 3, 1}, "int32", false},
    {"int32", {5, 6}, "int32", true},
    {"float32", {5, 6}, "int32", true}, {"int64", {5, -6}, "int8", true},
    {"int32", {128, 0}, "int8", false},
    {"float32", {0.1, 1e-9}, "float16", true}, {"float32", {1e6, 1}, "float16", false},
    {"float32", {math.huge, 1}, "float16", true},
    {"float64", {1e300, 0}, "float32", false}, {"float64", {0.1, 0}, "float32", true},
    {"int32", {(1 << 24) + 1, 0}, "float32", false},
    {"int32", {1 << 24, 0}, "float32", true}, {"float32", {0 / 0, 0}, "float16", true},
    {"float32", {0 / 0, 0}, "int32", false},
    {"float32", {1, 0}, "bool", true}, {"float32", {2, 0}, "bool", false},
  } do
    local from, values, to, fits = table.unpack(case)
    it(string.format("%s: %s as %s", fits and "are taken" or "are refused",
      table.concat(values, " ") .. " of " .. from, to), function()
      local folder, t = command.folder(), ipu.tensor(values, {dtype = from})
      ipu.train.Checkpoint{v = ipu.Variable(t)}:save(folder)
      local v = ipu.Variable(ipu.cast(ipu.zeros{2}, to))
      local ok, message = pcall(function() ipu.train.Checkpoint{v = v}:restore(folder) end)
      command.remove(folder)
      assert.equal(fits, ok, message)
      if not fits then
        assert.matches(string.format("weight 'v' is %s in the file, with values that the model's "
          .. "%s can't hold", from, to), message)
        assert.equal(0, ipu.reduce_sum(ipu.abs(ipu.cast(v, "float32"))):item())
      end
    end)
  end

  it("are refused by load_weights, too, which changes nothing", function()
    local path, m = command.scratch ".npz", dense()
    fill(m)
    ipu.save(path,
      {["d/kernel"] = ipu.ones{3, 2}, ["d/bias"] = ipu.full({2}, 1e300, {dtype = "float64"})})
    assert.error_matches(function() m:load_weights(path) end,
      "load_weights: weight 'd/bias' is float64 in the file")
    ipu.save(path, {["d/kernel"] = ipu.zeros{3, 2}, ["d/bias"] = ipu.zeros{2}, more = ipu.zeros{1}})
    assert.error_matches(function() m:load_weights(path) end, "no place for the file's weight more")
    os.remove(path)
    assert.same({1, 2}, held(m))
  end)
end)

describe("a checkpoint that doesn't fit", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  local function compiled(momentum)
    local m = dense()
    m:compile{optimizer = keras.optimizers.SGD{0.5, momentum = momentum}, loss = "mse"}
    m:fit{ipu.ones{8, 3}, ipu.ones{8, 2}, batch_size = 4, verbose = 0}
    return m
  end

  it("changes nothing, whatever of it doesn't fit", function()
    local function saved(extra)
      local m = compiled(0.9)
      local c = ipu.train.Checkpoint{model = m, v = ipu.Variable(ipu.ones{4})}
      for name, value in pairs(extra or {}) do c[name] = value end
      c:save(folder)
    end
    local function kept(objects, what)
      local m = compiled(0.9)
      fill(m)
      m.optimizer.iterations:assign(77)
      objects.model = objects.model or m
      ipu.random.set_seed(5)
      local first = ipu.random.uniform{1}:item()
      ipu.random.set_seed(5)
      assert.error_matches(function() ipu.train.Checkpoint(objects):restore(folder) end, what)
      assert.same({1, 2}, held(m))
      assert.equal(77, m.optimizer.iterations:item())
      assert.equal(first, ipu.random.uniform{1}:item()) -- as if nothing had been
    end
    saved()
    kept({v = ipu.Variable(ipu.zeros{5})},
      "weight 'v' has the shape %[4%] in the file, %[5%] in the model")
    saved{other = ipu.train.MomentumOptimizer(0.1, 0.9)}
    saved{other = keras.optimizers.Adam()}
    kept({v = ipu.Variable(ipu.zeros{4}), w = ipu.Variable(ipu.zeros{1})},
      "the file has no weight 'w'")
  end)

  it("is refused when it is written, where two names collide", function()
    local whole =
      keras.Sequential{keras.Sequential({layers.Dense{2, input_shape = {3}, name = "d"}}, "enc")}
    assert.error_matches(function()
      ipu.train.Checkpoint{model = whole, enc = dense()}:save(folder)
    end,
      "Checkpoint.save: two weights would both be called 'enc/d/kernel' in the file; give one "
      .. "another name")
  end)

  it("keeps a model's optimizer apart from another one", function()
    local m, other = compiled(0), keras.optimizers.SGD{0.5, momentum = 0.9}
    other:apply_gradients{{ipu.ones{3, 2}, m.weights[1]}}
    local function counts() return {m.optimizer.iterations:item(), other.iterations:item()} end
    local c = ipu.train.Checkpoint{model = m, optimizer = other}
    c:save(folder)
    m.optimizer.iterations:assign(9)
    other.iterations:assign(9)
    c:restore(folder)
    assert.same({2, 1}, counts())
  end)
end)
