-- Standard output that can't be written, and standard files that are closed. The numbers are the
-- shell's: statuses, and the bytes of files.

local command = require "spec.support.command"

local ipulua <const> = command.quote(command.ipulua)

-- The exit status of a line for the shell.
local function status_of(line)
  local _, _, status = os.execute(line)
  return status
end

local function has_full() return os.execute("test -c /dev/full") end

describe("standard output", function()
  for _, words in ipairs {
    "-e 'print(1)'", "-e 'io.write(1)'", "-e 'print(1) os.exit(0)'",
    "-e 'print(1) os.exit(0, true)'",
    "-e 'for i = 1, 1e5 do io.write(i) end'", "--help", "--version", "-v", "info"} do
    it("on a full disk is a failure: " .. words, function()
      if not has_full() then return end
      local path <const> = command.scratch()
      assert.equal(1, status_of(("%s %s >/dev/full 2>%s"):format(ipulua, words, path)))
      assert.matches("ipulua: cannot write standard output", command.read(path))
    end)
  end

  it("on a full disk is none where nothing was printed", function()
    if not has_full() then return end
    assert.equal(0, status_of(ipulua .. " -e 'local x = 1' >/dev/full"))
  end)

  it("on a full disk leaves other files whole", function()
    if not has_full() then return end
    local path <const> = command.scratch()
    local script <const> = ("f = io.open(%q, 'w') f:write('kept') print(1) os.exit(0)"):format(path)
    assert.equal(1, status_of(("%s -e %s >/dev/full 2>&1"):format(ipulua, command.quote(script))))
    assert.equal("kept", command.read(path))
  end)

  for title, closed in pairs{["standard output"] = ">&- 2>/dev/null",
    ["standard error"] = ">/dev/null 2>&-",
    ["all three"] = "<&- >&- 2>&-"} do
    it("is not written into a script's file where it is closed: " .. title, function()
      local path <const> = command.scratch()
      local script <const> = ("local f = io.open(%q, 'w') print 'out' io.stderr:write 'err' "
        .. "io.stdout:flush() f:write 'data' f:close()"):format(path)
      local line <const> = ("%s -e %s %s"):format(ipulua, command.quote(script), closed)
      assert.equal(0, status_of(line))
      assert.equal("data", command.read(path))
    end)
  end

  it("that is closed leaves a training's log whole", function()
    local path <const> = command.scratch(".csv")
    local script <const> = ([[local ipu = require "ipulua" local keras = ipu.keras
      local m = keras.Sequential{keras.layers.Dense{1, kernel_initializer = "zeros"}}
      m:compile{optimizer = keras.optimizers.SGD{learning_rate = 0}, loss = "mse"}
      m:fit(ipu.ones{8, 2}, ipu.ones{8, 1},
        {epochs = 2, callbacks = {keras.callbacks.CSVLogger(%q)}})]]):format(path)
    assert.equal(0, status_of(("%s -e %s >&-"):format(ipulua, command.quote(script))))
    assert.equal("epoch,loss\n0,1.0\n1,1.0\n", command.read(path))
  end)
end)
