-- The references are as `make docs` writes them, which runs every call on them. Each entry has one
-- form: a sentence, the way to call it, a call that ran with its result, and a table of arguments.
-- Results, errors and uses follow.

local command = require "spec.support.command"
local core = require "ipulua.core"
local reference_pages = require "spec.support.reference_pages"

-- Pages that are lists, not entries of this form.
local lists <const> = {["docs/reference/api/values.md"] = true,
  ["docs/reference/api/enumerations.md"] = true,
  ["docs/reference/api/options-of-ipuconfig.md"] = true,
  ["docs/reference/keras/other-names.md"] = true}

for _, reference in ipairs{"ops", "keras", "api"} do
  describe("docs/reference/" .. reference, function()
    local entries, pages = reference_pages.read(reference)

    it("is up to date, and all its calls run (make docs)", function()
      local folder = command.folder()
      local made = command.run{command.ipulua, "docs/source/make_" .. reference .. ".lua", folder}
      assert.equal(0, made.status, made.err)
      local written, count = {}, 0
      local pipe <close> = assert(io.popen(string.format("cd '%s' && find . -type f", folder)))
      for path in pipe:lines() do written[path:sub(3)] = command.read(folder .. "/" .. path) end
      command.remove(folder)
      for path, text in pairs(written) do
        local root = path:find("%.lua$") and "docs/library/" or "docs/reference/"
        count = count + 1
        assert.is_true(command.read(root .. path) == text, path .. " is old: run make docs")
      end
      for path in pairs(pages) do
        assert.is_truthy(written[path:gsub("^docs/reference/", "")], path .. " is left over")
      end
      assert.is_true(count > 10, count)
    end)

    it("has entries of one form", function()
      local count, wrong = 0, {}
      for _, e in ipairs(entries) do
        if not lists[e.page] and not e.other then
          local function says(value, what)
            if not value then wrong[#wrong + 1] = ("%s: %s has no %s"):format(e.page, e.name,
              what) end
          end
          count = count + 1
          says(e.text and e.text:find("%w") and e.text:find("[.:`]$"), "sentence")
          says(e.signature or e.elsewhere or e.call, "signature")
          says(e.call and e.gives:find("%S") or e.elsewhere, "call that ran")
          local given = e.signature and e.signature:match("%b()")
          says(not given or given == "()" or #e.arguments > 0, "table of arguments")
          for _, row in ipairs(e.arguments) do
            says(#row == 4 and row[2]:find("%S") and row[3]:find("%S"), "type of " .. row[1])
          end
          for _, kind in ipairs{"Result", "Errors", "See also"} do says(e.notes[kind], kind) end
          says((e.notes["See also"] or ""):find("%]%([^)]+%)"), "link")
        end
      end
      assert.same({}, wrong)
      assert.is_true(count > 150, count)
    end)

    it("has an index that leads to each page", function()
      local index = command.read("docs/reference/" .. reference .. ".md")
      for path in pairs(pages) do
        assert.is_truthy(index:find("(" .. path:gsub("^docs/reference/", "") .. ")", 1, true), path)
      end
    end)
  end)
end

describe("docs/reference/ops", function()
  local by_name = {}
  for _, e in ipairs(reference_pages.read "ops") do by_name[e.name] = e end

  it("has each op, with its shapes, dtypes and gradient, and its attributes", function()
    local public, found = 0, 0
    for name in pairs(core.ops) do
      local row = core.describe_op(name)
      if not row.internal then
        local e = by_name[name]
        public = public + 1
        assert.is_truthy(e, name)
        assert.matches("^`[^`]+`$", e.notes.Shapes, nil, nil, name)
        assert.matches("^%l", e.notes.Gradient)
        assert.matches("→ ?[%w ]", e.body, nil, nil, name)
        assert.equal(#row.inputs + #row.attributes, #e.arguments, name)
        for i, a in ipairs(row.attributes) do
          assert.equal(a.name, e.arguments[#row.inputs + i][1])
        end
        assert.is_truthy(#row.inputs == 0 or e.notes.Errors:find("`" .. name, 1, true), name)
      end
    end
    for _ in pairs(by_name) do found = found + 1 end
    assert.equal(public, found)
  end)
end)

describe("docs/reference/keras", function()
  it("says the weights of each layer, and the state of losses, metrics and optimizers", function()
    local counts = {Weights = 0, State = 0}
    for _, e in ipairs((reference_pages.read "keras")) do
      local part = e.page:match("keras/(%l+)")
      local kind = part == "layers" and "Weights"
        or (part == "losses" or part == "metrics" or part == "optimizers") and "State"
      if kind and not e.other then
        counts[kind] = counts[kind] + 1
        assert.is_truthy(e.notes[kind], e.name .. " does not say its " .. kind)
      end
    end
    assert.is_true(counts.Weights > 100 and counts.State > 75, counts.Weights .. " "
      .. counts.State)
  end)
end)
