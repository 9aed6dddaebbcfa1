-- Tables as text: ipu.data.from_csv makes a dataset of numbers, read_csv columns of numbers and of
-- words.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local data = require "ipulua.data"
local log = require "ipulua.base.log"
local nearest = require "ipulua.nearest"
local ops = require "ipulua.ops"

local csv = {}

local separator_row <const> = {"separator", "string", ",", check = function(s)
  if #s ~= 1 then return "must be one character, got " .. args.describe(s) end
end}

local csv_spec <const> = {
  {"path", "string"}, {"columns", "list", optional = true},
  {"label", {"string", "integer"}, optional = true},
  {"header", "boolean", true}, separator_row, {"dtype", "dtype", "float32"},
  {"label_dtype", "dtype", "int32"},
  {"fill", {"number", "table"}, optional = true,
    says = "value of missing cells; a table by column"},
}

-- Fills by name, as columns are chosen; one of a column that isn't read is a slip.
local function check_names(fill, who, columns)
  local known = {}
  for _, column in ipairs(columns) do known[column] = true end
  for column in pairs(fill) do
    if not known[column] then
      blame.error(string.format("%s: 'fill' names the column '%s', which isn't read", who,
        tostring(column)), "value")
    end
  end
end

local function check_fills(who, fill, columns)
  check_names(fill, who, columns)
  for column, value in pairs(fill) do
    if type(value) ~= "number" then
      blame.error(string.format("%s: 'fill' of the column '%s' must be a number, got %s", who,
        tostring(column), args.describe(value)), "type")
    end
  end
end

-- The chosen columns as one tensor, each with its fill.
local function read_columns(a, dtype, columns)
  local function read(list, fill)
    return core.read_csv(a.path, dtype, a.separator, a.header, list, fill)
  end
  if type(a.fill) ~= "table" then return read(columns, a.fill) end
  local parts = {}
  for i, column in ipairs(columns) do parts[i] = read({column}, a.fill[column]) end
  return ops.concat(parts, {axis = 1})
end

