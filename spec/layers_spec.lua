-- The folders of src are layers: an include points to its own layer or to one on its left.
local order <const> = {"base", "tensor", "kernels", "target", "graph", "ops", "transform",
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
