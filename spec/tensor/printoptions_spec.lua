-- ipu.set_printoptions: what NumPy 1.24 prints with the same options.

local ipu = require "ipulua"

local function options(edgeitems, precision, threshold)
  ipu.set_printoptions{edgeitems = edgeitems, precision = precision, threshold = threshold}
end

describe("ipu.set_printoptions", function()
  after_each(function() options(3, 8, 1000) end)

  it("shortens, and leaves out digits", function()
    options(2, 3, 10)
    for text, t in pairs{
      ["[0.    0.143 ... 1.429 1.571]"] = ipu.cast(ipu.arange(12), "float64") / 7,
      ["[[ 0  1 ...  4  5]\n [ 6  7 ... 10 11]\n [12 13 ... 16 17]\n [18 19 ... 22 23]]"] =
        ipu.reshape(ipu.arange(24), {4, 6}),
      ["[1.235e+00 2.000e-09]"] = ipu.tensor({1.23456, 2e-9}, {dtype = "float64"}),
      ["[1.235 1.5  ]"] = ipu.tensor{1.23456, 1.5},
      ["[[0.1]]"] = ipu.tensor{{0.1}},
      ["0.1428571428571428"] = ipu.tensor(0.1428571428571428, {dtype = "float64"}),
    } do assert.equal(text, tostring(t)) end
  end)

  it("keeps what isn't given", function()
    ipu.set_printoptions{precision = 0}
    assert.equal("[2. 2.]", tostring(ipu.tensor{1.6, 2.4}))
    ipu.set_printoptions{threshold = 2}
    assert.equal("[2. 2.]", tostring(ipu.tensor{1.6, 2.4}))
    ipu.set_printoptions{edgeitems = 1}
    assert.equal("[2. ... 3.]", tostring(ipu.tensor{1.6, 2.4, 2.6}))
  end)

  it("begins with NumPy's own, and refuses what can't be", function()
    assert.equal("[1.2345679 2.       ]", tostring(ipu.tensor{1.23456789, 2}))
    local ok, message = pcall(ipu.set_printoptions, {precision = 40})
    assert.is_false(ok)
    assert.matches("'precision' must lie in %[0, 17%], got 40", message)
    assert.is_false(pcall(ipu.set_printoptions, {edgeitems = 0}))
  end)
end)

it("ipu.clock only goes forward", function()
  local first = ipu.clock()
  local sum = ipu.reduce_sum(ipu.ones{1000}):item()
  local second = ipu.clock()
  assert.equal(1000, sum)
  assert.is_true(second >= first and second - first < 60)
end)
