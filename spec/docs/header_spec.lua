-- src/ipulua.h describes each function, and names only existing statuses.

local command = require "spec.support.command"

describe("src/ipulua.h", function()
  local header = command.read("src/ipulua.h")
  local region = header:match("%-%-%-%- ffi.cdef begins %-%-%-%- %*/(.*)/%* %-%-%-%- ffi.cdef ends")

  -- Functions with the comment just above: {name, arguments, words}.
  local function functions()
    local list = {}
    for words, declaration in region:gmatch("/%*(.-)%*/%s*([^/;]-);") do
      local name, arguments = declaration:match("(ipu_[%w_]+)(%b())%s*$")
      if name then
        list[#list + 1] = {name = name, arguments = arguments,
          words = words:match(".*/%*(.*)") or words}
      end
    end
    return list
  end

  it("has words above each function", function()
    local described, count = {}, 0
    for _, f in ipairs(functions()) do
      assert.is_falsy(f.words:find("^ %-%-%-%-"), f.name .. " has a heading for its comment")
      described[f.name] = #f.words > 15
    end
    for name in region:gsub("/%*.-%*/", ""):gmatch("(ipu_[%w_]+)%b();") do
      count = count + 1
      assert.is_true(described[name], name .. " has no comment")
    end
    assert.is_true(count > 55, count)
  end)

  it("names statuses that there are", function()
    local known, count = {IPU_ABI_VERSION = true}, 0
    for name in header:match("enum %{(%s*IPU_OK.-)%}"):gmatch("IPU_[%u_]+") do
      known[name] = true
    end
    for name in region:gmatch("IPU_[%u_]+") do
      count = count + 1
      assert.is_true(known[name] ~= nil, name)
    end
    assert.is_true(count > 20, count)
  end)

  it("says whose the tensors are that come out", function()
    local count = 0
    for _, f in ipairs(functions()) do
      local gives = f.arguments:find("ipu_tensor %*%*out")
        or f.arguments:find("ipu_tensor %*%*%w+,%s*int capacity")
      if gives and f.name ~= "ipu_tensor_new" then
        count = count + 1
        assert.is_truthy(f.words:find("yours", 1, true) or f.words:find("caller owns", 1, true),
          f.name .. " does not say whose its tensors are")
      end
    end
    assert.equal(6, count)
  end)
end)
