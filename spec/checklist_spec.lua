-- The features that this environment takes over from Graphcore's TensorFlow 2.6 are numbered rows
-- of a checklist.
-- Spec titles begin with the rows that they test ("row 7: …", "rows 7, 9: …"); here it is checked
-- that no row is without a spec.

-- Rows that need no spec of their own, and why.
local elsewhere <const> = {
  [257] = "compiling takes milliseconds: no executable is kept in a file",
  [258] = "models are saved and loaded instead (row 223)",
}

local rows <const> = 268

local function spec_files()
  local pipe <close> = assert(io.popen("find spec -name '*_spec.lua'"))
  local list = {}
  for path in pipe:lines() do list[#list + 1] = path end
  return list
end

-- Row number → the first file whose titles name it.
local function rows_of(paths)
  local found = {}
  for _, path in ipairs(paths) do
    local file <close> = assert(io.open(path))
    for numbers in file:read("a"):gmatch('"rows? (%d[%d, ]*): ') do
      for row in numbers:gmatch("%d+") do found[tonumber(row)] = found[tonumber(row)] or path end
    end
  end
  return found
end

describe("the checklist", function()
  local paths = spec_files()
  local found = rows_of(paths)

  it("has a spec for every row, or a reason", function()
    local missing = {}
    for row = 1, rows do
      if not found[row] and not elsewhere[row] then missing[#missing + 1] = row end
    end
    assert.equal("", table.concat(missing, ", "))
    for row, reason in pairs(elsewhere) do
      assert.is_nil(found[row], "row " .. row .. " has a spec now; it needs no reason: " .. reason)
    end
  end)

  it("names no row that there isn't", function()
    for row, path in pairs(found) do
      assert.is_true(row >= 1 and row <= rows, path .. ": row " .. row)
    end
  end)
end)