-- All columns but the label's: names if there is a header, else positions.
local function other_columns(a, names)
  local columns = {}
  for i, name in ipairs(names) do
    if i - 1 ~= a.label and not (a.header and name == a.label) then
      columns[#columns + 1] = a.header and type(a.fill) == "table" and name or i - 1
    end
  end
  return columns
end

---A table of numbers as text (RFC 4180): each record is a vector. With `label`, a column's name or
---position from 0, elements are pairs of a vector of the other columns and that number. {columns =
---{…}} chooses columns by name or position. A cell that is empty, NA, N/A or null is an error
---without `fill`. `fill` is a number, or a table of numbers by column. read_csv reads words, too.
---Shapes: [columns]; with a label pairs [columns], []
---Errors: a field that is no number (with its line), a missing cell without a fill, an unknown
---column, a file that is missing: `data.from_csv "nowhere.csv"`
---@return Dataset
function csv.from_csv(...)
  local a = args.check("from_csv", csv_spec, ...)
  local columns = a.columns
  if not columns and (a.label ~= nil or type(a.fill) == "table") then
    columns = other_columns(a, core.csv_columns(a.path, a.separator))
  end
  if type(a.fill) == "table" then check_fills("from_csv", a.fill, columns) end
  if a.label == nil then
    return data.from_tensor_slices(read_columns(a, a.dtype, columns)):made_by "from_csv"
  end
  local labels = core.read_csv(a.path, a.label_dtype, a.separator, a.header, {a.label}, nil, true)
  labels = labels:reshape{labels.shape[1]}
  return data.from_tensor_slices{read_columns(a, a.dtype, columns), labels}:made_by "from_csv"
end

local missing <const> = {[""] = true, NA = true, ["N/A"] = true, ["n/a"] = true, null = true,
  NULL = true}

-- A number as CSV has them: decimal, without Lua's other forms.
local function number_of(cell)
  if not cell:find("^%s*[+-]?[%d.]+[eE]?[+-]?%d*%s*$") then
    local sign, word = cell:lower():match("^%s*([+-]?)(%a+)%s*$")
    if word == "nan" then return 0 / 0 end
    if word ~= "inf" and word ~= "infinity" then return nil end
    return sign == "-" and -math.huge or math.huge
  end
  return tonumber(cell)
end

-- Whether float32 makes a finite number infinite, or a small one 0.
local function is_beyond(x)
  local narrow = string.unpack("f", string.pack("f", x))
  return (narrow == 0) ~= (x == 0) or math.abs(narrow) == math.huge and math.abs(x) ~= math.huge
end

-- Facts about the numbers of a column so far. Is one a fraction, an integer beyond int32, or a
-- number that float32 can't hold or rounds to another integer? Also the records of the first
-- integers that float64 rounds and that int64 can't hold.
local function add_number(shown, x, is_integer, record)
  if not is_integer then
    shown.fraction, shown.rounded = true, shown.rounded or is_beyond(x)
    return
  end
  shown.rounded = shown.rounded or string.unpack("f", string.pack("f", x)) ~= x
  shown.large = shown.large or x < -2147483648 or x > 2147483647
  if math.type(x) == "float" then shown.too_large = shown.too_large or record
  elseif math.tointeger(x + 0.0) ~= x then shown.inexact = shown.inexact or record end
end

-- With fractions float32, or float64 for the sake of numbers that float32 can't hold.
local function kind_of(shown)
  if shown.fraction then return shown.rounded and "float64" or "float32" end
  return shown.large and "int64" or "int32"
end

-- The facts of a column's cells, nil if a cell is no number.
local function numbers_of(cells)
  local shown = {}
  for i, cell in ipairs(cells) do
    local bare = cell:match("^%s*(.-)%s*$")
    if not missing[bare] then
      local x = number_of(cell)
      if not x then return nil end
      add_number(shown, x, bare:find("^[+-]?%d+$") ~= nil, i)
    end
  end
  return shown
end

local function refuse_integer(a, name, record, cell)
  blame.error(string.format("read_csv: %s: record %d, column '%s': %s doesn't fit int64, and the "
    .. "column has integers only; write it with a decimal point, and the column is float32",
    a.path, record, name, cell), "value")
end

local function refuse_rounding(a, name, record, list)
  blame.error(string.format("read_csv: %s: record %d, column '%s': the column has a fraction, and "
    .. "float64 would round the integer %d to %.0f; without a fraction, in the file or as fill, "
    .. "the column is int64", a.path, record, name, list[record], list[record]), "value")
end

-- A number that is written in digits is finite.
local function refuse_infinite(a, name, cells)
  for i, cell in ipairs(cells) do
    local x = cell:find("%d") and number_of(cell)
    if x and math.abs(x) == math.huge then
      blame.error(string.format("read_csv: %s: record %d, column '%s': %s doesn't fit float64",
        a.path, i, name, cell), "value")
    end
  end
end

local function convert(a, name, cells)
  local shown = numbers_of(cells)
  if shown and shown.fraction then refuse_infinite(a, name, cells) end
  if shown and shown.too_large and not shown.fraction then
    refuse_integer(a, name, shown.too_large, cells[shown.too_large])
  end
  local fill = a.fill
  if type(fill) == "table" then fill = fill[name] end
  local list = {}
  for i, cell in ipairs(cells) do
    local bare = cell:match("^%s*(.-)%s*$")
    if not missing[bare] then list[i] = shown and number_of(cell) or cell
    elseif fill == nil or (shown == nil) ~= (type(fill) == "string") then
      blame.error(string.format("read_csv: %s: record %d, column '%s': the cell is missing (%s); "
        .. "say what it becomes, fill = {%s = %s}", a.path, i, name,
        bare == "" and "it is empty" or bare, name, shown and "0" or '"?"'), "value")
    else
      list[i] = fill
      if shown then
        local whole = math.tointeger(fill)
        add_number(shown, whole or fill, whole ~= nil, i)
      end
    end
  end
  if not shown then return core.plain(list), "text" end
  if shown.fraction and shown.inexact then refuse_rounding(a, name, shown.inexact, list) end
  return core.tensor(list, kind_of(shown)), kind_of(shown)
end

local function refuse(a, what)
  blame.error("read_csv: " .. a.path .. ": " .. what, "value")
end

local read_spec <const> = {
  {"path", "string"}, {"columns", "list", optional = true, says = "names; all by default"},
  {"header", "boolean", true}, separator_row,
  {"fill", {"number", "string", "table"}, optional = true,
    says = "value of missing cells; a table by column"},
}

---A table as text (RFC 4180) by columns: {name = a tensor, or a list of strings}. The second result
---is the type of each column's cells. Integers are "int32", or "int64" beyond its range. Fractions
---make a column "float32", or "float64" where float32 would round an integer of it or can't hold a
---number. Other columns are "text". Without a header the names are "column0" …. A cell that is
---empty, NA, N/A or null is an error, or becomes `fill`.
---Shapes: [records] each
---Errors: a missing cell without a fill (with its record and column), a number that int64 or
---float64 can't hold, an integer that float64 rounds beside a fraction, an unknown column, two of
---one name, a fill of a column that isn't read, an empty file, a file that is missing:
---`data.read_csv "nowhere.csv"`
---@param ... any path, columns, header, separator, fill
---@return table<string, any> columns, table<string, string> types
function csv.read_csv(...)
  local a = args.check("read_csv", read_spec, ...)
  local cells, records = core.read_csv_cells(a.path, a.separator)
  if #cells == 0 then refuse(a, "the table is empty") end
  local names, at, twice = {}, {}, {}
  for i, column in ipairs(cells) do
    names[i] = a.header and column[1] or "column" .. i - 1
    twice[names[i]] = at[names[i]] ~= nil
    at[names[i]] = a.header and table.move(column, 2, records, 1, {}) or column
  end
  local columns, types, told = core.plain{}, core.plain{}, {}
  if type(a.fill) == "table" then check_names(a.fill, "read_csv", a.columns or names) end
  for i, name in ipairs(a.columns or names) do
    if not at[name] then
      blame.error(string.format("read_csv: %s: no column is called '%s'%s", a.path, tostring(name),
        nearest.hint(tostring(name), names)), "value")
    end
    if twice[name] then refuse(a, "two columns are called '" .. name .. "'") end
    columns[name], types[name] = convert(a, name, at[name])
    told[i] = name .. ": " .. types[name]
  end
  log.info("read_csv: %s: %s", a.path, table.concat(told, ", "))
  return columns, types
end

return csv
