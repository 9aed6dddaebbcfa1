-- Files of each format, cut at each byte and with each byte changed. The reader names the fault in
-- the file's terms, or reads a file that is still of that format.

local command = require "spec.support.command"
local ipu = require "ipulua"
local steps = require "spec.support.steps"

local damaged = {}

-- Lua's words on a mistake in a program.
local raw <const> = {"attempt to ", "bad argument", "invalid value %(", "invalid order function",
  "stack overflow", "invalid key to 'next'",
  "number has no integer representation", "number .- has no integer representation", "C stack",
  "table index is ", "string length overflow",
  "malformed", "assertion failed", "invalid option '%%", "out of memory", "error in error handling",
  "missing '"}

---Why a message is none that a user should see; nil: it is one.
function damaged.what_is_raw(message)
  if type(message) ~= "string" then return "the error is a " .. type(message) end
  for _, pattern in ipairs(raw) do
    if message:find(pattern) then return message end
  end
  -- the place of the mistake, not the script's
  if message:find("lua/ipulua/", 1, true) then return message end
  local last = ipu.last_error()
  if not last or not message:find(last.message, 1, true) then
    return "nobody told it: " .. message
  end
  if last.code == "IPU_E_INTERNAL" then return message end
end

-- A few bytes may not ask for much more work than the whole file does: thousands of the
-- interpreter's steps.
local most_steps <const> = 5000

-- nil where reading went well or was refused as it should be.
local function problem_of(read, argument)
  local count, ok, message = steps.count(read, argument)
  if not ok and damaged.what_is_raw(message) then return damaged.what_is_raw(message) end
  return count > most_steps and ("it took %d thousand steps"):format(count) or nil
end

-- Every cut, and every byte with one bit or all of them changed; of long files every step-th.
local function variants(text, step)
  local list = {}
  for at = 0, #text - 1, step do list[#list + 1] = {"cut at " .. at, text:sub(1, at)} end
  for at = 1, #text, step do
    for _, bits in ipairs{0x01, 0x20, 0x80, 0xff} do
      list[#list + 1] = {string.format("byte %d ~ %02x", at - 1, bits),
        text:sub(1, at - 1) .. string.char(text:byte(at) ~ bits) .. text:sub(at + 1)}
    end
  end
  list[#list + 1] = {"zeros behind", text .. ("\0"):rep(64)}
  list[#list + 1] = {"twice", text .. text}
  return list
end

---Tries read(path) on all that can happen to a file's bytes.
---@param path string of a good file; it is good again afterwards
---@param read fun(path: string)
---@param most integer? variants tried at most, evenly
---@return string[] problems
---@return integer tried
function damaged.try(path, read, most)
  local text, problems, tried = command.read(path), {}, 0
  local step = math.max(1, (#text * 5) // (most or 4000))
  for _, variant in ipairs(variants(text, step)) do
    command.write(path, variant[2])
    local problem = problem_of(read, path)
    if problem then problems[#problems + 1] = variant[1] .. ": " .. problem end
    tried = tried + 1
  end
  command.write(path, text)
  local ok, message = pcall(read, path)
  if not ok then problems[#problems + 1] = "the good file: " .. tostring(message) end
  return problems, tried
end

local others <const> = {0, -1, 1.5, 1 << 40, math.mininteger, "", "x", true, false}

-- Calls f with each copy of a value in which one part is another value, is missing, or has another
-- key.
local function each_change(value, f, path)
  if type(value) ~= "table" then return end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local was = value[key]
    local where = path .. "." .. tostring(key)
    for _, other in ipairs(others) do
      value[key] = other
      f(where .. " = " .. tostring(other))
    end
    value[key] = ipu.json.array{}
    f(where .. " = []")
    value[key] = {x = {1}}
    f(where .. " = {x = [1]}")
    value[key] = {was}
    f(where .. " in a list")
    value[key] = nil
    if type(key) == "string" or key == #value + 1 then f(where .. " missing") end
    value[key] = was
    each_change(was, f, where)
  end
end

---Tries read(text) on what differs from a JSON text in one value.
---@param text string
---@param read fun(text: string)
---@param step integer? each step-th change alone
---@return string[] problems
---@return integer tried
function damaged.try_values(text, read, step)
  local value, problems, tried, count = ipu.json.decode(text), {}, 0, 0
  each_change(value, function(change)
    count = count + 1
    if count % (step or 1) ~= 0 then return end
    local problem = problem_of(read, ipu.json.encode(value))
    if problem then problems[#problems + 1] = change .. ": " .. problem end
    tried = tried + 1
  end, "")
  return problems, tried
end

return damaged
