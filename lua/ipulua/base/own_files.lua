-- The library's own files as text, for help and reports. They come from the folder above this one
-- or, if there is none, from the command that carries them.

local own_files = {}

local folder <const> = debug.getinfo(1, "S").source:match("^@(.*[/\\])base[/\\][^/\\]*$") or ""
local is_carried <const> = folder == "[ipulua]/"

---The text of one of the library's files; nil when there is no such file.
---@param name string "keras/layer.lua"
---@return string?
function own_files.read(name)
  if is_carried then return require "ipulua.bundle".read(name) end
  local file <close> = io.open(folder .. name, "rb")
  return file and file:read("a")
end

---The text that a function was written in; nil when it is not in a file.
---@param source string as debug.getinfo gives it
---@return string?
function own_files.read_source(source)
  if source:sub(1, 1) ~= "@" then return nil end
  local path <const> = source:sub(2)
  if path:sub(1, #folder) == folder then return own_files.read(path:sub(#folder + 1)) end
  local file <close> = io.open(path, "rb")
  return file and file:read("a")
end

---Where a module of the library is, as debug.getinfo says of its functions; nil when it is not one
---of its files.
---@param module string "ipulua.keras.base.layer"
---@return string?
function own_files.source(module)
  local name <const> = module == "ipulua" and "init" or module:match("^ipulua%.(.*)")
  for _, ending in ipairs{".lua", "/init.lua"} do
    local path <const> = name and name:gsub("%.", "/") .. ending
    if path and own_files.read(path) then return "@" .. folder .. path end
  end
end

return own_files
