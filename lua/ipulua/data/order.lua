-- Methods of datasets that group elements, or change which come when.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local Dataset = require "ipulua.data.dataset"
local elements = require "ipulua.data.elements"
local structure = require "ipulua.base.structure"
local host_strings = require "ipulua.data.host_strings"

local batch_spec <const> = {{"batch_size", "integer", range = "[1, inf)", says = "elements"},
  {"drop_remainder", "boolean", false}}

---Stacks batch_size elements; without drop_remainder the first extent is unknown.
---Shapes: [...] → [batch_size, ...]; [-1, ...] without drop_remainder
---Errors: a size below 1; when read, elements of unequal shapes: `ds:batch(0)`
---@return Dataset
function Dataset:batch(...)
  local a = args.check("batch", batch_spec, ...)
  return Dataset(self.handle:batch(a.batch_size, a.drop_remainder), self.template)
end

local padded_spec <const> = {
  {"batch_size", "integer", range = "[1, inf)", says = "elements"},
  {"padded_shapes", "any", optional = true, of = "shape or table of shapes",
    says = "in the element's structure; -1 and nil: the longest of the batch"},
  {"padding_values", "any", optional = true, of = "number or table of numbers",
    says = "0 by default"},
  {"drop_remainder", "boolean", false},
}

-- A value for each component: one for all, or in the element's structure.
local function for_components(who, what, template, given, is_value, count)
  if is_value(given) then
    local list = {}
    for i = 1, count do list[i] = given end
    return list
  end
  local list = {}
  local function walk(t, value)
    if t.leaf then
      if not is_value(value) then
        blame.error(string.format("%s: '%s' must have the element's structure", who, what), "type")
      end
      list[t.leaf] = value
      return
    end
    if not structure.is_plain(value) then
      blame.error(string.format("%s: '%s' must have the element's structure", who, what), "type")
    end
    for _, item in ipairs(t.items) do walk(item[2], value[item[1]]) end
  end
  walk(template, given)
  return list
end

local function is_shape_list(v)
  if not structure.is_plain(v) then return false end
  for _, extent in pairs(v) do
    if math.type(extent) ~= "integer" then return false end
  end
  return true
end

local function is_number_or_tensor(v)
  return type(v) == "number" or type(v) == "boolean" or type(v) == "string" or core.is_tensor(v)
end

