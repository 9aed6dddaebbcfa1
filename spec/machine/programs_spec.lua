-- Whole programs against what Graphcore published of them (spec/support/programs.lua, `make validate`).

local ipu = require "ipulua"
local programs = require "spec.support.programs"

describe("the price of whole programs", function()
  local by_note, list = {}, nil

  setup(function()
    list = programs.run()
    for _, r in ipairs(list) do by_note[r.note .. r.what] = r.predicted end
  end)
  teardown(function() ipu.reset_ipu_configuration() end)

  it("is within a factor of two of every published figure, and mostly much nearer", function()
    local sum = 0
    for _, r in ipairs(list) do
      local ratio = r.predicted / r.published
      assert(ratio > 0.5 and ratio < 2, r.id .. " " .. r.note .. ": " .. ratio)
      sum = sum + math.abs(ratio - 1)
    end
    assert(sum / #list < 0.25, "mean error " .. sum / #list)
  end)

  it("is within the tolerance where data or arithmetic decide", function()
    local exact = 0
    for _, r in ipairs(list) do
      local ratio = r.predicted / r.published
      if r.id == "N28" or r.id == "N29" or r.id:find("^V") then
        exact = exact + 1
        assert(math.abs(ratio - 1) <= r.tolerance, r.id .. " " .. r.note .. ": " .. ratio)
      end
    end
    assert.equal(8, exact)
  end)

  it("orders variants as published", function()
    local function get(note) return by_note[note .. "total"] end
    assert(get("the same, SGD") > get("small residual network, inference"))
    assert(get("the same, momentum") > get("the same, SGD"))
    assert(get("the same, momentum") < 1.1 * get("the same, SGD")) -- 5 % there
  end)

  it("scales over pods as published", function()
    local function rate(note) return by_note[note .. "rate"] end
    local small, large = rate("ResNet-50 training, Bow Pod16, batch 1,920"), rate("ResNet-50 training, Bow Pod64, batch 2,560")
    assert(math.abs(large / small / (145287 / 42029) - 1) < 0.10)
    small, large = rate("BERT-Large phase 1, Bow Pod16, batch 65,536"), rate("BERT-Large phase 1, Bow Pod64, batch 65,536")
    assert(math.abs(large / small / (19353 / 5179) - 1) < 0.08)
  end)
end)
