-- history:plot: what is drawn of a history that is known.

local ipu = require "ipulua"

local function history_of(series, first)
  local history = ipu.keras.callbacks.History()
  local _, any = next(series)
  for i = 1, #any do
    local logs = {}
    for name, values in pairs(series) do logs[name] = values[i] end
    history:on_epoch_end((first or 0) + i - 1, logs)
  end
  return history
end

-- The results of plot, and its text on standard output.
local function drawn(history, ...)
  local former, file = io.stdout, assert(io.tmpfile())
  io.stdout = file -- luacheck: ignore
  local ok, text = pcall(history.plot, history, ...)
  io.stdout = former -- luacheck: ignore
  file:seek "set"
  local written = file:read "a"
  file:close()
  assert(ok, text)
  return text, written
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch "([^\n]*)\n" do list[#list + 1] = line end
  return list
end

describe("history:plot", function()
  it("draws each number over the epochs, the loss first, the validation's beside it", function()
    local text, written = drawn(history_of{loss = {4, 2, 0}, val_loss = {4, 3, 2},
      accuracy = {0.5, 0.5, 0.5}})
    assert.equal(text, written)
    local lines = lines_of(text)
    assert.equal("            * loss   o val_loss", lines[1])
    assert.equal("         4 |*", lines[2]) -- both begin there, the training's in front
    assert.equal("           |" .. (" "):rep(30) .. "o", lines[5]) -- 3 of 0 … 4: line 8 of 0 … 11
    assert.equal("           |" .. (" "):rep(30) .. "*" .. (" "):rep(28) .. "o", lines[7])
    assert.equal("         0 |" .. (" "):rep(59) .. "*", lines[13])
    assert.equal("            epoch 1" .. (" "):rep(52) .. "3", lines[15])
    assert.equal("            * accuracy", lines[17])
    assert.equal("         1 |", lines[18])
    assert.equal("         0 |", lines[29])
  end)

  it("counts epochs from the first that was run, and leaves out what is not finite", function()
    local lines = lines_of((drawn(history_of({loss = {1, 0 / 0, 3}}, 4))))
    assert.equal("            epoch 5" .. (" "):rep(52) .. "7", lines[15])
    local _, count = table.concat(lines, "\n", 2):gsub("%*", "")
    assert.equal(2, count)
  end)

  it("writes SVG", function()
    local path = os.tmpname() .. ".svg"
    local text, written = drawn(history_of{loss = {4, 2, 0}, ["a&b"] = {1, 2, 3}}, path)
    assert.equal("", written)
    local file = assert(io.open(path))
    assert.equal(text, file:read "a")
    file:close()
    os.remove(path)
    os.remove((path:gsub("%.svg$", "")))
    -- 560 wide from 80, 220 high from 30: of 4, 2, 0
    assert.matches('<polyline points="80.0,30.0 360.0,140.0 640.0,250.0"', text, 1, true)
    assert.matches(">a&amp;b</text>", text, 1, true)
  end)

  for title, case in pairs{["one large number"] = {{1e17, 1e17}, 2},
    ["least and greatest"] = {{-1.7e308, 1.7e308, 0}, 3},
    ["the greatest, again"] = {{1.7e308, 1.7e308}, 2}} do
    it("draws " .. title, function()
      local letters <const> = lines_of((drawn(history_of{loss = case[1]})))
      local _, count = table.concat(letters, "\n", 2):gsub("%*", "")
      assert.equal(case[2], count)
      local path <const> = os.tmpname()
      local text <const> = drawn(history_of{loss = case[1]}, path .. ".svg")
      os.remove(path)
      os.remove(path .. ".svg")
      local points <const> = text:match '<polyline points="([^"]*)"'
      for x, y in points:gmatch "(%S+),(%S+)" do
        assert.is_true(tonumber(x) >= 80 and tonumber(x) <= 640, points)
        assert.is_true(tonumber(y) >= 30 and tonumber(y) <= 250, points)
      end
    end)
  end

  it("says what it can't do", function()
    local history = history_of{loss = {1}}
    assert.matches("plot: 'to_file' must end in .svg, got run.gif",
      select(2, pcall(history.plot, history, "run.gif")), 1, true)
    local empty = ipu.keras.callbacks.History()
    assert.matches("plot: there is no epoch to show", select(2, pcall(empty.plot, empty)), 1, true)
  end)
end)
