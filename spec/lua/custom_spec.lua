-- Gradients and ops that a script or a C library brings along.

local command = require "spec.support.command"
local ipu = require "ipulua"

local x = ipu.tensor{1, 2}

local function fails(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.is_truthy(tostring(message):find(text, 1, true), message)
  assert.is_truthy(tostring(message):find("^[^:]*custom_spec.lua:%d+: "), message)
end

-- Value and gradient of f, traced.
local function differentiated(f)
  local y, g = ipu.func(function(v)
    local y = f(v)
    return y, ipu.gradients(y, {v})[1]
  end)(x)
  return y:totable(), g:totable()
end

local function near(expected, got)
  for i, v in ipairs(expected) do
    assert.is_true(math.abs(v - got[i]) <= 1e-5 * math.abs(v), got[i] .. " is not " .. v)
  end
end

describe("custom_gradient", function()
  -- ten times the true gradient, which the ops' gradient can't be
  local softplus = ipu.custom_gradient(function(v)
    local e = ipu.exp(v)
    return ipu.log(1 + e), function(dy) return dy * (1 - 1 / (1 + e)) * 10 end
  end)
  local value = {math.log(1 + math.exp(1)), math.log(1 + math.exp(2))}
  local slope = {10 / (1 + math.exp(-1)), 10 / (1 + math.exp(-2))}

  it("replaces the gradient of what it wraps: traced, eagerly, in a session", function()
    near(value, softplus(x):totable())
    local y, g = differentiated(softplus)
    near(value, y)
    near(slope, g)
    local tape = ipu.GradientTape()
    local sum = tape(function() return softplus(x) * 2 end)
    near({2 * slope[1], 2 * slope[2]}, tape:gradient(sum, x):totable())
    ipu.reset_default_graph()
    local p = ipu.placeholder("float32", {2})
    local z = softplus(p)
    local session <close> = ipu.Session()
    local results = session:run({z, ipu.gradients(z, {p})[1]}, {feed_dict = {[p] = {1, 2}}})
    near(value, results[1]:totable())
    near(slope, results[2]:totable())
    ipu.reset_default_graph()
  end)

  it("works in loops and branches", function()
    local _, g = differentiated(function(v) return ipu.loops.repeat_n(2, softplus, {v}) end)
    local second = 10 / (1 + math.exp(-value[1]))
    near({slope[1] * second}, g)
    _, g =
      differentiated(function(v) return ipu.cond(ipu.less(0, ipu.reduce_sum(v)), function()
        return softplus(v)
      end,
      function() return v end) end)
    near(slope, g)
  end)

  it("takes and gives several values", function()
    local both = ipu.custom_gradient(function(a, b)
      return a * b, a + b, function(d1, d2) return d1 * 100 + d2, nil end
    end)
    local found = table.pack(ipu.func(function(a, b)
      local p, q = both(a, b)
      local g = ipu.gradients({p, q}, {a, b})
      return p, q, g[1], g[2] == nil
    end)(x, x * 3))
    assert.same({3, 12}, found[1]:totable())
    assert.same({4, 8}, found[2]:totable())
    assert.same({101, 101}, found[3]:totable())
    assert.is_true(found[4])
  end)

  it("explains what it can't take", function()
    fails("must return its value and a function",
      ipu.func(function(v) return (ipu.custom_gradient(function(a) return a end)(v)) end), x)
    fails("returned 2 values for 1 input", ipu.func(function(v)
      return (ipu.custom_gradient(function(a) return a, function(dy) return dy, dy end end)(v))
    end), x)
    fails("gradient of input 1 must be float32[2], got float32[]", ipu.func(function(v)
      return (ipu.custom_gradient(function(a)
        return a, function(dy) return ipu.reduce_sum(dy) end
      end)(v))
    end), x)
  end)
end)

describe("register_op", function()
  it("row 243: adds a function and a method with a gradient", function()
    ipu.register_op{name = "spec_cube", call = function(v, k) return v * v * v * k end,
      gradient = function(dy, v, k, y)
        assert.same(v.shape, y.shape)
        return dy * 3 * v * v * k
      end}
    local y, g = differentiated(function(v) return v:spec_cube(2) end)
    assert.same({2, 16}, y)
    assert.same({6, 24}, g)
    assert.same({2, 16}, ipu.spec_cube(x, 2):totable())
    local second = ipu.func(function(v)
      return ipu.gradients(ipu.gradients(ipu.spec_cube(v, 2), {v})[1], {v})[1]
    end)(x)
    assert.same({12, 24}, second:totable())
  end)

  it("without a gradient takes its ops' gradients", function()
    local op = ipu.register_op{name = "nn.spec_double", call = function(v) return v + v end}
    local _, g = differentiated(ipu.nn.spec_double)
    assert.same({2, 2}, g)
    assert.same({2, 4}, op(x):totable())
  end)

  it("refuses names that are taken or no names", function()
    fails("there is an op 'exp' already", ipu.register_op, {name = "exp", call = print})
    fails("there is an op 'func' already", ipu.register_op, {name = "func", call = print})
    fails("must be a name", ipu.register_op, {name = "a b", call = print})
    -- none that ops stand in
    for _, module in ipairs{"nowhere", "keras", "json", "matmul", "IPUConfig"} do
      fails("there is no module '" .. module .. "' of ops; there are ipu itself and ipu.linalg, "
        .. "ipu.nn, ipu.random", ipu.register_op,
        {name = module .. ".x", call = print})
    end
    fails("ipu.nn, ipu.random; did you mean 'random'?", ipu.register_op,
      {name = "radnom.x", call = print})
  end)
end)

describe("load_op_library", function()
  local built = {}

  local function build(source, row)
    local path = command.scratch()
    path = path .. ".so"
    built[#built + 1] = path
    local call = string.format("cc -O1 -shared -fPIC -Isrc %s -x c -o '%s' %s -lm 2>&1",
      row and "'-DROW=" .. row .. "'" or "", path, source)
    local pipe <close> = assert(io.popen(call))
    local said = pipe:read("a")
    assert(pipe:close(), said)
    return path
  end

  local function build_text(text)
    local path = command.scratch()
    local file <close> = assert(io.open(path, "w"))
    file:write("#include <ipulua_op.h>\n", text)
    file:close()
    built[#built + 1] = path
    return build(path)
  end

  teardown(function()
    for _, path in ipairs(built) do os.remove(path) end
  end)

  it("row 243: gives ops that run, are traced, differentiated and priced", function()
    local library = ipu.load_op_library(build("examples/interop/custom_op.c"))
    local snake = library.snake
    assert.matches("^{snake = ", tostring(library))
    local function expected(v, a) return v + math.sin(a * v) ^ 2 / a end
    near({expected(1, 2), expected(2, 2)}, snake(x, {frequency = 2}):totable())
    near({expected(1, 1), expected(2, 1)}, snake(x):totable())
    local y, g = differentiated(function(v) return snake(v, {frequency = 2}) end)
    near({expected(1, 2), expected(2, 2)}, y)
    near({1 + math.sin(4), 1 + math.sin(8)}, g)
    local tape = ipu.GradientTape()
    local z = tape(function() return ipu.reduce_sum(snake(x) * 2) end)
    near({2 * (1 + math.sin(2)), 2 * (1 + math.sin(4))}, tape:gradient(z, x):totable())
    local _, twice = differentiated(function(v)
      return ipu.loops.repeat_n(2, function(c) return snake(c) end, {v})
    end)
    near({(1 + math.sin(2)) * (1 + math.sin(2 * expected(1, 1)))}, twice)
    fails("snake: frequency must be positive", snake, x, {frequency = -1})
    fails("snake: operands must be float32 or float64", snake, ipu.tensor({1}, {dtype = "int32"}))
    fails("snake has no argument 'frequancy'; did you mean 'frequency'?", snake, x, {frequancy = 1})
  end)

  it(
    "takes numbers for an input that is named as indices are for int32, as its header says",
    function()
    local library = ipu.load_op_library(build_text([[
      static int infer(const IpuHost *h, IpuNode *n) { return h->set_output(n, 0, h->input_type(n, 1)); }
      static int eval(const IpuHost *h, const IpuCall *c) {
        const char *from = c->in[1];
        for (size_t i = 0; i < h->bytes(c->out_type[0]); i++) ((char *)c->out[0])[i] = from[i];
        return 0;
      }
      static const IpuOp ops[] = {{.name = "second_index", .inputs = {"x", "indices"}, .infer = infer, .eval = eval},
                                  {.name = "second_value", .inputs = {"x", "y"}, .infer = infer, .eval = eval}, {.name = 0}};
      const IpuOpLibrary *ipulua_op_library(const IpuHost *h) {
        static const IpuOpLibrary l = {IPU_OP_ABI, sizeof(IpuOp), ops};
        return h ? &l : 0;
      }]]))
    local pair = ipu.tensor{0.5, 1.5}
    assert.equal("int32", library.second_index(pair, {1, 2}).dtype)
    assert.equal("float32", library.second_value(pair, {1, 2}).dtype)
    assert.same({1, 2}, library.second_index(pair, {1, 2}):totable())
  end)

  it("refuses what an op does wrong, at once and in a program, and in its gradient", function()
    local library = ipu.load_op_library(build("spec/support/wrong_ops.c"))
    local v = ipu.tensor{1, 2}
    for name, words in pairs{
      negative = "extent -5 of dimension 0 is negative", huge = "the limit is 2^47 bytes",
      ninth = "the type of an output is no type", nothing = "gave output 0 no type",
      wordless = "wrong_wordless: failed", percent = "wrong_percent: 100% %s %n",
      sets_late = "an output that doesn't exist", most = {"out of memory", "MiB of working memory"},
      much = {"out of memory", "MiB of working memory"},
    } do
      local op = library["wrong_" .. name]
      fails(words[1] or words, op, v)
      fails(words[2] or words, ipu.func(function(t) return op(t) end), v)
    end
    for name, words in pairs{
      few = "mul takes 2 operands, the gradient of a library gives 1",
      many = "neg takes 1 operand, the gradient of a library gives 3",
      absent = "concat: operand 3 is missing", draws = "random.normal draws numbers",
      inner = "an op that does not exist: while", no_shape = "reshape: 'shape' is missing",
      word = "nn.softmax: 'axis' can't be 'x'", cut = "these are no arguments: {axis",
      open_list = "'shape' can't be {1, {2}", large = "'axis' can't be 99999999999999999999",
      behind = "these are no arguments: {axis = 0} and more",
    } do
      local op = library["wrong_" .. name]
      assert.same({1, 2}, op(v):totable())
      fails(words, differentiated, op)
      local tape = ipu.GradientTape()
      fails(words, function()
        local w = ipu.Variable(v)
        tape:gradient(tape(function() return ipu.reduce_sum(op(w)) end), w)
      end)
    end
    near({0.5, 0.5}, select(2, differentiated(library.wrong_fine))) -- softmax of ones
    local function cycles(op)
      return ipu.estimate(function(t) return op(t) end, {inputs = {{1000, 1000}}}).cycles.compute
    end
    assert.equal(cycles(library.right_cost), cycles(library.wrong_cost))
  end)

  it("refuses a row that is wrong as it stands", function()
    local function row(text)
      return "{.name = \"odd_row\", .infer = same, .eval = copy, " .. text .. "}"
    end
    local function attribute(kind, text)
      return row(string.format('.attributes = {{"a", IPU_ATTR_%s, "%s"}}', kind, text))
    end
    local plain = row('.inputs = {"x"}')
    for _, case in ipairs{
      {plain .. ", " .. plain, "'odd_row', which there is already"},
      {row('.inputs = {"x", "x?"}'), "'x?' is no valid name, or stands there twice"},
      {row('.inputs = {""}'), "'' is no valid name"},
      {row('.inputs = {"a b"}'), "'a b' is no valid name"},
      {row('.inputs = {"x"}, .attributes = {{"x", IPU_ATTR_INT, "1"}}'), "'x' is no valid name"},
      {attribute("INT", "abc"), "'a' of 'odd_row' can't be abc"},
      {attribute("INT", "1.5"), "can't be 1.5"}, {attribute("INTS", "{1, 2"), "can't be {1, 2"},
      {attribute("BOOL", "yes"), "can't be yes"}, {attribute("STRING", "same"), "can't be same"},
      {attribute("FLOAT", "0.5x"), "can't be 0.5x"},
      {attribute("INTS", "{" .. ("1, "):rep(16) .. "1}"), "can't be {1, 1, "}, -- 17
    } do
      fails(case[2], ipu.load_op_library, build("spec/support/wrong_ops.c", case[1]))
    end
    for _, list in ipairs{"{ 1, -2 }", "{" .. ("1, "):rep(15) .. "1}"} do
      local text = attribute("INTS", list):gsub("odd_row", "odd_row_" .. #list)
      ipu.load_op_library(build("spec/support/wrong_ops.c", text))
    end
  end)

  it("says what is wrong with a file", function()
    fails("cannot open shared object file", ipu.load_op_library, "/nowhere/ops.so")
    fails("load_op_library: ", ipu.load_op_library, "examples/interop/custom_op.c")
    fails("exports no ipulua_op_library", ipu.load_op_library, build_text("int nothing;"))
    fails("was built for ABI 99", ipu.load_op_library, build_text([[
      const IpuOpLibrary *ipulua_op_library(const IpuHost *h) {
        static const IpuOpLibrary l = {99, sizeof(IpuOp), 0};
        return h ? &l : 0;
      }]]))
    fails("refuses this version", ipu.load_op_library, build_text(
      "const IpuOpLibrary *ipulua_op_library(const IpuHost *h) { (void)h; return 0; }"))
    fails("op 'half' needs infer, eval", ipu.load_op_library, build_text([[
      static const IpuOp ops[] = {{.name = "half"}, {.name = 0}};
      const IpuOpLibrary *ipulua_op_library(const IpuHost *h) {
        static const IpuOpLibrary l = {IPU_OP_ABI, sizeof(IpuOp), ops};
        return h ? &l : 0;
      }]]))
  end)
end)

describe("random numbers in a gradient function", function()
  it("are other ones in each execution, in loops of it too", function()
    local noisy = ipu.custom_gradient(function(t)
      return t * 1, function(dy)
        return dy + ipu.random.normal{3} + ipu.loops.repeat_n(4,
          function(s) return s + ipu.random.uniform{3} end, {ipu.zeros{3}})
      end
    end)
    local v = ipu.Variable{ipu.zeros{3}}
    local f = ipu.func(function() return ipu.gradients(noisy(v * 1), {v})[1] end)
    local tape = function()
      local t = ipu.GradientTape()
      local y = t(function() return noisy(v) end)
      return t:gradient(y, v)
    end
    for _, make in ipairs{f, tape} do
      ipu.random.set_seed(8)
      local first, second = make():totable(), make():totable()
      for i = 1, 3 do assert.are_not.equal(first[i], second[i]) end
      ipu.random.set_seed(8)
      if make == f then assert.same(first, make():totable()) end
    end
  end)
end)

describe("register_op", function()
  it("leaves the members of tensors and variables alone", function()
    local ones = ipu.ones{2, 3}
    for _, name in ipairs{"nn.square", "mine_square.sqrt", "size", "shape", "dtype", "rank", "item",
      "totable", "assign", "trainable", "name"} do
      local module = name:match("^(mine_%w+)%.")
      if module then rawset(ipu, module, {}) end
      local ok, message = pcall(ipu.register_op, name, function(t) return t end)
      assert.is_false(ok, name)
      assert.matches("register_op", message)
      if module then rawset(ipu, module, nil) end
    end
    assert.equal(6, ones.size)
    assert.equal(4, ipu.tensor(2.0):square():item())
  end)
end)
