-- Files of make install are in their places, and work from there.
local command = require "spec.support.command"

-- installed is what was built without sanitizers
local root = command.ipulua:match("^(.*)/build/ipulua$")
-- The tree may be another user's, which git refuses to look at unless told.
local function git(...) return command.run{"git", "-c", "safe.directory=*", ...} end

local run_if = root and it or pending

local function run(words)
  local r = command.run(words)
  assert(r.status == 0, r.err .. r.out)
  return r.out
end

local function make(...) return run{"make", "-s", "--no-print-directory", ...} end

local function files(folder)
  local list = {}
  for path in run{"find", ".", "-type", "f", "-o", "-type", "l",
    dir = folder}:gmatch("%./([^\n]+)") do
    list[path] = true
  end
  return list
end

describe("make install", function()
  local folder
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  run_if("gives a prefix that works by itself", function()
    local prefix = folder .. "/opt"
    run{"mkdir", "-p", prefix .. "/share/lua/5.4"}
    command.write(prefix .. "/share/lua/5.4/other.lua", "return 1")
    make("install", "PREFIX=" .. prefix)
    local script = [[
      local ipu = require "ipulua"
      local m = ipu.keras.Sequential{ipu.keras.layers.Dense{1}}
      m:build{4, 2}
      print(ipu.reduce_sum(ipu.ones{2, 3}):item(), m:count_params())]]
    assert.equal("6.0\t3\n", run{prefix .. "/bin/ipulua", "-e", script, dir = "/"})
    local env = {LUA_PATH = prefix .. "/share/lua/5.4/?.lua;" .. prefix
      .. "/share/lua/5.4/?/init.lua",
      LUA_CPATH = prefix .. "/lib/lua/5.4/?.so"}
    assert.equal("6.0\t3\n", run{"lua5.4", "-e", script, env = env, dir = "/"})
    local jit = "local ipu = require 'ipulua.ffi' print(ipu.reduce_sum(ipu.zeros{2} + 3):item(), "
      .. "ipu.run_lua('return 1'))"
    assert.equal("6\t1\n",
      run{"luajit", "-e", jit, env = {LUA_PATH = prefix .. "/share/lua/5.1/?.lua"}, dir = "/"})
    -- A C program by pkg-config, with a model: the library finds its Lua files.
    local flags = run{"pkg-config", "--cflags", "--libs", "ipulua",
      env = {PKG_CONFIG_PATH = prefix .. "/lib/pkgconfig"}}
    run{"sh", "-c",
      ("gcc %s/examples/c/online.c %s -lm -Wl,-rpath,%s/lib -o %s/online"):format(
        command.quote(root),
      flags:gsub("\n", ""), prefix, folder)}
    assert.truthy(run{folder .. "/online", dir = folder}:find("error"))
    local man = command.run{"man", "--warnings", "-l", prefix .. "/share/man/man1/ipulua.1",
      env = {LC_ALL = "C.UTF-8"}}
    assert.equal("", man.err)
    make("uninstall", "PREFIX=" .. prefix)
    assert.same({["share/lua/5.4/other.lua"] = true}, files(prefix))
  end)

  run_if("puts everything where Debian looks, under DESTDIR", function()
    make("install", "PREFIX=/usr", "DESTDIR=" .. folder .. "/dest", "LIBDIR=/usr/lib/triplet",
      "LUA_CMOD=/usr/lib/triplet/lua/5.4")
    local got = files(folder .. "/dest")
    for _, path in ipairs{"bin/ipulua", "lib/triplet/libipulua.so.0", "lib/triplet/libipulua.so",
      "lib/triplet/pkgconfig/ipulua.pc",
      "lib/triplet/lua/5.4/ipulua/core.so", "share/lua/5.4/ipulua/init.lua",
      "share/lua/5.1/ipulua/ffi.lua", "include/ipulua.h",
      "share/lua/5.1/ipulua/cdef.lua", "include/ipulua.cdef.h", "share/man/man1/ipulua.1",
      "share/ipulua/library/ipulua.lua",
      "share/bash-completion/completions/ipulua"} do
      assert.is_true(got["usr/" .. path], path)
    end
    local pc = command.read(folder .. "/dest/usr/lib/triplet/pkgconfig/ipulua.pc")
    assert.truthy(pc:find("libdir=/usr/lib/triplet\n", 1, true) and not pc:find("@", 1, true)
      and not pc:find(folder, 1, true))
    assert.truthy(command.read(folder .. "/dest/usr/share/man/man1/ipulua.1"):find('"ipulua '
      .. pc:match("Version: (%S+)"), 1, true))
  end)

  run_if("puts the library where it finds the Lua module, below /usr as elsewhere", function()
    make("install", "PREFIX=/usr", "DESTDIR=" .. folder .. "/usr-install")
    local lib = run{"sh", "-c", "dirname $(find " .. folder
      .. "/usr-install -name libipulua.so.0)"}:match("[^\n]+")
    local script = "local ipu = require 'ipulua.ffi' print(ipu.run_lua('return 1'))"
    local env = {LUA_PATH = folder .. "/usr-install/usr/share/lua/5.1/?.lua", LD_LIBRARY_PATH = lib}
    assert.equal("1\n", run{"luajit", "-e", script, env = env, dir = "/"})
  end)

  it("comes with completion for bash", function()
    local place = folder .. "/completion"
    run{"sh", "-c", 'mkdir "$0" && cd "$0" && touch train.lua "my net.lua" weights.h5 chip.json',
      place}
    -- Completions of the last word, in brackets, one after the other.
    local function complete(...)
      local script =
        [[source src/packaging/ipulua.bash; cd "$0"; COMP_CWORD=$#; COMP_WORDS=(]]
        .. command.quote(command.ipulua) .. [[ "$@"); _ipulua]]
      return run{"bash", "-c", script .. [[; printf '<%s>' "${COMPREPLY[@]}"]], place, ...}
    end
    assert.equal("<--threads>", complete("--thr"))
    assert.equal("<gc2><gc200>", complete("--target", "gc"))
    assert.equal("<c600><chip.json>", complete("--target", "=", "c"))
    assert.equal("<info>", complete("inf"))
    assert.equal("<>", complete("info", ""))
    assert.equal("<my net.lua>", complete("my\\ n"))
    assert.equal("<my net.lua>", complete("--seed", "1", "'my n"))
    assert.equal("<>", complete("wei"))
    assert.equal("<weights.h5>", complete("--seed", "=", "1", "train.lua", "wei"))
    assert.equal("<>", complete("train.lua", "--thr"))
  end)

  it("comes with annotations of the ops, from their rows", function()
    local text = command.read("docs/library/ipulua.lua")
    assert(load(text))
    assert.truthy(text:find("---The product of matrices; leading extents broadcast.\n", 1, true))
    assert.truthy(text:find("---@param options? {transpose_a?: boolean, transpose_b?: "
      .. "boolean}\n---@return ipulua.Tensor\n"
      .. "function ipu.matmul(a, b, options) end\n", 1, true))
    assert.truthy(text:find('padding?: "VALID"|"SAME"', 1, true))
  end)
end)

describe("make deps-build", function()
  it("lists the missing packages where there is no apt-get, and continues", function()
    local folder = command.folder()
    for _, name in ipairs{"bash", "sh", "grep", "make"} do
      run{"ln", "-s", run{"sh", "-c", "command -v " .. name}:match("%S+"), folder .. "/" .. name}
    end
    local r = command.run{"make", "-s", "--no-print-directory", "deps-build", env = {PATH = folder}}
    command.remove(folder)
    assert.equal(0, r.status, r.err)
    assert.matches("by Debian's names: gcc make .*liblua5.4%-dev", r.out)
  end)
end)

describe("make", function()
  run_if("notes which optional parts are in, anew only when they are others", function()
    local folder = command.folder()
    local function parts(words)
      make("-C", root, "BUILD=" .. folder, folder .. "/parts", table.unpack(words))
      return command.read(folder .. "/parts")
    end
    local function without(...)
      local words = {...}
      for _, part in ipairs{"LIBEDIT", "LIBJPEG", "HDF5", "OPENMPI", "MPICH", "OPENBLAS"} do
        words[#words + 1] = "WITH_" .. part .. "=no"
      end
      return words
    end
    local none = without "WITH_LIBPNG=no"
    assert.equal("\n", parts(none))
    run{"touch", "-d", "2001-06-01", folder .. "/parts"}
    assert.equal("\n", parts(none))
    local function year() return run{"date", "-u", "-r", folder .. "/parts", "+%Y"} end
    assert.equal("2001\n", year())
    assert.equal("libpng\n", parts(without "WITH_LIBPNG=yes"))
    assert.is_not.equal("2001\n", year())
    command.remove(folder)
  end)

  -- A pkg-config that doesn't know the modules of that pattern.
  local function without(folder, pattern)
    local path = folder .. "/pkg-config"
    command.write(path,
      ('#!/bin/sh\ncase "$*" in %s) exit 1 ;; esac\nexec pkg-config "$@"\n'):format(pattern))
    run{"chmod", "+x", path}
    return "PKG_CONFIG=" .. path
  end

  local function plan(...)
    return command.run{"make", "--no-print-directory", "-n", "-B", "-C", root or ".", ...}
  end

  it("builds without what is not there", function()
    local folder = command.folder()
    for pattern, left_out in pairs{["*hdf5*"] = "src/plugin/hdf5.c", ["*libpng*"] = "-DHAVE_LIBPNG",
      ["*libjpeg*"] = "-DHAVE_LIBJPEG",
      ["*libedit*"] = "-DHAVE_LIBEDIT"} do
      local r = plan("BUILD=" .. folder .. "/build", without(folder, pattern))
      assert.equal(0, r.status, r.err)
      assert.truthy(r.out:find("/build/ipulua ", 1, true))
      assert.falsy(r.out:find(left_out, 1, true), pattern)
    end
    command.remove(folder)
  end)

  it("says what it misses before it compiles anything, and what brings it", function()
    local folder = command.folder()
    local function refused(pattern, ...)
      local r = command.run{"make", "-k", "--no-print-directory", "-C", root or ".",
        "BUILD=" .. folder .. "/build",
        without(folder, pattern), ...}
      assert.equal(2, r.status)
      assert.falsy(r.out:find(" -c ", 1, true), r.out)
      return r.err
    end
    assert.truthy(refused("*lua5.4*|*jansson*"):find("building needs, by Debian's names: "
      .. "liblua5.4-dev libjansson-dev\n"
      .. "this brings what is missing: make deps-build\n", 1, true))
    assert.truthy(refused("*hdf5*",
      "WITH_HDF5=yes"):find("building needs, by Debian's names: libhdf5-dev\n"
      .. "this brings what is missing: make deps-build WITH_HDF5=yes\n", 1, true))
    assert.truthy(refused("none", "CC=no-such-compiler"):find("names: no-such-compiler\n", 1, true))
    assert.truthy(refused("none", "WITH_LIBPNG=perhaps"):find(
      'WITH_LIBPNG is auto, yes or no, not "perhaps"', 1, true))
    command.remove(folder)
  end)
end)

describe("a build folder that can't be written to", function()
  it("is told once, before anything is compiled", function()
    local r = command.run{"make", "-j2", "--no-print-directory", "-C", root or ".",
      "BUILD=/proc/none"}
    assert.equal(2, r.status)
    assert.equal("", (r.out:gsub("make%S*:[^\n]*\n", "")))
    assert.equal("/proc/none can't be written to; another folder is taken by: make BUILD=folder\n",
      (r.err:gsub("make%S*: [^\n]*\n", "")))
  end)
end)

describe("make dist", function()
  run_if("gives the same bytes each time", function()
    if git("rev-parse", "HEAD").status ~= 0 then return pending("not a git checkout") end
    local folder = command.folder()
    local sums = {}
    for i = 1, 2 do
      local name = make("dist", "BUILD=" .. folder .. i):match("([^/\n]+)\n$")
      sums[i] = run{"sha256sum", name, dir = folder .. i}
      local listed = run{"tar", "-tzf", name, dir = folder .. i}
      assert.truthy(listed:find("/src/ipulua.h\n", 1, true))
      assert.falsy(listed:find("/build/", 1, true))
      command.remove(folder .. i)
    end
    command.remove(folder)
    assert.equal(sums[1], sums[2])
  end)
end)

describe("luarocks make", function()
  run_if("builds the rockspec into a tree", function()
    local folder = command.folder()
    run{"luarocks", "--lua-version=5.4", "--tree=" .. folder, "make", "--deps-mode=none",
      make("rock"):match("%S+"),
      env = {HOME = folder}}
    local env = {LUA_PATH = folder .. "/share/lua/5.4/?.lua;" .. folder
      .. "/share/lua/5.4/?/init.lua",
      LUA_CPATH = folder .. "/lib/lua/5.4/?.so"}
    assert.equal("[2. 2.]\n",
      run{"lua5.4", "-e", "print(require 'ipulua'.ones{2} * 2)", env = env, dir = "/"})
    assert.equal("[2. 2.]\n",
      run{folder .. "/bin/ipulua", "-e", "print(require 'ipulua'.ones{2} * 2)", dir = "/"})
    command.remove(folder)
  end)
end)

-- Installed into a folder as dpkg would; then a command, a Lua module, a C program, LuaJIT. By
-- default what was built already is packed; IPULUA_LONG=1 builds everything once more, with the
-- flags that Debian wants.
describe("make deb", function()
  local packed = command.folder() .. "/packed"
  teardown(function() command.remove(packed:match("^(.*)/")) end)
  local has_tools = root
    and command.run{"sh", "-c", "command -v dh && command -v dpkg-buildpackage"}.status == 0;
  (has_tools and it or pending)("makes packages that work from a folder", function()
    local folder = command.folder()
    make("deb", os.getenv("IPULUA_LONG") and "FROM=" or "FROM=build", "DEBS=" .. packed)
    local packages = {}
    for path in run{"sh", "-c", "ls " .. packed .. "/*.deb"}:gmatch("[^\n]+") do
      local name = path:match("([^/]+)_[^/]*_[^/]*%.deb$")
      if not name:find("%-dbgsym$") then
        packages[name] = run{"dpkg-deb", "-f", path, "Depends"}
        run{"dpkg-deb", "-x", path, folder}
      end
    end
    assert.is_truthy(packages.ipulua and packages.libipulua0 and packages["libipulua-dev"])
    assert.truthy(packages.ipulua:find("liblua5.4-0", 1, true)
      and not packages.libipulua0:find("lua", 1, true))
    -- libraries that are opened at first use
    assert.matches("libzip%d", packages.ipulua)
    assert.matches("libzip%d", packages.libipulua0)
    assert.falsy(packages.libipulua0:find("libedit", 1, true))
    local edits = run{command.ipulua, "info"}:find("line editing +libedit") ~= nil
    assert.equal(edits, packages.ipulua:find("libedit%d") ~= nil)
    local lib = run{"sh", "-c", "dirname " .. folder .. "/usr/lib/*/libipulua.so.0"}:match("[^\n]+")
    local check = "print(require 'ipulua'.ones{2} * 2)"
    assert.equal("[2. 2.]\n", run{folder .. "/usr/bin/ipulua", "-e", check, dir = "/"})
    local share = folder .. "/usr/share/lua/"
    local env = {LUA_PATH = share .. "5.4/?.lua;" .. share .. "5.4/?/init.lua",
      LUA_CPATH = lib .. "/lua/5.4/?.so"}
    assert.equal("[2. 2.]\n", run{"lua5.4", "-e", check, env = env, dir = "/"})
    run{"gcc", "examples/c/online.c", "-I" .. folder .. "/usr/include", "-L" .. lib, "-lipulua",
      "-lm", "-o", folder .. "/online"}
    assert.truthy(run{folder .. "/online", env = {LD_LIBRARY_PATH = lib},
      dir = folder}:find("error"))
    local jit = {LUA_PATH = share .. "5.1/?.lua", LD_LIBRARY_PATH = lib}
    assert.equal("4\n", run{"luajit", "-e", "print((require 'ipulua.ffi'.tensor{2} * 2):item())",
      env = jit, dir = "/"})
    for _, path in ipairs{"share/man/man1/ipulua.1.gz", "share/bash-completion/completions/ipulua",
      "share/ipulua/library/ipulua.lua",
      "share/doc/ipulua/copyright",
      "share/doc/ipulua/changelog.gz"} do command.read(folder .. "/usr/" .. path) end
    command.remove(folder)
  end);

  -- The packages of the check above, installed by dpkg where there is nothing but what they say
  -- they depend on.
  local may_change_root = has_tools and command.run{"sh", "-c",
    "test $(id -u) = 0 && command -v dpkg && chroot / true"}.status == 0;
  (may_change_root and it or pending)("makes packages that install into a clean system, work "
    .. "there, and leave nothing behind", function()
    local folder = command.folder()
    local clean, debs = folder .. "/root", {}
    for path in run{"sh", "-c", "ls " .. packed .. "/*.deb"}:gmatch("[^\n]+") do
      if not path:find("dbgsym", 1, true) then debs[#debs + 1] = path end
    end
    local present = run{"sh", "spec/support/clean_root.sh", clean, table.unpack(debs)}
    local is_present = {}
    for name in present:gmatch("%S+") do is_present[name] = true end
    assert.is_true(is_present.libc6 and is_present["liblua5.4-0"])
    for _, foreign in ipairs{"gcc", "make", "lua5.4", "lua-busted", "python3", "luajit"} do
      assert.is_nil(is_present[foreign])
    end
    local function inside(...) return run{"chroot", clean, ...} end
    local script = [[
      local ipu = require "ipulua"
      local m = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
      m:compile{optimizer = "sgd", loss = "mse"}
      local x = ipu.ones{8, 2}
      local function loss() return m:evaluate(x, x:slice({0, 0}, {8, 1}), {verbose = 0, batch_size = 8}) end
      local before = loss()
      m:fit{x = x, y = x:slice({0, 0}, {8, 1}), batch_size = 4, epochs = 5, verbose = 0}
      print(loss() < before)
      m:save("m.safetensors")
      print(ipu.keras.models.load_model("m.safetensors"):count_params())
      ipu.save("x.npz", {x = x})
      print(ipu.load("x.npz").x.shape[1])
      m:summary()]]
    assert.matches("^true\n3\n8\nModel:", inside("ipulua", "-e", script))
    local parts = inside("ipulua", "info")
    assert.truthy(parts:find("PNG JPEG", 1, true))
    assert.matches("line editing +libedit\n", parts)
    assert.equal("7\n", run{"chroot", clean, "ipulua", "-", stdin = "print(3 + 4)"})
    local lib = run{"sh", "-c", "dirname " .. clean .. "/usr/lib/*/libipulua.so.0"}:match("[^\n]+")
    run{"gcc", "examples/c/online.c", "-I" .. clean .. "/usr/include", "-L" .. lib, "-lipulua",
      "-lm", "-o", clean .. "/tmp/online"}
    assert.truthy(inside("/tmp/online"):find("error"))
    assert.equal("", run{"dpkg", "--root=" .. clean, "--verify", "ipulua", "libipulua0",
      "libipulua-dev"})
    run{"dpkg", "--root=" .. clean, "--log=/dev/null", "--purge", "libipulua-dev",
      "libipulua0", "ipulua"}
    assert.equal("", run{"find", clean .. "/usr", clean .. "/var/lib/dpkg/info", "-name",
      "*ipulua*"})
    command.remove(folder)
  end)
end)

describe("the top of the repository", function()
  it("holds what a reader looks for, and nothing else", function()
    local listed = git "ls-files"
    if listed.status ~= 0 then return pending("not a git checkout") end
    local tops, list = {}, {}
    for path in listed.out:gmatch("[^\n]+") do tops[path:match("^[^/]+")] = true end
    for name in pairs(tops) do
      if name:sub(1, 1) ~= "." then list[#list + 1] = name end
    end
    table.sort(list)
    assert.same({"LICENSE", "Makefile", "README.md", "docs", "examples", "lua", "spec", "src"},
      list)
  end)
end)
