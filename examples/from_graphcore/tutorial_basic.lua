-- A graph of placeholders, run by a session: the additions are on the IPU, the placeholders on the
-- CPU. Then the same additions as one compiled program, whose result is a list.

local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local pa, pb, pc
do
  local _ <close> = ipu.device("cpu")
  pa = ipu.placeholder("float32", {2}, {name = "a"})
  pb = ipu.placeholder("float32", {2}, {name = "b"})
  pc = ipu.placeholder("float32", {2}, {name = "c"})
end

local function basic_graph(a, b, c)
  local o1 = a + b
  local o2 = a + c
  return o1 + o2
end

local result = ipu.ipu_scope("/device:IPU:0")(function() return basic_graph(pa, pb, pc) end)

local compiled = ipu.ipu_scope("/device:IPU:0")(function()
  return ipu.ipu_compiler.compile(basic_graph, {pa, pb, pc})
end)

do
  local sess <close> = ipu.Session()
  local fed <const> = {feed_dict = {[pa] = {1, 1}, [pb] = {0, 1}, [pc] = {1, 5}}}
  print(sess:run(result, fed))
  print(sess:run(compiled, fed)[1])
end
