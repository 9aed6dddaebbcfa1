-- Settings of the command line and the environment, read once when the library loads. Options
-- override the environment.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local log = require "ipulua.base.log"
local terminal = require "ipulua.base.text.terminal"

local options = core.options()

local function environment(name)
  if options.noenv then return nil end
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

local function number(name, least)
  local text = environment(name)
  if not text then return nil end
  local n = math.tointeger(tonumber(text))
  if not n or n < least then
    blame.error(string.format("%s must be an integer of at least %d, got '%s'", name, least, text),
      "value")
  end
  return n
end

local is_terminal, _, output_is_terminal = core.terminal()
local function columns() return (select(2, core.terminal())) end
terminal.set{is_terminal = is_terminal, output_is_terminal = output_is_terminal, columns = columns,
  quiet = options.estimate}

local threads = options.threads or number("IPULUA_THREADS", 1)
if threads then core.set_threads(threads) end

local kernels, products = environment "IPULUA_CPU", environment "IPULUA_BLAS"
if kernels or products then core.set_kernels(kernels, products) end

local seed = options.seed or number("IPULUA_SEED", 0)
if seed then core.set_seed(seed) end

if options.estimate then core.set_estimating(true) end

-- and priced, profiled, refused: whether any program was
local start = {options = options, environment = environment, seeded = seed ~= nil,
  products = products}

-- At the end of the script: warns of options that had no effect because no program was made. A
-- program that was refused had an error of its own.
local function tell_end()
  if start.refused then return end
  local made <const> = "ipu.func, fit and sessions make programs; ops called one at a time are "
    .. "computed at once"
  if options.estimate then
    if not start.priced then log.warn("--estimate: there was no program to price; %s", made) end
  elseif options.profile and not start.profiled then
    log.warn("--profile: no program ran, so '%s' got no profile; %s", options.profile, made)
  end
end
if options.estimate or options.profile then start.sentinel = setmetatable({}, {__gc = tell_end}) end

return start
