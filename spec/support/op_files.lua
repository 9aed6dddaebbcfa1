-- Which file of src/ops holds the row of an op.

local op_files = {}

---The names of a file's rows: of OpDef, or of the tables that rows are made of.
---@param text string
---@return string[]
function op_files.rows_of(text)
  local names = {}
  text = text:gsub("/%*.-%*/", "")
  local rows = text:match("\nconst OpDef ops_[%w_]+%[%] = {(.*)") or ""
  for name, member in rows:gmatch('{%.name = "([%w_.]+)",%s*%.(%a+)') do
    local is_attribute <const> = member == "kind"
    if not is_attribute then names[#names + 1] = name end
  end
  for name in rows:gmatch('%u+%("(nn%.[%w_]+)"') do names[#names + 1] = name end
  -- Rows of a macro that makes the name of an identifier.
  for at in text:gmatch("()#define %u[%u_]*%(id") do
    local macro, body = text:match("^#define (%u[%u_]*)%(id(.*)", at)
    body = body:match("^(.-)#define") or body
    local prefix = body:match('%.name = "([%w_.]+)" #id') or body:find("%.name = #id") and ""
    for id in prefix and rows:gmatch("%f[%w_]" .. macro .. "%((%l[%w_]*)") or function() end do
      if id ~= "id" then names[#names + 1] = prefix .. id end
    end
  end
  return names
end

---The file of each op's row under src/ops: "matmul" → "linear/linear".
---@param names string[]
---@return table<string, string>
function op_files.of(names)
  local found, texts = {}, {}
  local pipe <close> = assert(io.popen("ls src/ops/*/*.c"))
  for path in pipe:lines() do
    local file <close> = assert(io.open(path))
    local at, text = path:match("src/ops/(.*)%.c"), file:read("a")
    -- the rows of derivatives are called as their functions are
    if not at:find("derivative") then texts[#texts + 1] = {at, text, at:match("^%l+")} end
    for _, name in ipairs(op_files.rows_of(text)) do found[name] = at end
  end
  for _, name in ipairs(names) do -- rows of tables
    local leaf = name:match("[%w_]+$")
    for _, each in ipairs(texts) do
      if not found[name] and (each[2]:find('"' .. name .. '"', 1, true)
        or each[2]:find("X(" .. leaf .. ",", 1, true) or leaf:find(each[3], 1, true) == 1) then
        found[name] = each[1]
      end
    end
  end
  return found
end

return op_files
