-- Random chains of dataset stages over rows of numbers, as data that NumPy repeats on a list
-- (oracles/stages.py). An element is {x, i}: numbers [k] and the row's number, or batches of both.

local calls = require "spec.support.fuzz.calls"
local ipu = require "ipulua"

local data = ipu.data
local stages = {family = "stages", names = {}}
local most_numbers <const> = 30000

local function pick(list) return list[math.random(#list)] end
local function some() return pick{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100} end
local function workers() return math.random(0, 3) end

-- By method: (dataset, state) → dataset, the numbers that NumPy needs. state.batched: whether
-- elements are batches; a stage that doesn't fit gives nil.
local makers = {}

function makers.map(ds)
  local a, b = math.random(1, 4), math.random(0, 9)
  return ds:map(function(x, i) return x * a + b, i + b end,
    {num_parallel_calls = workers(), deterministic = true}), {a, b}
end

function makers.filter(ds)
  local m = math.random(2, 5)
  return ds:filter(function(_, i) return ipu.not_equal(ipu.reduce_sum(i) % m, 0) end), {m}
end

function makers.take(ds) local n = some() * pick{1, 20} return ds:take(n), {n} end
function makers.skip(ds) local n = math.random(0, 9) return ds:skip(n), {n} end

function makers.shard(ds)
  local n = math.random(1, 4)
  local index = math.random(0, n - 1)
  return ds:shard(n, index), {n, index}
end

function makers.repeat_n(ds) local n = math.random(0, 3) return ds:repeat_n(n), {n} end
function makers.concatenate(ds) local n = some() return ds:concatenate(ds:take(n)), {n} end
function makers.cache(ds) return ds:cache(), {} end
function makers.prefetch(ds) return ds:prefetch(math.random(0, 5)), {} end

function makers.batch(ds, state)
  if state.batched then return nil end
  local n, drop = some(), math.random() < 0.5
  state.batched = true
  return ds:batch(n, {drop_remainder = drop}), {n, drop}
end

function makers.padded_batch(ds, state)
  if state.batched then return nil end
  local n, more, drop, value = some(), math.random(0, 4), math.random() < 0.5, math.random(0, 3)
  state.batched, state.width = true, state.width + more
  return ds:padded_batch(n, {padded_shapes = {{state.width}, {}},
    padding_values = {value + 0.0, 0}, drop_remainder = drop}),
    {n, more, drop, value}
end

-- By row numbers, as if these were lengths: of three, from 0, from a, from b. Padding adds nothing
-- where all rows are of one width.
function makers.bucket_by_sequence_length(ds, state)
  if state.batched then return nil end
  local a, sizes, drop = math.random(1, 9), {some(), some(), some()}, math.random() < 0.5
  local b = a + math.random(1, 9)
  state.batched = true
  return ds:bucket_by_sequence_length(function(_, i) return i:item() end, {a, b}, sizes,
    {drop_remainder = drop, padded_shapes = {{state.width}, {}}}), {a, b, sizes, drop}
end

function makers.unbatch(ds, state)
  if not state.batched then return nil end
  state.batched = false
  return ds:unbatch(), {}
end

function makers.window(ds, state)
  if state.batched then return nil end
  local size, shift, stride, drop = some(), math.random(1, 9), math.random(1, 3),
    math.random() < 0.5
  local made = ds:window(size, {shift = shift, stride = stride, drop_remainder = drop})
    :flat_map(function(x, i) return data.zip(x, i) end)
  return made, {size, shift, stride, drop}
end

function makers.flat_map(ds)
  local n = math.random(1, 3)
  return ds:flat_map(function(x, i) return data.from_tensors{x, i}:repeat_n(n) end), {n}
end

function makers.interleave(ds)
  local n, cycle, block = math.random(1, 4), math.random(1, 5), math.random(1, 3)
  local function part(x, i) return data.from_tensors{x, i}:repeat_n(n) end
  return ds:interleave(part, {cycle_length = cycle, block_length = block}), {n, cycle, block}
end

function makers.enumerate(ds)
  local start = math.random(0, 9)
  return ds:enumerate(start):map(function(n, pair) return pair[1], pair[2] + n end), {start}
end

-- Order is the only thing that it changes, so it comes last.
function makers.shuffle(ds, state)
  local buffer = some()
  state.last = true
  return ds:shuffle(buffer, {seed = math.random(1, 1000), reshuffle_each_iteration = false}),
    {buffer}
end

-- Functions of ipu.data that take datasets or make them.
function makers.zip(ds, state)
  if state.batched then return nil end
  local n = math.random(0, 3)
  return data.zip(ds, ds:skip(n)):map(function(a, b) return a[1] + b[1], a[2] + b[2] end), {n}
end

local sources = {}
function sources.from_tensor_slices(x, i) return data.from_tensor_slices{x, i} end
function sources.from_generator(x, i)
  return data.from_generator(function()
    return coroutine.wrap(function() for k = 1, #x do coroutine.yield(x[k], i[k]) end end)
  end, {output_types = {"float32", "int64"}, output_shapes = {{x.shape[2]}, {}}})
end
function sources.range(x, i)
  return data.range(x.shape[1]):map(function(k) return ipu.gather(x, k), ipu.gather(i, k) end)
end

local no_stages <const> = {made_by = true, iterator = true, iter = true, cardinality = true,
  extend = true, init = true, is_a = true,
  with_options = true}

---Stages that a dataset has and that nothing here calls.
function stages.unknown()
  local list = {}
  for name, value in pairs(getmetatable(data.range(1))) do
    if type(value) == "function" and not name:find("^_") and not makers[name]
      and not no_stages[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

for name in pairs(makers) do stages.names[#stages.names + 1] = name end
table.sort(stages.names)

-- All elements: numbers and row numbers end to end, and the shape of each element's.
local function read(ds)
  local xs, is, shapes = {}, {}, {}
  for x, i in ds:iter() do
    xs[#xs + 1], is[#is + 1] = ipu.reshape(x, {-1}), ipu.reshape(i, {-1})
    shapes[#shapes + 1] = ipu.tensor({#x.shape > 1 and x.shape[1] or -1, x.shape[#x.shape]},
      {dtype = "int64"})
    if #xs > 20000 then error "too many" end
  end
  if #xs == 0 then return ipu.zeros{0}, ipu.zeros({0}, {dtype = "int64"}),
    ipu.zeros({0, 2}, {dtype = "int64"}) end
  return ipu.concat(xs, 0), ipu.concat(is, 0), ipu.stack(shapes, 0)
end

---A chain that has this stage in it.
function stages.random(name)
  local rows, width = some() * pick{1, 1, 10, 30}, math.max(pick{1, 2, 3, 5, 17, 33,
    calls.extent(1)}, 1)
  width = math.max(math.min(width, most_numbers // rows), 1)
  local x = ipu.random.normal({rows, width}, {seed = math.random(1, 1 << 20)})
  local i = ipu.arange(rows, {dtype = "int64"})
  local source = pick{"from_tensor_slices", "from_tensor_slices", "from_generator", "range"}
  local ds, state, chain = sources[source](x, i), {width = width}, {}
  local function add(stage)
    local made, numbers = makers[stage](ds, state)
    if made then ds, chain[#chain + 1] = made, {stage, numbers} end
  end
  local before, behind = math.random(0, 3), math.random(0, 3)
  for _ = 1, before do if not state.last then add(pick(stages.names)) end end
  if not state.last then add(name) end
  for _ = 1, behind do if not state.last then add(pick(stages.names)) end end
  return {name = "chain", inputs = {x, i}, weights = {}, read = function() return read(ds) end,
    about = {chain = chain},
    source = ("%s of [%d, %d]: %s"):format(source, rows, width, ipu.json.encode(chain))}
end

return stages
