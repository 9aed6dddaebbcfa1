-- Random models (spec/support/model_files.lua and layer_files.lua) through every file that they can
-- be in.

local command = require "spec.support.command"
local files = require "spec.support.model_files"

describe("a random model", function()
  for seed = 1, 12 do
    it("comes back from each kind of file, and trains on to the same bits: seed " .. seed,
      function()
      local folder = command.folder()
      finally(function() command.remove(folder) end)
      assert.same({}, files.problems(seed, folder))
    end)
  end
end)

describe("random models of all layers", function()
  it("come back from each kind of file in a fresh process", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    for _, mode in ipairs{"write", "read"} do
      local r = command.run{command.ipulua, "spec/support/layer_files.lua", mode, folder, "1", "20"}
      assert.equal("20 models, 0 problems\n", r.out, r.err)
    end
  end)
end)
