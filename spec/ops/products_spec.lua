-- Where matrix products go: to our own kernels or to OpenBLAS, by a table or as IPULUA_BLAS says.
-- Either way the results are right, and the same bits for any number of threads.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"

local info <const> = command.run{command.ipulua, "info"}.out
local library <const> = info:match("\nlinear algebra +([^\n]*)")
local has_openblas <const> = library:find("^OpenBLAS") ~= nil

-- Every use that this computer has.
local uses <const> = has_openblas and {"own", "openblas"} or {"own"}

local function with_products(use, f)
  local class <const> = os.getenv "IPULUA_CPU"
  core.set_kernels(class, use)
  local _ <close> = setmetatable({}, {__close = function() core.set_kernels(class) end})
  return f()
end

local function drawn(shape, dtype, seed)
  return ipu.random.uniform(shape, {minval = -1, maxval = 1, dtype = dtype, seed = seed})
end

-- Rows and columns of c = a b against sums in double, at a few places.
local function check_places(a, b, c, m, n, k, tolerance)
  for place = 0, 5 do
    local i, j = (place * 7919) % m, (place * 104729 + n - 1) % n
    local row = ipu.cast(a[i + 1], "float64"):totable()
    local column = ipu.cast(ipu.reshape(ipu.slice(b, {0, j}, {k, 1}), {k}), "float64"):totable()
    local sum, mass = 0, 0
    for p = 1, k do
      sum = sum + row[p] * column[p]
      mass = mass + math.abs(row[p] * column[p])
    end
    assert.is_true(math.abs(c[i + 1][j + 1]:item() - sum) <= tolerance * mass)
  end
end

-- m, n, k: one row, one column, odd extents, more than a chunk of either library.
local shapes <const> = {{1, 700, 300}, {700, 1, 300}, {33, 65, 130}, {300, 530, 70}, {513, 257, 40}}

describe("a matrix product", function()
  local threads = core.engine_info().threads
  teardown(function() core.set_threads(threads) end)

  for _, use in ipairs(uses) do
    for _, dtype in ipairs{"float32", "float64"} do
      it("of " .. dtype .. " is right by " .. use .. ", turned or not", function()
        local tolerance <const> = dtype == "float64" and 1e-14 or 2e-6
        for _, shape in ipairs(shapes) do
          local m, n, k = table.unpack(shape)
          local a, b = drawn({m, k}, dtype, 1), drawn({k, n}, dtype, 2)
          with_products(use, function()
            local c = ipu.matmul(a, b)
            check_places(a, b, c, m, n, k, tolerance)
            local at, bt = ipu.transpose(a), ipu.transpose(b)
            check_places(a, b, ipu.matmul(at, b, {transpose_a = true}), m, n, k, tolerance)
            check_places(a, b, ipu.matmul(a, bt, {transpose_b = true}), m, n, k, tolerance)
            local both = ipu.matmul(at, bt, {transpose_a = true, transpose_b = true})
            check_places(a, b, both, m, n, k, tolerance)
          end)
        end
      end)
    end

    it("has the same bits by " .. use .. " for any number of threads, fused or not", function()
      local x, w, bias = drawn({300, 260}, "float32", 3), drawn({260, 530}, "float32", 4),
        drawn({530}, "float32", 5)
      local layer = function(a) return ipu.nn.relu(ipu.matmul(a, w) + bias) end
      local expected
      with_products(use, function()
        for count = 1, 3 do
          core.set_threads(count)
          expected = expected or layer(x):totable()
          assert.same(expected, layer(x):totable())
          assert.same(expected, ipu.func(function(a) return layer(a) end)(x):totable())
        end
      end)
    end)
  end

  it("of a training step is near by either", function()
    local found = {}
    for _, use in ipairs(uses) do
      found[use] = with_products(use, function()
        local x, w = drawn({64, 1024}, "float32", 6), ipu.Variable(drawn({1024, 256}, "float32", 7))
        local step = ipu.func(function(a)
          local tape = ipu.GradientTape()
          local loss
          do
            local _ <close> = tape
            loss = ipu.reduce_mean(ipu.square(ipu.matmul(a, w)))
          end
          w:assign_sub(tape:gradient(loss, w) * 0.1)
          return loss
        end)
        for _ = 1, 3 do step(x) end
        return ipu.reduce_sum(ipu.square(w:read_value())):item()
      end)
    end
    if has_openblas then assert.is_near(found.own, found.openblas, 1e-4 * found.own) end
  end)

  it("goes where the table says: OpenBLAS where that measured faster", function()
    local where = with_products(nil, function() return core.engine_info().products end)
    local takes = where:find("^OpenBLAS") ~= nil
    -- On ARM, and with AVX2 or less on x86, large products are the library's.
    if core.engine_info().kernels ~= "avx512" then assert.equal(has_openblas, takes)
    else assert.is_false(takes) end
    local large, small = {drawn({256, 1024}, "float32", 8), drawn({1024, 512}, "float32", 9)},
      {drawn({8, 16}, "float32", 10), drawn({16, 8}, "float32", 11)}
    local function bits(use, pair)
      return with_products(use, function() return ipu.matmul(table.unpack(pair)):totable() end)
    end
    assert.same(bits("own", small), bits(nil, small))
    assert.same(bits(takes and "openblas" or "own", large), bits(nil, large))
    check_places(large[1], large[2], ipu.matmul(table.unpack(large)), 256, 512, 1024, 2e-6)
  end)

  -- The products of examples/bench/w7.lua: an MLP 1024-4096-4096-1024, batch 256, forwards and
  -- backwards.
  it("of w7 goes to OpenBLAS where the table says so, right in each direction", function()
    local takes = core.engine_info().kernels ~= "avx512" and has_openblas
    local batch <const>, extents <const> = 256, {1024, 4096, 4096, 1024}
    local function same(p, q) return ipu.reduce_all(ipu.equal(p, q)):item() end
    for i = 2, #extents do
      local from, to = extents[i - 1], extents[i]
      local x, w = drawn({batch, from}, "float32", i), drawn({from, to}, "float32", i + 10)
      local g = drawn({batch, to}, "float32", i + 20)
      local y = ipu.matmul(x, w)
      check_places(x, w, y, batch, to, from, 2e-6)
      local dw = ipu.matmul(x, g, {transpose_a = true})
      check_places(ipu.transpose(x), g, dw, from, to, batch, 2e-6)
      local dx = ipu.matmul(g, w, {transpose_b = true})
      check_places(g, ipu.transpose(w), dx, batch, from, to, 2e-6)
      -- The sums of the two libraries are formed in other orders: their bits tell which one ran.
      if has_openblas then
        local of_library = with_products("openblas", function() return ipu.matmul(x, w) end)
        assert.equal(takes, same(y, of_library))
        assert.is_true(same(y, of_library) or same(y,
          with_products("own", function() return ipu.matmul(x, w) end)))
      end
    end
  end)
end)

