-- Side effects of a program come in the order of the code: assignments, calls of the script, and
-- the values that those read.

local fuzz = require "spec.support.fuzz_effects"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local scalar <const> = {outputs = {{{}, "float32"}}}

-- The values of v that log() reads in the course of body(x, v, log), eagerly and compiled.
local function seen(body, first)
  local v, x, texts = ipu.Variable(first or ipu.zeros{3}), ipu.tensor{1, 2, 3}, {}
  for _, form in ipairs{function(f) return f end, ipu.func} do
    v:assign(first or ipu.zeros{3})
    local list = {}
    local log = ipu.host_callback(function()
      list[#list + 1] = table.concat(v:read_value():totable(), " ")
      return 0
    end, scalar)
    form(function(given) return body(given, v, log) end)(x)
    texts[#texts + 1] = table.concat(list, ", ")
  end
  return texts
end

local cases <const> = {
  {"an assignment behind the call", "0.0 0.0 0.0", function(x, v, log)
    log(x)
    v:assign_add(x)
  end},
  {"assignments between calls", "0.0 0.0 0.0, 1.0 2.0 3.0, 2.0 4.0 6.0", function(x, v, log)
    log(x)
    v:assign_add(x)
    log(x)
    v:assign_add(x)
    log(x)
  end},
  {"an argument that is assigned", "1.0 2.0 3.0", function(x, v, log)
    v:assign(x)
    log(x)
    return v * 2
  end},
  {"what is assigned twice", "-3.0 -2.0 -1.0, -6.0 -4.0 -2.0", function(x, v, log)
    v:assign(ipu.sort(x * -1))
    log(x)
    v:assign(v * 2)
    log(x)
  end},
  {"a loop that meets it later", "0.0 0.0 0.0, 1.0 2.0 3.0, 2.0 4.0 6.0", function(x, v, log)
    for _ in ipu.range(2) do
      log(x)
      v:assign_add(x)
    end
    log(x)
  end},
  {"a call in a branch in a loop", "0.0 0.0 0.0, 1.0 2.0 3.0", function(x, v, log)
    for _ in ipu.range(2) do
      ipu.cond(ipu.less(x[1], 5), function() log(x) end, function() end)
      v:assign_add(x)
    end
  end},
  {"a call in a condition", "0.0 0.0 0.0, 1.0 2.0 3.0, 2.0 4.0 6.0", function(x, v, log)
    ipu.while_loop(function(i) return ipu.less(i + log(x), 2) end, function(i)
      v:assign_add(x)
      return i + 1
    end, {0.0})
  end},
  {"a call in a function with a gradient of its own", "0.0 0.0 0.0", function(x, v, log)
    ipu.custom_gradient(function(a)
      log(a)
      return a * 1, function(dy) return dy end
    end)(x)
    v:assign_add(x)
  end},
}

describe("a variable that a callback reads", function()
  for _, case in ipairs(cases) do
    it("has what was assigned before: " .. case[1], function()
      local texts = seen(case[3])
      assert.equal(case[2], texts[1])
      assert.equal(case[2], texts[2])
    end)
  end

  it("is the calling replica's", function()
    local _ <close> = pipelines.device(2)
    local v, read = ipu.Variable(ipu.zeros{1}), {}
    local log = ipu.host_callback(function()
      read[#read + 1] = v[1]:item()
      return 0
    end, scalar)
    ipu.func(function()
      for _ in ipu.range(2) do
        log(ipu.zeros{})
        v:assign_add(ipu.cast(ipu.replication_index(), "float32") + 1)
        log(ipu.zeros{})
      end
      return ipu.cross_replica_sum(v)
    end)()
    assert.same({0, 0, 1, 2, 1, 2, 2, 4}, read)
  end)

  it("takes no gradient away, and doesn't keep one from being asked for", function()
    local v, x = ipu.Variable(ipu.tensor{4, 5, 6}), ipu.tensor{1, 2, 3}
    local log = ipu.host_callback(function() return v[1]:item() end, scalar)
    local found = ipu.func(function(given)
      local y = ipu.reduce_sum(v * given)
      log(given)
      v:assign_add(given)
      return ipu.gradients(y + ipu.reduce_sum(v * v), {v})[1]
    end)(x)
    assert.same({1 + 2 * 5, 2 + 2 * 7, 3 + 2 * 9}, found:totable())
  end)

  it("costs nothing but the call", function()
    local v = ipu.Variable(ipu.zeros{512, 512})
    local log = ipu.host_callback(function() return 0 end, scalar)
    local function price(order)
      return ipu.estimate(ipu.func(function(x)
        for _, step in ipairs(order) do step(x) end
      end), {inputs = {{512, 512}}}).cycles.total
    end
    local function call() log(ipu.zeros{}) end
    local function assign(x) v:assign_add(x) end
    assert.equal(price{call, assign}, price{assign, call})
  end)
end)

describe("programs with effects at random", function()
  it("do the same in every form", function()
    for seed = 1, 25 do assert.is_nil(fuzz.check(seed)) end
  end)
end)
