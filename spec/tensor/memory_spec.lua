-- A tensor that the machine has no room for is refused, by name and size, before the system ends
-- the process.

local ipu = require "ipulua"

-- A line of /proc/meminfo, in bytes.
local function machine(name)
  for line in io.lines("/proc/meminfo") do
    local kib = line:match("^" .. name .. ":%s+(%d+) kB")
    if kib then return tonumber(kib) * 1024 end
  end
end

local function refused(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, text in ipairs{"memory_spec.lua:", ...} do
    assert.is_truthy(message:find(text, 1, true), message)
  end
  assert.equal("out_of_memory", ipu.last_error().kind)
end

describe("memory", function()
  -- As much as the machine has at all: it could be promised, but not be filled.
  local floats = (machine("MemTotal") + machine("SwapFree")) // 4

  it("is refused where it could be promised, but not filled", function()
    refused(function() ipu.zeros{floats} end, "cannot allocate float32[" .. floats .. "]")
    refused(function() ipu.arange(floats, {dtype = "float32"}) end, "cannot allocate")
    refused(function() ipu.random.normal{floats} end, "cannot allocate")
    refused(function() return ipu.tensor{1.0}:broadcast_to{floats} end, "float32[" .. floats .. "]")
  end)

  it("is refused within a program: for its values and its results", function()
    local f = ipu.func(function(x)
      return ipu.reduce_sum(ipu.sin(x:broadcast_to{floats}) + ipu.cos(x:broadcast_to{floats}))
    end)
    refused(function() f(ipu.tensor{1.0}) end)
    assert.equal(3, ipu.func(function(x) return x + 1 end)(ipu.tensor(2.0)):item())
  end)

  it("is refused for the weights of a layer that is far too wide", function()
    refused(function() ipu.keras.layers.Dense(1e9)(ipu.zeros{1, 100}) end,
      "float32[100, 1000000000]")
    local model = ipu.keras.Sequential{ipu.keras.layers.Dense(1e9)}
    model:build{1, 1000} -- weights that nobody has read take no memory
    assert.equal(1001 * 1000000000, model:count_params())
    refused(function() model(ipu.zeros{1, 1000}) end, "float32[1000, 1000000000]")
  end)
end)
