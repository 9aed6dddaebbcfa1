-- docs/reference/keras.md and docs/library/keras.lua are as `make docs` writes them, and name all
-- public.

local class = require "ipulua.base.class"
local command = require "spec.support.command"
local ipu = require "ipulua"

describe("docs/reference/keras.md", function()
  -- of losses and metrics, for the library itself
  local internal <const> = {prepare = true, reduce = true, get = true}
  local page = command.read("docs/reference/keras.md")
  local library = command.read("docs/library/keras.lua")

  it("is up to date, as is docs/library/keras.lua", function()
    local folder = command.folder()
    assert.is_true(
      os.execute(string.format("'%s' docs/source/make_keras.lua %s", command.ipulua, folder)))
    local written, annotated = command.read(folder .. "/keras.md"),
      command.read(folder .. "/keras.lua")
    command.remove(folder)
    assert.is_true(page == written, "run make docs")
    assert.is_true(library == annotated, "run make docs")
  end)

  it("writes an argument that may be left out by position where one behind it may not", function()
    local signature = assert(loadfile("docs/source/rows.lua"))().signature
    assert.equal("units, {use_bias = true, name = nil}",
      signature{{"units", "integer"}, {"use_bias", "boolean", true},
        {"name", "string", optional = true}})
    assert.equal("data, targets = nil, length, {stride = 1}",
      signature{{"data", "tensor"}, {"targets", "tensor", optional = true}, {"length", "integer"},
        {"stride", "integer", 1}})
  end)

  -- Entries: **Name** with what stands below it, and functions and methods in lists.
  local function entries()
    local list, entry, section = {}, nil, nil
    for line in page:gmatch("[^\n]+") do
      section = line:match("^## (.*)") or section
      local name, method, arguments = line:match("^%*%*(%w+)%*%* – "),
        line:match("^%- `([%w_.:]+)(%b())`")
      if name or method then
        entry = {name = name or method, section = section, text = "", arguments = arguments}
        list[#list + 1] = entry
      end
      if line:find("^`[%w_.]+%b()`$") then entry.arguments = line:match("%b()") end
      if line:find("^#") or line:find("^%- %*%*") then entry = nil end
      if entry then entry.text = entry.text .. line .. "\n" end
    end
    return list
  end

  it("says the types of arguments, shapes, and an error of each", function()
    local tensors <const> = {Layers = true, Losses = true, Metrics = true, Optimizers = true,
      Initializers = true, Regularizers = true,
      Constraints = true, ["Data sets"] = true}
    local counts = {arguments = 0, shapes = 0}
    for _, e in ipairs(entries()) do
      if e.arguments and e.arguments ~= "()" then
        counts.arguments = counts.arguments + 1
        assert.is_truthy(e.text:find("\n *%- Takes: %S"), e.name .. " does not say what it takes")
        assert.is_truthy(e.text:find("\n *%- Errors: %S") or e.section == "Callbacks"
          and e.name == "LambdaCallback"
          or e.section == "Backend", e.name .. " says no error")
      end
      if tensors[e.section] or e.text:find("→ tensor", 1, true) then
        counts.shapes = counts.shapes + 1
        assert.is_truthy(e.text:find("\n *%- Shapes: %S"), e.name .. " says no shapes")
      end
    end
    assert.is_true(counts.arguments > 220 and counts.shapes > 200,
      counts.arguments .. " " .. counts.shapes)
  end)

  -- Shapes of what layers and the like take and give have names for extents, which make_keras
  -- compares with samples.
  it("names extents in shapes, and a source of each part", function()
    local own <const> = {Layers = true, Losses = true, Metrics = true, Optimizers = true,
      Initializers = true, Regularizers = true,
      Constraints = true, Callbacks = true}
    local counts = {names = 0, sources = 0}
    for _, e in ipairs(entries()) do
      local shape = e.text:match("\n *%- Shapes: ([^\n]*)")
      if own[e.section] and e.section ~= "Callbacks" and not shape:find("^as ")
        and not shape:find("^any") then
        counts.names = counts.names + 1
        assert.is_truthy(shape:find("%[[%a.]") or shape:find("%[%]"),
          e.name .. " names no extents: " .. shape)
      end
      if own[e.section] and not e.text:find("Errors: as ") then
        counts.sources = counts.sources + 1
        assert.is_truthy(e.text:find("\n *%- Source: %S"), e.name .. " says no source")
      end
    end
    assert.is_true(counts.names > 170 and counts.sources > 180,
      counts.names .. " " .. counts.sources)
  end)

  it("says of no argument that it may be anything", function()
    local fixed <const> = {["K.is_keras_tensor"] = true}
    for _, e in ipairs(entries()) do
      local takes = not fixed[e.name] and e.text:match("Takes: ([^\n]*)") or ""
      for each in (takes .. "; "):gmatch("(`[^`]+` [^;]*); ") do
        assert.is_falsy(each:find("^`[^`]+` any$") or each:find("^`[^`]+` any,")
          or each:find("^`[^`]+` any%[%]$"),
          e.name .. " does not say what " .. each .. " may be")
      end
    end
  end)

  it("holds what is public, with annotations", function()
    assert.is_function(load(library))
    local function check(module, list, name_in_library)
      for name, value in pairs(list) do
        if type(name) == "string" and name:find("^%a") and not internal[name] then
          local shown = class.is_class(value) and "**" .. name .. "**" or name
          assert.is_truthy(page:find(shown, 1, true), module .. "." .. name
            .. " is not in docs/reference/keras.md")
          if class.is_class(value) then
            local annotation = "---@class keras." .. name_in_library .. "." .. name
            assert.is_truthy(library:find(annotation, 1, true), annotation)
          end
        end
      end
    end
    for _, module in ipairs{"layers", "losses", "metrics", "initializers", "regularizers",
      "constraints", "callbacks"} do
      check(module, ipu.keras[module], module)
    end
    local optimizers = {}
    for name, value in pairs(ipu.keras.optimizers) do
      if class.is_class(value) then optimizers[name] = value end
    end
    check("optimizers", optimizers, "optimizers")
    check("schedules", ipu.keras.optimizers.schedules, "schedules")
    for _, name in ipairs(ipu.keras.__names()) do
      assert.is_truthy(page:find(name, 1, true), name)
    end
    for _, module in ipairs{"activations", "utils", "datasets", "mixed_precision"} do
      for name in pairs(ipu.keras[module]) do assert.is_truthy(page:find(name, 1, true), name) end
    end
  end)
end)
