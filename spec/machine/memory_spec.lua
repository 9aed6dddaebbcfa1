-- Programs that do not fit: refused if a machine was named, with facts that help to make them fit.

local command = require "spec.support.command"
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers

local script <const> = [[
local ipu = require "ipulua"
%s
local w = ipu.Variable(ipu.zeros{30000000}, {name = "wide"})
local f = ipu.func(function(x)
  local a = ipu.abs(x)
  return ipu.reduce_sum(ipu.reverse(a, {axis = 0}) + a + w + x)
end, {name = "too_large"})
print("ran", f(ipu.zeros{30000000}):item())
]]

local configure <const> = "local cfg = ipu.IPUConfig() cfg.ipu_model.version = 'ipu1' "
  .. "cfg:configure_ipu_system()"

local function run(lines, environment, ...)
  local folder = command.folder()
  command.write(folder .. "/large.lua", string.format(script, lines))
  local words = {command.ipulua, ...}
  words[#words + 1] = folder .. "/large.lua"
  words.env = environment
  local result = command.run(words)
  command.remove(folder)
  return result.out, result.err, result.status
end

describe("a program that does not fit", function()
  it("row 251: is refused once a configuration was applied", function()
    local out, err, status = run(configure)
    assert.equal(1, status)
    assert.equal("", out)
    for _, words in ipairs{
      "large.lua:8: out of memory: 'too_large' does not fit on IPU 0 of GC2",
      "needs [%d,]+ bytes of 262,144, [%d,]+ too many",
      "of 1216 tiles are over", "most is live at step %d+, %w+ %(.*large.lua:[56]%)",
      "wide %(variable%)", "abs %(activation%)  .*large.lua:5",
      "always live", "it is code", "a smaller batch",
      "to run it all the same, with its profile: "
      .. "IPULUA_ENGINE_OPTIONS='{\"debug.allowOutOfMemory\": \"true\"}'",
    } do
      assert.matches(words, err)
    end
  end)

  it("is refused for a chip that the command names, and taken by one with room", function()
    local _, err, status = run("", nil, "--target", "gc2")
    assert.equal(1, status)
    assert.matches("out of memory", err)
    local folder = command.folder()
    command.write(folder .. "/roomy.json",
      '{"base": "gc2", "name": "roomy", "tile_bytes": 16777216}')
    local out
    out, _, status = run("", nil, "--target", folder .. "/roomy.json")
    command.remove(folder)
    assert.equal(0, status)
    assert.matches("ran", out)
  end)

  it(
    "row 250: runs where nothing was configured, where that is allowed, and on part of a chip",
    function()
    for _, each in ipairs{
      {""}, {configure, {IPULUA_ENGINE_OPTIONS = '{"debug.allowOutOfMemory": "true"}'}},
      {"local cfg = ipu.IPUConfig() cfg.ipu_model.tiles_per_ipu = 4 cfg:configure_ipu_system()"},
    } do
      local out, err, status = run(each[1], each[2])
      assert.equal(0, status, err)
      assert.matches("ran", out)
    end
  end)
end)

describe("remedies", function()
  local estimate = require "ipulua.tools.estimate"
  local strategy = ipu.IPUStrategy()

  it("tell what each would save", function()
    local function deep()
      local _ <close> = strategy:scope()
      local list = {}
      for i = 1, 4 do
        list[i] = layers.Dense{3000, activation = "gelu", input_shape = i == 1 and {3000} or nil}
      end
      local model = keras.Sequential(list)
      model:compile{optimizer = "adam", loss = "mse"}
      model:set_pipeline_stage_assignment{0, 0, 1, 1}
      model:set_pipelining_options{gradient_accumulation_steps_per_replica = 16,
        offload_weight_update_variables = false}
      return model
    end
    local text = (estimate.price{fn = deep, batch_size = 8192, ipus = 2,
      target = "gc2"}):complaint()
    assert.matches("pipeline stage %d", text)
    assert.matches("what would help:", text)
    assert.matches("recomputation %(allow_recompute%): [%d.]+ [KM]iB less on the fullest tile",
      text)
    assert.matches("the Interleaved schedule: [%d.]+ [KM]iB less", text)
    assert.matches("optimizer state in streaming memory[^\n]*: [%d.]+ [KM]iB less", text)
  end)

  -- The bytes that a remedy promises are the changed program's.
  it("promise what the changed program then needs", function()
    local function price(options, batch, recompute)
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus, cfg.allow_recompute = 2, recompute or false
      cfg:configure_ipu_system()
      local function build()
        local _ <close> = strategy:scope()
        local model = keras.Sequential{layers.Dense{1000, activation = "gelu",
          input_shape = {1000}},
          layers.Dense{1000, activation = "gelu"}, layers.Dense{1000, activation = "gelu"},
          layers.Dense{1000}}
        model:compile{optimizer = "sgd", loss = "mse"}
        model:set_pipeline_stage_assignment{0, 0, 1, 1}
        options.gradient_accumulation_steps_per_replica, options.offload_weight_update_variables =
          16, false
        model:set_pipelining_options(options)
        return model
      end
      local p = estimate.price{fn = build, batch_size = batch, ipus = 2, target = "gc2"}
      ipu.reset_ipu_configuration()
      return p
    end
    local first = price({}, 2048)
    local text, before = first:complaint(), first:summary().fullest_tile_bytes
    local function promised(words)
      local amount, unit = text:match(words .. ": ([%d.]+) ([KM])iB less")
      return tonumber(amount) * (unit == "K" and 1024 or 1024 * 1024)
    end
    local interleaved = price({pipeline_schedule = ipu.PipelineSchedule.Interleaved},
      2048):summary().fullest_tile_bytes
    assert(math.abs(promised("the Interleaved schedule") - (before - interleaved)) < 0.01 * before)
    local again = price({}, 2048, true):summary().fullest_tile_bytes
    assert(math.abs(promised("recomputation %(allow_recompute%)") - (before - again))
      < 0.01 * before)
  end)

  it("include less data and more IPUs, traced and priced again", function()
    local cfg = ipu.IPUConfig()
    cfg.ipu_model.version = "ipu1"
    cfg:configure_ipu_system()
    local model
    do
      local _ <close> = strategy:scope()
      model = keras.Sequential{layers.Dense{3000, input_shape = {3000}}, layers.Dense{3000},
        layers.Dense{3000}, layers.Dense{3000}}
      model:compile{optimizer = "adam", loss = "mse"}
    end
    local x = ipu.zeros{1024, 3000}
    local ok, text = pcall(function()
      local _ <close> = strategy:scope()
      model:fit(x, x, {batch_size = 1024, verbose = 0})
    end)
    ipu.reset_ipu_configuration()
    assert.is_false(ok)
    assert.matches("a batch of 512 instead of 1024: [%d.]+ [KM]iB less on the fullest tile", text)
    assert.matches("\n  2 pipeline stages: [%d.]+ [KM]iB less on the fullest tile", text)
    assert.is_false(model:is_pipelined())
  end)
end)

describe("the memory of a training step", function()
  it("holds gradients one by one, as the updates run", function()
    local depth <const>, width <const>, batch <const> = 12, 512, 16
    for _, optimizer in ipairs{"sgd", "adam"} do
      local model = keras.Sequential()
      for _ = 1, depth do model:add(layers.Dense{width, activation = "relu"}) end
      model:build{batch, width}
      model:compile{optimizer = optimizer, loss = "mse"}
      local memory = ipu.estimate(model, {batch_size = batch, target = "gc200"}).memory
      -- activations of all layers, and what one or two layers are at; all gradients would be 12 MiB
      assert(memory.activation <= 4 * (depth * batch * width + 2 * width * (width + batch)),
        optimizer .. ": " .. memory.activation)
      assert(memory.activation >= 4 * depth * batch * width, memory.activation)
    end
  end)
end)
