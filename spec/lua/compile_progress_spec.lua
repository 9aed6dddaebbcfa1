-- The line that tells how far a compilation has come.

local compile_progress = require "ipulua.machine.compile_progress"
local config = require "ipulua.config"
local ipu = require "ipulua"
local terminal = require "ipulua.base.text.terminal"

describe("the progress of a compilation", function()
  local text, flag
  function flag(given)
    config.reset_ipu_configuration()
    config.set_flags(given)
  end
  local appears = compile_progress.appears
  before_each(function()
    compile_progress.appears = 0
    config.reset_ipu_configuration()
    text = ""
    compile_progress.set_writer(function(part) text = text .. part end)
  end)
  after_each(function()
    compile_progress.set_writer()
    compile_progress.appears = appears
    terminal.set{}
    flag("")
  end)

  local function compile(name)
    ipu.func(function(x) return x + 1 end, {name = name})(ipu.tensor(1.0))
  end

  it("row 36: is shown on a terminal only, and goes again where it was short", function()
    terminal.set{is_terminal = false}
    compile("unseen")
    assert.equal("", text)
    terminal.set{is_terminal = true}
    compile("seen")
    local shown, rest = text:match("^(.-)(\r +\r)$")
    assert.matches("^\rCompiling 'seen' %[%.+%]   0%% tracing  %[0%.%d s%]", shown)
    assert.matches("\rCompiling 'seen' %[=+%.+%]  50%% lowering", shown)
    assert.matches("\rCompiling 'seen' %[=+%] 100%% finished %[0%.%d s%]$", shown)
    for line in shown:gmatch("[^\r]+") do assert.is_true(#line <= #rest - 2) end
    text, compile_progress.appears = "", 1000
    compile("quick")
    assert.equal("", text)
  end)

  it("stays within the window", function()
    terminal.set{is_terminal = true, columns = 72}
    compile("a_name_of_twenty_four_es")
    local shown = text:match("^(.-)\r +\r$")
    assert.matches("Compiling 'a_name_of_twen' %[=+%] 100%% finished %[0%.%d s%]$", shown)
    text = ""
    terminal.set{is_terminal = true, columns = 30}
    compile("a_name_of_twenty_four_es")
    for line in text:gmatch("[^\r]+") do assert.is_true(#line < 30, line) end
    assert.matches("^\rCompiling 'a_name_o' %[", text)
  end)

  it("row 36: is shown anywhere or nowhere when the flag says so", function()
    terminal.set{is_terminal = false}
    flag("--show_progress_bar=true")
    compile("wanted")
    assert.matches("100%% finished %[0%.%d s%]\n$", text)
    flag("--show_progress_bar=false")
    text = ""
    terminal.set{is_terminal = true}
    compile("unwanted")
    assert.equal("", text)
  end)

  it("ends with an error, begins anew with the next program, and tells of sessions", function()
    flag("--show_progress_bar=true")
    assert.is_false(pcall(ipu.func(function() error("mine") end)))
    assert.matches("\r +\r$", text)
    text = ""
    ipu.reset_default_graph()
    local a = ipu.placeholder("float32", {})
    local y = a + 1
    local sess <close> = ipu.Session()
    assert.equal(3, sess:run(y, {feed_dict = {[a] = 2}}):item())
    assert.matches("^\rCompiling 'session'.*finished.*\n$", text)
    text = ""
    sess:run(y, {feed_dict = {[a] = 2}})
    assert.equal("", text)
    compile("next")
    assert.matches("^\rCompiling 'next'.*\n$", text)
  end)
end)
