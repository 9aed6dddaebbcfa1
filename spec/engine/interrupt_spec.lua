-- Ctrl-C while a compiled function runs: a change that it began is finished, and no other change is
-- begun.
local command = require "spec.support.command"

-- Runs the script, which calls start(), and interrupts it some processor time later. Returns the
-- script's output.
local function interrupted(script)
  local r = command.interrupted{command.ipulua, "-e", [[
    local ipu = require "ipulua"
    local a, b = ipu.Variable(0.0, {name = "a"}), ipu.Variable(0.0, {name = "b"})
    local x = ipu.full({1100, 1100}, 1 / 1100)
    local function endless(y) return ipu.reduce_sum(ipu.loops.repeat_n(1000000, function(z) return ipu.matmul(z, x) end, {y})) end
    local function heavy(y) -- parts of a second, in steps of a few hundredths
      for _ = 1, 50 do y = ipu.matmul(y, x) end
      return ipu.reduce_sum(y) * 1e-9
    end
    local function start() ]] .. command.ready .. [[ end
    ]] .. script .. [[
    print(a:item() == b:item() and "whole" or "torn", b:item() > 0 and "changed" or "as it was")
    a:assign(5)
    print(ipu.func(function() return a + 1 end)():item())]], env = {IPULUA_PROGRESS = "off"}}
  assert.equal(0, r.status, r.err)
  return r.out
end

describe("Ctrl-C in a function that changes variables", function()
  it("ends it before the first change", function()
    assert.equal("false\tinterrupted!\nwhole\tas it was\n6.0\n", interrupted[[
      local f = ipu.func(function(y)
        local one = endless(y) * 0 + 1
        a:assign_add(one)
        b:assign_add(one)
      end)
      f:concrete(x)
      start()
      local good, message = pcall(f, x)
      print(good, (tostring(message):gsub("^.-: ", "")))
    ]])
  end)

  it("ends an iteration that has changed nothing yet, and finishes one that has", function()
    for _, order in ipairs{"one = heavy(y + ipu.cast(i, 'float32')) * 0 + 1 a:assign_add(one) "
      .. "b:assign_add(one)",
      "a:assign_add(1) one = heavy(y + a) * 0 + 1 b:assign_add(one)",
      -- a loop inside of an iteration that has changed something already, and has yet to change
      -- more
      [[a:assign_add(1)
        one = ipu.reduce_sum(ipu.loops.repeat_n(50, function(z) return ipu.matmul(z, x) end, {y + a})) * 0 + 1
        b:assign_add(one)]],
      [[local count = ipu.loops.repeat_n(50, function(k)
          a:assign_add(0.02 + heavy(y) * 0)
          return k + 1
        end, {0})
        one = ipu.cast(count, 'float32') / 50
        b:assign_add(one)
        a:assign(b)]]} do
      local out = interrupted([[
        local f = ipu.func(function(y)
          return ipu.loops.repeat_n(1000000, function(i)
            local one
            ]] .. order .. [[

            return i + 1
          end, {0})
        end)
        f:concrete(x)
        start()
        local good, message = pcall(f, x)
        print(good, (tostring(message):gsub("^.-: ", "")))
      ]])
      assert.matches("^false\tinterrupted!\nwhole\t[^\n]+\n6.0\n$", out)
    end
  end)
end)
