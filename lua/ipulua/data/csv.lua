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
    says = "what missing cells become; a table by column"},
}

-- Fills by name, as columns are chosen; one of a column that isn't read is a slip.
local function check_fills(who, fill, columns)
  local known = {}
  for _, column in ipairs(columns) do known[column] = true end
  for column, value in pairs(fill) do
    if not known[column] then
      blame.error(string.format("%s: 'fill' names the column '%s', which isn't read", who,
        tostring(column)), "value")
    end
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

-- All columns but the label's: names where there is a header, else positions.
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
  local labels = core.read_csv(a.path, a.label_dtype, a.separator, a.header, {a.label})
  labels = labels:reshape{labels.shape[1]}
  return data.from_tensor_slices{read_columns(a, a.dtype, columns), labels}:made_by "from_csv"
end

local missing <const> = {[""] = true, NA = true, ["N/A"] = true, ["n/a"] = true, null = true,
  NULL = true}

-- A number as CSV has them: decimal, without what Lua reads besides.
local function number_of(cell)
  if not cell:find("^%s*[+-]?[%d.]+[eE]?[+-]?%d*%s*$") then
    local word = cell:lower():match("^%s*([+-]?[%a]+)%s*$")
    if word == "nan" then return 0 / 0 end
    if word == "inf" or word == "+inf" then return math.huge end
    return word == "-inf" and -math.huge or nil
  end
  return tonumber(cell)
end

local function fits_int32(x) return x >= -2147483648 and x <= 2147483647 end

-- What a column of that kind becomes with a number more.
local function kind_with(kind, x)
  if kind == "float32" or not math.tointeger(x) then return "float32" end
  return fits_int32(math.tointeger(x)) and kind or "int64"
end

-- "int32", "int64", "float32", or "text" where a cell is no number; the first integer that int64
-- can't hold, by its record.
local function type_of(cells)
  local kind, too_large = "int32", nil
  for i, cell in ipairs(cells) do
    local bare = cell:match("^%s*(.-)%s*$")
    if not missing[bare] then
      local x = number_of(cell)
      if not x then return "text" end
      if bare:find("^[+-]?%d+$") then
        if math.type(x) == "integer" then kind = kind_with(kind, x)
        else too_large = too_large or i end
      else
        kind = "float32"
      end
    end
  end
  return kind, too_large
end

local function refuse_integer(a, name, record, cell)
  blame.error(string.format("read_csv: %s: record %d, column '%s': %s doesn't fit int64, and the "
    .. "column has integers only; write it with a decimal point, and the column is float32",
    a.path, record, name, cell), "value")
end

-- A column of integers that a fill turns into float32 must stay what it is.
local function check_exact(a, name, list, fill)
  for i, x in ipairs(list) do
    if math.type(x) == "integer" and string.unpack("f", string.pack("f", x)) ~= x then
      blame.error(string.format("read_csv: %s: record %d, column '%s': the column has integers, "
        .. "the fill %s makes it float32, and %d would become %.0f; take an integer as fill",
        a.path, i, name, fill, x, string.unpack("f", string.pack("f", x))), "value")
    end
  end
end

local function convert(a, name, cells)
  local kind, too_large = type_of(cells)
  local of_cells <const> = kind
  if too_large and kind ~= "float32" then refuse_integer(a, name, too_large, cells[too_large]) end
  local fill = a.fill
  if type(fill) == "table" then fill = fill[name] end
  local list = {}
  for i, cell in ipairs(cells) do
    local bare = cell:match("^%s*(.-)%s*$")
    if not missing[bare] then list[i] = kind == "text" and cell or number_of(cell)
    elseif fill == nil or (kind == "text") ~= (type(fill) == "string") then
      blame.error(string.format("read_csv: %s: record %d, column '%s': the cell is missing (%s); "
        .. "say what it becomes, fill = {%s = %s}", a.path, i, name,
        bare == "" and "it is empty" or bare, name, kind == "text" and '"?"' or "0"), "value")
    else
      list[i] = fill
      if kind ~= "text" then kind = kind_with(kind, fill) end
    end
  end
  if kind == "text" then return core.plain(list), kind end
  if kind ~= of_cells and kind == "float32" then check_exact(a, name, list, fill) end
  return core.tensor(list, kind), kind
end

local read_spec <const> = {
  {"path", "string"}, {"columns", "list", optional = true, says = "names; all by default"},
  {"header", "boolean", true}, separator_row,
  {"fill", {"number", "string", "table"}, optional = true,
    says = "what missing cells become; a table by column"},
}

---A table as text (RFC 4180) by columns: {name = a tensor, or a list of strings}. The second result
---is the type of each column's cells: "int32", "int64" where an integer is too large for that,
---"float32" or "text". Without a header the names are "column0" …. A cell that is empty, NA, N/A
---or null is an error, or becomes `fill`.
---Shapes: [records] each
---Errors: a missing cell without a fill (with its record and column), an integer that int64 can't
---hold, a fraction as fill where float32 would round the column's integers, an unknown column, a
---file that is missing: `data.read_csv "nowhere.csv"`
---@param ... any path, columns, header, separator, fill
---@return table<string, any> columns, table<string, string> types
function csv.read_csv(...)
  local a = args.check("read_csv", read_spec, ...)
  local cells, records = core.read_csv_cells(a.path, a.separator)
  local names, at = {}, {}
  for i, column in ipairs(cells) do
    names[i] = a.header and column[1] or "column" .. i - 1
    at[names[i]] = a.header and table.move(column, 2, records, 1, {}) or column
  end
  local columns, types, told = core.plain{}, core.plain{}, {}
  for i, name in ipairs(a.columns or names) do
    if not at[name] then
      blame.error(string.format("read_csv: %s: no column is called '%s'%s", a.path, tostring(name),
        nearest.hint(tostring(name), names)), "value")
    end
    columns[name], types[name] = convert(a, name, at[name])
    told[i] = name .. ": " .. types[name]
  end
  log.info("read_csv: %s: %s", a.path, table.concat(told, ", "))
  return columns, types
end

return csv
