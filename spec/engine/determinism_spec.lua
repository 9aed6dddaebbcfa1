local command = require "spec.support.command"
local ipu = require "ipulua"

-- ipu.save writes equal bytes for equal tensors, so files can be compared.
describe("training", function()
  local folder, reference
  local function weights(options, depth)
    local file = folder .. "/w.safetensors"
    local run = string.format("%s %s spec/support/train_weights.lua %s 300 %d", command.quote(command.ipulua), options,
      command.quote(file), depth)
    assert(os.execute(run))
    return command.read(file)
  end

  setup(function()
    folder = command.folder()
    reference = weights("--seed 7 --threads 1", 3)
  end)
  teardown(function() command.remove(folder) end)

  it("gives the same bytes again", function()
    assert.is_true(weights("--seed 7 --threads 1", 3) == reference)
  end)
  for _, threads in ipairs{2, 3, 8} do
    it("gives the same bytes with " .. threads .. " threads", function()
      assert.is_true(weights("--seed 7 --threads " .. threads, 3) == reference)
    end)
  end
  for _, depth in ipairs{1, 50, 255} do
    it("gives the same bytes with a queue of " .. depth, function()
      assert.is_true(weights("--seed 7 --threads 2", depth) == reference)
    end)
  end
  it("gives others for another seed", function()
    assert.is_false(weights("--seed 8 --threads 2", 3) == reference)
  end)

  it("gives the same bits on a team that grew after the program was compiled", function()
    local a = ipu.random.normal({300, 200}, {seed = 1})
    local f = ipu.func(function(x) return ipu.tanh(ipu.matmul(x, x, {transpose_b = true})) end)
    ipu.set_num_threads(1)
    local one = f(a):totable()
    for _, threads in ipairs{3, 4} do
      ipu.set_num_threads(threads)
      assert.same(one, f(a):totable())
    end
    ipu.set_num_threads(2)
  end)
end)
