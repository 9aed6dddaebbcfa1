-- The prose sentences of a Markdown page: without code, headings, tables and picture lines.
local M = {}

-- A full stop after these, or between digits, ends no sentence.
local function protect(text)
  return (text:gsub("%f[%w]e%.g%.", "eg"):gsub("%f[%w]i%.e%.", "ie"):gsub("etc%.", "etc"))
end

-- Inline code counts as one word, a link as the words that it shows.
local function plain(text)
  return (text:gsub("!%[.-%]%b()", ""):gsub("``.-``", "CODE"):gsub("`[^`]*`", "CODE")
    :gsub("%[([^%]]*)%]%b()", "%1"):gsub("%*+", ""):gsub("<[^>]*>", ""))
end

local function split(text, line, out)
  text = protect(plain(text)):gsub("%s+", " ")
  for sentence in (text .. " "):gsub("([.!?…:][\"')]*) +(%f[%u%dC])", "%1\n%2"):gmatch("[^\n]+") do
    local words, semicolons = 0, select(2, sentence:gsub(";", ""))
    for word in sentence:gmatch("%S+") do
      if word:find("%w") then words = words + 1 end
    end
    out[#out + 1] = {line = line, text = sentence:match("^%s*(.-)%s*$"), words = words,
      semicolons = semicolons}
  end
end

-- {line, text, words, semicolons} for each sentence of the page.
function M.of_page(path)
  local out, paragraph, first, fenced, number = {}, {}, nil, false, 0
  local function close()
    if #paragraph > 0 then split(table.concat(paragraph, " "), first, out) end
    paragraph, first = {}, nil
  end
  for line in io.lines(path) do
    number = number + 1
    if line:match("^%s*```") then
      close()
      fenced = not fenced
    elseif fenced or line:match("^%s*$") or line:match("^#") or line:match("^%s*|") then
      close()
    else
      local item = line:match("^%s*[*-] (.*)$") or line:match("^%s*%d+%. (.*)$")
      if item then close() end
      first = first or number
      paragraph[#paragraph + 1] = item or line:gsub("^>%s*", "")
    end
  end
  close()
  return out
end

return M
