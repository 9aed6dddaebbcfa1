-- The formats of files of weights, a row each: the core's formats of tensors by name, and Keras'
-- own.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local json = require "ipulua.base.json"

local formats = {}

---@class WeightsFormat
---@field ending string
---@field also string? another ending that it has
---@field write fun(path: string, tensors: table, order: string[])? a model's weights
---@field read fun(path: string): table, table? tensors by name; {order = their names, as JSON}
---@field plan function? (model, path, entries, options, fitted) → what to assign: in place of
--- read, where the file has names of its own for weights

-- Where a file holds texts, one of them is the order of its tensors; else they stand in it.
local function of_core(format)
  if format.metadata then
    return {ending = format.ending, read = core.load,
      write = function(path, tensors, order)
        core.save(path, tensors,
          {format = "ipulua.weights/1", order = json.encode(json.array(order))})
      end}
  end
  return {ending = format.ending,
    read = function(path)
      local tensors, _, order = core.load(path)
      return tensors, {order = json.encode(json.array(order))}
    end,
    write = function(path, tensors, order) core.save(path, tensors, nil, order) end}
end

---@type WeightsFormat[]
formats.rows = {}
for _, format in ipairs(core.file_formats()) do
  formats.rows[#formats.rows + 1] = not format.one and of_core(format) or nil
end
formats.rows[#formats.rows + 1] = {ending = ".h5", also = ".hdf5",
  plan = function(...) return require "ipulua.keras.files.h5".plan(...) end}

local function has(path, ending) return ending ~= nil and path:sub(-#ending) == ending end

---The format that a path's ending names; nil where none does.
---@param path string
---@return WeightsFormat?
function formats.find(path)
  for _, row in ipairs(formats.rows) do
    if has(path, row.ending) or has(path, row.also) then return row end
  end
  return nil
end

-- ".safetensors, .npz or .h5"
local function endings(writes)
  local list = {}
  for _, row in ipairs(formats.rows) do
    if row.write or not writes then list[#list + 1] = row.ending end
  end
  return table.concat(list, ", ", 1, #list - 1) .. " or " .. list[#list]
end

---The format of a file to be written or read; an error that names the endings if there is none.
---@param who string
---@param path string
---@param writes boolean?
---@return WeightsFormat
function formats.of(who, path, writes)
  if path == "" then
    blame.error(who .. ": expected the path of a file, got " .. args.describe(path), "type")
  end
  local row = formats.find(path)
  if row and (row.write or not writes) then return row end
  blame.error(string.format("%s: '%s' must end in %s", who, path, endings(writes)), "value")
end

return formats
