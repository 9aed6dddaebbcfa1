-- The machine's results beyond the range of numbers, its traps, and the search for the op that made
-- the first NaN.

local ipu = require "ipulua"

local function f16(x) return ipu.tensor(x, {dtype = "float16"}) end

-- f() under a configuration.
local function configured(set, f, ...)
  ipu.reset_ipu_configuration()
  local _ <close> = setmetatable({}, {__close = function() ipu.reset_ipu_configuration() end})
  local cfg = ipu.IPUConfig()
  set(cfg)
  cfg:configure_ipu_system()
  return f(...)
end

local function trap(name) return function(cfg) cfg.floating_point_behaviour[name] = true end end

local divide = function(a, b) return a / b end
local cases <const> = {
  {"a float16 division by zero", "div0",
    function() return ipu.func(divide)(f16(10000), f16(0)) end, "nan"},
  {"a float16 overflow", "oflo",
    function() return ipu.func(function(x) return x * x end)(f16(10000)) end, 65504},
  {"a cast to float16 that overflows", "oflo", function()
    return ipu.func(function(x) return ipu.cast(x * 2, "float16") end)(ipu.tensor(-60000.0))
  end, -65504},
  {"an integer beyond float16", "oflo",
    function() return ipu.cast(ipu.tensor(70000, {dtype = "int32"}), "float16") end, 65504},
  {"a NaN that becomes an integer", "inv", function()
    return ipu.func(function(x) return ipu.cast(x, "int32") end)(ipu.tensor(0 / 0))
  end, -2147483648},
  {"a NaN that becomes an integer behind a fused op", "inv", function()
    return ipu.func(function(x) return ipu.cast(ipu.abs(x) + 1, "int32") end)(ipu.tensor(0 / 0))
  end, -2147483648},
  {"a root of -1", "inv", function() return ipu.func(ipu.sqrt)(ipu.tensor(-1.0)) end, "nan"},
  {"0 / 0", "inv", function() return ipu.func(divide)(ipu.tensor(0.0), ipu.tensor(0.0)) end, "nan"},
  {"a tensor of numbers beyond float16", "oflo", function()
    return f16{-70000}:reshape{}
  end, -65504},
  {"a tensor of tensors beyond float16", "oflo", function()
    return f16{ipu.tensor(65519.0)}:reshape{}
  end, 65504},
  {"full beyond float16", "oflo", function()
    return ipu.full({}, 70000, {dtype = "float16"})
  end, 65504},
  {"a constant beyond float16", "oflo", function()
    return ipu.constant(1e300, {dtype = "float16"})
  end, 65504},
  {"a range beyond float16", "oflo", function()
    return ipu.reduce_max(ipu.arange(0, 80001, 40000, {dtype = "float16"}))
  end, 65504},
  {"padding beyond float16", "oflo", function()
    return ipu.reduce_max(ipu.pad(f16{1}, {{0, 1}}, {constant_values = 70000}))
  end, 65504},
  {"a hot value beyond float16", "oflo", function()
    local at = ipu.tensor({0}, {dtype = "int32"})
    return ipu.reduce_max(ipu.one_hot(at, 2, {on_value = 70000, dtype = "float16"}))
  end, 65504},
}

