-- A layer, an optimizer or a format of files is added by touching one file: each is added to a copy
-- of the tree, and then is all that the others of its kind are.
local command = require "spec.support.command"

local build <const> = command.ipulua:match("([^/]+)/[^/]*$")

-- Adds text to a file of the copy, before what it returns.
local function add(root, file, text)
  local path <const> = root .. "/" .. file
  local former <const> = command.read(path)
  local at
  for position in former:gmatch("()\nreturn ") do at = position end
  command.write(path, former:sub(1, at) .. text .. former:sub(at))
end

describe("one file adds", function()
  local root

  -- The words that a script prints, run in the copy.
  local function run(script)
    local r = command.run{root .. "/" .. build .. "/ipulua", "-e", script,
      env = {IPULUA_PROGRESS = "off"}}
    assert.equal(0, r.status, r.err)
    return r.out
  end

  setup(function()
    root = command.folder()
    os.execute(string.format("mkdir -p %s/%s && cp -a %s %s/%s/ && cp -a lua docs src Makefile %s",
      root, build, command.quote(command.ipulua), root, build, root))
  end)
  teardown(function() command.remove(root) end)

  it("a layer: found by its names, refused, saved, explained and in the reference", function()
    add(root, "lua/ipulua/keras/layers/activation.lua", [[
local Times = Layer.declare("Times", {{"factor", "number", 2, range = "(0, inf)"}})
layers.Times = Times

function Times:call(x) return x * self.factor end

about.say("layers", {
  {"Times", text = "What it is given, times a factor.", source = "Euclid, book V",
    keras = false, takes_one = true, other_names = {"Scaled"}, section = "Core", sample = "Times(3)", input = {2, 3},
    wrong = "Times(-1)", is = "[batch, ...] → [batch, ...]"},
}, layers)
]])
    local out = run(string.format([[
      local ipu = require "ipulua"
      local keras, layers = ipu.keras, ipu.keras.layers
      print(layers.Scaled == layers.Times, layers.Times(3)(ipu.ones{1, 2}))
      print(select(2, pcall(layers.Times(), {ipu.ones{1}, ipu.ones{1}})))
      local model = keras.Sequential{layers.Times{factor = 5, input_shape = {2}}}
      model:save %q
      print(keras.models.load_model(%q).layers[1].factor)
      print(table.concat(require "ipulua.tools.help".lines(layers.Times), "\n"))]],
      root .. "/m.safetensors", root .. "/m.safetensors"))
    assert.truthy(out:find("true\t[[3. 3.]]", 1, true), out)
    assert.matches("layer 'times[_%d]*' takes one tensor, got a list of 2", out)
    assert.matches("\n5%.?0?\n", out)
    assert.truthy(out:find("What it is given, times a factor.", 1, true), out)
    assert.truthy(out:find("Euclid, book V", 1, true), out)
    local made = command.run{"sh", "-c", string.format(
      "cd %s && mkdir out && %s/ipulua docs/source/make_keras.lua out && cat out/keras.md", root,
      build)}
    assert.matches("%*%*Times%*%* – What it is given.-Takes: `factor`.-%[2, 3%] → %[2, 3%]"
      .. ".-Errors: `layers%.Times%(%-1%)`.-Source: Euclid, book V", made.out)
  end)

  it("an optimizer: found by its name, fitted with, saved", function()
    add(root, "lua/ipulua/keras/optimizers/rules.lua", [[
local Signed = declare("Signed", 0.25, {{"power", "number", 1}})

function Signed:update(v, g, s)
  return v - ops.sign(g) * scalar(s.rate, g) * self.power
end
]])
    local out = run(string.format([[
      local ipu = require "ipulua"
      local keras, layers = ipu.keras, ipu.keras.layers
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}, use_bias = false,
        kernel_initializer = "zeros"}}
      model:compile{optimizer = "signed", loss = "mse"}
      model:fit(ipu.ones{32, 1}, ipu.ones{32, 1}, {epochs = 3, verbose = 0})
      print(model:get_weights()[1]:item())
      model:save %q
      print(keras.models.load_model(%q).optimizer)
      print(keras.optimizers.get{class_name = "Signed", config = {power = 2}}.power)]],
      root .. "/o.safetensors", root .. "/o.safetensors"))
    assert.matches("^0%.75\n.*Signed{.*power = 1.*\n2", out)
  end)

  it("a format of weights: saved and loaded by its ending, which messages name", function()
    add(root, "lua/ipulua/keras/files/formats.lua", [[
table.insert(formats.rows, {ending = ".text",
  write = function(path, tensors)
    local lists = {}
    for name, t in pairs(tensors) do lists[name] = t:totable() end
    core.replace_file(path, json.encode(lists))
  end,
  read = function(path)
    local file <close> = assert(io.open(path))
    local tensors = {}
    for name, list in pairs(json.decode(file:read("a"))) do tensors[name] = core.tensor(list) end
    return tensors
  end})
]])
    local out = run(string.format([[
      local ipu = require "ipulua"
      local layers = ipu.keras.layers
      local model = ipu.keras.Sequential{layers.Dense{1, input_shape = {2},
        kernel_initializer = "ones"}}
      local path = %q
      model:save_weights(path)
      local kernel = model:get_weights()[1]
      model:set_weights{kernel * 2, ipu.zeros{1}}
      model:load_weights(path)
      print(model:get_weights()[1]:totable()[2][1])
      print(select(2, pcall(model.load_weights, model, "w.txt")))]], root .. "/w.text"))
    assert.matches("^1%.0\n.*must end in %.safetensors, %.npz, %.h5 or %.text", out)
  end)

  it("a format of tensors, which Lua and models know then, too", function()
    local path <const> = root .. "/src/tensor/formats.c"
    local text, count = command.read(path):gsub('\n( *){"%.npz",',
      '\n%1{".safe", safetensors_read, safetensors_write, .metadata = true},%0')
    assert.equal(1, count)
    -- what is newer than this file is what was touched
    assert.is_true(os.execute(string.format("cp -a %s/. %s/%s/", build, root, build)))
    command.write(path, text)
    local flags <const> = os.getenv("CFLAGS")
    local made = command.run{"sh", "-c", string.format("cd %s && make -s BUILD=%s %s %s %s/ipulua",
      root, build, "CC=" .. command.quote(os.getenv("CC") or "gcc"),
      flags and "CFLAGS=" .. command.quote(flags) or "", build)}
    assert.equal(0, made.status, made.err)
    local out = run(string.format([[
      local ipu = require "ipulua"
      local path = %q
      ipu.save(path, {x = ipu.ones{2}})
      print(ipu.load(path).x)
      print(select(2, pcall(ipu.load, "x.txt")))
      local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
      model:save_weights(path)
      model:load_weights(path)
      print(select(2, pcall(model.save_weights, model, "w.txt")))]], root .. "/x.safe"))
    assert.matches("^%[1%. 1%.%]\n[^\n]*must end in %.safetensors, %.safe, %.npz or %.npy\n"
      .. "[^\n]*must end in %.safetensors, %.safe[^\n]*%.npz", out)
  end)
end)
