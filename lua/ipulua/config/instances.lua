-- The instances of a training: how they begin, exchange values on the host, and end. A single
-- instance exchanges nothing.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local json = require "ipulua.base.json"
local launch = require "ipulua.config.launch"
local log = require "ipulua.base.log"
local start = require "ipulua.base.start"

local instances = {}

local joined <const> = core.instances
local state = {begun = false, names = {openmpi = "libopenmpi-dev", mpich = "libmpich-dev"}}

---@return integer
function instances.count() return launch.count() end

---@return integer
function instances.index() return launch.index() end

---Whether there are others to meet.
---@return boolean
function instances.are_several() return launch.count() > 1 and not launch.facts().is_priced end

---Whether this instance writes the files that one instance writes.
---@return boolean
function instances.is_first() return launch.index() == 0 end

-- ------------------------------------------------ begin

local function plugin_of(library)
  if library:find("/", 1, true) then return library end
  local path = joined.plugin("comm_" .. library)
  if path then return path end
  if not state.names[library] then
    blame.error(string.format("IPULUA_COMM is '%s'; it can be openmpi, mpich or the path of a "
      .. "plug-in", library), "value")
  end
  local other = library == "openmpi" and "mpich" or "openmpi"
  blame.error(string.format("%d instances were launched by %s, but the plug-in comm_%s is not "
    .. "there: build ipulua with %s installed "
    .. "(Debian's name)%s", launch.count(), launch.facts().launcher, library, state.names[library],
    joined.plugin("comm_" .. other) and "; the plug-in for " .. other .. " is there: use its mpirun"
    or ""), "runtime")
end

-- Settings that must be equal on all instances, and settings that should be.
local function own_facts()
  local engine = core.engine_info()
  local script = arg and arg[0] and io.open(arg[0], "rb")
  local text = script and script:read("a") or ""
  if script then script:close() end
  return {version = core.version, order = string.pack("=I2", 1) == "\1\0" and "little" or "big",
    kernels = engine.kernels,
    replicas = launch.stated_replicas() or json.null, script = core.crc(text),
    seed = tostring(engine.seed),
    seeded = start.seeded == true}
end

local function compare(all, field, words)
  for q = 2, #all do
    if all[q][field] ~= all[1][field] then
      blame.error(string.format("instances 0 and %d have other %s: %s and %s", q - 1, words,
        tostring(all[1][field]),
        tostring(all[q][field])), "failed_precondition")
    end
  end
end

local classes <const> = {base = 1, avx2 = 2, avx512 = 3}

local function agree_on_kernels(all)
  local least = all[1].kernels
  local differ = false
  for _, each in ipairs(all) do
    differ = differ or each.kernels ~= all[1].kernels
    if (classes[each.kernels] or 0) < (classes[least] or 0) then least = each.kernels end
  end
  if not differ then return end
  core.set_kernels(least, start.products)
  if instances.is_first() then
    log.warn("the instances' CPUs have kernels of several classes; all use kernels of %s, "
      .. "so that they give the same bits", least)
  end
end

-- A library of products adds in an order of its own, and another version or core of it in another.
local function agree_on_products()
  local engine <const> = core.engine_info()
  local all = instances.exchange("products", "the beginning", engine.products)
  for q = 2, #all do
    if all[q] ~= all[1] then
      core.set_kernels(engine.kernels, "own")
      if instances.is_first() then
        log.warn("matrix products are computed by %s on instance 0, by %s on instance %d; all "
          .. "compute them with their own kernels, so that they give the same bits", all[1], all[q],
          q - 1)
      end
      return
    end
  end
end

local function agree()
  local all = instances.exchange("begin", "the beginning", own_facts())
  compare(all, "version", "versions of ipulua")
  compare(all, "order", "byte orders")
  compare(all, "replicas", "numbers of replicas (--replicas)")
  agree_on_kernels(all)
  agree_on_products()
  for q = 2, #all do
    if all[q].script ~= all[1].script and instances.is_first() then
      log.warn("instances 0 and %d run different scripts", q - 1)
      break
    end
  end
  if not start.seeded then core.set_seed(math.tointeger(tonumber(all[1].seed))) end
