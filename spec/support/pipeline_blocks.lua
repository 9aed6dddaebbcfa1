-- Blocks of the stages of random pipelines, which compute with h [rows, width]. A block is f(w,
-- state, h, x, e) with weights w [width, width] of its own. x is the value of a skip connection. e
-- has the counter of micro-batches, a call of the script and a rate. A block with `state` reads and
-- changes a variable [width], one with `queue` has an outfeed in its place. draws: its numbers are
-- another sequence than a loop by hand has. rounds: at random, where the configuration says so.

local ipu = require "ipulua"

local blocks = {width = 5}
local width <const> = blocks.width

local function int32(i) return ipu.tensor(i, {dtype = "int32"}) end

-- ------------------------------------------------ arithmetic, loops and branches

blocks.plain = {
  {function(w, _, h) return ipu.tanh(h:matmul(w)) end},
  {function(w, _, h) return ipu.nn.relu(h * w[1] + w[2]) end},
  {function(_, _, h, x) return h + x * 0.5 end},
  {function(w, _, h)
    return ipu.loops.repeat_n(2, function(s) return ipu.tanh(s:matmul(w)) end, {h})
  end},
  {function(w, _, h)
    return ipu.cond(ipu.less(ipu.reduce_sum(h), 0), function() return h * w[1] end,
      function() return h - w[2] end)
  end},
  {function(_, _, h)
    local _, y = ipu.while_loop(function(i, a)
      return ipu.logical_and(ipu.less(i, 4), ipu.less(ipu.reduce_sum(ipu.abs(a)), 30))
    end, function(i, a) return i + 1, a * 1.5 end, {0, h})
    return ipu.tanh(y)
  end},
  {function(w, _, h)
    for _ in ipu.range(2) do h = h end
    return h:matmul(w, {transpose_b = true})
  end},
  {function(_, _, h)
    return ipu.gather(h, ipu.cast(ipu.argsort(ipu.reduce_sum(h, {axis = 1})), "int32"))
  end},
  {function(w, _, h) return ipu.nn.softmax(h:matmul(w)) * 3 end},
  {function(w, _, h) return ipu.nn.layer_norm(h, w[1], w[2]) end},
  {function(w, _, h) return ipu.func(function(a) return ipu.tanh(a * w[3]) end)(h) end},
  {function(w, _, h)
    local a, b = ipu.split(ipu.concat({h, h:matmul(w)}, {axis = 0}), 2)
    return a * b
  end},
  {function(_, _, h) return ipu.recomputation_checkpoint(ipu.sin(h)) end},
  {function(w, _, h, _, e) return h * w[3] * (1 + ipu.cast(e.counter(), "float32") * 0.25) end},
  {function(w, _, h, _, e) return h + e.call(h) * 0 + w[5] end},
  {function(_, _, h, _, e) return h * e.rate end},
}

-- ------------------------------------------------ gradients in stages

blocks.gradients = {
  {function(w, _, h)
    local scaled = ipu.custom_gradient(function(a)
      local s = ipu.sigmoid(a)
      return a * s, function(dy) return dy * s * 2 end
    end)
    return scaled(h) * w[4]
  end},
  {function(w, _, h)
    local tape = ipu.GradientTape()
    local y = tape(function() return ipu.reduce_sum(ipu.square(h:matmul(w))) end)
    return ipu.tanh(h + tape:gradient(y, h) * 0.1)
  end},
}

-- ------------------------------------------------ state, queues, random numbers

blocks.effects = {
  {function(_, state, h) -- state that each micro-batch reads and changes
    state:assign(state * 0.5 + ipu.reduce_mean(ipu.stop_gradient(h), {axis = 0}))
    return h + state
  end, state = true},
  {function(_, state, h)
    local former = state:read_value()
    state:assign_add(ipu.ones{width})
    return h * (1 + former * 0.125)
  end, state = true},
  {function(_, state, h)
    ipu.cond(ipu.less(ipu.reduce_sum(h), 0), function() state:assign_add(ipu.ones{width}) end,
      function() end)
    return h + state * 0.01
  end, state = true},
  {function(_, state, h)
    for i in ipu.range(3) do state:assign(state * 0.5 + ipu.cast(int32(i), "float32")) end
    return h + state * 0.01
  end, state = true},
  {function(w, state, h) -- the gradient depends on state
    local y = h * state * 0.1 + h:matmul(w)
    state:assign_add(ipu.reduce_mean(ipu.stop_gradient(y), {axis = 0}))
    return y
  end, state = true},
  {function(w, queue, h)
    queue:enqueue(ipu.reduce_sum(h, {axis = 0}))
    return h * w[2]
  end, queue = true},
  {function(_, _, h) return h + ipu.fifo(ipu.stop_gradient(h), {depth = 2}) * 0.1 end,
    draws = true, keeps = true},
  {function(_, _, h) return ipu.nn.dropout(h, {rate = 0.25, seed = 5}) end, draws = true},
  {function(_, _, h) return ipu.nn.dropout(h, {rate = 0.25}) end, draws = true},
  {function(_, _, h) return h + 0.1 * ipu.random.normal(h.shape) end, draws = true},
  {function(w, _, h)
    return ipu.cast(ipu.cast(h, "float16") * ipu.cast(w[1], "float16"), "float32")
  end, draws = true, rounds = true},
}

for _, kind in ipairs{"plain", "gradients", "effects"} do
  for _, block in ipairs(blocks[kind]) do
    block.f, block[1] = block[1], nil
    blocks[#blocks + 1] = block
    block.index = #blocks
  end
end

---Whether another stage may compute the same beside it.
function blocks.is_pure(block) return not (block.state or block.queue or block.keeps) end

return blocks
