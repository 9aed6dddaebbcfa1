local core = require "ipulua.core"
local ipu = require "ipulua"
local placement = require "ipulua.trace.placement"

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, text in ipairs {...} do
    assert.is_truthy(tostring(message):find(text, 1, true), message)
  end
end

-- The field of the placement that new nodes get now.
local function placed(field)
  local value = core.set_placement(field, 0)
  core.set_placement(field, value)
  return value
end

describe("scopes", function()
  it("place what is made inside, the innermost wins, and leave again", function()
    assert.equal(-1, placed("shard"))
    do
      local _ <close> = ipu.ipu_shard(1)
      assert.equal(1, placed("shard"))
      ipu.ipu_shard(3)(function() assert.equal(3, placed("shard")) end)
      assert.equal(1, placed("shard"))
    end
    assert.equal(-1, placed("shard"))
    pcall(ipu.ipu_shard(2), function() error("x") end)
    assert.equal(-1, placed("shard"))
  end)

  it("understand the ways to write a device", function()
    for text, ordinal in pairs {["cpu"] = -1, ["/device:CPU:0"] = -1, ["/cpu:0"] = -1,
      ["/device:IPU:1"] = 1, ["IPU:2"] = 2} do
      ipu.device(text)(function() assert.equal(ordinal, placement.device()) end)
    end
    assert.is_nil(placement.device())
    fails(function() ipu.device("gpu") end, "gpu", "/device:IPU:0")
    fails(function() ipu.ipu_scope("cpu") end, "not an IPU")
  end)

  it("and traces are left by errors of any value, none too", function()
    for _, value in ipairs {"words", {}, false} do
      for _, given in ipairs {{value}, {}} do
        local function f() return ipu.ipu_shard(1)(function() error(given[1]) end) end
        xpcall(ipu.func(f), function() return nil end)
        pcall(ipu.func(f))
        pcall(ipu.estimate, f, {ipus = 2})
        assert.equal(0, core.trace_depth())
        assert.equal(-1, placed("shard"))
      end
    end
  end)

  it("rows 54, 56: check their arguments", function()
    fails(function() ipu.ipu_shard(-1) end, "negative")
    fails(function() ipu.partials_type("int32") end, "float16 or float32")
    fails(function() ipu.outside_compilation_scope() end, "compiled")
    fails(function()
      ipu.func(function()
        local _ <close> = ipu.outside_compilation_scope()
        local _ <close> = ipu.outside_compilation_scope()
      end)()
    end, "nested")
  end)

  it("compute the same outside of the compilation", function()
    local f = ipu.func(function(x)
      local y
      do
        local _ <close> = ipu.outside_compilation_scope()
        y = x * 2
      end
      return y + 1
    end)
    assert.same({3, 5}, f(ipu.tensor{1, 2}):totable())
  end)

  it("keep numerics and attributes until they close", function()
    ipu.stochastic_rounding(true)(function()
      assert.equal(1, placed("stochastic_rounding"))
      ipu.stochastic_rounding(false)(function() assert.equal(0, placed("stochastic_rounding")) end)
    end)
    assert.equal(-1, placed("stochastic_rounding"))
    ipu.partials_type("float16")(function()
      assert.equal(1, placed("half_products"))
      assert.equal(1, placed("half_convolutions"))
    end)
    ipu.frontend_attribute("key", "value")(function()
      assert.same({key = "value"}, placement.frontend_attributes())
    end)
    assert.same({}, placement.frontend_attributes())
    ipu.ipu_jit_scope(0)(function() end)
  end)

  it("name what is made inside", function()
    ipu.reset_default_graph()
    local a = ipu.name_scope("outer")(function()
      return ipu.placeholder("float32", {}, {name = "a"})
    end)
    fails(function()
      local sess <close> = ipu.Session()
      sess:run(a + 1)
    end, "outer/a")
  end)
end)
