-- `make lint`: sentences of docstrings, messages and comments keep to the rule of plain_words.lua.
-- Arguments: docstrings, messages, or a folder.
local rule <const> = require "spec.support.plain_words"

-- Folders of C that are held to it: the first comment of a file, all comments of a header, and
-- the verbs of errors.
local folders <const> = {"src"}

local function lines_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

local function files(command)
  local list = {}
  local pipe <close> = assert(io.popen(command .. " | LC_ALL=C sort"))
  for path in pipe:lines() do list[#list + 1] = path end
  return list
end

local found = {}
local function report(path, line, why, sentence)
  found[#found + 1] = ("%s:%d: %s: %s"):format(path, line, why, sentence)
end

local function check_sentence(path, line, sentence)
  local plain = sentence:gsub("`[^`]*`", "code"):gsub('"[^"]*"', "code")
  local count, semicolons = 0, 0
  for _ in plain:gmatch("%S+") do count = count + 1 end
  for _ in plain:gmatch(";") do semicolons = semicolons + 1 end
  local gone = rule.gone(plain)
  if count > rule.words then report(path, line, count .. " words", sentence)
  elseif semicolons > rule.semicolons then report(path, line, "semicolons", sentence)
  elseif gone then report(path, line, '"' .. gone .. '"', sentence) end
end

-- Sentences end at a full stop.
local function check_text(path, line, text)
  text = text:gsub("e%.g%.", "eg"):gsub("i%.e%.", "ie"):gsub("et al%.", "et al"):gsub("…%.", "….")
  for sentence in (text:gsub("%.$", "") .. ". "):gmatch("(.-[^.]%.) +") do
    check_sentence(path, line, sentence)
  end
end

-- The sentences above functions and classes: lines of three dashes up to the first note or tag.
local function check_docstrings(path)
  local text, at, open = {}, 0, true
  for number, line in ipairs(lines_of(path)) do
    local words = line:match("^%-%-%-(.*)$")
    if words then
      if #text == 0 and open then at = number end
      if words:find("^@") or words:find("^%u%l+: ") and words:find("^[SUE]") then open = false end
      if open then text[#text + 1] = words end
    elseif at > 0 then
      check_text(path, at, table.concat(text, " "))
      text, at, open = {}, 0, true
    end
  end
end

-- A value "must be …", a function "takes …", an argument or option "needs …". Nothing "wants".
local function check_verbs(path, line, text)
  if text:find("%f[%a]wants?%f[%A]") then report(path, line, '"wants"', text) end
end

-- The texts of errors: the literals of a call of blame.error or fail.
local function check_messages(path)
  local source = table.concat(lines_of(path), "\n")
  for at, call in source:gmatch("()%f[%w_]%l*[._]?%l*err?o?r?%f[^%w_](%b())") do
    local words = {}
    for literal in call:gmatch('"([^"]*)"') do words[#words + 1] = literal end
    -- the kind of the error is the last literal; what to do stands after a semicolon
    if words[#words] and words[#words]:find("^%l[%l_]*$") then words[#words] = nil end
    local text = table.concat(words):gsub("; ", ". ")
    if #words > 0 and text:find(" ") then
      local _, number = source:sub(1, at):gsub("\n", "")
      check_text(path, number + 1, text)
      check_verbs(path, number + 1, text)
    end
  end
end

-- Comments of C: of a header all, of another file the first.
local function check_c(path)
  local source = table.concat(lines_of(path), "\n")
  local begin = 1
  while true do
    local from, to, text = source:find("/%*(.-)%*/", begin)
    if not from then break end
    local _, number = source:sub(1, from):gsub("\n", "")
    text = text:gsub("\n %*   [^\n]*", "") -- figures
    check_text(path, number + 1, (text:gsub("\n%s*%*?%s*", " "):match("^%s*(.-)%s*$")))
    if path:find("%.c$") then break end
    begin = to + 1
  end
  for at, call in source:gmatch("()%f[%w_]fail(%b())") do
    local text = call:match('"([^"]*)"')
    local _, number = source:sub(1, at):gsub("\n", "")
    if text then check_verbs(path, number + 1, text) end
  end
end

if arg and arg[1] == "docstrings" then
  for _, path in ipairs(files("find " .. (arg[2] or "lua") .. " -name '*.lua'")) do
    check_docstrings(path)
  end
elseif arg and arg[1] == "messages" then
  for _, path in ipairs(files("find " .. (arg[2] or "lua") .. " -name '*.lua'")) do
    check_messages(path)
  end
elseif arg and arg[1] then
  for _, path in ipairs(files("find " .. arg[1] .. " -name '*.[ch]'")) do check_c(path) end
else
  for _, path in ipairs(files("find lua -name '*.lua'")) do
    check_docstrings(path)
    check_messages(path)
  end
  for _, folder in ipairs(folders) do
    for _, path in ipairs(files("find " .. folder .. " -name '*.[ch]'")) do check_c(path) end
  end
end
for _, each in ipairs(found) do print(each) end
os.exit(#found == 0)
