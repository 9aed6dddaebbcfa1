-- Every Lua snippet of README.md and docs/ runs, a document's snippets one after the other as one
-- script. A line that ends in `--> text` prints that text.
local command = require "spec.support.command"

local function snippets(path)
  local code, expected, inside = {}, {}, false
  local number = 0
  for line in io.lines(path) do
    number = number + 1
    if line:match("^```") then
      inside = line:match("^```lua%s*$") ~= nil
      code[number] = ""
    else
      code[number] = inside and line or "" -- empty lines keep the document's line numbers
      local text = inside and line:match("%-%->%s*(.-)%s*$")
      if text and line:match("^%s*print") then expected[#expected + 1] = {number, text} end
    end
  end
  return table.concat(code, "\n") .. "\n", expected
end

local function has_code(code) return code:match("%S") ~= nil end

-- Whether the texts stand in the output, one behind the other.
local function check_printed(path, expected, out)
  local at = 1
  for _, e in ipairs(expected) do
    local from, to = out:find(e[2], at, true)
    assert(from, string.format("%s:%d should print %s; the output is\n%s", path, e[1], e[2], out))
    at = to + 1
  end
end

describe("snippets of", function()
  local files <close> = assert(io.popen("ls README.md docs/*.md 2>/dev/null"))
  for path in files:lines() do
    local code, expected = snippets(path)
    if has_code(code) then
      it(path, function()
        local folder = command.folder()
        local script = folder .. "/" .. path:match("[^/]+$") .. ".lua"
        command.write(script, code)
        local run = string.format("cd %s && IPULUA_PROGRESS=off %s --seed 20 %s >out 2>err",
          command.quote(folder), command.quote(command.ipulua), command.quote(script))
        local ok = os.execute(run)
        local out, err = command.read(folder .. "/out"), command.read(folder .. "/err")
        command.remove(folder)
        assert(ok, path .. " failed:\n" .. err)
        check_printed(path, expected, out)
      end)

      it(path .. " at the prompt", function()
        local folder = command.folder()
        local r = command.run{command.ipulua, "--seed", "20", "-i", stdin = code, dir = folder,
          env = {IPULUA_PROGRESS = "off", XDG_STATE_HOME = folder}}
        command.remove(folder)
        assert.is_nil(r.err:match("stdin:%d+:[^\n]*"))
        check_printed(path, expected, r.out)
      end)
    end
  end
end)

-- Blocks without a language hold what was printed.
describe("what is shown of", function()
  it("a timetable in README is what print gives", function()
    local page = command.read("README.md")
    local folder = command.folder()
    command.write(folder .. "/a.lua", (snippets("README.md")))
    local r = command.run{command.ipulua, "--seed", "20", folder .. "/a.lua",
      env = {IPULUA_PROGRESS = "off", IPULUA_LOG = "error"}}
    command.remove(folder)
    local shown = page:match("\n```\n(Grouped, .-)```\n")
    assert.is_truthy(shown and r.out:find(shown, 1, true), r.out)
  end)

  it("a program that does not fit in docs/profile.md is near what an estimate explains", function()
    local page, folder = command.read("docs/profile.md"), command.folder()
    command.write(folder .. "/wide.lua",
      page:match("\n```lua\n([^`]-\nlocal function wide.-)```\n"))
    local r = command.run{command.ipulua, "wide.lua", dir = folder, env = {IPULUA_LOG = "error"}}
    command.remove(folder)
    local number = "%d[%d,.]*"
    local function parts(text) -- what stands between numbers, and those
      local list = {}
      text = text:gsub("%.lua:%d+", ".lua")
      for n in text:gmatch(number) do
        list[#list + 1] = tonumber((n:gsub(",", ""):gsub("[.]$", "")))
      end
      return text:gsub(number, "N"), list
    end
    local shown = page:match("\n```\n(out of memory: .-\n)```\n")
    assert.equal(r.out:match("matmul %(wide%.lua:(%d+)%)"),
      shown:match("matmul %(wide%.lua:(%d+)%)"))
    local words, numbers = parts(shown)
    local got_words, got_numbers = parts(r.out:match("out of memory: .*"))
    assert.equal(words, got_words)
    for i, n in ipairs(numbers) do
      assert.is_true(math.abs(got_numbers[i] - n) <= 0.1 * n + 3, n .. " became " .. got_numbers[i])
    end
  end)

  it("a session in docs/command.md comes when it is typed", function()
    local session = command.read("docs/command.md"):match("\n```\n(> a = .-)```\n")
    local typed, printed = {}, {}
    for line in session:gmatch("[^\n]+") do
      if line:find("^> ") then typed[#typed + 1] = line:sub(3) else printed[#printed + 1] = line end
    end
    local r = command.run{command.ipulua, "-i", "-e", "_PROMPT = ''",
      stdin = table.concat(typed, "\n") .. "\n"}
    assert.is_truthy(r.out:find(table.concat(printed, "\n") .. "\n", 1, true), r.out)
  end)

  -- Prices change a little whenever the model of the machine learns something.
  it("a search for a cut in docs/pipelines.md is near what the example prints", function()
    local shown = command.read("docs/pipelines.md"):match(
      "\n```\nResNet%-50 on 4 IPUs[^\n]*\n\n(.-)```\n")
    local r = command.run{command.ipulua, "examples/pipelines/where_to_cut.lua", env = {LC_ALL = "C.UTF-8"}}
    local count = 0
    for words, rate, kilobytes in shown:gmatch("([^\n]-%d+x%d+) +(%d+) +%d+ %% +(%d+) ") do
      local got_rate, got_kilobytes = r.out:match(words:gsub("^ *%d* *", ""):gsub("%p", "%%%0")
        .. " +(%d+) +%d+ %% +(%d+) ")
      count = count + 1
      assert.is_truthy(got_rate, words .. " is not in\n" .. r.out)
      assert.is_true(math.abs(got_rate / rate - 1) < 0.05
        and math.abs(got_kilobytes / kilobytes - 1) < 0.05, words .. " " .. got_rate)
    end
    assert.equal(4, count)
  end)
end)