describe("IPULUA_BLAS", function()
  local script <const> = [[
    local ipu = require "ipulua"
    local x = ipu.random.uniform({300, 300}, {seed = 1})
    local y = ipu.matmul(ipu.matmul(x, x), x)
    print(require "ipulua.core".engine_info().products)
    print(ipu.json.encode(ipu.matmul(y, ipu.ones{300, 1}):totable()))
    print(os.getenv "OPENBLAS_CORETYPE", os.getenv "OPENBLAS_NUM_THREADS")
  ]]
  local function run(env) return command.run{command.ipulua, "-e", script, env = env} end

  it("names what products are computed with", function()
    assert.matches("^own kernels\n", run({IPULUA_BLAS = "own"}).out)
    local forced = run{IPULUA_BLAS = "openblas"}
    if has_openblas then
      assert.matches("^OpenBLAS [%d.]+ %(%w+%)\n", forced.out)
    else
      assert.matches("IPULUA_BLAS=openblas: there is no OpenBLAS; Debian's libopenblas0 brings it",
        forced.err)
    end
    assert.matches("IPULUA_BLAS must be own or openblas, got 'mkl'", run({IPULUA_BLAS = "mkl"}).err)
    assert.matches("\nmatrix products +own kernels; IPULUA_BLAS=own\n",
      command.run{command.ipulua, "info", env = {IPULUA_BLAS = "own"}}.out)
    assert.matches("\nmatrix products +none; IPULUA_BLAS must be own or openblas",
      command.run{command.ipulua, "info", env = {IPULUA_BLAS = "mkl"}}.out)
  end)

  it("has the same bits whatever the environment tells OpenBLAS, and leaves that be", function()
    if not has_openblas then return end
    local plain = run{IPULUA_BLAS = "openblas"}.out
    local told = run({IPULUA_BLAS = "openblas", OPENBLAS_CORETYPE = "Haswell",
      OPENBLAS_NUM_THREADS = "3"}).out
    assert.equal(plain:match("^(.*\n)[^\n]*\n$"), told:match("^(.*\n)[^\n]*\n$"))
    assert.matches("\nnil\tnil\n$", plain)
    assert.matches("\nHaswell\t3\n$", told)
  end)

  it("keeps to the class of IPULUA_CPU", function()
    if not has_openblas or not info:find("(of base avx2", 1, true) then return end
    for class, core_name in pairs{base = "Prescott", avx2 = "Haswell"} do
      local out = command.run({command.ipulua, "info", env = {IPULUA_CPU = class}}).out
      assert.matches("\nlinear algebra +OpenBLAS [%d.]+ %(" .. core_name .. "%)\n", out)
    end
  end)
end)
