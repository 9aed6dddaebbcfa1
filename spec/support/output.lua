-- busted's output for `make test`: failing specs with their messages, at the end "N passed, N failed".
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

return function()
  local handler = base()
  local running

  local function report(element, parent, message, debug)
    local failure = handler.format(element, parent, message, debug)
    local lines = text_of(message):gsub("\n", "\n    ")
    io.write("FAIL ", place_of(failure.element), failure.name, "\n    ", lines, "\n")
    io.flush()
    return nil, true
  end

  busted.subscribe({"failure"}, report)
  busted.subscribe({"error"}, report)
  busted.subscribe({"test", "start"}, function(element)
    running = handler.getFullName(element)
    return nil, true
  end)
  busted.subscribe({"test", "end"}, function()
    running = nil
    return nil, true
  end)
  -- os.exit in the middle of a spec would otherwise end the run without a word.
  local guard = setmetatable({}, {__gc = function()
    if running then io.write("FAIL ", running, "\n    the program ended here\n") end
  end})

  busted.subscribe({"suite", "end"}, function()
    for _, pending in ipairs(handler.pendings) do
      io.write("pending ", place_of(pending.element), pending.name, "\n")
    end
    io.write(("%d passed, %d failed\n"):format(handler.successesCount, handler.failuresCount + handler.errorsCount))
    io.flush()
    return guard and nil, true
  end)
  return handler
end
