-- The parts that a build may be without. The command says which are in. A format whose part is
-- missing names the package that brings it. HIDDEN are those that `make parts` has hidden from
-- pkg-config.
local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"

local build <const> = command.ipulua:match("^(.*)/[^/]*$")
local info <const> = command.run{command.ipulua, "info"}.out
local hidden <const> = os.getenv("HIDDEN") or ""

local function row(name) return info:match("\n" .. name .. " +([^\n]*)") end

-- By pkg-config's name, whether the command says that it has the part.
local said <const> = {
  libedit = row "line editing" == "libedit", libpng = row "images":find("PNG", 1, true) ~= nil,
  libjpeg = row "images":find("JPEG", 1, true) ~= nil}
for name, plugin in pairs{hdf5 = "hdf5", ["ompi-c"] = "comm_openmpi", mpich = "comm_mpich"} do
  said[name] = (" " .. row "plug%-ins" .. " "):find(" " .. plugin .. " ", 1, true) ~= nil
end

-- Opened at run time, it may be missing from a computer though the build would take it.
said.openblas = not row("linear algebra"):find("^none")

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("optional parts", function()
  it("are those that make found, in what the command says", function()
    local made = {}
    for name in command.read(build .. "/parts"):gmatch("%S+") do made[name] = true end
    for name, is_in in pairs(said) do
      if name ~= "openblas" then assert.equal(made[name] or false, is_in, name) end
    end
    if not made.openblas then assert.is_false(said.openblas) end
    for name in hidden:gmatch("%S+") do assert.is_false(said[name], name) end
    if not said.hdf5 then assert.is_nil(io.open(build .. "/modules/ipulua/hdf5.so")) end
  end)

  it("are named with their package by what would read or write the format", function()
    local folder = command.folder()
    for _, case in ipairs{{"libpng", "x.png", "\137PNG\r\n\26\n", "libpng%-dev"},
      {"libjpeg", "x.jpg", "\255\216\255\224", "libjpeg62%-turbo%-dev"}} do
      local part, file, begin, package = table.unpack(case)
      command.write(folder .. "/" .. file, begin)
      local message = message_of(core.read_image, folder .. "/" .. file, 3)
      assert.equal(not said[part], message:find(package) ~= nil, message)
      assert.truthy(message:find(file, 1, true), message)
    end
    local good, message = pcall(core.write_image, folder .. "/y.png", ipu.ones({1, 1, 3}, "uint8"))
    assert.equal(said.libpng, good)
    if not good then assert.matches("y%.png: PNG files need libpng, .*libpng%-dev", message) end
    command.write(folder .. "/x.h5", "no such file")
    local layers = ipu.keras.layers
    local m = ipu.keras.Sequential{layers.Dense{1, input_shape = {2}}}
    message = message_of(m.load_weights, m, folder .. "/x.h5")
    assert.matches("^%S*parts_spec%.lua:%d+: ", message)
    assert.equal(not said.hdf5, message:find("libhdf5%-dev") ~= nil, message)
    command.remove(folder)
  end)
end)
