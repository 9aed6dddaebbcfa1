-- Words that are gone (gone_words.txt), where they are used in src, lua or docs: `make lint`. Fails
-- when there is one.
local function lines_of(source)
  local list = {}
  for line in source:lines() do list[#list + 1] = line end
  source:close()
  return list
end

local whole, beginnings = {}, {} -- word → the one in its place; {beginning, that one}
for _, line in ipairs(lines_of(assert(io.open "spec/support/gone_words.txt"))) do
  local word, star, instead = line:match "^([%a_][%w_]*)(%*?) (.+)$"
  if word and star == "" then whole[word] = instead
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
local names = "\\( -name '*.[ch]' -o -name '*.lua' -o -name '*.md' -o -name '*.html' \\)"
for _, path in ipairs(lines_of(assert(io.popen("find src lua docs " .. names .. " | sort")))) do
  for number, line in ipairs(lines_of(assert(io.open(path)))) do
    for word in line:gmatch "[%a_][%w_]*" do
      local instead = instead_of(word)
      if instead then
        found = true
        print(("%s:%d: %s is gone: %s"):format(path, number, word, instead))
      end
    end
  end
end
os.exit(not found)
