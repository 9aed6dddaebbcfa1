-- Layers and losses with arguments at random against NumPy in float64: spec/support/keras_cases.lua
-- makes them, keras_oracle.py computes them again; image_cases.lua and image_oracle.py likewise.

local command = require "spec.support.command"

local has_numpy <const> = os.execute("/usr/bin/python3 -c 'import numpy' 2>/dev/null")

local function check(cases, oracle, seed, count)
  local folder = command.folder()
  local line = string.format("'%s' --threads %d spec/support/%s %d %d '%s' 2>&1 "
    .. "&& /usr/bin/python3 spec/support/%s '%s' 2>&1", command.ipulua, seed, cases, seed + 100,
    count, folder, oracle, folder)
  local pipe <close> = assert(io.popen(line))
  local text = pipe:read "a"
  command.remove(folder)
  assert.equal(count .. " cases, 0 wrong\n", text)
end

for seed = 1, 2 do
  describe("layers and losses at random", function()
    (has_numpy and it or pending)("agree with NumPy, seed " .. seed, function()
      check("keras_cases.lua", "keras_oracle.py", seed, 200)
    end)
  end)
  describe("image layers at random", function()
    (has_numpy and it or pending)("agree with NumPy, image seed " .. seed, function()
      check("image_cases.lua", "image_oracle.py", seed, 180)
    end)
  end)
end
