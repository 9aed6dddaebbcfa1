local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"
local nearest = require "ipulua.nearest"
local scope = require "ipulua.base.scope"

local function line_here()
  return debug.getinfo(2, "l").currentline
end

describe("class", function()
  local Animal = class.new("Animal")
  function Animal:init(name) self.name = name end
  function Animal:speak() return self.name .. " is silent" end
  function Animal:__tostring() return "<" .. self.name .. ">" end
  local Dog = Animal:extend("Dog")
  function Dog:speak() return self.name .. " barks" end

  it("builds by calling and inherits methods, init and metamethods", function()
    local d = Dog("Rex")
    assert.equal("Rex barks", d:speak())
    assert.equal("Rex is silent", Animal.speak(d))
    assert.equal("<Rex>", tostring(d))
    assert.equal("Dog", getmetatable(d).__name)
    assert.equal(Animal, Dog.super)
  end)

  it("answers is_a", function()
    local d = Dog("Rex")
    assert.is_true(d:is_a(Animal))
    assert.is_true(class.is_a(d, Dog))
    assert.is_false(Animal("x"):is_a(Dog))
    assert.is_false(class.is_a(5, Dog))
    assert.is_false(class.is_a(Dog, Dog))
    assert.equal(Dog, class.of(d))
    assert.is_nil(class.of({}))
    assert.is_true(class.is_class(Dog))
  end)

  it("lets instances be callable while the class builds", function()
    local Layer = class.new("Layer")
    function Layer.__call(_, x) return x + 1 end
    local Dense = Layer:extend("Dense")
    assert.equal(3, Dense()(2))
  end)
end)

describe("blame", function()
  it("names the script's line and remembers the parts", function()
    local line
    local ok, message = pcall(function()
      line = line_here() + 1
      enum.new("Colour", {"RED"})("blue")
    end)
    assert.is_false(ok)
    assert.matches("base_spec.lua:" .. line .. ": 'blue' is not a Colour; choose one of RED",
      message, 1, true)
    local last = blame.last_error()
    assert.equal("value", last.kind)
    assert.equal("IPU_E_VALUE", last.code)
    assert.equal(line, last.line)
    assert.matches("base_spec.lua$", last.source)
    assert.equal("'blue' is not a Colour; choose one of RED", last.message)
  end)

  it("can blame another line and knows all kinds", function()
    local _, message = pcall(blame.error, "too big", "out_of_memory", "train.lua:7")
    assert.equal("train.lua:7: too big", message)
    assert.same({kind = "out_of_memory", code = "IPU_E_OUT_OF_MEMORY", message = "too big",
      source = "train.lua", line = 7},
      blame.last)
    pcall(blame.error, "stopped", "cancelled")
    assert.equal("runtime", blame.last.kind)
    assert.equal("IPU_E_CANCELLED", blame.last.code)
    pcall(blame.error, "odd")
    assert.equal("IPU_E_RUNTIME", blame.last.code)
  end)

  it("tells where the user is", function()
    local line = line_here() + 1
    local where = blame.where()
    assert.matches("base_spec.lua:" .. line .. "$", where)
  end)

  it("gives a bare message where no script is on the stack", function()
    local co = coroutine.create(blame.error)
    local _, message = coroutine.resume(co, "alone", "value")
    assert.equal("alone", message)
  end)
end)

describe("enum", function()
  local Schedule = enum.new("PipelineSchedule", {"Grouped", "Interleaved", "Sequential"})

  it("has its members' names as values", function()
    assert.equal("Grouped", Schedule.Grouped)
    assert.equal("Interleaved", Schedule("INTERLEAVED"))
    assert.same({"Grouped", "Interleaved", "Sequential"}, enum.members(Schedule))
    assert.equal("PipelineSchedule{Grouped, Interleaved, Sequential}", tostring(Schedule))
  end)

  it("refuses what is no member, listing all", function()
    for _, value in ipairs {"Fast", 10, true} do
      assert.error_matches(function() Schedule(value) end, "Grouped, Interleaved, Sequential")
    end
    assert.error_matches(function() Schedule(nil) end, "Grouped, Interleaved, Sequential")
    assert.error_matches(function() return Schedule.Gruoped end, "did you mean 'Grouped'")
    assert.error_matches(function() Schedule.New = 1 end, "cannot be changed")
  end)
end)

