-- Libraries that are opened at first use. Starting loads neither them nor the libraries that they
-- need. If one is missing, the user reads which package brings it.
local command = require "spec.support.command"
local terminal = require "spec.support.terminal"

local build <const> = command.ipulua:match("^(.*)/[^/]*$")
-- These two, and what they are linked with on Debian 12 and 13.
local late <const> = {"libzip", "libcrypto", "libbz2", "liblzma", "libzstd", "libedit", "libtinfo",
  "libbsd", "libmd"}

local function run(words)
  local r = command.run(words)
  assert(r.status == 0, r.err .. r.out)
  return r.out
end

-- The file that linking with -lname would ask the loader for; nil without the development file.
local function file_of(name)
  return run{"sh", "-c", "readelf -d $(gcc -print-file-name=lib" .. name .. ".so) 2>/dev/null || :"}
    :match("SONAME[^%[]*%[([^%]]+)%]")
end

local function row(text, name) return text:match("\n" .. name .. " +([^\n]+)") end

local zip <const>, edit <const> = file_of "zip", file_of "edit"
local info <const> = run{command.ipulua, "info"}
local edits <const> = row(info, "line editing") == "libedit"

-- Which of them the process has mapped after a script.
local function mapped(script)
  local maps = run{command.ipulua, "-e", script .. " io.write(io.open('/proc/self/maps'):read 'a')"}
  assert.truthy(maps:find("/libc.so.6", 1, true))
  local found = {}
  for _, name in ipairs(late) do
    if maps:find("/" .. name .. ".so", 1, true) then found[name] = true end
  end
  return found
end

describe("a library that is opened at first use", function()
  it("is not linked", function()
    for _, file in ipairs{"/ipulua", "/libipulua.so.0", "/modules/ipulua/core.so"} do
      local needed = run{"readelf", "-d", build .. file}
      assert.truthy(needed:find("[libc.so.6]", 1, true))
      for _, name in ipairs(late) do
        assert.falsy(needed:find("[" .. name .. ".so", 1, true), file .. " is linked with " .. name)
      end
    end
  end)

  it("is not there before it is used", function()
    assert.same({}, mapped "")
    local folder = command.folder()
    local used = mapped("local ipu = require 'ipulua' ipu.save('" .. folder
      .. "/w.npz', {w = ipu.ones{2}})")
    command.remove(folder)
    assert.is_true(used.libzip)
    assert.is_nil(used.libedit)
  end)

  it("is the one that the linker would take", function()
    assert.equal(zip, row(info, "npz files"))
  end)

  describe("where it is missing", function()
    local folder, env
    setup(function()
      folder = command.folder()
      env = {LD_LIBRARY_PATH = folder}
      for _, file in ipairs{zip, edit} do command.write(folder .. "/" .. file, "no library") end
    end)
    teardown(function() command.remove(folder) end)

    it("is named with its package by the command and by what needs it", function()
      assert.equal("none; " .. zip:gsub("%.so%.", "") .. " brings it",
        row(run{command.ipulua, "info", env = env}, "npz files"))
      for _, call in ipairs{"save('w.npz', {w = ipu.ones{2}})", "load('w.npz')"} do
        local r = command.run{command.ipulua, "-e", "local ipu = require 'ipulua' ipu." .. call,
          dir = folder, env = env}
        assert.equal(1, r.status)
        assert.truthy(r.err:find("w.npz: npz files need " .. zip .. "; Debian's "
          .. zip:gsub("%.so%.", "") .. " brings it (", 1, true), r.err)
      end
      assert.is_nil(io.open(folder .. "/w.npz"))
    end);

    (edits and it or pending)("leaves a prompt that reads plain lines", function()
      local package = edit:gsub("%.so%.", "")
      assert.equal("none; " .. package .. " brings it",
        row(run{command.ipulua, "info", env = env}, "line editing"))
      local shown, status = terminal({
        {expect = "need " .. edit .. "; Debian's " .. package .. " brings it"}, {expect = "> "},
        {send = "6 * 7\n"}, {expect = "42\r\n> "}, {send = "\4"}}, {env = env})
      assert.equal(0, status, shown)
    end)
  end)
end)
