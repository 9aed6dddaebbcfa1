-- Errors that name the user's line. Fixed levels go wrong with helpers and tail calls. So the stack
-- is walked to the first frame whose source is not one of the library's own files.

local blame = {}

-- Every file of the library was found through the same package.path entry as this one, which is in
-- the library's folder base.
local own_source <const> = debug.getinfo(1, "S").source
local root <const> = own_source:match("^(@.*[/\\])base[/\\][^/\\]*$") or own_source
local root_length <const> = #root

local codes <const> = {
  value = "IPU_E_VALUE", type = "IPU_E_TYPE", invalid_argument = "IPU_E_INVALID_ARGUMENT",
  failed_precondition = "IPU_E_FAILED_PRECONDITION", not_found = "IPU_E_NOT_FOUND",
  not_implemented = "IPU_E_NOT_IMPLEMENTED", out_of_range = "IPU_E_OUT_OF_RANGE",
  out_of_memory = "IPU_E_OUT_OF_MEMORY", runtime = "IPU_E_RUNTIME", cancelled = "IPU_E_CANCELLED",
  internal = "IPU_E_INTERNAL",
}

---@class LastError
---@field kind string "value", "type", "invalid_argument", …
---@field code string "IPU_E_VALUE", …
---@field message string the words alone, without the position
---@field source string? the script
---@field line integer?

---The newest error, nil before the first one.
---@type LastError?
blame.last = nil

-- Frame of the first function on the stack that is the user's: source to show, line.
local function user_frame(level)
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if info.what ~= "C" and info.source:sub(1, root_length) ~= root then
      return info.short_src, info.currentline
    end
    level = level + 1
  end
end

---Whether a chunk's source (as debug.getinfo gives it) is a file of the library.
---@param source string
---@return boolean
function blame.is_own(source)
  return source:sub(1, root_length) == root
end

---"file:line" of the user's frame, nil when there is none (a coroutine that the library began).
---@return string?
function blame.where()
  local source, line = user_frame(3)
  if not source then return nil end
  if line <= 0 then return source end
  return source .. ":" .. line
end

---Remembers an error that is raised elsewhere (by C code, which places its message itself).
---@param message string
---@param kind string?
---@param source string?
---@param line integer?
---@return LastError
function blame.remember(message, kind, source, line)
  kind = codes[kind] and kind or "runtime"
  local code = codes[kind]
  if kind == "cancelled" then kind = "runtime" end
  blame.last = {kind = kind, code = code, message = message, source = source, line = line}
  return blame.last
end

---Until the returned value is closed, f(message) gives words that are added to errors of this
---coroutine.
---@param f fun(message: string): string
---@return table closable
function blame.explaining(f)
  local here = require "ipulua.core".here
  local before = here().explain
  here().explain = f
  return setmetatable({}, {__close = function() here().explain = before end})
end

-- An error that is raised once more, in other terms, has its explanation.
local function explanation(message)
  local core = package.loaded["ipulua.core"]
  local explain = core and core.here().explain
  local words = explain and explain(message) or ""
  return message:find(words, 1, true) and "" or words
end

local place -- see blame.placing

---From now on f(message) names the object in which an error arises, such as "layer 'net/dense'", or
---gives nil. A line may call many layers.
---@param f fun(message: string): string?
function blame.placing(f) place = f end

---Raises `script.lua:12: message` for the user's line, or for `at` when that is given.
---@param message string
---@param kind string? one of the kinds of ipu.last_error(); "runtime" by default
---@param at string? "file:line" to blame instead, such as the line that made a graph node
function blame.error(message, kind, at)
  local source, line
  if at then
    source, line = at:match("^(.*):(%d+)$")
    source, line = source or at, math.tointeger(tonumber(line))
  else
    source, line = user_frame(3)
  end
  if line and line <= 0 then line = nil end
  local within = place and place(message)
  if within then message = within .. ": " .. message end
  message = message .. explanation(message)
  blame.remember(message, kind, source, line)
  if source and line then message = source .. ":" .. line .. ": " .. message end
  error(message, 0)
end

local hint -- see blame.hinting

---From now on f(message) adds the intended name to Lua's own words for a misspelt one; nil: none.
---@param f fun(message: string): string?
function blame.hinting(f) hint = f end

-- The frame that failed is still there, and f may look into it.
local function with_hint(problem)
  local is_lua_s = type(problem) == "string" and problem:find(": attempt to ", 1, true)
  return is_lua_s and hint and hint(problem) or problem
end

---pcall for functions of a script. If the caller raises the error again, it has its hint.
---@param f function
---@param ... any
---@return boolean ok
---@return any ...
function blame.pcall(f, ...) return xpcall(f, with_hint, ...) end

-- Results of a protected call, unless Ctrl-C ended it: `taken` interruptions were taken before.
local function of_attempt(taken, ok, ...)
  if not ok and require "ipulua.core".interrupts_taken() ~= taken then error((...), 0) end
  return ok, ...
end

---pcall for a caller that goes on after an error, as after the first of several trials. Ctrl-C is
---no such error: it is raised here.
---@param f function
---@param ... any
---@return boolean ok
---@return any ...
function blame.attempt(f, ...)
  local taken <const> = require "ipulua.core".interrupts_taken()
  return of_attempt(taken, xpcall(f, with_hint, ...))
end

-- An error that Lua itself raised in one of the library's files, or while C called it. It doesn't
-- blame the user.
local function is_own_mistake(problem, former)
  if type(problem) ~= "string" then return false end
  if blame.last ~= former and problem:find(blame.last.message, 1, true) then return false end
  local source = problem:match("^([^\n]-):%d+: ")
  return not source or source:find("ipulua/", 1, true) ~= nil
end

---Calls f(…), which reads a file's content. If Lua raises an error because the content is wrong,
---the error raised here names the file. Errors of the library and of a script's own functions stay.
---@param what string "load_model: 'x.safetensors'"
---@param f function
---@param ... any
---@return any ...
function blame.reading(what, f, ...)
  local former <const> = blame.last
  local results = table.pack(blame.attempt(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  if not is_own_mistake(results[2], former) then error(results[2], 0) end
  require "ipulua.base.log".debug("%s: %s", what, results[2])
  blame.error(what .. " is damaged, or of another version", "value")
end

---The library's newest error as a table, nil before the first one: ipu.last_error().
---@return LastError?
function blame.last_error()
  return require("ipulua.base.plain").mark(blame.last)
end

return blame
