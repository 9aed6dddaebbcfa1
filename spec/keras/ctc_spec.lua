-- CTC layers and loss against all alignments, counted one by one.

local ipu = require "ipulua"
local keras = ipu.keras

local times, classes, batch = 4, 3, 2

-- Probabilities [time, batch, class] that look random.
local probabilities = {}
for t = 1, times do
  probabilities[t] = {}
  for b = 1, batch do
    local row, sum = {}, 0
    for c = 1, classes do
      row[c] = 1.1 + math.sin(t * 3.7 + b * 1.3 + c * 5.1)
      sum = sum + row[c]
    end
    for c = 1, classes do row[c] = row[c] / sum end
    probabilities[t][b] = row
  end
end

-- Label sequence (as text) → the sum of its alignments' probabilities, for the first `length`
-- steps; class 0 is blank.
local function counted(b, length)
  local found = {}
  local function walk(t, last, labels, p)
    if t > length then
      found[labels] = (found[labels] or 0) + p
      return
    end
    for c = 1, classes do
      local more = c ~= 1 and c ~= last and tostring(c - 1) or ""
      walk(t + 1, c, labels .. more, p * probabilities[t][b][c])
    end
  end
  walk(1, 0, "", 1)
  return found
end

local function best(found)
  local at
  for labels, p in pairs(found) do
    if not at or p > found[at] then at = labels end
  end
  return at
end

local data = ipu.tensor(probabilities)
local lengths = ipu.tensor({4, 3}, {dtype = "int32"})

describe("CTC", function()
  it("row 230: loss is minus the logarithm of what all alignments of the labels sum to", function()
    local labels = ipu.tensor({{1, 2}, {2, 1}}, {dtype = "int32"})
    local label_lengths = ipu.tensor({2, 1}, {dtype = "int32"})
    local loss = keras.losses.ctc({labels, label_lengths, lengths}, ipu.log(data)):totable()
    assert.is_near(-math.log(counted(1, 4)["12"]), loss[1], 1e-5)
    assert.is_near(-math.log(counted(2, 3)["2"]), loss[2], 1e-5)
    local logits = ipu.log(data) + 3 -- softmax brings the probabilities back
    local from_logits = keras.losses.CTCLoss{from_logits = true, reduction = "sum"}
    assert.is_near(loss[1] + loss[2], from_logits({labels, label_lengths, lengths}, logits):item(),
      1e-4)
  end)

  for _, from_logits in ipairs{false, true} do
    it("row 230: decoding finds the most probable labels, from_logits = "
      .. tostring(from_logits), function()
      local options = {beam_width = 27, top_paths = 2, from_logits = from_logits}
      local x = from_logits and ipu.log(data) - 1 or ipu.log(data)
      local scores, label_lengths, labels = keras.layers.CTCInferenceLayer(options)(x, lengths)
      local predicted = keras.layers.CTCPredictionsLayer(options)(x, lengths):totable()
      for b, length in ipairs{4, 3} do
        local found = counted(b, length)
        local wanted = best(found)
        local n = math.tointeger(label_lengths[b][1]:item())
        local got, shown = labels[b][1]:totable(), ""
        for i = 1, n do shown = shown .. math.tointeger(got[i]) end
        assert.equal(wanted, shown)
        assert.is_near(-math.log(found[wanted]), math.abs(scores[b][1]:item()), 1e-4)
        for i = 1, #predicted[b] do assert.equal(i <= n and got[i] or 0, predicted[b][i]) end
      end
    end)
  end

  -- The same classes with the blank one last: labels 1 and 2 become 0 and 1.
  it("row 230: decoding leaves the blank class out, whichever it is", function()
    local x = ipu.gather(ipu.log(data), ipu.tensor({1, 2, 0}, {dtype = "int32"}), {axis = 2})
    local options <const> = {beam_width = 27, blank_index = 2}
    local scores, label_lengths, labels = keras.layers.CTCInferenceLayer(options)(x, lengths)
    local predicted = keras.layers.CTCPredictionsLayer(options)(x, lengths):totable()
    for b, length in ipairs{4, 3} do
      local found = counted(b, length)
      local wanted = best(found)
      assert.is_near(-math.log(found[wanted]), math.abs(scores[b][1]:item()), 1e-4)
      assert.equal(#wanted, math.tointeger(label_lengths[b][1]:item()))
      for i = 1, times do
        local label = i <= #wanted and tonumber(wanted:sub(i, i)) - 1 or 2
        assert.equal(label, predicted[b][i])
        if i <= #wanted then assert.equal(label, labels[b][1][i]:item()) end
      end
    end
  end)

  it("layers are called with data and lengths", function()
    assert.error_matches(function() keras.layers.CTCInferenceLayer()(data) end,
      "their lengths %[batch%]")
    assert.error_matches(function() keras.layers.CTCPredictionsLayer{top_paths = 0} end,
      "'top_paths' must be positive")
    assert.error_matches(function() keras.losses.ctc({data}, data) end,
      "labels, label lengths and data lengths")
  end)
end)
