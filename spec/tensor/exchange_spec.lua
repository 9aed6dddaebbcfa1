-- Files exchanged with NumPy: .npy, .npz and .safetensors, each written there and read here, and
-- the other way round.
local command = require "spec.support.command"

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
end)
