-- One replica over several IPUs: where ops and gradients are, what is copied between IPUs, and that
-- results don't change.

local config = require "ipulua.config"
local func = require "ipulua.trace.func"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local function with_ipus(options)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  for name, value in pairs(options) do cfg[name] = value end
  cfg:configure_ipu_system()
end

local function on_shard(index, f) return ipu.ipu_shard(index)(f) end

local function four(a, b, c)
  local o1 = on_shard(0, function() return a + b end)
  local o2 = on_shard(1, function() return a + c end)
  local o3 = on_shard(2, function() return b + c end)
  return on_shard(3, function() return o1 + o2 + o3 end)
end

local function text() return func.compiled()[1].entry[1].program:text() end

describe("shards", function()
  local lines, former = {}, nil
  setup(function() former = log.set_writer(function(line) lines[#lines + 1] = line end) end)
  teardown(function()
    log.set_writer(former)
    config.reset_ipu_configuration()
  end)

  for _, options in ipairs{{auto_select_ipus = 4}, {select_ipus = {24}}} do
    it("row 51: give [4, 14] on the IPUs of device 24, by " .. next(options), function()
      with_ipus(options)
      local device = ipu.get_ipu_config()[1]
      assert.equal(24, device.id)
      assert.same({4, 5, 6, 7}, device.members)
      local pa, pb, pc
      do
        local _ <close> = ipu.device("cpu")
        pa, pb, pc = ipu.placeholder("float32", {2}), ipu.placeholder("float32", {2}),
          ipu.placeholder("float32", {2})
      end
      local out = ipu.ipu_scope("/device:IPU:0")(function()
        return ipu.ipu_compiler.compile(four, {pa, pb, pc})
      end)
      local sess <close> = ipu.Session()
      local got = sess:run(out, {feed_dict = {[pa] = {1, 1}, [pb] = {0, 1}, [pc] = {1, 5}}})
      assert.equal("[ 4. 14.]", tostring(got[1]))
      assert.equal(1, #got)
    end)
  end

  it("are seen in the program: steps of one IPU each, and what is copied", function()
    with_ipus{auto_select_ipus = 4}
    ipu.func(four)(ipu.tensor{1, 1}, ipu.tensor{0, 1}, ipu.tensor{1, 5})
    local program = text()
    assert.matches("1 replica of 4 IPUs", program)
    for shard = 0, 3 do assert.matches("add float32%[2%] on shard " .. shard, program) end
    for shard = 0, 2 do
      assert.matches("inter%-IPU copy of add float32%[2%] from shard " .. shard
        .. " to shard 3", program)
    end
    local _, copies = program:gsub("inter%-IPU copy", "")
    assert.equal(3, copies)
  end)

  it("copy a value once to each IPU that reads it", function()
    with_ipus{auto_select_ipus = 2}
    ipu.func(function(x)
      local y = on_shard(0, function() return x * 2 end)
      return on_shard(1, function() return ipu.exp(y), ipu.reduce_sum(y) end)
    end)(ipu.tensor{1, 1})
    local _, copies = text():gsub("inter%-IPU copy", "")
    assert.equal(1, copies)
  end)

  it("don't copy what stays on its IPU", function()
    with_ipus{auto_select_ipus = 2}
    ipu.func(function(x)
      return on_shard(1, function() return ipu.reduce_sum(ipu.exp(x)) end)
    end)(ipu.tensor{1, 1})
    assert.is_nil(text():find("inter-IPU copy", 1, true))
  end)

  it("row 53: keep gradients where their forward op is, the innermost scope winning", function()
    with_ipus{auto_select_ipus = 4}
    local w = ipu.Variable(ipu.ones{3, 3})
    local f = ipu.func(function(x)
      local y = on_shard(2, function()
        return on_shard(1, function() return ipu.matmul(x, w) end)
      end)
      local loss = on_shard(3, function() return ipu.reduce_sum(ipu.tanh(y)) end)
      return on_shard(0, function() return ipu.gradients(loss, {w})[1] end)
    end)
    f(ipu.ones{2, 3})
    local seen = {}
    for _, node in ipairs(ipu.graph.nodes(f)) do
      if node.op == "matmul" then
        seen[node.backward and "backward" or "forward"] = node.shard
      elseif node.op == "tanh" then
        assert.equal(3, node.shard)
      end
    end
    assert.same({forward = 1, backward = 1}, seen)
  end)

  it("change no bit of a training", function()
    local x = ipu.random.normal({40, 6}, {seed = 1})
    local results = {}
    for i, sharded in ipairs{false, true} do
      with_ipus{auto_select_ipus = sharded and 2 or 1}
      local w1, w2 = ipu.Variable(ipu.random.normal({6, 8}, {seed = 2})),
        ipu.Variable(ipu.random.normal({8, 1}, {seed = 3}))
      local feed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(8,
        {drop_remainder = true}):repeat_n())
      local opt = ipu.train.AdamOptimizer(0.01)
      ipu.func(function()
        ipu.loops.repeat_n(10, function(part)
          local function at(shard, f)
            if sharded then return on_shard(shard, f) end
            return f()
          end
          local h = at(0, function() return ipu.tanh(ipu.matmul(part, w1)) end)
          at(1, function()
            opt:minimize(ipu.reduce_mean(ipu.square(ipu.matmul(h, w2) - 1)), {var_list = {w1, w2}})
          end)
        end, {}, feed)
      end)()
      results[i] = {w1:totable(), w2:totable()}
    end
    assert.same(results[1], results[2])
  end)
end)
