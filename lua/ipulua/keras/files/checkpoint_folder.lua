-- Checkpoint folders. Each checkpoint is dir/step-000123/ with .safetensors files and state.json,
-- which knows their SHA-256 and its own; dir/latest.json names the newest one. A folder is written
-- beside its final path, made durable and moved there in one step. An old one goes only when the
-- new one is durable. So a process that is killed at any moment leaves a complete one. One process
-- writes to dir at a time: others wait, or are told whose it is.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local untrained = require "ipulua.base.untrained"

local folder = {}

local format <const> = "ipulua.checkpoint/1"
local most_bytes <const> = 1 << 28 -- of either of these files
local state_file <const>, latest_file <const> = "state.json", "latest.json"

local function read_json(path)
  local text <const> = core.content(path, most_bytes)
  local ok, value = blame.attempt(json.decode, text or "")
  return ok and type(value) == "table" and value or nil
end

local function names_in(dir)
  return core.folder_exists(dir) and core.list_folder(dir) or {}
end

local function is_step(name) return type(name) == "string" and name:find("^step%-%d+$") ~= nil end

-- The checkpoint that latest.json names; nil if the name is not a checkpoint's, such as a path
-- outside of the folder.
local function read_latest(dir)
  local latest = read_json(dir .. "/" .. latest_file) or {}
  return {step = is_step(latest.step) and latest.step or nil,
    best = is_step(latest.best) and latest.best or nil}
end

