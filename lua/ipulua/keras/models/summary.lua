-- The tables of model:summary() and of print_pipeline_stage_assignment_summary(), from plain
-- descriptions:
--
--   {name = "mlp", functional = false,
--    rows = {{name = "dense", class = "Dense", output_shape = {-1, 10}, params = 7850, built =
--    true,
--             connected_to = {"flatten[0][0]"}, stage = 0, cycles = 1200, bytes = 31400, stash =
--             2}, …},
--    totals = {trainable = 7850, non_trainable = 0, optimizer = 0,          -- numbers of elements
--              trainable_bytes = …, non_trainable_bytes = …, optimizer_bytes = …}} -- default: 4
--              each
--
-- A row with nested = {row, …} is a model as a layer, whose layers are drawn inside it.
-- output_shape is a list of extents (-1: unknown), a list of such lists, or a text. A missing value
-- prints as `?`: a summary never fails. With connected_to in a row (or functional = true) there is
-- a column for it.

local terminal = require "ipulua.base.text.terminal"
local text_columns = require "ipulua.base.text.columns"

local summary = {}

-- ------------------------------------------------ fields

-- An extent, or a word for an unknown one.
local function show_extent(extent)
  if extent == nil or extent == -1 or extent == false then return "None" end
  return tostring(math.type(extent) == "float" and math.tointeger(extent) or extent)
end

