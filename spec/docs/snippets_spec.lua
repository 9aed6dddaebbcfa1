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

-- Whether the texts stand in the output, one after the other.
local function check_printed(path, expected, out)
  local at = 1
  for _, e in ipairs(expected) do
    local from, to = out:find(e[2], at, true)
    assert(from, string.format("%s:%d should print %s; the output is\n%s", path, e[1], e[2], out))
    at = to + 1
  end
end

describe("snippets of", function()
  local files <close> = assert(io.popen("ls README.md docs/*.md docs/*/*.md 2>/dev/null"))
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
describe("the output shown of", function()
  it("a program that does not fit in docs/reference/profile.md is near an estimate", function()
    local page, folder = command.read("docs/reference/profile.md"), command.folder()
    command.write(folder .. "/wide.lua",
      page:match("\n```lua\n([^`]-\nlocal function wide.-)```\n"))
    local r = command.run{command.ipulua, "wide.lua", dir = folder, env = {IPULUA_LOG = "error"}}
    command.remove(folder)
    local number = "%d[%d,.]*"
    local function parts(text) -- the text between numbers, and the numbers
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

  it("a session in docs/reference/command.md comes when it is typed", function()
    local session = command.read("docs/reference/command.md"):match("\n```\n(> a = .-)```\n")
    local typed, printed = {}, {}
    for line in session:gmatch("[^\n]+") do
      if line:find("^> ") then typed[#typed + 1] = line:sub(3) else printed[#printed + 1] = line end
    end
    local r = command.run{command.ipulua, "-i", "-e", "_PROMPT = ''",
      stdin = table.concat(typed, "\n") .. "\n"}
    assert.is_truthy(r.out:find(table.concat(printed, "\n") .. "\n", 1, true), r.out)
  end)

  -- Prices change a little whenever the model of the machine learns something.
  local function searched(page, shown, count, ...)
    local call = {command.ipulua, "examples/pipelines/where_to_cut.lua", ...}
    call.env = {LC_ALL = "C.UTF-8"}
    local r = command.run(call)
    local found = 0
    for words, rate, kilobytes in shown:gmatch("([^\n]-%d+x%d+) +(%d+) +%d+ %% +(%d+) ") do
      local got_rate, got_kilobytes = r.out:match(words:gsub("^ *[%d-]* *", ""):gsub("%p", "%%%0")
        .. " +(%d+) +%d+ %% +(%d+) ")
      found = found + 1
      assert.is_truthy(got_rate, words .. " of " .. page .. " is not in\n" .. r.out)
      assert.is_true(math.abs(got_rate / rate - 1) < 0.05
        and math.abs(got_kilobytes / kilobytes - 1) < 0.05, words .. " " .. got_rate)
    end
    assert.equal(count, found)
  end

  it("a search for a cut in docs/howto/pipelines.md is near what the example prints", function()
    searched("docs/howto/pipelines.md", command.read("docs/howto/pipelines.md"):match(
      "\n```\nResNet%-50 on 4 IPUs[^\n]*\n\n(.-)```\n"), 4)
  end)

  it("a search for a cut in README is near what the example prints", function()
    searched("README.md", command.read("README.md"):match(
      "\n```\n%$ ipulua examples/pipelines/where_to_cut.lua %-%-model gpt\n(.-)```\n"),
      5, "--model", "gpt")
  end)

  -- Another instruction set rounds another way, so the last digits are left open.
  it("losses in docs/tutorial/your-images.md are near those that its scripts print", function()
    local path = "docs/tutorial/your-images.md"
    local page, folder = command.read(path), command.folder()
    local scripts = {}
    for code in page:gmatch("\n```lua\n(.-)```\n") do scripts[#scripts + 1] = code end
    assert.equal(2, #scripts)
    command.write(folder .. "/make.lua", scripts[1])
    command.write(folder .. "/train.lua", scripts[2])
    assert.equal(0, command.run{command.ipulua, "make.lua", dir = folder}.status)
    local r = command.run{command.ipulua, "train.lua", dir = folder}
    command.remove(folder)
    local count, epoch <const> = 0, "\nEpoch (%d)/5\n[^\n]-loss: ([%d.]+) [^\n]-val_loss: ([%d.]+)"
    local printed = {}
    for n, loss, val in r.out:gmatch(epoch) do printed[n] = {loss, val} end
    for n, loss, val in page:gmatch(epoch) do
      count = count + 1
      assert.near(loss + 0, printed[n][1] + 0, 0.02)
      assert.near(val + 0, printed[n][2] + 0, 0.02)
    end
    assert.equal(2, count)
  end)

  -- 24 blocks on 8 IPUs: which ways fit must be as shown, and speeds near.
  it("prices in docs/tutorial/does-it-fit.md are near what its script prints", function()
    local page, folder = command.read("docs/tutorial/does-it-fit.md"), command.folder()
    command.write(folder .. "/gpt.lua", (snippets("docs/tutorial/does-it-fit.md")))
    local r = command.run{command.ipulua, "gpt.lua", dir = folder}
    command.remove(folder)
    local count, row <const> = 0, "\n(%u%w+ +%l+ +%l+) +([%d.]+) +(%d+) of 624 KiB"
    local shown = {}
    for way, rate, bytes in page:gmatch(row) do shown[way] = {rate, bytes} end
    for way, rate, bytes in r.out:gmatch(row) do
      count = count + 1
      assert.is_truthy(shown[way], way .. " is not on the page")
      assert.near(1, rate / shown[way][1], 0.05)
      assert.near(1, bytes / shown[way][2], 0.05)
    end
    assert.equal(6, count)
  end)
end)