describe("floating point behaviour", function()
  for _, case in ipairs(cases) do
    local what, flag, compute, plain = table.unpack(case)
    it("of " .. what .. ": a value, or with " .. flag .. " an error", function()
      local x = compute():item()
      if plain == "nan" then assert.is_true(x ~= x) else assert.equal(plain, x) end
      for _, set in ipairs {trap(flag), trap("set_all")} do
        local ok, message = pcall(configured, set, compute)
        assert.is_false(ok)
        assert.matches("numerics_spec%.lua:%d+: Tiles in excepted state: .*" .. flag, message)
        assert.equal("internal", ipu.last_error().kind)
      end
    end)
  end

  it("keeps infinities that a script writes; beyond float16 is NaN under nanoo", function()
    local inf <const> = math.huge
    local makers <const> = {
      tensor = f16,
      cast = function(list) return ipu.cast(ipu.tensor(list), "float16") end,
      constant = function(list) return ipu.constant(list, {dtype = "float16"}) end,
      full = function(list)
        local each = {}
        for i, x in ipairs(list) do each[i] = ipu.full({}, x, {dtype = "float16"}) end
        return ipu.stack(each)
      end,
    }
    for name, make in pairs(makers) do
      assert.same({65504, inf, -65504, -inf}, make{70000, inf, -70000, -inf}:totable(), name)
      local found = configured(trap("nanoo"), function()
        return make{70000, inf, -70000, -inf, 65504}:totable()
      end)
      assert.is_true(found[1] ~= found[1] and found[3] ~= found[3], name)
      assert.same({inf, -inf, 65504}, {found[2], found[4], found[5]}, name)
    end
  end)

  it(
    "names the op that trapped, also where others were fused with it, for any number of threads",
    function()
    local many <const> = ipu.ones{300, 1000}
    local function chain(x)
      local y = ipu.exp(x) + 1 - x
      local z = ipu.log(-y)
      return ipu.sqrt(z * 2) + 1
    end
    local function product(x)
      return ipu.reduce_sum(ipu.tanh(ipu.log(-ipu.matmul(x, ipu.ones{1000, 64})) * 2))
    end
    local line <const> = debug.getinfo(chain, "S").linedefined + 2
    for _, threads in ipairs{1, 2} do
      ipu.set_num_threads(threads)
      configured(trap("inv"), function()
        local _, message = pcall(ipu.func(chain), many)
        assert.matches(line .. ": Tiles in excepted state: an invalid operation %(inv%) in log$",
          message)
        _, message = pcall(ipu.func(product), many)
        assert.matches("%(inv%) in log$", message)
      end)
    end
    ipu.set_num_threads(0)
  end)

  describe("where it traps, in a fused program", function()
    local inf <const>, int32 <const> = math.huge, {dtype = "int32"}
    local function says(words, f, ...)
      local ok, message = configured(trap("set_all"), pcall, ipu.func(f), ...)
      assert.is_false(ok)
      assert.matches(words .. "$", message)
    end
    local function gives(want, f, ...)
      assert.same(want, configured(trap("set_all"), ipu.func(f), ...):totable())
    end

    it("lets pass what is within the range, or was infinite before", function()
      gives({2, 5, 65472}, function(x) return x * x + 1 end, f16{1, 2, 255.875})
      gives({1, 4, inf}, function(x) return ipu.where(ipu.greater(x, 1), x * 2, x) end,
        f16{1, 2, inf})
      gives({1, inf}, function(x) return ipu.where(ipu.greater(x, 1), x, x + 0) end,
        ipu.tensor{1, inf})
      gives({2, 3, 4}, function(x) return ipu.cast(x + 1, "int32") end, ipu.tensor{1, 2, 3.5})
    end)
    it("looks at floats of 32 bits and below alone", function()
      -- twice the number that has the bits of 1.5 has the bits of an infinity
      gives({2139095040, 2}, function(x) return x + x end, ipu.tensor({1069547520, 1}, int32))
      gives({2, inf}, function(x) return x * x + 1 end,
        ipu.tensor({1, 1e200}, {dtype = "float64"}))
      gives({false, true}, function(x) return ipu.less(x, x + 1) end, ipu.tensor{inf, 1})
    end)
    it("finds it beside operands that are one element for all", function()
      says("%(div0%) in div", function(x, y) return (x + 1) / y end, ipu.ones{3}, ipu.tensor(0.0))
      says("%(div0%) in log", function(x, y) return (x + 1) * ipu.log(y) end, ipu.ones{3},
        ipu.tensor(0.0))
      says("%(inv%) in cast", function(x)
        return ipu.cast(ipu.broadcast_to(x, {3}), "int32")
      end, ipu.tensor(0 / 0))
      gives({1, 1.5}, function(x, y) return (x + 1) / y end, ipu.tensor{1, 2}, ipu.tensor(2.0))
    end)
    it("finds it at the last element of many", function()
      says("%(inv%) in cast", function(x) return ipu.cast(x + 1, "int32") end,
        ipu.tensor{1, 2, 0 / 0})
      says("%(oflo%) in mul", function(x) return x * x end, f16{1, 2, 300})
    end)
    -- The second step fails in the first piece of the elements, the first step in a later one, and
    -- the other way round.
    it("names the first step, wherever among the elements", function()
      local at <const> = ipu.arange(100000)
      local function hole(i) return ipu.cast(ipu.not_equal(at, i), "float32") end
      for _, places in ipairs{{99999, 0}, {0, 99999}, {1500, 0}, {0, 1500}} do
        says("%(div0%) in reciprocal", function(x, y) return ipu.reciprocal(x) * ipu.log(y) end,
          hole(places[1]), hole(places[2]))
      end
    end)
  end)

  it("tells what traps, whatever came before it that doesn't", function()
    local function sum(x)
      local y = ipu.exp(x * 1000) -- an overflow
      return ipu.log(-x) + y
    end
    configured(trap("inv"), function()
      local _, message = pcall(ipu.func(sum), ipu.ones{4})
      assert.matches("%(inv%) in log$", message)
    end)
    configured(trap("oflo"), function()
      local _, message = pcall(ipu.func(sum), ipu.ones{4})
      assert.matches("%(oflo%) in exp$", message)
    end)
  end)

  it("of an overflow is NaN with nanoo", function()
    for i = 2, 4 do
      local x = configured(trap("nanoo"), cases[i][3]):item()
      assert.is_true(x ~= x, cases[i][1])
    end
  end)

  it("leaves infinities what they are in a cast to float16", function()
    assert.same({math.huge, -math.huge, 65504},
      ipu.cast(ipu.tensor{math.huge, -math.huge, 1e6}, "float16"):totable())
  end)

  -- The norm is infinite, and so the scale isn't a number: of no element in the first result.
  it("of a NaN in a later result of an op", function()
    local function clipped(x)
      return ipu.clip_by_global_norm({ipu.zeros{0}, x}, 1)[2]
    end
    local x <const> = ipu.tensor{1, math.huge}
    for _, element in ipairs(clipped(x):totable()) do assert.is_true(element ~= element) end
    configured(trap("inv"), function()
      local _, message = pcall(ipu.func(clipped), x)
      assert.matches("%(inv%) in clip_by_global_norm$", message)
    end)
  end)

  it("leaves the device usable after a trap", function()
    configured(trap("inv"), function()
      assert.is_false(pcall(cases[6][3]))
      assert.equal(3, ipu.func(ipu.sqrt)(ipu.tensor(9.0)):item())
    end)
  end)

  it("row 29: adds up in float16 with half partials only", function()
    local a, b = ipu.full({1, 4096}, 1, {dtype = "float16"}),
      ipu.full({4096, 1}, 0.3, {dtype = "float16"})
    local product = function() return ipu.func(ipu.matmul)(a, b):item() end
    assert.near(4096 * 0.30004883, product(), 1) -- 0.3 as float16; the sum rounds once
    local half = configured(function(cfg) cfg.matmuls.poplar_options = {partialsType = "half"} end,
      product)
    assert.is_true(half < 1100) -- beyond 1024 a half steps by 1: 0.3 is lost
  end)

  -- 4096 products of 0.3: 1229.0 in float32; in float16 a sum stops below 1100, where steps are 1.
  it("row 29: is the same in an op at once, of known operands, in a function and in gradients",
    function()
      local a, b = ipu.full({1, 4096}, 1, {dtype = "float16"}),
        ipu.full({4096, 1}, 0.3, {dtype = "float16"})
      local x, k = ipu.reshape(a, {1, 64, 64, 1}), ipu.reshape(b, {64, 64, 1, 1})
      local programs <const> = {
        matmul = {ipu.matmul, a, b}, conv2d = {ipu.nn.conv2d, x, k},
        einsum = {function(y, z) return ipu.einsum("ij,jk->ik", y, z) end, a, b},
        gradient = {function(y, z)
          local tape <const> = ipu.GradientTape()
          tape:watch(y)
          local of <const> = tape(function() return ipu.matmul(y, ipu.transpose(z)) end)
          return tape:gradient(of, y)
        end, ipu.ones({1, 1}, {dtype = "float16"}), b},
      }
      local function half_options(cfg)
        cfg.matmuls.poplar_options = {partialsType = "half"}
        cfg.convolutions.poplar_options = {partialsType = "half"}
      end
      for name, program in pairs(programs) do
        local f, y, z = table.unpack(program)
        local forms <const> = {
          eager = function() return f(y, z):item() end,
          known = function() return ipu.func(function() return f(y, z) end)():item() end,
          compiled = function() return ipu.func(f)(y, z):item() end,
        }
        for form, run in pairs(forms) do
          local what <const> = name .. ", " .. form
          assert.near(1229, run(), 1, what)
          assert.is_true(configured(half_options, run) < 1100, what)
          assert.is_true(ipu.partials_type("float16")(run) < 1100, what)
          assert.near(1229, configured(half_options, function()
            return ipu.partials_type("float32")(run)
          end), 1, what)
        end
      end
    end)

  it("row 29: an einsum adds up as the products that it stands for", function()
    local function random(shape, seed)
      return ipu.cast(ipu.random.uniform(shape, {seed = seed}), "float16")
    end
    local a, b, c = random({7, 301}, 1), random({301, 5}, 2), random({5, 11}, 3)
    local x, y, z = random({3, 40, 6}, 4), random({3, 8, 40}, 5), random({4, 5, 50}, 6)
    local chain <const> = function() return ipu.einsum("ij,jk,kl->il", a, b, c) end
    ipu.partials_type("float16")(function()
      local function same(one, other) assert.same(one:totable(), other:totable()) end
      same(ipu.matmul(ipu.matmul(a, b), c), chain())
      same(ipu.matmul(y, x), ipu.einsum("bij,bki->bkj", x, y))
      same(ipu.matmul(ipu.reduce_sum(z, {axis = 2}), c), ipu.einsum("ijs,jk->ik", z, c))
    end)
    assert.not_same(ipu.partials_type("float16")(chain):totable(), chain():totable())
  end)

  -- A gradient adds up as the op does that it belongs to, wherever it is asked for.
  it("row 29: of a gradient is set by its op's scope", function()
    local x, w = ipu.ones({1, 1}, {dtype = "float16"}), ipu.full({1, 4096}, 0.3,
      {dtype = "float16"})
    local function slope(forward, backward)
      local tape <const> = ipu.GradientTape()
      tape:watch(x)
      local y <const> = ipu.partials_type(forward)(function()
        return tape(function() return ipu.matmul(x, w) end)
      end)
      return ipu.partials_type(backward)(function() return tape:gradient(y, x) end)
    end
    for _, f in ipairs{slope, ipu.func(slope)} do
      assert.is_true(f("float16", "float32"):item() < 1100)
      assert.near(1229, f("float32", "float16"):item(), 1)
    end
  end)

  it("row 29: of convolutions has an option of its own, for all three passes", function()
    local x, k = ipu.full({1, 64, 64, 1}, 1, {dtype = "float16"}),
      ipu.full({64, 64, 1, 1}, 0.3, {dtype = "float16"})
    local f = ipu.func(function(image, kernel)
      local y = ipu.nn.conv2d(image, kernel)
      local g = ipu.gradients(ipu.reduce_sum(y * 2), {image, kernel})
      return y, ipu.gradients(y, {image, kernel})[2], g[1],
        ipu.matmul(image:reshape{1, 4096}, kernel:reshape{4096, 1})
    end)
    local function run()
      local list = {f(x, k)}
      return list[1]:item(), list[2]:totable()[1][1][1][1], list[3]:totable()[1][1][1][1],
        list[4]:item()
    end
    local y, _, _, product = run()
    assert.near(4096 * 0.30004883, y, 1)
    local half, dk, dx, still = configured(function(cfg)
      cfg.convolutions.poplar_options = {partialsType = "half"}
    end, run)
    assert.is_true(half < 1100)
    assert.equal(product, still)
    assert.equal(1, dk) -- sums of one product
    assert.near(0.6, dx, 1e-3)
    -- 4096 results of one channel: the kernel's gradient sums as many ones, and stops where 1 is
    -- less than half a step.
    local counted = configured(function(cfg)
      cfg.convolutions.poplar_options = {partialsType = "half"}
    end, function()
      return ipu.func(function(image, kernel)
        return ipu.gradients(ipu.nn.conv2d(image, kernel), {kernel})[1]
      end)(
        x, ipu.ones({1, 1, 1, 1}, {dtype = "float16"})):item()
    end)
    assert.equal(2048, counted)
  end)

  it("row 29: of convolutions in float16 agrees with float32 where sums are exact", function()
    local function integers(shape, seed)
      return ipu.cast(ipu.random.uniform(shape,
        {minval = -3, maxval = 4, seed = seed, dtype = "int32"}), "float16")
    end
    local function all(options)
      local x, k, d = integers({2, 6, 5, 4}, 1), integers({3, 2, 2, 6}, 2),
        integers({2, 1, 3, 4}, 3)
      local y = ipu.nn.conv2d(x, k, {strides = {2, 1}, padding = "SAME", groups = 2})
      local z = ipu.nn.depthwise_conv2d(x, integers({2, 2, 4, 2}, 4), {dilations = 2})
      local t = ipu.nn.conv2d_transpose(x, integers({3, 3, 2, 4}, 5),
        {strides = 2, padding = "VALID"})
      local g =
        ipu.gradients(ipu.reduce_sum(y * d:reshape{2, 1, 3, 4}:tile{1, 3, 2, 2}:slice({0, 0, 0, 0},
          {2, 3, 5, 6})), {x, k})
      return y, z, t, g[1], g[2], options
    end
    local function lists()
      local list = {ipu.func(all)()}
      for i, t in ipairs(list) do list[i] = t:totable() end
      return list
    end
    local wide = lists()
    assert.same(wide,
      configured(function(cfg) cfg.convolutions.poplar_options = {partialsType = "half"} end,
        lists))
  end)

  it("row 30: has stable statistics when asked for", function()
    local x = ipu.tensor{{1e4, 1e4 + 1}}
    local norm = function()
      return ipu.func(ipu.nn.layer_norm)(x, ipu.ones{2}, ipu.zeros{2}):totable()[1]
    end
    local y = configured(function(cfg) cfg.norms.use_stable_statistics = true end, norm)
    for i, want in ipairs {-1, 1} do
      assert.near(want * 0.5 / math.sqrt(0.25 + 1e-5), y[i], 1e-2)
    end
  end)
end)

