-- Sentences of the pages that are written by hand: short ones, a fact each, which name the thing.
local sentences = require "spec.support.page_sentences"

local rule = require "spec.support.plain_words"

describe("each sentence of", function()
  local files <close> = assert(io.popen("ls README.md examples/README.md docs/tutorial/*.md "
    .. "docs/howto/*.md docs/explain/*.md docs/*.md docs/reference/command.md "
    .. "docs/reference/pipeline.md docs/reference/profile.md"))
  for path in files:lines() do
    it(path .. " has at most 25 words, one semicolon, and names the thing", function()
      local bad, count = {}, 0
      for _, s in ipairs(sentences.of_page(path)) do
        count = count + 1
        if s.words > rule.words or s.semicolons > rule.semicolons then
          bad[#bad + 1] = ("%s:%d: %d words: %s"):format(path, s.line, s.words, s.text)
        end
        local phrase = rule.gone(s.text)
        if phrase then
          bad[#bad + 1] = ("%s:%d: %q: %s"):format(path, s.line, phrase, s.text)
        end
      end
      assert(count > 0, path .. " has no sentence")
      assert.equal("", table.concat(bad, "\n"))
    end)
  end
end)

-- The counts are by hand.
describe("a page's sentences", function()
  local function of(text)
    local path = os.tmpname()
    do
      local file <close> = assert(io.open(path, "w"))
      file:write(text)
    end
    local list = sentences.of_page(path)
    os.remove(path)
    return list
  end

  it("end at a full stop, a list's item or a paragraph", function()
    local list = of("One two three. Four\nfive `six seven`.\n\n* Eight nine\n* Ten\n")
    local words = {}
    for i, s in ipairs(list) do words[i] = s.words end
    assert.same({3, 3, 2, 1}, words)
  end)

  it("are not in code, tables and headings, and a link is the words that it shows", function()
    local list = of("# A heading; with; semicolons\n\n| a; b; c | d |\n| --- | --- |\n\n"
      .. "```lua\nlocal a; local b; local c\n```\n\nSee [this page](a;b;c.md); it is `x; y`.\n")
    assert.equal(1, #list)
    assert.equal(6, list[1].words)
    assert.equal(1, list[1].semicolons)
  end)

  it("go on after a number's point, an abbreviation and a name with one", function()
    assert.equal(1, #of("It takes 2.5 ms, e.g. for `a.b` and ipu.func alone.\n"))
  end)

  it("with words that stand for the thing are found", function()
    assert.equal("those of", rule.gone("Weights are those of the first replica."))
    assert.equal("behind", rule.gone("It stands behind the loop."))
    assert.is_nil(rule.gone("It says what is kept, and thinks of that often."))
  end)
end)
