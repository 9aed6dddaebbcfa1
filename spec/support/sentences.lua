-- `make lint`: sentences of docstrings, messages and comments keep to the rule of plain_words.lua.
-- sentences_left.txt has the number of sentences in a file that don't, yet. A number may only fall.
-- With a folder or a file as argument, all such sentences in it are printed.
local rule <const> = require "spec.support.plain_words"

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

local found, counts = {}, {} -- lines; path → number
local function report(path, line, why, sentence)
  found[#found + 1] = {path = path, text = ("%s:%d: %s: %s"):format(path, line, why, sentence)}
  counts[path] = (counts[path] or 0) + 1
end

-- Code counts as one word.
local function check_sentence(path, line, sentence)
  local plain = sentence:gsub("`[^`]*`", "code"):gsub('"[^"]*"', "code"):gsub("%b{}", "code")
  local count, semicolons = 0, 0
  for word in plain:gmatch("%S+") do
    if word:find("%w") then count = count + 1 end
  end
  for _ in plain:gmatch(";") do semicolons = semicolons + 1 end
  local gone = not plain:find("%?%.?$") and rule.gone(plain)
  if count > rule.words then report(path, line, count .. " words", sentence)
  elseif semicolons > rule.semicolons then report(path, line, "semicolons", sentence)
  elseif gone then report(path, line, '"' .. gone .. '"', sentence) end
end

-- Sentences end at a full stop or a question mark.
local function check_text(path, line, text)
  text = text:gsub("e%.g%.", "eg"):gsub("i%.e%.", "ie"):gsub("et al%.", "et al"):gsub("…%.", "….")
  text = text:gsub("%? (%u)", "?. %1"):gsub("%.$", "")
  for sentence in (text .. ". "):gmatch("(.-[^.]%.) +") do
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

-- Notes of docstrings are no sentences, but name the thing, too.
local function check_notes(path)
  for number, line in ipairs(lines_of(path)) do
    local note = line:match("^%-%-%-(%u%l+: .*)$")
    local gone = note and rule.gone(note:gsub("`[^`]*`", "code"):gsub("^%u%l+: ", ""))
    if gone then report(path, number, '"' .. gone .. '"', note) end
  end
end

-- Comments of Lua. Lines that are set in are a table: they end a sentence.
local function check_comments(path)
  local text, at = {}, 0
  local function close()
    if #text > 0 then check_text(path, at, table.concat(text, " ")) end
    text = {}
  end
  for number, line in ipairs(lines_of(path)) do
    local words = not line:find("^%s*%-%-%-") and line:match("^%s*%-%-(.*)$")
    if not words or words == "" or words:find("^   ") then close()
    else
      if #text == 0 then at = number end
      text[#text + 1] = words:match("^%s*(.*)$")
    end
    local after = not words and not line:find("^%s*%-%-%-") and line:match("%S%s+%-%- (.+)$")
    if after then check_text(path, number, after) end
  end
  close()
end

-- Titles of cases.
local function check_titles(path)
  for number, line in ipairs(lines_of(path)) do
    local title = line:match('^%s*it%("(.-)"[,%s]') or line:match('^%s*describe%("(.-)"[,%s]')
    if title then check_sentence(path, number, title) end
  end
end

-- Comments of C.
local function check_c(path)
  local source = table.concat(lines_of(path), "\n")
  for at, text in source:gmatch("()/%*(.-)%*/") do
    local _, number = source:sub(1, at):gsub("\n", "")
    text = text:gsub("\n%s*%*   [^\n]*", ". "):gsub("([.:])%. ", "%1 ") -- tables
    check_text(path, number + 1, (text:gsub("\n%s*%*?%s*", " "):match("^%s*(.-)%s*$")))
  end
  for at, call in source:gmatch("()%f[%w_]fail(%b())") do
    local text = call:match('"([^"]*)"')
    local _, number = source:sub(1, at):gsub("\n", "")
    if text then check_verbs(path, number + 1, text) end
  end
end

local function check(path)
  if path:find("%.lua$") then
    check_comments(path)
    if path:find("^lua/") then
      check_docstrings(path)
      check_notes(path)
      check_messages(path)
    elseif path:find("_spec%.lua$") then
      check_titles(path)
    end
  else
    check_c(path)
  end
end

local folders <const> = arg and arg[1] or "lua src spec docs/source examples"
for _, path in ipairs(files("find " .. folders .. " -name '*.lua' -o -name '*.[ch]'")) do
  check(path)
end

local left = {} -- path → number
for _, line in ipairs(lines_of("spec/support/sentences_left.txt")) do
  local path, number = line:match("^(%S+) (%d+)$")
  if path then left[path] = tonumber(number) end
end

local good = true
for _, each in ipairs(found) do
  if arg and arg[1] or counts[each.path] > (left[each.path] or 0) then
    good = false
    print(each.text)
  end
end
for path, number in pairs(arg and arg[1] and {} or left) do
  if number > (counts[path] or 0) then
    good = false
    print(("sentences_left.txt: %s has %d now, not %d"):format(path, counts[path] or 0, number))
  end
end
os.exit(good)
