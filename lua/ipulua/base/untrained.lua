-- Under --estimate nothing is trained, so saving must not replace older files.

local core = require "ipulua.core"
local log = require "ipulua.base.log"
local start = require "ipulua.base.start"

local untrained = {}

local written = {} -- paths that this run has made itself

---Whether to leave a file or folder of weights as it is: it was there before a script that is only
---priced. A warning says so.
---@param path string
---@return boolean
function untrained.keeps(path)
  if not start.options.estimate or written[path] then return false end
  if core.file_exists(path) or core.folder_exists(path) then
    log.warn("--estimate: '%s' stays as it is, for nothing was trained", path)
    return true
  end
  written[path] = true
  return false
end

return untrained
