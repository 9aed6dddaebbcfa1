-- The rule for sentences of pages, docstrings, messages and comments: one fact a sentence, at most
-- 25 words and one semicolon. The thing is named, not "what …", "that of …", "those of …" and
-- "of which"; "after", not "behind".
local plain_words = {words = 25, semicolons = 1}

local gone <const> = {"^[Ww]hat ", "%f[%a][Tt]hat of%f[%A]", "%f[%a][Tt]hose of%f[%A]",
  "%f[%a]of which%f[%A]", "%f[%a]behind%f[%A]"}

-- The first words of a sentence that are gone; nil where there are none.
function plain_words.gone(sentence)
  for _, pattern in ipairs(gone) do
    local found = sentence:match(pattern)
    if found then return found end
  end
end

return plain_words
