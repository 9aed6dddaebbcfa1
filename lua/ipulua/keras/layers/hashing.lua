-- Hashing: words and whole numbers in bins, without a vocabulary. Strings stay on the host, so it
-- is no layer of a model. It is called with strings or numbers, before the model, and gives it a
-- tensor.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local encode = require "ipulua.keras.layers.embedding".encode
local hashes = require "ipulua.keras.preprocessing.hashes"
local host_strings = require "ipulua.data.host_strings"
local modes = require "ipulua.keras.layers.token_modes"
local ops = require "ipulua.ops"
local strings = require "ipulua.keras.layers.strings"

local layers = {}

local rows <const> = {
  {"num_bins", "integer", range = "[1, 2147483647]", says = "number of bins"},
  {"mask_value", {"string", "integer"}, optional = true, says = "value with bin 0 to itself"},
  {"salt", {"integer", "integers"}, optional = true, says = "key of SipHash-2-4"},
  modes.row("int", {"int", "one_hot", "multi_hot", "count"}),
}

---The bin of a word, 0 … num_bins - 1: FarmHash's 64-bit fingerprint modulo num_bins. With a salt,
---one integer or two, it is SipHash-2-4 with that key. A whole number is hashed as its decimal
---digits. With a mask_value bin 0 is for that value alone. output_mode as of IntegerLookup, without
---"tf_idf". Called with a string, an integer, a list of them, or a tensor of integers.
---@class Hashing: Class
local Hashing = class.new("Hashing")
layers.Hashing = Hashing
Hashing.argument_rows = rows
Hashing.takes_texts = true

function Hashing:init(...)
  local a = args.check("Hashing", rows, ...)
  for key, value in pairs(a) do self[key] = value end
  if type(a.salt) == "table" and #a.salt ~= 2 then
    blame.error(string.format("Hashing: 'salt' must be an integer or two, got %d of them",
      #a.salt), "value")
  end
end

---The arguments that the object was made with, for from_config.
---@return table
function Hashing:get_config()
  local config = core.plain{}
  for _, row in ipairs(rows) do config[row[1]] = core.plain(self[row[1]]) end
  return config
end

Hashing.from_config = require "ipulua.base.parts".Part.from_config

local function hash(self, text)
  local salt = self.salt
  if not salt then return hashes.fingerprint(text) end
  if type(salt) == "number" then return hashes.keyed(text, salt, salt) end
  return hashes.keyed(text, salt[1], salt[2])
end

local function text_of(value)
  local whole = type(value) == "number" and math.tointeger(value)
  return whole and string.format("%d", whole) or strings.as_text("Hashing", value)
end

local function bin(self, value)
  local masks = self.mask_value ~= nil and self.num_bins > 1
  if masks and value == self.mask_value then return 0 end
  local first = masks and 1 or 0
  return first + hashes.modulo(hash(self, text_of(value)), self.num_bins - first)
end

local function bins(self, value)
  if not args.is_plain(value) then return bin(self, value) end
  local list = {}
  for i, each in ipairs(value) do list[i] = bins(self, each) end
  return list
end

-- Integers of a tensor, which has its values at once.
local function values_of(x)
  host_strings.want_values("Hashing", x)
  if not args.is_tensor(x) or x.dtype == "uint8" and #x.shape == 1 then return x end
  if not x.dtype:find("int") then
    blame.error("Hashing: expected strings or integers, got " .. args.describe(x), "type")
  end
  return #x.shape == 0 and x:item() or x:totable()
end

function Hashing:__call(x)
  local found = bins(self, values_of(x))
  if self.output_mode == "int" then return ops.tensor(found, {dtype = "int32"}) end
  if type(found) == "number" then found = {found} end
  return encode(ops.tensor(found, {dtype = "int32"}), self.num_bins, self.output_mode, "float32")
end

about.say("layers", {
  {"Hashing", section = "Core", sample = "Hashing{num_bins = 3}",
    wrong = "Hashing{num_bins = 3, salt = {1, 2, 3}}",
    shapes = "a string or integer → []; n of them → [n]"},
}, layers)

return layers
