-- TensorBoard: metrics as event files. A file is a sequence of TFRecords (length, masked CRC-32C of
-- it, data, masked CRC-32C of that), each an Event in protocol-buffer form.

local args = require "ipulua.base.args"
local base = require "ipulua.keras.callbacks.base"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local image = require "ipulua.data.image"
local log = require "ipulua.base.log"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local protobuf = require "ipulua.keras.base.protobuf"
local weights = require "ipulua.keras.files.weights"

local Callback <const> = base.Callback

-- ------------------------------------------------ records

local crc_table = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = (c & 1) ~= 0 and (c >> 1) ~ 0x82f63b78 or c >> 1 end
  crc_table[i] = c
end

local function crc32c(s)
  local c = 0xffffffff
  for i = 1, #s do c = crc_table[(c ~ s:byte(i)) & 0xff] ~ (c >> 8) end
  return c ~ 0xffffffff
end

local function masked(s)
  local c = crc32c(s)
  return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
end

local function record(data)
  local length = string.pack("<I8", #data)
  return length .. string.pack("<I4", masked(length)) .. data .. string.pack("<I4", masked(data))
end

-- ------------------------------------------------ events

-- Event: 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary.
local function event(time, step, rest)
  return protobuf.double(1, time) .. (step and protobuf.integer(2, step) or "") .. rest
end

-- Summary: 1 value {1 tag, 2 simple_value (float)}.
local function scalar(tag, value)
  return protobuf.bytes(5, protobuf.bytes(1, protobuf.bytes(1, tag) .. protobuf.float(2, value)))
end

-- Numbers in one field, packed.
local function doubles(number, list)
  return protobuf.bytes(number, string.pack("<" .. ("d"):rep(#list), table.unpack(list)))
end

local bucket_count <const> = 30

-- HistogramProto: 1 min, 2 max, 3 num, 4 sum, 5 sum of squares, 6 upper limits of the buckets, 7
-- how many are in each.
local function histogram(tag, values)
  local x = ops.cast(ops.reshape(values, {-1}), "float32")
  local low, high = ops.reduce_min(x):item(), ops.reduce_max(x):item()
  if low - low ~= 0 or high - high ~= 0 then return nil end -- not finite
  local width = high > low and (high - low) / bucket_count or 1
  local at = ops.minimum(ops.cast(ops.floor((x - low) / width), "int32"), bucket_count - 1)
  local counts = ops.segment_sum(ops.ones{x.size}, at, bucket_count):totable()
  local limits = {}
  for i = 1, bucket_count do limits[i] = low + i * width end
  local double <const> = protobuf.double
  local proto = double(1, low) .. double(2, high) .. double(3, x.size)
    .. double(4, ops.reduce_sum(x):item())
    .. double(5, ops.reduce_sum(ops.square(x)):item()) .. doubles(6, limits) .. doubles(7, counts)
  return protobuf.bytes(5, protobuf.bytes(1, protobuf.bytes(1, tag) .. protobuf.bytes(5, proto)))
end

-- A weight as pictures [pictures, height, width, channels], laid out as in Keras: columns side by
-- side, kernels of convolutions one by one. nil if that shows nothing.
local function as_pictures(x)
  x = ops.squeeze(x)
  local rank = #x.shape
  if rank == 1 then return ops.reshape(x, {1, x.shape[1], 1, 1}) end
  if rank == 2 then
    if x.shape[1] > x.shape[2] then x = ops.transpose(x) end
    return ops.reshape(x, {1, x.shape[1], x.shape[2], 1})
  end
  if rank == 3 then return ops.expand_dims(ops.transpose(x, {2, 0, 1}), -1) end
  local channels = rank == 4 and x.shape[4]
  return (channels == 1 or channels == 3 or channels == 4) and x or nil
end

local most_pictures <const> = 3 -- of a weight

-- A summary of pictures whose numbers are shares of white.
local function pictures(tag, x)
  local shown = as_pictures(x)
  if not shown or shown.size == 0 then return nil end
  local list = {}
  local count, height, width, channels = table.unpack(shown.shape)
  for i = 1, math.min(count, most_pictures) do
    local one = ops.reshape(ops.slice(shown, {i - 1, 0, 0, 0}, {1, height, width, channels}),
      {height, width, channels})
    local png = core.encode_image(image.as_bytes(one * 255, false))
    local proto = protobuf.integer(1, height) .. protobuf.integer(2, width)
      .. protobuf.integer(3, channels) .. protobuf.bytes(4, png)
    local name = count == 1 and tag or tag .. "/" .. i - 1
    list[i] = protobuf.bytes(1, protobuf.bytes(1, name) .. protobuf.bytes(4, proto))
  end
  return protobuf.bytes(5, table.concat(list))
end

-- The model's layers as a graph: a node each, with its class as the op.
local function graph_of(model)
  local functional = require "ipulua.keras.models.functional"
  local nodes, inputs = {}, {}
  for _, node in ipairs(model._graph and model._graph.nodes or {}) do
    local list = inputs[node.layer] or {}
    for _, operand in ipairs(functional.operands(node)) do list[#list + 1] = operand.layer.name end
    inputs[node.layer] = list
  end
  local former
  for i, layer in ipairs(model:sublayers()) do
    local proto = protobuf.bytes(1, layer.name) .. protobuf.bytes(2, layer.__name)
    local from = inputs[layer] or (not model._graph and {former}) or {}
    for _, name in ipairs(from) do proto = proto .. protobuf.bytes(3, name) end
    nodes[i], former = protobuf.bytes(1, proto), layer.name
  end
  return protobuf.bytes(4, table.concat(nodes))
end

-- ------------------------------------------------ the callback

local rows <const> = {
  {"log_dir", "string", "logs"}, {"histogram_freq", "integer", 0, range = "[0, inf)"},
  {"write_graph", "boolean", true, says = "write the graph of the model's layers"},
  {"write_images", "boolean", false, says = "write pictures beside the histograms of weights"},
  {"write_steps_per_second", "boolean", false},
  {"update_freq", {"string", "integer"}, "epoch", of = "\"epoch\", \"batch\" or integer ≥ 1",
    says = "steps", check = function(x)
      if x ~= "epoch" and x ~= "batch" and (type(x) == "string" or x < 1) then
        return 'is "epoch", "batch" or a positive number of steps, got ' .. x
      end
    end},
  {"profile_batch", "any", 0, of = "anything", says = "changes nothing"},
  {"embeddings_freq", "integer", 0, says = "changes nothing"},
}

---Writes event files for TensorBoard into log_dir/train and log_dir/validation; update_freq:
---"epoch", "batch" or a number of steps. Scalars are written, the graph of the model's layers
---(write_graph), and each histogram_freq epochs histograms of the weights, with write_images as
---pictures, too.
---@class TensorBoard: Callback
local TensorBoard = Callback:extend("TensorBoard")
TensorBoard.writes_files = true

TensorBoard.argument_rows = rows

function TensorBoard:init(...)
  for key, value in pairs(args.check("TensorBoard", rows, ...)) do self[key] = value end
  if self.update_freq == "batch" then self.update_freq = 1 end
  for _, name in ipairs{"profile_batch", "embeddings_freq"} do
    local value = self[name]
    if value ~= false and value ~= 0 then
      log.warn("TensorBoard: '%s' has no effect: scalars, histograms, pictures and the graph are "
        .. "written", name)
    end
  end
  self.writers, self.names, self.step, self.since_write = {}, {}, 0, 0
end

base._keep_fields(TensorBoard, {"step", "since_write"})

-- Of this process, as in the names of event files.
local function read_word(path)
  local file = io.open(path)
  local word = file and file:read("l")
  if file then file:close() end
  return word and word:match("^[%w%-%.]+")
end

local serial = 0

local function file_name()
  serial = serial + 1
  return string.format("events.out.tfevents.%d.%s.%s.%d.v2", os.time(),
    read_word("/proc/sys/kernel/hostname") or "localhost",
    read_word("/proc/self/stat") or "0", serial)
end

-- Curves that can't be written end the training, as a checkpoint does.
local function checked(self, kind, done, problem)
  if done then return end
  local name = self.names[kind]
  self.writers[kind]:close()
  self.writers[kind] = nil
  blame.error(string.format("TensorBoard: %s: cannot write: %s", name, problem), "runtime")
end

function TensorBoard:put(kind, text) checked(self, kind, self:writer(kind):write(text)) end
function TensorBoard:flush(kind) checked(self, kind, self:writer(kind):flush()) end

function TensorBoard:writer(kind)
  if self.writers[kind] then return self.writers[kind] end
  local folder = self.log_dir .. "/" .. kind
  core.make_folder(folder)
  local name = folder .. "/" .. file_name()
  local file, problem = io.open(name, "wb")
  if not file then blame.error("TensorBoard: " .. problem, "not_found") end
  self.writers[kind], self.names[kind] = file, name
  self:put(kind, record(event(core.epoch(), nil, protobuf.bytes(3, "brain.Event:2"))))
  return file
end

function TensorBoard:write(kind, step, logs, prefix)
  for _, name in ipairs(nest.keys(logs)) do
    local value = logs[name]
    if type(value) == "number" then
      self:put(kind, record(event(core.epoch(), step, scalar(prefix .. name, value))))
    end
  end
  self:flush(kind)
end

function TensorBoard:on_train_batch_end(_, logs, info)
  local count = base._new_steps(info)
  self.step = self.step + count
  if self.update_freq == "epoch" then return end
  self.since_write = self.since_write + count
  if count == 0 or self.since_write < self.update_freq then return end
  self.since_write = 0
  self:write("train", self.step, logs, "batch_")
end

function TensorBoard:on_epoch_begin()
  if self.write_graph and not self.drawn then
    self.drawn = true
    self:put("train", record(event(core.epoch(), nil, graph_of(self.model))))
  end
  self.begun, self.first_step = core.clock(), self.step
end

function TensorBoard:write_histograms(epoch)
  for _, entry in ipairs(weights.paths(self.model)) do
    local value <const> = entry.variable:read_value()
    local summary = histogram(entry.path .. "/histogram", value)
    if summary then self:put("train", record(event(core.epoch(), epoch, summary))) end
    local shown = self.write_images and pictures(entry.path .. "/image", value)
    if shown then self:put("train", record(event(core.epoch(), epoch, shown))) end
  end
  self:flush "train"
end

function TensorBoard:on_epoch_end(epoch, logs)
  local train, validation = {}, {}
  for name, value in pairs(logs) do
    if name:find("^val_") then validation[name:sub(5)] = value else train[name] = value end
  end
  local rate = self.model.optimizer and self.model.optimizer.learning_rate
  if rate and core.is_variable(rate) then train.learning_rate = rate:item()
  elseif rate then train.learning_rate = self.model.optimizer:current_learning_rate():item() end
  train.lr = nil
  if self.write_steps_per_second and self.begun then
    train.steps_per_second = (self.step - self.first_step)
      / math.max(core.clock() - self.begun, 1e-9)
  end
  self:write("train", epoch, train, "epoch_")
  if next(validation) then self:write("validation", epoch, validation, "epoch_") end
  if self.histogram_freq > 0 and epoch % self.histogram_freq == 0 then
    self:write_histograms(epoch)
  end
end

-- As Keras does, of evaluate by itself and of validation, by weight updates.
function TensorBoard:on_test_end(logs)
  local optimizer, values = self.model.optimizer, {}
  if not optimizer or not optimizer.iterations then return end
  for name, value in pairs(logs) do values[name .. "_vs_iterations"] = value end
  self:write("validation", optimizer.iterations:item(), values, "evaluation_")
end

function TensorBoard:_leave()
  for _, file in pairs(self.writers or {}) do file:close() end
  self.writers = {}
end
TensorBoard.on_train_end = TensorBoard._leave

return {TensorBoard = TensorBoard, _crc32c = crc32c}
