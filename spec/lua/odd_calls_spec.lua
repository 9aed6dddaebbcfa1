-- Odd arguments to every public function, class and method: each call works, or raises words that
-- name the script's line.

local command = require "spec.support.command"

describe("odd arguments", function()
  it("work or are refused in the user's words by all that is public", function()
    local folder = command.folder()
    local line = string.format("cd %s && IPULUA_PROGRESS=off '%s' --threads 1 "
      .. "\"$OLDPWD/spec/support/odd_calls.lua\" 2>&1", folder,
      command.ipulua)
    local pipe <close> = assert(io.popen(line))
    local text = pipe:read("a")
    command.remove(folder)
    local calls, wrong = text:match("(%d+) calls, (%d+) wrong\n$")
    assert.is_true(calls ~= nil and tonumber(calls) > 40000, text:sub(-2000))
    assert.equal("0", wrong, text:sub(-2000))
  end)
end)