---Names of the checkpoints in a folder, oldest first.
---@param dir string
---@return string[]
function folder.list(dir)
  local list = {}
  for _, name in ipairs(names_in(dir)) do
    if is_step(name) then list[#list + 1] = name end
  end
  table.sort(list, function(a, b) return tonumber(a:sub(6)) < tonumber(b:sub(6)) end)
  return list
end

-- ------------------------------------------------ writing

local PATIENCE <const> = 20 -- seconds: a checkpoint of the largest models takes less

---Makes the folder and keeps other processes from writing to it while the result is not closed.
---Errors: a process that has it and keeps it, which is named
---@param dir string
---@param seconds number? to wait for it
---@return table closable
function folder.own(dir, seconds)
  core.make_folder(dir)
  local lock = core.lock_folder(dir, seconds or PATIENCE)
  return setmetatable({}, {__close = function() if lock then core.unlock_folder(lock) end end})
end

-- Removes the files that a killed process left.
local function remove_unfinished(dir)
  for _, name in ipairs(names_in(dir)) do
    if name:find("^%.step%-.*%.tmp$") then core.remove_folder(dir .. "/" .. name)
    elseif name:find("^latest%.json%.%x+%.tmp$") then os.remove(dir .. "/" .. name) end
  end
end

-- All but the newest `keep`, the newest of all and the best one.
local function remove_old(dir, keep, latest)
  local list = folder.list(dir)
  for i = 1, #list - keep do
    if list[i] ~= latest.step and list[i] ~= latest.best then
      core.remove_folder(dir .. "/" .. list[i])
    end
  end
end

local written <const> = {} -- folder → the content of latest.json after this process had written

-- Another process has written since. Then it is left to chance whose checkpoint is the newest.
local function tell_of_others(dir)
  local former, now = written[dir], read_latest(dir)
  written[dir] = nil
  local state = former and now.step and now.step ~= former
    and read_json(dir .. "/" .. now.step .. "/" .. state_file)
  if state and state.process ~= core.process_id() then
    log.warn("checkpoint: process %s writes to '%s', too; which of the two wrote the newest "
      .. "checkpoint is chance",
      tostring(state.process), dir)
  end
end

local function fill(path, content)
  local state = {format = format, files = {}, process = core.process_id()}
  for key, value in pairs(content.state) do state[key] = value end
  for file, member in pairs(content.members) do
    core.save(path .. "/" .. file, member.tensors, member.metadata or {})
    state.files[file] = core.file_hash(path .. "/" .. file)
  end
  state.sha256 = core.text_hash(json.encode(state)) -- of the text without it
  core.replace_file(path .. "/" .. state_file, json.encode(state) .. "\n")
end

---Writes a checkpoint. members: file name → {tensors =, metadata =}; state: further facts, as JSON
---can hold them.
---@param dir string
---@param step integer
---@param content {members: table<string, table>, state: table}
---@param options {keep: integer, best: boolean?}
---@return string path of the checkpoint
function folder.write(dir, step, content, options)
  local name = string.format("step-%06d", step)
  if untrained.keeps(dir) then return dir .. "/" .. name end
  local _ <close> = folder.own(dir)
  remove_unfinished(dir)
  tell_of_others(dir)
  local temporary = string.format("%s/.%s.%d.tmp", dir, name, math.floor(core.epoch() * 1e6))
  core.make_folder(temporary)
  local filled, problem = pcall(fill, temporary, content)
  if not filled then -- a full disk gets its room back
    core.remove_folder(temporary)
    error(problem, 0)
  end
  local latest, best_before = {step = name}, read_latest(dir).best
  -- else it is replaced
  if options.best then
    latest.best = name
  elseif best_before ~= name then
    latest.best = best_before
  end
  core.replace_folder(temporary, dir .. "/" .. name)
  core.replace_file(dir .. "/" .. latest_file, json.encode(latest) .. "\n")
  written[dir] = name
  remove_old(dir, options.keep, latest)
  return dir .. "/" .. name
end

---Removes all checkpoints of a folder, and the folder when nothing else is in it.
---@param dir string
function folder.remove(dir)
  if not core.folder_exists(dir) then return end
  local lock = folder.own(dir)
  os.remove(dir .. "/" .. latest_file)
  remove_unfinished(dir)
  for _, name in ipairs(folder.list(dir)) do core.remove_folder(dir .. "/" .. name) end
  getmetatable(lock).__close()
  if #core.list_folder(dir) == 0 then core.remove_folder(dir) end
end

-- ------------------------------------------------ reading

-- The state of a checkpoint whose files are all unchanged; or nil and the problem.
local function verified(path)
  local at = path .. "/" .. state_file
  local state = read_json(at)
  if not state then return nil, at .. " is missing or damaged" end
  if state.format ~= format then
    return nil, string.format("%s has the format '%s'", at, tostring(state.format))
  end
  local hash = state.sha256
  state.sha256 = nil
  if core.text_hash(json.encode(state)) ~= hash then
    return nil, at .. " is not as it was written"
  end
  if type(state.files) ~= "table" then return nil, at .. " has no list of files" end
  for file, want in pairs(state.files) do
    if type(file) ~= "string" or file:find("[/\0]") then
      return nil, at .. " names files outside of its folder"
    end
    local member = path .. "/" .. file
    if not core.file_exists(member) then return nil, member .. " is missing" end
    if core.file_hash(member) ~= want then return nil, member .. " is not as it was written" end
  end
  return state
end

local function opened(path, state)
  local checkpoint = {path = path, state = state}
  ---Tensors by name, and the metadata; nil where the checkpoint has no such file.
  function checkpoint.member(file)
    if not state.files[file] then return nil end
    return core.load(path .. "/" .. file)
  end
  return checkpoint
end

-- The newest first: the one that latest.json names, then the others backwards.
local function candidates(dir)
  local latest = read_latest(dir)
  local list = {}
  if latest.step and core.folder_exists(dir .. "/" .. latest.step) then list[1] = latest.step end
  local names = folder.list(dir)
  for i = #names, 1, -1 do
    if names[i] ~= list[1] then list[#list + 1] = names[i] end
  end
  return list
end

---The newest complete checkpoint of a folder, or the given one itself; nil when there is none.
---Damaged ones are passed over with a warning.
---@param dir string
---@return {path: string, state: table, member: fun(file: string): table?, table?}?
function folder.read(dir)
  if core.file_exists(dir .. "/" .. state_file) then
    local state, problem = verified(dir)
    if not state then blame.error("checkpoint: " .. problem, "value") end
    return opened(dir, state)
  end
  local list = candidates(dir)
  for i, name in ipairs(list) do
    local path = dir .. "/" .. name
    local state, problem = verified(path)
    if state then return opened(path, state) end
    log.warn("checkpoint: %s; %s", problem, list[i + 1] and "the one before it is taken"
      or "there is no other")
  end
  return nil
end

---The path of the newest checkpoint of a folder, nil when there is none.
---@param dir string
---@return string?
function folder.latest(dir)
  local first = candidates(dir)[1]
  return first and dir .. "/" .. first
end

return folder
