-- docs/keras.md and docs/library/keras.lua are those that `make docs` writes, and name everything public.

local class = require "ipulua.class"
local command = require "spec.support.command"
local ipu = require "ipulua"

describe("docs/keras.md", function()
  local internal <const> = {prepare = true, reduce = true, get = true} -- of losses and metrics, for the library itself
  local page, library = command.read("docs/keras.md"), command.read("docs/library/keras.lua")

  it("is up to date, as is docs/library/keras.lua", function()
    local folder = command.folder()
    assert.is_true(os.execute(string.format("'%s' docs/source/make_keras.lua %s", command.ipulua, folder)))
    local written, annotated = command.read(folder .. "/keras.md"), command.read(folder .. "/keras.lua")
    command.remove(folder)
    assert.is_true(page == written, "run make docs")
    assert.is_true(library == annotated, "run make docs")
  end)

  it("holds what is public, with annotations", function()
    assert.is_function(load(library))
    local function check(module, list, name_in_library)
      for name, value in pairs(list) do
        if type(name) == "string" and name:find("^%a") and not internal[name] then
          local shown = class.is_class(value) and "**" .. name .. "**" or name
          assert.is_truthy(page:find(shown, 1, true), module .. "." .. name .. " is not in docs/keras.md")
          if class.is_class(value) then
            local annotation = "---@class keras." .. name_in_library .. "." .. name
            assert.is_truthy(library:find(annotation, 1, true), annotation)
          end
        end
      end
    end
    for _, module in ipairs{"layers", "losses", "metrics", "initializers", "regularizers", "constraints", "callbacks"} do
      check(module, ipu.keras[module], module)
    end
    local optimizers = {}
    for name, value in pairs(ipu.keras.optimizers) do
      if class.is_class(value) then optimizers[name] = value end
    end
    check("optimizers", optimizers, "optimizers")
    check("schedules", ipu.keras.optimizers.schedules, "schedules")
    for _, name in ipairs(ipu.keras.__names()) do assert.is_truthy(page:find(name, 1, true), name) end
    for _, module in ipairs{"activations", "utils", "datasets", "mixed_precision"} do
      for name in pairs(ipu.keras[module]) do assert.is_truthy(page:find(name, 1, true), name) end
    end
  end)
end)
