-- A script's memory doesn't grow by steps that it repeats. Counts are compared, never seconds. The
-- first half of the steps fills everything that has a bound; the growth in the second half is
-- measured.

local config = require "ipulua.config"
local func = require "ipulua.trace.func"
local ipu = require "ipulua"
local command = require "spec.support.command"
local soak = require "spec.support.soak"

local keras, layers = ipu.keras, ipu.keras.layers
local x, y = soak.samples()
local steps <const> = 200
-- Bytes: tables that grow once more, what malloc keeps for threads.
local lua_slack <const>, heap_slack <const> = 4096, 65536

-- One table, closure or tensor kept by each step is more than the slack.
local function check(grown, what)
  assert.equal(0, grown.tensors, what .. " holds bytes of tensors")
  assert.equal(0, grown.programs, what .. " holds programs")
  assert.is_true(grown.lua <= lua_slack, ("%s holds %d bytes of Lua's"):format(what, grown.lua))
  local heap = grown.heap or 0
  assert.is_true(heap <= heap_slack, ("%s holds %d bytes of the heap"):format(what, heap))
end

local function fit(model)
  model:fit(soak.endless(), {epochs = 1, steps_per_epoch = 8, verbose = 0})
end

local function enqueue_all(out, infeed, count)
  local function body(a, _) out:enqueue(a) end
  ipu.func(function() ipu.loops.repeat_n(count, body, {}, infeed) end)()
end

-- By what is done again and again: makes what that needs, and gives the step.
local makers = {}

makers["making and dropping models"] = function()
  return function() fit(soak.compiled_model()) end
end

makers["layers of every sort of state"] = function()
  return function()
    local norm = layers.BatchNormalization{input_shape = {6}}
    keras.Sequential{norm, layers.Dropout(0.3)}(x, {training = true})
    keras.Sequential{layers.LSTM{3, input_shape = {4, 2}}}(ipu.ones{2, 4, 2})
    local input = keras.Input{6}
    keras.Model{inputs = input, outputs = layers.Dense(3)(layers.Dense(4)(input))}(x)
    keras.metrics.Mean():update_state(1.0)
  end
end

makers["masks beside tensors"] = function()
  local embedding = layers.Embedding{9, 3, mask_zero = true}
  local model = keras.Sequential{embedding, layers.LSTM(2)}
  local words = ipu.tensor({{1, 2, 0}, {3, 0, 0}}, {dtype = "int32"})
  return function()
    embedding(words)
    model(words)
  end
end

makers["compiling a model anew"] = function()
  local model = soak.compiled_model()
  return function()
    model:compile{optimizer = keras.optimizers.Adam(0.01), loss = "mse", metrics = {"mae"}}
    model:train_on_batch(x, ipu.zeros{32, 3})
  end
end

makers["saving and loading, predicting, evaluating"] = function()
  local model, path = soak.compiled_model(), command.scratch(".npz")
  return function()
    model:predict(x)
    model:evaluate(x, y, {verbose = 0})
    model:save_weights(path)
    model:load_weights(path)
    keras.models.clone_model(model)
  end
end

makers["tracing functions anew"] = function()
  return function(i) ipu.func(function(a) return a * i end)(x) end
end

makers["functions that fail"] = function()
  local callback = ipu.host_callback(function() error("no") end, {outputs = {{{32, 6}, "float32"}}})
  local broken = ipu.func(function(a) return callback(a) end)
  return function()
    pcall(function() ipu.func(function(a) return ipu.matmul(a, a) end)(x) end)
    pcall(broken, x)
  end
end

makers["configuring, which has programs compiled anew"] = function()
  local f = ipu.func(function(a) return a * 2 end)
  return function()
    local c = ipu.IPUConfig()
    c.auto_select_ipus = 1
    c:configure_ipu_system()
    f(x)
    config.reset_ipu_configuration()
    f(x)
  end
end

