-- Every example runs, shortened by an argument, what it prints is right, and its programs waste no
-- memory (spec/support/plans.lua).

local command = require "spec.support.command"

-- Where each example is, by its name.
local paths = {}
do
  local list <close> = assert(io.popen("ls examples/*/*.lua"))
  for path in list:lines() do
    if not path:find "^examples/bench/" then paths[path:match "([%w_]+)%.lua$"] = path end
  end
end

-- The output of each short form, as examples/README.md has it.
local listed = {}
for row in io.lines "examples/README.md" do
  local names, printed = row:match "^| (`.-) |.*| `([^|]+)` ?[^`|]*|$"
  if names then listed[names:match "/([%w_]+)%.lua`" or ""] = printed end
end

local number <const> = "%-?%d[%d.]*e?%-?%d*"

-- Whether a line has the words that are listed, and numbers near those. Another set of
-- instructions rounds another way; of a number such as 1.5e-08 the size is enough.
local function near(line, words)
  line = line:gsub("\t", " ")
  local from, to = line:gsub(number, "N"):find(words:gsub(number, "N"), 1, true)
  if not from then return false end
  local before = select(2, line:gsub(number, "N"):sub(1, from - 1):gsub("N", ""))
  local got, at = {}, 0
  for text in line:gmatch(number) do got[#got + 1] = tonumber(text) end
  for text in words:gmatch(number) do
    at = at + 1
    local shown, found = tonumber(text), got[before + at]
    local ok = text:find "e" and found > shown / 30 and found < shown * 30
      or math.abs(found - shown) <= 0.2 * math.abs(shown) + 0.01
    if not ok then return false end
  end
  return to ~= nil
end

local function check_listed(name, lines)
  if not listed[name] then return end
  for _, line in ipairs(lines) do
    if near(line, listed[name]) then return end
  end
  error(("examples/README.md says %q of %s, which prints\n%s"):format(listed[name], name,
    table.concat(lines, "\n")))
end

-- Runs an example in its short form, or with options. The only warning is that MNIST is drawn.
local function run(name, options, environment)
  local line = string.format("%s '%s' -l spec.support.plans --seed 1 %s %s 2>&1",
    environment or "", command.ipulua, assert(paths[name], name), options or "--short")
  local pipe <close> = assert(io.popen(line))
  local lines = {}
  for text in pipe:lines() do
    if not text:find "^ipulua: warning: keras.datasets.mnist: no MNIST files were found" then
      lines[#lines + 1] = text
    end
  end
  local ok = pipe:close()
  local text = table.concat(lines, "\n")
  assert.is_truthy(ok, text)
  assert.is_nil(text:find("warning:", 1, true), text)
  if not options then check_listed(name, lines) end
  return lines
end

-- The number in each line that has one there.
local function numbers(lines, pattern)
  local list = {}
  for _, line in ipairs(lines) do list[#list + 1] = tonumber(line:match(pattern)) end
  return list
end

local pwd <close> = assert(io.popen("pwd"))
local root <const> = pwd:read("l")

describe("example", function()
  for name, expected in pairs {
    tutorial_basic = {"[3. 8.]", "[3. 8.]"},
    perf_training_example = {"counter\t10", "d1\t10x800\t2.0\t2.0", "d2\t10x800\t0.0\t0.0"},
    perf_training_example_session = {"d1\t10x800\t2.0\t2.0", "d2\t10x800\t0.0\t0.0"},
    tutorial_sharding = {"[ 4. 14.]"},
    targeting_tf2 = {"[[22. 28.]", " [49. 64.]]", "[[22. 28.]", " [49. 64.]]"},
  } do
    it("rows 43, 51, 91, 260, 262, 263: " .. name, function()
      assert.same(expected, run(name))
    end)
  end

  it("rows 62, 268: recompilation", function()
    assert.same({"[30. 80.]", "[ 50. 100.]", "compiled\t1", "[300. 800.]", "compiled\t2"},
      run("recompilation"))
  end)

  for _, name in ipairs {"outfeed_example", "outfeed_example_session"} do
    it("rows 106, 261: " .. name, function()
      local lines = run(name)
      assert.equal(40, #lines)
      local classes = lines[1]:match("classes: (.*)")
      local first, second = classes:match("^%[(%d+) (%d+)%]$")
      assert.is_truthy(first)
      assert.equal(first, second)
      for i, line in ipairs(lines) do
        assert.equal(string.format("Step: %d classes: %s", i - 1, classes), line)
      end
    end)
  end

  it("row 263: example_tf2_fit", function()
    local losses = numbers(run("example_tf2_fit"), "^epoch %d loss (.*)")
    assert.equal(3, #losses)
    for i = 2, 3 do assert.is_true(losses[i] < losses[i - 1]) end
  end)

  it("row 263: example_tf2_custom_training", function()
    local lines = run("example_tf2_custom_training")
    assert.same({0, 50, 100, 150, 200}, numbers(lines, "^Step (%d+) loss = "))
    local losses = numbers(lines, "loss = (.*)")
    assert.is_true(losses[5] < losses[1])
  end)

  it("rows 224, 263: example_tf2_model_fit", function()
    local lines = run("example_tf2_model_fit")
    local loss, accuracy = lines[#lines]:match("^loss (%S+) accuracy (%S+)$")
    assert.is_true(tonumber(loss) < 0.9 * math.log(10), loss) -- a guess among ten classes
    assert.is_true(tonumber(accuracy) > 0.15, accuracy)
  end)

  it("row 261: outfeed_training_example", function()
    local lines = run("outfeed_training_example")
    assert.equal(30, #lines)
    local losses = {}
    for i, line in ipairs(lines) do
      losses[i] = tonumber(line:match("^Step " .. i - 1 .. " loss = (.*)"))
    end
    assert.is_true(math.abs(losses[1] - math.log(10)) < 0.3, lines[1]) -- a guess among ten classes
    assert.is_true(losses[30] > 1 and losses[30] < losses[1] - 0.1, lines[30])
  end)

  it("replicas", function()
    local lines = run("replicas")
    assert.matches("^4 IPUs, batches of 32: losses 20x4, ", lines[1])
    assert.matches("^1 IPU, batches of 128: losses 20, ", lines[2])
    local last = numbers(lines, "last loss (.*)")
    assert.is_true(math.abs(last[1] - last[2]) < 1e-4)
    assert.is_true(numbers(lines, "of a weight: (.*)")[1] < 1e-5)
  end)

  it("row 243: custom_op", function()
    local lines = run("custom_op", "--steps 300")
    assert.equal("[0.         0.72984886 1.7080734 ]", lines[1]) -- x + sin(x)^2
    assert.is_truthy(lines[2]:find("-> 0.000000, weight 1.00, bias 0.00", 1, true), lines[2])
    local untrained = run("custom_op", "--steps 0")[2]
    assert.matches("loss 0.0821 -> 0.0821", untrained, 1, true) -- by NumPy 0.08215
  end)

  it("row 263: targeting_tf2_training", function()
    local lines = run("targeting_tf2_training")
    assert.equal(10, #lines)
    assert.same({0, 10, 20, 30, 40, 50, 60, 70, 80, 90},
      numbers(lines, "^Current step: (%d+), training loss: "))
    local losses = numbers(lines, "training loss: (.*)")
    -- probabilities are clipped
    for _, loss in ipairs(losses) do assert.is_true(loss > 0 and loss < -math.log(1e-7)) end
    assert.is_true(losses[10] < losses[1] - 0.3)
  end)

  for _, kind in ipairs{"", " --functional"} do
    it("rows 179, 264: mnist_single_ipu" .. kind, function()
      local lines = run("mnist_single_ipu", "--short" .. kind)
      local losses = numbers(lines, "^epoch %d loss (.*)")
      assert.same({244522}, numbers(lines, "^parameters\t(%d+)"))
      assert.equal(4, #losses)
      for i = 2, 4 do assert.is_true(losses[i] < losses[i - 1]) end
    end)
  end

  it("mnist", function()
    for options, least in pairs{["--epochs 1"] = 90, ["--short --cnn"] = 50} do
      local lines = run("mnist", options)
      assert.is_true(tonumber(lines[#lines]:match("^test accuracy (%d+%.%d) %%$")) > least)
    end
  end)

  it("row 265: mnist_with_feeds and mnist_without_feeds", function()
    local with, without = run("mnist_with_feeds"), run("mnist_without_feeds")
    assert.equal(with[1], without[1]) -- the losses are the same to the digit
    local first, last = with[1]:match("^Losses: 300, first (%S+), last (%S+)$")
    assert.is_true(tonumber(last) < tonumber(first))
    assert.is_truthy(with[2]:find("^Time taken using infeed/outfeed queues: %d+%.%d+ seconds$"))
    assert.is_truthy(
      without[2]:find("^Time taken without infeed/outfeed queues: %d+%.%d+ seconds$"))
  end)

  -- Shortened so far that only the direction shows. Of ten digits 10 % are guessed, of two answers
  -- 55 %. The mean of all pictures has a cross-entropy of 0.262 with each.
  for name, expected in pairs {
    autoencoder = {"^test loss (%d+%.%d+)$", 0, 0.2},
    resnet20 = {"^test accuracy (%d+%.%d+) %%$", 30, 100},
    text_classifier = {"^test accuracy (%d+%.%d+) %%$", 85, 100},
    two_inputs = {"greater right (%d+%.%d+) %%$", 65, 100},
    custom_loop = {"^test accuracy (%d+%.%d+) %%$", 80, 100},
  } do
    it(name, function()
      local found = numbers(run(name), expected[1])
      assert.equal(1, #found)
      assert.is_true(found[1] >= expected[2] and found[1] <= expected[3], tostring(found[1]))
    end)
  end

  -- The programs of Keras' guides, in as many lines: a figure of each, and its bounds.
  for name, expected in pairs{
    tabular = {"best validation loss (%d%.%d+),", 0, 0.5}, -- 0.69 by guessing
    image_folder = {" val_accuracy: (%d%.%d+)$", 0.8, 1},
    text_transformer = {"^good with (%d+) %%: a superb film$", 80, 100},
    gan = {"^%d+/%d+ %- .* g_loss: (%d%.%d+)$", 0.5, 1}, -- ln 2 where neither wins
    vae = {"^loss %S+ to (%d+%.%d)$", 150, 400}, -- 543 by guessing: 784 times ln 2
    transfer = {"^(%d+%.%d) %% of unseen digits are right$", 50, 100},
    cart_pole = {"^episode 40: .* running mean (%d+%.%d)$", 22, 200},
    siamese = {"^(%d+%.%d) %% of unseen pairs are told apart$", 70, 100},
    time_series = {"^validation loss %S+ to (%d%.%d+)$", 0, 0.06},
    custom_parts = {"true_positives: (%d+)%.%d+$", 350, 500},
    denoising = {"noise, (%d%.%d+) without it$", 0, 0.05}, -- with it 0.08
    char_gru = {"^loss %S+ to (%d%.%d+)$", 0, 0.5}, -- ln 29 by guessing
    k_fold = {"^mean of 4 folds: (%d%.%d+)$", 0.08, 0.4}, -- the noise's is 0.08
    onnx = {"10000 probabilities: (%S+)$", 0, 1e-5},
  } do
    it(name, function()
      local found = numbers(run(name), expected[1])
      local last = found[#found]
      assert.is_true(last >= expected[2] and last <= expected[3], tostring(last))
    end)
  end

  it("resume goes on, to the last digit", function()
    local lines = run("resume")
    assert.equal("the same, to the last digit, as of a training that went through", lines[#lines])
    local epochs = {}
    for _, line in ipairs(lines) do epochs[#epochs + 1] = line:match "^Epoch (%d)/6" or nil end
    assert.same({"1", "2", "3", "4", "5", "6"}, epochs)
  end)

  it("imbalanced finds more of the few where they count more", function()
    local found = numbers(run("imbalanced"), "finds +(%d+) %% of them")
    assert.equal(3, #found) -- plain, by class, by sample
    assert.is_true(found[2] > found[1] + 30 and found[3] > found[1] + 30)
  end)

  it("custom_parts is loaded as it was", function()
    local lines = run("custom_parts")
    assert.equal("loaded, it predicts the same:\ttrue", lines[#lines])
  end)

  it("bubbles: a pass of Grouped has the share of GPipe", function()
    local lines = run("bubbles")
    local shares = numbers(lines, "%(M %+ S %- 1%): (%S+) %%$")
    assert.same({27.3, 15.8, 8.6, 4.5}, shares) -- 3/11, 3/19, 3/35, 3/67
    -- 4 stages: M forward and M backward slots of M + 7 steps each
    assert.same({46.7, 30.4, 17.9, 9.9}, numbers(lines, "^ *%d+: +(%S+) %% of the slots"))
  end)

  it("gpt_24 is priced", function()
    local lines = run("gpt_24")
    assert.equal("335 million weights, 24 blocks on 8 IPUs", lines[1])
    assert.matches("^Grouped +does not fit, .* %d+ KiB, +%d+%.%d samples a second$", lines[2])
    assert.matches("^Grouped +recomputation +fits, ", lines[3])
  end)

  for _, name in ipairs{"char_lstm", "char_gpt"} do
    it(name, function()
      local folder = command.folder()
      command.write(folder .. "/tinyshakespeare.txt",
        ("ROMEO: the king is dead, long live the king!\n"):rep(600))
      local lines = run(name, "--short", "IPULUA_DATA=" .. folder)
      command.remove(folder)
      local losses = numbers(lines, "^validation loss (%d+%.%d+)$")
      assert.equal(1, #losses)
      -- less than by guessing among its 22 characters
      assert.is_true(losses[1] > 0 and losses[1] < math.log(22))
      assert.is_truthy(table.concat(lines, "\n"):find("\nROMEO:.+"))
    end)
  end

  it("char_gpt without Shakespeare, from another folder", function()
    local folder = command.folder()
    local got = command.run{command.ipulua, "--seed", "1", root .. "/" .. paths.char_gpt,
      "--short", dir = folder,
      env = {IPULUA_DATA = "", HOME = folder, IPULUA_PROGRESS = "off"}}
    command.remove(folder)
    assert.equal(0, got.status, got.err)
    assert.is_truthy(got.out:find("the pages of this project instead\n.*validation loss %d%.%d+\nA "
      .. "tensor.+"), got.out)
  end)

  it("char_gpt at the prompt", function()
    local folder = command.folder()
    command.write(folder .. "/tinyshakespeare.txt",
      ("ROMEO: the king is dead, long live the king!\n"):rep(600))
    local lines = "'asked'\nsample('the ki', {length = 8, temperature = 0.5})\ntrain(1)\n"
      .. "sample('live', {length = 3})\n'updates', model.optimizer.iterations:item()\n"
    local got = command.run{command.ipulua, "--seed", "1", "-i", paths.char_gpt, "--short",
      stdin = lines,
      env = {IPULUA_DATA = folder, IPULUA_PROGRESS = "off"}}
    command.remove(folder)
    assert.equal("", (got.err:gsub("One step is[^\n]*\n", "")))
    local first, text, after, second = got.out:match("validation loss (%S+)\n.*asked\n> (the "
      .. "ki[^>]*)\n> validation loss (%S+)\n> (live[^>]*)\n")
    assert.is_truthy(first, got.out)
    assert.equal(6 + 8, #text)
    assert.equal(4 + 3, #second)
    assert.is_true(tonumber(after) <= tonumber(first))
    assert.matches("updates%s+400\n", got.out) -- 200 steps twice: trained further
  end)

  -- #4 and #5 of the tutorial: the same model in other schedules, the same digits.
  it("row 264: mnist_sequential_pipelined", function()
    local printed = {}
    for i, schedule in ipairs{"Grouped", "Interleaved", "Sequential"} do
      local lines = run("mnist_sequential_pipelined", "--short --schedule " .. schedule)
      local text = table.concat(lines, "\n")
      assert.is_truthy(text:find(schedule .. ", 2 stages on 2 IPUs, training, 4 micro-batches", 1,
        true), text)
      printed[i] = table.concat(lines, "\n", #lines - 3)
      local losses = numbers(lines, "^epoch %d loss (.*)")
      for k = 2, 4 do assert.is_true(losses[k] < losses[k - 1]) end
    end
    assert.equal(printed[1], printed[2])
    assert.equal(printed[1], printed[3])
  end)

  it("rows 183, 264: mnist_functional_pipelined", function()
    local lines = run("mnist_functional_pipelined")
    assert.same({100}, numbers(lines, "^updates\t(%d+)"))
    local losses = numbers(lines, "^epoch %d loss (.*)")
    for k = 2, 4 do assert.is_true(losses[k] < losses[k - 1]) end
    assert.is_truthy(table.concat(lines, "\n"):find("flatten %(Flatten%) %(0%) +input_1 +0 "))
  end)

  it("pipelining", function()
    local lines = run("pipelining")
    local count, first, mean = lines[#lines]:match("^losses: (%d+), first (%S+), mean of the last "
      .. "16 (%S+)$")
    assert.equal("320", count)
    assert.is_true(tonumber(mean) < tonumber(first))
  end)

  it("row 143: concurrent_stages", function()
    local lines = run("concurrent_stages")
    assert.equal("equal\ttrue", lines[#lines - 1])
    local from, to = lines[#lines]:match("^loss (%S+) to (%S+)$")
    assert.is_true(tonumber(to) < tonumber(from))
  end)

  it("rows 224, 266: imdb_pipelined", function()
    local lines = run("imdb_pipelined")
    local text = table.concat(lines, "\n")
    assert.is_truthy(text:find("Grouped, 4 stages on 2 IPUs, training, 16 micro-batches: 23 time "
      .. "steps", 1, true), text)
    local losses = numbers(lines, "^epoch %d loss (.*)")
    assert.equal(2, #losses)
    -- two updates: still a guess
    for _, loss in ipairs(losses) do assert.is_true(math.abs(loss - math.log(2)) < 0.01) end
  end)

  it("row 263: imdb_sequential_pipelined", function()
    local lines = run("imdb_sequential_pipelined")
    assert.same({8}, numbers(lines, "^updates\t(%d+)")) -- a step is an update
    local losses = numbers(lines, "^epoch %d loss (.*)")
    assert.equal(2, #losses)
    assert.is_true(math.abs(losses[1] - math.log(2)) < 0.05 and losses[2] > 0
      and losses[2] < 0.9 * math.log(2))
  end)

  it("row 267: training_pipelining and inference_pipelining", function()
    local lines = run("training_pipelining")
    local losses = numbers(lines, "^epoch %d loss (.*)")
    assert.is_true(losses[#losses] < losses[1])
    lines = run("inference_pipelining")
    assert.equal("predictions\t640x10", lines[#lines])
  end)

  -- of other examples
  local parts <const> = {imdb_reviews = true, some_text = true}
  it("explains itself, and refuses arguments that it does not take", function()
    for name, path in pairs(paths) do
      if not parts[name] then
        local first <const> = io.lines(path)():match("^%-%- (.*)")
        local r = command.run{command.ipulua, path, "--help"}
        assert.equal(0, r.status, path)
        assert.equal(first, r.out:match("^[^\n]*"), path)
        r = command.run{command.ipulua, path, "--nothing"}
        assert.equal(1, r.status, path)
        assert.equal(path:match("([%w_]+%.lua)$")
          .. ": it has no option '--nothing' (--help lists all options)\n",
          r.err:match("[^/]*$"), path)
      end
    end
  end)

  it("reads its options by name", function()
    for _, case in ipairs{
      {"mnist", "  --epochs 5 (1 with --short)\n", "--help"},
      {"mnist", "'--epochs' must be an integer, got 'x'", "--epochs", "x"},
      {"mnist", "'--epochs' needs a value", "--epochs"},
      {"mnist", "'--cnn' takes no value", "--cnn=1"},
      {"replicas", "'--steps' must be at least 1, got 0", "--replicas=4", "--steps=0"},
      {"resnet20", "'--pictures' must be at least 64, got 10", "--pictures", "10"},
      {"mnist", "it takes options only, got '2'", "2"},
      {"char_lstm", "it takes options only, got 'short'; did you mean '--short'?", "short"},
      {"char_lstm", "it has no option '--shrt'; did you mean '--short'?", "--shrt"},
      {"tutorial_basic", "\n  --short: only as much as shows that it works\n", "-h"},
    } do
      local r = command.run{command.ipulua, paths[case[1]], table.unpack(case, 3)}
      assert.truthy((r.out .. r.err):find(case[2], 1, true), r.out .. r.err)
    end
  end)

  it("that is a part of others says so", function()
    for name in pairs(parts) do
      local r = command.run{command.ipulua, paths[name]}
      assert.equal(1, r.status)
      assert.matches("^examples/[%w_]+/" .. name
        .. "%.lua: it is a part of [%w_]+%.lua[^\n]*\n$", r.err)
    end
  end)

  -- A small text has fewer batches to evaluate on than are asked for.
  it("char_lstm and char_gpt evaluate on what there is", function()
    local folder = command.folder()
    command.write(folder .. "/tinyshakespeare.txt",
      ("ROMEO: We are accounted poor citizens, the patricians good.\n"):rep(140))
    for _, name in ipairs{"char_lstm", "char_gpt"} do
      local r = command.run{command.ipulua, paths[name], "--short",
        env = {IPULUA_DATA = folder, IPULUA_LOG = "error"}}
      assert.equal(0, r.status, r.err)
      assert.matches("validation loss %d", r.out)
    end
    command.remove(folder)
  end)

  it("takes no arguments that are another script's", function()
    local r = command.run{command.ipulua, "-e", "dofile '" .. paths.tutorial_basic .. "'", "-",
      "--help", stdin = ""}
    assert.equal("[3. 8.]\n[3. 8.]\n", r.out)
  end)

  it("where_to_cut says how many IPUs there may be", function()
    local r = command.run{command.ipulua, paths.where_to_cut, "--ipus", "3"}
    assert.equal(1, r.status)
    assert.equal("where_to_cut: the number of IPUs must be a power of two from 2 on, got 3\n",
      r.err)
  end)

  it("where_to_cut prices other weights and another optimizer by arguments", function()
    for options, words in pairs{
      ["--optimizer=lamb"] = "where_to_cut: --optimizer is sgd or adam, got 'lamb'\n",
      ["--policy=half"] = "where_to_cut: --policy is float16 or float32, got 'half'\n",
    } do
      local r = command.run{command.ipulua, paths.where_to_cut, options}
      assert.equal(1, r.status)
      assert.equal(words, r.err)
    end
    -- of the fastest that fits, the fullest tile: Adam has another value for each weight
    local function fullest(...)
      return tonumber(command.run{command.ipulua, paths.where_to_cut, "--short", ...}.out:match(
        "Grouped +no +128x1 +%d+ +%d+ %% +(%d+) "))
    end
    local sgd, adam, wide = fullest(), fullest "--optimizer=adam", fullest "--policy=float32"
    assert.is_true(adam > sgd + 20, adam)
    assert.is_true(wide > 1.8 * sgd, wide) -- 4 bytes instead of 2
  end)

  it("where_to_cut says what it can't work with", function()
    local folder = command.folder()
    local path = folder .. "/model.lua"
    local function refused(words)
      local r = command.run{command.ipulua, paths.where_to_cut, "--model", path,
        "--ipus", "2"}
      assert.equal(1, r.status)
      assert.matches("^where_to_cut: [^\n]*" .. words .. "[^\n]*\n$", r.err)
    end
    refused("is neither resnet50, gpt nor a file")
    command.write(path, "return 5")
    refused("must return {title =, samples =, sizes =")
    command.write(path, "local k = require('ipulua').keras return k.Sequential{k.layers.Dense{1}}")
    refused("must return {title =, samples =, sizes =")
    local one = [[return {samples = %d, sizes = {4}, loss = "mse", build = function(block)
      local keras = require("ipulua").keras
      local x = keras.Input{shape = {4}}
      local y = x
      for i = 1, %d do y = block("d" .. i, function() return keras.layers.Dense(4)(y) end) end
      return keras.Model{inputs = x, outputs = y}
    end}]]
    command.write(path, one:format(8, 1))
    refused("1 blocks can't be cut into stages for 2 IPUs")
    command.write(path, one:format(2, 2))
    refused("no program was priced: .*gradient_accumulation_steps_per_replica")
    command.remove(folder)
  end)

  -- The borders that it takes are the best of all that there are, in the way to run that it takes.
  it("where_to_cut", function()
    local folder = command.folder()
    local build = [[function(block)
      local keras, layers = require("ipulua").keras, require("ipulua").keras.layers
      local input = keras.Input{shape = {64}}
      local x = input
      for i = 1, 8 do x = block("d" .. i, function() return layers.Dense{i < 4 and 2048 or 256, activation = "relu"}(x) end) end
      return keras.Model{inputs = input, outputs = x}
    end]]
    command.write(folder .. "/model.lua", "return {title = 'Dense', samples = 64, sizes = {8, 16}, "
      .. "loss = 'mse', build = " .. build .. "}")
    local lines = run("where_to_cut", "--model " .. folder .. "/model.lua --ipus 2 --plot "
      .. folder .. "/plot.svg")
    local text = table.concat(lines, "\n")
    assert.matches("^Dense on 2 IPUs %(Bow%), 64 samples for a weight update: %d+ programs priced "
      .. "in %d+%.%d s, none of them ran", text)
    local speeds = numbers(lines, "^ ?%d+ d%d.- %d+x%d+ +(%d+) ")
    assert.is_true(#speeds >= 8)
    for i = 2, #speeds do assert.is_true(speeds[i] <= speeds[i - 1]) end
    local cut, schedule, again, count, size, best = text:match(
      "\nCut before (d%d): (%a+)( ?[%a ]*), (%d+) micro%-batches of (%d+), "
      .. "(%d+) samples a second\n")
    assert.is_truthy(cut, text)
    assert.matches("stage 0 +IPU 0 +d1 to d%d.*stage 1 +IPU 1 +" .. cut .. " to d8 ", text)
    local fullest = numbers(lines, "^ 1 d%d.- %d+x%d+ +%d+ +%d+ %% +(%d+) ")[1]
    assert.equal(fullest, math.max(table.unpack(numbers(lines, "^stage %d .- (%d+) of %d+ KiB$"))))
    command.write(folder .. "/all.lua", ([[
      local ipu = require "ipulua"
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus, cfg.allow_recompute = 2, %s
      for _, kind in ipairs{"matmuls", "convolutions"} do cfg[kind].poplar_options = {partialsType = "half"} end
      cfg:configure_ipu_system()
      ipu.keras.mixed_precision.set_global_policy("float16")
      local scope <close> = ipu.IPUStrategy():scope()
      for first = 2, 8 do
        local number = 0
        local m = (%s)(function(_, f)
          number = number + 1
          local stage <close> = ipu.keras.PipelineStage(number < first and 0 or 1)
          return f()
        end)
        m:compile{optimizer = ipu.keras.optimizers.SGD{0.1, momentum = 0.9}, loss = "mse"}
        m:set_pipelining_options{gradient_accumulation_steps_per_replica = %s, pipeline_schedule = "%s",
          offload_weight_update_variables = false}
        local e = ipu.estimate(m, {batch_size = %s, target = "bow", ipus = 2})
        if e.fits then print(("d%%d %%.0f"):format(first, e.samples_per_second)) end
      end]]):format(again ~= "", build, count, schedule, size))
    local all = command.run{command.ipulua, folder .. "/all.lua"}
    assert.equal("", all.err)
    local found, fastest = {}, 0
    for name, speed in all.out:gmatch("(d%d) (%d+)\n") do
      found[name], fastest = tonumber(speed), math.max(fastest, tonumber(speed))
    end
    assert.equal(fastest, tonumber(best))
    assert.equal(fastest, found[cut])
    local svg = command.read(folder .. "/plot.svg")
    assert.equal(tonumber(text:match("update: (%d+) programs")) + 7,
      select(2, svg:gsub("<circle", "")))
    assert.equal("",
      command.run({command.python "xml", "-c",
        "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])",
      folder .. "/plot.svg"}).err)
    command.remove(folder)
  end)

  it("stands in examples/README.md", function()
    local page = command.read("examples/README.md")
    local pipe <close> = assert(io.popen("cd examples && ls */*.lua */*.c | grep -v ^bench/"))
    for name in pipe:lines() do assert.is_truthy(page:find("`" .. name .. "`", 1, true), name) end
    for name in page:gmatch("`([%w_/]+%.%a+)`") do command.read("examples/" .. name) end
  end)
end)
