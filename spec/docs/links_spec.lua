-- Links of the documents lead somewhere, every chapter is in the book's list, and C and LuaJIT
-- snippets work.
local command = require "spec.support.command"

local build = command.ipulua:match("^(.*)/[^/]*$")
local sanitized = command.ipulua:find("/build%-[at]san/") ~= nil
local run_if = sanitized and pending or it

local function documents()
  local list = {}
  local pipe <close> = assert(io.popen(
    "ls README.md docs/*.md docs/*/*.md docs/*/*/*.md examples/*.md"))
  for path in pipe:lines() do list[#list + 1] = path end
  return list
end

local function without_code(text) return (text:gsub("```.-```", ""):gsub("`[^`\n]*`", "")) end

local function exists(path)
  local file <close> = io.open(path)
  return file ~= nil
end

-- A heading as links name it.
local function anchors(text)
  local set = {}
  for heading in without_code(text):gmatch("\n#+ ([^\n]+)") do
    set[heading:lower():gsub("[^%w%-_ ]", ""):gsub(" ", "-")] = true
  end
  return set
end

describe("links of", function()
  for _, path in ipairs(documents()) do
    it(path, function()
      local folder = path:match("^(.*/)") or ""
      for target in without_code(command.read(path)):gmatch("%]%(([^)%s]+)%)") do
        if not target:find("^%a+:") then
          local file, anchor = target:match("^([^#]*)#?(.*)$")
          local full = file == "" and path or folder .. file
          assert(exists(full), ("%s links to %s, which is not there"):format(path, target))
          assert(anchor == "" or anchors("\n" .. command.read(full))[anchor],
            ("%s has no heading #%s"):format(full, anchor))
        end
      end
    end)
  end

  it("the book lead to every chapter", function()
    local list = command.read("docs/README.md")
    for _, path in ipairs(documents()) do
      local name, chapter = path:match("^docs/(.*)$"), list
      local index, page = path:match("^docs/(reference/%l+)/(.*)$")
      if index then -- a page of a reference: its index leads there
        chapter = command.read("docs/" .. index .. ".md")
        name = index:match("%l+$") .. "/" .. page
      end
      assert(not name or name == "README.md" or chapter:find("(" .. name .. ")", 1, true), name)
    end
  end)
end)

-- Names in a text's backquotes that are files of the source tree. In a list,
-- `src/ops/conv/conv.c`, `pooling.c`, a name alone is in the folder of the one before it.
local function sources(text)
  text = text:gsub("```.-```", "")
  local list, folder, last = {}, nil, 1
  for from, name, to in text:gmatch("()`([^`\n]*)`()") do
    if not text:sub(last, from - 1):find("^,%s*$") then folder = nil end
    local here = name:match("^(%l+/[%w_/]-)[%w_]+%.%l+$")
    if here and (here:find("^src/") or here:find("^lua/") or here:find("^spec/")) then
      folder, list[#list + 1] = here, name
    elseif folder and name:find("^[%w_]+%.[ch]$") then
      list[#list + 1] = folder .. name
    end
    last = to
  end
  return list
end

describe("files of the source tree that are named", function()
  local count = 0
  for _, path in ipairs(documents()) do
    it("by " .. path .. " are there", function()
      for _, name in ipairs(sources(command.read(path))) do
        count = count + 1
        assert(exists(name), ("%s names %s, which is not there"):format(path, name))
      end
    end)
  end

  it("are some twenty at least", function() assert(count >= 20, count) end)
end)

-- Tiles differ from one instruction set to the next, so any numbers do in a name.
describe("functions that docs/performance.md tells to look for in a profile", function()
  run_if("are symbols of the command", function()
    local text, count = command.read("docs/performance.md"):match(
      "keeps its symbols:\n\n```.-```\n\n(.-)\n\n"), 0
    local symbols = command.run{"nm", "--defined-only", command.ipulua}.out:gsub("%d+", "N")
    for name, more in text:gmatch("`([%w_]+)([^`]*)`") do
      count = count + 1
      assert.is_truthy(symbols:find(" " .. name:gsub("%d+", "N") .. (more == "…" and "" or "\n"), 1,
        true), name)
    end
    assert.equal(4, count)
  end)
end)

-- Blocks of a language, with the lines that they should print.
local function blocks(path, language)
  local list = {}
  for code in command.read(path):gmatch("\n```" .. language .. "\n(.-)\n```") do
    list[#list + 1] = code
  end
  return list
end

describe("the op of docs/extending.md", function()
  it("compiles as it stands", function()
    local list = blocks("docs/extending.md", "c src/ops/elementwise/bump.c")
    assert.equal(1, #list)
    local folder = command.folder()
    command.write(folder .. "/bump.c", list[1] .. "\n")
    local r = command.run{"gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wconversion",
      "-Werror", "-fsyntax-only", "-Isrc",
      "-I" .. build .. "/generated", folder .. "/bump.c"}
    command.remove(folder)
    assert.equal("", r.err)
    assert.equal(0, r.status)
  end)
end)

describe("snippets of docs/howto/embedding.md", function()
  run_if("in C compile and run, where they are whole", function()
    local count = 0
    for _, code in ipairs(blocks("docs/howto/embedding.md", "c")) do
      if code:find("int main") then
        count = count + 1
        local folder = command.folder()
        command.write(folder .. "/a.c", code)
        local r = command.run{"gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Isrc",
          folder .. "/a.c", build .. "/libipulua.so.0",
          "-Wl,-rpath," .. build, "-o", folder .. "/a"}
        assert.equal("", r.err)
        r = command.run{folder .. "/a"}
        command.remove(folder)
        assert.equal(0, r.status)
        assert.equal(code:match("puts%(text%); /%* (.-) %*/") .. "\n", r.out)
      end
    end
    assert.equal(1, count)
  end)

  run_if("of docs/howto/inference-from-c.md compile, and print what stands there", function()
    local path = "docs/howto/inference-from-c.md"
    local folder = command.folder()
    command.write(folder .. "/train.lua", blocks(path, "lua")[1])
    command.write(folder .. "/predict.c", blocks(path, "c")[1])
    local r = command.run{command.ipulua, "train.lua", dir = folder}
    assert.equal(0, r.status, r.err)
    r = command.run{"gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Isrc",
      folder .. "/predict.c", build .. "/libipulua.so.0", "-Wl,-rpath," .. build,
      "-o", folder .. "/predict"}
    assert.equal("", r.err)
    r = command.run{folder .. "/predict", dir = folder}
    command.remove(folder)
    assert.equal(0, r.status, r.err)
    assert.is_truthy(command.read(path):find("\n```\n" .. r.out .. "```\n", 1, true), r.out)
  end)

  run_if("for LuaJIT run", function()
    for _, code in ipairs(blocks("docs/howto/embedding.md", "luajit")) do
      local r = command.run{"luajit", "-e", code,
        env = {LUA_PATH = "lua/?.lua;" .. build .. "/luajit/?.lua",
          IPULUA_LIBRARY = build .. "/libipulua.so.0"}}
      assert.equal(0, r.status, r.err)
      local at = 1
      for text in code:gmatch("%-%->%s*([^\n]+)") do
        local from, to = r.out:find(text, at, true)
        assert(from, text .. " is not in\n" .. r.out)
        at = to + 1
      end
    end
  end)
end)
