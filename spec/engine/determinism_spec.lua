local command = require "spec.support.command"
local ipu = require "ipulua"

-- ipu.save writes equal bytes for equal tensors, so files can be compared.
describe("training", function()
  local folder, reference
  local function weights(options, depth)
    local file = folder .. "/w.safetensors"
    local run = string.format("%s %s spec/support/train_weights.lua %s 300 %d",
      command.quote(command.ipulua), options,
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

  -- A chunk of elementwise work may begin inside of a row: [rows, cols] + [rows, 1], one value a
  -- row, on both sides of a chunk.
  it("adds columns to rows of any length", function()
    for _, threads in ipairs{1, 2, 3} do
      ipu.set_num_threads(threads)
      for _, shape in ipairs{{1000, 20}, {819, 20}, {820, 20}, {5462, 3}, {64, 255}, {65, 257},
        {7, 5003}, {20000, 2}} do
        local rows, cols = shape[1], shape[2]
        local column = ipu.reshape(ipu.cast(ipu.arange(rows), "float32"), {rows, 1})
        local function sum(x, c) return x + c, x + c * 2 - c end
        local places = ipu.zeros(shape)
        for _, y in ipairs{{sum(places, column)}, {ipu.func(sum)(places, column)}} do
          for _, made in ipairs(y) do
            local off = ipu.abs(made - ipu.broadcast_to(column, shape))
            assert.equal(0, ipu.reduce_max(off):item(), rows .. " x " .. cols)
            assert.equal(rows - 1, made[rows]:totable()[cols])
          end
        end
      end
    end
    ipu.set_num_threads(2)
  end)
end)
