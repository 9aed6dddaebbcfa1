-- The folders of src are layers: an include points to its own layer or to one on its left.
local order <const> = {"base", "tensor", "kernels", "target", "graph", "ops", "transform", "program", "machine", "engine", "data",
  "dist", "api", "lua", "plugin", "cli"}

local rank = {}
for i, name in ipairs(order) do rank[name] = i end

describe("layers", function()
  it("include only what stands on their left", function()
    local wrong = {}
    local files <close> = assert(io.popen("find src -name '*.[ch]' | sort"))
    for path in files:lines() do
      local layer = path:match("^src/([^/]+)/")
      if layer then
        assert(rank[layer], "a folder that is no layer: " .. path)
        for line in io.lines(path) do
          local target = line:match('^%s*#include%s+"([^"/]+)/')
          if target and (not rank[target] or rank[target] > rank[layer]) then wrong[#wrong + 1] = path .. ": " .. line end
        end
      end
    end
    assert.same({}, wrong)
  end)
end)
