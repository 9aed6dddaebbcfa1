local ipu = require "ipulua"

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, text in ipairs {...} do
    assert.is_truthy(tostring(message):find(text, 1, true), message)
  end
end

describe("a session", function()
  before_each(function() ipu.reset_default_graph() end)

  local function placeholders(n)
    local list = {}
    for i = 1, n do list[i] = ipu.placeholder("float32", {2}, {name = ("abcdef"):sub(i, i)}) end
    return table.unpack(list)
  end

  it("rows 43, 44: gives fetched values in the fetches' structure", function()
    local a, b = placeholders(2)
    local sess <close> = ipu.Session()
    local feeds = {feed_dict = {[a] = {1, 2}, [b] = {10, 20}}}
    assert.same({11, 22}, sess:run(a + b, feeds):totable())
    local list = sess:run({a + b, a * b}, feeds)
    assert.same({{11, 22}, {10, 40}}, {list[1]:totable(), list[2]:totable()})
    local dict = sess:run({sum = a + b, inner = {a}}, feeds)
    assert.same({11, 22}, dict.sum:totable())
    assert.same({1, 2}, dict.inner[1]:totable())
  end)

  it("row 45: names both shapes when a feed has the wrong one", function()
    local a = placeholders(1)
    local sess <close> = ipu.Session()
    fails(function() sess:run(a + 1, {feed_dict = {[a] = {1, 2, 3}}}) end, "float32[3]",
      "float32[2]", "session_spec.lua")
    fails(function() sess:run(a + 1) end, "placeholder 'a'", "feed_dict")
    fails(function()
      sess:run(a + 1, {feed_dict = {[a] = ipu.tensor({1, 2}, {dtype = "int32"})}})
    end, "int32[2]", "cast")
  end)

  it("forgets a graph's variables, and lists them no more", function()
    local kept = ipu.Variable({1, 2}, {name = "kept"})
    local w = ipu.get_variable("w", {shape = {2}})
    local loss = ipu.reduce_sum(w * kept)
    ipu.train.AdamOptimizer(0.1):minimize(loss)
    ipu.train.get_or_create_global_step()
    local function listed()
      local names = {}
      for _, v in ipairs(ipu.global_variables()) do names[v.name] = true end
      return names
    end
    assert.is_true(listed().w and listed().global_step and listed().kept)
    ipu.reset_default_graph()
    assert.is_nil(listed().w)
    assert.is_nil(listed().global_step)
    assert.is_true(listed().kept)
    assert.same({3}, ipu.get_variable("w", {shape = {3}}).shape)
  end)

  it("feeds any value of the graph", function()
    local a = placeholders(1)
    local twice = a * 2
    local sess <close> = ipu.Session()
    assert.same({11, 12}, sess:run(twice + 1, {feed_dict = {[twice] = {10, 11}}}):totable())
  end)

  -- As in TensorFlow, where the gradient of each op reads the value that is fed.
  it("passes a gradient through a fed value", function()
    local x = ipu.placeholder("float32", {2})
    local sess <close> = ipu.Session()
    local function got(value, feeds) return sess:run(value, {feed_dict = feeds}):totable() end
    local y = x * 2
    local dx, dy = table.unpack(ipu.gradients(ipu.reduce_sum(y * y), {x, y}))
    assert.same({40, 160}, got(dx, {[x] = {1, 2}, [y] = {10, 40}})) -- 2 y * 2
    assert.same({40, 160}, got(dx, {[y] = {10, 40}}))
    assert.same({20, 80}, got(dy, {[y] = {10, 40}}))
    local e = ipu.exp(x)
    local de = ipu.gradients(ipu.reduce_sum(e * e), {x})[1]
    assert.same({18, 32}, got(de, {[x] = {0, 0}, [e] = {3, 4}})) -- 2 e * e
    local s = x * x
    local first = ipu.gradients(ipu.reduce_sum(s * s * s), {x})[1]
    local second = ipu.gradients(first, {x})[1]
    assert.same({54, 300}, got(first, {[x] = {1, 2}, [s] = {3, 5}}))   -- 3 s^2 * 2 x
    assert.same({126, 630}, got(second, {[x] = {1, 2}, [s] = {3, 5}})) -- 6 s * (2 x)^2 + 6 s^2
    fails(function() got(first, {[s] = {3, 5}}) end, "has no value", "feed_dict")
    -- its seed may be fed, too, as a placeholder or in place of what is computed
    local g, h = ipu.placeholder("float32", {2}), x * 3
    local by_g = ipu.gradients(y * y, {x}, {grad_ys = {g}})[1]
    local by_h = ipu.gradients(y * y, {x}, {grad_ys = {h}})[1]
    assert.same({40, 480}, got(by_g, {[y] = {10, 40}, [g] = {1, 3}})) -- 2 y * 2 g
    assert.same({120, 960}, got(by_h, {[x] = {1, 2}, [y] = {10, 40}}))
    assert.same({200, 1120}, got(by_h, {[y] = {10, 40}, [h] = {5, 7}}))
    local both = sess:run({first, second}, {feed_dict = {[x] = {1, 2}, [first] = {7, 7}}})
    assert.same({{7, 7}, {30, 480}}, {both[1]:totable(), both[2]:totable()}) -- 30 x^4
  end)

  it("trains through a fed value of the type that the graph computes", function()
    local x = ipu.placeholder("float32", {-1, 2})
    local w = ipu.get_variable("w", {shape = {2, 1}, initializer = "ones"})
    local y = x:matmul(w)
    local loss = ipu.reduce_sum(y * y)
    local train = ipu.train.GradientDescentOptimizer(0.5):minimize(loss)
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    sess:run(train, {feed_dict = {[x] = {{1, 2}}, [y] = {{10}}}})
    assert.same({{-9}, {-19}}, w:totable()) -- 1 - 0.5 * 20 * x
    fails(function() sess:run(train, {feed_dict = {[x] = {{1, 2}}, [y] = {{1}, {2}}}}) end,
      "a fed tensor of float32[2, 1]", "computes float32[1, 1]")
  end)

  it("compiles once for the same fetches and shapes", function()
    local x = ipu.placeholder("float32", {-1, 2})
    local y = ipu.reduce_sum(x)
    local sess <close> = ipu.Session()
    local before = #ipu.programs()
    for _ = 1, 3 do sess:run(y, {feed_dict = {[x] = {{1, 2}}}}) end
    assert.equal(before + 1, #ipu.programs())
    assert.equal(10, sess:run(y, {feed_dict = {[x] = {{1, 2}, {3, 4}}}}):item())
    assert.equal(before + 2, #ipu.programs())
  end)

  it("shows unknown extents as -1 and finds shapes and gradients when they are fed", function()
    local x = ipu.placeholder("float32", {-1, 3})
    local w = ipu.get_variable("w", {shape = {3, 2}, initializer = "ones"})
    local y = x:matmul(w)
    assert.same({-1, 3}, x.shape)
    assert.same({-1, 2}, y.shape)
    assert.same({3}, ipu.reduce_sum(x, {axis = 0}).shape)
    local dx, dw = table.unpack(ipu.gradients(ipu.reduce_sum(y), {x, w}))
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    for rows = 1, 3 do
      local fed = ipu.ones{rows, 3}
      local got = sess:run({dx, dw}, {feed_dict = {[x] = fed}})
      assert.same({rows, 3}, got[1].shape)
      assert.equal(rows, got[2][1][1]:item())
    end
  end)

  it("gives no number for what is not known before it is fed", function()
    local x, y = ipu.placeholder("float32", {-1, 3}), ipu.placeholder("float32", {2, -1})
    local sums = ipu.placeholder("float32", {4, 3})
    for _, f in ipairs {function() return x.size end, function() return #x end,
      function() return x[1] end, function() return y.size end,
      function() for _ in ipairs(x * 2) do error("a row") end end,
      function() return (x + 1).size end} do
      fails(f, "is not known until a session feeds it", "session_spec.lua")
    end
    assert.same({2, 12, 4}, {#y, sums.size, #sums})
    local sess <close> = ipu.Session()
    assert.same({4, 5, 6}, sess:run(y[2], {feed_dict = {[y] = {{1, 2, 3}, {4, 5, 6}}}}):totable())
    assert.equal(1, sess:run(x:reduce_mean(), {feed_dict = {[x] = ipu.ones{7, 3}}}):item())
  end)

  it("refuses to look up trained rows where they would not be trained", function()
    local ids = ipu.placeholder("int32", {2})
    local spec = ipu.HostEmbeddingOptimizerSpec(0.5)
    local trained = ipu.create_host_embedding("e", {10, 1}, "float32",
      {optimizer_spec = spec, initializer = "ones"})
    local fixed = ipu.create_host_embedding("f", {10, 1}, "float32", {initializer = "ones"})
    fails(function() trained:lookup(ids) end, "'e' is trained", "ipu_compiler.compile")
    local sess <close> = ipu.Session()
    local fed = {feed_dict = {[ids] = {1, 2}}}
    assert.same({{1}, {1}}, sess:run(fixed:lookup(ids), fed):totable())
    local w = ipu.get_variable("w", {shape = {1}, initializer = "ones"})
    local op = ipu.ipu_compiler.compile(function(i)
      return ipu.train.GradientDescentOptimizer(0.1):minimize(ipu.reduce_sum(trained:lookup(i) * w))
    end, {ids})
    sess:run(ipu.global_variables_initializer())
    sess:run(op, fed)
    assert.same({{1}, {0.5}, {0.5}}, trained:lookup{0, 1, 2}:totable()) -- 1 - 0.5 * 1
  end)

  it("runs updates only when they are fetched", function()
    local v = ipu.get_variable("v", {shape = {}, initializer = 1})
    local plus, double = v:assign_add(1), v:assign(v * 2)
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    assert.equal(2, sess:run(plus):item())
    assert.equal(4, sess:run(double):item())
    assert.equal(4, sess:run(v):item())
    assert.equal(4, v:item())
    -- in the order in which the script made them
    assert.equal(10, sess:run({plus, double})[2]:item())
  end)

  it("reads a variable before the updates that the script wrote later", function()
    local v = ipu.get_variable("v", {shape = {}, initializer = 3})
    local before = v * 10
    local update = v:assign(7)
    local after = v * 10
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    local got = sess:run{before, update, after}
    assert.same({30, 7, 70}, {got[1]:item(), got[2]:item(), got[3]:item()})
  end)

  it("row 46: refuses to read a variable that has no value yet", function()
    local v = ipu.get_variable("late", {shape = {2}})
    local sess <close> = ipu.Session()
    fails(function() sess:run(v) end, "'late'", "initialised")
    assert.equal("failed_precondition", ipu.last_error().kind)
    fails(function() sess:run(v + 1) end, "'late'")
    sess:run(ipu.global_variables_initializer())
    assert.same({2}, sess:run(v + 1).shape)
  end)

  it("trains with every optimizer of ipu.train", function()
    local x, t = ipu.placeholder("float32", {-1, 2}), ipu.placeholder("float32", {-1, 1})
    local w = ipu.get_variable("w", {shape = {2, 1}, initializer = 0.5})
    local loss = ipu.reduce_mean(ipu.square(x:matmul(w) - t))
    local step_count = ipu.train.get_or_create_global_step()
    local sess <close> = ipu.Session()
    for _, opt in ipairs {
      ipu.train.GradientDescentOptimizer(0.1), ipu.train.MomentumOptimizer(0.05, 0.5),
      ipu.train.AdamOptimizer(0.1),
      ipu.train.RMSPropOptimizer(0.1), ipu.train.AdagradOptimizer(0.5),
    } do
      local train = opt:minimize(loss, {global_step = step_count})
      sess:run(ipu.global_variables_initializer())
      local feeds = {feed_dict = {[x] = {{1, 2}, {3, -1}}, [t] = {{5}, {1}}}}
      local first = sess:run(loss, feeds):item()
      for _ = 1, 40 do
        local got = sess:run({loss, train}, feeds)
        assert.is_nil(got[2])
      end
      assert.is_true(sess:run(loss, feeds):item() < first / 3)
      assert.equal(40, sess:run(step_count):item())
      assert.equal(0.5, 0.5)
    end
    assert.same({2, 1}, w.shape)
  end)

  it("can't be used after it was closed, or inside a traced function", function()
    local a = placeholders(1)
    local sess = ipu.Session()
    fails(function() ipu.func(function() return sess:run(a) end)() end, "traced function")
    sess:close()
    fails(function() sess:run(a, {feed_dict = {[a] = {1, 2}}}) end, "closed")
  end)

  it("draws new random numbers at each run", function()
    local x = ipu.placeholder("float32", {64})
    local y = ipu.nn.dropout(x, {rate = 0.5})
    local sess <close> = ipu.Session()
    local feeds = {feed_dict = {[x] = ipu.ones{64}}}
    assert.not_same(sess:run(y, feeds):totable(), sess:run(y, feeds):totable())
  end)

  it("keeps the 256 programs that ran last, and draws on where one of them is gone", function()
    local x = ipu.placeholder("float32", {-1})
    local y, kept = ipu.reduce_sum(x), ipu.nn.dropout(x, {rate = 0.5})
    local sess <close> = ipu.Session()
    ipu.reset_ipu_configuration() -- programs are counted from here
    local function compiled() return #ipu.programs() end
    local function sums(from, to)
      local before = compiled()
      for i = from, to do
        assert.equal(i, sess:run(y, {feed_dict = {[x] = ipu.ones{i}}}):item())
      end
      return compiled() - before
    end
    assert.equal(256, sums(1, 256))
    assert.equal(0, sums(1, 256))
    assert.equal(1, sums(257, 257)) -- in the place of 1
    assert.equal(0, sums(3, 257))
    assert.equal(1, sums(1, 1)) -- in the place of 2
    assert.equal(0, sums(3, 257))
    local job = sess:run_async(y, {feed_dict = {[x] = ipu.ones{300}}})
    sums(400, 660)
    assert.equal(300, job:wait():item())
    local feeds = {feed_dict = {[x] = ipu.ones{64}}}
    local first = sess:run(kept, feeds):totable()
    sums(1, 256)
    assert.not_same(first, sess:run(kept, feeds):totable())
  end)

  it("reads variables when it runs, whatever takes them", function()
    local a = ipu.get_variable("a", {shape = {2}, initializer = "zeros"})
    local b = ipu.get_variable("b", {shape = {2}, initializer = "ones"})
    local plain = ipu.Variable(ipu.zeros{2})
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    local set = b:assign{5, 7}
    local copy, add, other = a:assign(b), a:assign_add(b), plain:assign(b)
    local values <const> = {
      loop = {ipu.loops.repeat_n(3, function(s) return s + b end, {ipu.zeros{2}}), {15, 21}},
      ["while"] = {ipu.while_loop(function(s) return ipu.less(ipu.reduce_sum(s), 20) end,
        function(s) return s + b end, {ipu.zeros{2}}), {10, 14}},
      ["function"] = {ipu.func(function(x, list) return x * list[1] end)(b, {b}), {25, 49}},
      tensor = {ipu.tensor(b), {5, 7}},
      cast = {ipu.tensor(b, "int32"), {5, 7}},
      list = {ipu.tensor{b, {1, 2}}, {{5, 7}, {1, 2}}},
      operand = {ipu.ones{2} * {b[1], b[2] * 2}, {5, 14}},
    }
    assert.same({0, 0}, plain:totable())
    sess:run(set)
    for name, value in pairs(values) do
      assert.message(name).same(value[2], sess:run(value[1]):totable())
    end
    sess:run(copy)
    assert.same({5, 7}, sess:run(a):totable())
    sess:run(add)
    assert.same({10, 14}, sess:run(a):totable())
    sess:run(other)
    assert.same({5, 7}, plain:totable())
  end)

  it("has loops at once where their bodies read nothing of a session's", function()
    local made = 0
    local y = ipu.loops.repeat_n(2, function(s)
      made = made + 1
      local w = ipu.get_variable("w" .. made, {shape = {2}, initializer = "ones"})
      return s + w
    end, {ipu.zeros{2}})
    assert.same({2, 2}, y:totable())
    assert.equal(1, made)
    fails(function()
      ipu.loops.repeat_n(2, function(_) error("the body's own") end, {ipu.zeros{2}})
    end, "the body's own", "session_spec.lua")
  end)

  it("finds an extent that reshape leaves open when it is fed", function()
    local x = ipu.placeholder("float32", {-1, 6})
    local y = ipu.reshape(x, {-1, 3})
    local slope = ipu.gradients(ipu.reduce_sum(y * y), {x})[1]
    assert.same({-1, 3}, y.shape)
    local sess <close> = ipu.Session()
    for _, rows in ipairs{7, 2, 7} do
      local fed = ipu.random.normal({rows, 6}, {seed = rows})
      local got = sess:run({y, ipu.reshape(ipu.transpose(x), {6, -1}), slope},
        {feed_dict = {[x] = fed}})
      assert.same(fed:reshape{2 * rows, 3}:totable(), got[1]:totable())
      assert.same(ipu.transpose(fed):totable(), got[2]:totable())
      assert.same((fed * 2):totable(), got[3]:totable())
    end
  end)

  it("refuses loops and custom gradients whose extents are not known", function()
    local x = ipu.placeholder("float32", {-1, 6})
    local function same(a) return a end
    fails(function() ipu.loops.repeat_n(2, same, {x}) end,
      "repeat_n: carried value 1 is float32[-1, 6]; loops need full static shapes, without -1",
      "session_spec.lua")
    fails(function() ipu.while_loop(function() return true end, same, {x}) end,
      "while_loop: carried value 1 is float32[-1, 6]", "session_spec.lua")
    fails(function() ipu.custom_gradient(function(a) return a, same end)(x) end,
      "custom gradients need full static shapes", "session_spec.lua")
  end)

  it("refuses what needs to know an extent that is fed", function()
    local x = ipu.placeholder("float32", {-1, 3})
    for words, f in pairs{
      ["unstack: how many results there are is not known until a session feeds it"] = function()
        ipu.unstack(x, {axis = 0})
      end,
      ["nonzero: the extent of axis 0 is not known"] = function()
        ipu.nonzero(x, {size = 3, fill = -1})
      end,
      ["boolean_mask: the extent of axis 0 is not known"] = function()
        ipu.boolean_mask(x, ipu.greater(x, 1), {size = 3, fill = -1})
      end,
      ["unique: the extent of axis 0 is not known"] = function()
        ipu.unique(x, {size = 3, fill = -1})
      end,
      ["host_callback: output 1 has the extent -1"] = function()
        ipu.host_callback(print, {outputs = {{{-1, 3}, "float32"}}})
      end,
    } do
      local ok, message = pcall(f)
      assert.is_false(ok, words)
      assert.matches(words, message, 1, true)
    end
    local sess <close> = ipu.Session()
    local columns = table.pack(ipu.unstack(x, {axis = 1}))
    assert.equal(3, columns.n)
    local last = sess:run(columns[3], {feed_dict = {[x] = {{1, 2, 3}, {4, 5, 6}}}})
    assert.same({3, 6}, last:totable())
  end)

  it("drops, normalises and measures batches whose size is fed", function()
    local x = ipu.placeholder("float32", {-1, 3})
    local kept = ipu.nn.dropout(x, {rate = 0.5, noise_shape = {-1, 1}})
    local loss = ipu.keras.losses.MeanSquaredError()(x, x - 2 * x)
    local picture = ipu.placeholder("float32", {-1, 1, 2, 1})
    local layer = ipu.keras.layers.BatchNormalization{momentum = 0.5}
    local normal = layer(picture, {training = true})
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    for _, rows in ipairs{400, 7} do
      local fed = ipu.ones{rows, 3}
      local whole, zeros = sess:run(kept, {feed_dict = {[x] = fed}}):totable(), 0
      for _, row in ipairs(whole) do -- each row has one draw
        assert.is_true(row[1] == row[2] and row[2] == row[3] and (row[1] == 0 or row[1] == 2))
        zeros = zeros + (row[1] == 0 and 1 or 0)
      end
      assert.equal(rows, #whole)
      assert.is_true(rows < 400 or math.abs(zeros - 200) < 50) -- five standard deviations
      assert.equal(4, sess:run(loss, {feed_dict = {[x] = fed}}):item())
    end
    -- of 1, 2, 3 and 6 the mean is 3, the variance 14/4, and 14/3 without bias
    local out = sess:run(normal, {feed_dict = {[picture] = {{{{1}, {2}}}, {{{3}, {6}}}}}})
    assert.is_true(math.abs(out[2][1][2]:item() - 3 / math.sqrt(3.5 + 1e-3)) < 1e-5)
    assert.is_true(math.abs(layer.moving_variance:item() - (0.5 + 0.5 * 14 / 3)) < 1e-5)
    assert.equal(1.5, layer.moving_mean:item())
  end)

  it("draws anew and assigns in functions at each run", function()
    local x = ipu.placeholder("float32", {8})
    local v = ipu.Variable(0.0)
    for name, wrap in pairs{func = ipu.func, outlined_function = ipu.outlined_function} do
      v:assign(0)
      local drawn, other = wrap(function(a)
        v:assign_add(ipu.reduce_sum(a))
        v:assign_add(1)
        return a * ipu.random.uniform{8}, a * 2
      end)(x)
      local sess <close> = ipu.Session()
      local fed = {feed_dict = {[x] = ipu.ones{8}}}
      local first, second = sess:run(drawn, fed):totable(), sess:run(drawn, fed):totable()
      for i = 1, 8 do assert.not_equal(first[i], second[i], name) end
      assert.equal(18, v:item(), name)
      sess:run(other, fed) -- either result takes the function's effects along
      assert.equal(27, v:item(), name)
      sess:run({drawn, other}, fed)
      assert.equal(36, v:item(), name)
    end
  end)

  it("trains a layer's weights in half precision, and by its penalties", function()
    local keras = ipu.keras
    local x = ipu.placeholder("float32", {-1, 2})
    local fed = {feed_dict = {[x] = {{1, 2}, {3, 4}}}}
    finally(function() keras.mixed_precision.set_global_policy("float32") end)
    for _, policy in ipairs{"float32", "mixed_float16"} do
      keras.mixed_precision.set_global_policy(policy)
      local dense = keras.layers.Dense{1, kernel_initializer = "ones", use_bias = false,
        kernel_regularizer = keras.regularizers.L2(0.5)}
      local model = keras.Sequential{dense}
      local loss = ipu.reduce_mean(ipu.cast(model(x), "float32")) + model.losses[1]
      local step = ipu.train.GradientDescentOptimizer(0.25):minimize(loss,
        {var_list = model.trainable_weights})
      local sess <close> = ipu.Session()
      sess:run(ipu.global_variables_initializer())
      assert.equal(6, sess:run(loss, fed):item()) -- mean of 3 and 7, and half of two squares
      sess:run(step, fed) -- means of the columns are 2 and 3; the penalty's slope is the weight
      assert.same({{1 - 0.25 * 3}, {1 - 0.25 * 4}}, dense.kernel:totable())
      assert.equal(0.25 * 2 + 0.5 * (0.25 * 0.25), sess:run(loss, fed):item())
      model(ipu.ones{1, 2}) -- called at once, its penalty is a number again
      assert.equal(0.5 * 0.25 * 0.25, model.losses[1]:item())
    end
  end)

  it("assigns what a layer assigns in each run that computes the layer's output", function()
    local keras = ipu.keras
    local Counter = keras.layers.Layer:extend "Counter"
    function Counter:build()
      self.n = self:add_weight{name = "n", shape = {}, initializer = "zeros", trainable = false}
    end
    function Counter:call(x, options)
      if options.training then self.n:assign_add(ipu.reduce_sum(x)) end
      return x * 2
    end
    local x = ipu.placeholder("float32", {-1, 2})
    local counter = Counter()
    local normal = keras.layers.BatchNormalization{momentum = 0.5}
    local model = keras.Sequential{counter, normal, keras.layers.Dense(1)}
    local trained, used = model(x, {training = true}), model(x, {training = false})
    local step = ipu.train.GradientDescentOptimizer(0.5):minimize(ipu.reduce_mean(trained))
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    local fed = {feed_dict = {[x] = {{1, 2}, {3, 6}}}}
    for i = 1, 3 do
      sess:run(step, fed)
      assert.equal(12 * i, counter.n:item())
      sess:run(used, fed)
      assert.equal(12 * i, counter.n:item())
    end
    -- means of 4 and 8 and variances of 4 and 16 in three steps of a half
    assert.same({4 * 0.875, 8 * 0.875}, normal.moving_mean:totable())
    assert.same({0.125 + 4 * 0.875, 0.125 + 16 * 0.875}, normal.moving_variance:totable())
    sess:run(trained, fed)
    assert.equal(48, counter.n:item())
    counter(ipu.placeholder("float32", {3}), {training = true}) -- is not computed
    sess:run(trained, fed)
    assert.equal(60, counter.n:item())
  end)

  it("branches and loops over what is fed", function()
    local a = ipu.placeholder("float32", {})
    local y = ipu.cond(ipu.greater(a, 0), function() return a * 2 end, function() return a - 1 end)
    local z = ipu.loops.repeat_n(3, function(v) return v * 2 end, {a})
    local sess <close> = ipu.Session()
    assert.equal(6, sess:run(y, {feed_dict = {[a] = 3}}):item())
    assert.equal(-4, sess:run(y, {feed_dict = {[a] = -3}}):item())
    assert.equal(24, sess:run(z, {feed_dict = {[a] = 3}}):item())
  end)

  it("says what to do with a symbolic value that is read", function()
    local a = placeholders(1)
    fails(function() return (a + 1):totable() end, "sess:run")
  end)
end)

describe("ipu_compiler.compile", function()
  before_each(function() ipu.reset_default_graph() end)

  it("row 57: gives a list, also of one tensor", function()
    local a = ipu.placeholder("float32", {2})
    local out = ipu.ipu_compiler.compile(function(x) return x * 2 end, {a})
    assert.equal(1, #out)
    local sess <close> = ipu.Session()
    assert.same({2, 4}, sess:run(out, {feed_dict = {[a] = {1, 2}}})[1]:totable())
  end)

  it("row 58: gives an operation when nothing is returned, which runs the effects", function()
    local v = ipu.get_variable("v", {shape = {}, initializer = 0})
    local queue = ipu.IPUOutfeedQueue()
    local op = ipu.ipu_compiler.compile(function()
      ipu.loops.repeat_n(5, function()
        v:assign_add(1)
        queue:enqueue(v)
      end)
    end)
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    assert.is_nil(sess:run(op))
    assert.equal(5, sess:run(v):item())
    assert.same({1, 2, 3, 4, 5}, queue:dequeue():totable())
  end)

  it("row 59: takes tensors before operations, in a flat list", function()
    local a, v = ipu.placeholder("float32", {2}),
      ipu.get_variable("v", {shape = {2}, initializer = 0})
    local opt = ipu.train.GradientDescentOptimizer(0.1)
    fails(function()
      ipu.ipu_compiler.compile(function(x) return {opt:minimize(ipu.reduce_sum(x * v)), x} end, {a})
    end, "tensors come first")
    fails(function() ipu.ipu_compiler.compile(function(x) return {y = x} end, {a}) end, "flat list")
  end)

  it("rows 60, 61: needs full shapes, as many parameters as inputs, and an IPU", function()
    local x = ipu.placeholder("float32", {-1, 2})
    fails(function() ipu.ipu_compiler.compile(function(y) return y end, {x}) end,
      "float32[-1, 2]", "static")
    local a = ipu.placeholder("float32", {2})
    fails(function() ipu.ipu_compiler.compile(function() return a end, {a}) end, "computation",
      "0 parameters", "1 value")
    fails(function()
      ipu.device("cpu")(function()
        return ipu.ipu_compiler.compile(function(y) return y end, {a})
      end)
    end, "not placed on an IPU")
  end)

  it("captures what it uses from outside", function()
    local a, b = ipu.placeholder("float32", {2}), ipu.placeholder("float32", {2})
    local out = ipu.ipu_compiler.compile(function(x) return x + b end, {a})
    local sess <close> = ipu.Session()
    assert.same({4, 6}, sess:run(out, {feed_dict = {[a] = {1, 2}, [b] = {3, 4}}})[1]:totable())
  end)

  it("leaves no trace open after an error", function()
    local a = ipu.placeholder("float32", {2})
    fails(function() ipu.ipu_compiler.compile(function() error("mine") end) end, "mine")
    local sess <close> = ipu.Session()
    assert.same({2, 3}, sess:run(a + 1, {feed_dict = {[a] = {1, 2}}}):totable())
  end)

  it("trains inside, with variables made by name", function()
    local x = ipu.placeholder("float32", {2, 2})
    local out = ipu.ipu_compiler.compile(function(batch)
      local _ <close> = ipu.variable_scope("net", {use_resource = true})
      local w = ipu.get_variable("w", {shape = {2, 1}, initializer = "ones"})
      local loss = ipu.reduce_mean(ipu.square(batch:matmul(w)))
      return loss, ipu.train.GradientDescentOptimizer(0.05):minimize(loss)
    end, {x})
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    local feeds, last = {feed_dict = {[x] = {{1, 2}, {3, 4}}}}, math.huge
    for _ = 1, 3 do
      local loss = sess:run(out, feeds)[1]:item()
      assert.is_true(loss < last)
      last = loss
    end
  end)
end)

describe("get_variable", function()
  before_each(function() ipu.reset_default_graph() end)

  it("row 47: makes a name once, and gives it again with reuse", function()
    local function make() return ipu.get_variable("w", {shape = {2}}) end
    local v = ipu.variable_scope("a")(make)
    assert.equal("a/w", v.name)
    fails(function() ipu.variable_scope("a")(make) end, "a/w", "reuse")
    assert.equal(v, ipu.variable_scope("a", {reuse = true})(make))
    assert.equal(v, ipu.variable_scope("a", {reuse = "auto"})(make))
    fails(function() ipu.variable_scope("b", {reuse = true})(make) end, "b/w")
    local nested = ipu.variable_scope("c")(function() return ipu.variable_scope("d")(make) end)
    assert.equal("c/d/w", nested.name)
  end)

  it("row 48: refuses a variable that is no resource on an IPU", function()
    fails(function()
      local _ <close> = ipu.ipu_scope("/device:IPU:0")
      ipu.get_variable("plain", {shape = {2}, use_resource = false})
    end, "'plain'", "use_resource")
    assert.equal("v",
      ipu.device("cpu")(function()
        return ipu.get_variable("v", {shape = {}, use_resource = false})
      end).name)
  end)

  it("has its value when the function that made it was traced", function()
    local f = ipu.func(function(x)
      return x + ipu.get_variable("w", {shape = {}, initializer = 5})
    end)
    assert.equal(6, f(ipu.tensor(1)):item())
  end)
end)
