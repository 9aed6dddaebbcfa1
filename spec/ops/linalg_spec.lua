-- ipu.linalg: factors that multiply to what they are of, unique signs, errors that name the matrix,
-- and what is said where LAPACK isn't.

local core = require "ipulua.core"
local ipu = require "ipulua"

local linalg = ipu.linalg
local hidden <const> = os.getenv("HIDDEN") or ""
local has_lapack <const> = pcall(linalg.det, ipu.ones{1, 1})

local function drawn(shape, seed, dtype)
  return ipu.random.uniform(shape,
    {minval = -1, maxval = 1, seed = seed, dtype = dtype or "float64"})
end

-- With a dominant diagonal: far from singular.
local function regular(shape, seed, dtype)
  local n = shape[#shape]
  return drawn(shape, seed, dtype) + ipu.eye(n, {dtype = dtype or "float64"}) * n
end

local function turned(x)
  local order = {}
  for i = 1, #x.shape do order[i] = i - 1 end
  order[#order], order[#order - 1] = order[#order - 1], order[#order]
  return ipu.transpose(x, order)
end

local function close(a, b, tolerance)
  assert.same(b.shape, a.shape)
  local worst = ipu.reduce_max(ipu.abs(a - b)):item()
  assert.is_true(worst <= (tolerance or 1e-12), "differs by " .. worst)
end

local function fails(kind, words, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(message:find(words, 1, true), message)
  assert.equal(kind, ipu.last_error().kind)
end

-- Columns whose greatest entry is positive.
local function check_signs(x)
  local greatest = ipu.reduce_max(x, {axis = -2})
  local least = ipu.reduce_min(x, {axis = -2})
  assert.is_true(ipu.reduce_all(ipu.greater_equal(greatest + 1e-9, -least)):item())
end

if not has_lapack then
  describe("linear algebra without LAPACK", function()
    it("names the package that brings it, when it is computed", function()
      local matrix = ipu.eye(3)
      for _, name in ipairs{"inv", "det", "slogdet", "qr", "svd", "eigh", "pinv", "matrix_rank",
        "expm"} do
        fails("not_found", "linalg." .. name .. ": LAPACK computes this, which is not here; "
          .. "Debian's libopenblas0 brings it", linalg[name], matrix)
      end
      fails("not_found", "linalg.solve: LAPACK", linalg.solve, matrix, matrix)
      fails("not_found", "linalg.lstsq: LAPACK", linalg.lstsq, matrix, matrix)
      fails("not_found", "libopenblas0", ipu.func(function(x) return linalg.inv(x) end), matrix)
    end)
  end)
end

describe("triangular systems and Cholesky factors", function()
  it("are our own or LAPACK's by size, and near either way", function()
    local class <const> = os.getenv "IPULUA_CPU"
    local a = regular({2, 90, 90}, 1)
    a = ipu.matmul(a, a, {transpose_b = true})
    local b = drawn({2, 90, 7}, 2)
    local function all()
      local l = ipu.cholesky(a)
      local list = {l, linalg.cholesky_solve(l, b)}
      for _, lower in ipairs{true, false} do
        for _, adjoint in ipairs{true, false} do
          list[#list + 1] = ipu.triangular_solve(a, b, {lower = lower, adjoint = adjoint})
        end
      end
      return list
    end
    local found = all()
    core.set_kernels(class, "own")
    local own = all()
    core.set_kernels(class)
    for i, x in ipairs(own) do
      local scale = ipu.reduce_max(ipu.abs(x)):item()
      close(found[i] / scale, x / scale, 1e-9)
    end
    close(ipu.matmul(found[1], turned(found[1])), a, 1e-9)
    close(ipu.matmul(a, found[2]), b, 1e-9)
    assert.equal(0, ipu.reduce_max(ipu.abs(ipu.triu(found[1], {k = 1}))):item())
  end)

  it("name the matrix that isn't positive definite, large ones too", function()
    for _, n in ipairs{3, 80} do
      local good = ipu.eye(n, {dtype = "float64"})
      local bad = good - ipu.pad(ipu.full({1, 1}, 3, {dtype = "float64"}), {{2, n - 3}, {2, n - 3}})
      fails("value", "cholesky: matrix 1 of a is not positive definite: pivot 2 is -2",
        ipu.cholesky, ipu.stack{good, bad, bad})
    end
  end)

  it("read no more than one triangle of a factor", function()
    local l = ipu.tensor{{2, 0 / 0}, {1, 1}}
    local x = ipu.Variable(l)
    local tape = ipu.GradientTape()
    local y = tape(function() return linalg.cholesky_solve(x, ipu.tensor{{4}, {3}}) end)
    -- L Lᵀ = [[4, 2], [2, 2]]
    assert.same({{0.5}, {1}}, y:totable())
    local dx = tape:gradient(y, x):totable()
    assert.equal(0, dx[1][2])
    for _, v in ipairs{dx[1][1], dx[2][1], dx[2][2]} do assert.equal(v, v) end
  end)
end)

describe("tril, triu, roll and outer", function()
  it("select by position, so that nothing leaks", function()
    local inf <const> = math.huge
    local x = ipu.tensor{{1, inf, 0 / 0}, {4, 5, inf}}
    assert.same({{1, 0, 0}, {4, 5, 0}}, ipu.tril(x):totable())
    assert.same({{0, 0, 0}, {4, 0, 0}}, ipu.tril(x, {k = -1}):totable())
    local y = ipu.tensor({{1, 2, 3}, {4, 5, 6}}, {dtype = "int8"})
    assert.same({{0, 2, 3}, {0, 0, 6}}, ipu.triu(y, {k = 1}):totable())
    assert.same({{1, 2, 3}, {4, 5, 6}}, y:triu{k = -1}:totable())
    assert.same({{true, true}, {false, true}}, ipu.triu(ipu.cast(ipu.ones{2, 2}, "bool")):totable())
    for _, k in ipairs{math.mininteger, math.maxinteger} do
      assert.same(k < 0 and {{0, 0, 0}, {0, 0, 0}} or y:totable(), ipu.tril(y, {k = k}):totable())
      assert.same(k > 0 and {{0, 0, 0}, {0, 0, 0}} or y:totable(), ipu.triu(y, {k = k}):totable())
    end
  end)

  it("move along axes, and multiply each with each", function()
    local x = ipu.reshape(ipu.arange(6), {2, 3})
    assert.same({{2, 0, 1}, {5, 3, 4}}, ipu.roll(x, 1, 1):totable())
    assert.same({{4, 5, 3}, {1, 2, 0}}, ipu.roll(x, {1, -4}, {0, -1}):totable())
    assert.same({{1, 2, 0}, {4, 5, 3}}, ipu.roll(x, {1, 1}, {1, 1}):totable())
    assert.same({{3, 6}, {4, 8}, {5, 10}},
      ipu.outer(ipu.tensor{3, 4, 5}, ipu.tensor{1, 2}):totable())
    fails("value", "roll: axis 2 is outside of 2 dimensions", ipu.roll, x, 1, 2)
  end)
end)

if not has_lapack then return end

describe("linear algebra", function()
  it("is not hidden from a build that has it", function()
    assert.is_nil(hidden:find("openblas", 1, true))
  end)

  it("solves: inverses, determinants, systems of batches", function()
    local a, b = regular({3, 5, 5}, 1), drawn({3, 5, 2}, 2)
    local eye = ipu.broadcast_to(ipu.eye(5, {dtype = "float64"}), {3, 5, 5})
    close(ipu.matmul(a, linalg.inv(a)), eye)
    close(ipu.matmul(turned(a), linalg.inv(a, {adjoint = true})), eye)
    close(ipu.matmul(a, linalg.solve(a, b)), b)
    close(ipu.matmul(turned(a), linalg.solve(a, b, {adjoint = true})), b)
    assert.is_near(-14, linalg.det(ipu.tensor{{3, 8}, {4, 6}}):item(), 1e-5)
    local sign, log_of = linalg.slogdet(ipu.tensor{{0, 2}, {3, 0}})
    assert.equal(-1, sign:item())
    assert.is_near(math.log(6), log_of:item(), 1e-6)
    assert.equal(0, linalg.det(ipu.tensor{{1, 2}, {2, 4}}):item())
    sign, log_of = linalg.slogdet(ipu.zeros{2, 2})
    assert.same({0, -math.huge}, {sign:item(), log_of:item()})
    assert.same({1, 1}, linalg.det(ipu.zeros{2, 0, 0}):totable())
    local nan = linalg.inv(ipu.tensor{{0 / 0, 1}, {1, 2}}):totable()
    assert.is_true(nan[1][1] ~= nan[1][1])
  end)

  it("factorises any extents, with signs by a fixed rule", function()
    for _, shape in ipairs{{4, 4}, {2, 6, 3}, {3, 6}, {5, 1}, {1, 5}} do
      local x = drawn(shape, 3)
      local m, n = shape[#shape - 1], shape[#shape]
      local q, r = linalg.qr(x)
      close(ipu.matmul(q, r), x)
      local k = math.min(m, n)
      local eye = ipu.eye(k, {dtype = "float64"})
      close(ipu.matmul(turned(q), q) - eye, ipu.zeros(ipu.matmul(turned(q), q).shape, "float64"))
      close(ipu.triu(r), r, 0)
      local diagonal = ipu.broadcast_to(ipu.cast(ipu.eye(k, n), "bool"), r.shape)
      assert.is_true(ipu.reduce_min(ipu.where(diagonal, r, 1)):item() >= 0)
      local s, u, v = linalg.svd(x)
      close(ipu.matmul(u * ipu.expand_dims(s, -2), turned(v)), x)
      check_signs(u)
      close(linalg.svd(x, {compute_uv = false}), s, 1e-13)
      close(ipu.sort(s, {direction = "DESCENDING"}), s, 0)
    end
  end)

  it("finds eigenvalues of symmetric matrices, rising; of others (x + xᵀ) / 2 counts", function()
    local x = drawn({2, 5, 5}, 4)
    local e, v = linalg.eigh(x)
    close(ipu.matmul(v * ipu.expand_dims(e, -2), turned(v)), (x + turned(x)) * 0.5)
    check_signs(v)
    close(ipu.sort(e), e, 0)
    -- Entries that are equal but for rounding: the first one is positive.
    local _, w = linalg.eigh(ipu.tensor{{2, 1}, {1, 2}})
    local root <const> = math.sqrt(0.5)
    close(w, ipu.tensor{{root, root}, {-root, root}}, 1e-6)
  end)

  it("gives least squares, pseudo-inverses and ranks", function()
    local tall, wide, b = drawn({6, 3}, 5), drawn({3, 6}, 6), drawn({6, 2}, 7)
    local x = linalg.lstsq(tall, b)
    close(ipu.matmul(turned(tall), ipu.matmul(tall, x) - b), ipu.zeros({3, 2}, "float64"))
    close(x, ipu.matmul(linalg.pinv(tall), b), 1e-11)
    local y = linalg.lstsq(wide, ipu.slice(b, {0, 0}, {3, 2}))
    close(y, ipu.matmul(linalg.pinv(wide), ipu.slice(b, {0, 0}, {3, 2})), 1e-11)
    for _, a in ipairs{tall, wide} do -- aᵀ a x + λ x = aᵀ b
      local sides = ipu.slice(b, {0, 0}, {a.shape[1], 2})
      local z = linalg.lstsq(a, sides, {l2_regularizer = 0.3})
      close(ipu.matmul(turned(a), ipu.matmul(a, z)) + z * 0.3, ipu.matmul(turned(a), sides), 1e-11)
    end
    local low = ipu.matmul(drawn({5, 2}, 8), drawn({2, 4}, 9)) -- of rank 2
    assert.equal(2, linalg.matrix_rank(low):item())
    assert.equal("int32", linalg.matrix_rank(low).dtype)
    assert.equal(0, linalg.matrix_rank(ipu.zeros{2, 3}):item())
    local p = linalg.pinv(low)
    close(ipu.matmul(ipu.matmul(low, p), low), low)
    close(ipu.matmul(ipu.matmul(p, low), p), p, 1e-10)
  end)

  it("expm of magnitudes whose squarings settle early", function()
    -- e^-1000 is 0 in float64, e^1000 infinite, and infinity times 0 is NaN
    for value, wanted in pairs{[-1e3] = 0, [-1e300] = 0, [1e3] = math.huge} do
      local x = ipu.tensor({{value}}, {dtype = "float64"})
      assert.equal(wanted, linalg.expm(x)[1][1]:item())
    end
    for _, value in ipairs{math.huge, -math.huge, 0 / 0} do
      local y = linalg.expm(ipu.tensor({{value, 1}, {1, 1}}, {dtype = "float64"}))
      assert.is_true(ipu.reduce_all(ipu.is_nan(y)):item())
    end
  end)

  it("exponentiates: rotations, large norms, what commutes", function()
    local angle <const> = 40
    local r = linalg.expm(ipu.tensor({{0, -angle}, {angle, 0}}, {dtype = "float64"}))
    close(r, ipu.tensor({{math.cos(angle), -math.sin(angle)}, {math.sin(angle), math.cos(angle)}},
      {dtype = "float64"}), 1e-11)
    local x = drawn({2, 4, 4}, 10)
    close(ipu.matmul(linalg.expm(x), linalg.expm(-x)),
      ipu.broadcast_to(ipu.eye(4, {dtype = "float64"}), {2, 4, 4}))
  end)

  it("names the matrix that can't be", function()
    local good, bad = ipu.eye(2), ipu.tensor{{1, 2}, {2, 4}}
    local batch = ipu.stack{good, good, bad, bad}
    local words <const> = ": matrix 2 is singular: pivot 1 is 0"
    fails("value", "linalg.inv" .. words, linalg.inv, batch)
    fails("value", "linalg.solve" .. words, linalg.solve, batch, batch)
    fails("value", "linalg.inv" .. words, ipu.func(function(x) return linalg.inv(x) end), batch)
    local holes = ipu.stack{good, ipu.tensor{{1, 0}, {0, 0 / 0}},
      ipu.tensor{{math.huge, 0}, {0, 1}}}
    for _, name in ipairs{"svd", "eigh", "pinv", "matrix_rank"} do
      fails("value", "linalg." .. name .. ": matrix 1 has a NaN or an infinity", linalg[name],
        holes)
    end
    fails("value", "linalg.lstsq: matrix 1 has a NaN", linalg.lstsq, holes, holes)
    local x = ipu.Variable(bad)
    local tape = ipu.GradientTape()
    local det = tape(function() return linalg.det(x) end)
    fails("value", "linalg.inv: matrix 0 is singular", tape.gradient, tape, det, x)
    fails("type", "linalg.inv: operands must be floating point, got int32", linalg.inv,
      ipu.ones({2, 2}, "int32"))
  end)

  it("has the same bits for any number of threads and beside any other matrices", function()
    local threads = core.engine_info().threads
    local x = regular({40, 20, 20}, 11, "float32")
    local function all(a)
      local list = {linalg.inv(a), linalg.det(a), linalg.expm(a * 0.1), linalg.pinv(a)}
      for _, f in ipairs{linalg.qr, linalg.svd, linalg.eigh} do
        for _, y in ipairs{f(a)} do list[#list + 1] = y end
      end
      return list
    end
    local expected
    for count = 1, 3 do
      core.set_threads(count)
      local found = all(x)
      expected = expected or found
      for i, y in ipairs(found) do assert.same(expected[i]:totable(), y:totable()) end
    end
    core.set_threads(threads)
    for i, y in ipairs(all(x[8])) do assert.same(expected[i][8]:totable(), y:totable()) end
  end)

  it("ends terms of equal values, and reaches through factors", function()
    local x = ipu.Variable(ipu.eye(3))
    local tape = ipu.GradientTape{persistent = true}
    local s, u, e, v = tape(function()
      local values, left = linalg.svd(x)
      local rising, vectors = linalg.eigh(x)
      return values, left, rising, vectors
    end)
    for _, y in ipairs{s, u, e, v} do
      local dx = ipu.reduce_sum(ipu.abs(tape:gradient(y, x))):item()
      assert.is_true(dx == dx and dx < math.huge)
    end
  end)
end)
