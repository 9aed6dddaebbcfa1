-- Numbers below the normal range count as zero while tensors are computed, everywhere; Lua's own
-- numbers keep theirs.

local ipu = require "ipulua"

describe("numbers below the normal range", function()
  after_each(function() ipu.set_num_threads(2) end)

  it("are zero to ops, eager or traced, on any number of threads", function()
    local small <const> = 2.0 ^ -130 -- float32's smallest normal number is 2^-126
    local twice = ipu.func(function(x) return x + x, ipu.exp(x) * small, ipu.reduce_max(x + 0) end)
    for _, threads in ipairs{1, 2, 3} do
      ipu.set_num_threads(threads)
      local x = ipu.full({300000}, small)
      assert.equal(small, x[1]:item()) -- a number that is only kept stays as it is
      assert.equal(0, ipu.reduce_max(x + x):item())
      local sum, product, most = twice(x)
      assert.equal(0, ipu.reduce_max(sum):item())
      assert.equal(0, ipu.reduce_max(product):item())
      assert.equal(0, most:item())
    end
  end)

  it(
    "are zero in float64, too; float16's are normal in float32, in which it is computed", function()
    assert.equal(0, (ipu.tensor(2.0 ^ -1030, {dtype = "float64"}) * 1):item())
    assert.equal(2.0 ^ -23, (ipu.tensor(2.0 ^ -24, {dtype = "float16"}) * 2):item())
  end)

  it("stay numbers to Lua", function()
    assert.is_true(ipu.reduce_sum(ipu.ones{1000}):item() == 1000 and 2.0 ^ -1074 / 1 > 0
      and 2.0 ^ -1030 * 2 == 2.0 ^ -1029)
  end)
end)
