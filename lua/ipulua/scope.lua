-- Scopes: entered when made, left when closed. `local _ <close> = scope` or `scope(function() ... end)`;
-- leaving by an error closes too. Scopes nest strictly, so there is one stack of those that are open.

local blame = require "ipulua.blame"
local class = require "ipulua.class"

---What every scope is: entered when it is made, left when it is closed. `local _ <close> = scope`, or scope(f), which calls f and leaves.
---@class Scope
---@field label string what messages call it, such as "ipu_shard(1)"
local Scope = class.new("Scope")

local open = {} -- the stack: open[#open] is the innermost

---Enters. What entering means is done by the caller, before; leave undoes it, once.
---@param label string
---@param leave fun(self: Scope, err: any)
---@param loose boolean? it is closed by itself, whatever was opened since: nothing outside of it holds it open
function Scope:init(label, leave, loose)
  self.label = label
  self.leave = leave
  self.opened_at = blame.where()
  self.is_open = true
  self.loose = loose
  if not loose then open[#open + 1] = self end
end

local function pop(err)
  local self = open[#open]
  open[#open] = nil
  self.is_open = false
  return pcall(self.leave, self, err)
end

-- Everything inside self is left too. After an error that is what an abandoned scope deserves; without
-- one it is a mistake, reported when all is tidy again.
local function close(self, err)
  if not self.is_open then return end
  if self.loose then
    self.is_open = false
    return self.leave(self, err)
  end
  local inner, failure = open[#open], nil
  repeat
    local last = open[#open] == self
    local ok, message = pop(err)
    if not ok and failure == nil then failure = message end
  until last
  if failure ~= nil then error(failure, 0) end
  if inner ~= self and err == nil then
    local at = inner.opened_at and " (opened at " .. inner.opened_at .. ")" or ""
    blame.error(string.format("%s was closed before %s%s, which was opened inside it: scopes close in the "
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

---Runs f inside the scope, closes it, returns what f returned.
function Scope:__call(f, ...)
  if type(f) ~= "function" then
    local mt = type(f) == "table" and getmetatable(f)
    if not (type(mt) == "table" and mt.__call) then
      blame.error(self.label .. ": a scope is called with a function, got " .. require "ipulua.args".describe(f), "type")
    end
  end
  if not self.is_open then
    blame.error(self.label .. " has been closed already; a scope is made anew for each use", "runtime")
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
  for i = #open, 1, -1 do
    if not test or test(open[i]) then return open[i] end
  end
  return nil
end

---How many scopes are open.
---@return integer
function scope.depth()
  return #open
end

return scope
