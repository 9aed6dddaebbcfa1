-- Pictures with texts of a script: names and titles of any bytes. Python's XML parser decides what
-- is XML.

local command = require "spec.support.command"
local ipu = require "ipulua"
local keras = ipu.keras

local python <const> = command.python "xml.dom.minidom"
local run_if <const> = python and it or pending

-- The text of all <text> and <title> elements, or the parser's error.
local function texts_of(path)
  local code <const> = [[
import sys, xml.dom.minidom
root = xml.dom.minidom.parse(sys.argv[1])
parts = [e.firstChild.data for name in ("title", "text") for e in root.getElementsByTagName(name)]
sys.stdout.buffer.write("|".join(parts).encode())]]
  return command.run{python, "-c", code, path}
end

-- Each text, and how an XML parser gives it back.
local texts <const> = {
  ["</script><b>"] = "</script><b>", ["a&b\"c'd"] = "a&b\"c'd", ["]]>"] = "]]>",
  ["tab\tend\nx"] = "tab\tend\nx", ["ctl\1\27[31m"] = "ctl\u{FFFD}\u{FFFD}[31m",
  ["nul\0."] = "nul\u{FFFD}.", ["bad\xff\xfe utf"] = "bad\u{FFFD}\u{FFFD} utf",
  ["ü✓𝄞"] = "ü✓𝄞", ["\u{FFFE}\u{FFFF}"] = "\u{FFFD}\u{FFFD}",
  ["\xed\xa0\x80"] = "\u{FFFD}\u{FFFD}\u{FFFD}", ["cut\xe2\x9c"] = "cut\u{FFFD}\u{FFFD}",
}

local drawn <const> = {
  ["timetable:svg"] = function(path, text)
    local t <const> = ipu.timetable{schedule = "Grouped", device_mapping = {0, 1}, count = 4}
    t:svg(path, {title = text})
  end,
  ["plot_model"] = function(path, text)
    local model <const> = keras.Sequential{keras.layers.Dense{2, input_shape = {3}}, name = text}
    keras.utils.plot_model(model, {to_file = path})
  end,
}

local function check(draw, text, expected)
  local path <const> = command.scratch ".svg"
  draw(path, text)
  local r <const> = texts_of(path)
  assert.equal(0, r.status, r.err)
  assert.truthy(("|" .. r.out .. "|"):find(expected, 1, true), r.out)
end

for what, draw in pairs(drawn) do
  describe(what, function()
    for text, expected in pairs(texts) do
      -- a model's name has no control character
      if what ~= "plot_model" or not text:find("%c") then
        run_if("writes XML with the text " .. string.format("%q", text), function()
          check(draw, text, expected)
        end)
      end
    end
  end)
end
