-- Files exchanged with NumPy: .npy, .npz and .safetensors, each written there and read here, and
-- the other way round.
local command = require "spec.support.command"
local ipu = require "ipulua"
local json = require "ipulua.base.json"

describe("files exchanged with NumPy", function()
  it("hold the same elements on both sides", function()
    local check = command.ipulua:match("^(.*)/[^/]*$") .. "/tensor_check"
    if not os.execute("test -x " .. command.quote(check)) then
      return pending("make checks builds " .. check)
    end
    local folder = command.folder()
    local r = command.run{command.python "numpy", "spec/support/tensor_files.py", check, folder}
    command.remove(folder)
    assert.equal(0, r.status, r.err)
    assert.truthy(r.out:find("formats agree", 1, true))
  end)

  -- As the format's own writer orders them: so each begins at a multiple of its elements' size.
  it("lie in a .safetensors file by the size of their elements, then by name", function()
    local path <const> = command.scratch ".safetensors"
    ipu.save(path, {a = ipu.zeros({3}, {dtype = "int8"}), b = ipu.zeros{2},
      c = ipu.zeros({1}, {dtype = "float64"}), d = ipu.zeros({1}, {dtype = "float16"}),
      e = ipu.zeros{1}, f = ipu.zeros({1}, {dtype = "int64"})})
    local file <close> = assert(io.open(path, "rb"))
    local text <const> = file:read("a")
    os.remove(path)
    local header <const> = json.parse(text:sub(9, 8 + string.unpack("<I8", text)))
    local places = {}
    for name, each in pairs(header) do
      if name ~= "__metadata__" then
        places[#places + 1] = string.format("%02d %s", each.data_offsets[1], name)
      end
    end
    table.sort(places)
    assert.equal("00 c, 08 f, 16 b, 24 e, 28 d, 30 a", table.concat(places, ", "))
  end)
end)