end

-- A script's own os.exit goes the way of its end.
local function take_over_exit()
  local exit <const> = os.exit
  os.exit = function(code, close) -- luacheck: ignore 122
    local status = code == nil and 0 or code == true and 0 or code == false and 1
      or math.tointeger(code) or 1
    io.stdout:flush()
    io.stderr:flush()
    exit(instances.finish(status), close)
  end
end

---Joins the others, once; nothing where this instance is alone or priced.
function instances.begin()
  if state.begun or not instances.are_several() then return end
  local facts <const> = launch.facts()
  if not facts.library then
    blame.error("several processes were launched by srun: set IPULUA_COMM to openmpi or mpich, "
      .. "whichever srun's --mpi is for", "value")
  end
  local path <const> = plugin_of(facts.library)
  state.begun = true
  joined.begin(path, facts.launcher, facts.index, facts.count)
  log.set_prefix("[instance " .. facts.index .. "] ")
  take_over_exit()
  agree()
end

---Ends this instance; gives the status that the process is to end with.
---@param status integer
---@return integer
function instances.finish(status)
  if not state.begun then return status end
  return joined.finish(status)
end

-- ------------------------------------------------ meetings of the host

local function meeting_words(what)
  local where <const> = blame.where()
  return what .. (where and " (" .. where .. ")" or "")
end

---Every instance's value, in their order: values that JSON holds.
---@param kind string what meets with what
---@param words string what messages call it
---@param value any
---@return any[]
function instances.exchange(kind, words, value)
  if not instances.are_several() then return {value} end
  instances.begin()
  local texts = joined.gather_text(kind, "", meeting_words(words), json.encode({value}))
  for i, text in ipairs(texts) do texts[i] = json.decode(text)[1] end
  return texts
end

---A collective of tensors: name is one of the core's, words its name in messages. detail must be
---equal on all instances.
---@return userdata
function instances.collect(name, detail, words, tensor, more)
  instances.begin()
  return joined[name](name, detail, meeting_words(words), tensor, more)
end

---f() on this instance alone: an error in it fails on all.
function instances.telling(f, ...)
  local results = table.pack(blame.pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  if state.begun and instances.are_several() then joined.fail(tostring(results[2])) end
  error(results[2], 0)
end

local function describe(v)
  return string.format("'%s' is %s[%s]", v.name, v.dtype, table.concat(v.shape, ", "))
end

---Variables take instance 0's values, all in one message.
---@param list userdata[]
function instances.share(list)
  if not instances.are_several() or #list == 0 then return end
  instances.begin()
  local mine = {}
  for i, v in ipairs(list) do mine[i] = describe(v) end
  local words <const> = #list == 1 and "the making of variable '" .. list[1].name .. "'"
    or "the making of variables"
  local all = instances.exchange("variables", words, mine)
  for q = 2, #all do
    for i = 1, math.max(#all[1], #all[q]) do
      local first, other = all[1][i], all[q][i]
      if first ~= other then
        blame.error(string.format("instances 0 and %d make different variables: %s on instance 0, "
          .. "%s on instance %d", q - 1,
          first or "none", other and other:gsub("^'.-' is ", first
            and first:match("^'.-' is ") == other:match("^'.-' is ")
          and "" or "%0") or "none", q - 1), "failed_precondition")
      end
    end
  end
  joined.broadcast_variables("values", table.concat(mine, ";"), meeting_words(words), list)
end

---Refuses features that several instances don't have.
---@param who string
---@param what string what of it
---@param instead string what to use
function instances.refuse(who, what, instead)
  if not instances.are_several() or not core.here().team then return end
  blame.error(string.format("%s: %s is not implemented for several instances; %s", who, what,
    instead),
    "not_implemented")
end

---@return table
function instances.statistics() return joined.statistics() end

---The names of the hosts, by instance.
---@return string[]
function instances.hosts()
  if not instances.are_several() then return {joined.host()} end
  instances.begin()
  return joined.hosts()
end

return instances
