-- Which device a program runs on: cross_replica_sum of ones tells how many replicas it has there.
local ipu = require "ipulua"

local one <const> = ipu.ones{1}
local function sum(x) return ipu.cross_replica_sum(x) end
local function on(device, f) return ipu.ipu_scope("/device:IPU:" .. device)(f) end

describe("a program's device", function()
  before_each(function()
    ipu.reset_default_graph()
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = {1, 4}
    cfg:configure_ipu_system()
  end)
  after_each(ipu.reset_ipu_configuration)

  it("is set by the strategy or scope around each call, not by the first one", function()
    local first, second = ipu.IPUStrategy("/device:IPU:0"), ipu.IPUStrategy("/device:IPU:1")
    for _, order in ipairs {{first, second}, {second, first}} do
      local f = ipu.func(sum)
      local got = {}
      for i = 1, 4 do got[i] = order[(i - 1) % 2 + 1]:run(f, {one}):item() end
      local a, b = order[1] == first and 1 or 4, order[1] == first and 4 or 1
      assert.same({a, b, a, b}, got)
      assert.is_false((pcall(function() ipu.IPUStrategy("/device:IPU:3"):run(f, {one}) end)))
      assert.equal(1, f(one):item())
      assert.equal(4, on(1, function() return f(one) end):item())
    end
  end)

  it("is the one that the function's own scope names, for collectives' shapes too", function()
    local f = ipu.func(function(x) return on(1, function() return ipu.all_gather(x) end) end)
    assert.same({4, 1}, f(one).shape)
    assert.same({4, 1}, f(one).shape)
    local function body(h) return on(1, function() return sum(h) end) end
    local g = ipu.func(function(x) return ipu.loops.repeat_n(1, body, {x}) end)
    assert.equal(4, g(one):item())
  end)

  it("is one: ops for two are refused with their lines", function()
    local function both(x)
      return on(0, function() return sum(x) end) + on(1, function() return sum(x) end)
    end
    local ok, why = pcall(ipu.func(both), one)
    assert.is_false(ok)
    for _, text in ipairs {"/device:IPU:0", "/device:IPU:1", "devices_spec.lua"} do
      assert.is_truthy(tostring(why):find(text, 1, true), why)
    end
  end)

  it("is of a session's value the one that it was made for, wherever it is run", function()
    local x = ipu.placeholder("float32", {1})
    local function compiled(device)
      return on(device, function() return ipu.ipu_compiler.compile(sum, {x})[1] end)
    end
    local a, b, fed = compiled(0), compiled(1), {feed_dict = {[x] = {1}}}
    local plain = ipu.cross_replica_sum(x)
    local s <close> = ipu.Session()
    local function run(v) return s:run(v, fed):item() end
    local function all() return {run(a), run(b), run(plain), run(b + 1)} end
    assert.same({1, 4, 1, 5}, on(1, all))
    assert.same({1, 4, 1, 5}, all())
    assert.same({1, 4, 1, 5}, ipu.device("cpu")(all))
    local ok, why = pcall(s.run, s, {a, b}, fed)
    assert.is_false(ok)
    assert.is_truthy(tostring(why):find("/device:IPU:1", 1, true), why)
    assert.equal(4, run(b))
  end)

  it("and the numerics of the scopes around a call belong to what is traced for it", function()
    local scopes = {
      function(f) return f() end, function(f) return ipu.partials_type("float16")(f) end,
      function(f) return ipu.stochastic_rounding(true)(f) end,
      function(f) return ipu.stochastic_rounding(false)(f) end,
      function(f) return ipu.ipu_shard(1)(f) end,
      function(f) return ipu.device("cpu")(f) end,
      function(f) return ipu.frontend_attribute("a", "b")(f) end,
    }
    local f = ipu.func(function(x) return x + 1 end)
    for _ = 1, 2 do
      for _, scope in ipairs(scopes) do
        scope(function() return on(1, function() return f(one) end) end)
      end
    end
    assert.equal(#scopes - 1, #f:signatures()) -- the IPU's scope is the innermost one
    local m, n = ipu.random.normal({64, 4096}, {seed = 1}):cast("float16"),
      ipu.random.normal({4096, 64}, {seed = 2}):cast("float16")
    local function product(x, y) return ipu.matmul(x, y) end
    local p = ipu.func(product)
    local whole = p(m, n):totable()
    local again, fresh = table.unpack(ipu.partials_type("float16")(function()
      return {p(m, n):totable(), ipu.func(product)(m, n):totable()}
    end))
    assert.same(fresh, again)
    assert.not_same(whole, again)
  end)
end)