describe("nearest", function()
  local names = {"activation", "units", "use_bias", "kernel_initializer"}
  it("finds slips and nothing else", function()
    assert.equal("activation", nearest.find("activaton", names))
    assert.equal("units", nearest.find("untis", names))
    assert.equal("use_bias", nearest.find("USE_BIAS", names))
    assert.equal("learning_rate",
      nearest.find("lr", {"beta_1", "epsilon", "learning_rate", "name"}))
    assert.equal("use_bias", nearest.find("UB", names))
    assert.equal("accuracy", nearest.find("accurracy", {"Accuracy", "accuracy"}))
    assert.equal("Accuracy", nearest.find("Accurracy", {"Accuracy", "accuracy"}))
    local long = {"gradient_accumulation_dtype", "gradient_accumulation_steps_per_replica",
      "pipeline_schedule"}
    -- a beginning is nearer than five edits
    assert.equal(long[2], nearest.find("gradient_accumulation_steps", long))
    assert.equal("pipeline_schedule", nearest.find("schedule", long))
    assert.is_nil(nearest.find("line_schedules", {"pipeline_scheduler"}))
    assert.is_nil(nearest.find("lx", {"beta_1", "learning_rate"}))
    assert.is_nil(nearest.find("momentum", names))
    assert.is_nil(nearest.find(("x"):rep(100000), names))
    assert.is_nil(nearest.find(nil, names))
  end)
  it("counts a swap of neighbours as one edit", function()
    assert.equal(1, nearest.distance("ab", "ba"))
    assert.equal(3, nearest.distance("kitten", "sitting"))
    assert.equal(2, nearest.distance("", "ab"))
    assert.equal(2, nearest.distance("abcdef", "uvwxyz", 1))
  end)
end)

describe("scope", function()
  local log
  local function open(name)
    log[#log + 1] = "+" .. name
    return scope.new(name, function() log[#log + 1] = "-" .. name end)
  end
  before_each(function() log = {} end)

  it("closes at the end of a block, by call, and once only", function()
    do
      local s <close> = open("a")
      s:close()
      s:close()
    end
    assert.same({"+a", "-a"}, log)
    assert.same({1, nil, 3}, {open("b")(function(...) return ... end, 1, nil, 3)})
    assert.same({"+a", "-a", "+b", "-b"}, log)
    assert.equal(0, scope.depth())
  end)

  it("closes on errors, inner ones too", function()
    assert.error_matches(function()
      open("a")(function()
        open("abandoned")
        error("oops")
      end)
    end, "oops")
    assert.same({"+a", "+abandoned", "-abandoned", "-a"}, log)
    assert.equal(0, scope.depth())
  end)

  it("refuses closing out of order and tidies up", function()
    local a, b = open("a"), open("b")
    assert.error_matches(function() a:close() end,
      "a was closed before b %(opened at .*base_spec.lua:%d+%)")
    assert.same({"+a", "+b", "-b", "-a"}, log)
    b:close()
    assert.equal(0, scope.depth())
  end)

  it("reports a failing leave after everything is closed", function()
    local a = open("a")
    scope.new("bad", function() error("cannot leave", 0) end)
    assert.error_matches(function() a:close() end, "cannot leave")
    assert.equal(0, scope.depth())
  end)

  it("is made anew for each use", function()
    local s = open("a")
    s:close()
    assert.error_matches(function() s(print) end, "closed already")
    local t = open("b")
    assert.error_matches(function() t(5) end, "called with a function, got integer %(5%)")
    t:close()
  end)

  it("finds the innermost", function()
    local a <close> = open("a")
    local b <close> = open("b")
    assert.equal(b, scope.innermost())
    assert.equal(a, scope.innermost(function(s) return s.label == "a" end))
    assert.is_nil(scope.innermost(function() return false end))
  end)
end)

describe("counted", function()
  it("puts a noun behind its number", function()
    local counted = require "ipulua.base.counted"
    assert.equal("1 entry, 0 entries, 2 entries, 1 step, 3 steps",
      table.concat({counted(1, "entry", "entries"), counted(0, "entry", "entries"),
      counted(2, "entry", "entries"), counted(1, "step"), counted(3, "step")}, ", "))
  end)
end)

-- RFC 3720, B.4, and longer texts, which a table is made for.
describe("a checksum", function()
  it("is CRC32C, of any length", function()
    local bytes = {}
    for i = 0, 255 do bytes[i + 1] = string.char(i) end
    local all <const> = table.concat(bytes)
    for text, wanted in pairs{["123456789"] = 0xe3069283, [("\0"):rep(32)] = 0x8a9136aa,
      [all:sub(1, 64)] = 4218238699, [all] = 2621708363, [("\0"):rep(1000)] = 3628980823} do
      assert.equal(wanted, core.crc(text), #text)
    end
  end)
end)
