-- help("reduce"): public names with a word in them or, if there are none, in their first sentence,
-- in groups by module.

local class = require "ipulua.base.class"
local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"
local ipu = require "ipulua"

local search = {}

local most <const> = 40 -- lines; of more, names alone are shown

local function is_module(help, value)
  return type(value) == "table" and not class.is_class(value) and not enum.is(value)
    and help.names(value) ~= nil
end

-- Calls visit(module's path, name, value) for all that is public; a module is walked once, by its
-- shortest path.
local function walk(help, visit)
  local queue, seen, at = {{"ipu", ipu}}, {[ipu] = true}, 1
  while queue[at] do
    local path, module = queue[at][1], queue[at][2]
    for _, name in ipairs(help.names(module) or {}) do
      local value = module[name]
      if is_module(help, value) then
        local full = path == "ipu" and name == "keras" and "keras" or path .. "." .. name
        if not seen[value] then seen[value], queue[#queue + 1] = true, {full, value} end
      elseif value ~= nil then visit(path, name, value)
      end
    end
    at = at + 1
  end
end

-- The first sentence that help has of something, which its source may break into lines.
local function sentence(help, value, name)
  if enum.is(value) then return "One of " .. table.concat(enum.members(value), ", ") .. "." end
  local words = {}
  for i, line in ipairs(help.lines(value, name) or {}) do
    if i > 1 and (line:find("^ ") or line == "") then break end
    if i > 1 then words[#words + 1] = line end
  end
  local text = table.concat(words, " ")
  return (text:match("^(.-[.;])%s") or text):gsub(";$", ".")
end

---The lines of an answer; nil where nothing is found.
---@param help table ipulua.tools.help
---@param word string
---@return string[]?
function search.lines(help, word)
  word = word:lower()
  local named, said, groups = {}, {}, {}
  walk(help, function(path, name, value)
    local text = (sentence(help, value, path .. "." .. name))
    local list = name:lower():find(word, 1, true) and named
      or text:lower():find(word, 1, true) and said
    if list then list[#list + 1] = {path, name, text} end
  end)
  local found = #named > 0 and named or said
  if #found == 0 then return nil end
  local lines, width = {}, 0
  for _, each in ipairs(found) do width = math.max(width, #each[2]) end
  for _, each in ipairs(found) do
    if not groups[each[1]] then groups[each[1]], groups[#groups + 1] = {}, each[1] end
    table.insert(groups[each[1]], #found <= most
      and ("  %-" .. width .. "s  %s"):format(each[2], each[3]) or each[2])
  end
  for _, path in ipairs(groups) do
    lines[#lines + 1] = path .. ":"
    if #found <= most then table.move(groups[path], 1, #groups[path], #lines + 1, lines)
    else lines[#lines + 1] = "  " .. table.concat(groups[path], " ") end
  end
  return lines
end

---The names of ipu, by kind: {heading, names}.
---@param names string[]
---@return table[]
function search.kinds(names)
  local kinds = {{"modules", {}}, {"classes", {}}, {"choices", {}}, {"functions", {}},
    {"ops", {}}}
  for _, name in ipairs(names) do
    local value = ipu[name]
    local kind = core.ops[name] and 5 or enum.is(value) and 3 or class.is_class(value) and 2
      or type(value) == "table" and getmetatable(value) == nil and 1
      or type(value) == "function" and 4 or type(value) == "table" and 1 or 4
    table.insert(kinds[kind][2], name)
  end
  return kinds
end

return search
