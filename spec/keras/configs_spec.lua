-- Layers use their arguments, and give them back in their configurations. This is checked for all
-- layers of keras.layers and all arguments, each with a value unlike its default.

local ipu = require "ipulua"
local all = require "spec.support.keras_layers"
local json = require "ipulua.base.json"
local others = require "spec.support.keras_parts"
local parts = require "ipulua.base.parts"
local keras = ipu.keras
local L = keras.layers

-- Values as text, floats as they are; functions by identity.
local function text(value)
  if type(value) == "userdata" then return value.dtype .. json.encode(value:totable()) end
  if type(value) ~= "table" then return tostring(value) end
  local keys, list = {}, {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do list[i] = tostring(key) .. "=" .. text(value[key]) end
  return "{" .. table.concat(list, ",") .. "}"
end

local of_all <const> = {name = "another", trainable = false, dtype = "float16",
  batch_input_shape = {4, 5, 3},
  activity_regularizer = function() return keras.regularizers.L1L2{l1 = 0.5} end}

-- Each argument of each layer with a value unlike the default: visit(name, class,
-- argument, arguments, row, the arguments without it).
local function each_argument(visit)
  for name, c in pairs(all.classes()) do
    if all.samples[name] then
      for _, row in ipairs(c.argument_rows) do
        local argument = row[1]
        local value = all.unlike(name, row, c.argument_kinds[argument])
        if L.Layer.base_names[argument] and not (name == "Embedding"
          and argument == "input_dim") then
          value = of_all[argument]
          if type(value) == "function" then value = value() end
        else
          assert(value ~= nil, name .. ": no value for " .. argument)
        end
        if value ~= nil then
          local base = all.arguments(name, all.beside[name .. "." .. argument])
          local given = all.arguments(name, all.beside[name .. "." .. argument])
          given[argument] = value
          visit(name, c, argument, given, row, base)
        end
      end
    end
  end
end

-- The visible properties of a layer besides its configuration.
local function looks(name, c, arguments)
  ipu.random.set_seed(5)
  local layer = c(arguments)
  local x = all.inputs(name)
  local seen = {"name " .. layer.name, "dtype " .. layer.dtype, tostring(layer.trainable),
    tostring(text(rawget(layer, "tag")))}
  for _, training in ipairs{false, true} do
    ipu.random.set_seed(6)
    local results = table.pack(all.call(name, layer, x, {training = training}))
    for i = 1, results.n do
      seen[#seen + 1] = text(results[i])
      local mask = require "ipulua.keras.base.context".mask(results[i])
      seen[#seen + 1] = mask and text(mask) or "no mask"
    end
    for _, loss in ipairs(layer.losses) do seen[#seen + 1] = text(loss) end
  end
  seen[#seen + 1] = #layer.trainable_weights .. " trained"
  for _, v in ipairs(layer.weights) do
    seen[#seen + 1] = text(v:read_value())
    seen[#seen + 1] = v.constraint and text(v.constraint(v:read_value() * -3)) or "free"
  end
  if layer.stateful then seen[#seen + 1] = #layer:state_variables() .. " states" end
  if name == "Lambda" then seen[#seen + 1] = text(layer:compute_output_shape{4, 5, 3}) end
  return table.concat(seen, "\n")
end

local function is_refusal(problem)
  return tostring(problem):find("must be one of") or tostring(problem):find("transpose them before")
    or tostring(problem):find("is given by 'l1' and 'l2'")
    or tostring(problem):find("give either 'bin_boundaries'")
      or tostring(problem):find("is no int32") -- a penalty of whole numbers
end

-- Arguments whose effect small examples don't show.
local unseen <const> = {["CTCInferenceLayer.beam_width"] = true,
  ["CTCPredictionsLayer.beam_width"] = true,
  ["CTCPredictionsLayer.top_paths"] = true, ["CTCPredictionsLayer.from_logits"] = true,
    ["Normalization.axis"] = true,
  ["Discretization.epsilon"] = true, -- of adapt: spec/keras/hashing_spec.lua
  ["BatchNormalization.fused"] = true} -- of images
for _, name in ipairs{"LSTM", "GRU", "PopnnLSTM", "PopnnGRU"} do
  unseen[name .. ".partials_dtype"] = true -- of float16: spec/engine/partials_spec.lua
end

describe("arguments of layers", function()
  it("come back from configurations, in memory and through JSON", function()
    local count, wrong = 0, {}
    local function check(is_right, words) if not is_right then wrong[#wrong + 1] = words end end
    each_argument(function(name, c, argument, arguments, _, base)
      local where = name .. "." .. argument
      local made, layer = pcall(c, arguments)
      if not made then return check(is_refusal(layer), where .. ": " .. tostring(layer)) end
      local config, plain = layer:get_config(), c(base):get_config()
      local is_there = argument == "name" and config.name == "another"
        or text(config[argument]) ~= text(plain[argument])
      check(is_there, where .. " is not in the configuration")
      check(text(config) == text(c:from_config(config):get_config()), where
        .. " does not come back")
      local written, problem = parts.written(config)
      if written then
        local read = parts.unwritten(json.decode(json.encode(written)))
        check(text(written) == text(parts.written(c:from_config(read):get_config())), where
          .. " does not come back through JSON")
      else
        check(name == "Lambda" and problem:find("can't be saved"), where .. ": "
          .. tostring(problem))
      end
      count = count + 1
    end)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(count > 1000, count .. " arguments")
  end)

  it("change something, or say that they don't", function()
    local wrong = {}
    each_argument(function(name, c, argument, arguments, row, base)
      if row.says and row.says:find("changes no") or argument == "batch_input_shape" or unseen[name
        .. "." .. argument] then return end
      base.name, arguments.name = "same", argument == "name" and "another" or "same"
      local ran, now = pcall(looks, name, c, arguments)
      if not ran and not is_refusal(now) then wrong[#wrong + 1] = name .. "." .. argument .. ": "
        .. tostring(now)
      elseif now == looks(name, c, base) then wrong[#wrong + 1] = name .. "." .. argument
        .. " changes nothing" end
    end)
    assert.equal("", table.concat(wrong, "\n"))
  end)

  it("are tried for every class", function()
    for name in pairs(all.classes()) do
      assert.is_truthy(all.samples[name] or all.others[name], "no sample of " .. name)
    end
  end)
end)

describe("arguments of losses, metrics, optimizers, schedules, initializers, regularizers and "
  .. "constraints", function()
  -- visit(module, name, class, argument, arguments, those without it, row)
  local function each(visit)
    others.each(function(module, name, c)
      for _, row in ipairs(c.argument_rows or {}) do
        local where, value = name .. "." .. row[1], others.unlike(module, name, row)
        assert(value ~= nil, where .. ": no value")
        local beside = module ~= "metrics" and (others.beside[where] or others.beside[row[1]])
          or others.beside[where]
        if module == "metrics" and beside and beside.reduction then beside = nil end
        local given = others.arguments(name, beside)
        given[row[1]] = value
        visit(module, name, c, row[1], given, others.arguments(name, beside), row)
      end
    end)
  end

  it("come back from configurations, in memory and through JSON", function()
    local count, wrong = 0, {}
    each(function(_, name, c, argument, given, base)
      local where = name .. "." .. argument
      local ran, problem = pcall(function()
        local config = c(given):get_config()
        if text(config[argument]) == text(c(base):get_config()[argument]) then
          error("is not in the configuration", 0)
        end
        if text(config) ~= text(c:from_config(config):get_config()) then error("does not come back",
          0) end
        local written, why = parts.written(config)
        if not written then return assert(why:find("a function of the script's own", 1, true),
          why) end
        local read = parts.unwritten(json.decode(json.encode(written)))
        if text(written) ~= text(parts.written(c:from_config(read):get_config())) then
          error("does not come back through JSON", 0)
        end
      end)
      if not ran then wrong[#wrong + 1] = where .. ": " .. tostring(problem) end
      count = count + 1
    end)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(count > 300, count .. " arguments")
  end)

  it("change something, or say that they don't", function()
    local wrong = {}
    each(function(module, name, c, argument, given, base, row)
      local is_seen = not others.unseen[name .. "." .. argument] and not others.unseen[argument]
      if row.says and row.says:find("changes no") or not is_seen then return end
      local function does(arguments)
        ipu.random.set_seed(3)
        return others.does[module](c(arguments), name)
      end
      local ran, now = pcall(does, given)
      if not ran then wrong[#wrong + 1] = name .. "." .. argument .. ": " .. tostring(now)
      elseif now == does(base) then wrong[#wrong + 1] = name .. "." .. argument
        .. " changes nothing" end
    end)
    assert.equal("", table.concat(wrong, "\n"))
  end)
end)
