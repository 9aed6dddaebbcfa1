-- help(x) at the prompt. Ops are explained by their rows, classes by the rows of their arguments,
-- functions by the annotations above them. The reference is made of the same sources.

local about_parts = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local comments = require "ipulua.tools.comments"
local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"
local interval = require "ipulua.base.interval"
local ipu = require "ipulua"
local modules = require "ipulua.base.modules"
local op_help = require "ipulua.tools.op_help"
local public_names = require "ipulua.base.public_names"
local values = require "ipulua.tools.values"

local help = {
  about = comments.about, notes = comments.notes, parts = comments.parts, plain = comments.plain,
  rows = comments.rows, op = op_help.lines, op_name = op_help.name, options = op_help.options,
  attribute_type = op_help.attribute_type,
}

local methods_of <const> = public_names.methods_of

-- ------------------------------------------------ rows of arguments

---The type of a row in words: "list or integer". A class is its name, an enumeration its members;
---numbers have their range.
---@param row table
---@return string
function help.type_text(row)
  if row.of then return row.of end
  local types = row[2]
  if type(types) ~= "table" or enum.is(types) or class.is_class(types) then types = {types} end
  local words = {}
  for i, t in ipairs(types) do
    words[i] = enum.is(t) and table.concat(enum.members(t), " | ") or class.is_class(t) and t.__name
      or tostring(t)
  end
  if row.choices then return table.concat(row.choices, " | ") end
  local range = row.range and " " .. interval.words(row.range) or ""
  return table.concat(words, ", "):gsub("^(.*), ", "%1 or ") .. range
end

-- part: the kind of Keras' parts that a name or object belongs to ("initializer").
local function row_line(width, row, part)
  local kind = part or help.type_text(row)
  local line = ("  %-" .. width .. "s  %s"):format(row[1], kind)
  local says = row.says and "; " .. row.says or ""
  if type(row[3]) == "table" and next(row[3]) == nil then return line .. ", default {}" .. says end
  if type(row[3]) == "string" and not row[3]:find("%S") then
    return ('%s, default "%s"%s'):format(line, row[3], says)
  end
  if row[3] ~= nil then
    return line .. ", default " .. args.describe(row[3]):gsub("^%w+ %((.*)%)$", "%1") .. says
  end
  return line .. (row.optional and "" or ", required") .. says
end

