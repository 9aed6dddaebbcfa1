-- Names of variables, and arguments that are nested lists.
local ipu = require "ipulua"

describe("the names of variables", function()
  before_each(ipu.reset_default_graph)

  it("are unique, whatever was taken before", function()
    local seen = {}
    for i, name in ipairs {"a", "a", "a_1", "a", "a_1", "a_2", "a_1_1"} do
      local v = ipu.Variable(1, name)
      assert.is_nil(seen[v.name], v.name)
      seen[v.name] = i
    end
    assert.same({1, 2}, {seen.a, seen.a_1})
  end)

  it("begin with the names of the open scopes", function()
    local function named() return ipu.Variable(1, "v").name end
    assert.same({"n/v", "n/m/v", "v", "n/v_1"}, {ipu.name_scope("n")(named),
      ipu.name_scope("n")(function() return ipu.name_scope("m")(named) end), named(),
      ipu.name_scope("n")(named)})
  end)
end)

describe("a name", function()
  it("has no control character: terminals and files get it", function()
    local layers = ipu.keras.layers
    local makers <const> = {
      function(name) return layers.Dense{3, name = name} end,
      function(name) return ipu.Variable(1, name) end,
      function(name) return ipu.keras.metrics.Mean{name = name} end,
      function(name) return ipu.keras.Sequential{{layers.Dense(3)}, name = name} end,
      function(name) return ipu.keras.optimizers.SGD{0.1, name = name} end,
    }
    for i, make in ipairs(makers) do
      for _, name in ipairs{"a\27[31m", "a\0b", "a\n"} do
        local ok, message = pcall(make, name)
        assert.is_false(ok, i)
        assert.truthy(message:find("'name' has a control character", 1, true), message)
      end
      assert.equal("größe 2", make("größe 2").name)
    end
  end)
end)

describe("an argument that there is not", function()
  -- A beginning of three letters is as near as one slip; a name too far from all has no advice.
  it("is told which one is meant", function()
    for given, meant in pairs{std = "stddev", stdd = "stddev", sdtdev = "stddev",
      stddev1 = "stddev", mea = "mean", maen = "mean", sead = "seed"} do
      local ok, message = pcall(ipu.random.normal, {2}, {[given] = 1})
      assert.is_false(ok)
      local wanted <const> = "no argument '" .. given .. "'; did you mean '" .. meant .. "'?"
      assert.truthy(message:find(wanted, 1, true), message)
    end
    for _, given in ipairs{"st", "deviation_of_it", "zz"} do
      local _, message = pcall(ipu.random.normal, {2}, {[given] = 1})
      assert.is_nil(message:find("did you mean", 1, true), message)
    end
  end)
end)

describe("a lookup", function()
  it("takes nested lists as they are", function()
    local e = ipu.create_host_embedding("e", {10, 3}, "float32", {initializer = "ones"})
    local ids = ipu.tensor({1, 2}, {dtype = "int32"})
    local given = {
      {{{1, 2}, {3, 4}}, {2, 2, 3}}, {{{1, 2}}, {1, 2, 3}}, {{1, 2}, {2, 3}}, {{1}, {1, 3}},
      {1, {3}}, {{indices = {{1, 2}}}, {1, 2, 3}},
      {ids, {2, 3}}, {{ids}, {2, 3}}, {{ids, clip_indices = false}, {2, 3}},
      {{indices = ids, clip_indices = false}, {2, 3}},
      {{{1, 2}, clip_indices = false}, {2, 3}},
    }
    for i, case in ipairs(given) do assert.same(case[2], e:lookup(case[1]).shape, i) end
    assert.same({2, 2, 3}, e:lookup({{1, 2}, {3, 4}}, {clip_indices = false}).shape)
    assert.same({2, 2, 3}, e:lookup({{1, 2}, {3, 4}}, false).shape)
  end)
end)
