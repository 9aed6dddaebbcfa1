-- Stochastic rounding on replicas: an operation rounds by the same random bits on all of them, so
-- that what begins equal stays equal.

local config = require "ipulua.config"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local replicas <const>, steps <const>, size <const> = 4, 20, 256

-- Weights after some steps of descent, [replicas][size]: each replica's gradients come from data of
-- its own and are summed.
local function trained(options)
  local _ <close> = pipelines.device(replicas, options)
  ipu.reset_ipu_seed(7)
  local data = ipu.cast(ipu.random.normal({replicas * steps, size}, {seed = 5, stddev = 2e-4}),
    "float16")
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(data):repeat_n())
  local w = ipu.Variable(ipu.ones({size}, {dtype = "float16"}), {name = "w"})
  local own = ipu.IPUOutfeedQueue()
  local f = ipu.func(function()
    ipu.loops.repeat_n(steps, function(x)
      local gradient = x * w
      own:enqueue(gradient)
      w:assign_sub(ipu.cross_replica_sum(gradient) * 0.1)
    end, {}, infeed)
    return ipu.all_gather(w:read_value())
  end)
  local rows = f():totable()
  return rows, own:dequeue():totable()
end

describe("stochastic rounding on replicas", function()
  after_each(function() config.reset_ipu_configuration() end)

  for _, stable in ipairs{true, false} do
    it("leaves weights equal to the bit, with enable_prng_stability "
      .. tostring(stable), function()
      local rows, own = trained{["floating_point_behaviour.esr"] = "ON",
        ["experimental.enable_prng_stability"] = stable}
      assert.equal(replicas, #rows)
      for r = 2, replicas do assert.same(rows[1], rows[r]) end
      assert.not_same(own[1][1], own[1][2]) -- their data differ
    end)
  end

  -- 1 and what is a few hundred-thousandths beside it: to the nearest 1, by chance sometimes its
  -- neighbour. The sum of the replicas' data is the same on all of them. Data of their own aren't,
  -- nor are a variable and a loop's value that take them in, at once or two rounds later.
  local function kinds(esr, ipus)
    local _ <close> = pipelines.device(ipus or replicas, {["floating_point_behaviour.esr"] = esr})
    ipu.reset_ipu_seed(7)
    local data = ipu.cast(ipu.random.normal({replicas * steps, size}, {seed = 5, stddev = 2e-5}),
      "float16")
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(data):repeat_n())
    local one = ipu.ones({size}, {dtype = "float16"})
    local variable = ipu.Variable(one)
    local f = ipu.func(function()
      local summed, own, late, asked = ipu.loops.repeat_n(
        steps, function(s, o, l, q, before, last, x)
        variable:assign_add(x)
        do
          local _ <close> = ipu.stochastic_rounding(true)
          q = q + x
        end
        return s + ipu.cross_replica_sum(x), o + x, l + before, q, last, x
      end, {one, one, one, one, ipu.zeros_like(one), ipu.zeros_like(one)}, infeed)
      local list = {}
      for i, t in ipairs{summed, own, late, asked, variable:read_value()} do
        list[i] = ipu.all_gather(t)
      end
      return ipu.stack(list)
    end)
    local moved = {}
    for i, rows in ipairs(f():totable()) do
      moved[i] = false
      for _, row in ipairs(rows) do
        for _, x in ipairs(row) do moved[i] = moved[i] or x ~= 1 end
      end
    end
    return moved
  end

  it(
    "is of what replicas compute alike, with REPLICA_IDENTICAL_ONLY; a scope decides for itself",
    function()
    assert.same({false, false, false, true, false}, kinds "OFF")
    assert.same({true, true, true, true, true}, kinds "ON")
    assert.same({true, false, false, true, false}, kinds "REPLICA_IDENTICAL_ONLY")
    -- one replica agrees with itself
    assert.same({true, true, true, true, true}, kinds("REPLICA_IDENTICAL_ONLY", 1))
  end)

  it("moves weights that rounding to the nearest leaves where they are", function()
    -- Above 1, float16 has steps of 2^-10, below it of 2^-11. An update of some 4e-5 is far less
    -- than half of either. Rounding to the nearest undoes it, stochastic rounding makes a step of
    -- it in one case of some 20.
    for _, x in ipairs(trained{}[1]) do assert.equal(1, x) end
    local moved = 0
    for _, x in ipairs(trained{["floating_point_behaviour.esr"] = "ON"}[1]) do
      moved = moved + (x ~= 1 and 1 or 0)
    end
    assert.is_true(moved > size / 3, moved .. " moved")
  end)
end)