-- Adds the lines of rows; returns their names.
local function add_rows(lines, rows, kinds)
  local names, width = {}, 0
  for i, row in ipairs(rows) do
    names[i] = row[1]
    width = math.max(width, #row[1])
  end
  for _, row in ipairs(rows) do
    lines[#lines + 1] = row_line(width, row, kinds and kinds[row[1]])
  end
  return names
end

-- ------------------------------------------------ lines

local function add_words(lines, heading, words)
  lines[#lines + 1] = heading .. " " .. table.concat(words, " ")
end

-- As lines of help.
local function add_notes(lines, notes)
  for _, name in ipairs(help.notes) do
    if notes[name] then
      lines[#lines + 1] = name == "Source" and op_help.source_line(notes[name])
        or ("  %s: %s"):format(name:lower(), notes[name])
    end
  end
end

-- The module of a part of Keras: "losses", "Huber".
local function keras_place(x)
  local keras = package.loaded["ipulua.keras"]
  if not keras then return nil end
  for module, list in pairs(about_parts.all()) do
    local owner = module == "schedules" and keras.optimizers.schedules or rawget(keras, module)
    for _, row in ipairs(type(owner) == "table" and list or {}) do
      if rawget(owner, row[1]) == x then return module, row[1] end
    end
  end
end

-- The words on a part of Keras, and its source.
local function keras_words(x)
  local module, name = keras_place(x)
  if not module then return {} end
  return {about_parts.of(module, name).text}, about_parts.source(module, name)
end

-- mean_squared_error computes the loss of the class MeanSquaredError: its call, with that class's
-- sentence.
local function keras_sentence(f)
  local keras = package.loaded["ipulua.keras"]
  for _, module in ipairs{"losses", "metrics", "activations", "layers"} do
    for name, value in next, keras and rawget(keras, module) or {} do
      if value == f and type(name) == "string" then
        local words
        for _, row in ipairs(about_parts.list(module)) do
          if row[1]:lower() == name:gsub("_", "") then words = row.text end
        end
        local call = module == "activations" and "(x)" or module == "layers" and "(inputs, {…})"
          or "(y_true, y_pred)"
        if words then return "keras." .. module .. "." .. name, words, call end
      end
    end
  end
end

local function keras_function(f, text)
  local name, words, call = keras_sentence(f)
  return name and {(text or name) .. call, words,
    call == "(y_true, y_pred)" and "  shapes: [batch, …], [batch, …] → one number for each sample"
    or nil}
end

-- The sentence of a function whose comment has none: of its module's list, or of its class.
local function registered_words(f)
  local words = keras_words(f)
  return #words > 0 and words or {(select(2, keras_sentence(f)))}
end

local function function_help(f, text)
  local found = help.about(f)
  if not found then return nil end
  if #found.text + #found.takes + #found.gives == 0 and not found.rows then return nil end
  local words = #found.text > 0 and found.text or registered_words(f)
  local lines = {found.rows and ""
    or ("%s(%s)"):format(text or "function", table.concat(found.parameters, ", "))}
  table.move(words, 1, #words, 2, lines)
  if not found.rows then -- else the rows say it better
    for _, each in ipairs(found.takes) do lines[#lines + 1] = "  takes " .. help.plain(each) end
  end
  for _, each in ipairs(found.gives) do lines[#lines + 1] = "  gives " .. help.plain(each) end
  if found.rows then
    local names = add_rows(lines, found.rows)
    lines[1] = ("%s{%s}"):format(text or "function", table.concat(names, ", "))
  end
  add_notes(lines, found.notes)
  return lines
end

-- A function that checks its own arguments and has its sentence in its module's list.
local function listed_help(f, text)
  local words = keras_words(f)
  return #words > 0 and {(text or "function") .. "(...)", words[1]} or nil
end

local hidden <const> = {init = true, extend = true, is_a = true, new = true, substitute = true,
  after_init = true, f = true}

---The facts of a class: sentences `text`, `notes`, `rows` of its arguments. `methods`: {name,
---about, class that defines it} of the ones with words.
---@param c Class
---@return table
function help.class(c)
  local methods, seen, list = {}, {}, nil
  local k = c
  while k do
    list = list or rawget(k, "argument_rows") or help.rows(rawget(k, "init"))
    for name, f in next, k do
      local about = type(f) == "function" and type(name) == "string" and name:find("^%l")
        and not (hidden[name] or seen[name])
        and help.about(f)
      if about and #about.text > 0 and not about.internal then
        methods[#methods + 1] = {name, about, k}
      end
      seen[name] = true
    end
    k = rawget(k, "super")
  end
  table.sort(methods, function(a, b) return a[1] < b[1] end)
  local comment = comments.of_class(c)
  local words, source = keras_words(c)
  comment.notes.Source = comment.notes.Source or source
  return {text = #comment.text > 0 and comment.text or words, notes = comment.notes,
    rows = list or {}, methods = methods}
end

local function class_help(c)
  local found = help.class(c)
  local lines = table.move(found.text, 1, #found.text, 2, {""})
  local names = add_rows(lines, found.rows, c.argument_kinds)
  lines[1] = ("%s{%s}"):format(c.__name, table.concat(names, ", "))
  local methods = {}
  for i, each in ipairs(found.methods) do methods[i] = each[1] end
  if #methods > 0 then add_words(lines, "  methods:", methods) end
  add_notes(lines, found.notes)
  return lines
end

-- ------------------------------------------------ whatever it is

-- Whether a table is one that scripts see as a module of the library.
local function is_module(x)
  if rawget(x, "__names") or modules.is_guarded(x) then
    return x ~= package.loaded["ipulua.enums"]
  end
  for module, value in pairs(package.loaded) do
    if value == x and type(module) == "string" and module:find("^ipulua%.") then return true end
  end
  return false
end

-- Functions that the library's own files call in each other: those marked so, or without a
-- docstring.
local function is_internal(value)
  local about = type(value) == "function" and not help.op_name(value) and help.about(value)
  return about
    and (about.internal or not about.rows and #about.text + #about.takes + #about.gives == 0)
    and not (keras_place(value) or keras_function(value))
end

---The public names of a module of the library; nil for another table.
---@param x table
---@return string[]?
function help.names(x)
  if not is_module(x) then return nil end
  local names, seen = {}, {}
  local function add(name)
    if type(name) ~= "string" or not name:find("^%a") or seen[name]
      or is_internal(rawget(x, name)) then
      return
    end
    seen[name], names[#names + 1] = true, name
  end
  local listed = rawget(x, "__names")
  for _, name in ipairs(listed and listed() or {}) do add(name) end
  if not listed then
    for name in next, x do add(name) end
  end
  table.sort(names)
  return names
end

-- A module by its names; of ipu itself by kind.
local function names_help(x, text, names)
  local lines = {}
  if x ~= ipu then
    add_words(lines, (text or "module") .. ":", names)
    return lines
  end
  lines[1] = text or "ipu"
  for _, kind in ipairs(require "ipulua.tools.search".kinds(names)) do
    add_words(lines, "  " .. kind[1] .. ":", kind[2])
  end
  lines[#lines + 1] = '  help("word") lists what has a word in its name, help(x) explains x'
  return lines
end

-- Methods of tensors and variables that are no ops are written in C, with no comment above them:
-- function → {call, gives, sentence, notes}.
local value_methods, method_words = {}, {}
for i, methods in ipairs(methods_of) do
  local list = {}
  for _, entry in ipairs(values[i][4]) do
    local name = entry[1]:match("^[%w_]+")
    value_methods[methods[name]], list[#list + 1] = entry, name
  end
  method_words[i] = table.concat(list, " ")
end

local function value_method_help(f, text)
  local call, gives, sentence, notes = table.unpack(value_methods[f])
  local lines = {(text or "function") .. call:match("%(.*$"), sentence, "  gives " .. gives}
  add_notes(lines, notes)
  return lines
end

local function tensor_help(x, text)
  local symbolic = core.is_symbolic(x)
  local kind = core.is_variable(x) and "a variable" or symbolic and "a symbolic tensor"
    or "a tensor"
  local dtype, shape = core.type_of(x)
  local lines = {("%s: %s, %s[%s]"):format(text or "value", kind, dtype, table.concat(shape, ", "))}
  local fields = core.is_variable(x) and "fields: name dtype shape trainable"
    or "fields: dtype shape rank size"
  lines[2] = "  " .. fields
  if not symbolic then lines[3] = "  methods: " .. method_words[core.is_variable(x) and 2 or 1] end
  lines[#lines + 1] = "  all ops that take it first are methods, too, as in x:reduce_sum{axis = 0}"
  return lines
end

-- An op that a script has registered: where its function begins, and whose gradient it has.
local function registered_help(given)
  local info = type(given.call) == "function" and debug.getinfo(given.call, "S")
  local place = info and info.what ~= "C"
    and (", %s:%d"):format(info.short_src, info.linedefined) or ""
  return {("ipu.%s: an op that was registered by register_op%s"):format(given.name, place),
    given.gradient and "  with a gradient of its own" or "  with the gradients of the ops in it"}
end

---The prompt's text for a function of the library; nil for others.
---@param f function
---@return string?
function help.title(f)
  local name = public_names.of(f)
  return name and ("<function %s; help(%s) explains it>"):format(name, name)
end

-- A text: something public by that name, else all that the word is in.
local function string_help(word)
  local value = ipu
  for part in word:gmatch("[^.]+") do
    local known, inner = pcall(function() return value[part] end)
    value = known and inner or nil
    if value == nil then break end
  end
  if value ~= nil and value ~= ipu and type(value) ~= "string" then
    return help.lines(value, (word:find("^keras%f[%W]") and "" or "ipu.") .. word)
  end
  return word:find("%w") and require "ipulua.tools.search".lines(help, word) or nil
end

---The lines that explain a value; nil when there is nothing to say.
---@param x any
---@param text string? the expression as it was typed
---@return string[]?
function help.lines(x, text)
  if help.op_name(x) then return help.op(help.op_name(x)) end
  if value_methods[x] then return value_method_help(x, text) end
  x = type(x) == "string" and x:gsub("^ipu%.", "") or x
  if type(x) == "string" and core.describe_op(x) and not core.describe_op(x).internal then
    return help.op(x)
  end
  if type(x) == "function" then
    local custom = package.loaded["ipulua.trace.custom"]
    if custom and custom.of(x) then return registered_help(custom.of(x)) end
    text = text or public_names.of(x)
    return function_help(x, text) or keras_function(x, text) or listed_help(x, text)
  end
  if class.is_class(x) then return class_help(x) end
  if class.of(x) then return class_help(class.of(x)) end
  if core.is_tensor(x) or core.is_variable(x) then return tensor_help(x, text) end
  if enum.is(x) then
    return {(text or enum.name(x)) .. ": one of " .. table.concat(enum.members(x), ", ")
      .. "; any letter case will do"}
  end
  if type(x) == "string" then return string_help(x) end
  local names = type(x) == "table" and help.names(x)
  return names and names_help(x, text, names)
end

-- Whether a method is for scripts. A method of the library has a docstring then. A script's own
-- need not have one.
local function is_public(f)
  local about = help.about(f)
  return not about or not about.internal
    and (#about.text > 0 or not blame.is_own(debug.getinfo(comments.written(f), "S").source))
end

local function add_class_members(names, c, methods)
  local k = c
  while k do
    for name, f in next, k do
      if type(name) == "string" and name:find("^%l") and not hidden[name] and type(f) == "function"
        and is_public(f) then
        names[#names + 1] = name
      end
    end
    for name in next, not methods and rawget(k, "properties") or {} do names[#names + 1] = name end
    k = rawget(k, "super")
  end
end

---Fields and methods of an object of the library, for completion; nil for anything else. Runs none
---of the script's code.
---@param value any
---@param methods boolean only those
---@return string[]?
function help.members(value, methods)
  if core.is_variable(value) then
    return methods and {} or {"dtype", "initialized", "name", "nbytes", "rank", "shape", "size",
      "trainable"}
  end
  if core.is_tensor(value) then return methods and {} or {"dtype", "rank", "shape", "size"} end
  local c, names = class.of(value), {}
  if c then add_class_members(names, c, methods) end
  local config = package.loaded["ipulua.config.ipu_config"]
  for _, name in ipairs(config and not methods and config.names(value) or {}) do
    names[#names + 1] = name
  end
  return #names > 0 and names or nil
end

-- A line in pieces that the terminal holds, broken between words, the next ones further in by
-- `deeper`.
local function wrapped(line, columns, deeper)
  local indent, words = line:match("^( *)(.*)$")
  local pieces, piece = {}, indent
  for word in words:gmatch("%S+ *") do
    local width = utf8.len(piece .. word:gsub(" +$", "")) or #piece + #word
    if width > columns and piece:find("%S") then
      pieces[#pieces + 1] = piece:gsub(" +$", "")
      piece = indent .. deeper
    end
    piece = piece .. word
  end
  pieces[#pieces + 1] = piece
  return table.concat(pieces, "\n")
end

-- Sentences that a source breaks at its own width become one line. A line belongs to the one before
-- it unless that one ends in a full stop.
local function joined(lines)
  local out = {lines[1]}
  for i = 2, #lines do
    local last = out[#out]
    local goes_on = #out > 1 and not last:find("^ ") and not last:find("[.:]$")
      and not lines[i]:find("^ ")
    if goes_on then out[#out] = last .. " " .. lines[i] else out[#out + 1] = lines[i] end
  end
  return out
end

---Prints them; false when there is nothing to say. A typed text that stands for nothing is looked
---for: ?matmul, ?reduce.
---@param x any
---@param text string?
---@return boolean?
function help.show(x, text)
  local is_word = type(x) == "string" and not text
  if x == nil and text then x, text = text:match("^%s*(.-)%s*$"), nil end
  local lines = help.lines(x, text)
    or is_word and {("no name and no first sentence has \"%s\" in it"):format(x)}
  if not lines then return false end
  local columns = math.min(require "ipulua.base.text.terminal".columns(), 120)
  for i, line in ipairs(joined(lines)) do
    local is_sentence = i > 1 and not line:find("^ ")
    print(wrapped(line, columns, is_sentence and "" or "    "))
  end
end

return help
