-- The command copied alone, into a root that holds nothing but the shared libraries that `ldd`
-- names. If no other root may be entered, it is copied into a folder.
local command = require "spec.support.command"

-- the sanitizers want more than their libraries
local is_built_plainly <const> = command.ipulua:find("/build/ipulua$")
local run_if = is_built_plainly and it or pending

local function run(words)
  local r = command.run(words)
  assert(r.status == 0, r.err .. r.out)
  return r.out
end

-- Of what `ipulua info` prints.
local function row(text, name) return text:match("\n" .. name .. " +([^\n]+)") end

-- The code that README shows.
local function script_of_readme()
  local text = command.read("README.md"):match("\n```lua\n(.-)```")
  return (text:gsub("accuracy > 0.9%)", "accuracy)"))
end

describe("the command copied alone", function()
  local root, may_enter, alone
  setup(function()
    root = command.folder()
    run{"mkdir", root .. "/bin", root .. "/tmp"}
    run{"cp", command.ipulua, root .. "/bin/ipulua"}
    for library in run{"ldd", command.ipulua}:gmatch("/[^ \n]+") do
      run{"cp", "-L", "--parents", library, root}
    end
    may_enter = command.run{"chroot", root, "/bin/ipulua", "-v"}.status == 0
    function alone(words)
      local call = may_enter and {"chroot", root, "/bin/ipulua"} or {root .. "/bin/ipulua"}
      call.dir, call.stdin, call.env = root, words.stdin, words.env
      return command.run(table.move(words, 1, #words, #call + 1, call))
    end
  end)
  teardown(function() command.remove(root) end)

  run_if("trains the model of README", function()
    command.write(root .. "/train.lua", script_of_readme())
    local r = alone{"train.lua"}
    assert.equal(0, r.status, r.err)
    assert.is_true(tonumber(r.out:match("([%d.]+)\n$")) > 0.5, r.out)
  end)

  run_if("has the prompt and its help", function()
    local r = alone{"-i", stdin = "ipu.ones{2} * "
      .. "3\n?ipu.reduce_sum\n?keras.layers.Dense\n?ipu.func\n?keras.losses.Huber\n"}
    assert.equal(0, r.status, r.err)
    for _, text in ipairs{"tensor([3., 3.], dtype=float32)", "The sum over axes.",
      "activation(x · kernel + bias)",
      "Traced once per signature", "delta"} do
      assert.truthy(r.out:find(text, 1, true), r.out)
    end
  end)

  run_if("tells which parts are in it, and that plug-ins are not", function()
    local whole, r = run{command.ipulua, "info"}, alone{"info"}
    assert.equal(0, r.status, r.err)
    assert.equal("none", row(r.out, "plug%-ins"))
    for _, name in ipairs{"images", "compiler"} do
      assert.equal(row(whole, name), row(r.out, name))
    end
    -- One that is found, but is none.
    local folder = root .. "/lib/lua/5.4/ipulua"
    run{"mkdir", "-p", folder}
    command.write(folder .. "/hdf5.so", "no library")
    assert.matches("^none %(hdf5 can't be loaded: .*hdf5%.so: ",
      row(run{root .. "/bin/ipulua", "info"}, "plug%-ins"))
    command.remove(root .. "/lib/lua")
  end)

  run_if("reads and writes .npz files where libzip is there, and says so where it isn't", function()
    local save = "ipu = require 'ipulua' ipu.save('w.npz', {w = ipu.ones{2} * 3})"
    if may_enter then
      local r = alone{"-e", save}
      assert.equal(1, r.status)
      assert.matches("w%.npz: npz files need libzip%.so%.%d; Debian's libzip%d brings it", r.err)
      assert.matches("^none; libzip%d brings it$", row(alone{"info"}.out, "npz files"))
    end
    -- under the name that it is opened by, with what it is linked with
    local maps = run{command.ipulua, "-e", save .. " print(io.open('/proc/self/maps'):read 'a')",
      dir = root}
    local folder, name = maps:match("(/[^ \n]+)/libzip%.so[^\n]*"), row(run{command.ipulua,
      "info"}, "npz files")
    for library in run{"ldd", folder .. "/" .. name}:gmatch("/[^ \n]+") do
      run{"cp", "-L", "--parents", library, root}
    end
    run{"cp", "-L", "--parents", folder .. "/" .. name, root}
    command.write(root .. "/w.npz", "")
    local r = alone{"-e", save .. " print(ipu.load('w.npz').w)"}
    assert.equal("[3. 3.]\n", r.out, r.err)
  end)

  run_if("writes reports", function()
    run{"mkdir", root .. "/profiles"}
    command.write(root .. "/profiled.lua", [[
      local ipu = require "ipulua"
      ipu.func(function(x) return ipu.matmul(x, x) end)(ipu.ones{2, 2})]])
    local r = alone{"--profile", "profiles", "profiled.lua"}
    assert.equal(0, r.status, r.err)
    local page = run{"sh", "-c", 'cat "$0"/profiles/*/index.html', root}
    assert.truthy(page:find('"executions":1', 1, true) and page:find("</html>", 1, true))
  end)

  run_if("names the script's line in errors, and its own files' in tracebacks", function()
    command.write(root .. "/wrong.lua", "local ipu = require 'ipulua'\nipu.func(function(x)\n  "
      .. "return ipu.matmul(x, x)\nend)(ipu.ones{2, 3})\n")
    local r = alone{"wrong.lua"}
    assert.equal(1, r.status)
    assert.truthy(r.err:find("wrong.lua:3: matmul", 1, true), r.err)
    local line = tonumber(r.err:match("%[ipulua%]/trace/func%.lua:(%d+): in"))
    local text = command.read("lua/ipulua/trace/func.lua")
    assert.is_true(line and line <= select(2, text:gsub("\n", "")), r.err)
  end)

  run_if("says what is missing", function()
    local r = alone{"-e", "require 'ipulua.no_such_part'"}
    assert.truthy(r.err:find("module 'ipulua.no_such_part' not found:", 1, true), r.err)
    command.write(root .. "/w.h5", "\137HDF")
    r = alone{"-e", "local k = require 'ipulua'.keras k.Sequential{k.layers.Dense{1, input_shape = "
      .. "{2}}}:load_weights('w.h5')"}
    assert.matches("%(command line%):1: load_weights: %.h5 files need the plug%-in "
      .. "ipulua%.hdf5.*libhdf5%-dev", r.err)
  end)

  run_if("gives way to a library in LUA_PATH, and to a folder beside the executable", function()
    run{"mkdir", "-p", root .. "/mine/ipulua", root .. "/lua/ipulua"}
    command.write(root .. "/mine/ipulua/nearest.lua", "return 'mine'")
    command.write(root .. "/lua/ipulua/nearest.lua", "return 'beside'")
    local script = "print((require 'ipulua.nearest'))"
    assert.equal("mine\n", alone{"-e", script, env = {LUA_PATH = "mine/?.lua;;"}}.out)
    -- without /proc it doesn't know where it is
    assert.equal("beside\n", run{root .. "/bin/ipulua", "-e", script})
    command.remove(root .. "/lua")
    assert.matches("^table: ", alone{"-e", script}.out)
    assert.matches("^table: ", alone{"-e", script, env = {LUA_PATH = "mine/?/?.lua"}}.out)
  end)
end)

describe("make static", function()
  local archive = is_built_plainly and run{"gcc", "-print-file-name=liblua5.4.a"}
  local there = archive and archive:sub(1, 1) == "/";
  (there and it or pending)("leaves libc and libm to the system, and opens libzip", function()
    run{"make", "-s", "--no-print-directory", "static"}
    for library in run{"readelf", "-d", "build/ipulua-static"}:gmatch(
      "%(NEEDED%)[^%[]*%[([^%]]+)%]") do
      local name = library:match("^lib(%a+)%.so") or library
      assert.truthy(({c = true, m = true})[name] or library:find("^ld%-linux"), library)
    end
    assert.equal("[2. 2.]\n",
      run{"build/ipulua-static", "-e", "print(require 'ipulua'.ones{2} * 2)"})
    local info = run{command.ipulua, "info"}
    local folder = command.folder()
    for i = 0, 9 do command.write(folder .. "/libedit.so." .. i, "no library") end
    local static = run{"build/ipulua-static", "info", env = {LD_LIBRARY_PATH = folder}}
    command.remove(folder)
    for _, name in ipairs{"npz files", "line editing"} do
      assert.equal(row(info, name), row(static, name))
    end
    -- a module in C, made for liblua
    assert.equal("[1]\n", run{"build/ipulua-static", "-e", "print(require 'cjson'.encode{1})"})
  end)
end)
