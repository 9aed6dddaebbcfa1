-- Files and the output of commands, for the scripts of `make lint`.
local sources = {}

---The bytes of a file.
---@param path string
---@return string
function sources.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

---The lines that a shell command prints.
---@param command string
---@return string[]
function sources.lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

return sources
