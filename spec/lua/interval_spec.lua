-- Ranges of numbers in rows of arguments: one text gives the check, its message and the reference's
-- words.

local args = require "ipulua.base.args"
local interval = require "ipulua.base.interval"

describe("the range of an argument", function()
  local function message_of(range, value)
    local ok, message = pcall(args.check, "f",
      {{"x", {"number", "integers"}, range = range, list = true}}, value)
    return not ok and message or nil
  end

  it("holds the ends that its brackets say", function()
    for _, case in ipairs{{"[0, 1)", {0, 0.999}, {-1e-9, 1}}, {"(0, 1]", {1e-9, 1}, {0, 1.001}},
      {"[1, inf)", {1, math.huge}, {0, 0.999}},
      {"(-inf, 1)", {-math.huge, 0.5}, {1, math.huge}}} do
      for _, x in ipairs(case[2]) do assert.is_nil(message_of(case[1], x), case[1] .. " " .. x) end
      for _, x in ipairs(case[3]) do
        assert.is_truthy(message_of(case[1], x), case[1] .. " " .. x)
      end
      assert.is_truthy(message_of(case[1], 0 / 0), "a NaN lies nowhere")
    end
  end)

  it("is checked for each number of a list", function()
    assert.is_nil(message_of("[1, inf)", {1, 2}))
    assert.matches("f: 'x' must be positive, got 0$", message_of("[1, inf)", {2, 0}))
  end)

  it("words its messages", function()
    for range, case in pairs{["[0, 1)"] = {1, "must lie in %[0, 1%), got 1"},
      ["[0, inf)"] = {-2, "must not be negative, got %-2"},
      ["(0, inf)"] = {0, "must be positive, got 0"},
      ["[2, inf)"] = {1, "must be at least 2, got 1"},
      ["(-inf, 1)"] = {1, "must be less than 1, got 1"},
      ["(-inf, 0]"] = {1, "must not be positive, got 1"},
      ["[1, inf)"] = {0.5, "must be at least 1, got 0.5"}} do
      assert.matches("'x' " .. case[2] .. "$", message_of(range, case[1]))
    end
  end)

  it("reads as words after a type", function()
    assert.same({"≥ 1", "> 0", "< 1", "in [0, 1)"},
      {interval.words "[1, inf)", interval.words "(0, inf)", interval.words "(-inf, 1)",
      interval.words "[0, 1)"})
  end)

  it("refuses a text that is no interval", function()
    assert.error_matches(function() interval.words "0 to 1" end, "is none")
  end)
end)
