-- The prompt's search by a name or a word.

local command = require "spec.support.command"

local class = require "ipulua.base.class"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"

-- Calls visit(path, value) for every public function and class.
local function each_public(visit, module, path, seen)
  module, path, seen = module or ipu, path or "ipu", seen or {}
  if seen[module] then return end
  seen[module] = true
  for _, name in ipairs(help.names(module)) do
    local value, place = module[name], path .. "." .. name
    if type(value) == "function" or class.is_class(value) then visit(place, value)
    elseif type(value) == "table" and help.names(value) then each_public(visit, value, place, seen)
    end
  end
end

local function typed(text)
  local folder = command.folder()
  local r = command.run{command.ipulua, "-i", "-e", "_PROMPT = ''", stdin = text,
    env = {XDG_STATE_HOME = folder}}
  command.remove(folder)
  local out = r.out:gsub("^Lua [^\n]*\nipulua [^\n]*\n", ""):gsub("\n\n$", "\n")
  return out
end

describe("the prompt explains", function()
  it("an op by its name alone, as by its place", function()
    local out = typed("?reduce_std\n")
    assert.matches("^ipu.reduce_std%(x, {axis, keepdims}%)\n", out)
    assert.equal(out, (typed("?ipu.reduce_std\n")))
    assert.equal(out, (typed('help("reduce_std")\n')))
  end)

  it("names with a word in them, grouped by module, with a sentence each", function()
    local out = typed('help("reduce")\n')
    assert.matches("^ipu:\n", out)
    assert.matches("\n  reduce_sum +The sum over axes%.\n", out)
    assert.matches("\nkeras.callbacks:\n  ReduceLROnPlateau +Multiplies", out)
    local _, sums = out:gsub("\n  reduce_sum ", "")
    assert.equal(1, sums)
  end)

  it("first sentences with the word, if no name has it", function()
    assert.matches("EarlyStopping +Ends training when a metric", (typed('help("patience")\n')))
  end)

  it("that nothing has a word", function()
    assert.equal('no name and no first sentence has "quaternion" in it\n',
      (typed('help("quaternion")\n')))
  end)

  it("names alone where many have it", function()
    local out = typed('help("a")\n')
    assert.matches("\nkeras.layers:\n  .*Activation", out)
    assert.is_nil(out:find("An activation function as a layer", 1, true))
  end)

  it("ipu by kinds", function()
    local out = typed("help(ipu)\n")
    for _, kind in ipairs{"modules: .*keras", "classes: .*IPUConfig", "choices: .*PipelineSchedule",
      "functions: .*estimate", "ops: .*matmul"} do
      assert.matches("\n  " .. kind, out)
    end
  end)

  it("each function and class with a sentence", function()
    local unexplained = {}
    each_public(function(path, value)
      local lines = help.lines(value, path) or {}
      if not lines[2] or lines[2]:find("^ ") then unexplained[#unexplained + 1] = path end
    end)
    assert.same({}, unexplained)
    assert.matches("\nThe mean over axes%.\n", (typed("help(ipu.keras.backend.mean)\n")))
    assert.matches("label_smoothing=?", (typed("help(ipu.keras.losses.binary_crossentropy)\n")))
  end)

  it("choices by what can be chosen", function()
    assert.matches("RecomputationMode +One of Auto, ", (typed('help("Recomputation")\n')))
  end)
end)
