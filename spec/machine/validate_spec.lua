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
      {"--half must be 0 or 1, got 2\nusage: ", benchmarks, "--half", "2"},
      {"--chip must be gc2 or gc200, got bow\nusage: ", benchmarks, "--chip", "bow"},
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

  -- docs/pricing.md has the smallest and the largest mean error of the three,
  -- docs/machine-model.md the number of figures of all.
  built(
    "prices each third of the rows alone, with the errors that docs/pricing.md gives",
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
    local text = command.read("docs/pricing.md"):match("%-%-third K.-fitted"):gsub("\n", " ")
    for name, family in pairs{products = "gemm", ["fully connected"] = "fc", convolutions = "conv",
      depthwise = "group_conv",
      octave = "oct_conv", pooling = "pool", LSTM = "lstm", GRU = "gru", reductions = "reduce"} do
      assert.equal(("%s %.1f to %.1f"):format(name, least[family], most[family]),
        text:match(name .. " [%d.]+ to [%d.]*%d"))
    end
  end)

  built("prices one half of the rows, or the figures of one chip", function()
    local function count(...)
      local r = command.run{validate, benchmarks, ...}
      assert.equal(0, r.status, r.err)
      local figures = 0
      for n in r.out:match("^(.-)\n\n"):gmatch("\n[%l_]+ +(%d+) ") do figures = figures + n end
      return figures
    end
    local all = count()
    assert.equal(all, count("--half", "0") + count("--half", "1"))
    assert.equal(all, count("--chip", "gc2") + count("--chip", "gc200"))
  end)

  -- Figures from PopLibs' vertices, planner and data layouts, against its published table.
  built("meets published figures where the mechanism is known", function()
    local got, want, off = {}, {}, {}
    local r = command.run{validate, benchmarks, "--rows"}
    assert.equal(0, r.status, r.err)
    local line <const> =
      "^([%l_]+) +([%w_]+) +(gc%d+) +([%l_]+) +got +(%d+) want +(%d+) +([+-][%d.]+) %%"
    for text in r.out:gmatch("[^\n]+") do
      local quantity, id, chip, family, g, w, error = text:match(line)
      if quantity then
        local key = table.concat({quantity, id, chip}, " ")
        got[key], want[key] = tonumber(g), tonumber(w)
        local group = off[family .. " " .. quantity] or {sum = 0, n = 0}
        group.sum, group.n = group.sum + math.abs(tonumber(error)), group.n + 1
        off[family .. " " .. quantity] = group
      end
    end
    local function near(quantity, id, chip, share)
      local key = table.concat({quantity, id, chip}, " ")
      assert.near(want[key], got[key], share * want[key], key)
    end
    for _, chip in ipairs{"gc2", "gc200"} do
      -- one column: one vertex, three memory elements
      for _, id in ipairs{"triangular_solve_1_64_1_64_float_left",
        "triangular_solve_8_64_1_64_float_left"} do
        near("cycles", id, chip, 0.01)
        near("max_tile_bytes", id, chip, 0)
        near("total_bytes", id, chip, 0.15)
      end
      -- units in float32
      near("cycles", "lstm_8_25_1024_1024_float_train", chip, 0.08)
      near("total_bytes", "fc_layer_8_1000_1000_float", chip, 0.05)
      -- a matrix trained on one row streams past it
      near("max_tile_bytes", "fc_layer_1_1000_5_float", chip, 0)
      near("max_tile_bytes", "fc_layer_1_1000_1000_float", chip, 0.01)
      near("total_bytes", "fc_layer_1_1000_5_float", chip, 0.1)
      -- sums that some tiles have in another order than the others, or none has
      for _, id in ipairs{"resnet50_tr_bs1_bm128L0A0_reduce", "resnet50_tr_bs1_cnv_reduce"} do
        near("max_tile_bytes", id, chip, chip == "gc2" and 0 or 0.1)
      end
      -- Partial sums never lie in one region on GC2. Two small factorisations take the workers'
      -- instructions on GC2, and the units on GC200. The last figure is of a large layer's plan.
      for _, half in ipairs{"true", "false"} do
        near("max_tile_bytes", "cholesky_batch_2_dim_64_block_16_lower_" .. half .. "_type_float",
          chip, 0.01)
      end
      near("total_bytes", "bert_kqv_384x1024x3072", chip, 0.03)
      -- the smaller part of a field that isn't cut evenly
      near("cycles", "inception_tr_bs1_i1_dmaxpool", "gc200", 0.05)
    end
    for name, limit in pairs{["cholesky total_bytes"] = 15, ["triangular_solve cycles"] = 9,
      ["triangular_solve total_bytes"] = 15,
      ["fc total_bytes"] = 5, ["cholesky max_tile_bytes"] = 15,
      ["reduce max_tile_bytes"] = 5, ["lstm cycles"] = 5} do
      assert.is_true(off[name].sum / off[name].n <= limit, name)
    end
  end)
end)
