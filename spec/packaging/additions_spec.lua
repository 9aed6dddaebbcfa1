-- Additions that need one file, as docs/extending.md says. Its blocks, each with the name of a
-- file, are added to a copy of the tree. There they work like the others of their kind.
local command = require "spec.support.command"

local build <const> = command.ipulua:match("([^/]+)/[^/]*$")

describe("one file adds", function()
  local root
  local blocks = {} -- file → its blocks of docs/extending.md, in order

  local function edit(file, change)
    local path <const> = root .. "/" .. file
    command.write(path, change(command.read(path)))
  end

  -- A block of Lua stands before what the file returns, or at its end.
  local function add_lua(file)
    edit(file, function(text)
      local at = #text
      for position in text:gmatch("()\nreturn ") do at = position end
      return text:sub(1, at) .. blocks[file][1] .. text:sub(at)
    end)
  end

  -- Puts a block before the only place at which that stands.
  local function put_before(file, number, place)
    edit(file, function(text)
      local at = assert(text:find(place, 1, true))
      assert(not text:find(place, at + 1, true))
      return text:sub(1, at - 1) .. blocks[file][number] .. text:sub(at)
    end)
  end

  local function add_chip()
    local file <const> = "src/target/chips.h"
    edit(file, function(text)
      local count
      text, count = text:gsub('("C600"[^\n]+)\n', function(last)
        return last .. " \\\n" .. blocks[file][1]
      end)
      assert(count == 1)
      text, count = text:gsub("(%d+)(%) ?\\?\n)( *X%([a-z])", "%1, %1%2%3")
      text = text:gsub("(%d+)%)\n\n/%* clang%-format on", "%1, %1)\n\n/* clang-format on")
      assert(count > 30)
      -- tiles, since it has more
      return (text:gsub("1472, 1472%)", "1472, 2000)", 1))
    end)
  end

  local function shell(script, ...)
    local r = command.run{"sh", "-c", script:format(...)}
    assert.equal(0, r.status, r.err)
    return r.out
  end

  -- The words that a script prints, run in the copy.
  local function run(script, ...)
    local r = command.run{root .. "/" .. build .. "/ipulua", "-e", script:format(...),
      env = {IPULUA_PROGRESS = "off"}}
    assert.equal(0, r.status, r.err)
    return r.out
  end

  setup(function()
    local page <const> = command.read("docs/extending.md")
    for file, text in page:gmatch("\n```%w+ (%S+)\n(.-\n)```") do
      blocks[file] = blocks[file] or {}
      table.insert(blocks[file], text)
    end
    root = command.folder()
    shell("cp -a lua docs src Makefile %s", root)
    for file in pairs(blocks) do
      if file:find("%.lua$") then add_lua(file) end
    end
    -- The chips' numbers are in no declaration that other files see: what was compiled of these is
    -- as good as new.
    add_chip()
    shell("tar -cf - --exclude=*_check --exclude=*.so* --exclude=*.a --exclude=npm --exclude=deb "
      .. "%s | tar -xf - -C %s", build, root)
    shell("cd %s/%s && find . -name '*.[od]' -exec touch {} + && rm target/target.o", root, build)
    put_before("src/tensor/formats.c", 1, '    {".npz",')
    put_before("src/program/schedule.c", 1, "static const Schedule schedules[]")
    put_before("src/program/schedule.c", 2, '    {.name = "Custom",')
    command.write(root .. "/src/ops/elementwise/bump.c", blocks["src/ops/elementwise/bump.c"][1])
    local flags <const> = os.getenv("CFLAGS")
    shell("cd %s && make -s -j2 BUILD=%s CC=%s %s %s/ipulua", root, build,
      command.quote(os.getenv("CC") or "gcc"),
      flags and "CFLAGS=" .. command.quote(flags) or "", build)
  end)
  teardown(function() command.remove(root) end)

  it("an op: a function and a method, with a gradient and a price", function()
    local out = run[[
      local ipu = require "ipulua"
      print(ipu.nn.bump(ipu.tensor{0, 1}))
      local x = ipu.Variable(ipu.tensor{1})
      print(ipu.func(function() return ipu.gradients(x:bump(), {x})[1] end)())
      local e = ipu.estimate(function(v) return v:bump() end, {inputs = {{1024}}})
      print(e.cycles.compute > 0)
      print(select(2, pcall(ipu.nn.bump, ipu.tensor{1}:cast("int32"))))]]
    -- log 2, log(1 + 1/e), -1/(1 + e)
    assert.matches("^%[0%.693147%d* 0%.313261%d*%]\n%[%-0%.268941%d*%]\ntrue\n[^\n]*bump", out)
  end)

  it("a layer: found by its names, refused, saved, explained and in the reference", function()
    local path <const> = root .. "/m.safetensors"
    local out = run([[
      local ipu = require "ipulua"
      local keras, layers = ipu.keras, ipu.keras.layers
      print(layers.Scaled == layers.Times, layers.Times(3)(ipu.ones{1, 2}))
      print(select(2, pcall(layers.Times(), {ipu.ones{1}, ipu.ones{1}})))
      local model = keras.Sequential{layers.Times{factor = 5, input_shape = {2}}}
      model:save %q
      print(keras.models.load_model(%q).layers[1].factor)
      print(table.concat(require "ipulua.tools.help".lines(layers.Times), "\n"))]], path, path)
    assert.truthy(out:find("true\t[[3. 3.]]", 1, true), out)
    assert.matches("layer 'times[_%d]*' takes one tensor, got a list of 2", out)
    assert.matches("\n5%.?0?\n", out)
    assert.truthy(out:find("The input times a factor.", 1, true), out)
    assert.truthy(out:find("Euclid, book V", 1, true), out)
    local made <const> = shell(
      "cd %s && mkdir out && %s/ipulua docs/source/make_keras.lua out && cat out/keras/*.md", root,
      build)
    assert.matches("### Times\n\nThe input times a.-Call: `layers%.Times%b()%(ipu%.ones{2, 3}%)` "
      .. "→ %[2, 3%].-| `factor` | .-Errors: `layers%.Times%(%-1%)`.-Source: Euclid, book V", made)
  end)

  it("an optimizer: found by its name, fitted with, saved", function()
    local path <const> = root .. "/o.safetensors"
    local out = run([[
      local ipu = require "ipulua"
      local keras, layers = ipu.keras, ipu.keras.layers
      local model = keras.Sequential{layers.Dense{1, input_shape = {1}, use_bias = false,
        kernel_initializer = "zeros"}}
      model:compile{optimizer = "signed", loss = "mse"}
      model:fit(ipu.ones{32, 1}, ipu.ones{32, 1}, {epochs = 3, verbose = 0})
      print(model:get_weights()[1]:item())
      model:save %q
      print(keras.models.load_model(%q).optimizer)
      print(keras.optimizers.get{class_name = "Signed", config = {power = 2}}.power)]], path, path)
    assert.matches("^0%.75\n.*Signed{.*power = 1.*\n2", out)
  end)

  it("a loss: found by its names, weighed, fitted with", function()
    local out = run[[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local y, p = ipu.tensor{{1}, {-1}}, ipu.tensor{{0}, {1}}
      print(keras.losses.get("exponential")(y, p):item())
      print(keras.losses.Exponential{reduction = "sum"}(y, p, ipu.tensor{1, 0}):item())
      local model = keras.Sequential{keras.layers.Dense{1, input_shape = {1}}}
      model:compile{optimizer = "sgd", loss = "Exponential"}
      print(model:fit(y, y, {epochs = 50, verbose = 0}).history.loss[50] < 1)]]
    -- (1 + e) / 2
    assert.matches("^1%.859140%d*\n1%.0\ntrue\n$", out)
  end)

  it("a dataset stage, refused in words", function()
    local out = run[[
      local ipu = require "ipulua"
      for now, later in ipu.data.range(4):with_next(2):iter() do print(now:item(), later:item()) end
      print(select(2, pcall(function() ipu.data.range(3):with_next(0) end)))]]
    assert.matches("^0\t2\n1\t3\n[^\n]*with_next: 'ahead' must be positive, got 0\n$", out)
  end)

  it("a format of weights: saved and loaded by its ending, which messages name", function()
    local out = run([[
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
      print(select(2, pcall(model.load_weights, model, "w.txt")))]], root .. "/w.text")
    assert.matches("^1%.0\n.*must end in %.safetensors, .*%.npz, %.h5 or %.text", out)
  end)

  it("a format of tensors, which Lua and models know then, too", function()
    local out = run([[
      local ipu = require "ipulua"
      local path = %q
      ipu.save(path, {x = ipu.ones{2}})
      print(ipu.load(path).x)
      print(select(2, pcall(ipu.load, "x.txt")))
      local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
      model:save_weights(path)
      model:load_weights(path)
      print(select(2, pcall(model.save_weights, model, "w.txt")))]], root .. "/x.safe")
    assert.matches("^%[1%. 1%.%]\n[^\n]*must end in %.safetensors, %.safe, %.npz or %.npy\n"
      .. "[^\n]*must end in %.safetensors, %.safe[^\n]*%.npz", out)
  end)

  it("a schedule: an enumeration's member, drawn, refused, trained with and priced", function()
    local out = run[[
      local ipu = require "ipulua"
      print(ipu.PipelineSchedule.Rounds)
      local t = ipu.timetable{schedule = "rounds", device_mapping = {0, 1}, count = 4}
      print(t.time_steps, table.concat(t.stash_depth, " "))
      print(select(2, pcall(ipu.timetable, {schedule = "Rounds", device_mapping = {0, 1}, count = 3})))
      print(select(2, pcall(ipu.timetable, {schedule = "Sideways", device_mapping = {0}})))
      local function weights(schedule)
        local cfg = ipu.IPUConfig()
        cfg.auto_select_ipus = 2
        cfg:configure_ipu_system()
        ipu.random.set_seed(1)
        local keras, layers = ipu.keras, ipu.keras.layers
        local model = keras.Sequential{layers.Dense{3, input_shape = {2}}, layers.Dense{1}}
        model:set_pipeline_stage_assignment{0, 1}
        model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4,
          pipeline_schedule = schedule}
        model:compile{optimizer = "sgd", loss = "mse", steps_per_execution = 4}
        model:fit(ipu.random.normal{16, 2}, ipu.ones{16, 1}, {batch_size = 4, epochs = 2, verbose = 0})
        return tostring(model:get_weights()[1]), ipu.estimate(model, {batch_size = 4}).cycles.total > 0
      end
      local trained, priced = weights "Rounds"
      print(trained == weights "Grouped", priced)]]
    -- S = 2 IPUs, rounds of 2: forward 2 + 1 steps, backward 2 + 1. The next round's first forward
    -- pass need not wait for the other IPU's last backward one
    local steps = out:match("^Rounds\n(%d+)\t1 1\n")
    assert.truthy(steps and tonumber(steps) <= 12, out)
    assert.matches("must be a multiple of 2 for schedule Rounds with 2 stages", out)
    assert.matches("choose one of Grouped.*, Rounds", out)
    assert.matches("\ntrue\ttrue\n$", out)
  end)

  it("a chip: known to the command, its help, IPUConfig and prices", function()
    local ipulua <const> = root .. "/" .. build .. "/ipulua"
    assert.matches("price for: gc2, gc200, bow, c600, next or", shell("%s --help", ipulua))
    local out = run[[
      local ipu = require "ipulua"
      local function price(target)
        return ipu.estimate(function(a) return a + 1 end, {inputs = {{1 << 20}}, target = target})
      end
      print(price("NEXT").target, price("mk3").cycles.total < price("c600").cycles.total)
      print(select(2, pcall(price, "gc3")))
      local cfg = ipu.IPUConfig()
      cfg.ipu_model.version = "ipu3"
      cfg:configure_ipu_system()
      print(price().target)
      cfg.ipu_model.version = "ipu9"
      print(select(2, pcall(cfg.configure_ipu_system, cfg)))]]
    assert.matches("^Next\ttrue\n[^\n]*known ones are gc2, gc200, bow, c600, next\nNext\n"
      .. "[^\n]*must be one of ipu1, ipu2, ipu21, ipu3", out)
    local small <const> = command.run{ipulua, "--target", "next", "-e", "print(1)"}
    assert.equal("1\n", small.out)
  end)
end)