describe("checking numerics", function()
  local function checked(f)
    ipu.enable_check_numerics()
    local _ <close> = setmetatable({}, {__close = ipu.disable_check_numerics})
    return pcall(f)
  end

  it("stops at the op that made the first NaN, with its line and what it was given", function()
    local f = ipu.func(function(x, y)
      local a = x * 2
      return ipu.reduce_sum(ipu.log(a - y) + 1)
    end)
    assert.is_true(checked(function() return f(ipu.tensor{1, 2}, ipu.tensor{1, 1}) end))
    local ok, message = checked(function() return f(ipu.tensor{1, 2}, ipu.tensor{1, 5}) end)
    assert.is_false(ok)
    assert.matches("numerics_spec%.lua:" .. debug.getinfo(1, "l").currentline - 5
      .. ": check_numerics: op log %(.*numerics_spec%.lua:" .. debug.getinfo(1, "l").currentline - 6
      .. "%): nan at %[1%] of float32%[2%]", message)
    assert.matches("1 NaN; its operands: x float32%[2%] from %-1 to 1", message)
  end)

  it("names the layer, in Keras", function()
    local keras = ipu.keras
    local model = keras.Sequential{
      keras.layers.Input{shape = {3}}, keras.layers.Dense{2, name = "fine"},
      keras.layers.Dense{2, name = "bad", activation = function(x) return ipu.sqrt(x - 100) end},
    }
    model:compile{loss = "mse", optimizer = "sgd"}
    local ok, message = checked(function()
      model:fit{x = ipu.ones{4, 3}, y = ipu.ones{4, 2}, batch_size = 4, verbose = 0}
    end)
    assert.is_false(ok)
    assert.matches("check_numerics: layer 'bad', op sqrt %(.*numerics_spec%.lua:%d+%): nan at "
      .. "%[0, 0%] of .*8 NaN; its operands: .* from %-%d+", message)
  end)

  it("finds what a gradient makes, and what comes from a dataset", function()
    local f = ipu.func(function(x) return ipu.gradients(ipu.sqrt(x), {x})[1] end)
    local ok, message = checked(function() return f(ipu.tensor{0.0}) end)
    assert.is_false(ok)
    assert.matches("in a gradient", message)
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.tensor{0 / 0}):repeat_n())
    local g = ipu.func(function()
      return ipu.loops.repeat_n(2, function(s, x) return s + x end, {ipu.zeros{1}}, infeed)
    end)
    ok, message = checked(g)
    assert.is_false(ok)
    assert.matches("op infeed_dequeue .*: nan at %[0%]", message)
  end)

  it("lets infinite masks pass", function()
    local f = ipu.func(function(x, m) return ipu.nn.softmax(x + m) end)
    assert.is_true(checked(function() return f(ipu.tensor{1, 2}, ipu.tensor{0, -math.huge}) end))
  end)

  it("changes no bit", function()
    local f = ipu.func(function(x, w)
      local h = ipu.nn.relu(x:matmul(w) + 0.5) * 3
      local loss = ipu.reduce_mean(ipu.square(ipu.nn.softmax(h) - 0.1))
      return loss, ipu.gradients(loss, {w})[1]
    end)
    local x, w = ipu.random.normal({8, 5}, {seed = 1}), ipu.random.normal({5, 7}, {seed = 2})
    local loss, grad = f(x, w)
    local results
    assert.is_true(checked(function() results = {f(x, w)} end))
    assert.equal(loss:item(), results[1]:item())
    assert.same(grad:totable(), results[2]:totable())
  end)

  it("can be switched on from outside", function()
    local command = os.getenv("IPULUA") or "build/ipulua"
    local script = "local ipu = require 'ipulua'; ipu.func(ipu.sqrt)(ipu.tensor(-1.0))"
    local pipe = io.popen("IPULUA_ENGINE_OPTIONS='{\"debug.floatPointOpException\": \"true\"}' "
      .. command
      .. " -e \"" .. script .. "\" 2>&1")
    local text = pipe:read("a")
    pipe:close()
    assert.matches("check_numerics: op sqrt .*: nan at %[%]", text)
  end)
end)