makers["tapes, asked or not, closed or not"] = function()
  local w = ipu.Variable(ipu.ones{6, 3})
  local function step() return ipu.reduce_sum(ipu.tanh(ipu.matmul(x, w))) end
  return function()
    local tape = ipu.GradientTape()
    tape:gradient(step(), w)
    local open = ipu.GradientTape{persistent = true}
    open:gradient(step(), w)
    ipu.GradientTape()(step)
  end
end

makers["calls of the host that a tape records"] = function()
  local give = ipu.host_callback(function() return ipu.ones{32, 6} end,
    {outputs = {{{32, 6}, "float32"}}})
  local f, w = ipu.func(function(a) return a * give(a) end), ipu.Variable(ipu.ones{32, 6})
  return function()
    local tape = ipu.GradientTape()
    tape:gradient(f(w), w)
  end
end

makers["optimizers"] = function()
  local w = ipu.Variable(ipu.ones{6, 3})
  return function()
    local optimizer = keras.optimizers.Adam(0.1)
    optimizer:apply_gradients({w}, {w})
  end
end

makers["jobs, waited for or not"] = function()
  local strategy, w = ipu.IPUStrategy(), ipu.Variable(ipu.ones{3})
  local f = ipu.func(function(a) return w:assign_add(a) end)
  return function()
    strategy:run_async(f, {ipu.ones{3}}):wait()
    strategy:run_async(f, {ipu.ones{3}})
    local _ <close> = ipu.IPUStrategy():scope()
  end
end

makers["queues, read or not"] = function()
  return function()
    local read, unread = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue()
    enqueue_all(read, ipu.IPUInfeedQueue(soak.endless()), 3)
    read:dequeue()
    enqueue_all(unread, ipu.IPUInfeedQueue(soak.endless()), 3)
  end
end

makers["datasets, read to the end or not"] = function()
  return function(i)
    local dataset = ipu.data.range(40):map(function(a) return a * i end, {num_parallel_calls = 2})
      :shuffle(8):prefetch(2)
    for _ in dataset:iter() do end
    dataset:iter()()
  end
end

makers["estimates"] = function()
  local f = ipu.func(function(a) return a * 2 end)
  local model = soak.compiled_model()
  return function(i)
    ipu.estimate(f, {inputs = {{1 + i, 3}}})
    ipu.estimate(model, {batch_size = 1 + i % 7})
    ipu.estimate(function(a) return a + i end, {inputs = {{2, 3}}})
  end
end

makers["sessions and their graphs"] = function()
  return function()
    ipu.reset_default_graph()
    local a = ipu.placeholder("float32", {2})
    local w = ipu.get_variable("w", {shape = {2}, initializer = 1})
    local session <close> = ipu.Session()
    session:run(ipu.global_variables_initializer())
    session:run(a * w, {feed_dict = {[a] = {1, 2}}})
  end
end

makers["variables of any name"] = function()
  return function(i)
    ipu.Variable(1.0)
    ipu.Variable{1.0, name = "v" .. i}
    local _ <close> = ipu.name_scope("scope" .. i)
    ipu.Variable{1.0, name = "w"}
  end
end

