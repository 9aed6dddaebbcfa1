-- Configurations at random: every option set to values of its type, by assignment, tables and JSON;
-- copies are independent, and what is refused changes nothing. problems(seed) gives what is wrong.

local enum = require "ipulua.base.enumeration"
local ipu = require "ipulua"
local options = require "ipulua.config.options"

local random <const> = math.random
local function pick(list) return list[random(#list)] end

local function text() return pick{"", "a", "é", "\"q\"\n", "half", "0.5", "{}", ("x"):rep(300)} end

local makers <const> = {
  bool = function() return random(2) == 1 end,
  int = function() return pick{0, 1, -1, 7, math.maxinteger, math.mininteger, 1 << 53} end,
  float = function() return pick{0.0, -0.5, 0.1, 1e300, 5e-324, 3} end,
  str = text,
  dict = function()
    local dict = {}
    for _ = 1, random(0, 3) do dict[text()] = text() end
    return dict
  end,
  ints = function()
    if random(2) == 1 then return random(0, 9) end
    local list = {}
    for i = 1, random(0, 4) do list[i] = random(-3, 40) end
    return list
  end,
}

local function value_for(row)
  local kind = row[2]
  if makers[kind] then return makers[kind]() end
  return pick(enum.members(kind))
end

local odd <const> = {
  function() return nil end, function() return {} end, function() return {1.5} end,
  function() return {a = 1} end, function() return print end, function() return 0 / 0 end,
  function() return "nonsense" end, function() return 1 << 60 | 1 end, function() return true end,
}

local function get(cfg, name)
  for part in name:gmatch("[^.]+") do cfg = cfg[part] end
  return cfg
end

local function set(cfg, name, value)
  local category, last = name:match("^(.*)%.([^.]*)$")
  if category then cfg = get(cfg, category) end
  cfg[last or name] = value
end

local function shown(value)
  if type(value) ~= "table" then
    return math.type(value) == "float" and ("%a"):format(value) or type(value) .. tostring(value)
  end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  for i, key in ipairs(keys) do
    local inner = value[key]
    if inner == nil then inner = value[tonumber(key)] end
    parts[i] = key .. "=" .. shown(inner)
  end
  return "{" .. table.concat(parts, ";") .. "}"
end

local function all_of(cfg)
  local parts = {}
  for i, row in ipairs(options.table) do parts[i] = row[1] .. ":" .. shown(get(cfg, row[1])) end
  return table.concat(parts, "\n")
end

local function problems(seed)
  math.randomseed(seed)
  local found = {}
  local function need(condition, what)
    if not condition then found[#found + 1] = ("seed %d: %s"):format(seed, what) end
  end
  local cfg, wanted = ipu.IPUConfig(), {}
  for _, row in ipairs(options.table) do
    local value = row[3]
    if random(2) == 1 then
      value = value_for(row)
      set(cfg, row[1], value)
      if type(value) == "table" then value[#value + 1] = "changed" end -- it was copied
      if type(value) == "table" then value[#value] = nil end
    end
    if row[2] == "float" then value = value + 0.0 end
    wanted[row[1]] = shown(value)
    need(shown(get(cfg, row[1])) == wanted[row[1]], row[1] .. " is not what was assigned")
  end
  local whole = all_of(cfg)
  local ways = {
    copy = function() return cfg:copy() end,
    dict = function() local c = ipu.IPUConfig() c:from_dict(cfg:to_dict()) return c end,
    json = function() local c = ipu.IPUConfig() c:from_json(cfg:to_json()) return c end,
  }
  for name, way in pairs(ways) do
    local ok, other = pcall(way)
    need(ok, name .. ": " .. tostring(other))
    if ok then
      need(all_of(other) == whole, name .. " gives other values")
      for _ = 1, 5 do -- another object
        local row = pick(options.table)
        set(other, row[1], value_for(row))
        for key in pairs(type(get(other, row[1])) == "table" and get(other, row[1]) or {}) do
          get(other, row[1])[key] = nil
        end
      end
      need(all_of(cfg) == whole, name .. " shares what it holds")
    end
  end
  for _ = 1, 20 do
    local row = pick(options.table)
    local other = pick(odd)()
    local before = all_of(cfg)
    if not pcall(set, cfg, row[1], other) then
      need(all_of(cfg) == before, row[1] .. " was refused, and changed something")
      local dict = cfg:to_dict()
      local first = pick(options.table)
      dict[first[1]] = value_for(first)
      dict[row[1]] = other
      if other ~= nil and not pcall(cfg.from_dict, cfg, dict) then
        need(all_of(cfg) == before, row[1] .. " was refused in a table that was taken in part")
      end
    else set(cfg, row[1], row[3]) end
  end
  return found
end

return {problems = problems}
