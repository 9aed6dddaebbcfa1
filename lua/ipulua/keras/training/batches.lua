-- What gives batches to fit, evaluate and predict but is no dataset: a Sequence, whose batches have numbers, or a generator, which
-- gives one after another. Both become datasets. Their code runs on the script's own thread, whenever that waits for a batch.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local data = require "ipulua.data"
local elements = require "ipulua.data.elements"
local Sequence = require "ipulua.keras.sequence".Sequence
local structure = require "ipulua.structure"

local batches = {}

---@param x any
---@return boolean
function batches.is_sequence(x) return class.is_a(x, Sequence) end

---A function, a coroutine, or an object with next(), such as a dataset's iterator.
---@param x any
---@return boolean
function batches.is_generator(x)
  local c = class.of(x)
  return type(x) == "function" or type(x) == "thread" or c ~= nil and c.next ~= nil
end

-- ------------------------------------------------ one batch

local function types_of(leaves)
  local list = {}
  for i, leaf in ipairs(leaves) do list[i] = {dtype = leaf.dtype, shape = leaf.shape} end
  return list
end

local function types_text(types)
  local list = {}
  for i, t in ipairs(types) do list[i] = structure.type_text(t.dtype, t.shape) end
  return table.concat(list, ", ")
end

-- x; x and y; x, y and weights.
local function check_parts(where, template)
  if elements.is_tuple(template) and #template.items > 3 then
    blame.error(string.format("%s: it is x, y and sample weights; got %d values", where, #template.items), "value")
  end
end

-- A batch as one structure, of one value or several; of several each is apart, though all may be lists of numbers.
local function together(where, ...)
  local count = select("#", ...)
  if count == 1 then return (...) end
  local values = {...}
  for i = 1, count do
    local leaves, template = elements.components(values[i], where)
    values[i] = structure.rebuild(template, leaves)
  end
  return values
end

-- A function that makes tensors of a batch given as values or as a list of them, in its structure; nil for nothing. Every batch
-- must be like the first: a program has one shape.
local function reader(who, what)
  local first
  return function(number, ...)
    if (...) == nil then return nil end
    local where = string.format("%s: batch %d of %s", who, number, what)
    local leaves, template = elements.components(together(where, ...), where)
    check_parts(where, template)
    local text = types_text(types_of(leaves))
    first = first or text
    if text ~= first then
      blame.error(string.format("%s is %s, the first one is %s; all must have the same shapes, so leave out a smaller rest", where, text,
        first), "value")
    end
    return structure.rebuild(template, leaves), template, types_of(leaves)
  end
end

-- ------------------------------------------------ sequences

local function count_of(who, sequence)
  local count = sequence:length()
  if math.type(count) ~= "integer" or count < 1 then
    blame.error(string.format("%s: the length of %s must be a positive integer, got %s", who, sequence.__name, args.describe(count)),
      "value")
  end
  return count
end

---A dataset of the batches of a Sequence.
---@param who string
---@param sequence Sequence
---@param shuffle boolean?
---@param epoch integer? how many epochs were read before: each has an order of its own
---@return Dataset
function batches.of_sequence(who, sequence, shuffle, epoch)
  local count, read = count_of(who, sequence), reader(who, sequence.__name)
  local order = data.range(count)
  if shuffle then
    order = order:shuffle(count)
    order.handle:begin_at(epoch or 0)
  end
  return order:map(function(index)
    local number = math.tointeger(index:item())
    local batch = read(number, sequence:get_item(number))
    if batch == nil then blame.error(string.format("%s: get_item(%d) of %s returned nothing", who, number, sequence.__name), "value") end
    return batch
  end, {eager = true})
end

-- ------------------------------------------------ generators

local function passed_on(ok, ...)
  if not ok then error((...), 0) end
  return ...
end

-- A function that gives the next values, nil at the end.
local function stepper(who, given)
  if type(given) == "function" then
    return function() return passed_on(pcall(given)) end -- what coroutine.wrap makes would add this line to a message
  end
  if type(given) == "thread" then
    return function()
      if coroutine.status(given) == "dead" then return nil end
      return passed_on(coroutine.resume(given))
    end
  end
  if given.infeed then
    blame.error(who .. ": inside a strategy a dataset's iterator is read by programs alone; give the dataset itself", "value")
  end
  return function() return given:next() end
end

---A dataset that goes on with a generator wherever it stands. The first batch is taken from it at once: its shapes are those of all.
---@param who string
---@param given any
---@return Dataset
function batches.of_generator(who, given)
  local step, read, number = stepper(who, given), reader(who, "the generator"), 0
  local pending, template, types = read(0, step())
  if pending == nil then
    blame.error(who .. ": the generator gave no batch. It must be what `for` calls for each batch, such as coroutine.wrap(f); "
      .. "ipu.data.from_generator takes a function that makes such a one", "value")
  end
  local dtypes, shapes = {}, {}
  for i, t in ipairs(types) do dtypes[i], shapes[i] = t.dtype, t.shape end
  local function next_batch()
    local batch = pending
    pending = nil
    if batch == nil then
      number = number + 1
      batch = read(number, step())
    end
    if batch == nil or not elements.is_tuple(template) then return batch end
    return table.unpack(batch, 1, #template.items)
  end
  return data.from_generator(function() return next_batch end, structure.rebuild(template, dtypes), structure.rebuild(template, shapes))
end

---What x is called in messages, nil where it gives no batches.
---@param x any
---@return string?
function batches.kind(x)
  if class.is_a(x, data.Dataset) then return "a dataset" end
  if batches.is_sequence(x) then return "a Sequence" end
  if batches.is_generator(x) then return "a generator" end
  return nil
end

return batches
