-- Every example runs, shortened by an argument, and what it prints is right.

local command = os.getenv("IPULUA") or "build/ipulua"

local function run(name, argument)
  local line = string.format("IPULUA_LOG=error '%s' --seed 1 examples/%s.lua %s 2>&1", command, name, argument or "")
  local pipe <close> = assert(io.popen(line))
  local lines = {}
  for text in pipe:lines() do lines[#lines + 1] = text end
  local ok = pipe:close()
  assert.is_truthy(ok, table.concat(lines, "\n"))
  return lines
end

-- The number in each line that has one there.
local function numbers(lines, pattern)
  local list = {}
  for _, line in ipairs(lines) do list[#list + 1] = tonumber(line:match(pattern)) end
  return list
end

local function is_finite(x) return x == x and math.abs(x) < math.huge end

describe("example", function()
  for name, expected in pairs {
    tutorial_basic = {"[3. 8.]"}, tutorial_xla_compile = {"[3. 8.]"},
    perf_training_example = {"counter\t10", "d1\t10x800\t2.0\t2.0", "d2\t10x800\t0.0\t0.0"},
    perf_training_example_session = {"d1\t10x800\t2.0\t2.0", "d2\t10x800\t0.0\t0.0"}, tutorial_sharding = {"[ 4. 14.]"},
    targeting_tf2_example1 = {"[[22. 28.]", " [49. 64.]]"}, targeting_tf2_example2 = {"[[22. 28.]", " [49. 64.]]"},
  } do
    it(name, function() assert.same(expected, run(name)) end)
  end

  for _, name in ipairs {"outfeed_example", "outfeed_example_session"} do
    it(name, function()
      local lines = run(name, 20)
      assert.equal(40, #lines)
      local classes = lines[1]:match("classes: (.*)")
      local first, second = classes:match("^%[(%d+) (%d+)%]$")
      assert.is_truthy(first)
      assert.equal(first, second)
      for i, line in ipairs(lines) do assert.equal(string.format("Step: %d classes: %s", i - 1, classes), line) end
    end)
  end

  it("example_tf2_fit", function()
    local losses = numbers(run("example_tf2_fit", "200 3"), "^epoch %d loss (.*)")
    assert.equal(3, #losses)
    for i = 2, 3 do assert.is_true(losses[i] < losses[i - 1]) end
  end)

  it("example_tf2_custom_training", function()
    local lines = run("example_tf2_custom_training", 201)
    assert.same({0, 50, 100, 150, 200}, numbers(lines, "^Step (%d+) loss = "))
    local losses = numbers(lines, "loss = (.*)")
    assert.is_true(losses[5] < losses[1])
  end)

  it("example_tf2_model_fit", function()
    local lines = run("example_tf2_model_fit", "40 1")
    local loss, accuracy = lines[#lines]:match("^loss (%S+) accuracy (%S+)$")
    assert.is_true(is_finite(tonumber(loss)))
    assert.is_true(tonumber(accuracy) >= 0)
  end)

  it("outfeed_training_example", function()
    local lines = run("outfeed_training_example", 30)
    assert.equal(30, #lines)
    for i, line in ipairs(lines) do
      assert.is_truthy(line:find("^Step " .. i - 1 .. " loss = "), line)
      assert.is_true(is_finite(tonumber(line:match("= (.*)"))))
    end
  end)

  it("targeting_tf2_example3", function()
    local lines = run("targeting_tf2_example3")
    assert.equal(10, #lines)
    assert.same({0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, numbers(lines, "^Current step: (%d+), training loss: "))
    for _, loss in ipairs(numbers(lines, "training loss: (.*)")) do assert.is_true(is_finite(loss)) end
  end)

  for _, name in ipairs{"mnist_functional", "mnist_sequential"} do
    it(name, function()
      local lines = run(name, 100)
      local losses = numbers(lines, "^epoch %d loss (.*)")
      assert.same({244522}, numbers(lines, "^parameters\t(%d+)"))
      assert.equal(4, #losses)
      for i = 2, 4 do assert.is_true(losses[i] < losses[i - 1]) end
    end)
  end

  it("mnist", function()
    local lines = run("mnist", 1)
    assert.is_true(tonumber(lines[#lines]:match("^test accuracy (%d+%.%d) %%$")) > 90)
  end)

  it("mnist_with_feeds and mnist_without_feeds", function()
    local with, without = run("mnist_with_feeds", 300), run("mnist_without_feeds", 300)
    assert.equal(with[1], without[1]) -- the losses are the same to the digit
    local first, last = with[1]:match("^Losses: 300, first (%S+), last (%S+)$")
    assert.is_true(tonumber(last) < tonumber(first))
    assert.is_truthy(with[2]:find("^Time taken using infeed/outfeed queues: %d+%.%d+ seconds$"))
    assert.is_truthy(without[2]:find("^Time taken without infeed/outfeed queues: %d+%.%d+ seconds$"))
  end)
end)
