-- Where an entry of the references is used: the first example that has it, and the first guide.

local see = {}

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local function listed(command)
  local list = {}
  local pipe <close> = assert(io.popen(command))
  for path in pipe:lines() do list[#list + 1] = {path = path, text = read(path)} end
  return list
end

local examples = listed("find examples -name '*.lua' -not -path '*/bench/*' | LC_ALL=C sort")
local guides = listed("ls docs/tutorial/*.md docs/howto/*.md docs/explain/*.md | LC_ALL=C sort")

local function first(list, patterns)
  for _, each in ipairs(list) do
    for _, pattern in ipairs(patterns) do
      if each.text:find(pattern) then return each.path end
    end
  end
end

---Links to an example and a guide that use a name; else to entries near it.
---@param patterns string[] Lua patterns
---@param folder string of the page, with a slash at its end
---@param near string[]? names of entries of the same page
---@return string
function see.links(patterns, folder, near)
  local up = folder:gsub("[^/]+/", "../")
  local to_docs = up:gsub("^%.%./", "")
  local list = {}
  for _, path in ipairs{first(examples, patterns) or false, first(guides, patterns) or false} do
    if path then
      list[#list + 1] = string.format("[%s](%s%s)", path:gsub("^docs/", ""),
        path:find("^docs/") and to_docs or up, path:gsub("^docs/", ""))
    end
  end
  if #list == 0 then
    for i, name in ipairs(near or {}) do
      if i > 2 then break end
      list[i] = string.format("[%s](#%s)", name, see.anchor(name))
    end
  end
  return table.concat(list, ", ")
end

---A heading as links name it.
---@param heading string
---@return string
function see.anchor(heading)
  return (heading:lower():gsub("[^%w%-_ ]", ""):gsub(" ", "-"))
end

return see
