-- busted's output for `make test`: failing specs with their messages, at the end "N passed, N
-- failed". With -Xoutput FILE each case is a line of that file, as it ends. judge.lua reads it:
-- text that a spec prints doesn't count, and a run that ends early lacks the last line.
local base = require "busted.outputHandlers.base"
local busted = require "busted"
local pretty = require "pl.pretty"

local function text_of(message)
  if type(message) == "string" then return message end
  return message == nil and "nil error" or pretty.write(message)
end

local function place_of(element)
  local trace = element.trace
  if trace and trace.short_src then return ("%s:%s "):format(trace.short_src, trace.currentline) end
  return ""
end

local escapes <const> = {["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r"}

-- Lines of fields; without a path they go nowhere.
local function writer(path)
  local file = path and assert(io.open(path, "w"))
  return function(...)
    if not file then return end
    local fields = {...}
    for i, field in ipairs(fields) do fields[i] = tostring(field):gsub("[\\\n\t\r]", escapes) end
    file:write(table.concat(fields, "\t"), "\n")
    file:flush()
  end
end

local function file_of(element)
  while element and element.descriptor ~= "file" do element = busted.parent(element) end
  return element and element.name or ""
end

-- Each file and each case begins with the same seed, whatever ran before it: none fails by chance.
local function seed()
  math.randomseed(20)
  local good, ipu = pcall(require, "ipulua")
  if good then ipu.random.set_seed(20) end
  return nil, true
end

return function(options)
  local handler = base()
  local arguments = options.arguments or {}
  -- busted cuts the path at its commas
  local put = writer(arguments[1] and table.concat(arguments, ","))
  local running, message_of_pending

  local function report(element, parent, message, debug)
    local failure = handler.format(element, parent, message, debug)
    local place, words = place_of(failure.element), text_of(message)
    put("fail", file_of(element), failure.name, element.duration or 0, place .. words)
    if not arguments[1] then
      io.write("FAIL ", place, failure.name, "\n    ", (words:gsub("\n", "\n    ")), "\n")
    end
    io.flush()
    return nil, true
  end

  busted.subscribe({"file", "start"}, seed)
  busted.subscribe({"failure"}, report)
  busted.subscribe({"error"}, report)
  busted.subscribe({"pending"}, function(_, _, message)
    message_of_pending = message
    return nil, true
  end)
  busted.subscribe({"test", "start"}, function(element)
    seed()
    running, message_of_pending = handler.getFullName(element), nil
    put("start", file_of(element), running)
    return nil, true
  end)
  busted.subscribe({"test", "end"}, function(element, _, status)
    local kind = ({success = "pass", pending = "pending"})[status]
    if kind then
      put(kind, file_of(element), running, element.duration or 0,
        place_of(element) .. text_of(message_of_pending or ""))
    end
    running = nil
    return nil, true
  end)
  -- os.exit in the middle of a spec would otherwise end the run without a word.
  local guard = setmetatable({}, {__gc = function()
    if running then io.write("FAIL ", running, "\n    the program ended here\n") end
  end})

  busted.subscribe({"suite", "end"}, function(suite)
    local failed = handler.failuresCount + handler.errorsCount
    put("done", handler.successesCount, failed)
    if not arguments[1] then
      for _, pending in ipairs(handler.pendings) do
        io.write("pending ", place_of(pending.element), pending.name, "\n")
      end
      io.write(("%.1f s\n%d passed, %d failed\n"):format(suite.duration or 0,
        handler.successesCount, failed))
    end
    io.flush()
    return guard and nil, true
  end)
  return handler
end
