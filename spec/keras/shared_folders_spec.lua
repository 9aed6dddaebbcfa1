-- Checkpoint folders that several processes write to, or that somebody else has written; logs on a
-- full disk.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local function lua(text, ...) return {command.ipulua, "-e", text, ...} end

describe("a checkpoint folder", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  it("takes every checkpoint of two processes, whole", function()
    local script <const> = string.format([[
      local ipu = require "ipulua"
      local v, good = ipu.Variable(ipu.zeros{300}), 0
      local c = ipu.train.Checkpoint{v = v}
      for i = 1, 30 do
        v:assign(ipu.full({300}, i))
        if pcall(c.save, c, %q) then good = good + 1 end
      end
      print(good)]], folder)
    local other = io.popen(command.quote(command.ipulua) .. " -e " .. command.quote(script)
      .. " 2>&1")
    local mine = command.run(lua(script))
    local theirs = other:read("a")
    other:close()
    assert.equal("30\n", mine.out, mine.err)
    assert.matches("30\n$", theirs)
    local v = ipu.Variable(ipu.zeros{300})
    ipu.train.Checkpoint{v = v}:restore(folder)
    assert.equal(ipu.reduce_min(v):item(), ipu.reduce_max(v):item())
  end)

  it("tells a process whose newest checkpoint is another's", function()
    local saves <const> = string.format([[
      local ipu = require "ipulua"
      local c = ipu.train.Checkpoint{v = ipu.Variable(1.0)}
      c:save(%q)]], folder)
    local between <const> = command.quote(command.ipulua) .. " -e " .. command.quote(saves)
    local r = command.run(
      lua(saves .. ("; c:save(%q); os.execute(%q); c:save(%q)"):format(folder, between, folder)))
    assert.equal(0, r.status, r.err)
    local _, told = r.err:gsub("process %d+ writes to '.-', too", "")
    assert.equal(1, told, r.err)
  end)

  it("says whose it is while another process keeps it", function()
    local lock = core.lock_folder(folder, 0)
    -- it is this process's own already
    assert.is_nil(core.lock_folder(folder .. "/../" .. folder:match("[^/]+$"), 0))
    local script <const> = string.format([[print(pcall(require "ipulua.core".lock_folder, %q, 0))]],
      folder)
    assert.matches("false\t.*" .. folder .. ": process " .. core.process_id()
      .. " writes to this folder", command.run(lua(script)).out)
    core.unlock_folder(lock)
    assert.matches("^true\t", command.run(lua(script)).out)
    local again = core.lock_folder(folder, 0) -- of a process that is gone nothing is left
    assert.is_not_nil(again)
    core.unlock_folder(again)
    assert.same({}, core.list_folder(folder))
  end)

  it("belongs to a training with BackupAndRestore as long as it goes on", function()
    local script <const> = string.format([[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local m = keras.Sequential{keras.layers.Dense{1, input_shape = {2}}}
      m:compile{optimizer = "sgd", loss = "mse"}
      local _, problem = pcall(function()
        m:fit{ipu.ones{4, 2}, ipu.ones{4, 1}, epochs = 1, verbose = 0, callbacks = {keras.callbacks.BackupAndRestore{%q}}}
      end)
      print(problem)]], folder)
    local m, other = keras.Sequential{layers.Dense{1, input_shape = {2}}}, nil
    m:compile{optimizer = "sgd", loss = "mse"}
    local Between = keras.callbacks.Callback:extend("Between")
    function Between:on_epoch_end() other = command.run(lua(script)).out end -- luacheck: ignore 212
    m:fit{ipu.ones{4, 2}, ipu.ones{4, 1}, epochs = 1, verbose = 0,
      callbacks = {keras.callbacks.BackupAndRestore{folder}, Between()}}
    assert.matches("process " .. core.process_id() .. " writes to this folder", other)
    core.make_folder(folder)
    assert.equal("nil\n", command.run(lua(script)).out) -- afterwards it is free
  end)

  it("reads nothing outside of itself, whatever latest.json says", function()
    local other = command.folder()
    finally(function() command.remove(other) end)
    local v = ipu.Variable(ipu.ones{2})
    ipu.train.Checkpoint{v = v}:save(other)
    v:assign(ipu.full({2}, 5))
    ipu.train.Checkpoint{v = v}:save(folder)
    for _, step in ipairs{"../" .. other:match("[^/]+$") .. "/step-000001", "step-000001/../../x",
      ".", "", "step-1/"} do
      command.write(folder .. "/latest.json", ipu.json.encode{step = step, best = step})
      v:assign(ipu.zeros{2})
      assert.equal(folder .. "/step-000001", ipu.train.Checkpoint{v = v}:restore(folder))
      assert.equal(folder .. "/step-000001", ipu.train.latest_checkpoint(folder))
      assert.equal(5, ipu.reduce_max(v):item())
    end
    command.write(folder .. "/latest.json", '{"step": [1], "best": {}}')
    ipu.train.Checkpoint{v = v}:save(folder)
    assert.matches('"step":"step%-000001"', command.read(folder .. "/latest.json"))
  end)
end)

describe("a log on a full disk", function()
  local full = "/dev/full" -- every write to it fails as on a full disk

  local function fit(callback)
    local m = keras.Sequential{layers.Dense{1, input_shape = {3}}}
    m:compile{optimizer = "sgd", loss = "mse"}
    m:fit{ipu.ones{8, 3}, ipu.ones{8, 1}, batch_size = 4, epochs = 2, verbose = 0,
      callbacks = {callback}}
  end

  it("is told by CSVLogger", function()
    assert.error_matches(function() fit(keras.callbacks.CSVLogger{full}) end,
      "CSVLogger: /dev/full: cannot write: No space left on device")
  end)

  it("is told by TensorBoard", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local open <const> = io.open
    -- luacheck: ignore 122
    io.open = function(path, mode) return open(path:find("tfevents") and full or path, mode) end
    local ok, message = pcall(fit, keras.callbacks.TensorBoard{folder, histogram_freq = 1})
    io.open = open -- luacheck: ignore 122
    assert.is_false(ok)
    assert.matches("TensorBoard: .*tfevents.*: cannot write: No space left on device", message)
  end)

  it("is told by all that write files at once", function()
    local m = keras.Sequential{layers.Dense{1, input_shape = {3}}}
    for name, f in pairs{save = function() ipu.save(full, ipu.ones{2}) end,
      onnx = function() keras.onnx.export(m, full) end} do
      local ok, message = pcall(f)
      assert(not ok and (message:find("No space left") or message:find("must end in")),
        name .. ": " .. tostring(message))
    end
  end)
end)
