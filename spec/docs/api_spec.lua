-- The pages of docs/reference/api describe every public name, in the words of help.
-- references_spec.lua checks that they are as `make docs` writes them.

local command = require "spec.support.command"
local class = require "ipulua.base.class"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"
local reference_pages = require "spec.support.reference_pages"

describe("docs/reference/api", function()
  local apart <const> = {Function = require "ipulua.trace.func".Function,
    Job = require "ipulua.trace.jobs".Job,
    -- classes that are got otherwise
    InputContext = require "ipulua.strategy.data".InputContext,
    HostEmbedding = require "ipulua.trace.host_embedding".HostEmbedding}
  local listed_entries, pages_of = reference_pages.read "api"
  local values_page = pages_of["docs/reference/api/values.md"]
  local options_page = pages_of["docs/reference/api/options-of-ipuconfig.md"]
  local library = command.read("docs/library/ipulua.lua")

  -- The entries of functions, classes and methods.
  local function entries()
    local list = {}
    for _, e in ipairs(listed_entries) do
      if e.page ~= "docs/reference/api/values.md" and not e.other then list[#list + 1] = e end
    end
    return list
  end

  local function takes_any(e) return e.signature and e.signature:match("%b()") ~= "()" end

  it("has every function and class of ipu, with the words that help has", function()
    assert.is_function(load(library))
    for _, e in ipairs(entries()) do
      local value = apart[e.name] or ipu
      local is_method = e.name:find(":", 1, true)
      for part in (apart[e.name] and "" or e.name):gmatch("[^.]+") do
        value = not is_method and value[part]
      end
      local lines = value and help.lines(value, "ipu." .. e.name)
      if value then
        assert.is_true(lines and #lines >= 2, e.name)
        assert.is_truthy(e.text:find(lines[2]:gsub("%*", "\\*"), 1, true), e.name)
        assert.is_truthy(library:find("---" .. lines[2], 1, true), e.name)
      end
    end
  end)

  -- Each page names what is in its part with or without the module in front.
  it(
    "or another page has every name that help lists of a module, and help all that it has",
    function()
    local pages = {}
    for _, name in ipairs{"api", "ops", "keras"} do
      pages[#pages + 1] = reference_pages.text(name)
    end
    local text, walked, missing = table.concat(pages), 0, {}
    local function walk(path, module)
      for _, name in ipairs(help.names(module) or {}) do
        local value, full = module[name], path .. name
        local short = full:gsub("^keras%.", "")
        local leaf = name:gsub("%p", "%%%0")
        missing[#missing + 1] = not (text:find(short, 1, true)
          or text:find("\n### " .. leaf .. "\n") or text:find("%*%*" .. leaf .. "%*%*")
          or text:find("`" .. leaf .. "[`(]")
          or path == "keras.backend." and text:find("\n### K%." .. leaf .. "\n"))
          and "ipu." .. full or nil
        walked = walked + 1
        if type(value) == "table" and not class.is_class(value) then walk(full .. ".", value) end
      end
    end
    walk("", ipu)
    assert.same({}, missing)
    assert.is_true(walked > 600, walked)
    local function listed(name)
      local place, leaf = name:match("^(.-)%.?([^.]+)$")
      local module = ipu
      for part in place:gmatch("[^.]+") do module = module[part] end
      for _, each in ipairs(help.names(module)) do if each == leaf then return true end end
    end
    for _, e in ipairs(entries()) do
      if not e.name:find(":", 1, true) then
        assert.is_true(apart[e.name] ~= nil or listed(e.name), e.name)
      end
    end
    for name in pages[2]:gmatch("\n### ([%w_.]+)\n") do assert.is_true(listed(name), name) end
    for _, name in ipairs{"check_parameters", "innermost", "parameter_count"} do
      assert.is_nil(listed("loops." .. name))
    end
    assert.is_true(listed("keras.losses.mean_squared_error") and listed("train.Checkpoint")
      and not listed("keras.losses.prepare"))
  end)

  it("says of each entry its arguments, their types and its errors", function()
    local count = 0
    for _, e in ipairs(entries()) do
      if takes_any(e) then
        count = count + 1
        assert.is_true(#e.arguments > 0, e.name .. " does not say what it takes")
        assert.matches("%w", e.notes.Errors, nil, nil, e.name)
      end
    end
    assert.is_true(count > 140, count)
  end)

  -- A row of type any says its types in words. A range comes from the check, so the row's message
  -- must give it, too.
  it("says of no argument that it may be anything", function()
    -- which any value may be given to
    local anything <const> = {["is_tensor"] = true, ["json.encode"] = true}
    for _, e in ipairs(entries()) do
      for _, row in ipairs(anything[e.name] and {} or e.arguments) do
        assert.is_false(row[2] == "any", e.name .. " does not say what " .. row[1] .. " may be")
      end
    end
  end)

  it("has the fields and methods of tensors and variables", function()
    local core = require "ipulua.core"
    local values, count = values_page .. "\n### ", 0
    local short = {} -- x:sum()
    for name in pairs(core.ops) do
      local method = core.describe_op(name).method
      if method then short[method] = true end
    end
    local of_tensors = values:match("\n### Tensor\n(.-)\n### ")
    for method in pairs(short) do
      assert.is_truthy(of_tensors:find("`" .. method .. "`"), method)
    end
    for name, value in pairs{Tensor = ipu.ones{2}, Variable = ipu.Variable{1, 2}} do
      local text = values:match("\n### " .. name .. "\n(.-)\n### ")
      for method in pairs(debug.getregistry()["ipulua." .. name].methods) do
        local function is_op(module) return core.ops[module .. method] ~= nil end
        if not (short[method] or is_op "" or is_op "nn." or is_op "random." or is_op "linalg.") then
          count = count + 1
          assert.is_truthy(text:find("\n- `:" .. method .. "(", 1, true), name .. ":" .. method)
        end
      end
      for field, kind in text:match("Fields: ([^\n]*)"):gmatch("`([%w_]+)` (%w+)") do
        local got = math.type(value[field]) or core.is_tensor(value[field]) and "tensor"
          or type(value[field])
        assert.equal(kind, got == "table" and "integer" or got, name .. "." .. field)
      end
    end
    assert.is_true(count >= 8, count)
  end)

  it("says the shapes where tensors go in or come out", function()
    local count = 0
    for _, e in ipairs(entries()) do
      local types = {}
      for i, row in ipairs(e.arguments) do types[i] = row[2] end
      local all = table.concat(types, " ") .. " " .. e.notes.Result
      if all:find("%f[%a]tensor%f[%A]")
        or e.notes.Result:find("Dataset", 1, true) and e.name ~= "data.Dataset"
        or e.name:find("^%l+%.%w*Optimizer%w*$") then
        count = count + 1
        assert.is_truthy(e.notes.Shapes, e.name .. " does not say shapes")
      end
    end
    assert.is_true(count > 50)
  end)

  it("says the units of what is measured", function()
    local count = 0
    for _, e in ipairs(entries()) do
      for _, word in ipairs{"seconds", "cycles", "duration", "bandwidth", "time steps",
        "timestamp"} do
        if e.body:find(word, 1, true) then
          count = count + 1
          assert.is_truthy(e.notes.Units, e.name .. " speaks of " .. word .. " without units")
        end
      end
    end
    assert.is_true(count > 3)
  end)

  it("says which options of IPUConfig nothing reads", function()
    local sources = {}
    for path in io.popen("find lua src -name '*.lua' -o -name '*.c'"):lines() do
      if not path:find("config_options.lua", 1, true) then
        sources[#sources + 1] = command.read(path):gsub("%-%-%-@field[^\n]*", "")
      end
    end
    local all = table.concat(sources)
    for name in pairs(ipu.IPUConfig():to_dict()) do
      local words = options_page:match("\n| `" .. name:gsub("%p", "%%%0") .. "` |[^\n]*")
      local is_read = all:find("%f[%w_]" .. name:match("[%w_]+$") .. "%f[^%w_]") ~= nil
      if not is_read then
        assert.is_truthy(words:find("Accepted, without effect", 1, true),
          name .. " is read nowhere")
      end
      if all:find('get("' .. name .. '")', 1, true) then
        assert.is_falsy(words:find("Accepted, without", 1, true), name)
      end
    end
  end)

  it("lists every option of IPUConfig with its default", function()
    local cfg = ipu.IPUConfig()
    local count = 0
    for name, default, words in options_page:gmatch("\n| `([%w_.]+)` | [^|]+ | `([^`]*)` | "
      .. "([^\n]*) |") do
      -- a number of something, first of all said
      if math.type(cfg:get_attribute_metadata(name).default) == "integer" then
        local units = "^Bytes |^Rows |^Tiles |^How many |^The number of |^The index of "
        local says = false
        for unit in units:gmatch("[^|]+") do says = says or words:find(unit) ~= nil end
        assert.is_true(says, name .. " does not say what it counts: " .. words)
      end
      local metadata = cfg:get_attribute_metadata(name)
      count = count + 1
      if type(metadata.default) ~= "table" then
        local text = type(metadata.default) == "string" and '"' .. metadata.default .. '"'
          or tostring(metadata.default)
        assert.equal(text, default)
      end
    end
    local options = 0
    for _ in pairs(cfg:to_dict()) do options = options + 1 end
    assert.equal(options, count)
  end)
end)
