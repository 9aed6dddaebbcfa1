-- docs/reference/ops.md is what the rows say, and says of each op what it should.

local core = require "ipulua.core"
local reference = require "spec.support.ops_reference"

local file <close> = assert(io.open("docs/reference/ops.md"))
local page <const> = file:read("a")

describe("docs/reference/ops.md", function()
  it("is up to date (make docs)", function() assert.equal(reference.text(), page) end)

  it(
    "has each op with its shapes, its gradient, the types of its attributes, and what is an error",
    function()
    local count = 0
    for entry in (page:gsub("\n## [^\n]*", "") .. "\n### "):gmatch("### (.-)%f[#\0]") do
      local name, text = entry:match("^(%S+)(.*)$")
      if not name then break end
      local row = core.describe_op(name)
      count = count + 1
      assert.is_truthy(text:find("\n- Shapes: `[^`]+`"), name .. " has no shapes")
      assert.is_truthy(text:find("\n- Gradient: %l"), name .. " does not speak of its gradient")
      assert.is_truthy(text:find("\n%- [`%w]+: [^\n]*→ [^\n]*%w"),
        name .. " does not say the dtype of its result")
      for _, a in ipairs(row.attributes) do
        assert.is_truthy(text:find("\n- `" .. a.name .. "`: %l+"),
          name .. " does not say the type of " .. a.name)
      end
      assert.is_truthy(#row.inputs == 0 or text:find("\n- Error: `" .. name:gsub("%p", "%%%0")),
        name .. " has no error")
    end
    local public = 0
    for name in pairs(core.ops) do
      if not core.describe_op(name).internal then public = public + 1 end
    end
    assert.equal(public, count)
  end)
end)
