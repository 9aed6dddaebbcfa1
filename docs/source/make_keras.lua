-- `make docs` writes the pages of docs/reference/keras, their index docs/reference/keras.md, and
-- docs/library/keras.lua, annotations for LuaLS. The sources are the classes of ipu.keras, the rows
-- of their arguments, the comments above them, and samples that are run. Given a folder, it writes
-- there.

package.path = "docs/source/?.lua;" .. package.path
local class = require "ipulua.base.class"
local calls, unshown = require "calls".keras, require "calls".none
local backend_calls = require "calls".backend
local entry = require "entry"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"
local layer_sections, parts = require "keras_layers", require "keras_parts"
local notes = require "notes"
local pages = require "pages"
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

local book, meta = pages.new "keras", {}
local page -- that is being written
local function begin(title, intro, ...)
  page = pages.add(book, title, select("#", ...) > 0 and string.format(intro, ...) or intro)
end
local function write(format, ...)
  page.lines[#page.lines + 1] = select("#", ...) > 0 and string.format(format, ...) or format
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

-- An entry: o.text, o.call (its signature), o.calls (code that runs), o.arguments, and notes:
-- o.shapes, o.state, o.weights, o.result, o.errors, o.source.
local function write_entry(name, o)
  local leaf, module = name:match("[%w_]+$"), o.module and o.module:match("[%w_]+$")
  local names = name:find(":", 1, true) and {":" .. leaf .. "[({]"}
    or {(module or "keras") .. "%." .. leaf .. "%f[^%w_]"}
  local listed = o.notes or {}
  for kind, field in pairs{Shapes = "shapes", State = "state", Weights = "weights",
    Errors = "errors", Source = "source", Result = "result"} do
    listed[kind] = o[field] or listed[kind]
  end
  listed.Result = listed.Result or "nothing"
  listed.Errors = listed.Errors or "none of its own"
  local code = o.calls or calls[name] or calls[(o.module or "") .. "." .. name]
  local why = unshown[name]
  if not code and not why then notes.problem("no call in docs/source/calls.lua for %s", name) end
  pages.write(page, entry.lines{heading = o.heading or "###", name = name, text = o.text,
    signature = o.call, calls = code, unshown = not code and why, arguments = o.arguments,
    notes = listed, names = names, folder = page.folder,
    near = {page.names[#page.names], page.names[#page.names - 1], o.next}}, name)
end

local function wrong_text(module, code, message)
  return string.format("`%s.%s` (*%s*)", module, code, message)
end

local function arguments_of(c, name)
  return entry.arguments(name, {rows = c.argument_rows}, c.argument_kinds)
end

-- ------------------------------------------------ families

local intro <const> = "All of `ipu.keras`. `make docs` writes these pages from the library: "
  .. "arguments and defaults come from the code, shapes and messages from samples that run.\n\n"
  .. "Arguments by position come in the order given, those in braces by name. Both may stand in "
  .. "one "
  .. "table: `Dense{4, activation = \"relu\"}`. An argument that is unknown, of a wrong type or "
  .. "out of "
  .. "its range is an error with the script's line, the argument and the right values.\n\n"
  .. "Every call has run. In them `keras` is `ipu.keras`, `layers` `keras.layers`, `model` a model "
  .. "of 3 inputs, `compiled` the same, compiled, `v` a variable [3] and `K` `keras.backend`. "
  .. "`folder` is an empty folder, `pictures` and `texts` are folders of one class. The result "
  .. "follows the arrow; a tensor is shown by its shape."

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

local function wrong_of(row)
  local wrong, names = row.wrong, keras.layers
  if type(wrong) == "string" then
    local made, message = run(wrong, names)
    if message then return "`" .. in_layers(wrong) .. "`", message end
    local _, later = run("layer:compute_output_shape(shape)", {layer = made, shape = row.input})
    return string.format("`%s` on %s", in_layers(wrong), shape_text(row.input)),
      (assert(later, wrong))
  end
  if not wrong then return nil end
  local _, message = run("layer:compute_output_shape(shape)",
    {layer = run(row.sample, names), shape = wrong})
  return string.format("`%s` on %s", in_layers(row.sample), shape_text(wrong)),
    (assert(message, row[1]))
end

local function markdown(text) return (text:gsub(" %* ", " · ")) end

-- The input of a layer's sample as code; whole numbers where it wants such.
local function input_code(shape, whole)
  if type(shape[1]) ~= "table" then
    local extents = "{" .. table.concat(shape, ", ") .. "}"
    return whole and "ipu.zeros(" .. extents .. ', "int32")' or "ipu.ones" .. extents
  end
  local list = {}
  for i, each in ipairs(shape) do list[i] = input_code(each, whole) end
  return "{" .. table.concat(list, ", ") .. "}"
end

-- The call of a layer's sample on an input, with a result that `shown` sees.
local function layer_call(row)
  if not row.sample then return "layers." .. row[1] end
  local made = in_layers(row.sample)
  if row.operands then return made .. "(" .. row.operands .. ")" end
  if not row.input then return made end
  local last
  for _, whole in ipairs{false, true} do
    local code = made .. "(" .. input_code(row.input, whole) .. ")"
    local ok, message = notes.try(code, tostring)
    if ok then return code end
    last = message
  end
  notes.problem("%s: its sample cannot be called: %s", row[1], tostring(last))
  return made
end

-- The names of weights in their layer. A name that two have begins with the part that it is of.
local function names_in_layer(weights)
  local names, count = {}, {}
  for i, w in ipairs(weights) do
    names[i] = w.name:gsub(":%d+$", ""):match("[^/]+$")
    count[names[i]] = (count[names[i]] or 0) + 1
  end
  for i, w in ipairs(weights) do
    if count[names[i]] > 1 then names[i] = w.name:gsub(":%d+$", ""):match("[^/]+/[^/]+$") end
  end
  return names
end

-- The weights of the sample after its call: "kernel [3, 4], bias [4]".
local function weights_of(row)
  if not row.sample or not (row.input or row.operands) then return "none" end
  local code = layer_call(row)
  local at = #in_layers(row.sample)
  local list = {}
  notes.try("ipu.keras.utils.reset_names() local l = " .. code:sub(1, at) .. " l"
    .. code:sub(at + 1) .. " return l.weights",
    function(weights)
      local names = names_in_layer(weights)
      for i, w in ipairs(weights) do
        list[i] = string.format("`%s` %s", names[i], shape_text(w.shape))
      end
      return ""
    end)
  return #list > 0 and table.concat(list, ", ") .. ", in the call above" or "none"
end

local function layer_entry(row)
  local name = row[1]
  local c = keras.layers[name]
  local o = {text = text_of("layers", name), source = about_parts.source("layers", name)}
  if not class.is_class(c) then
    annotate_function("layers", name, o.text)
    local of = name:gsub("^%l", string.upper)
    o.call = string.format("layers.%s(%s)", name, name == "Input"
      and row_text.signature(help.about(c).rows) or "inputs, {…}")
    if name == "Input" then
      o.arguments, o.calls = entry.arguments(name, help.about(c)), {"keras.Input{3}"}
      o.result, o.weights = "a symbolic tensor", "none"
    else
      o.arguments = {{"inputs", "list of tensors", "required", "tensors of one shape"},
        {"…", "of " .. of, "none", "the arguments of " .. of}}
      o.shapes, o.errors, o.result = "as " .. of, "as " .. of, "tensor"
      o.weights, o.calls = "none", {string.format("layers.%s{ipu.ones{2, 3}, ipu.ones{2, 3}%s}",
        name,
        name == "dot" and ", axes = 1" or "")}
    end
  else
    local derived = c.super ~= nil
    annotate_class("layers", name, c, o.text, derived and "keras.layers.Layer" or nil)
    local own_part = derived and own(c, Layer) or c
    o.call = string.format("layers.%s(%s)", name, signature(own_part))
    o.arguments = entry.arguments(name, {rows = own_part.argument_rows}, c.argument_kinds)
    o.result = derived and "a layer, which is called with its inputs" or "the class"
    o.calls = {layer_call(row)}
    o.weights = weights_of(row)
  end
  keras.utils.reset_names()
  if row.sample and row.input then
    local layer = assert(run(row.sample, keras.layers))
    local result = layer:compute_output_shape(row.input)
    local problem = shapes.problem(assert(row.is, name), row.input, result, layer)
    if problem then notes.problem("%s: %s", name, problem) end
    o.shapes = string.format("%s%s. `%s`: %s → %s", markdown(row.is),
      row.also and "; " .. row.also or "", in_layers(row.sample),
      shape_text(row.input), shape_text(result))
  elseif row.sample then
    assert(run(row.sample, keras.layers))
    o.shapes = string.format("%s. `%s`", assert(row.shapes, name), in_layers(row.sample))
  elseif name == "Layer" or name == "OpLambda" then o.shapes = "any, with the batch first" end
  keras.utils.reset_names()
  local sample, message = wrong_of(row)
  if sample then o.errors = string.format("%s (*%s*)", sample, message)
  elseif class.is_class(c) then o.errors = wrong_text("layers", wrong_sample("layers", name, c)) end
  write_entry(name, o)
end

local every_layer <const> = string.format("Every layer also takes %s. `-1` in a shape is an "
  .. "extent that is unknown. Shapes below are "
  .. "of whole "
  .. "batches, with the names of arguments, and of a sample. `...` are any extents; "
  .. "a prime marks one that is computed. Floating-"
  .. "point inputs are cast to the layer's dtype (the policy of mixed_precision, float32 by "
  .. "default). Results that aren't integers have that dtype, too.",
  "`" .. signature(Layer) .. "`")
for _, section in ipairs(layer_sections) do
  begin("Layers: " .. section[1], every_layer .. (section.words and "\n\n" .. section.words or ""))
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

begin("Losses", "An object `losses.Name` weighs the numbers of the samples and reduces them "
  .. "(reduction "
  .. "\"auto\" or \"sum_over_batch_size\": their "
  .. "mean, \"sum\", \"none\"; the names are also in `losses.Reduction`); a function of the same "
  .. "name in small letters "
  .. "(`losses.mean_squared_error(y_true, y_pred)`) gives one number for each sample, [batch, …]. "
  .. "compile takes either, or its name. "
  .. "Labels are cast to the dtype of the predictions, and the loss has it, too. Labels and "
  .. "predictions never broadcast: *%s*",
  select(2, run("losses.MeanSquaredError()(y, wrong)",
    {losses = keras.losses, y = y, wrong = ipu.ones{2, 4}})))
for _, row in ipairs(parts.losses) do
  local name, kind = row[1], row[2]
  local c = keras.losses[name]
  local o = {text = text_of("losses", name),
    call = string.format("losses.%s(%s)", name, signature(c)), arguments = arguments_of(c, name),
    module = "losses", result = "a loss, which is called with labels and predictions",
    state = "none", source = about_parts.source("losses", name)}
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
    o.calls = {string.format("keras.losses.%s()(%s, ipu.ones{2, 3})", name,
      kind == "sparse" and 'ipu.zeros({2}, "int32")' or "ipu.zeros{2, 3}")}
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
begin("Metrics", "`metric:update_state(y_true, y_pred, {sample_weight})` takes a batch in, "
  .. "`metric:result()` "
  .. "is the value so far, "
  .. "`metric:reset_state()` begins anew; `metric(...)` does the first two. The functions of the "
  .. "same names in small letters give a "
  .. "number for each sample. Shapes must agree: *%s*",
  select(2, run("metrics.MeanSquaredError()(y, wrong)",
    {metrics = keras.metrics, y = y, wrong = ipu.ones{2, 4}})))

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

-- A metric's call on a batch.
local function metric_call(name, kind)
  local made = "keras.metrics." .. (kind and kind:find("%(") and kind or name .. "()")
  if kind == "value" then return made .. "(ipu.ones{2, 3})" end
  if kind == "normalizer" then
    return "keras.metrics." .. name .. "{normalizer = ipu.ones{2, 3}}(ipu.zeros{2, 3}, "
      .. "ipu.ones{2, 3})"
  end
  if kind == "sparse" then return made .. '(ipu.zeros({2}, "int32"), ipu.ones{2, 3})' end
  if name == "MeanIoU" then made = "keras.metrics.MeanIoU(3)" end
  return made .. "(ipu.zeros{2, 3}, ipu.ones{2, 3})"
end

-- The variables of the metric that a call makes: "total [], count []".
local function state_of(code)
  local made, rest = code:match("^(.-%b())(%(.*)$")
  if not made then made, rest = code:match("^(.-%b{})(%(.*)$") end
  local list = {}
  notes.try(made and "local m = " .. made .. " m" .. rest .. " return m.weights" or "nil",
    function(weights)
      for i, w in ipairs(weights or {}) do
        list[i] = string.format("`%s` %s", w.name:match("[^/]+$"):gsub(":%d+$", ""),
          shape_text(w.shape))
      end
      return ""
    end)
  return #list > 0 and table.concat(list, ", ") or "none"
end

for _, row in ipairs(parts.metrics) do
  local name = row[1]
  local c = keras.metrics[name]
  local o = {text = text_of("metrics", name),
    call = string.format("metrics.%s(%s)", name, signature(c)), arguments = arguments_of(c, name),
    module = "metrics", result = "a metric, which is called with labels and predictions",
    calls = not calls[name] and {metric_call(name, row[2])} or nil,
    source = about_parts.source("metrics", name)}
  o.state = state_of(o.calls and o.calls[1] or calls[name][1])
  annotate_class("metrics", name, c, o.text, name ~= "Metric" and "keras.metrics.Metric" or nil)
  o.shapes = row[3] or metric_shapes(name, row[2])
  o.errors = wrong_text("metrics", wrong_sample("metrics", name, c))
  write_entry(name, o)
end

write("As functions: %s.", functions_of("metrics"))
write ""

-- ------------------------------------------------ optimizers and schedules

begin("Optimizers", "Each also takes `%s`. The learning rate is a number, a schedule or a "
  .. "function. Variables "
  .. "beside each weight have its shape. "
  .. "Error: `optimizers.Adam{learnig_rate = 1}`: *%s*", signature(own(keras.optimizers.Optimizer)),
  select(2, run("Adam{learnig_rate = 1}", keras.optimizers)))

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

for _, row in ipairs(parts.optimizers) do
  local name = row[1]
  local c, text = keras.optimizers[name], text_of("optimizers", name)
  annotate_class("optimizers", name, c, text, name ~= "Optimizer"
    and "keras.optimizers.Optimizer" or nil)
  local wraps = false
  for k in function(_, k) return (k or {super = c}).super end do
    wraps = wraps or k.__name == "Wrapper"
  end
  local own_part = wraps and c
    or own(c, {argument_rows = {table.unpack(keras.optimizers.Optimizer.argument_rows, 2)}})
  local needs_opt = wraps and not name:find("^ALSOptimizer%u")
  write_entry(name,
    {text = text, call = string.format("optimizers.%s(%s)", name, signature(own_part)),
      arguments = arguments_of(own_part, name), module = "optimizers",
      result = "an optimizer; compile takes it", calls = name ~= "Optimizer" and {
        string.format("keras.optimizers.%s(%s):apply_gradients{{ipu.ones{3}, v}} return v", name,
          not needs_opt and "" or name:find("Map") and "keras.optimizers.SGD(), function(g, w) "
            .. "return "
            .. "g / 2 end" or name == "ALSGradientAccumulationOptimizer"
            and "keras.optimizers.ALSOptimizer(keras.optimizers.SGD()), 1"
            or name:find("Accumulation") and "keras.optimizers.SGD(), 1"
            or "keras.optimizers.SGD()")} or nil,
      state = not (wraps or name == "Optimizer") and slots_of(c) .. ", beside each variable"
        or "as the wrapped optimizer",
    shapes = "gradients, variables {[...], [...]}: alike"
      .. ((wraps or name == "Optimizer") and "" or "; beside each variable, like it: "
        .. slots_of(c)),
    errors = wrong_text("optimizers", wrong_sample("optimizers", name, c)),
    source = about_parts.source("optimizers", name)})
end

begin("Learning-rate schedules",
  "In `optimizers.schedules`; called with the number of updates made.")
for _, row in ipairs(parts.schedules) do
  local name = row[1]
  local c, text = keras.optimizers.schedules[name], text_of("schedules", name)
  annotate_class("schedules", name, c, text, name ~= "LearningRateSchedule"
    and "keras.schedules.LearningRateSchedule" or nil)
  local more
  if row[2] then
    local schedule, values = run(row[2], keras.optimizers.schedules), {}
    for i, step in ipairs{0, 5, 15} do
      values[i] = string.format("%.4g", schedule(ipu.tensor(step, {dtype = "int64"})):item())
    end
    more = string.format("`schedules.%s` at 0, 5, 15: %s", row[2], table.concat(values, ", "))
  end
  write_entry(name, {text = text, call = string.format("schedules.%s(%s)", name, signature(c)),
    arguments = arguments_of(c, name), module = "schedules", result = "a schedule; optimizers "
      .. "take it",
    calls = row[2] and {"keras.optimizers.schedules." .. row[2] .. "(5)"},
    state = "none", shapes = "int64 [] → float32 []" .. (more and ". " .. more or ""),
      errors = wrong_text("schedules", wrong_sample("schedules", name, c)),
    source = about_parts.source("schedules", name)})
end

-- ------------------------------------------------ initializers, regularizers, constraints

begin("Initializers", "Called with a shape: `initializers.HeNormal()({3, 4})` is a tensor [3, 4]. "
  .. "Layers take an object or its name (`\"he_normal\"`).")
for _, row in ipairs(parts.initializers) do
  local name = row[1]
  local c, text = keras.initializers[name], text_of("initializers", name)
  annotate_class("initializers", name, c, text, name ~= "Initializer"
    and "keras.initializers.Initializer" or nil)
  local errors
  if row[2] then
    local _, message = run("initializer(shape)", {initializer = c(), shape = row[2]})
    errors = string.format("for %s: *%s*", shape_text(row[2]), message)
  end
  write_entry(name, {text = text, call = string.format("initializers.%s(%s)", name, signature(c)),
    arguments = arguments_of(c, name), module = "initializers",
    result = "an initializer, which is called with a shape",
    calls = not calls[name] and {string.format("keras.initializers.%s()({2, 3})", name)} or nil,
    state = "none", shapes = "a shape {...} → [...] of the dtype given, float32 by default",
    errors = errors or wrong_text("initializers", wrong_sample("initializers", name, c)),
    source = about_parts.source("initializers", name)})
end

for _, module in ipairs{"regularizers", "constraints"} do
  begin(module:gsub("^%l", string.upper), module == "regularizers" and "A number that training "
    .. "adds to the loss; called with a "
    .. "weight of any shape, it gives a scalar."
    or "What becomes of a weight after each update; called with it, it gives a tensor of the same "
    .. "shape.")
  for _, row in ipairs(parts[module]) do
    local name = row[1]
    local c, text = keras[module][name], text_of(module, name)
    local o = {text = text, shapes = module == "regularizers" and "[...] → []" or "[...] → [...]",
      source = about_parts.source(module, name), module = module, state = "none",
      result = module == "regularizers" and "a regularizer, which is called with a weight"
        or "a constraint, which is called with a weight",
      calls = not calls[name] and {string.format("keras.%s.%s()(ipu.ones{3, 3%s})", module, name,
        name == "RadialConstraint" and ", 1, 1" or "")} or nil}
    if class.is_class(c) then
      annotate_class(module, name, c, text)
      o.call = string.format("%s.%s(%s)", module, name, signature(c))
      o.arguments = arguments_of(c, name)
      o.errors = wrong_text(module, wrong_sample(module, name, c))
    else
      annotate_function(module, name, text)
      local of = text:match("(%w+)%.?$") .. "'s"
      o.call, o.errors = string.format("%s.%s(…)", module, name), "as " .. of
      o.arguments = {{"…", "of " .. of:sub(1, -3), "none", "the arguments of " .. of:sub(1, -3)}}
    end
    write_entry(name, o)
  end
end

-- ------------------------------------------------ activations

begin("Activations", "In `keras.activations`: functions of a tensor of any shape, with a result "
  .. "of the same "
  .. "shape; layers take them or their names. Error: "
  .. "`layers.Activation(\"reluu\")`: *%s*", select(2, run("Activation(\"reluu\")", keras.layers)))
for _, row in ipairs(parts.activations) do
  local name = row[1]
  local text = text_of("activations", name)
  annotate_function("activations", name, text)
  local about = help.about(keras.activations[name])
  local is_op = not about or not about.rows and #about.takes == 0
  write_entry(name, {text = (text:gsub("%.?$", ".")), call = string.format("activations.%s(%s)",
    name,
    about and about.rows and row_text.signature(about.rows) or about
      and table.concat(about.parameters, ", ") or "x"),
    calls = {name == "get" and 'keras.activations.get("relu")'
      or string.format("keras.activations.%s(ipu.ones{2, 3})", name)}, module = "activations",
    arguments = is_op and {{"x", "tensor, number or list", "required", "operand"}}
      or entry.arguments(name, about), result = name == "get" and "a function" or "tensor",
    shapes = name ~= "get" and "[...] → [...]" or nil,
    errors = name == "get" and "an unknown name" or "an operand that is no tensor",
    source = name ~= "get" and about_parts.source("activations", name) or nil})
end

-- ------------------------------------------------ models

begin("Models", "A model is a layer: what every layer has stands at the end. Fields of layers: "
  .. "`name`, "
  .. "`dtype`, `built`, `trainable`, `weights`, `trainable_variables`, `non_trainable_variables`, "
  .. "`losses`, `input`, `output`. Models also have `layers`, `inputs`, `outputs`, `metrics`, "
  .. "`metrics_names`, `loss`, `optimizer` and `stop_training`. For train_steps of their own there "
  .. "are `compiled_loss(y, y_pred, {sample_weight, regularization_losses})` and "
  .. "`compiled_metrics:update_state(y, y_pred, sample_weight)`, fields as in Keras 2.6.")

-- A function or method.
local function write_function(name, f, text, heading)
  local about = assert(help.about(f), name)
  local call = about.rows and row_text.signature(about.rows)
    or table.concat(about.parameters, ", ", name:find(":", 1, true) and 2 or 1)
  local o = {text = text, call = string.format("%s(%s)", name, (call:gsub("%.%.%.", "…"))),
    arguments = entry.arguments(name, about), notes = entry.notes(name, about), heading = heading,
    module = name:match("^(.*)%.[%w_]+$")}
  write_entry(name, o)
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
  write_entry(name, {text = name == "Model"
    and "A model of tensors that layers were called with; or, extended by "
    .. "`keras.Model:extend(\"Name\")`, "
    .. "a class with `call(x, {training =})`." or "One layer after another.",
    call = name == "Model" and "keras.Model{inputs =, outputs =, name =}"
      or "keras.Sequential{layer, layer, …, name =}",
    arguments = entry.arguments(name, {rows = keras[name].argument_rows}),
    result = "a model", weights = "of its layers",
    errors = "layers that do not fit each other", source = "tf.keras." .. name})
end
for _, method in ipairs{"add", "pop"} do
  local about = help.about(keras.Sequential[method])
  write_entry("model:" .. method, {heading = "####", text = table.concat(about.text, " "),
    call = string.format("model:%s(%s)", method, method == "add" and "layer" or ""),
    arguments = method == "add" and {{"layer", "Layer", "required", "layer"}} or nil,
    notes = entry.notes("model:" .. method, about)})
end
for _, method in ipairs(methods_of("Model")) do
  if not (parts.internal[method] or internal["Model:" .. method]) then
    write_function("model:" .. method, keras.Model[method], comments["Model:" .. method], "####")
    annotate_method("Model", method, comments["Model:" .. method])
  end
end
for _, method in ipairs(help.class(Layer).methods) do
  if not parts.internal[method[1]] then
    write_function("layer:" .. method[1], Layer[method[1]],
      (table.concat(method[2].text, " "):gsub("%*", "\\*")), "####")
  end
end

-- ------------------------------------------------ callbacks

begin("Callbacks", "fit, evaluate and predict take a list of them as `callbacks`.")
local callback_given <const> = {ModelCheckpoint = 'folder .. "/m.safetensors"',
  BackupAndRestore = 'folder .. "/b"', CSVLogger = 'folder .. "/l.csv"',
  TensorBoard = '{log_dir = folder .. "/t"}',
  LearningRateScheduler = "function(epoch, rate) return rate / 2 end"}
local function callback_call(name)
  if name == "Callback" then return 'keras.callbacks.Callback:extend("Own")' end
  if name == "CallbackList" then return "keras.callbacks.CallbackList{}" end
  return string.format("compiled:fit(ipu.ones{4, 3}, ipu.ones{4, 1}, {verbose = 0, callbacks = "
    .. "{keras.callbacks.%s(%s)}})", name, callback_given[name] or "")
end

for _, row in ipairs(parts.callbacks) do
  local name = row[1]
  local c, text = keras.callbacks[name], text_of("callbacks", name)
  annotate_class("callbacks", name, c, text, name ~= "Callback"
    and "keras.callbacks.Callback" or nil)
  local code, message = row[2], nil
  if code then message = assert(select(2, run(code, keras.callbacks)), code)
  elseif c.argument_rows then code, message = wrong_sample("callbacks", name, c) end
  write_entry(name, {text = text, call = string.format("callbacks.%s(%s)", name, signature(c)),
    arguments = arguments_of(c, name), module = "callbacks", result = "a callback",
    calls = {callback_call(name)}, state = "none",
    errors = code and wrong_text("callbacks", code, message) or "none of its own",
    source = about_parts.source("callbacks", name)})
end

-- ------------------------------------------------ functions

-- A class among functions, with its methods.
local function write_class(module, name, c)
  local about, text = help.class(c), text_of(module, name)
  annotate_class(module, name, c, text)
  local listed = entry.notes(name, about)
  listed.Result = "a " .. name
  write_entry(module .. "." .. name, {text = text, call = string.format("%s.%s(%s)", module, name,
    signature(c)), arguments = entry.arguments(name, about), notes = listed, module = module})
  for _, method in ipairs(about.methods) do
    local words = table.concat(method[2].text, " ")
    annotate_method(module .. "." .. name, method[1], words)
    write_function(name:lower() .. ":" .. method[1], c[method[1]], words, "####")
  end
end

local titles = {models = "Files of models", utils = "Utilities",
  mixed_precision = "Mixed precision", datasets = "Data sets",
  preprocessing = "Preprocessing", ["preprocessing.sequence"] = "Sequences of numbers",
  ["preprocessing.text"] = "Texts", ["preprocessing.image"] = "Pictures as files"}
for _, module in ipairs{"models", "utils", "preprocessing", "preprocessing.sequence",
  "preprocessing.text", "preprocessing.image", "mixed_precision", "datasets"} do
  begin(titles[module])
  local owner = keras
  for each in module:gmatch("[%w_]+") do owner = owner[each] end
  for _, name in ipairs(parts.functions[module]) do
    local f, elsewhere = owner[name], parts.elsewhere[module .. "." .. name]
    if module == "datasets" then f = f.load_data end
    local text = elsewhere and "Another name of `" .. elsewhere .. "`."
      or class.is_class(f)
        and string.format("Another name of [%s](models.md#%s).", name, name:lower())
      or comments["saving:" .. name] or comments[module .. ":" .. name] or comments[name]
      or table.concat(help.about(f).text, " ")
    local shown = module .. "." .. name .. (module == "datasets" and ".load_data" or "")
    if parts.spelled_out[name] then write_class(module, name, f)
    else
      annotate_function(module, name, text)
      if elsewhere or class.is_class(f) then
        pages.write(page, {"### " .. shown, "", text, ""}, shown)
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

begin("Backend", "`local K = keras.backend` has what own losses, metrics and layers of Keras are "
  .. "written "
  .. "with, under Keras' names and with its "
  .. "argument order: `K.mean(x, -1)`, `K.clip(x, 0, 1)`, `K.switch(condition, a, b)`. What is no "
  .. "tensor where one is wanted is an error of "
  .. "each: `K.mean(1)`: *%s*",
  select(2, run("mean(1)", keras.backend)))
write("A result has the shape and dtype of x where nothing else is said. Reductions drop `axis`; "
  .. "with "
  .. "keepdims they leave it as 1.")
write ""
for _, name in ipairs(sorted(keras.backend)) do
  local f, words = keras.backend[name], about_parts.of("backend", name).text
  local op = help.op_name(f)
  if op then
    pages.write(page, {"### K." .. name, "", string.format("The op [`ipu.%s`](../ops.md).", op),
      ""},
      "K." .. name)
  else
    local about = assert(help.about(f), name)
    local given = parts.backend_calls[name] or {}
    local call = about.rows and row_text.signature(about.rows) or given[1]
      or table.concat(about.parameters, ", ")
    local listed = entry.notes("K." .. name, about)
    listed.Result = listed.Result or "tensor"
    write_entry("K." .. name, {text = words or #about.text > 0 and table.concat(about.text, " ")
      or error("no text for K." .. name), call = string.format("K.%s(%s)", name, call),
      calls = {backend_calls[name] or string.format("K.%s(ipu.ones{2, 3})", name)},
      arguments = given.arguments or entry.arguments(name, about), notes = listed, module = "K",
      errors = call ~= "" and "an operand that is no tensor" or "none of its own"})
  end
end

begin("Other names", "Each module of parts also offers `get(name or part)`, `serialize(part)` and "
  .. "`deserialize(config, custom_objects)`. Keras' "
  .. "other names mean the same things:")
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

begin "Pipelines and others"
for _, row in ipairs(parts.top) do
  local name, value = row[1], keras[row[1]]
  local about = class.is_class(value) and help.class(value) or type(value) == "function"
    and help.about(value)
  local other = row[2]:match("^Another name of (%w+)%.")
  if other then pages.write(page, {"### " .. name, "", "Another name of [" .. other .. "](#"
    .. other:lower() .. ").", ""}, name)
  else
    local call, text = row[2]:match("^(`.-`): (.*)$")
    write_entry(name, {text = text or row[2], call = call and (call:find("keras", 1, true)
      and call:sub(2, -2) or name .. call:sub(2, -2)) or about
      and string.format("keras.%s(%s)", name, row_text.signature(about.rows)) or nil,
      arguments = about and entry.arguments(name, about), notes = about and entry.notes(name,
        about),
      result = name == "onnx" and "a module" or "an object"})
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

notes.finish()
notes.check()
pages.save(book, "Keras", intro, folder)
local path <const> = folder and folder .. "/keras.lua" or "docs/library/keras.lua"
require "ipulua.core".replace_file(path, table.concat(meta, "\n") .. "\n")
