local command = require "spec.support.command"
local terminal = require "spec.support.terminal"

-- Without libedit nothing is completed, coloured or drawn again, and what is not there is not
-- tried.
local edits = command.run{command.ipulua, "info"}.out:find "line editing +libedit"
local edited = edits and it or function() end
local edited_describe = edits and describe or function() end

local UP, CTRL_C, CTRL_D, CTRL_R, CTRL_U = "\27[A", "\3", "\4", "\18", "\21"

-- Types each line when the prompt is there, and leaves. A line: text, or {text, what is expected of
-- it, which may end with the next prompt}.
local function session(lines, options)
  local prompt = options and options.prompt or "> "
  local steps = {{expect = prompt}}
  for _, line in ipairs(lines) do
    if type(line) == "string" then line = {line} end
    steps[#steps + 1] = {send = line[1] .. "\n"}
    if line[2] then steps[#steps + 1] = {expect = line[2]} end
    if not (line[2] and line[2]:sub(-#prompt) == prompt) then
      steps[#steps + 1] = {expect = prompt}
    end
  end
  steps[#steps + 1] = {send = CTRL_D}
  local shown, status = terminal(steps, options)
  assert.equal(0, status, shown)
  return shown
end

-- The same without a terminal: lines on standard input of ipulua -i. Returns output and messages
-- without prompts.
local function typed(text, options)
  options = options or {}
  options.stdin = text
  options[1], options[2] = command.ipulua, "-i"
  if not text:find("_PROMPT") then options[3], options[4] = "-e", "_PROMPT, _PROMPT2 = '', ''" end
  local result = command.run(options)
  assert.equal(0, result.status)
  return result.out:gsub("^.-\n.-\n", "", 1):gsub("\n$", ""), result.err
end

describe("the prompt", function()
  describe("prints", function()
    local cases = {
      {"1 + 1", "2"}, {"1, 'two', nil, true", "1\ttwo\tnil\ttrue"}, {"nil", "nil"}, {"x = 1", ""},
      {"=1 + 1", "2"},
      {"(function() end)()", ""}, {"'a\\nb', 1", "a\nb\n1"}, {"{}", "{}"},
      {"{1, 2.5, 'a\"b\\0'}", [[{1, 2.5, "a\"b\x00"}]]},
      {"{x = 1, ['y z'] = {}, [1.5] = {1}, [true] = 'ü'}",
        '{["y z"] = {}, [1.5] = {1}, [true] = "ü", x = 1}'},
      {"{{1, 2}, {{3}, {{4}}}, loss = {0.5}, other = {x = 1}}",
        "{{1, 2}, {{3}, {{...}}}, loss = {0.5}, other = {x = 1}}"},
      {"{{a = {b = {c = 1}}, d = {1}}, {[2] = 1}}", "{{a = {b = {...}}, d = {1}}, {...}}"},
      {"{{a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9}}", "{{...}}"},
      {"{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}", "{{1, 2, 3, 4, 5, 6, 7, 8, ... 2 more}}"},
      {"local t = {} t[1] = t return t", "{{{{...}}}}"},
      {"setmetatable({1}, {__name = 'Point'})", "Point{1}"},
      {"{setmetatable({1}, {__name = 'Point'})}", "{Point{...}}"},
      {"setmetatable({}, {__tostring = function() return 'own text' end})", "own text"},
      {"setmetatable({}, {__repr = function() return 'repr' end, __tostring = function() return "
        .. "'own text' end})", "repr"},
      {"{setmetatable({}, {__tostring = function() return 'first\\nsecond' end})}",
        "{first second}"},
      {"{('x'):rep(100)}", '{"' .. ("x"):rep(60) .. '..."}'},
      {"{a = 1, 10, 20}", "{10, 20, a = 1}"},
      {"local t = {} for i = 1, 30 do t[i] = i end return t",
        "{\n  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, "
        .. "18, 19, 20, 21,\n  22, 23, 24, 25, 26, 27, 28, 29, 30\n}"},
      {"local t = {} for i = 1, 1000 do t[i] = 0 end return t, #t",
        "... 900 more\n}\n1000", "suffix"},
      {"{0 / 0, loss = -(0 / 0)}", "{nan, loss = nan}"}, {"0 / 0, -(0 / 0)", "nan\tnan"},
      {"{alpha = ('x'):rep(40), beta = ('y'):rep(40), 1}",
        '{\n  1,\n  alpha = "' .. ("x"):rep(40) .. '",\n  beta = "'
        .. ("y"):rep(40) .. '"\n}'},
    }
    for _, case in ipairs(cases) do
      it(case[1]:gsub("\n", " "), function()
        local out, err = typed(case[1] .. "\n")
        assert.equal("", err)
        if case[3] then out = out:sub(-#case[2] - 1) end
        assert.equal(case[2] .. (case[2] == "" and "" or "\n"), out)
      end)
    end
  end)

  it("continues what is incomplete", function()
    assert.equal("1\n2\n", (typed("for i = 1, 2 do\nprint(i)\nend\n")))
    assert.equal("{1, 2}\n", (typed("{1,\n2\n}\n")))
    assert.equal("3\n", (typed("1 +\n2\n")))
    assert.equal("a\nb\n", (typed("[[a\nb]]\n")))
    assert.equal("7\n", (typed("x =\n7\nx\n")))
  end)

  it("keeps what lines declare by local", function()
    assert.equal("3\n120\nnil\n6\n2\n", (typed("local a, b <const> = 1, 2\na + b\n"
      .. "local function f(n) return n == 0 and 1 or n * f(n - 1) end\nf(5)\n"
      .. "local c\nc\nlocal t = {\n1,\n6}\nt[2]\nlocal x = 1; "
      .. "local y = 2 return x + 1, y == nil\n"):gsub("\tfalse\n", "\n")))
    local out, err = typed("do local inside = 1 end\ninside\nlocal 3\nlocally = 4\nlocally\nlocal "
      .. "v <consts> = 3\n")
    assert.equal("nil\n4\n", out)
    assert.equal("stdin:1: <name> expected near '3'\nstdin:1: unknown attribute 'consts'\n", err)
  end)

  -- Declarations with comments and line ends wherever Lua has them; the names a to e.
  local function declarations(seed)
    math.randomseed(seed)
    local function pick(list) return list[math.random(#list)] end
    local gaps <const> = {" ", " ", "  ", "\t", " --[[c]] ", " --[=[ ]] = ]=] "}
    local function gap() return pick(gaps) end -- where a line may end as well, and would
    local function space() return pick{gap(), " -- c\n", "\n"} end
    local lines = {}
    for i = 1, 12 do
      local parts, count, names = {"local" .. space()}, math.random(3), {"a", "b", "c", "d", "e"}
      for k = 1, count do
        parts[#parts + 1] = table.remove(names, math.random(#names)) .. pick{"", "", gap()}
          .. (i > 8 and pick{"", "<const> ", "<" .. space() .. "const > "} or "")
          .. (k < count and pick{",", "," .. space(), gap() .. ","} or "")
      end
      if math.random(4) > 1 then
        parts[#parts + 1] = pick{"=", gap() .. "=" .. space()} .. pick{tostring(i), "a, b, " .. i,
          "(function() return " .. i .. ", e end)()", "'= local ' .. " .. i, "{" .. space() .. i
          .. "}", "nil, c -- c"}
      end
      lines[i] = table.concat(parts)
    end
    lines[#lines + 1] = "for _, x in ipairs{tostring(a), tostring(b), tostring(c), tostring(d), "
      .. "tostring(e)} do print((x:gsub('0x%x+', ''))) end"
    return table.concat(lines, "\n") .. "\n"
  end

  it("keeps what lines declare as a script does", function()
    for seed = 1, 40 do
      local text = declarations(seed)
      local script = command.run{command.ipulua, "-", stdin = text}
      assert.equal(0, script.status, text .. script.err)
      local out, err = typed(text)
      assert.equal("", err, text)
      assert.equal(script.out, (out:gsub("\n*$", "\n")), text)
    end
  end)

  it("closes what is <close> at the end of its line, and says so", function()
    local out, err = typed("local s <close> = setmetatable({}, {__close = function() "
      .. "print('closed') end})\nprint(s)\n")
    assert.equal("closed\nnil\n", out)
    assert.matches("^what is <close> ends with its line here", err)
  end)

  it("takes a long block at once", function()
    local lines = {}
    for i = 1, 2000 do lines[i] = ("v%d = %d -- %s"):format(i, i, ("x"):rep(60)) end
    assert.equal("2000\n", (typed(table.concat(lines, "\n") .. "\nv2000\n")))
    assert.equal("100000\n", (typed("#'" .. ("é"):rep(50000) .. "'\n")))
  end)

  it("shows errors short, with their line", function()
    local out, err = typed("local x\nx.y = 1\nfor i = 1, 2 do\n  error('line two')\nend\nx = = "
      .. "2\nerror({})\nprint('on')\n")
    assert.equal("on\n", out)
    assert.equal("stdin:1: attempt to index a nil value (global 'x')\nstdin:2: line two\n"
      .. "stdin:1: unexpected symbol near '='\n(error object is a table value)\n", err)
  end)

  it("shows the traceback of the last error when asked", function()
    local _, err = typed("??\nfunction f() error('deep') end\nf()\n??\n")
    assert.equal("no error so far\nstdin:1: deep\nstdin:1: deep\nstack traceback:\n\t[C]: in "
      .. "function 'error'\n"
      .. "\tstdin:1: in function 'f'\n\tstdin:1: in main chunk\n\t[C]: in ?\n", err)
  end)

  it("ends with what an unfinished chunk lacks when the input ends", function()
    local _, err = typed("for i = 1, 2 do\n")
    assert.equal("stdin:2: 'end' expected (to close 'for' at line 1) near <eof>\n", err)
  end)

  it("remembers the last results", function()
    assert.equal("1\n2\nthree\t4\nnil\nthree\t2\t1\n",
      (typed("1\n2\n'three', 4\nnil\n_, _1, _2\n")))
  end)

  it("loads ipu and keras when they are used", function()
    local folder = command.folder()
    os.execute("mkdir -p " .. folder .. "/ipulua")
    command.write(folder .. "/ipulua.lua", "print('loading ipu') return {version = 'v'}")
    command.write(folder .. "/ipulua/keras.lua", "print('loading keras') return {layers = {}}")
    local env = {LUA_PATH = folder .. "/?.lua;;"}
    assert.equal("start\nloading ipu\nv\nv\nloading keras\n<module ipulua.keras; help shows its "
      .. "names>\n",
      (typed("print('start')\nipu.version\nipu.version\nkeras\n", {env = env})))
    assert.equal("mine\n", (typed("ipu = 'mine'\nipu\n", {env = env})))
    command.remove(folder)
  end)

  it("keeps the metatable that a script gave to _G", function()
    local out, err = typed("local _ = setmetatable(_G, nil)\nx\n")
    assert.equal("nil\n", out .. err)
    local words = {command.ipulua, "-e",
      "setmetatable(_G, {__index = function(_, k) return 'no ' .. k end})",
      "-i", "-e", "_PROMPT = ''", stdin = "nothing\n"}
    assert.truthy(command.run(words).out:find("\nno nothing\n"))
  end)

  describe("explains", function()
    it("itself", function()
      local out = typed("help()\n")
      assert.truthy(out:find("Ctrl-C", 1, true))
      assert.equal(out, (typed("?\n")))
      assert.equal(out, (typed(" help \n")))
    end)
    it("how to leave, where other prompts are told to", function()
      for _, word in ipairs{"quit", "exit", "quit()", "exit ()"} do
        assert.equal("Ctrl-D leaves, and so does os.exit().\n", (typed(word .. "\n")))
      end
      assert.equal("7\n8\n", (typed("quit = 7\nquit\nlocal exit = 8\nexit\n")))
    end)
    it("values without the library's help", function()
      assert.truthy(typed("?print\n"):find("^print: a function, function: "))
      assert.equal("f: a function with 2 parameters, stdin:1\n",
        (typed("function f(a, b) end\n?f\n")))
      assert.equal("value: a number, 7\n", (typed("help(7)\n")))
      assert.equal("nosuch: nil; nothing by that name\n", (typed("?nosuch\n")))
    end)
    it("the name that was meant", function()
      local out, err = typed("?ipu.reduce_summ\n1\n")
      assert.equal("1\n", out)
      assert.truthy(err:find("ipu has no 'reduce_summ'; did you mean 'reduce_sum'?", 1, true))
    end)
    it("through ipulua.tools.help where it exists", function()
      local folder = command.folder()
      os.execute("mkdir -p " .. folder .. "/ipulua/tools")
      command.write(folder .. "/ipulua/tools/help.lua",
        "return {show = function(x, text) print('about', type(x), text) end}")
      local env = {LUA_PATH = folder .. "/?.lua;;"}
      assert.equal("about\tfunction\tstring.rep\nabout\tnil\tnot an "
        .. "expression\nabout\tnumber\tnil\n",
        (typed("? string.rep\n?not an expression\nhelp(1)\n", {env = env})))
      command.remove(folder)
    end)
  end)

  describe("on a terminal", function()
    local folder

    setup(function()
      folder = command.folder()
      os.execute(("cd %s && mkdir -p lib/ipulua/tools files/inner && touch files/first.txt "
        .. "files/second.txt"):format(folder))
      command.write(folder .. "/files/odd\n.txt", "")
      command.write(folder .. "/lib/ipulua.lua", [[
        local lazy = {relu = print, later = {inner = 'got it'}}
        local ipu = {matmul = print, mean = print, __names = function() return {"relu", "later",
          1} end}
        local function find(_, name) return lazy[name] or error(name) end
        return setmetatable(ipu, {__index = find})]])
      command.write(folder .. "/lib/ipulua/tools/help.lua",
        "return {options = setmetatable({}, {__mode = 'k', __index = function() end}), show = "
        .. "print}")
    end)
    teardown(function() command.remove(folder) end)

    local function lines(text, options)
      options = options or {}
      options.env = options.env or {}
      options.env.LUA_PATH = folder .. "/lib/?.lua;;"
      options.dir = options.dir or folder .. "/files"
      return session(text, options)
    end

    it("greets and evaluates", function()
      local shown = lines {{"6 * 7", "42\r\n"}, {"'é€'", "é€\r\n"}, {"{1,", ">> "},
        {"2}", "{1, 2}"}}
      assert.truthy(shown:find("^Lua 5%.4[^\n]*\r\nipulua %d[^\n]*\r\n[^\n]*Ctrl%-D"))
    end)

    edited("takes characters of several bytes apart as a whole", function()
      lines {{"#'aé\127b'", "2\r\n"}}
    end)

    edited("drops bytes that are no characters, and only those", function()
      lines {{"'caf\xe9' .. 'es'", "cafes\r\n"}, {"'\xff\xfea' .. 'b'", "ab\r\n"},
        {"'\xe2\x82' .. 'é'", "é\r\n"}}
    end)

    -- emacs' Alt-X: a quote without its end, given to libedit's own commands, is a crash of libedit
    edited("leaves libedit's own commands alone", function()
      for _, key in ipairs{"\27x", "\27X"} do
        local shown, status = terminal{{expect = "> "}, {send = key .. "'\n"}, {expect = ">> "},
          {send = CTRL_C}, {expect = "> "}, {send = "'a' .. 'live'\n"}, {expect = "alive"},
          {expect = "> "}, {send = CTRL_D}}
        assert.equal(0, status, shown)
      end
    end)

    it("takes any text for a prompt", function()
      for _, prompt in ipairs {"'\\xff> '", "('é'):rep(200)", "('x'):rep(5000)",
        "'\\1\\1\\1a\\1> '", "'\\xc3'"} do
        local shown, status = terminal {{expect = "> "}, {send = "_PROMPT = " .. prompt .. "\n"},
          {idle = ""},
          {send = "6 * 7, os.exit(7)\n"}, {send = "os.exit(7)\n"}}
        assert.equal(7, status, shown)
      end
    end)

    it("leaves alone what is no file in its history's place", function()
      command.run{"mkdir", "-p", folder .. "/pipe/ipulua"}
      command.run{"mkfifo", folder .. "/pipe/ipulua/history"}
      lines({{"6 * 7", "42\r\n"}, {"7 * 7", "49\r\n"}},
        {env = {XDG_STATE_HOME = folder .. "/pipe"}})
    end)

    edited("keeps its history in a file for the next time", function()
      local state = folder .. "/state"
      local env = {XDG_STATE_HOME = state}
      lines({{"x = 41"}, {"for i = 1, 2 do", ">> "}, "x = x + 1 end", "x", "x",
        {"'back\\\\slash'"}}, {env = env})
      assert.equal("x = 41\nfor i = 1, 2 do\\nx = x + 1 end\nx\n'back\\\\\\\\slash'\n",
        command.read(state .. "/ipulua/history"))
      -- The chunk of two lines comes back as one entry, and runs again: 0 + 1 + 1.
      lines({"x = 0", {UP .. UP .. UP .. UP}, {"x", "2\r\n"}, {CTRL_R .. "41\n"}, {"x", "41\r\n"},
        {"#'back\\\\slash'", "10\r\n"}}, {env = env})
      command.write(state .. "/ipulua/history", ("old\n"):rep(2500) .. "newest\n")
      lines({"y = 1"}, {env = env})
      local _, count = command.read(state .. "/ipulua/history"):gsub("\n", "")
      assert.equal(1001, count)
      assert.truthy(command.read(state .. "/ipulua/history"):find("old\nnewest\ny = 1\n$"))
      -- a line that a full disk cut short is one for itself
      command.write(state .. "/ipulua/history", "x = 1\ny = ")
      lines({"z = 1"}, {env = env})
      assert.equal("x = 1\ny = \nz = 1\n", command.read(state .. "/ipulua/history"))
    end)

    it("keeps it below the home by default", function()
      local state = folder .. "/home/.local/state/ipulua/history"
      lines({"z = 1"}, {env = {XDG_STATE_HOME = "", HOME = folder .. "/home"}})
      assert.equal("z = 1\n", command.read(state))
    end)

    it("works without a place for it", function()
      lines({{"1 + 1", "2\r\n"}}, {env = {XDG_STATE_HOME = "/proc/nosuch", HOME = ""}})
    end)

    edited_describe("completes", function()
      local cases = {
        {"globals", {"tostr\t(12) .. '!'", "12!"}},
        {"keywords", {"func\t() end", ""}},
        {"fields", {"string.form\t('%d', 99)", "99"}},
        {"methods of strings", {"name = 'abc'", ""}, {"name:upp\t()", "ABC"}},
        {"only functions behind a colon",
          {"thing = {size = 1, show = function() return 'shown' end}", ""},
          {"thing:s\t()", "shown"}},
        {"fields through __index tables",
          {"object = setmetatable({}, {__index = setmetatable({}, {__index = {area = print}})})",
            ""},
          {"object.ar\t('found')", "found"}},
        {"fields of fields and positions", {"deep = {list = {{inner_value = 'got it'}}}", ""},
          {"deep.list[1].inn\t", "got it"}},
        {"fields of the lazy globals", {"ipu.mat\t('product')", "product"}},
        {"fields that a module loads on demand", {"ipu.rel\t('loaded')", "loaded"},
          {"ipu.later.inn\t", "got it"}},
        {"methods beside an __index function",
          {"object = setmetatable({}, {__index = function() return print end, methods = {area = "
            .. "print}})", ""},
          {"object.ar\t('found')", "found"}},
        {"option keys", {"function dense(o) return o.units + o.bias end", ""},
          {"package.loaded['ipulua.tools.help'] = {options = {[dense] = {'units', {'bias', "
            .. "'number'}}}}", ""},
          {"dense{uni\t40, bi\t2}", "42"}},
        {"option keys behind positional arguments",
          {"function dense(n, o) return n + o.units end", ""},
          {"package.loaded['ipulua.tools.help'] = {options = {[dense] = {'units'}}}", ""},
          {"dense(1, {uni\t4})", "5"}},
        {"file names in strings", {"io.open('fir\t') ~= nil", "true"},
          {"io.open('odd\t.txt') == nil", "true"}, -- none with a newline
          {"io.open('inn\t') ~= nil", "true"},
          {"io.open(\"../files/sec\t\") ~= nil", "true"}},
        {"nothing in comments", {"1 -- stri\t", "1"}},
        {"with blanks at the start of a line", {"\t\t5", "5"}},
      }
      for _, case in ipairs(cases) do
        it(case[1], function()
          local text = {}
          for i = 2, #case do text[i - 1] = {case[i][1], "\r\n" .. case[i][2]} end
          lines(text)
        end)
      end

      it("to the common part, listing the rest", function()
        local shown = lines {{"string.re\t\t(\t" .. CTRL_U .. "1", "1\r\n"}}
        assert.truthy(shown:find("rep      reverse\r\n", 1, true), shown)
      end)

      it("without running code", function()
        lines {"trap = setmetatable({}, {__index = function() ran = true end, __pairs = error})",
          {"trap.x\t" .. CTRL_U .. "1", "1\r\n"}, {"ran", "nil\r\n"}}
      end)
    end)

    describe("on Ctrl-C", function()
      edited("drops the line", function()
        local shown, status = terminal {{expect = "> "}, {send = "abc"}, {expect = "abc"},
          {send = CTRL_C .. "7 + 7\n"},
          {expect = "^C"}, {expect = "14\r\n> "}, {send = "while true do\n"}, {expect = ">> "},
          {send = CTRL_C},
          {expect = "^C\r\n> "}, {send = "8 + 8\n"}, {expect = "16\r\n> "}, {send = CTRL_D}}
        assert.equal(0, status, shown)
      end)

      it("stops what runs, again and again", function()
        local steps = {{expect = "> "}}
        for _ = 1, 4 do
          for _, step in ipairs {{send = "print('go') " .. command.endless .. "\n"},
            {expect = "\r\ngo\r\n"}, {busy = ""},
            {send = CTRL_C},
            {expect = "stdin:1: interrupted!\r\n> "}} do steps[#steps + 1] = step end
        end
        for _, step in ipairs {{send = "1 + 2\n"}, {expect = "\r\n3\r\n> "}, {send = CTRL_D}} do
          steps[#steps + 1] = step
        end
        local shown, status = terminal(steps)
        assert.equal(0, status, shown)
      end)

      it("stops coroutines, however deep, and what resumes them goes on", function()
        local starts = {"coroutine.wrap(body)()",
          "coroutine.wrap(function() coroutine.wrap(body)() end)()",
          "print(coroutine.resume(coroutine.create(body)))",
          "co = coroutine.create(function() local x <close> = setmetatable({}, {__close = body}) "
          .. "coroutine.yield() end) coroutine.resume(co) print(coroutine.close(co))",
          "for _ in coroutine.wrap(function() while true do coroutine.yield(1) end end) do if not "
          .. "go then go = 1 print('go') end end"}
        local steps = {{expect = "> "},
          {send = "body = function() print('go') " .. command.endless .. " end\n"}}
        for _, start in ipairs(starts) do
          for _, step in ipairs {{expect = "> "}, {send = start .. "\n"}, {expect = "\r\ngo\r\n"},
            {busy = ""}, {send = CTRL_C},
            {expect = "interrupted!"}} do steps[#steps + 1] = step end
        end
        for _, step in ipairs {{expect = "> "}, {send = "1 + 2\n"}, {expect = "\r\n3\r\n> "},
          {send = CTRL_D}} do
          steps[#steps + 1] = step
        end
        local shown, status = terminal(steps)
        assert.equal(0, status, shown)
      end)

      it("stops the printing of a result", function()
        local shown, status = terminal {{expect = "> "},
          {send = "setmetatable({}, {__tostring = function() print('go') " .. command.endless
            .. " end})\n"},
          {expect = "\r\ngo"}, {busy = ""}, {send = CTRL_C}, {expect = "interrupted!\r\n> "},
          {send = CTRL_D}}
        assert.equal(0, status, shown)
      end)

      it("ends the program at the third when errors are caught", function()
        local shown, status = terminal {{expect = "> "},
          {send = "while true do pcall(function() print('go') " .. command.endless
            .. " end) end\n"},
          {expect = "\r\ngo"}, {busy = ""},
          {send = CTRL_C}, {expect = "go"}, {busy = ""}, {send = CTRL_C}, {expect = "go"},
          {busy = ""}, {send = CTRL_C},
          {["end"] = ""}}
        assert.equal(130, status, shown)
      end)
    end)

    edited("goes on after Ctrl-Z and a new window size", function()
      local shown, status = terminal {{expect = "> "}, {send = "12 +"}, {expect = "12 +"},
        {send = "\26"}, {idle = ""},
        {signal = "CONT"}, {expect = "> 12 +"}, {size = "10 40"}, {signal = "WINCH"}, {idle = ""},
        {send = " 3\n"},
        {expect = "15\r\n> "}, {send = CTRL_D}}
      assert.equal(0, status, shown)
    end)

    it("leaves with the status that os.exit is given", function()
      for _, call in ipairs {"os.exit(7)", "os.exit(7, true)"} do
        local shown, status = terminal {{expect = "> "}, {send = call .. "\n"}, {["end"] = ""}}
        assert.equal(7, status, shown)
      end
    end)

    edited("is in colour, unless NO_COLOR is set", function()
      local plain = lines {{"error('x', 0)"}}
      assert.is_nil(plain:find("\27[31m", 1, true) or plain:find("\27[1;32m", 1, true))
      local coloured = lines({{"1", "1\r\n"}}, {env = {NO_COLOR = ""}, prompt = ">\27[0m "})
      assert.truthy(coloured:find("\27[1;32m>\27[0m ", 1, true))
    end)

    it("uses the prompts of _PROMPT and _PROMPT2", function()
      lines {"_PROMPT, _PROMPT2 = 'in> ', 'more> '", {"1 +", "more> "}, {"1", "2\r\nin> "},
        {"_PROMPT = nil"}}
    end)

    it("reads plainly where the terminal can't do more", function()
      lines({{"1 + 1", "2\r\n"}, {"for i = 1, 1 do", ">> "}, {"end"}}, {env = {TERM = "dumb"}})
    end)
  end)
end)

describe("ipu.debug.breakpoint", function()
  local script = [[
local ipu = require "ipulua"
local above = 10
g1 = "global"
local function f(x)
  local list = {1, 2}
  local x = x + 1
  ipu.debug.breakpoint()
  print("after", x, above, g2, list[1])
end
coroutine.wrap(f)(4)
]]
  local path
  before_each(function()
    path = command.scratch ".lua"
    command.write(path, script)
  end)
  after_each(function() os.remove(path) end)

  it("opens the prompt where the script stands, with its locals", function()
    local steps = {{expect = ":7; Ctrl-D goes on\r\n> "}}
    for _, each in ipairs{{"x", "5\r\n"}, {"list[2] + above", "12\r\n"}, {"x, above = 99, 11"},
      {"g2 = g1"}, {"g2", "global\r\n"}, {"list[1] = x * 2"}, {"nothing", "nil\r\n"},
      {"error('oops')", "oops\r\n"}} do
      steps[#steps + 1] = {send = each[1] .. "\n"}
      if each[2] then steps[#steps + 1] = {expect = each[2]} end
      steps[#steps + 1] = {expect = "> "}
    end
    steps[#steps + 1] = {send = CTRL_D}
    steps[#steps + 1] = {expect = "after\t99\t11\tglobal\t198\r\n"}
    local shown, status = terminal(steps, {args = {path}, env = {TERM = "dumb"}})
    assert.equal(0, status, shown)
  end)

  it("does nothing where input is no terminal", function()
    local r = command.run{command.ipulua, path, stdin = "x = 7\n"}
    assert.equal("after\t5\t10\tnil\t1\n", r.out)
    assert.equal("", r.err)
    assert.equal(0, r.status)
  end)
end)
