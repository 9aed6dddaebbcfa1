-- spec/support/run.sh, which runs the specs and check programs, counts passed cases, and nothing
-- else as passed.
local command = require "spec.support.command"

local folder

-- Runs run.sh on spec files of the given texts, each a group that counts `least` cases; options are
-- its environment.
local function run(texts, least, options)
  local rows, root = {}, folder .. "/specs"
  command.remove(root)
  assert(os.execute("mkdir " .. command.quote(root)))
  for name, text in pairs(texts) do
    local path = ("%s/%s_spec.lua"):format(root, name)
    command.write(path, text)
    rows[#rows + 1] = ("%s %d 1 test"):format(path, least or 1)
  end
  command.write(folder .. "/groups.txt", table.concat(rows, "\n") .. "\n")
  command.write(folder .. "/pendings.txt",
    "a thing that may be left out :: here is none\n[sanitized] others * :: they can't\n")
  local env = {SPEC_ROOT = root, GROUPS_FILE = folder .. "/groups.txt", JOBS = "2", SPECS = "",
    TIER = "", PENDINGS = "", JUNIT = ""}
  for name, value in pairs(options or {}) do env[name] = value end
  local r = command.run{"spec/support/run.sh", "specs", env = env}
  return r.out .. r.err, r.status
end

local function it_text(body) return "it('works', function() " .. body .. " end)\n" end

-- The judge's words on a program that printed this and ended so.
local function judge(printed, status, least)
  local stem = folder .. "/program"
  command.write(stem .. ".printed", printed)
  command.write(stem .. ".status", status .. " 1.5\n")
  command.write(folder .. "/groups.txt", ("program %d 1 test\n"):format(least or 1))
  command.write(folder .. "/pendings.txt", "[hardware] avx9 :: no CPU has it\n")
  command.write(folder .. "/counts", "")
  local r = command.run{"lua5.4", "spec/support/judge.lua", "program", stem, folder .. "/none",
    folder .. "/groups.txt", "true", "60", "none",
    "build"}
  assert.equal("", r.err)
  local passed, failed = command.read(folder .. "/counts"):match("^(%d+) (%d+)\n$")
  return math.tointeger(passed), math.tointeger(failed), r.out
end

describe("the runner", function()
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  it("counts cases, with their time, and writes them as JUnit does", function()
    local out, status = run({one = it_text "assert(true)",
      two = it_text "assert(true)" .. "it('counts <&>', function() end)\n"}, 1,
      {JUNIT = folder .. "/junit.xml"})
    assert.equal(0, status, out)
    assert.matches("one_spec.lua +%d+%.%d s +1 passed  0 failed\n", out)
    assert.matches("two_spec.lua +%d+%.%d s +2 passed  0 failed\nall in %d+%.%d s\n3 passed, 0 "
      .. "failed\n$", out:gsub("%S+one_spec[^\n]+\n", ""))
    local xml = command.read(folder .. "/junit.xml")
    assert.matches('<testsuite name="%S+two_spec.lua" tests="2" failures="0" skipped="0" '
      .. 'time="%d+%.%d">', xml)
    assert.matches('name="counts &lt;&amp;&gt;" time="%d+%.%d%d%d"></testcase>', xml)
  end)

  it("tells a build that fails once, and runs nothing after it", function()
    command.write(folder .. "/groups.txt", "")
    command.write(folder .. "/make",
      "#!/bin/sh\ncase $* in *all*) echo 'it does not compile' >&2; exit 2 ;; esac\n")
    assert(os.execute("chmod +x " .. command.quote(folder .. "/make")))
    for _, build in ipairs{folder .. "/none", "build"} do -- without an older build, and with one
      local r = command.run{"spec/support/run.sh", "build", "lint-lua", "specs",
        env = {MAKE = folder .. "/make", BUILD = build, GROUPS_FILE = folder .. "/groups.txt",
          SPECS = "spec/tensor", TIER = "", JUNIT = ""}}
      assert.equal(1, r.status)
      assert.equal("it does not compile\n", r.err)
      assert.matches("^FAIL build\nbuild +%d+%.%d s\nlint%-lua +%d+%.%d s\nall in %d+%.%d s\n1 "
        .. "passed, 1 failed\n$", r.out)
    end
  end)

  for what, text in pairs{
    ["that ends with a count of its own"] =
    it_text "print('9 passed, 0 failed') io.stdout:flush() os.exit(0)",
    ["that ends so before its first case"] = "print('9 passed, 0 failed') io.stdout:flush() "
    .. "os.exit(0)",
    ["that ends between two cases"] = it_text "assert(true)"
    .. "it('ends', function() os.exit(true, true) end)",
    ["that is killed"] = it_text "os.execute('kill -KILL $PPID')",
    ["without a case"] = "local nothing = 1",
    ["whose cases are all within a branch"] = "if false then " .. it_text "assert(true)" .. " end",
    ["that can't be read"] = "this is no Lua",
    ["that raises while it is read"] = it_text "assert(true)" .. "error('while read')",
    ["whose teardown fails"] = "describe('a', function() teardown(function() error('at the end') "
    .. "end) " .. it_text "assert(true)" .. "end)",
    ["that fails"] = it_text "assert.equal(1, 2)",
    ["that prints what nobody looks at"] = it_text "print('a warning')",
    ["that prints on stderr"] = it_text "io.stderr:write('a warning')",
    ["that leaves a case out"] = it_text "assert(true)" .. "pending('another')",
    ["that leaves a case out half way"] = it_text "return pending('another')",
  } do
    it("fails a spec " .. what, function()
      local out, status = run{bad = text, good = it_text "assert(true)"}
      assert.equal(1, status, out)
      assert.matches("\nFAIL ", "\n" .. out)
      assert.matches("\n%d+ passed, 1 failed\n$", out)
    end)
  end

  it("fails a group with fewer cases than it had, and one that nobody counted", function()
    local out, status = run({one = it_text "assert(true)"}, 2)
    assert.equal(1, status)
    assert.matches("1 cases; groups.txt says that there are at least 2\n", out)
    assert.matches("\n1 passed, 1 failed\n$", out)
    run({one = it_text "assert(true)"})
    command.write(folder .. "/groups.txt", "# none\n")
    local r = command.run{"spec/support/run.sh", "specs",
      env = {SPEC_ROOT = folder .. "/specs", GROUPS_FILE = folder .. "/groups.txt",
      SPECS = "", TIER = ""}}
    assert.equal(1, r.status)
    assert.matches("groups.txt has no row for this group\n", r.out)
  end)

  it("fails where there is nothing to run", function()
    local out, status = run{}
    assert.equal(1, status)
    assert.matches("FAIL there is nothing to run\n", out)
    assert.matches("\n0 passed, 1 failed\n$", out)
  end)

  -- The second is over when the case has begun, however long that takes.
  it("stops a spec that takes too long, and names it", function()
    local bin, began = folder .. "/bin", folder .. "/began"
    assert(os.execute("mkdir " .. command.quote(bin)))
    command.write(bin .. "/timeout", [[#!/bin/bash
      [ "$1 $2 $3" = "-k 10 1" ] || exit 1
      setsid "${@:4}" & pid=$!
      until [ -e "$BEGAN" ]; do kill -0 $pid || exit 1; sleep 0.05; done
      kill -- -$pid
      wait $pid
      exit 124]])
    assert(os.execute("chmod +x " .. command.quote(bin .. "/timeout")))
    local out, status = run({slow = "it('never ends', function() "
      .. "io.open(os.getenv('BEGAN'), 'w'):close() while true do end end)"}, 1,
      {TEST_TIMEOUT = "1", BEGAN = began, PATH = bin .. ":" .. os.getenv("PATH")})
    assert.equal(1, status)
    assert.matches("FAIL never ends\n    the program ended here: stopped after 1 seconds\n", out)
  end)

  it("lets be left out what is listed, and nowhere else; in CI nothing", function()
    local listed = "pending('a thing that may be left out')\n" .. it_text "assert(true)"
    local out, status = run{one = listed}
    assert.equal(0, status, out)
    assert.matches("^pending a thing that may be left out: ", out)
    assert.matches("1 passed  0 failed  1 left out\n", out)
    out, status = run({one = listed}, 1, {PENDINGS = "none"})
    assert.equal(1, status)
    assert.matches("a thing that may be left out\n    is left out, and here nothing may be", out)
    assert.equal(1, select(2, run{one = "pending('others that ran')\n" .. it_text "assert(true)"}))
  end)

  it("takes a program by its count, its exit status and what it left out", function()
    assert.same({7, 0, "program                                 1.5 s        7 passed  0 failed\n"},
      {judge("words\n7 passed, 0 failed\n", 0)})
    for what, case in pairs{
      ["no count"] = {"", 0}, ["no count: exit status 139"] = {"7 passed\n", 139},
      ["no case at all"] = {"0 passed, 0 failed\n", 0},
      ["nothing failed, but: exit status 1"] = {"7 passed, 0 failed\n", 1},
      ["at least 8"] = {"7 passed, 0 failed\n", 0, 8},
      ["stopped after 60 seconds"] = {"7 passed, 0 failed\n", 124},
      ["FAIL a thing\n"] = {"FAIL a thing\n7 passed, 1 failed\n", 1},
      ["here nothing may be: no such thing"] = {"pending avx8: no such thing\n7 passed, 0 failed\n",
        0},
    } do
      local _, failed, out = judge(table.unpack(case))
      assert.is_true(failed > 0, what)
      assert.truthy(out:find(what, 1, true), out)
    end
    local passed, failed, out = judge("pending avx9: this CPU has none\n7 passed, 0 failed\n", 0, 8)
    assert.same({7, 0}, {passed, failed})
    assert.matches("^pending avx9: this CPU has none\nprogram +1.5 s +7 passed  0 failed  1 left "
      .. "out\n$", out)
  end)

  it("finds every file that describes something", function()
    local list = command.run{"sh", "-c",
      "find spec -name '*.lua' ! -name '*_spec.lua' ! -path 'spec/support/*'"}
    assert.equal("", list.out)
    local within = command.run{"sh", "-c", "grep -lE '^(describe|it)\\(' -r spec/support"}
    assert.equal("", within.out)
  end)

  it("has a reason for each row that says so, and no row without a group", function()
    for line in io.lines("spec/support/groups.txt") do
      if not line:find("^#") then
        local name, least, seconds, tier, rest = line:match("^(%S+) +(%d+) +(%d+) +(%l+)(.*)$")
        assert.truthy(name, line)
        assert.is_true(math.tointeger(least) > 0 and math.tointeger(seconds) > 0, line)
        assert.truthy(({check = true, test = true, nightly = true})[tier], line)
        assert.truthy(rest:find("^ *$") or rest:find("^ +alone *$")
          or rest:find("^ .*# %d+, was %d+: .+"), line)
        local path = name:find("_check$") and "spec/support/" .. name .. ".c" or name
        assert.truthy(os.execute("test -e " .. path), path .. " isn't there")
      end
    end
  end)
end)
