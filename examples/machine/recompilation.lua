-- When is a program compiled again? A number of the script is a constant of the program, so another
-- number makes another program. Fed values are inputs: the same program takes them.
local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands

local placeholders = {}
do
  local _ <close> = ipu.device("cpu")
  for i, name in ipairs{"a", "b", "c"} do
    placeholders[i] = ipu.placeholder("float32", {2}, {name = name})
  end
end
local pa, pb, pc = table.unpack(placeholders)

local function graph_with(multiplier)
  return ipu.ipu_scope("/device:IPU:0")(function()
    return ipu.ipu_compiler.compile(function(a, b, c) return ((a + b) + (a + c)) * multiplier end,
      placeholders)
  end)
end

local sess <close> = ipu.Session()
local function run(out, a, b, c)
  print(table.unpack(sess:run(out, {feed_dict = {[pa] = a, [pb] = b, [pc] = c}})))
end

local ten = graph_with(10)
run(ten, {1, 1}, {0, 1}, {1, 5})
run(ten, {2, 2}, {0, 1}, {1, 5}) -- other values: the same program
print("compiled", #ipu.programs())
run(graph_with(100), {1, 1}, {0, 1}, {1, 5}) -- another number: another program
print("compiled", #ipu.programs())
