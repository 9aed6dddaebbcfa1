-- Sizes on both sides of two limits: windows of more than 256 points, and rows that are longer than
-- what a thread takes at once. Results are computed here, element by element.

local ipu = require "ipulua"

describe("pooling", function()
  local extent <const> = 20

  -- The largest of each window, and where it is.
  local function windows(rows, height, width)
    local largest, places = {}, {}
    for i = 1, extent - height + 1 do
      largest[i], places[i] = {}, {}
      for k = 1, extent - width + 1 do
        local best, at_row, at_column = -math.huge, 0, 0
        for r = i, i + height - 1 do
          for c = k, k + width - 1 do
            if rows[r][c] > best then best, at_row, at_column = rows[r][c], r, c end
          end
        end
        largest[i][k], places[i][k] = best, {at_row, at_column}
      end
    end
    return largest, places
  end

  for _, ksize in ipairs{{16, 16}, {1, 20}, {16, 17}, {17, 17}, {20, 20}} do
    it(("takes windows of %d by %d"):format(ksize[1], ksize[2]), function()
      local x = ipu.random.uniform({extent, extent}, {seed = 9})
      local rows, slopes = x:totable(), {}
      local largest, places = windows(rows, ksize[1], ksize[2])
      local field = x:reshape{1, extent, extent, 1}
      local options <const> = {strides = {1, 1}, padding = "VALID"}
      local pooled = ipu.nn.max_pool(field, ksize, options)
      assert.same(largest, pooled:reshape{#largest, #largest[1]}:totable())
      for r = 1, extent do
        slopes[r] = {}
        for c = 1, extent do slopes[r][c] = 0.0 end
      end
      for _, line in ipairs(places) do
        for _, at in ipairs(line) do slopes[at[1]][at[2]] = slopes[at[1]][at[2]] + 1 end
      end
      local slope = ipu.func(function(f)
        return ipu.gradients(ipu.reduce_sum(ipu.nn.max_pool(f, ksize, options)), {f})[1]
      end)(field)
      assert.same(slopes, slope:reshape{extent, extent}:totable())
    end)
  end
end)

describe("triangles", function()
  it("are taken of rows of any length", function()
    for _, columns in ipairs{65536, 65537, 70001} do
      local x = ipu.ones{3, columns}
      for diagonal = -1, 1 do
        local lower = ipu.reduce_sum(ipu.tril(x, diagonal), {axis = 1}):totable()
        local upper = ipu.reduce_sum(ipu.triu(x, diagonal), {axis = 1}):totable()
        for row = 0, 2 do
          local below = math.max(row + diagonal + 1, 0)
          assert.equal(below, lower[row + 1])
          assert.equal(columns - math.max(row + diagonal, 0), upper[row + 1])
        end
      end
    end
  end)
end)
