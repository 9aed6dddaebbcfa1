-- build/validate: rows of a file of benchmarks against their published figures.
local command = require "spec.support.command"

describe("build/validate", function()
  local validate = command.ipulua:match("^(.*)/[^/]*$") .. "/validate"
  local benchmarks <const> = "spec/machine/benchmarks.jsonl"
  local there = os.execute("test -x " .. command.quote(validate))
  local function built(name, run)
    it(name, function() if there then run() else pending("make checks builds " .. validate) end end)
  end

  built("refuses what it can't read in words, instead of pricing nothing", function()
    for _, case in ipairs{
      {"--third must be 0, 1 or 2, got 3\nusage: ", benchmarks, "--third", "3"},
      {"--third must be 0, 1 or 2, got x\nusage: ", benchmarks, "--third", "x"},
      {"--third must be 0, 1 or 2, got nothing\nusage: ", benchmarks, "--third"},
      {"what is '--thrid'?\nusage: ", benchmarks, "--thrid", "1"},
      {"a file of benchmarks is wanted\nusage: "},
      {"nowhere.jsonl: No such file or directory\n", "nowhere.jsonl"},
      {"nowhere/out: No such file or directory\n", benchmarks, "nowhere/out"},
    } do
      local r = command.run{validate, table.unpack(case, 2)}
      assert.equal(2, r.status, case[1])
      assert.equal("", r.out)
      assert.equal("validate: " .. case[1], r.err:sub(1, #case[1] + #"validate: "))
    end
  end)

  built("names the lines that it can't price, and prices the others", function()
    local file = command.scratch(".jsonl")
    local first = command.read(benchmarks):match("^[^\n]*\n")
    command.write(file, "# a remark\n\n" .. first
      .. '{"id": "x", "family": "gem"}\n[1]\n{"family"\n')
    local r = command.run{validate, file}
    os.remove(file)
    assert.equal(1, r.status)
    assert.matches("\n1 rows in ", r.out)
    local reasons = {}
    for number,
      words in r.err:gmatch("validate: " .. file:gsub("%p", "%%%0") .. ":(%d+): ([^\n]+)\n") do
      reasons[tonumber(number)] = words
    end
    local wants <const> = "wants an 'id' and a 'family' that is priced"
    assert.same({[4] = wants, [5] = wants, [6] = reasons[6]}, reasons)
    assert.matches("expected near", reasons[6]) -- the JSON reader's words
  end)

  -- docs/machine-model.md has the smallest and the largest mean error of the three, and the number
  -- of figures of all.
  built(
    "prices each third of the rows alone, with the errors that docs/machine-model.md gives",
    function()
    local least, most, rows, figures = {}, {}, 0, 0
    for third = 0, 2 do
      local r = command.run{validate, benchmarks, "--third", tostring(third)}
      assert.equal(0, r.status, r.err)
      rows = rows + r.out:match("\n(%d+) rows in ")
      for family, n, mean in r.out:match("^(.-)\n\n"):gmatch("\n([%l_]+) +(%d+) +([%d.]+) ") do
        mean, figures = tonumber(mean), figures + n
        least[family], most[family] = math.min(least[family] or mean, mean),
          math.max(most[family] or mean, mean)
      end
    end
    local page, sum = command.read("docs/machine-model.md"), 0
    local _, lines = command.read(benchmarks):gsub("\n", "")
    assert.equal(lines, rows)
    for n in page:match("\n| family | figures |(.-)\n\n"):gmatch("\n| [^|]+ | (%d+) | ") do
      sum = sum + n
    end
    assert.equal(sum, figures)
    local text = page:match("%-%-third K.-fitted"):gsub("\n", " ")
    for name, family in pairs{products = "gemm", ["fully connected"] = "fc", convolutions = "conv",
      depthwise = "group_conv",
      octave = "oct_conv", pooling = "pool", LSTM = "lstm", GRU = "gru", reductions = "reduce"} do
      assert.equal(("%s %.1f to %.1f"):format(name, least[family], most[family]),
        text:match(name .. " [%d.]+ to [%d.]*%d"))
    end
  end)
end)
