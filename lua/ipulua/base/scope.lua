-- Scopes: entered when made, left when closed. `local _ <close> = scope` or
-- `scope(function() ... end)`; leaving by an error closes too. Scopes nest strictly, so each
-- coroutine has a stack of its open scopes. `core.here()` has the settings of the scopes that are
-- open where it is called.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"

---The class of every scope: entered when it is made, left when it is closed. `local _ <close> =
---scope`, or scope(f), which calls f and leaves.
---@class Scope
---@field label string what messages call it, such as "ipu_shard(1)"
local Scope = class.new("Scope")

local here <const> = core.here -- here().scope is the innermost; a scope's `around` is the next one

---Enters. The caller has entered already; leave undoes it, once.
---@param label string
---@param leave fun(self: Scope, err: any)
---@param loose boolean? it is closed by itself, whatever was opened since
function Scope:init(label, leave, loose)
  self.label = label
  self.leave = leave
  self.opened_at = blame.where()
  self.is_open = true
  self.loose = loose
  if loose then return end
  local open = here()
  self.home, self.around, open.scope = open, open.scope, self
end

local function pop(err)
  local open = here()
  local self = open.scope
  open.scope = self.around
  self.is_open = false
  return pcall(self.leave, self, err)
end

-- Scopes inside self are closed, too. After an error that is expected. Without an error it is a
-- mistake, which is raised after all scopes are closed.
local function close(self, err)
  if not self.is_open then return end
  if self.loose then
    self.is_open = false
    return self.leave(self, err)
  end
  local open = here()
  if self.home ~= open then
    if err ~= nil then return end
    blame.error(self.label .. " was opened in another coroutine: a scope is closed in the one that "
      .. "opened it", "runtime")
  end
  local inner, failure = open.scope, nil
  repeat
    local last = open.scope == self
    local ok, message = pop(err)
    if not ok and failure == nil then failure = message end
  until last
  core.follow_resumer()
  if failure ~= nil then error(failure, 0) end
  if inner ~= self and err == nil then
    local at = inner.opened_at and " (opened at " .. inner.opened_at .. ")" or ""
    blame.error(string.format("%s was closed before %s%s, which was opened inside it: scopes close "
      .. "in the "
      .. "opposite order of opening", self.label, inner.label, at), "runtime")
  end
end

---Leaves the scope; closing again is harmless.
function Scope:close()
  close(self)
end

function Scope:__close(err)
  close(self, err)
end

---Runs f inside the scope, closes it, and returns f's results.
function Scope:__call(f, ...)
  if type(f) ~= "function" then
    local mt = type(f) == "table" and getmetatable(f)
    if not (type(mt) == "table" and mt.__call) then
      blame.error(self.label .. ": a scope is called with a function, got "
        .. require "ipulua.base.args".describe(f), "type")
    end
  end
  if not self.is_open then
    blame.error(self.label .. " has been closed already; a scope is made anew for each use",
      "runtime")
  end
  local _ <close> = self
  return f(...)
end

function Scope:__tostring()
  return self.label .. (self.is_open and " (open)" or " (closed)")
end

local scope = {Scope = Scope}

---Makes a scope, open from now on.
---@param label string
---@param leave fun(self: Scope, err: any) undoes what the caller did to enter
---@return Scope
function scope.new(label, leave)
  return Scope(label, leave)
end

---The innermost open scope for which test holds (any, without test), nil when there is none.
---@param test fun(s: Scope): boolean?
---@return Scope?
function scope.innermost(test)
  local found = here().scope
  while found and test and not test(found) do found = found.around end
  return found
end

---How many scopes are open.
---@return integer
function scope.depth()
  local count, each = 0, here().scope
  while each do count, each = count + 1, each.around end
  return count
end

return scope
