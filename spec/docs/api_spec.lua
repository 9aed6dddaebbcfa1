-- docs/api.md and docs/library/ipulua.lua are those that `make docs` writes; everything public has a sentence, which help shows too.

local command = require "spec.support.command"
local help = require "ipulua.help"
local ipu = require "ipulua"

describe("docs/api.md", function()
  local apart <const> = {Function = require "ipulua.func".Function, Job = require "ipulua.jobs".Job,
    HostEmbedding = require "ipulua.host_embedding".HostEmbedding} -- classes that are got otherwise
  local page, library = command.read("docs/api.md"), command.read("docs/library/ipulua.lua")

  it("is up to date, as is docs/library/ipulua.lua", function()
    local folder = command.folder()
    local made = command.run{command.ipulua, "docs/source/make_api.lua", folder}
    assert.equal("", made.err)
    local written, annotated = command.read(folder .. "/api.md"), command.read(folder .. "/ipulua.lua")
    command.remove(folder)
    assert.is_true(page == written, "run make docs")
    assert.is_true(library == annotated, "run make docs")
  end)

  it("has every function and class of ipu, with the words that help has", function()
    assert.is_function(load(library))
    for name in page:gmatch("\n%*%*([%w_.]+)%*%* – [^\n]*") do
      local value = apart[name] or ipu
      for part in (apart[name] and "" or name):gmatch("[^.]+") do value = value[part] end
      local lines = help.lines(value, "ipu." .. name)
      assert.is_true(lines and #lines >= 2, name)
      local sentence = lines[2]:gsub("%*", "\\*")
      assert.is_truthy(page:find(sentence, 1, true), name)
      assert.is_truthy(library:find("---" .. lines[2], 1, true), name)
    end
  end)

  it("lists every option of IPUConfig with its default", function()
    local cfg = ipu.IPUConfig()
    local count = 0
    for name, default in page:gmatch("\n| `([%w_.]+)` | %w+ | `([^`]*)` |") do
      local metadata = cfg:get_attribute_metadata(name)
      count = count + 1
      if type(metadata.default) ~= "table" then
        local text = type(metadata.default) == "string" and '"' .. metadata.default .. '"' or tostring(metadata.default)
        assert.equal(text, default)
      end
    end
    local options = 0
    for _ in pairs(cfg:to_dict()) do options = options + 1 end
    assert.equal(options, count)
  end)
end)
