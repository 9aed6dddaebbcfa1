-- `make lint` fails when a word or phrase of gone_words.txt is used in src, lua, docs, examples or
-- spec.
local function lines_of(source)
  local list = {}
  for line in source:lines() do list[#list + 1] = line end
  source:close()
  return list
end

local whole, beginnings = {}, {} -- word → the one in its place; {beginning, that one}
local phrases = {} -- {words in small letters, those in their place}
for _, line in ipairs(lines_of(assert(io.open "spec/support/gone_words.txt"))) do
  local word, star, instead = line:match "^([%a_][%w_]*)(%*?) (.+)$"
  local phrase, better = line:match '^"([^"]+)" (.+)$'
  if phrase then phrases[#phrases + 1] = {phrase, better}
  elseif word and star == "" then whole[word] = instead
  elseif word then beginnings[#beginnings + 1] = {word, instead}
  else assert(line:match "^#", "gone_words.txt: " .. line) end
end

local function instead_of(word)
  if whole[word] then return whole[word] end
  for _, each in ipairs(beginnings) do
    if word:sub(1, #each[1]) == each[1] then return each[2] end
  end
end

local found = false
local function report(path, number, word, instead)
  found = true
  print(("%s:%d: %s is gone: %s"):format(path, number, word, instead))
end

-- A phrase is found across the end of a line, too.
local function report_phrases(path, lines)
  for number, line in ipairs(lines) do
    local next_line = (lines[number + 1] or ""):gsub("^[%s*/-]+", ""):gsub('^%.%. "', "")
    local text = (line:gsub('%s*"$', "") .. " " .. next_line):lower()
    for _, each in ipairs(phrases) do
      local at = text:find("%f[%w]" .. each[1] .. "%f[%W]")
      if at and at <= #line then report(path, number, each[1], each[2]) end
    end
  end
end

local names = "\\( -name '*.[ch]' -o -name '*.lua' -o -name '*.md' -o -name '*.html' \\)"
local find <const> = "find src lua docs examples spec " .. names .. " | sort"
for _, path in ipairs(lines_of(assert(io.popen(find)))) do
  local lines = lines_of(assert(io.open(path)))
  report_phrases(path, lines)
  for number, line in ipairs(lines) do
    for word in line:gmatch "[%a_][%w_]*" do
      local instead = instead_of(word)
      if instead then report(path, number, word, instead) end
    end
  end
end
os.exit(not found)
