-- Jobs: compiled functions that run on a thread of their own beside the script.

local class = require "ipulua.base.class"
local core = require "ipulua.core"

---A function that runs on a thread of its own, begun by strategy:run_async or Session:run_async.
---@class Job
local Job = class.new("Job")

---handle is the core's job. finish makes the function's results of a list of tensors.
function Job:init(handle, finish)
  self.handle = handle
  self.finish = finish
end

---Whether it has ended, well or with an error.
---@return boolean
function Job:done() return self.handle:done() end

function Job:__tostring() return self:done() and "<Job, ended>" or "<Job, running>" end

---Waits for the end; returns the function's results, or raises its error.
---Errors: an error of the function; a cancelled job
---@return any
function Job:wait()
  if not self.results then self.results = table.pack(self.finish(self.handle:wait())) end
  return table.unpack(self.results, 1, self.results.n)
end

---Asks it to stop after the iteration that it is in; wait() then raises.
function Job:cancel() self.handle:cancel() end

---@package
---Waits for a moment.
function Job:poll() self.handle:poll() end

local jobs = {Job = class.guard(Job)}

local done <const> = {done = function() return true end, cancel = function() end,
  poll = function() end}

---A job that has already ended. Its results are finish(...).
function jobs.ended(finish, ...)
  local results = table.pack(...)
  local handle = setmetatable({wait = function() return results end}, {__index = done})
  return Job(handle, function(given) return finish(table.unpack(given, 1, given.n)) end)
end

---Waits for the running job, if there is one.
function jobs.settle() core.settle() end

return jobs
