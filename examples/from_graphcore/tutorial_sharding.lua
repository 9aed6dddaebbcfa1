-- One graph over four IPUs: three shards have an addition each, and the fourth adds up their
-- results.

local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 4
cfg:configure_ipu_system()

local pa, pb, pc
do
  local _ <close> = ipu.device("cpu")
  pa = ipu.placeholder("float32", {2}, {name = "a"})
  pb = ipu.placeholder("float32", {2}, {name = "b"})
  pc = ipu.placeholder("float32", {2}, {name = "c"})
end

local function sharded_graph(a, b, c)
  local o1, o2, o3
  do local _ <close> = ipu.ipu_shard(0); o1 = a + b end
  do local _ <close> = ipu.ipu_shard(1); o2 = a + c end
  do local _ <close> = ipu.ipu_shard(2); o3 = b + c end
  local _ <close> = ipu.ipu_shard(3)
  return o1 + o2 + o3
end

local result = ipu.ipu_scope("/device:IPU:0")(function()
  return ipu.ipu_compiler.compile(sharded_graph, {pa, pb, pc})
end)

do
  local sess <close> = ipu.Session()
  print(sess:run(result, {feed_dict = {[pa] = {1, 1}, [pb] = {0, 1}, [pc] = {1, 5}}})[1])
end
