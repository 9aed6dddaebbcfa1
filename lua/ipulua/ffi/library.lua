-- The C library for ipulua.ffi: it is found, loaded and asked for a context. The table of common
-- functions, which the other files of this folder extend.

local ffi = require "ffi"
local json = require "ipulua.ffi.json"

local ABI = 1

-- In a second state of the process, and when another library declared them before, the declarations
-- are there already.
if not pcall(ffi.typeof, "ipu_context") then ffi.cdef(require "ipulua.cdef") end

local own = debug.getinfo(1, "S").source:match("^(.*)ffi[/\\]library%.lua$") -- these files

local function is_file(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- IPULUA_LIBRARY, then the folders beside ffi.lua (PREFIX/share/lua/5.1/ipulua, or lua/ipulua),
-- then the loader's own search.
local function find_library()
  local named = os.getenv("IPULUA_LIBRARY")
  if named and named ~= "" then return named end
  local folder = (own or ""):match("^@(.*)[/\\]$") or "."
  for _, place in ipairs{"/../../build/libipulua.so.0", "/../../../../lib/libipulua.so.0"} do
    if is_file(folder .. place) then return folder .. place end
  end
  return "libipulua.so.0"
end

-- Errors name the line that called into these files.
local function raise(message)
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then break end
    if info.what ~= "C" and not (own and info.source:sub(1, #own + 3) == own .. "ffi") then
      break
    end
    level = level + 1
  end
  error(message, level)
end

local function load_library()
  local path = find_library()
  local ok, library = pcall(ffi.load, path)
  if not ok then raise("ipulua.ffi: the C library can't be loaded: " .. tostring(library)) end
  if library.ipu_abi_version() ~= ABI then
    raise(string.format("ipulua.ffi is made for version %d of the C interface; this library has "
      .. "version %d", ABI,
      tonumber(library.ipu_abi_version())))
  end
  return library
end

---A context of its own, and all that its calls need.
return function()
  local C = load_library()
  json.load(C, raise)

  local ipu = {json = json, version = ffi.string(C.ipu_version())}

  -- The context of this Lua state. Builders, functions and models hold it too, so the order of
  -- finalisers is free.
  local context = ffi.new("ipu_context *[1]")
  if C.ipu_context_new(context) ~= 0 then error("ipulua: out of memory", 0) end
  context = ffi.gc(context[0], C.ipu_context_free)

  local function check(status)
    if status == 0 then return end
    local message = ffi.string(C.ipu_last_error(context)) -- before anything else calls the library
    ipu.last_code = ffi.string(C.ipu_status_name(status))
    raise(message)
  end

  -- Refuses an argument of another type, in words and at the caller's line.
  local function want(who, name, value, wanted)
    if wanted == "string" and type(value) == wanted and value:find("%z") then
      raise(who .. ": '" .. name .. "' has a NUL in it, where C would cut it")
    end
    if type(value) == wanted then return end
    raise(who .. ": '" .. name .. "' must be a " .. wanted .. ", got "
      .. (value == nil and "none" or "a " .. type(value)))
  end

  -- The collector can't see memory of C, so it is run after this many bytes.
  local LIMIT = 32 * 1024 * 1024
  local unseen = 0
  local function note(bytes)
    unseen = unseen + bytes
    if unseen < LIMIT then return end
    unseen = 0
    collectgarbage()
  end

  -- An object that C reads by pointer must not be collected meanwhile. A use after the call keeps
  -- it, also in compiled code.
  local function hold(x) ipu._held = x.p or next(x) end

  -- Room for the results of one call. Nobody else has it until `received`, since a finaliser that
  -- calls ops may run at any allocation.
  local max_results = 4096
  local idle = {}
  local function room(ctype)
    local mine = idle[ctype]
    idle[ctype] = nil
    return mine or {ctype = ctype, most = max_results, count = ffi.new "int[1]",
      out = ffi.new(ctype .. "[?]", max_results)}
  end

  -- The results that a call has left there, each wrapped by take, and their number.
  local function received(mine, take, builder)
    local list, count = {}, mine.count[0]
    for i = 1, count do list[i] = take(mine.out[i - 1], builder) end
    idle[mine.ctype] = mine
    return list, count
  end

  -- A text that C returns through the last argument.
  local function text_of(f, ...)
    local out = ffi.new("const char *[1]")
    local arguments = {...}
    arguments[#arguments + 1] = out
    check(f(unpack(arguments, 1, #arguments)))
    return ffi.string(out[0])
  end

  return {
    C = C, ipu = ipu, context = context, check = check, raise = raise, want = want, note = note,
    hold = hold, text_of = text_of, room = room, received = received,
  }
end
