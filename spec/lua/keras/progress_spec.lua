-- Every text is written out: what a person sees is the contract.

local progress = require "ipulua.keras.training.progress"
local terminal = require "ipulua.base.text.terminal"

-- A bar that writes into a list, and a clock that is set by hand.
local function new_bar(options)
  local out, now = {}, 1000
  options.writer = function(s) out[#out + 1] = s end
  options.clock = function() return now end
  options.mode = options.mode or "bar"
  options.columns = options.columns or 200
  options.style = options.style or "classic"
  if options.colour == nil then options.colour = false end
  return progress.new(options), out, function(seconds) now = 1000 + seconds end
end

local values <const> = {{"loss", 0.23451}, {"accuracy", 0.9321}}

describe("the classic bar", function()
  it("grows from ETA to the final line", function()
    local bar, out, at = new_bar {target = 938}
    at(1) bar:update(1, {{"loss", 2.5}})
    at(2) bar:update(101, values)
    at(4.65) bar:update(938, values)
    assert.same({
      "  1/938 [..............................] - ETA: 15:37 - loss: 2.5000",
      "\r101/938 [==>...........................] - ETA: 8s - loss: 0.2345 - accuracy: 0.9321",
      "\r938/938 [==============================] - 5s 4ms/step - loss: 0.2345"
        .. " - accuracy: 0.9321\n",
    }, out)
  end)

  it("stays within the window until the final line, which is not drawn over", function()
    for _, style in ipairs{"classic", "modern"} do
      local bar, out, at = new_bar{target = 938, columns = 72, style = style}
      at(1) bar:update(1, {{"loss", 2.5}, {"accuracy", 0.5}})
      at(2) bar:update(101, values)
      at(4.65) bar:update(938, values)
      for i = 1, 2 do
        assert.is_true(utf8.len((out[i]:gsub("\r", ""))) < 72, out[i])
        assert.truthy(out[i]:find(style == "classic" and " - loss: " or " - accuracy: ", 1, true))
      end
      assert.truthy(out[3]:find(" - loss: 0.2345", 1, true)
        and out[3]:find(" - accuracy: 0.9321", 1, true))
    end
  end)

  it("is shorter in a narrow window, and at the end as long as ever", function()
    local bar, out, at = new_bar{target = 938, columns = 40}
    at(1) bar:update(1, {{"loss", 2.5}})
    at(2) bar:update(101, values)
    at(4.65) bar:update(938, values)
    assert.same({
      "  1/938 [................] - ETA: 15:37",
      "\r101/938 [=>.................] - ETA: 8s",
      "\r938/938 [==============================] - 5s 4ms/step - loss: 0.2345"
        .. " - accuracy: 0.9321\n",
    }, out)
    bar, out, at = new_bar{target = 938, columns = 40, style = "modern"}
    at(2) bar:update(101, values)
    assert.equal("101/938 ───────────────── 16s 20ms/step", (out[1]:gsub("━", "─")))
    bar, out, at = new_bar{target = 938, columns = 10, style = "modern"}
    at(2) bar:update(101, values)
    assert.equal("101/938  16s 20ms/step", out[1])
  end)

  it("follows the window's width", function()
    local out, columns = {}, 60
    finally(function() terminal.set{} end)
    terminal.set{is_terminal = true, columns = function() return columns end}
    local bar = progress.new{target = 938, mode = "bar", style = "classic", colour = false,
      interval = 0,
      writer = function(s) out[#out + 1] = s end, clock = function() return 1000 end}
    bar:update(1)
    columns = 40
    bar:update(2)
    assert.same({"  1/938 [" .. ("."):rep(30) .. "] - ETA: 0s",
      "\r  2/938 [" .. ("."):rep(19) .. "] - ETA: 0s"}, out)
  end)

  it("leaves the first update out of the estimate, whatever it covers", function()
    local bar, out, at = new_bar {target = 2000}
    at(100) bar:update(500)
    at(101) bar:update(1000)
    assert.equal("\r1000/2000 [==============>...............] - ETA: 2s", out[2]:gsub(" +$", ""))
  end)

  it("covers what was longer before", function()
    local bar, out, at = new_bar {target = 10}
    at(1) bar:update(5, {{"loss", 1e10}})
    at(2) bar:update(6, {{"loss", 1}})
    assert.equal("\r 6/10 [=================>............] - ETA: 4s - loss: 1.0000          ",
      out[2])
  end)

  it("counts without a known length", function()
    local bar, out, at = new_bar {}
    at(1) bar:update(1, {{"loss", 1}})
    at(3) bar:update(3, {{"loss", 0.5}})
    at(4) bar:finish()
    assert.same({
      "      1/Unknown - 1s 1s/step - loss: 1.0000",
      "\r      3/Unknown - 3s 1s/step - loss: 0.5000",
      "\r3/3 [==============================] - 4s 2s/step - loss: 0.5000\n",
    }, out)
  end)

  it("draws at most every 0.05 s, and always the end", function()
    local bar, out, at = new_bar {target = 100}
    for i = 1, 100 do
      at(i / 1000)
      bar:update(i)
    end
    assert.equal(3, #out)
    assert.equal("  1/100 [..............................] - ETA: 0s", out[1])
    assert.equal("\r 51/100 [==============>...............] - ETA: 0s", out[2])
    assert.equal("\r100/100 [==============================] - 0s 1ms/step\n", out[3])
    bar:update(100)
    bar:finish()
    assert.equal(3, #out)
  end)

  it("adds", function()
    local bar, out = new_bar {target = 4}
    bar:add(2)
    bar:add(2, {loss = 1})
    assert.matches("^\r4/4 %[=+%] %- 0s 0s/step %- loss: 1.0000\n$", out[2])
  end)

  it("takes lengths of none", function()
    local bar, out = new_bar {target = 0}
    bar:update(0)
    assert.equal("0/0 [==============================] - 0s 0s/step\n", out[1])
  end)

  it("sorts values that come by name", function()
    local bar, out = new_bar {target = 1}
    bar:update(1, {b = 1, a = 2, loss = 3})
    assert.matches(" %- a: 2.0000 %- b: 1.0000 %- loss: 3.0000\n$", out[1])
  end)
end)

describe("the modern bar", function()
  it("has bold counts and times, green and white parts, sorted metrics", function()
    local bar, out, at = new_bar {target = 938, style = "modern", colour = true}
    at(1) bar:update(1, values)
    at(2) bar:update(470, values)
    at(4.65) bar:update(938, values)
    local tail = " - accuracy: 0.9321 - loss: 0.2345"
    assert.same({
      "\27[1m  1/938\27[0m \27[37m" .. ("━"):rep(20) .. "\27[0m \27[1m15:37\27[0m 1s/step" .. tail,
      "\r\27[1m470/938\27[0m \27[32m" .. ("━"):rep(10) .. "\27[0m\27[37m" .. ("━"):rep(10)
      .. "\27[0m \27[1m0s\27[0m 2ms/step"
        .. tail .. "  ",
      "\r\27[1m938/938\27[0m \27[32m" .. ("━"):rep(20)
      .. "\27[0m\27[37m\27[0m \27[1m5s\27[0m 4ms/step" .. tail .. "\n",
    }, out)
  end)

  it("draws the rest thinner without colour", function()
    local bar, out, at = new_bar {target = 4, style = "modern"}
    at(1) bar:update(1, {{"loss", 1}})
    assert.equal("1/4 " .. ("━"):rep(5) .. ("─"):rep(15) .. " 3s 1s/step - loss: 1.0000", out[1])
  end)

  it("counts without a known length", function()
    local bar, out, at = new_bar {style = "modern"}
    at(2) bar:update(2)
    assert.equal("      2/Unknown 2s 1s/step", out[1])
  end)
end)

describe("verbosity", function()
  it("2 is one line at the end", function()
    for style, line in pairs {
      classic = "10/10 - 5s - loss: 0.2345 - accuracy: 0.9321\n",
      modern = "10/10 - 5s - 444ms/step - accuracy: 0.9321 - loss: 0.2345\n",
    } do
      local bar, out, at = new_bar {target = 10, verbose = 2, style = style}
      at(1) bar:update(1, values)
      at(5) bar:update(10, values)
      assert.same({line}, out)
    end
  end)

  it("0 is nothing, auto is 1, others are refused", function()
    local bar, out = new_bar {target = 1, verbose = 0}
    bar:update(1, values)
    assert.same({}, out)
    assert.equal(1, progress.verbosity("auto"))
    assert.equal(1, progress.verbosity(nil))
    assert.error_matches(function() progress.verbosity(3) end,
      "verbose must be 0, 1, 2 or \"auto\", got 3")
  end)

  it("shows an epoch's header when there are several", function()
    assert.equal("Epoch 1/5", progress.epoch_header(1, 5, 1))
    assert.equal("Epoch 2/5", progress.epoch_header(2, 5, 2))
    assert.is_nil(progress.epoch_header(1, 1, 1))
    assert.is_nil(progress.epoch_header(1, 5, 0))
  end)
end)

describe("other modes", function()
  it("line writes whole lines: the end, and one every ten seconds", function()
    local bar, out, at = new_bar {target = 100, mode = "line"}
    for second = 1, 25 do
      at(second)
      bar:update(second * 4, {{"loss", 1}})
    end
    assert.same({
      " 40/100 [===========>..................] - ETA: 15s - loss: 1.0000\n",
      " 80/100 [=======================>......] - ETA: 5s - loss: 1.0000\n",
      "100/100 [==============================] - 25s 250ms/step - loss: 1.0000\n",
    }, out)
    assert.is_nil(table.concat(out):find("[\r\b\27]"))
  end)

  it("json writes an object a line", function()
    local bar, out, at = new_bar {target = 4, mode = "json", epoch = 1, epochs = 2}
    at(0.1) bar:update(1, {{"loss", 1}})
    at(0.6) bar:update(2, {{"loss", 0 / 0}, {"per_replica", {1, 0.5}}})
    at(0.7) bar:update(4)
    assert.same({
      '{"epoch":1,"epochs":2,"event":"progress","metrics":{"loss":"nan","per_replica":[1,0.5]},'
        .. '"seconds":0.6000000000000227,'
        .. '"seconds_per_step":0.5,"step":2,"steps":4}\n',
      '{"epoch":1,"epochs":2,"event":"end","metrics":{"loss":"nan","per_replica":[1,0.5]},'
        .. '"seconds":0.7000000000000455,'
        .. '"seconds_per_step":0.2000000000000076,"step":4,"steps":4}\n',
    }, out)
  end)

  it("off writes nothing", function()
    local bar, out = new_bar {target = 1, mode = "off"}
    bar:update(1)
    assert.same({}, out)
  end)

  it("follow the environment", function()
    local environment = {}
    local getenv = stub(os, "getenv", function(name) return environment[name] end)
    finally(function()
      getenv:revert()
      terminal.set {}
    end)
    local function settings(answers, variables)
      terminal.set(answers)
      environment = variables
      return progress.settings()
    end
    local on <const> = {is_terminal = true, utf8 = true}
    assert.same({mode = "bar", style = "modern", colour = true}, settings(on, {}))
    assert.same({mode = "bar", style = "modern", colour = false}, settings(on, {NO_COLOR = "1"}))
    assert.same({mode = "bar", style = "classic", colour = true},
      settings({is_terminal = true, utf8 = false}, {}))
    assert.same({mode = "line", style = "classic", colour = false},
      settings({is_terminal = false, utf8 = true}, {}))
    assert.same({mode = "line", style = "modern", colour = false},
      settings({is_terminal = false, utf8 = true}, {IPULUA_STYLE = "modern"}))
    assert.same({mode = "json", style = "classic", colour = false},
      settings(on, {IPULUA_STYLE = "Classic", IPULUA_PROGRESS = "JSON"}))
    assert.same({mode = "off", style = "modern", colour = false},
      settings(on, {IPULUA_PROGRESS = "off"}))
    assert.is_true(settings({is_terminal = true}, {LANG = "en_GB.UTF-8"}).style == "modern")
    assert.is_true(settings({is_terminal = true}, {LC_ALL = "C", LANG = "en_GB.UTF-8"}).style
      == "classic")
  end)

  it("replace an unknown IPULUA_PROGRESS by auto, with a warning", function()
    local getenv = stub(os, "getenv", function(name)
      return name == "IPULUA_PROGRESS" and "fancy" or nil
    end)
    finally(function()
      getenv:revert()
      terminal.set {}
    end)
    terminal.set {is_terminal = false}
    local lines, settings = require "ipulua.base.log".capture("warn", progress.settings)
    assert.equal("line", settings.mode)
    assert.matches("auto, bar, line, json or off", lines[1])
    -- once is enough
    assert.same({}, (require "ipulua.base.log".capture("warn", progress.settings)))
  end)
end)

describe("numbers", function()
  for _, case in ipairs {
    {0.5, "0.5000"}, {-0.25, "-0.2500"}, {0.001, "1.0000e-03"}, {0.00101, "0.0010"},
    {1e-9, "1.0000e-09"}, {0, "0.0000e+00"},
    {12345, "12345.0000"}, {0 / 0, "nan"}, {-(0 / 0), "nan"}, {1 / 0, "inf"},
    {{1, 2.5}, "[1.0000, 2.5000]"}, {"x", "x"},
  } do
    it("shows " .. case[2], function() assert.equal(case[2], progress.show_value(case[1])) end)
  end

  it("shows what is left", function()
    for seconds, shown in pairs {[0] = "0s", [59.9] = "59s", [60] = "60s", [61] = "1:01",
      [3600] = "60:00", [3601] = "1:00:01",
      [90061.5] = "25:01:01", [math.huge] = "?"} do
      assert.equal(shown, progress.show_eta(seconds))
    end
  end)

  it("shows the time of a step", function()
    for seconds, shown in pairs {[0] = "0s/step", [1.6] = "2s/step", [0.0154] = "15ms/step",
      [3.2e-5] = "32us/step", [0.001] = "1ms/step", [0.000999] = "999us/step", [1] = "1s/step",
      [0.999] = "999ms/step"} do
      assert.equal(shown, progress.show_rate(seconds, "step"))
    end
  end)

  it("says what a step is", function()
    assert.equal("One step is one micro-batch of 32 samples; the weights are updated after every "
      .. "step.",
      progress.step_sentence(32, 1, 1))
    assert.equal("One step is one micro-batch of 32 samples on each of 2 replicas (64 samples); "
      .. "the weights are updated after "
      .. "every 4 steps (256 samples).", progress.step_sentence(32, 2, 4))
  end)
end)