---A shape as Keras shows it: `(None, 28, 28)`, `(None,)`, `[(None, 1), (None, 2)]`, `?`.
---@param shape any
---@return string
function summary.show_shape(shape)
  if shape == nil then return "?" end
  if type(shape) ~= "table" then return tostring(shape) end
  local parts = {}
  if type(shape[1]) == "table" then
    for i, each in ipairs(shape) do parts[i] = summary.show_shape(each) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  for i = 1, #shape do parts[i] = show_extent(shape[i]) end
  return "(" .. table.concat(parts, ", ") .. (#parts == 1 and ",)" or ")")
end

local function show_count(n, style)
  local i = type(n) == "number" and math.tointeger(n)
  if not i then return n == nil and "?" or tostring(n) end
  return style == "modern" and text_columns.commas(i) or string.format("%d", i)
end

---Bytes for people: "918.54 KB".
---@param bytes number
---@return string
function summary.show_bytes(bytes)
  local units <const> = {"B", "KB", "MB", "GB", "TB", "PB"}
  local i = 1
  while bytes >= 1024 and i < #units do bytes, i = bytes / 1024, i + 1 end
  return string.format("%.2f %s", bytes, units[i])
end

local function show_params(row, style)
  if row.built == false then return style == "modern" and "0 (unbuilt)" or "0 (unused)" end
  return show_count(row.params, style)
end

local function layer_label(row)
  return tostring(row.name or "?") .. " (" .. tostring(row.class or "?") .. ")"
end

local function connections(row)
  local list = row.connected_to
  if type(list) == "string" then list = {list} end
  return type(list) == "table" and list or {}
end

local function is_functional(description, rows)
  if description.functional ~= nil then return description.functional end
  for _, row in ipairs(rows) do
    if row.connected_to ~= nil then return true end
    if row.nested and is_functional({}, row.nested) then return true end
  end
  return false
end

-- The columns of {show_trainable = true} and {ipu = true}: header, width, field of a row.
local trainable_columns <const> = {{"Trainable", 11, "trainable"}}
local ipu_columns <const> = {
  {"Stage", 7, "stage"}, {"Cycles", 14, "cycles"}, {"Bytes", 14, "bytes"}, {"Stash", 7, "stash"},
}

local function more_columns(options)
  local list = options.show_trainable and table.move(trainable_columns, 1, 1, 1, {}) or {}
  return options.ipu and table.move(ipu_columns, 1, #ipu_columns, #list + 1, list) or list
end

local function show_more(row, column)
  local value = row[column[3]]
  if value == nil then return "-" end
  if type(value) == "boolean" then return value and "Y" or "N" end
  return show_count(value, "modern")
end

-- ------------------------------------------------ classic: Keras 2.6

local function classic_layout(functional, options)
  local width = options.line_length or (functional and 98 or 65)
  local ends = options.positions or (functional and {.33, .55, .67, 1.} or {.45, .85, 1.})
  if ends[#ends] <= 1 then ends = text_columns.column_ends(width, ends) end
  local headers = {"Layer (type)", "Output Shape", "Param #", functional and "Connected to" or nil}
  local more = more_columns(options)
  if #more > 0 then
    ends = table.move(ends, 1, #headers, 1, {})
    for _, column in ipairs(more) do
      headers[#headers + 1] = column[1]
      ends[#ends + 1] = ends[#ends] + column[2]
    end
    width = ends[#ends]
  end
  return width, ends, headers
end

-- A line of a layer that stands in `depth` models has as many bars at both ends.
local function barred(line, depth, width)
  if depth == 0 then return line end
  local bars = ("|"):rep(depth)
  local text = text_columns.fit(line:gsub(" +$", ""), math.max(width - 2 * depth - 1, 1))
  return bars .. " " .. text .. bars
end

local function classic_row(out, row, functional, options, ends, depth)
  local shape = row.output_shape
  -- an input layer has a list of outputs there
  if functional and row.class == "InputLayer" and type(shape) == "table"
    and type(shape[1]) ~= "table" then
    shape = {shape}
  end
  -- Keras 2.6 calls what has no one shape "multiple", such as layers that a model's own `call`
  -- calls
  local fields = {layer_label(row), shape == nil and "multiple" or summary.show_shape(shape),
    show_params(row, "classic")}
  local inputs = connections(row)
  if functional then fields[4] = tostring(inputs[1] or "") end
  for _, column in ipairs(more_columns(options)) do
    fields[#fields + 1] = show_more(row, column)
  end
  local width, moved = ends[#ends], {}
  for i, stop in ipairs(ends) do moved[i] = math.max(stop - (depth > 0 and depth + 1 or 0), 1) end
  out[#out + 1] = barred(text_columns.row(fields, moved), depth, width)
  for i = 2, functional and #inputs or 0 do
    out[#out + 1] = barred(text_columns.row({"", "", "", tostring(inputs[i])}, moved), depth, width)
  end
  if not row.nested then return end
  local bars = ("|"):rep(depth + 1)
  out[#out + 1] = bars .. ("-"):rep(width - 2 * depth - 2) .. bars
  for _, inner in ipairs(row.nested) do
    classic_row(out, inner, functional, options, ends, depth + 1)
  end
  out[#out + 1] = bars:sub(2) .. ("-"):rep(width - 2 * depth) .. bars:sub(2)
end

local function classic_lines(description, options)
  local rows = description.rows or {}
  local functional = is_functional(description, rows)
  local width, ends, headers = classic_layout(functional, options)
  local thin, thick = ("_"):rep(width), ("="):rep(width)
  local out = {'Model: "' .. tostring(description.name or "?") .. '"', thin,
    text_columns.row(headers, ends), thick}
  for i, row in ipairs(rows) do
    classic_row(out, row, functional, options, ends, 0)
    out[#out + 1] = i == #rows and thick or thin
  end
  local totals = description.totals or {}
  local trainable, fixed = totals.trainable or 0, totals.non_trainable or 0
  out[#out + 1] = "Total params: " .. text_columns.commas(trainable + fixed)
  out[#out + 1] = "Trainable params: " .. text_columns.commas(trainable)
  out[#out + 1] = "Non-trainable params: " .. text_columns.commas(fixed)
  out[#out + 1] = thin
  return out
end

-- ------------------------------------------------ modern: Keras 3

-- The integer nearest to a / b, halves to the even one.
local function divide(a, b)
  local q, r = a // b, a % b
  if 2 * r > b or (2 * r == b and q % 2 == 1) then q = q + 1 end
  return q
end

-- Widths inside the cells. Columns get their share of the width; borders and spaces are then taken
-- from all alike, as in the tables that Keras 3 draws.
local function modern_widths(width, shares)
  local ends, widths = text_columns.column_ends(width, shares), {}
  local total = 0
  for i, stop in ipairs(ends) do
    widths[i] = stop - (ends[i - 1] or 0) + 2
    total = total + widths[i]
  end
  local excess, columns = math.max(total - (width - #shares - 1), 0), #shares
  for i = 1, #shares do
    local share = math.min(widths[i], divide(excess, columns))
    widths[i], excess, columns = widths[i] - share, excess - share, columns - 1
  end
  for i, w in ipairs(widths) do widths[i] = math.max(w - 2, 1) end
  return widths
end

-- Widths of more columns, with spaces: as they are or, if the window is too narrow, as their
-- numbers need.
local function more_widths(more, rows, room)
  local wide, narrow, sum = {}, {}, 0
  for i, column in ipairs(more) do
    wide[i], narrow[i] = column[2], #column[1] + 2
    for _, row in ipairs(rows) do
      narrow[i] = math.max(narrow[i], #show_more(row, column) + 2)
    end
    sum = sum + wide[i] + 1
  end
  return sum <= room and wide or narrow
end

local function modern_layout(functional, options, rows)
  local headers = {"Layer (type)", "Output Shape", "Param #"}
  local right, shares, widest = {false, false, true}, {.45, .80, 1.}, 88
  if functional then
    headers[4], right[4] = "Connected to", false
    shares, widest = {.3, .56, .74, 1.}, 108
  end
  local columns = options.columns or terminal.columns()
  local width = options.line_length or math.min(widest, columns - 4)
  local more = more_columns(options)
  local added = more_widths(more, rows, options.line_length and math.huge or columns - width)
  if not options.line_length then
    local sum = 0
    for _, each in ipairs(added) do sum = sum + each + 1 end
    width = math.min(width, columns - sum)
  end
  width = math.max(width, 8 * #headers)
  local positions = options.positions or shares
  if positions[#positions] > 1 then -- given in characters
    shares = {}
    for i, position in ipairs(positions) do shares[i] = position / positions[#positions] end
    positions = shares
  end
  local widths = modern_widths(width, positions)
  if #added > 0 and not options.positions then -- a number is not broken where a name can be
    local need = #headers[3]
    for _, row in ipairs(rows) do need = math.max(need, #show_params(row, "modern")) end
    local taken = math.min(math.max(need - widths[3], 0), math.max(widths[1] - 8, 0))
    widths[1], widths[3] = widths[1] - taken, widths[3] + taken
  end
  for i, each in ipairs(added) do
    headers[#headers + 1], right[#headers + 1] = more[i][1], true
    widths[#widths + 1] = each - 2
  end
  return headers, right, widths
end

local function rule(widths, left, fill, cross, right)
  local parts = {}
  for i, w in ipairs(widths) do parts[i] = fill:rep(w + 2) end
  return left .. table.concat(parts, cross) .. right
end

-- A row of cells, as many lines as its longest cell needs.
local function put_cells(out, fields, widths, right, border)
  local cells, height = {}, 1
  for i, field in ipairs(fields) do
    cells[i] = text_columns.wrap(field, widths[i])
    height = math.max(height, #cells[i])
  end
  for line = 1, height do
    local parts = {}
    for i, cell in ipairs(cells) do
      parts[i] = text_columns.fit(cell[line] or "", widths[i], right[i])
    end
    out[#out + 1] = border .. " " .. table.concat(parts, " " .. border .. " ") .. " " .. border
  end
end

local function modern_fields(row, functional, options, depth)
  local shape = row.built == false and "?" or summary.show_shape(row.output_shape)
  local mark = depth > 0 and ("└"):rep(depth) .. " " or ""
  local fields = {mark .. layer_label(row), shape, show_params(row, "modern")}
  if functional then
    local inputs = {}
    for i, input in ipairs(connections(row)) do inputs[i] = tostring(input) end
    fields[4] = #inputs > 0 and table.concat(inputs, ", ") or "-"
  end
  for _, column in ipairs(more_columns(options)) do
    fields[#fields + 1] = show_more(row, column)
  end
  return fields
end

local function modern_total(name, count, bytes)
  return string.format(" %s: %s (%s)", name, text_columns.commas(count),
    summary.show_bytes(bytes or 4 * count))
end

-- A row, and the rows of the layers inside it.
local function put_modern_row(out, row, functional, options, widths, right, depth)
  put_cells(out, modern_fields(row, functional, options, depth), widths, right, "│")
  for _, inner in ipairs(row.nested or {}) do
    out[#out + 1] = rule(widths, "├", "─", "┼", "┤")
    put_modern_row(out, inner, functional, options, widths, right, depth + 1)
  end
end

local function modern_lines(description, options)
  local rows = description.rows or {}
  local functional = is_functional(description, rows)
  local headers, right, widths = modern_layout(functional, options, rows)
  local out = {'Model: "' .. tostring(description.name or "?") .. '"'}
  out[2] = rule(widths, "┏", "━", "┳", "┓")
  put_cells(out, headers, widths, right, "┃")
  out[#out + 1] = rule(widths, "┡", "━", "╇", "┩")
  for i, row in ipairs(rows) do
    if i > 1 then out[#out + 1] = rule(widths, "├", "─", "┼", "┤") end
    put_modern_row(out, row, functional, options, widths, right, 0)
  end
  out[#out + 1] = rule(widths, "└", "─", "┴", "┘")
  local t = description.totals or {}
  local trainable, fixed, optimizer = t.trainable or 0, t.non_trainable or 0, t.optimizer or 0
  local bytes = (t.trainable_bytes or 4 * trainable) + (t.non_trainable_bytes or 4 * fixed)
    + (t.optimizer_bytes or 4 * optimizer)
  out[#out + 1] = modern_total("Total params", trainable + fixed + optimizer, bytes)
  out[#out + 1] = modern_total("Trainable params", trainable, t.trainable_bytes)
  out[#out + 1] = modern_total("Non-trainable params", fixed, t.non_trainable_bytes)
  if optimizer > 0 then
    out[#out + 1] = modern_total("Optimizer params", optimizer, t.optimizer_bytes)
  end
  return out
end

---The lines of a model's summary. Options: style "classic" or "modern" (terminal.style() by
---default), line_length, positions, show_trainable, ipu = true for stage, cycles, bytes and stash,
---columns of the terminal.
---@param description table see the head of this file
---@param options table?
---@return string[]
function summary.lines(description, options)
  options = options or {}
  local style = options.style or terminal.style()
  return (style == "modern" and modern_lines or classic_lines)(description, options)
end

---The same as one text, each line ended.
---@param description table
---@param options table?
---@return string
function summary.text(description, options)
  return table.concat(summary.lines(description, options), "\n") .. "\n"
end

-- ------------------------------------------------ pipeline stages

local function stage_row(row, functional)
  local label = layer_label(row)
  if functional and row.node_index ~= nil then
    label = label .. " (" .. tostring(row.node_index) .. ")"
  end
  local stage = row.stage == nil and "None" or tostring(row.stage)
  if not functional then return {label, stage} end
  return {label, tostring(row.inputs and row.inputs[1] or ""), stage}
end

local function put_stage_rows(out, rows, functional, ends, width)
  for i, row in ipairs(rows) do
    local following = rows[i + 1]
    if row.nested then
      out[#out + 1] = 'Nested Model: "' .. tostring(row.nested.name or "?") .. '"'
      out[#out + 1] = ("-"):rep(width)
      put_stage_rows(out, row.nested.rows or {}, functional, ends, width)
    else
      out[#out + 1] = text_columns.row(stage_row(row, functional), ends)
      for k = 2, functional and row.inputs and #row.inputs or 0 do
        out[#out + 1] = text_columns.row({"", tostring(row.inputs[k]), ""}, ends)
      end
      out[#out + 1] = ((not following or following.nested) and "=" or "_"):rep(width)
    end
  end
end

---The row of the argument line_length.
summary.length_row = {"line_length", "integer", optional = true, range = "[1, 10000]"}

---The lines of a pipeline stage assignment's summary. The description is {name =, functional =,
---rows =} with rows {name =, class =, stage =}. In a functional model rows also have node_index =
---and inputs = (names of the layers before). A model used as a layer is the row {nested = {name =,
---rows =}}.
---@param description table
---@param line_length integer? 60, or 89 in a functional model
---@return string[]
function summary.stage_lines(description, line_length)
  local functional = description.functional == true
  local width = line_length or (functional and 89 or 60)
  local ends = text_columns.column_ends(width, functional and {.4, .8, 1.} or {.5, 1.})
  local headers = functional and {"Layer (type) (node index)", "Input Layers", "Pipeline Stage"}
    or {"Layer (type)", "Pipeline Stage"}
  local out = {'Model: "' .. tostring(description.name or "?") .. '"', ("_"):rep(width),
    text_columns.row(headers, ends),
    ("="):rep(width)}
  put_stage_rows(out, description.rows or {}, functional, ends, width)
  return out
end

return summary