-- The shapes and values of padding, for each component.
local function padding_of(who, self, a)
  local types, shapes, values = self.handle:types(), nil, nil
  if a.padded_shapes ~= nil then
    local list = for_components(who, "padded_shapes", self.template, a.padded_shapes,
      is_shape_list, #types)
    shapes = {}
    for i, t in ipairs(types) do shapes[i] = {dtype = t.dtype, shape = list[i]} end
  end
  if a.padding_values ~= nil then
    local list = for_components(who, "padding_values", self.template, a.padding_values,
      is_number_or_tensor, #types)
    local text = host_strings.components(self.template) or {}
    values = {}
    for i, t in ipairs(types) do
      values[i] = text[i] and host_strings.tensor(who, list[i]) or core.tensor(list[i], t.dtype)
    end
  end
  return shapes, values
end

---Batches of elements padded to one shape; -1: as long as the longest of the batch.
---Shapes: [a, ...] → [batch_size, longest or padded_shapes, ...]
---Errors: padded_shapes or padding_values of another structure; an element longer than its shape:
---`ds:padded_batch(2, {padded_shapes = "all"})`
---@return Dataset
function Dataset:padded_batch(...)
  local a = args.check("padded_batch", padded_spec, ...)
  local shapes, values = padding_of("padded_batch", self, a)
  return Dataset(self.handle:padded_batch(a.batch_size, a.drop_remainder, shapes, values),
    self.template)
end

local bucket_spec <const> = {
  {"element_length_func", "callable", says = "an element's length: an integer, or a scalar"},
  {"bucket_boundaries", "integers", says = "upper ends of the lengths, which aren't in: rising"},
  {"bucket_batch_sizes", "integers", says = "one more than there are boundaries"},
  {"padded_shapes", "any", optional = true, of = "shape or table of shapes",
    says = "in the element's structure; -1 and nil: the longest of the batch"},
  {"padding_values", "any", optional = true, of = "number or table of numbers",
    says = "0 by default"},
  {"pad_to_bucket_boundary", "boolean", false, says = "to the longest that the bucket may have"},
  {"drop_remainder", "boolean", false, says = "no batches that are not full"},
}

local function check_buckets(a)
  for i, boundary in ipairs(a.bucket_boundaries) do
    if i > 1 and boundary <= a.bucket_boundaries[i - 1] then
      blame.error(string.format("bucket_by_sequence_length: 'bucket_boundaries' must rise, got %d "
        .. "after %d", boundary, a.bucket_boundaries[i - 1]), "value")
    end
  end
  if #a.bucket_batch_sizes ~= #a.bucket_boundaries + 1 then
    blame.error(string.format("bucket_by_sequence_length: %d boundaries make %d buckets, but "
      .. "'bucket_batch_sizes' has %d", #a.bucket_boundaries, #a.bucket_boundaries + 1,
      #a.bucket_batch_sizes), "value")
  end
  for _, size in ipairs(a.bucket_batch_sizes) do
    if size < 1 then
      blame.error("bucket_by_sequence_length: batch sizes must be at least 1, got " .. size,
        "value")
    end
  end
end

-- Which bucket an element belongs to.
local function bucket_of(a, length)
  if core.is_tensor(length) then length = length:item() end
  if math.type(length) ~= "integer" then
    blame.error("bucket_by_sequence_length: the function must give an integer, got "
      .. args.describe(length), "type")
  end
  local bucket = 1
  while a.bucket_boundaries[bucket] and length >= a.bucket_boundaries[bucket] do
    bucket = bucket + 1
  end
  if a.pad_to_bucket_boundary and not a.bucket_boundaries[bucket] then
    blame.error(string.format("bucket_by_sequence_length: an element's length, %d, lies beyond the "
      .. "last boundary, %d, to which elements are padded", length,
      a.bucket_boundaries[#a.bucket_boundaries]), "value")
  end
  return bucket
end

-- The shapes of a bucket whose elements are padded to its boundary.
local function to_boundary(types, shapes, boundary)
  local list = {}
  for i, t in ipairs(shapes or types) do
    local shape = {}
    for k, extent in ipairs(t.shape) do shape[k] = extent < 0 and boundary - 1 or extent end
    list[i] = {dtype = t.dtype, shape = shape}
  end
  return list
end

-- One batch of a list of elements.
local function padded(types, list, shapes, values)
  local i = 0
  local function next_one()
    i = i + 1
    return list[i]
  end
  local batch = core.data.from_generator(function() return next_one end, types)
    :padded_batch(#list, false, shapes, values):iterator()
  local leaves = batch:next()
  batch:close()
  return leaves
end

-- The common properties of all buckets' batches.
local function bucket_types(self, a, shapes, values)
  local sizes, same = a.bucket_batch_sizes, a.drop_remainder
  for _, size in ipairs(sizes) do same = same and size == sizes[1] end
  return self.handle:padded_batch(sizes[1], same, shapes, values):types()
end

---Batches of elements of about the same length, padded to one shape. Bucket i holds lengths below
---bucket_boundaries[i]. A batch of bucket_batch_sizes[i] elements comes when the bucket is full.
---Batches that are not full come last, by bucket. The function is called in Lua for each element.
---Shapes: [a, ...] → [-1, -1, ...]
---Errors: boundaries that don't rise, not one batch size more than boundaries:
---`ds:bucket_by_sequence_length(function(x) return x.shape[1] end, {8, 4}, {2, 2, 2})`
---@return Dataset
function Dataset:bucket_by_sequence_length(...)
  local a = args.check("bucket_by_sequence_length", bucket_spec, ...)
  check_buckets(a)
  local types = self.handle:types()
  local shapes, values = padding_of("bucket_by_sequence_length", self, a)
  local function batch_of(bucket, list)
    local own = shapes
    if a.pad_to_bucket_boundary then
      own = to_boundary(types, shapes, a.bucket_boundaries[bucket])
    end
    return padded(types, list, own, values)
  end
  local function open()
    local it, buckets, last = self.handle:iterator(), {}, 0
    return function()
      for leaves in function() return it:next() end do
        local given, n = elements.spread(self.template, elements.present(self, leaves))
        local bucket = bucket_of(a, a.element_length_func(table.unpack(given, 1, n)))
        local list = buckets[bucket] or {}
        buckets[bucket] = list
        list[#list + 1] = leaves
        if #list == a.bucket_batch_sizes[bucket] then
          buckets[bucket] = nil
          return batch_of(bucket, list)
        end
      end
      while not a.drop_remainder and last < #a.bucket_batch_sizes do
        last = last + 1
        if buckets[last] then return batch_of(last, buckets[last]) end
      end
      it:close()
    end
  end
  return Dataset(core.data.from_generator(open, bucket_types(self, a, shapes, values)),
    self.template):made_by "bucket_by_sequence_length"
end

---The slices of the elements along their first axis, one by one.
---Shapes: [n, ...] → n elements [...]
---Errors: scalars: `ds:unbatch()`
---@return Dataset
function Dataset:unbatch() return Dataset(self.handle:unbatch(), self.template) end

local window_spec <const> = {
  {"size", "integer", range = "[1, inf)"},
  {"shift", "integer", 0, range = "[0, inf)",
    says = "elements from one window's beginning to the next; 0: size"},
  {"stride", "integer", 1, range = "[1, inf)", says = "elements from one of a window to its next"},
  {"drop_remainder", "boolean", false, says = "no windows of fewer than size elements"},
}

---Elements that are datasets of size neighbours.
---Shapes: datasets of the shapes that the elements had
---Errors: a size or stride below 1, a negative shift: `ds:window(0)`
---@return Dataset
function Dataset:window(...)
  local a = args.check("window", window_spec, ...)
  return Dataset(self.handle:window(a.size, a.shift, a.stride, a.drop_remainder), self.template)
end

local shuffle_spec <const> = {
  {"buffer_size", "integer"}, {"seed", "integer", optional = true},
  {"reshuffle_each_iteration", "boolean", true},
}

---In random order: each time one of the buffer_size elements that come next.
---Shapes: as they were
---Errors: a size below 1: `ds:shuffle(0)`
---@return Dataset
function Dataset:shuffle(...)
  local a = args.check("shuffle", shuffle_spec, ...)
  return Dataset(self.handle:shuffle(a.buffer_size, a.seed, a.reshuffle_each_iteration),
    self.template)
end

local repeat_spec <const>, count_spec <const> = {{"count", "integer", -1}}, {{"count", "integer"}}

local function counted(self, name, spec, ...)
  return Dataset(self.handle[name](self.handle, args.check(name, spec, ...).count), self.template)
end

---All its elements, count times; without a count for ever.
---Shapes: as they were
---Errors: a count that is no integer: `ds:repeat_n(0.5)`
---@return Dataset
function Dataset:repeat_n(...) return counted(self, "repeat_n", repeat_spec, ...) end

---The first count elements.
---Shapes: as they were
---Errors: a count that is no integer: `ds:take "one"`
---@return Dataset
function Dataset:take(...) return counted(self, "take", count_spec, ...) end

---The elements after the first count ones.
---Shapes: as they were
---Errors: a count that is no integer: `ds:skip "one"`
---@return Dataset
function Dataset:skip(...) return counted(self, "skip", count_spec, ...) end

local shard_spec <const> = {{"num_shards", "integer"}, {"index", "integer"}}

---Every num_shards-th element, from index (0-based).
---Shapes: as they were
---Errors: an index outside of 0 … num_shards - 1: `ds:shard(2, 2)`
---@return Dataset
function Dataset:shard(...)
  local a = args.check("shard", shard_spec, ...)
  return Dataset(self.handle:shard(a.num_shards, a.index), self.template)
end

local enumerate_spec <const> = {{"start", "integer", 0}}

---Pairs of an int64 number and the element.
---Shapes: [...] → [], [...]
---Errors: a start that is no integer: `ds:enumerate("a")`
---@return Dataset
function Dataset:enumerate(...)
  local a = args.check("enumerate", enumerate_spec, ...)
  return Dataset(self.handle:enumerate(a.start),
    {items = {{1, elements.single}, {2, elements.shifted(self.template, 1)}}})
end

---Its elements, then the elements of another dataset.
---Shapes: as they were; -1 where the two differ
---Errors: another structure, dtype or rank: `ds:concatenate(data.range(3):batch(2))`
---@param other Dataset
---@return Dataset
function Dataset:concatenate(other)
  if not class.is_a(other, Dataset) then
    blame.error("concatenate: the argument is no dataset", "type")
  end
  if not elements.same_structure(self.template, other.template) then
    blame.error(string.format("concatenate: the elements nest as %s in the first dataset, as %s in"
      .. " the second",
      elements.text(self.template, self.handle:types()),
        elements.text(other.template, other.handle:types())), "type")
  end
  return Dataset(self.handle:concatenate(other.handle), self.template)
end

local cache_spec <const> = {{"filename", "string", ""}}

---Keeps the elements of the first full pass, in memory or in a file.
---Shapes: as they were
---Errors: a file that can't be written, when it is read: `ds:cache(1)`
---@return Dataset
function Dataset:cache(...)
  local a = args.check("cache", cache_spec, ...)
  if a.filename ~= "" then host_strings.refuse("cache: a file has numbers", self.template) end
  return Dataset(self.handle:cache(a.filename), self.template)
end

local prefetch_spec <const> = {{"buffer_size", "integer", elements.AUTOTUNE, range = "[-1, inf)",
  says = "elements; -1: as far as helps"}}

---Reads ahead on a thread. With nil or data.AUTOTUNE it reads as far ahead as helps.
---Shapes: as they were
---Errors: a size below -1: `ds:prefetch(-2)`
---@return Dataset
function Dataset:prefetch(...)
  local a = args.check("prefetch", prefetch_spec, ...)
  return Dataset(self.handle:prefetch(a.buffer_size), self.template)
end

---Options of other frameworks' pipelines are accepted; order is always deterministic here.
---Shapes: as they were
---@return Dataset
function Dataset:with_options() return self end
