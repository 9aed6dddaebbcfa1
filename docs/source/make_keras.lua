-- `make docs`: docs/reference/keras.md and docs/library/keras.lua (annotations for LuaLS) from what
-- there is: the classes of ipu.keras, the rows of their arguments, the comments above them, and
-- samples that are run. Given a folder, it writes there.

package.path = "docs/source/?.lua;" .. package.path
local class = require "ipulua.base.class"
local details = require "details"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"
local layer_sections, parts = require "keras_layers", require "keras_parts"
local notes = require "notes"
local about_parts = require "ipulua.base.parts.about"
local row_text = require "rows"
local shapes = require "shapes"
local lua_type = row_text.lua_type

local function signature(c) return row_text.signature(c.argument_rows) end

local keras = ipu.keras
local folder = arg and arg[1]
require "ipulua.base.log".set_writer(function() end)
keras.utils.set_random_seed(1)

-- ------------------------------------------------ comments in the source

local comments = {} -- class → text; "Model:fit" → text
local internal = {} -- "Model:fit" → whether the library alone calls it

local function scan(path)
  local block = {}
  local function owner(line)
    local of, name = line:match("^function ([%w_.]+)[.:]([%w_]+)%(")
    if of and of:find("^datasets%.") then return of:sub(10) .. ":" .. name end
    return of and (of == "methods" and "Model" or of) .. ":" .. name
  end
  for line in io.lines(path) do
    if line:find("^%-%-%-") then block[#block + 1] = line:sub(4)
    else
      local about, named = help.parts(block), {owner(line)}
      local text = about.text
      for _, each in ipairs(about.internal and named or {}) do internal[each] = true end
      for _, each in ipairs(block) do named[#named + 1] = each:match("^@class ([%w_]+)") end
      for _, each in ipairs(#text > 0 and named or {}) do
        comments[each] = comments[each] or table.concat(text, " ")
      end
      block = {}
    end
  end
end

for path in io.popen("find lua/ipulua/keras -name '*.lua' | LC_ALL=C sort"):lines() do
  scan(path)
end

-- ------------------------------------------------ showing things

local md, meta = {}, {}
local function write(format, ...)
  md[#md + 1] = select("#", ...) > 0 and string.format(format, ...) or format
end
local function annotate(format, ...)
  meta[#meta + 1] = select("#", ...) > 0 and string.format(format, ...) or format
end

local function shape_text(s)
  if type(s[1]) ~= "table" then return "[" .. table.concat(s, ", ") .. "]" end
  local list = {}
  for i, each in ipairs(s) do list[i] = shape_text(each) end
  return "{" .. table.concat(list, ", ") .. "}"
end

-- Arguments of every layer are said once.
local function own(c, base)
  local common, rows = {}, {}
  for _, row in ipairs(base and base.argument_rows or {}) do common[row[1]] = row end
  for _, row in ipairs(c.argument_rows or {}) do
    local shared = common[row[1]]
    if not shared or shared.optional ~= row.optional then rows[#rows + 1] = row end
  end
  return {argument_rows = rows}
end

local function annotate_class(module, name, c, text, parent)
  local required, optional = {}, {}
  for _, row in ipairs(c.argument_rows or {}) do
    local t = lua_type(row, c.argument_kinds and c.argument_kinds[row[1]])
    if row[3] == nil and not row.optional then required[#required + 1] = row[1] .. ": " .. t
    else optional[#optional + 1] = row[1] .. "?: " .. t end
  end
  if #optional > 0 then
    required[#required + 1] = "options?: {" .. table.concat(optional, ", ") .. "}"
  end
  annotate("")
  annotate("---" .. text)
  annotate("---@class keras.%s.%s%s", module, name, parent and ": " .. parent or "")
  annotate("---@overload fun(%s): keras.%s.%s", table.concat(required, ", "), module, name)
  annotate("%s.%s = {}", module, name)
end

local function annotate_method(of, name, text)
  annotate("")
  annotate("---" .. text)
  annotate("function %s:%s(...) end", of, name)
end

local function annotate_function(module, name, text)
  annotate("")
  annotate("---" .. text)
  annotate("function %s.%s(...) end", module, name)
end

-- The value of a sample, or the message that it raises.
local function run(code, names)
  local env = setmetatable({}, {__index = function(_, key)
    local value = names[key]
    if value == nil then return _G[key] end
    return value
  end})
  local ok, value = pcall(assert(load("return " .. code, "=sample", "t", env)))
  if ok then return value end
  return nil, notes.words(code, value)
end

local function text_of(module, name)
  local text = about_parts.of(module, name).text or comments[name]
  if not text then io.stderr:write("no text for ", name, "\n") end
  return text or ""
end

-- The first sample that raises: a given one, an argument of a wrong type, one that there is not.
local function wrong_sample(module, name, c, given)
  local names = module == "schedules" and keras.optimizers.schedules or keras[module]
  local samples = {given or parts.wrong[module .. "." .. name]}
  for _, row in ipairs(c and c.argument_rows or {}) do
    local of = type(row[2]) == "string" and row[2] or ""
    local wrong = (of == "number" or of == "integer" or of == "boolean") and '"much"'
      or of == "string" and "3" or nil
    if wrong then samples[#samples + 1] = string.format("%s{%s = %s}", name, row[1], wrong) end
  end
  samples[#samples + 1] = name .. "{colour = 1}"
  for i, code in ipairs(samples) do
    local _, message = run(code, names)
    if not message and i == 1 and parts.wrong[module .. "." .. name] then
      notes.problem("should raise an error: %s", code)
    end
    if message then return code, message end
  end
  error("nothing is wrong with " .. name)
end

-- An entry: o.text, o.call (its signature), and what is said of it as a list: o.takes, o.shapes,
-- o.more, o.errors (text), o.source.
local function write_entry(name, o)
  write("**%s** – %s%s", name, o.text, o.call and "  " or "")
  if o.call then write("`%s`", o.call) end
  write ""
  for _, kind in ipairs{"takes", "shapes", "more", "errors", "source"} do
    if o[kind] then
      write("- %s%s", kind == "more" and "" or kind:gsub("^%l", string.upper) .. ": ", o[kind])
    end
  end
  write ""
end

local function wrong_text(module, code, message)
  return string.format("`%s.%s` (*%s*)", module, code, message)
end

local function types_of(c) return details.arguments({rows = c.argument_rows}, c.argument_kinds) end

-- ------------------------------------------------ families

write "# Keras"
write ""
write("What `ipu.keras` offers. This page is written by `make docs` from the library itself: "
  .. "arguments and defaults are those of the "
  .. "code, shapes and messages come from running the samples. Positional arguments come in the "
  .. "order given; those in braces by name "
  .. "(both in one table will do: `Dense{4, activation = \"relu\"}`). An argument that is unknown, "
  .. "of a wrong type or out of its range is "
  .. "an error that names the script's line, the argument and what would be right.")
write ""
annotate "---@meta"
annotate "-- Annotations of ipu.keras for the Lua language server; written by `make docs`."
for _, module in ipairs{"layers", "losses", "metrics", "optimizers", "schedules", "initializers",
  "regularizers", "constraints",
  "callbacks", "activations", "models", "utils", "preprocessing", "mixed_precision", "datasets"} do
  annotate("local %s = {}", module)
end
annotate "preprocessing.sequence, preprocessing.text = {}, {}"
annotate ""
annotate "---What trains: layers with compile, fit, evaluate and predict."
annotate "---@class keras.Model: keras.layers.Layer"
annotate "local Model = {}"

local Layer = keras.layers.Layer

-- A sample as a script writes it, which has `layers` and not each layer's name.
local function in_layers(code)
  return (code:gsub("%f[%w_.]%u[%w_]*", function(name)
    return keras.layers[name] and "layers." .. name
  end))
end

local function wrong_of(entry)
  local wrong, names = entry.wrong, keras.layers
  if type(wrong) == "string" then
    local made, message = run(wrong, names)
    if message then return "`" .. in_layers(wrong) .. "`", message end
    local _, later = run("layer:compute_output_shape(shape)", {layer = made, shape = entry.input})
    return string.format("`%s` on %s", in_layers(wrong), shape_text(entry.input)),
      (assert(later, wrong))
  end
  if not wrong then return nil end
  local _, message = run("layer:compute_output_shape(shape)",
    {layer = run(entry.sample, names), shape = wrong})
  return string.format("`%s` on %s", in_layers(entry.sample), shape_text(wrong)),
    (assert(message, entry[1]))
end

local function markdown(text) return (text:gsub(" %* ", " · ")) end

local function layer_entry(entry)
  local name = entry[1]
  local c = keras.layers[name]
  local o = {text = text_of("layers", name), source = about_parts.source("layers", name)}
  if not class.is_class(c) then
    annotate_function("layers", name, o.text)
    local of = name:gsub("^%l", string.upper)
    o.call = string.format("layers.%s(%s)", name, name == "Input"
      and row_text.signature(help.about(c).rows) or "inputs, {…}")
    if name == "Input" then o.takes = details.arguments(help.about(c))
    else
      o.takes, o.shapes, o.errors = "`inputs` list of tensors; then " .. of .. "'s arguments",
        "as " .. of .. "'s", "as " .. of .. "'s"
    end
  else
    local derived = c.super ~= nil
    annotate_class("layers", name, c, o.text, derived and "keras.layers.Layer" or nil)
    local own_part = derived and own(c, Layer) or c
    o.call = string.format("layers.%s(%s)", name, signature(own_part))
    o.takes = details.arguments({rows = own_part.argument_rows}, c.argument_kinds)
  end
  keras.utils.reset_names()
  if entry.sample and entry.input then
    local layer = assert(run(entry.sample, keras.layers))
    local result = layer:compute_output_shape(entry.input)
    local problem = shapes.problem(assert(entry.is, name), entry.input, result, layer)
    if problem then notes.problem("%s: %s", name, problem) end
    o.shapes = string.format("%s%s. `%s`: %s → %s", markdown(entry.is),
      entry.also and "; " .. entry.also or "", in_layers(entry.sample),
      shape_text(entry.input), shape_text(result))
  elseif entry.sample then
    assert(run(entry.sample, keras.layers))
    o.shapes = string.format("%s. `%s`", assert(entry.shapes, name), in_layers(entry.sample))
  elseif name == "Layer" or name == "OpLambda" then o.shapes = "any, with the batch first" end
  keras.utils.reset_names()
  local sample, message = wrong_of(entry)
  if sample then o.errors = string.format("%s (*%s*)", sample, message)
  elseif class.is_class(c) then o.errors = wrong_text("layers", wrong_sample("layers", name, c)) end
  write_entry(name, o)
end

write "## Layers"
write ""
write("Every layer also takes %s. `-1` in a shape is an extent that is unknown. Shapes below are "
  .. "of whole "
  .. "batches: with names, among them those of arguments, and of a sample. `...` are any extents; "
  .. "a prime marks one that is computed. Floating-"
  .. "point inputs are cast to the layer's dtype (the policy of mixed_precision, float32 by "
  .. "default), which is that of what isn't integers.",
  "`" .. signature(Layer) .. "`")
write ""
for _, section in ipairs(layer_sections) do
  write("### %s", section[1])
  write ""
  if section.words then
    write("%s", section.words)
    write ""
  end
  for _, row in ipairs(about_parts.list "layers") do
    if row.section == section[1] then layer_entry(row) end
  end
end

-- ------------------------------------------------ losses and metrics

-- The module's functions of labels and predictions.
local function functions_of(module)
  local list = {}
  for name, value in pairs(keras[module]) do
    if type(value) == "function" and name:find("^%l") and not parts.internal[name] then
      list[#list + 1] = "`" .. name .. "`"
    end
  end
  table.sort(list)
  return table.concat(list, ", ")
end

local y, p = ipu.tensor{{0, 1, 0}, {0, 0, 1}}, ipu.tensor{{0.2, 0.7, 0.1}, {0.3, 0.3, 0.4}}
local classes = ipu.tensor({1, 2}, {dtype = "int32"})

-- The same twice in each sample: [2, …] → [2, 2, …].
local function of_rank_3(t) return ipu.stack({t, t}, {axis = 1}) end

write "## Losses"
write ""
write("An object `losses.Name` weighs the numbers of the samples and reduces them (reduction "
  .. "\"auto\" or \"sum_over_batch_size\": their "
  .. "mean, \"sum\", \"none\"; the names are also in `losses.Reduction`); a function of the same "
  .. "name in small letters "
  .. "(`losses.mean_squared_error(y_true, y_pred)`) gives one number for each sample, [batch, …]. "
  .. "compile takes either, or its name. "
  .. "Labels are cast to the dtype of the predictions, which is that of the loss. Labels and "
  .. "predictions never broadcast: *%s*",
  select(2, run("losses.MeanSquaredError()(y, wrong)",
    {losses = keras.losses, y = y, wrong = ipu.ones{2, 4}})))
write ""
for _, entry in ipairs(parts.losses) do
  local name, kind = entry[1], entry[2]
  local c = keras.losses[name]
  local o = {text = text_of("losses", name),
    call = string.format("losses.%s(%s)", name, signature(c)), takes = types_of(c),
    source = about_parts.source("losses", name)}
  annotate_class("losses", name, c, o.text, name ~= "Loss" and "keras.losses.Loss" or nil)
  if name ~= "Loss" and kind ~= "ctc" and kind ~= "function" then
    local labels = kind == "sparse" and classes or y
    local alike = kind == "sparse" and "{[batch, ...], [batch, ..., classes]}"
      or "{[batch, ..., n], [batch, ..., n]}"
    for _, given in ipairs{{labels, p}, {of_rank_3(labels), of_rank_3(p)}} do
      local lost = c{reduction = "none"}(given[1], given[2])
      local problem = shapes.problem(alike .. " → [batch, ...]", {given[1].shape, given[2].shape},
        lost.shape)
      if problem then notes.problem("%s: %s", name, problem) end
    end
    if #c()(labels, p).shape > 0 then notes.problem("%s gives no scalar", name) end
    o.shapes = string.format("labels, predictions %s → []; with reduction \"none\" [batch, ...]",
      alike)
    local wrong = ipu.ones{2, 4}
    local _, message = run(name .. "()(y, wrong)",
      {[name] = c, y = kind == "sparse" and ipu.ones({3}, {dtype = "int32"}) or y, wrong = wrong})
    o.errors = string.format("labels %s with predictions [2, 4]: *%s*",
      kind == "sparse" and "[3]" or "[2, 3]", (assert(message, name)))
  else
    o.shapes = kind == "ctc" and "labels [batch, labels], predictions [time, batch, classes] → []"
      or "labels, predictions {[batch, ...], [batch, ...]} → [batch], reduced to []"
    o.errors = wrong_text("losses", wrong_sample("losses", name, c))
  end
  write_entry(name, o)
end

write("As functions: %s.", functions_of("losses"))
write ""
write "## Metrics"
write ""
write("`metric:update_state(y_true, y_pred, {sample_weight})` takes a batch in, `metric:result()` "
  .. "is the value so far, "
  .. "`metric:reset_state()` begins anew; `metric(...)` does the first two. The functions of the "
  .. "same names in small letters give a "
  .. "number for each sample. Shapes must agree: *%s*",
  select(2, run("metrics.MeanSquaredError()(y, wrong)",
    {metrics = keras.metrics, y = y, wrong = ipu.ones{2, 4}})))
write ""

local function metric_shape(name, kind)
  local c = keras.metrics[name]
  if kind == "none" then return nil end
  if kind == "value" then return "values [...]", {p}, c() end
  if kind == "normalizer" then
    return "labels, predictions {[...], [...]}", {y, p}, c{normalizer = ipu.ones{2, 3}}
  end
  if kind == "sparse" then
    return "labels, predictions {[batch, ...], [batch, ..., classes]}", {classes, p}, c()
  end
  if name == "MeanIoU" then return "class numbers {[...], [...]}", {classes, classes}, c(3) end
  return "labels, predictions {[batch, ..., n], [batch, ..., n]}", {y, p},
    kind and run(kind, keras.metrics) or c()
end

-- Shapes of a metric in words, which its sample has.
local function metric_shapes(name, kind)
  local inputs, given, metric = metric_shape(name, kind)
  if not inputs then return "labels and predictions [batch, ...] → []" end
  local result, list = name == "MeanTensor" and "[...]" or "[]", {}
  for i, t in ipairs(given) do list[i] = t.shape end
  local problem = shapes.problem(inputs .. " → " .. result, list, metric(table.unpack(given)).shape)
  if problem then notes.problem("%s: %s", name, problem) end
  local several = ""
  for _, row in ipairs(keras.metrics[name].argument_rows) do
    if row[1] == "thresholds" and row[2] ~= "list" then
      metric = keras.metrics[name]{thresholds = {0.2, 0.5}}
      if metric(y, p).shape[1] ~= 2 then
        notes.problem("%s: a list of thresholds gives one number", name)
      end
      several = "; with a list of thresholds [thresholds]"
    end
  end
  return inputs .. " → " .. result .. several
end

for _, entry in ipairs(parts.metrics) do
  local name = entry[1]
  local c = keras.metrics[name]
  local o = {text = text_of("metrics", name),
    call = string.format("metrics.%s(%s)", name, signature(c)), takes = types_of(c),
    source = about_parts.source("metrics", name)}
  annotate_class("metrics", name, c, o.text, name ~= "Metric" and "keras.metrics.Metric" or nil)
  o.shapes = entry[3] or metric_shapes(name, entry[2])
  o.errors = wrong_text("metrics", wrong_sample("metrics", name, c))
  write_entry(name, o)
end

write("As functions: %s.", functions_of("metrics"))
write ""

-- ------------------------------------------------ optimizers and schedules

write "## Optimizers"
write ""
write("Each also takes `%s`. The learning rate is a number, a schedule or a function. Variables "
  .. "beside each weight have its shape. "
  .. "Error: `optimizers.Adam{learnig_rate = 1}`: *%s*", signature(own(keras.optimizers.Optimizer)),
  select(2, run("Adam{learnig_rate = 1}", keras.optimizers)))
write ""

local function slots_of(c)
  local v = ipu.Variable{ipu.ones{2}}
  local optimizer = c()
  optimizer:build{v}
  local names = {}
  for _, each in ipairs(optimizer:entries{{path = "w", variable = v}}) do
    names[#names + 1] = each.path:match("^slot/w/(.*)$")
  end
  return #names > 0 and table.concat(names, ", ") or "none"
end

for _, entry in ipairs(parts.optimizers) do
  local name = entry[1]
  local c, text = keras.optimizers[name], text_of("optimizers", name)
  annotate_class("optimizers", name, c, text, name ~= "Optimizer"
    and "keras.optimizers.Optimizer" or nil)
  local wraps = false
  for k in function(_, k) return (k or {super = c}).super end do
    wraps = wraps or k.__name == "Wrapper"
  end
  local own_part = wraps and c
    or own(c, {argument_rows = {table.unpack(keras.optimizers.Optimizer.argument_rows, 2)}})
  write_entry(name,
    {text = text, call = string.format("optimizers.%s(%s)", name, signature(own_part)),
      takes = types_of(own_part),
    shapes = "gradients, variables {[...], [...]}: alike"
      .. ((wraps or name == "Optimizer") and "" or "; beside each variable, like it: "
        .. slots_of(c)),
    errors = wrong_text("optimizers", wrong_sample("optimizers", name, c)),
    source = about_parts.source("optimizers", name)})
end

write "### Learning-rate schedules"
write ""
write "In `optimizers.schedules`; called with the number of updates made."
write ""
for _, entry in ipairs(parts.schedules) do
  local name = entry[1]
  local c, text = keras.optimizers.schedules[name], text_of("schedules", name)
  annotate_class("schedules", name, c, text, name ~= "LearningRateSchedule"
    and "keras.schedules.LearningRateSchedule" or nil)
  local more
  if entry[2] then
    local schedule, values = run(entry[2], keras.optimizers.schedules), {}
    for i, step in ipairs{0, 5, 15} do
      values[i] = string.format("%.4g", schedule(ipu.tensor(step, {dtype = "int64"})):item())
    end
    more = string.format("`schedules.%s` at 0, 5, 15: %s", entry[2], table.concat(values, ", "))
  end
  write_entry(name, {text = text, call = string.format("schedules.%s(%s)", name, signature(c)),
    takes = types_of(c),
    shapes = "int64 [] → float32 []",
    more = more, errors = wrong_text("schedules", wrong_sample("schedules", name, c)),
    source = about_parts.source("schedules", name)})
end

-- ------------------------------------------------ initializers, regularizers, constraints

write "## Initializers"
write ""
write("Called with a shape: `initializers.HeNormal()({3, 4})` is a tensor [3, 4]. "
  .. "Layers take an object or its name (`\"he_normal\"`).")
write ""
for _, entry in ipairs(parts.initializers) do
  local name = entry[1]
  local c, text = keras.initializers[name], text_of("initializers", name)
  annotate_class("initializers", name, c, text, name ~= "Initializer"
    and "keras.initializers.Initializer" or nil)
  local errors
  if entry[2] then
    local _, message = run("initializer(shape)", {initializer = c(), shape = entry[2]})
    errors = string.format("for %s: *%s*", shape_text(entry[2]), message)
  end
  write_entry(name, {text = text, call = string.format("initializers.%s(%s)", name, signature(c)),
    takes = types_of(c),
    shapes = "a shape {...} → [...] of the dtype given, float32 by default",
    errors = errors or wrong_text("initializers", wrong_sample("initializers", name, c)),
    source = about_parts.source("initializers", name)})
end

for _, module in ipairs{"regularizers", "constraints"} do
  write("## %s", (module:gsub("^%l", string.upper)))
  write ""
  write(module == "regularizers" and "A number that training adds to the loss; called with a "
    .. "weight of any shape, it gives a scalar."
    or "What becomes of a weight after each update; called with it, it gives a tensor of the same "
    .. "shape.")
  write ""
  for _, entry in ipairs(parts[module]) do
    local name = entry[1]
    local c, text = keras[module][name], text_of(module, name)
    local o = {text = text, shapes = module == "regularizers" and "[...] → []" or "[...] → [...]",
      source = about_parts.source(module, name)}
    if class.is_class(c) then
      annotate_class(module, name, c, text)
      o.call, o.takes = string.format("%s.%s(%s)", module, name, signature(c)), types_of(c)
      o.errors = wrong_text(module, wrong_sample(module, name, c))
    else
      annotate_function(module, name, text)
      local of = text:match("(%w+)%.?$") .. "'s"
      o.call, o.takes, o.errors = string.format("%s.%s(…)", module, name), of .. " arguments",
        "as " .. of
    end
    write_entry(name, o)
  end
end

-- ------------------------------------------------ activations

write "## Activations"
write ""
write("In `keras.activations`: functions of a tensor of any shape, with a result of the same "
  .. "shape; layers take them or their names. Error: "
  .. "`layers.Activation(\"reluu\")`: *%s*", select(2, run("Activation(\"reluu\")", keras.layers)))
write ""
for _, entry in ipairs(parts.activations) do
  local text = text_of("activations", entry[1])
  annotate_function("activations", entry[1], text)
  local about = help.about(keras.activations[entry[1]])
  local call = about and about.rows and row_text.signature(about.rows) or about
    and table.concat(about.parameters, ", ") or "x"
  write("- **%s** – %s; `activations.%s(%s)`", entry[1], text, entry[1], call)
  if entry[1] ~= "get" then write("  - Source: %s", about_parts.source("activations", entry[1])) end
end
write ""

-- ------------------------------------------------ models

write "## Models"
write ""
-- A function or method as an item of a list.
local function write_function(name, f, text)
  local about = assert(help.about(f), name)
  local call = about.rows and row_text.signature(about.rows)
    or table.concat(about.parameters, ", ", name:find(":", 1, true) and 2 or 1)
  write("- `%s(%s)`%s – %s", name, (call:gsub("%.%.%.", "…")), details.result(about), text)
  for _, line in ipairs(details.lines(name, about, "  ")) do write("%s", line) end
end

local function methods_of(owner)
  local list = {}
  for key in pairs(comments) do
    local name = key:match("^" .. owner .. ":(%l[%w_]*)$")
    if name then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end
for _, name in ipairs{"Model", "Sequential"} do
  write("**%s** – %s", name, name == "Model"
    and "`keras.Model{inputs =, outputs =, name =}` for tensors that layers were called with; or "
    .. "`keras.Model:extend(\"Name\")` with `call(x, {training =})`."
    or "`keras.Sequential{layer, layer, …, name =}`: one layer after "
    .. "another; `add(layer)`, `pop()`.")
  write ""
end
for _, method in ipairs(methods_of("Model")) do
  if not (parts.internal[method] or internal["Model:" .. method]) then
    write_function("model:" .. method, keras.Model[method], comments["Model:" .. method])
    annotate_method("Model", method, comments["Model:" .. method])
  end
end
write ""
write "What every layer has, a model, too:"
write ""
for _, method in ipairs(help.class(Layer).methods) do
  if not parts.internal[method[1]] then
    write_function("layer:" .. method[1], Layer[method[1]],
      (table.concat(method[2].text, " "):gsub("%*", "\\*")))
  end
end
write ""
write("Fields of layers: `name`, `dtype`, `built`, `trainable`, `weights`, `trainable_variables`, "
  .. "`non_trainable_variables`, `losses`, `input`, "
  .. "`output`; of models besides `name`, `layers`, `inputs`, `outputs`, `weights`, "
  .. "`trainable_variables`, "
  .. "`non_trainable_variables`, `losses`, `metrics`, `metrics_names`, `loss`, `optimizer`, "
  .. "`stop_training`.")
write ""

-- ------------------------------------------------ callbacks

write "## Callbacks"
write ""
for _, entry in ipairs(parts.callbacks) do
  local name = entry[1]
  local c, text = keras.callbacks[name], text_of("callbacks", name)
  annotate_class("callbacks", name, c, text, name ~= "Callback"
    and "keras.callbacks.Callback" or nil)
  local code, message = entry[2], nil
  if code then message = assert(select(2, run(code, keras.callbacks)), code)
  elseif c.argument_rows then code, message = wrong_sample("callbacks", name, c) end
  write_entry(name, {text = text, call = string.format("callbacks.%s(%s)", name, signature(c)),
    takes = types_of(c),
    errors = code and wrong_text("callbacks", code, message),
    source = about_parts.source("callbacks", name)})
end

-- ------------------------------------------------ functions

-- A class among functions, its methods behind it as items of the list.
local function write_class(module, name, c)
  local about, text = help.class(c), text_of(module, name)
  annotate_class(module, name, c, text)
  write("- `%s.%s(%s)` – %s", module, name, signature(c), text)
  for _, line in ipairs(details.lines(name, about, "  ")) do write("%s", line) end
  for _, method in ipairs(about.methods) do
    local words = table.concat(method[2].text, " ")
    annotate_method(module .. "." .. name, method[1], words)
    write_function(name:lower() .. ":" .. method[1], c[method[1]], words)
  end
end

local titles = {models = "Files of models", utils = "Utilities",
  mixed_precision = "Mixed precision", datasets = "Data sets",
  preprocessing = "Preprocessing", ["preprocessing.sequence"] = "Sequences of numbers",
  ["preprocessing.text"] = "Texts", ["preprocessing.image"] = "Pictures as files"}
for _, module in ipairs{"models", "utils", "preprocessing", "preprocessing.sequence",
  "preprocessing.text", "preprocessing.image", "mixed_precision", "datasets"} do
  write("%s %s", module:find(".", 1, true) and "###" or "##", titles[module])
  write ""
  local owner = keras
  for each in module:gmatch("[%w_]+") do owner = owner[each] end
  for _, name in ipairs(parts.functions[module]) do
    local f, elsewhere = owner[name], parts.elsewhere[module .. "." .. name]
    if module == "datasets" then f = f.load_data end
    local text = elsewhere and "Another name of `" .. elsewhere .. "`."
      or comments["saving:" .. name] or comments[module .. ":" .. name]
      or comments[name] or class.is_class(f) and "See above."
      or table.concat(help.about(f).text, " ")
    local shown = module .. "." .. name .. (module == "datasets" and ".load_data" or "")
    if parts.spelled_out[name] then write_class(module, name, f)
    else
      annotate_function(module, name, text)
      if elsewhere or class.is_class(f) then
        write("- `%s` – %s", shown, text)
      else
        write_function(shown, f, text)
      end
    end
  end
  write ""
end

-- ------------------------------------------------ backend, other names

local other_names = require "ipulua.base.parts.offering"

local function sorted(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

write "## Backend"
write ""
write("`local K = keras.backend` has what own losses, metrics and layers of Keras are written "
  .. "with, under Keras' names and with its "
  .. "argument order: `K.mean(x, -1)`, `K.clip(x, 0, 1)`, `K.switch(condition, a, b)`. What is no "
  .. "tensor where one is wanted is an error of "
  .. "each: `K.mean(1)`: *%s*",
  select(2, run("mean(1)", keras.backend)))
write ""
write("A result has the shape and dtype of x where nothing else is said; reductions drop `axis`, "
  .. "or leave it as 1 with keepdims.")
write ""
for _, name in ipairs(sorted(keras.backend)) do
  local f, words = keras.backend[name], about_parts.of("backend", name).text
  local op = help.op_name(f)
  if op then write("- `K.%s` is the op [`ipu.%s`](ops.md)", name, op)
  else
    local about = assert(help.about(f), name)
    local given = parts.backend_calls[name] or {}
    local call = about.rows and row_text.signature(about.rows) or given[1]
      or table.concat(about.parameters, ", ")
    local what = words or #about.text > 0 and table.concat(about.text, " ")
      or error("no text for K." .. name)
    write("- `K.%s(%s)` – %s", name, call, what)
    local takes = given[2] or details.arguments(about)
    if takes then write("  - Takes: %s", takes) end
  end
end
write ""

write "## Other names"
write ""
write("Each module of parts also offers `get(name or part)`, `serialize(part)` and "
  .. "`deserialize(config, custom_objects)`. Keras' "
  .. "other names mean the same things:")
write ""
for _, module in ipairs{"layers", "losses", "initializers", "constraints"} do
  local list = {}
  for _, name in ipairs(sorted(other_names.names[module])) do
    list[#list + 1] = string.format("`%s` = %s", name, other_names.names[module][name])
  end
  write("- `%s`%s: %s", module, module == "losses" and " and `metrics`" or "",
    table.concat(list, ", "))
end
write ""
write "What Keras has and this library does not:"
write ""
for _, module in ipairs(sorted(other_names.missing)) do
  for _, name in ipairs(sorted(other_names.missing[module])) do
    write("- `%s.%s`: %s", module, name, other_names.missing[module][name])
  end
end
write ""

write "## Pipelines and others"
write ""
for _, entry in ipairs(parts.top) do
  local value = keras[entry[1]]
  write("- **%s** – %s", entry[1], entry[2])
  local about = class.is_class(value) and help.class(value) or type(value) == "function"
    and help.about(value)
  for _, line in ipairs(about and details.lines(entry[1], about, "  ") or {}) do
    write("%s", line)
  end
end
for _, name in ipairs{"export", "import"} do
  local f = keras.onnx[name]
  write_function("onnx." .. name, f, table.concat(help.about(f).text, " "))
end

annotate ""
annotate("return {Model = Model, layers = layers, losses = losses, metrics = metrics, optimizers = "
  .. "optimizers, schedules = schedules,")
annotate("  initializers = initializers, regularizers = regularizers, constraints = constraints, "
  .. "callbacks = callbacks,")
annotate("  activations = activations, models = models, utils = utils, preprocessing = "
  .. "preprocessing, mixed_precision = mixed_precision,")
annotate("  datasets = datasets}")

local core = require "ipulua.core"
local function output(path, lines)
  if folder then path = folder .. "/" .. path:match("[^/]*$") end
  core.make_folder(path:match("^(.*)/"))
  core.replace_file(path, table.concat(lines, "\n") .. "\n")
end
notes.check()
output("docs/reference/keras.md", md)
output("docs/library/keras.lua", meta)
