local command = require "spec.support.command"

local folder

local function file(name, text)
  command.write(folder .. "/" .. name, text)
  return name
end

local function run(words)
  table.insert(words, 1, command.ipulua)
  words.name = words.name or "lua"
  words.dir = words.dir or folder
  return command.run(words)
end

describe("the command line", function()
  setup(function()
    folder = command.folder()
    file("hello.lua", "#!/usr/bin/env ipulua\nprint('hello', ...)\n")
    file("args.lua", "for i = -9, 9 do if arg[i] then print(i, arg[i]) end end print(select('#', "
      .. "...), ...)")
    file("fails.lua", "local function f()\n  error('no luck')\nend\nf()\n")
    file("syntax.lua", "x = = 1\n")
    file("mod.lua", "return {name = ...}")
    file("warns.lua", "warn('watch', ' out') print('done')")
    file("init.lua", "print('init')")
    file("bom.lua", "\239\187\191#!shebang\nprint('bom', debug.getinfo(1).currentline)")
    file("only.lua", "#!only this")
    file("empty.lua", "")
    file("returns.lua", "return 7, ...")
    file("dumped.luac", string.dump(assert(load("print('dumped', ...)", "=dumped"))))
    file("cut.luac", string.dump(assert(load("print('dumped', ...)", "=dumped"))):sub(1, 40))
    file("deep.lua", ("("):rep(300) .. "1" .. (")"):rep(300))
    file("close.lua", "local t <close> = setmetatable({}, {__close = function() print('end of "
      .. "script') end}) print(...)")
  end)
  teardown(function() command.remove(folder) end)

  -- Lua's words, and after them the name that is meant.
  describe("a misspelt method", function()
    local function problem(text)
      local out = run{"-e", "local ipu = require 'ipulua' " .. text}
      return out.err
    end
    local cases = {
      {"ipu.ones{2}:summ()", "a tensor has no 'summ'; did you mean 'sum'?"},
      {"print(1, ipu.ones{2}:greater(1):anny(ipu.ones{1}))",
        "a tensor has no 'anny'; did you mean 'any'?"},
      {"ipu.Variable(1.0):numpy()", "a variable has no 'numpy'; did you mean 'totable'?"},
      {"ipu.keras.Sequential{}:compil{}", "method 'compil'%); did you mean 'compile'?"},
      {"ipu.keras.Sequential{}:forward(nil, ipu.ones{2})",
        "method 'forward'%); did you mean 'call'?"},
      {"ipu.data.range(3):as_numpy_iterator()",
        "method 'as_numpy_iterator'%); did you mean 'iter'?"},
      {"ipu.Variable(1.0):value()", "a variable has no 'value'; did you mean 'read_value'?"},
      {"ipu.data.range(3):next()", "method 'next'%); did you mean 'iter'?"},
      {"ipu.ones{2}:size()", "method 'size'%); it is a field, which is not called: x.size"},
      {"local x = ipu.ones{2} print(x:shape())",
        "method 'shape'%); it is a field, which is not called: x.shape"},
      {"for x in ipu.ones{2} do print(x) end",
        "; `for i, row in ipairs%(x%) do` walks over a tensor's rows"},
      {"for x in pairs(ipu.ones{2}) do print(x) end",
        "; `for i, row in ipairs%(x%) do` walks over a tensor's rows"},
      {"local s = 'a' s:foo()", "method 'foo'%)\n"},
      {"local t = {} t:foo(ipu.ones{2})", "method 'foo'%)\n"},
      {"local t = {} t:foo(nil, ipu.ones{2})", "method 'foo'%)\n"},
    }
    for _, case in ipairs(cases) do
      it("says what was meant: " .. case[1], function()
        assert.matches(case[2], problem(case[1]))
      end)
    end

    -- inside functions that the library calls, and fields
    local start <const> = "local keras, layers, x = ipu.keras, ipu.keras.layers, ipu.ones{2, 2} "
    local own <const> = start .. "local M = keras.Model:extend('M') function M:init() "
      .. "keras.Model.init(self) self.dense = layers.Dense(1) end "
    local fit <const> = "local m = M() m:compile{optimizer = 'sgd', loss = 'mse'} "
      .. "m:fit{x, x, verbose = 0}"
    local known <const> = start .. "local m = keras.Sequential{layers.Dense{1, input_shape = {2}}} "
      .. "m:compile{loss = 'mse', metrics = {'accuracy'}} "
    local inside = {
      {start .. "local L = layers.Layer:extend('L') function L:build() self:add_weights{} end "
        .. "function L:call(x) return x end L()(x)",
        "method 'add_weights'%); did you mean 'add_weight'?"},
      {own .. "function M:train_step(x, y) self:compute_los(x) end " .. fit,
        "method 'compute_los'%); did you mean 'compute_loss'?"},
      {own .. "function M:call(x) return self.dens(x) end " .. fit,
        "field 'dens'%); did you mean 'dense'?"},
      {start .. "local l = layers.Dense(1) ipu.data.range(3):map(function(x) return l:cal(x) end)",
        "^lua: %(command line%):1: attempt to call a nil value %(method 'cal'%); did you mean "
        .. "'call'?"},
      {known .. "print(m.optimzer.lr)", "field 'optimzer'%); did you mean 'optimizer'?"},
      {known .. "local h = m:fit{x, ipu.ones{2, 1}, verbose = 0} print(h.history.acuracy[1])",
        "field 'acuracy'%); did you mean 'accuracy'?"},
      {known .. "local logs = m:evaluate{x, ipu.ones{2, 1}, verbose = 0, return_dict = true} "
        .. "print(logs.los + 1)", "field 'los'%); did you mean 'loss'?"},
      {"local t = {loss = 1} print(t.los.x)", "field 'los'%)\n"},
    }
    for i, case in ipairs(inside) do
      it("says what was meant, number " .. i .. ": " .. case[2], function()
        assert.matches(case[2], problem(case[1]))
      end)
    end

    it("says where help is", function()
      local out = run{"-e", "help(1)"}
      assert.matches("global 'help'%); help is the prompt's: `ipulua`", out.err)
    end)

    it("says how a script begins", function()
      local out = run{"-e", "print(ipu.ones{2})"}
      assert.matches("global 'ipu'%); a script begins with `local ipu = require \"ipulua\"`",
        out.err)
    end)
  end)

  -- Output, messages with tracebacks and exit status equal the standard interpreter's, to the byte.
  describe("agrees with lua5.4", function()
    local cases = {
      {"hello.lua"}, {"hello.lua", "a", "b c", ""}, {"args.lua"},
      {"args.lua", "x", "-e", "--threads"},
      {"-e", "x = 1", "args.lua", "y"}, {"-e", "print(1)", "-e", "print(2)"}, {"-eprint(1)"},
      {"-e", "", "--", "args.lua", "-x"}, {"--", "args.lua"}, {"-W", "warns.lua"}, {"warns.lua"},
      {"-W", "-e", "warn('@off') warn('a') warn('@on') warn('b')"},
      {"-l", "mod", "-e", "print(mod.name)"},
      {"-lmod", "-e", "print(mod.name)"}, {"-l", "g=mod", "-e", "print(mod, g.name)"},
      {"-l", "nosuchmodule"},
      {"-e", "error('x')"}, {"-e", "error('x', 0)"}, {"-e", "error({})"}, {"-e", "error()"},
      {"-e", "error(nil)"},
      {"-e", "error(setmetatable({}, {__tostring = function() return 'shown' end}))"},
      {"-e", "error(setmetatable({}, {__tostring = function() return 1 end}))"},
      {"-e", "error(12)"},
      {"-e", "x = = 1"}, {"-e", "x ="}, {"fails.lua"}, {"syntax.lua"}, {"nosuchfile.lua"},
      {"-e", "os.exit(3)"}, {"-e", "os.exit(true)"}, {"-e", "os.exit(false)"},
      {"-e", "os.exit(4, true)"},
      {"-e", "setmetatable({}, {__gc = function() print('collected') end}) os.exit(0, true)"},
      {"-e", "t <close> = 1"},
      {"-e", "local t <close> = setmetatable({}, {__close = function() print('closed') end})"},
      {"-e", "setmetatable({}, {__gc = function() print('at the end') end})"},
      {"-e", "arg = nil", "hello.lua"}, {"-e", "arg = {'other'}", "hello.lua", "mine"},
      {"-e", "print(#arg, arg[0], arg[1], arg[-1])"}, {"-e", "print(arg[0])", "-"},
      {"-", "a", "b", stdin = "print(arg[0], ...)"},
      {stdin = "print('from stdin', ...)"},
      {stdin = "#!shebang\nprint(debug.getinfo(1).short_src)"},
      {"-", stdin = "error('in')"}, {stdin = "print(1", "-"},
      {"-", stdin = "io.write(io.read('a'))\n"},
      {"-e", "io.write(io.read('a'))", stdin = "text"},
      {"--", "-"}, {"-e", "print(1)", stdin = "print(2)"}, {"-l", "mod", stdin = "print(mod.name)"},
      {"hello.lua", env = {LUA_INIT = "print('one')"}},
      {"hello.lua", env = {LUA_INIT = "@init.lua"}},
      {"hello.lua", env = {LUA_INIT = "print('one')", LUA_INIT_5_4 = "print('two')"}},
      {"hello.lua", env = {LUA_INIT = "error('bad')"}}, {"hello.lua", env = {LUA_INIT = "x ="}},
      {"hello.lua", env = {LUA_INIT = "@nosuchfile.lua"}},
      {"hello.lua", env = {LUA_INIT = "@syntax.lua"}},
      {"-E", "hello.lua", env = {LUA_INIT = "print('one')"}},
      {"-e", "print(2)", env = {LUA_INIT = "print(arg[1])"}},
      {"-e", "coroutine.wrap(function() error('inside') end)()"},
      {"-e", "string.rep('x', -1):bad()"},
      {"-e", "local function f() return f() + 1 end f()"},
      {"-e", "print(('x'):rep(3, ','))", "-e", "print(_VERSION)"},
      {"-e", "print(require('mod').name, package.loaded.mod.name)"},
      {"-i", "-e", "_PROMPT = ''", stdin = ""},
      {"-e", "return 1, 2"}, {"-e", "goto x"}, {"-e", "print(pcall(string.dump, print))"}, {""},
      {"-e", ""},
      -- Warnings, also of finalisers; states that are closed.
      {"-W", "-W", "warns.lua"}, {"-e", "warn('@on')", "warns.lua"},
      {"-W", "-e", "print(pcall(warn))"}, {"-e", "warn('@unknown') warn()"},
      {"-W", "-e", "setmetatable({}, {__gc = function() error('in gc') end}) collectgarbage()"},
      {"-e",
        "setmetatable({}, {__gc = function() error('in gc') end}) collectgarbage() print('on')"},
      {"-W", "-e", "setmetatable({}, {__gc = function() error({}) end})"},
      {"-e", "local c <close> = setmetatable({}, {__close = function() print('closed') end}) "
        .. "os.exit(true, true)"},
      {"-e", "local c <close> = setmetatable({}, {__close = function() print('closed') end}) "
        .. "os.exit(true)"},
      {"-e", "local c <close> = setmetatable({}, {__close = function(_, e) print('closed', e) "
        .. "end}) error('why')"},
      {"-e", "local c <close> = setmetatable({}, {__close = function() error('closing') end}) "
        .. "error('why')"},
      {"-e", "os.exit(256 + 7)"}, {"-e", "os.exit(-1)"}, {"-e", "os.exit('x')"},
      {"-e", "os.exit(2.5)"},
      {"-e", "io.stdout:setvbuf('full') io.write('written') os.exit(3, true)"},
      -- Error objects.
      {"-e", "error(setmetatable({}, {__name = 'Mine'}))"}, {"-e", "error(print)"},
      {"-e", "error(true)"}, {"-e", "error(1.5)"},
      {"-e", "error(io.stdout)"},
      {"-e", "local t = setmetatable({}, {__tostring = function() error('again') end}) error(t)"},
      {"-e", "error(('long '):rep(200))"}, {"-e", "error('with\\0zero')"},
      {"-e", "coroutine.yield(1)"},
      {"-e", "xpcall(error, function(m) print('handled', m) error('twice') end, 'first')"},
      -- Options together, and odd ones.
      {"-l", "a.b"}, {"-l", "=mod"}, {"-l", "g="},
      {"-l", "g=mod", "-l", "mod", "-e", "print(g == mod)"}, {"-lmod.lua"},
      {"-v", "-e", ""}, {"-vi"}, {"-vv"}, {"-Ev"}, {"-e"}, {"-W"}, {"-ve", "1"}, {"-", "-e"},
      {"-E", "-W", "-e", "warn('x')"},
      {"-E", "-e", "print(package.loaded.nothing)", env = {LUA_PATH = "x"}},
      {"-e", "print(1)", "-E", env = {LUA_INIT = "print('no')"}},
      {"-W", "-l", "mod", "-e", "x = mod", "--", "args.lua", "-W", "--"},
      {"-e", "print(...)", "args.lua", "1"},
      {"hello.lua", env = {LUA_INIT = ""}}, {"hello.lua", env = {LUA_INIT = "arg[1] = 'new'"}},
      {"hello.lua", env = {LUA_INIT = "@"}},
      {"args.lua", "x", env = {LUA_INIT = "arg = {[0] = 'zero', 'one'}"}},
      {"-e", "arg = 'text'", "hello.lua"},
      {"-e", "print(2)", env = {LUA_INIT_5_4 = "error({})"}},
      -- Scripts of all kinds.
      {"bom.lua"}, {"only.lua"}, {"empty.lua"}, {"returns.lua"}, {"dumped.luac", "x"}, {"."},
      {"cut.luac"}, {"deep.lua"}, {"close.lua"},
      {"-", stdin = ""}, {stdin = "return 1"}, {stdin = "print(arg[0], #arg, ...)"},
      {"-", "x", stdin = "\239\187\191print('bom')"},
      {"-", stdin = "local x <const> = 1 x = 2"}, {stdin = "print(io.read('l'))"},
      {"-e", "print(io.read('n', 'l', 'L'))", stdin = "12 rest\nmore\n"},
    }
    local library = command.ipulua:gsub("/[^/]*/[^/]*$", "/lua/")
    for _, case in ipairs(cases) do
      local title = {}
      for i, word in ipairs(case) do title[i] = word == "" and "''" or word end
      if case.stdin then title[#title + 1] = "< " .. case.stdin end
      for name, value in pairs(case.env or {}) do title[#title + 1] = name .. "=" .. value end
      it("on " .. table.concat(title, " "):gsub("\n", " "), function()
        local theirs = {"/usr/bin/lua5.4", name = "lua", dir = folder, stdin = case.stdin,
          env = case.env}
        local ours = {stdin = case.stdin, env = case.env}
        for i, word in ipairs(case) do theirs[i + 1], ours[i] = word, word end
        local expected, got = command.run(theirs), run(ours)
        if case[1] == "-i" then -- greets in its own way
          expected.out, got.out = expected.out:match("[^\n]*"), got.out:match("[^\n]*")
        end
        -- The messages of require name our own folder too.
        got.err = got.err:gsub("\n\tno file '[^\n]*'", function(line)
          return line:find(library, 1, true) and "" or nil
        end)
        -- -v tells a second version; wrong usage lists more options, and its status is 2.
        got.out = got.out:gsub("(PUC%-Rio\n)ipulua [%d.]+\n", "%1", 1)
        if expected.err:find("\nusage:", 1, true) then
          expected.err, expected.status, got.err = expected.err:match("[^\n]*"), 2,
            got.err:match("[^\n]*")
        end
        -- Addresses differ from run to run, the depth reached with the size of a frame in C.
        for _, result in ipairs {expected, got} do
          result.err = result.err:gsub("0x%x+", "0x"):gsub("skipping %d+ levels", "skipping levels")
        end
        assert.same(expected, got)
      end)
    end
  end)

  it("shows the version of Lua and its own", function()
    local theirs = command.run {"/usr/bin/lua5.4", "-v"}
    local ours = run {"-v"}
    assert.equal(theirs.out, ours.out:match("^[^\n]*\n"))
    assert.truthy(ours.out:find("ipulua %d+%.%d+%.%d+"))
    assert.equal(0, ours.status)
    assert.truthy(run({"--version"}).out:find("^ipulua %d+%.%d+%.%d+ %(Lua 5%.4%.%d+%)\n$"))
  end)

  it("explains itself", function()
    local help = run {"--help"}
    assert.equal(0, help.status)
    for _, option in ipairs {"-e", "-l", "-i", "-v", "-E", "-W", "--threads N", "--seed N",
      "--profile DIR", "--estimate",
      "--target NAME", "--ipus N", "--replicas N", "--ipus-per-replica N", "--instances N",
      "--help", "--version", "info"} do
      assert.truthy(help.out:find("  " .. option, 1, true), option)
    end
  end)

  describe("refuses with status 2", function()
    local cases = {
      {{"-x"}, "unrecognized option '-x'"}, {{"-ix"}, "unrecognized option '-ix'"},
      {{"-e"}, "'-e' needs argument"},
      {{"-l"}, "'-l' needs argument"}, {{"-e", "-v"}, "'-e' needs argument"},
      {{"--nosuch"}, "unrecognized option '--nosuch'\n"},
      {{"--profiles", "x"}, "did you mean '--profile'?"},
      {{"--threads"}, "'--threads' needs a value"},
      {{"--threads", "zero"}, "needs an integer of at least 1, got 'zero'"},
      {{"--threads=0"}, "needs an integer of at least 1, got '0'"},
      {{"--threads="}, "at least 1, got ''"},
      {{"--threads=99999999999999999999"}, "at least 1"}, {{"--threads=1x"}, "got '1x'"},
      {{"--seed=-1"}, "at least 0, got '-1'"},
      {{"--seed= 1"}, "at least 0"}, {{"--ipus", "0"}, "at least 1"},
      {{"--profile="}, "needs the name of a folder, got ''"},
      {{"--ipus", "3"}, "'--ipus' needs a power of two of at least 1 and at most 1024, got '3'"},
      {{"--ipus", "2048"}, "at most 1024"},
      {{"--profile", "/etc/passwd"},
        "needs the name of a folder, and there is a file of that name, got '/etc/passwd'"},
      {{"--target", "gc7"}, "'--target' needs one of gc2, gc200, bow, c600, or a .json file that "
        .. "there is, got 'gc7'"},
      {{"--target", "nowhere.json"}, "'--target' needs one of gc2, gc200, bow, c600, or a .json "
        .. "file that there is, got 'nowhere.json'"},
      {{"--estimate=1"}, "'--estimate' takes no value"}, {{"--help=1"}, "takes no value"},
      {{"--thread=1"}, "unrecognized option '--thread=1'; did you mean '--threads'?"},
    }
    for _, case in ipairs(cases) do
      it(table.concat(case[1], " "), function()
        local got = run(case[1])
        assert.equal(2, got.status)
        assert.equal("", got.out)
        assert.truthy(got.err:find(case[2], 1, true), got.err)
        assert.truthy(got.err:find("usage: lua [options] [script [args]]", 1, true))
      end)
    end
  end)

  it(
    "row 33: tells a wrong flag of IPULUA_FLAGS when the library loads, and lists all for --help",
    function()
    local words = {"-e", "local ipu = require 'ipulua' print(ipu.ones{1})",
      env = {IPULUA_FLAGS = "--use_ipu_modle"}}
    local got = run(words)
    assert.equal(1, got.status)
    assert.equal("", got.out)
    assert.truthy(got.err:find("IPULUA_FLAGS: unknown flag '--use_ipu_modle'; did you mean "
      .. "'--use_ipu_model'?", 1, true), got.err)
    local help = run{"-e", "require 'ipulua' print 'no'", env = {IPULUA_FLAGS = "--help"}}
    assert.equal(0, help.status)
    assert.truthy(help.out:find("--use_ipu_model (bool, default false)", 1, true))
    assert.falsy(help.out:find("\nno\n", 1, true))
  end)

  describe("long options", function()
    local show = "local o = debug.getregistry()['ipulua.options'] "
      .. "for _, k in ipairs{'threads', 'seed', 'profile', 'estimate', 'target', 'ipus', 'noenv'} "
      .. "do "
      .. "io.write(k, '=', tostring(o[k]), ':', math.type(o[k]) or type(o[k]), ' ') end"
    local function options(words)
      table.insert(words, "-e")
      table.insert(words, show)
      local got = run(words)
      assert.equal("", got.err)
      return got.out
    end

    it("reach the library through the registry", function()
      assert.equal("threads=2:integer seed=7:integer profile=out dir:string estimate=true:boolean "
        .. "target=GC2:string "
        .. "ipus=16:integer noenv=nil:nil ",
        options {"--threads", "2", "--seed=7", "--profile", "out dir", "--estimate", "--target=GC2",
          "--ipus", "16"})
    end)
    it("are absent unless given", function()
      assert.equal("noenv=true:boolean ", (options({"-E"}):gsub("%w+=nil:nil ", "")))
    end)
    it("may be repeated: the last one counts", function()
      assert.truthy(options({"--seed", "1", "--seed=9223372036854775807"}):find(
        "seed=9223372036854775807:integer", 1, true))
    end)
    it("belong to the script when they follow it", function()
      assert.equal("0\targs.lua\n1\t--threads\n2\t2\n-1\t2\n-2\t--seed\n-3\tlua\n2\t--threads\t2\n",
        (run({"--seed", "2", "args.lua", "--threads", "2"}).out:gsub(
          "^(%-3.-\n)(%-2.-\n)(%-1.-\n)(.-\n.-\n.-\n)", "%4%3%2%1")))
    end)
  end)

  describe("finds modules", function()
    local function path_of(executable, words)
      table.insert(words, 1, executable)
      table.insert(words, "-e")
      table.insert(words, "io.write(package.path)")
      words.dir = folder
      return command.run(words).out
    end
    local standard = command.run({"/usr/bin/lua5.4", "-e", "io.write(package.path)"}).out
    local ours

    setup(function()
      os.execute(("cd %s && mkdir -p tree/build tree/lua/ipulua prefix/bin "
        .. "prefix/share/lua/5.4/ipulua alone/bin && "
        .. "for d in tree/build prefix/bin alone/bin; do cp %s $d/ipulua; done"):format(folder,
        command.quote(command.ipulua)))
      ours = folder .. "/tree/lua/?.lua;" .. folder .. "/tree/lua/?/init.lua"
    end)

    it("in the build tree, before the standard places", function()
      assert.equal(ours .. ";" .. standard, path_of(folder .. "/tree/build/ipulua", {}))
    end)
    it("through a symbolic link", function()
      os.execute(("ln -s %s/tree/build/ipulua %s/link"):format(folder, folder))
      assert.equal(ours .. ";" .. standard, path_of(folder .. "/link", {}))
    end)
    it("beside an installed executable", function()
      local there = folder .. "/prefix/share/lua/5.4/"
      assert.equal(there .. "?.lua;" .. there .. "?/init.lua;" .. standard,
        path_of(folder .. "/prefix/bin/ipulua", {}))
    end)
    it("in the standard places only where there is no library", function()
      assert.equal(standard, path_of(folder .. "/alone/bin/ipulua", {}))
    end)
    it("where LUA_PATH says, with two semicolons for the default", function()
      local before = {LUA_PATH = "mine/?.lua;;"}
      local after = {LUA_PATH_5_4 = ";;mine/?.lua", LUA_PATH = "not this"}
      assert.equal("mine/?.lua;" .. ours .. ";" .. standard,
        path_of(folder .. "/tree/build/ipulua", {env = before}))
      assert.equal(ours .. ";" .. standard .. ";mine/?.lua",
        path_of(folder .. "/tree/build/ipulua", {env = after}))
    end)
    it("of the library even if LUA_PATH leaves the default out", function()
      assert.equal("mine/?.lua;" .. ours,
        path_of(folder .. "/tree/build/ipulua", {env = {LUA_PATH = "mine/?.lua"}}))
    end)
    it("without the environment under -E", function()
      assert.equal(ours .. ";" .. standard,
        path_of(folder .. "/tree/build/ipulua", {"-E", env = {LUA_PATH = "mine/?.lua"}}))
    end)
    it("compiled ones as lua does", function()
      local function cpath(program, env)
        return command.run({program, "-e", "io.write(package.cpath)", env = env}).out
      end
      for _, env in ipairs {{}, {LUA_CPATH = "a/?.so;;"},
        {LUA_CPATH_5_4 = "b/?.so", LUA_CPATH = "a/?.so"}} do
        assert.equal(cpath("/usr/bin/lua5.4", env), cpath(command.ipulua, env))
      end
      assert.equal(0, run({"-e", "require 'lfs'"}).status)
    end)
  end)

  it("takes kernels of at most the class that IPULUA_CPU names", function()
    local script = {"-e", "local ipu = require 'ipulua' "
      .. "print(ipu.reduce_sum(ipu.exp(ipu.linspace(0, 1, 1000))):item())"}
    local plain = run {"info"}
    local best = plain.out:match("\nCPU kernels +(%w+) %(of [%w ]+%)\n")
    local order = {base = 1, avx2 = 2, avx512 = 3}
    for class, rank in pairs(order) do
      local told = run({"info", env = {IPULUA_CPU = class}}).out:match(
        "\nCPU kernels +(%w+) %(of [%w ]+%); IPULUA_CPU=" .. class .. "\n")
      assert.equal(math.min(rank, order[best]), order[told])
      -- 1000 times the mean of e^x, by the trapezoid's two halves
      assert.is_near(1000 * (math.exp(1) - 1) + 0.14,
        tonumber(run({env = {IPULUA_CPU = class}, table.unpack(script)}).out), 0.01)
    end
    local wrong = run{env = {IPULUA_CPU = "sse"}, table.unpack(script)}
    assert.equal(1, wrong.status)
    assert.matches("IPULUA_CPU must be base, avx2 or avx512 .*got 'sse'", wrong.err)
    assert.matches("none %(of base.*; IPULUA_CPU must be base",
      run({"info", env = {IPULUA_CPU = "sse"}}).out)
    assert.equal(0, run({"-E", env = {IPULUA_CPU = "sse"}, table.unpack(script)}).status)
    assert.equal(best,
      run({"-E", "info", env = {IPULUA_CPU = "base"}}).out:match("\nCPU kernels +(%w+)"))
  end)

  it("has the core library ready, but loads nothing by itself", function()
    local got = run {"-e", "print(type(package.preload['ipulua.core']), "
      .. "package.loaded['ipulua.core'], "
      .. "package.loaded.ipulua, rawget(_G, 'ipu'), ipu, keras, getmetatable(_G))"}
    assert.equal("function\tnil\tnil\tnil\tnil\tnil\tnil\n", got.out)
  end)

  it("has a sub-command info, unless a file of that name exists", function()
    local got = run {"info"}
    assert.equal(0, got.status)
    assert.truthy(got.out:find("^ipulua +%d+%.%d+%.%d+\nLua +5%.4"))
    assert.truthy(got.out:find("\nCPU kernels +%w+ %(of base"))
    assert.equal(0, run({"--threads", "2", "info"}).status)
    local other = command.folder()
    command.write(other .. "/info", "print('the file', ...)")
    assert.equal("the file\tx\n", run({"info", "x", dir = other}).out)
    command.remove(other)
  end)

  -- lua gives 0 here.
  it("gives status 1 after an error in a script read from a pipe", function()
    local got = run {stdin = "error('in')"}
    assert.equal(1, got.status)
    assert.truthy(got.err:find("lua: stdin:1: in\nstack traceback:", 1, true))
  end)

  it(
    "is interrupted by the first Ctrl-C, also in a loop that catches errors by the third",
    function()
    local got = command.interrupted {command.ipulua, "-e", command.ready .. command.endless}
    assert.equal(1, got.status)
    assert.truthy(got.err:find("(command line):1: interrupted!", 1, true), got.err)
    local caught = command.ready .. "while true do pcall(function() " .. command.endless
      .. " end) end"
    assert.equal(130, command.interrupted({command.ipulua, "-e", caught}, 3).status)
  end)

  it("ends a fit after its step by the first Ctrl-C, and the script, also in another fit, by the "
    .. "second", function()
    local script <const> = [[
local ipu = require "ipulua"
local keras, last = ipu.keras, tonumber(arg[1])
local m = keras.Sequential{keras.layers.Dense{4}}
m:compile{optimizer = "sgd", loss = "mse"}
local x = ipu.ones{320, 4}
for i = 1, 3 do
  io.stderr:write("fit ", i, "\n")
  if i == 1 then ]] .. command.ready .. [[ end
  m:fit(x, x, {epochs = 1000000, verbose = 0, callbacks = i == last and keras.callbacks.LambdaCallback{on_epoch_end = function(epoch)
    if epoch == 20 then os.exit(3) end
  end} or nil})
end
]]
    command.write(folder .. "/fits.lua", script)
    -- goes on in its second fit, and ends there by itself
    local once = command.interrupted{command.ipulua, folder .. "/fits.lua", "2"}
    assert.truthy(once.err:find("fit 2", 1, true), once.err)
    assert.equal(3, once.status)
    local twice = command.interrupted({command.ipulua, folder .. "/fits.lua", "3"}, 2)
    assert.equal(1, twice.status, twice.err)
    assert.truthy(twice.err:find("fits.lua:9: interrupted!", 1, true), twice.err)
    assert.falsy(twice.err:find("fit 3", 1, true), twice.err)
  end)

  it("starts without the library, which costs most of the time", function()
    local got = command.run {command.ipulua, "-e",
      "for name in pairs(package.loaded) do print(name) end"}
    assert.is_nil(got.out:find("ipulua", 1, true), got.out)
    assert.truthy(got.out:find("string", 1, true))
  end)
end)
