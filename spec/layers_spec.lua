-- The folders of src are layers: an include points to its own layer or to one on its left.
local order <const> = {"base", "dist", "tensor", "kernels", "target", "graph", "ops", "transform",
  "program", "machine", "engine", "data",
  "api", "lua", "plugin", "cli"}

local rank = {}
for i, name in ipairs(order) do rank[name] = i end

describe("layers", function()
  it("are the folders that docs/architecture.md names, in its order", function()
    local page <close> = assert(io.open("docs/architecture.md"))
    local named = {}
    for name in page:read("a"):match("```\n(base ← [^\n]*)"):gmatch("%l+") do
      named[#named + 1] = name
      assert.is_truthy(os.execute("test -d src/" .. name), name)
    end
    local main = {}
    -- the page has it beside them
    for _, name in ipairs(order) do main[#main + 1] = name ~= "plugin" and name or nil end
    assert.same(main, named)
  end)

  it("include only what stands on their left", function()
    local wrong = {}
    local files <close> = assert(io.popen("find src -name '*.[ch]' | sort"))
    for path in files:lines() do
      local layer = path:match("^src/([^/]+)/")
      if layer then
        assert(rank[layer], "a folder that is no layer: " .. path)
        for line in io.lines(path) do
          local target = line:match('^%s*#include%s+"([^"/]+)/')
          if target and (not rank[target] or rank[target] > rank[layer]) then
            wrong[#wrong + 1] = path .. ": " .. line
          end
        end
      end
    end
    assert.same({}, wrong)
  end)
end)

-- `make lint` runs it on the whole tree; here on trees that break its rules.
describe("the files of C", function()
  local command = require "spec.support.command"

  local function said_of(files)
    local folder = command.folder()
    for name, text in pairs(files) do
      local path = folder .. "/src/" .. name
      assert(os.execute("mkdir -p " .. command.quote(path:match("(.*)/"))))
      command.write(path, text)
    end
    local ran = command.run{"lua5.4", "spec/support/c_files.lua", folder}
    command.remove(folder)
    return ran.out, ran.status
  end

  local good <const> = {["program/a.h"] = "int a(int x);\n",
    ["program/a.c"] = '#include "program/a.h"\nint a(int x) {\n  return x; /* < STEP_COPY */\n}\n'}

  local function with(more)
    local files = {}
    for name, text in pairs(good) do files[name] = text end
    for name, text in pairs(more) do files[name] = text end
    return said_of(files)
  end

  it("each have a header of their own, which declares what they export", function()
    assert.same({"", 0}, {said_of(good)})
    for wanted, files in pairs {
      ["src/machine/b.c: it has no header of its own"] = {["machine/b.c"] = "int b;\n"},
      ["src/program/a.c: src/program/a.h does not declare a"] = {["program/a.h"] = "int b;\n"},
      ["src/program/a.c: its own header is not what it includes first"] = {
        ["program/a.c"] = "int a(int x) {\n  return x;\n}\n"},
      ["headers include each other: src/tensor/x.h → src/tensor/y.h → src/tensor/x.h"] = {
        ["tensor/x.h"] = '#include "tensor/y.h"\n', ["tensor/y.h"] = '#include "tensor/x.h"\n'},
    } do
      assert.same({wanted .. "\n", 1}, {with(files)})
    end
  end)

  it("have comments of at most 100 columns; texts and fenced tables may be longer", function()
    local long <const> = ("x "):rep(47)
    assert.same({"", 0}, {with {["data/b.c"] = "/* " .. long .. "*/\n"}})
    assert.same({"src/data/b.c:2: a line of more than 100 columns\n", 1},
      {with {["data/b.c"] = "\n/* " .. long .. "é */\n"}})
    assert.same({"", 0}, {with {["data/b.c"] = 'char t[] = "' .. long:rep(2) .. '";\n'
      .. "/* clang-format off */\nint " .. long .. long .. ";\n/* clang-format on */\n"}})
  end)

  it("ask the row of an op, not its name", function()
    assert.same({'src/ops/b.c: it knows an op by its name: if (!strcmp(n->op->name, "")) b();\n',
      1},
      {with {["ops/b.c"] = 'void f(void) {\n  if (!strcmp(n->op->name, "add")) b();\n}\n'}})
  end)

  it("ask a step for what it holds, not for where its kind stands", function()
    assert.same({"src/data/b.c: kinds of steps have no order: if (kind >= STEP_COND) b();\n", 1},
      {with {["data/b.c"] = "void f(void) {\n  if (kind >= STEP_COND) b();\n}\n"}})
    local files = {}
    for i = 1, 6 do files["data/f" .. i .. ".c"] = "int x = STEP_WHILE;\n" end
    assert.same({"", 0}, {with(files)})
    files["data/f7.c"] = "int x = STEP_PIPELINE;\n"
    local said, status = with(files)
    assert.equal(1, status)
    assert.truthy(said:find("^steps that hold others are named in 7 files, 6 are enough: "))
  end)
end)

describe("code that stands twice", function()
  local command = require "spec.support.command"

  local function said_of(limit, second)
    local folder, lines = command.folder(), {}
    for i = 1, 7 do lines[i] = "call_" .. i .. "(x)" end
    assert(os.execute("mkdir -p " .. command.quote(folder .. "/src") .. " "
      .. command.quote(folder .. "/lua")))
    command.write(folder .. "/lua/a.lua", table.concat(lines, "\n") .. "\n")
    command.write(folder .. "/lua/b.lua", "f()\n" .. second(lines))
    local ran = command.run{"lua5.4", "spec/support/twins.lua", folder, limit}
    command.remove(folder)
    return ran.out, ran.status
  end

  local function same(lines) return "  " .. table.concat(lines, " -- words\n\n  ") .. "\n" end

  it("is counted by lines, and fails above the limit and below it", function()
    assert.same({"", 0}, {said_of("7", same)})
    assert.same({"lua/b.lua:2 stands at lua/a.lua:1, too\n"
      .. "7 lines stand again, 6 at most: give them one place\n", 1}, {said_of("6", same)})
    local said, status = said_of("8", same)
    assert.equal(1, status)
    assert.truthy(said:find("7 lines stand again, fewer than 8: lower the limit", 1, true))
  end)

  it("is six lines or more", function()
    local function five(lines) return table.concat(lines, "\n", 1, 5) .. "\n" end
    local function six(lines) return table.concat(lines, "\n", 2, 7) .. "\n" end
    assert.same({"", 0}, {said_of("0", five)})
    assert.same({"", 0}, {said_of("6", six)})
  end)
end)

-- From left to right; a module requires what is in its own layer or on its left. `init`, the public
-- names, leads to everything when a name is asked for; Keras and the tools build upon it.
local lua_order <const> = {"base", "config", "trace", "data", "machine", "optimizers", "pipeline",
  "strategy", "init", "keras", "tools"}
-- Files at the root: what they stand beside, or nothing where only they themselves are required.
local at_root <const> = {nearest = 0, enums = 1, log = 1, ops = 1, init = 9}
local apart <const> = {script = true, ffi = true}

local most_files <const>, most_at_root <const>, largest_knot <const> = 25, 18, 12

describe("the Lua files", function()
  local command = require "spec.support.command"
  local lua_modules = require "spec.support.lua_modules"
  local all, places = lua_modules.all(), {}

  for i, name in ipairs(lua_order) do places[name] = i end

  local function layer(module)
    local first = module == "ipulua" and "init" or module:match("^ipulua%.([%w_]+)")
    if apart[first] then return nil end
    return places[first] or assert(at_root[first], "a file that is in no layer: " .. module)
  end

  it("are in the folders that docs/architecture.md names, in its order", function()
    local named, here = {}, {}
    local words = command.read("docs/architecture.md"):match("```\n(base ← config[^\n]*)")
    for name in words:gmatch("%l+") do named[#named + 1] = name end
    for _, name in ipairs(lua_order) do here[#here + 1] = name ~= "init" and name or nil end
    assert.same(named, here)
  end)

  it("require only what stands on their left, lazily and by computed names, too", function()
    local wrong = {}
    for module in pairs(all) do
      local found, problems = lua_modules.requires(all, module)
      for _, problem in ipairs(problems) do wrong[#wrong + 1] = problem end
      if module == "ipulua.keras" then found = lua_modules.named(all, module) end
      for name in pairs(found) do
        local mine, other = layer(module), layer(name)
        local fits = mine and other and other <= mine
          or not mine
          and (name == "ipulua.nearest" or name:find(module:match("^ipulua%.%w+"), 1, true))
        -- `init` has reports loaded when the first program is made
        if not fits and module ~= "ipulua" then wrong[#wrong + 1] = module .. " → " .. name end
      end
    end
    table.sort(wrong)
    assert.same({}, wrong)
  end)

  it("have no large knot, what registries of names lead to counted", function()
    local edges = {}
    for module in pairs(all) do
      edges[module] = lua_modules.requires(all, module)
      for name in pairs(lua_modules.named(all, module)) do edges[module][name] = true end
    end
    local largest = lua_modules.knots(edges)[1]
    assert.is_true(#largest <= largest_knot, #largest .. ": " .. table.concat(largest, " "))
  end)

  it("load where nothing on their right can be found", function()
    local names = {}
    for module in pairs(all) do names[#names + 1] = module end
    table.sort(names)
    for i, name in ipairs(lua_order) do
      local list, right = {}, {}
      for _, module in ipairs(names) do
        local mine = layer(module)
        if mine and mine > i then right[#right + 1] = string.format("[%q] = true", module) end
        if mine == i then list[#list + 1] = string.format("%q", module) end
      end
      local script <const> = string.format([[
        local right <const> = {%s}
        table.insert(package.searchers, 1, function(module)
          if right[module] then error("%s requires " .. module .. ", which is on its right", 0) end
        end)
        for _, module in ipairs{%s} do require(module) end
        print "loaded"]], table.concat(right, ", "), name, table.concat(list, ", "))
      local result = command.run{command.ipulua, "-e", script}
      assert.equal("loaded\n", result.out, result.err)
    end
  end)

  it("are few in a folder", function()
    local folders = {}
    local list <close> = assert(io.popen("find lua/ipulua -type d"))
    for folder in list:lines() do
      local pipe <close> = assert(io.popen("find '" .. folder .. "' -maxdepth 1 -type f | wc -l"))
      local count = tonumber(pipe:read("a"))
      if count > most_files then folders[#folders + 1] = folder .. ": " .. count .. " files" end
    end
    assert.same({}, folders)
    local pipe <close> = assert(io.popen("ls lua/ipulua | wc -l"))
    assert.is_true(tonumber(pipe:read("a")) <= most_at_root)
  end)
end)
