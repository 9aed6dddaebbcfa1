-- docs/ops.md is what the rows say.

local reference = require "spec.support.ops_reference"

describe("docs/ops.md", function()
  it("is up to date (make docs)", function()
    local file <close> = assert(io.open("docs/ops.md"))
    assert.equal(reference.text(), file:read("a"))
  end)
end)