describe("nothing grows by", function()
  after_each(config.reset_ipu_configuration)

  for kind, maker in pairs(soak.kinds) do
    it("steps of a training: " .. kind, function() check(soak.growth(maker(), steps), kind) end)
  end

  for name, maker in pairs(makers) do
    it(name, function() check(soak.growth(maker(), steps), name) end)
  end

  it("lines that are typed", function()
    local text = {soak.typed_first}
    for i = 1, 3 * steps do
      text[#text + 1] = soak.typed(i)
      if i > steps and i % steps == 0 then
        text[#text + 1] = ("soak.print_sample(%d)\n"):format(i)
      end
    end
    local out = command.run{command.ipulua, "-i", stdin = table.concat(text)}.out
    local held = {}
    for tensors, lua, heap in out:gmatch("sample %d+ %S+ %S+ (%d+) (%S+) (%d+)") do
      held[#held + 1] = {tensors = tonumber(tensors), lua = tonumber(lua), heap = tonumber(heap)}
    end
    assert.equal(2, #held)
    local grown = {programs = 0}
    for what, count in pairs(held[1]) do grown[what] = held[2][what] - count end
    check(grown, "the prompt")
  end)
end)

describe("a list that is kept for a script to ask for has a bound:", function()
  it("records of programs whose functions are gone", function()
    local before = #func.compiled()
    for i = 1, 1100 do
      ipu.func(function(a) return a * i end)(x)
      if i % 100 == 0 then collectgarbage() end
    end
    assert.is_true(#func.compiled() - before <= 2 * 256)
  end)

  it("programs for variables that are gone", function()
    collectgarbage()
    func.prune(0)
    local before <const> = #func.compiled()
    local f, kept = ipu.func(function(w) return w * 2 end), ipu.Variable(ipu.ones{3})
    f(kept)
    for i = 1, 200 do
      f(ipu.Variable(ipu.full({3}, i)))
      if i % 8 == 0 then collectgarbage() end
    end
    assert.is_true(#f:signatures() <= 40)
    collectgarbage()
    func.prune(0) -- those alone are told of that a function still has
    assert.is_true(#func.compiled() - before <= 40)
    kept:assign(ipu.full({3}, 7))
    assert.same({14, 14, 14}, f(kept):totable())
    local numbers = ipu.func(function(i) return ipu.ones{1} * i end) -- no variables: each stays
    for i = 1, 50 do numbers(i) end
    assert.equal(50, #numbers:signatures())
  end)

  it("events", function()
    local f = ipu.func(function(a) return a end)
    ipu.ipu_event_trace()
    for _ = 1, 10100 do f(1.0) end
    assert.equal(10000, #ipu.ipu_event_trace())
    assert.same({}, ipu.ipu_event_trace())
  end)
end)

describe("a variable's name", function()
  -- The same, told by a table of all names.
  local function plainly()
    local used = {}
    return function(name)
      local found = name
      while used[found] do
        found = name .. "_" .. used[name]
        used[name] = used[name] + 1
      end
      used[found] = used[found] or 1
      return found
    end
  end

  it("is given once, whatever numbers are in it", function()
    local unique, wanted = require "ipulua.trace.used_names".new().unique, plainly()
    local pieces <const> = {"d", "d_1", "1", "0", "_", "\0", "a/", "dense_", "12", "007",
      "63", "64", "9007199254740993"}
    local state = 7
    local function draw(n) -- Lehmer's generator
      state = state * 48271 % 2147483647
      return state % n + 1
    end
    for _ = 1, 20000 do
      local name = ""
      for _ = 1, draw(4) do name = name .. pieces[draw(#pieces)] end
      if draw(3) == 1 then name = name .. draw(300) end
      assert.equal(wanted(name), unique(name))
    end
  end)

  it("stays taken when the variable is gone, and the list has those that are left", function()
    local kept = {}
    for i = 1, 100 do
      local v = ipu.Variable{1.0, name = "soaked"}
      if i % 10 == 0 then kept[#kept + 1] = v end
    end
    collectgarbage()
    collectgarbage()
    local found = {}
    for _ = 1, 2 do
      found = {}
      for _, v in ipairs(ipu.global_variables()) do
        if v.name:find("^soaked") then found[#found + 1] = v.name end
      end
    end
    local wanted = {}
    for i = 1, 10 do wanted[i] = "soaked_" .. 10 * i - 1 end
    assert.same(wanted, found)
    assert.equal(10, #kept)
    assert.equal("soaked_100", ipu.Variable{1.0, name = "soaked"}.name)
  end)

  it("threads are used again when their number changes to and fro", function()
    finally(function() ipu.set_num_threads(0) end)
    local wide = ipu.ones{1000, 1000}
    local function switch(times)
      for i = 1, times do
        ipu.set_num_threads(2 + i % 3)
        assert.equal(2e6, ipu.reduce_sum(wide + 1):item())
      end
      return soak.threads()
    end
    assert.equal(switch(6), switch(60))
  end)
end)
