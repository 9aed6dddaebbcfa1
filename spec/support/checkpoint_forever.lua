-- Writes checkpoints whose variables all hold the number of the checkpoint, until it is killed.
local ipu = require "ipulua"
local v, w = ipu.Variable{ipu.zeros{64, 1024}}, ipu.Variable{ipu.zeros{1000}}
local checkpoint = ipu.train.Checkpoint{first = v, second = w, number = 0}
for i = 1, 1000000 do
  v:assign(ipu.full({64, 1024}, i))
  w:assign(ipu.full({1000}, i))
  checkpoint.number = i
  checkpoint:save(arg[1], {max_to_keep = math.tointeger(tonumber(arg[2]))})
end
