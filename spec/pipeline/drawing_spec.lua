-- Timetables to scale: bubbles as the papers give them, and the picture.

local command = require "spec.support.command"
local ipu = require "ipulua"

-- GPipe (Huang et al., 2019): all forward passes, then all backward ones.
local function gpipe(stages, count)
  local steps = {}
  for t = 1, 2 * (count + stages - 1) do steps[t] = {} end
  for s = 0, stages - 1 do
    for m = 0, count - 1 do
      table.insert(steps[1 + s + m], {ipu = s, kind = "forward", stage = s, micro_batch = m})
      table.insert(steps[count + 2 * stages - 1 - s + m],
        {ipu = s, kind = "backward", stage = s, micro_batch = m})
    end
  end
  return steps
end

local function mapping(stages)
  local list = {}
  for i = 1, stages do list[i] = i - 1 end
  return list
end

local function timetable(schedule, stages, count, training)
  return ipu.timetable{schedule = schedule, device_mapping = mapping(stages), count = count,
    training = training}
end

describe("a timetable's bubble", function()
  for _, case in ipairs{{2, 8}, {4, 8}, {8, 32}} do
    local stages, count = table.unpack(case)
    local papers = (stages - 1) / (count + stages - 1)
    it(("of %d stages and %d micro-batches is (S-1)/(M+S-1) of GPipe and Grouped"):format(stages,
      count), function()
      assert.near(papers, timetable(gpipe(stages, count), stages, count):bubble(), 1e-12)
      assert.near(papers, timetable("Grouped", stages, count):bubble(), 1e-12)
      assert.near(papers, timetable("Grouped", stages, count, false):bubble(), 1e-12)
    end)
    it(("of %d, %d is the same of OneFOneB where both passes take as long"):format(stages, count),
      function()
      assert.near(papers, timetable("OneFOneB", stages, count):bubble{backward = 1}, 1e-12)
    end)
  end

  -- 8 of its 78 time steps have no backward pass: they are 1 long, the others 2.
  it("of OneFOneB is larger where a step's forward passes wait for its backward ones", function()
    local t = timetable("OneFOneB", 8, 32)
    assert.near(1 - 32 * 3 / (8 * 1 + 70 * 2), t:bubble(), 1e-12)
  end)

  it("of a sequence of stages is all but one IPU's time", function()
    assert.near(3 / 4, timetable("Sequential", 4, 6):bubble(), 1e-12)
  end)

  it("is of priced passes where the pipeline was compiled", function()
    ipu.IPUConfig():configure_ipu_system()
    local x = ipu.data.from_tensor_slices{ipu.ones{8, 4}}:repeat_n()
    local infeed, outfeed = ipu.IPUInfeedQueue(x), ipu.IPUOutfeedQueue()
    local run = ipu.func(function()
      return ipu.pipeline{
        computational_stages = {function(v) return v * 2 end, function(v) return v + 1 end},
        device_mapping = {0, 0}, gradient_accumulation_count = 4, infeed_queue = infeed,
        outfeed_queue = outfeed, pipeline_schedule = "Sequential"}
    end)
    run()
    local t = ipu.timetable(run)
    assert.near(0, t:bubble(), 1e-12)
    assert.matches("cycles, bubbles 0.0 %%", t:svg())
  end)
end)

describe("the picture of a timetable", function()
  it("has a box for each pass, a lane for each IPU, and bubbles below", function()
    local text = timetable("OneFOneB", 4, 8):svg()
    local _, boxes = text:gsub("<title>", "")
    local _, bubbles = text:gsub('fill="url%(#bubble%)"/>', "")
    assert.equal(2 * 4 * 8, boxes)
    assert.equal(4 + 1, bubbles) -- and the legend's
    assert.matches("4 stages on 4 IPUs, 8 micro%-batches: 40 forward passes long, bubbles 40.0 %%",
      text)
  end)

  it("is to scale: a backward pass of 2 is twice as wide as a forward pass", function()
    local text = timetable("Grouped", 2, 4):svg{title = "a < b"}
    local forward = text:match('width="([%d.]+)"[^>]*><title>forward')
    local backward = text:match('width="([%d.]+)"[^>]*><title>backward')
    assert.near(2, backward / forward, 1e-3)
    assert.matches("a &lt; b", text)
  end)

  it("goes into a file, or says why it doesn't", function()
    local folder = command.folder()
    local t = timetable("Grouped", 2, 4)
    local text = t:svg(folder .. "/t.svg")
    assert.equal(text, command.read(folder .. "/t.svg"))
    command.remove(folder)
    local ok, message = pcall(t.svg, t, folder .. "/t.svg")
    assert.is_false(ok)
    assert.matches("t.svg: cannot write: No such file", message)
  end)
end)

describe("the picture of concurrent stages", function()
  it("says of each IPU how deep its stage's stash is", function()
    local t = ipu.timetable{schedule = "Grouped", device_mapping = {0, {1, 2}, 3}}
    local lanes = {}
    for line in t:svg():gmatch "[^\n]+" do
      local label, depth = line:match ">(IPU %d+)<", line:match '^<text x="880" y="%d+">(.-)<'
      if label then lanes[#lanes + 1] = label
      elseif depth then lanes[#lanes] = lanes[#lanes] .. ": " .. depth
      end
    end
    -- Grouped: 2 (2 - i) copies wait beside the one in use
    assert.same({"IPU 0: 4", "IPU 1: 2", "IPU 2: 2", "IPU 3: 0"}, lanes)
  end)
end)
