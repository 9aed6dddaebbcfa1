-- The walks of docs/architecture.md, which `make walk` records and `make nightly` compares with a
-- new recording. They are short, their files exist, and none is left and entered again.

local command = require "spec.support.command"

-- File → why it is entered again.
local excused <const> = {
  ["src/engine/run.c"] = "a loop's body is a block of steps, which is run as the program's own is",
}

describe("the walks of docs/architecture.md", function()
  local page = command.read("docs/architecture.md")
  local text = page:match("<!%-%- walks %-%->\n(.-)<!%-%- end of walks %-%->")
  local walks = {}
  for block in text:gmatch("\n```\n(.-)```\n") do
    local list = {}
    for file in block:gmatch("[^\n]+") do list[#list + 1] = file end
    walks[#walks + 1] = list
  end

  it("are two: one ends in a kernel, one in a price", function()
    assert.equal(2, #walks)
    assert.matches("^lua/ipulua/keras/training/fit.lua$", walks[1][1])
    assert.matches("^src/kernels/", walks[1][#walks[1]])
    assert.matches("estimate.lua$", walks[2][1])
    assert.matches("^src/target/", walks[2][#walks[2]])
  end)

  it("have at most 15 files each, and all exist", function()
    for _, walk in ipairs(walks) do
      assert.is_true(#walk <= 15, #walk)
      for _, file in ipairs(walk) do assert.is_truthy(command.read(file), file) end
    end
  end)

  it("enter no file twice but those that are excused, five at most", function()
    local count = 0
    for _ in pairs(excused) do count = count + 1 end
    assert.is_true(count <= 5)
    local again = {}
    for _, walk in ipairs(walks) do
      local seen = {}
      for _, file in ipairs(walk) do
        if seen[file] then again[file] = true end
        assert.is_true(not seen[file] or excused[file] ~= nil, file)
        seen[file] = true
      end
    end
    for file in pairs(excused) do assert.is_true(again[file], file .. " needs no excuse") end
  end)
end)
