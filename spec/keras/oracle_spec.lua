-- Layers and losses with arguments at random against NumPy in float64: spec/support/keras_cases.lua
-- makes them, keras_oracle.py computes them again.

local command = require "spec.support.command"

local has_numpy <const> = os.execute("/usr/bin/python3 -c 'import numpy' 2>/dev/null")

describe("layers and losses at random", function()
  for seed = 1, 2 do
    (has_numpy and it or pending)("agree with NumPy, seed " .. seed, function()
      local folder = command.folder()
      local line = string.format("'%s' --threads %d spec/support/keras_cases.lua %d 200 '%s' 2>&1 "
        .. "&& /usr/bin/python3 "
        .. "spec/support/keras_oracle.py '%s' 2>&1", command.ipulua, seed, seed + 100, folder,
          folder)
      local pipe <close> = assert(io.popen(line))
      local text = pipe:read "a"
      command.remove(folder)
      assert.equal("200 cases, 0 wrong\n", text)
    end)
  end
end)
