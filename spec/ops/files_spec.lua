-- An op is found by its name. Its row stands in a file or a folder of its name. Otherwise it is in
-- the file of a family, which is listed here with its ops.
local command = require "spec.support.command"
local rows_of = require "spec.support.op_files".rows_of

-- File → patterns of the names that belong there.
local families <const> = {
  ["elementwise/binary"] = {"^where$"}, -- beside the rows of its tables
  ["elementwise/convert"] = {"^cast$"},
  ["elementwise/unary"] = {"^identity$", "^reading$", "^known$", "_like$",
    "^recomputation_checkpoint$", "^stop_gradient$"},
  ["elementwise/clip"] = {"^l2_"}, -- norms, which clipping is by
  ["index/gather"] = {"^embedding_lookup$"},
  ["index/gather_nd"] = {"^scatter_nd$"},
  ["index/position"] = {"^arg%a+$"},
  ["index/sort"] = {"^top_k$"},
  ["io/collective"] = {"replica", "^all_", "scatter$"},
  ["io/feed"] = {"^host_function$"},
  ["io/remote"] = {"^replica_share$"},
  ["layout/concat"] = {"^split$", "stack$"},
  ["layout/diagonals"] = {"^tri%a$"},
  ["layout/repeat"] = {"^broadcast_to$", "^tile$", "^reverse$"},
  ["layout/shape"] = {"^expand_dims$", "^squeeze$", "^transpose$"},
  ["layout/slice"] = {"^pad$", "^pad_grad$"},
  ["linalg/decompose"] = {"^qr$", "^svd$", "^eigh$"},
  ["linalg/triangular"] = {"^cholesky$"},
  ["linear/linear"] = {"matmul$"},
  ["loss/ctc_decoder"] = {"^ctc_beam_search_decoder"},
  ["loss/loss"] = {"_cross_entropy_"},
  ["norm/norm"] = {"^moments$"},
  ["reduce/histogram"] = {"^fixed_width_bins$"},
  ["reduce/scan"] = {"^cum"},
}

describe("the file of an op", function()
  it("is found by its name, or by its family's", function()
    local count, stray, used = 0, {}, {}
    local pipe <close> = assert(io.popen("ls src/ops/*/*.c"))
    for path in pipe:lines() do
      local folder, file = path:match("([%w_]+)/([%w_]+)%.c$")
      for _, full in ipairs(rows_of(command.read(path))) do
        count = count + 1
        local name <const> = full:match("[%w_]+$")
        local good = full:find(folder .. ".", 1, true) or name:find(file, 1, true)
          or name:find(folder, 1, true) or file == "pooling" and name:find("_pool", 1, true)
        for _, pattern in ipairs(families[folder .. "/" .. file] or {}) do
          if name:find(pattern) then good, used[pattern] = true, true end
        end
        if not good then stray[#stray + 1] = path .. ": " .. full end
      end
    end
    assert.same({}, stray)
    assert(count > 100, count)
    for file, patterns in pairs(families) do
      for _, pattern in ipairs(patterns) do assert(used[pattern], file .. " " .. pattern) end
    end
  end)
end)
