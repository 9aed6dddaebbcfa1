-- Beams that are narrower than the number of prefixes: one that leaves and comes back is the same.

local ipu = require "ipulua"

local time <const>, classes <const>, width <const>, batch <const> = 12, 3, 4, 600

describe("nn.ctc_beam_search_decoder", function()
  local logits = ipu.random.normal({time, batch, classes}, {seed = 1})
  local lengths = ipu.full({batch}, time, {dtype = "int32"})
  local scores, counts, labels = ipu.nn.ctc_beam_search_decoder(logits, lengths,
    {beam_width = width, top_paths = width, blank_index = 2})

  it("gives no sequence twice", function()
    for n, paths in ipairs(labels:totable()) do
      local seen = {}
      for _, path in ipairs(paths) do
        local text = table.concat(path, " ")
        assert.is_nil(seen[text], ("sample %d has %s twice"):format(n, text))
        seen[text] = true
      end
    end
  end)

  it("gives no sequence more than all its alignments together", function()
    for path = 1, width do
      local picked = ipu.slice(labels, {0, path - 1, 0}, {batch, 1, time})
      picked = ipu.maximum(ipu.reshape(picked, {batch, time}), 0) -- -1 is after the end
      local count = ipu.reshape(ipu.slice(counts, {0, path - 1}, {batch, 1}), {batch})
      local all = -ipu.nn.ctc_loss(picked, logits, count, lengths, {blank_index = 2})
      local score = ipu.reshape(ipu.slice(scores, {0, path - 1}, {batch, 1}), {batch})
      assert.is_true(ipu.reduce_max(score - all):item() < 1e-5)
    end
  end)
end)
