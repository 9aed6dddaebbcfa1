-- The pages of docs/reference/keras and docs/library/keras.lua name all that is public; that they
-- are as `make docs` writes them is checked in references_spec.lua.

local class = require "ipulua.base.class"
local command = require "spec.support.command"
local ipu = require "ipulua"
local reference_pages = require "spec.support.reference_pages"

describe("docs/reference/keras", function()
  -- of losses and metrics, for the library itself
  local internal <const> = {prepare = true, reduce = true, get = true}
  local page = reference_pages.text "keras"
  local library = command.read("docs/library/keras.lua")

  it("writes an argument that may be left out by position where a later one may not", function()
    local signature = assert(loadfile("docs/source/rows.lua"))().signature
    assert.equal("units, {use_bias = true, name = nil}",
      signature{{"units", "integer"}, {"use_bias", "boolean", true},
        {"name", "string", optional = true}})
    assert.equal("data, targets = nil, length, {stride = 1}",
      signature{{"data", "tensor"}, {"targets", "tensor", optional = true}, {"length", "integer"},
        {"stride", "integer", 1}})
  end)

  -- Entries with the first word of their page: "layers", "losses" …
  local function entries()
    local list = {}
    for _, e in ipairs((reference_pages.read "keras")) do
      e.section = e.page:match("keras/([%l-]+)"):match("^layers") or e.page:match("keras/([%l-]+)")
      if not e.other then list[#list + 1] = e end
    end
    return list
  end

  it("says the types of arguments, shapes, and an error of each", function()
    local tensors <const> = {layers = true, losses = true, metrics = true, optimizers = true,
      initializers = true, regularizers = true, constraints = true, ["data-sets"] = true}
    local counts = {arguments = 0, shapes = 0}
    for _, e in ipairs(entries()) do
      if e.signature and e.signature:match("%b()") ~= "()" then
        counts.arguments = counts.arguments + 1
        assert.is_true(#e.arguments > 0, e.name .. " does not say what it takes")
        assert.is_truthy(e.notes.Errors, e.name .. " says no error")
      end
      if tensors[e.section] or e.notes.Result == "tensor" and e.section ~= "backend"
        and e.section ~= "activations" then
        counts.shapes = counts.shapes + 1
        assert.is_truthy(e.notes.Shapes, e.name .. " says no shapes")
      end
    end
    assert.is_true(counts.arguments > 220 and counts.shapes > 200,
      counts.arguments .. " " .. counts.shapes)
  end)

  -- Shapes of what layers and the like take and give have names for extents, which make_keras
  -- compares with samples.
  it("names extents in shapes, and a source of each part", function()
    local own <const> = {layers = true, losses = true, metrics = true, optimizers = true,
      initializers = true, regularizers = true, constraints = true, callbacks = true}
    local counts = {names = 0, sources = 0}
    for _, e in ipairs(entries()) do
      local shape = e.notes.Shapes
      if own[e.section] and e.section ~= "callbacks" and not shape:find("^as ")
        and not shape:find("^any") then
        counts.names = counts.names + 1
        assert.is_truthy(shape:find("%[[%a.]") or shape:find("%[%]"),
          e.name .. " names no extents: " .. shape)
      end
      if own[e.section] and not e.notes.Errors:find("^as ") then
        counts.sources = counts.sources + 1
        assert.is_truthy(e.notes.Source, e.name .. " says no source")
      end
    end
    assert.is_true(counts.names > 170 and counts.sources > 180,
      counts.names .. " " .. counts.sources)
  end)

  it("says of no argument that it may be anything", function()
    for _, e in ipairs(entries()) do
      for _, row in ipairs(e.arguments) do
        assert.is_falsy(row[2]:find("^any$") or row[2]:find("^any%[%]$"),
          e.name .. " does not say what " .. row[1] .. " may be")
      end
    end
  end)

  it("holds what is public, with annotations", function()
    assert.is_function(load(library))
    local function check(module, list, name_in_library)
      for name, value in pairs(list) do
        if type(name) == "string" and name:find("^%a") and not internal[name] then
          local shown = class.is_class(value) and "### " .. name .. "\n" or name
          assert.is_truthy(page:find(shown, 1, true), module .. "." .. name
            .. " is not in docs/reference/keras")
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
