-- docs/source/shapes.lua, which compares the named shapes of docs/reference/keras.md with samples,
-- finds what is wrong.

local shapes = assert(loadfile("docs/source/shapes.lua"))()

describe("shapes with names", function()
  it("are found by samples", function()
    for _, case in ipairs{
      {"[batch, ..., features] → [batch, ..., units]", {2, 3}, {2, 4}, {units = 4}},
      {"[batch, ..., features] → [batch, ..., units]", {2, 5, 6, 3}, {2, 5, 6, 4}, {units = 4}},
      {"[batch, steps] → [batch, steps * size]", {2, 6}, {2, 12}, {size = {2}}},
      {"[batch, rows] → [batch, rows * size[2]]", {2, 6}, {2, 18}, {size = {2, 3}}},
      {"{[batch, a], [batch, b]} → [batch, a + b]", {{2, 3}, {2, 4}}, {2, 7}},
      {"[batch, ...] → [batch, ...']", {2, 6}, {2, 3, 2}},
      {"[batch, n] → [batch, n']", {2, 6}, {2, 1}}, {"[...] → []", {2, 6}, {}},
    } do assert.is_nil(shapes.problem(table.unpack(case))) end
  end)

  it("are refused where a sample has others", function()
    for problem, case in pairs{
      ["units is 4, not 5"] = {"[batch, features] → [batch, units]", {2, 3}, {2, 5}, {units = 4}},
      ["batch is 2, not 3"] = {"[batch, features] → [batch]", {2, 3}, {3}},
      ["has another rank"] = {"[batch, features] → [batch]", {2, 3}, {2, 3}},
      ["%.%.%. is 5, then 6"] = {"[batch, ...] → [batch, ...]", {2, 5}, {2, 6}},
      ["a %+ b is 7, not 8"] = {"{[batch, a], [batch, b]} → [batch, a + b]",
        {{2, 3}, {2, 4}}, {2, 8}},
      ["nothing is called units"] = {"[batch, features] → [batch, units * 2]", {2, 3}, {2, 8}},
      ["2 shapes are 1"] = {"[batch] → [batch], [batch]", {2}, {2}},
    } do assert.matches(problem, shapes.problem(table.unpack(case))) end
  end)
end)
