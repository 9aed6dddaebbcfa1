-- Odd arguments to everything public: each call works, or raises words that name the script's line.

local command = require "spec.support.command"

describe("arguments of all kinds", function()
  for seed = 1, 2 do
    it("work or are refused in the user's words, seed " .. seed, function()
      local folder = command.folder()
      local line = string.format("cd %s && IPULUA_PROGRESS=off '%s' --threads 1 "
        .. "\"$OLDPWD/spec/support/fuzz_keras.lua\" %d 2000 2>&1", folder,
        command.ipulua, seed)
      local pipe <close> = assert(io.popen(line))
      local text = pipe:read("a")
      command.remove(folder)
      assert.matches("2000 calls, 0 wrong\n$", text)
    end)
  end
end)
