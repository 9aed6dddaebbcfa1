-- Ordinary CSV: words among numbers, missing cells, quotes. A missing cell becomes a number only if
-- the script gives one.

local command = require "spec.support.command"
local ipu = require "ipulua"

local data = ipu.data

local function rows(ds)
  local list = {}
  for x in ds:iter() do list[#list + 1] = x:totable() end
  return list
end

describe("CSV", function()
  local path
  before_each(function() path = command.scratch ".csv" end)
  after_each(function() os.remove(path) end)

  local table_text <const> = 'age,city,income,label\n31,Paris,12.5,1\nNA,"New ""York""",,0\n'
    .. "45,Rome, 7 ,1\n"

  it("of numbers with missing cells needs a value for them", function()
    for _, cell in ipairs{"", "NA", "N/A", "n/a", "null", "NULL", " "} do
      command.write(path, "a,b\n1,2\n" .. cell .. ",4\n")
      for _, dtype in ipairs{"float32", "int32"} do
        assert.error_matches(function() data.from_csv(path, {dtype = dtype}) end,
          "line 3, column 1: the cell is missing.*fill = 0")
        assert.same({{1, 2}, {9, 4}}, rows(data.from_csv(path, {dtype = dtype, fill = 9})))
        assert.same({{1, 2}, {-1, 4}},
          rows(data.from_csv(path, {dtype = dtype, fill = {a = -1}})))
      end
      assert.error_matches(function() data.from_csv(path, {fill = {b = 0}}) end,
        "line 3, column 1: the cell is missing")
      assert.error_matches(function() data.from_csv(path, {fill = {c = 0}}) end,
        "'fill' names the column 'c', which isn't read")
      assert.error_matches(function() data.from_csv(path, {fill = {a = "x"}}) end,
        "must be a number, got string")
    end
  end)

  it("says NaN where it is meant", function()
    command.write(path, "a\nnan\n")
    local x = rows(data.from_csv(path))[1][1]
    assert.is_true(x ~= x)
  end)

  it("with a label fills the other columns", function()
    command.write(path, "a,b,y\n1,,0\n,4,1\n")
    local list = {}
    for x, y in data.from_csv(path, {label = "y", fill = {a = 7, b = 8}}):iter() do
      list[#list + 1] = {x:totable(), y:item()}
    end
    assert.same({{{1, 8}, 0}, {{7, 4}, 1}}, list)
  end)

  it("is read by columns, of the types that the cells have", function()
    command.write(path, table_text)
    local columns, types = data.read_csv(path, {fill = {age = 40, income = -0.5}})
    assert.same({age = "int32", city = "text", income = "float32", label = "int32"}, types)
    assert.same({31, 40, 45}, columns.age:totable())
    assert.same({"Paris", 'New "York"', "Rome"}, {table.unpack(columns.city)})
    assert.same({12.5, -0.5, 7}, columns.income:totable())
    assert.equal("int32", columns.label.dtype)
    local some = data.read_csv(path, {columns = {"city"}})
    assert.is_nil(some.age)
    assert.equal(3, #some.city)
  end)

  it("counts lines whatever ends them", function()
    for _, ending in ipairs{"\n", "\r\n", "\r"} do
      command.write(path, table.concat({"a,b", "1,2", "", '"3",4', "5,x", "6,7"}, ending) .. ending)
      assert.error_matches(function() data.from_csv(path) end, "line 5, column 2: 'x' is no number")
    end
  end)

  it("is told where a cell is missing, in words too", function()
    command.write(path, table_text)
    assert.error_matches(function() data.read_csv(path) end,
      "record 2, column 'age': the cell is missing %(NA%); say what it becomes, fill = {age = 0}")
    command.write(path, "city\nRome\n\"\"\n")
    assert.error_matches(function() data.read_csv(path, {fill = 0}) end,
      'record 2, column \'city\': .*it is empty.*fill = {city = "%?"}')
    assert.same({"Rome", "?"}, {table.unpack(data.read_csv(path, {fill = "?"}).city)})
    assert.error_matches(function() data.read_csv(path, {columns = {"citi"}}) end,
      "no column is called 'citi'.*did you mean 'city'")
  end)

  it("has integers that stay, whatever their size", function()
    command.write(path, "a,b,c,d\n1,2147483648,0x10,1e3\n-2147483648,1,1,inf\n")
    local columns, types = data.read_csv(path)
    assert.same({a = "int32", b = "int64", c = "text", d = "float32"}, types)
    assert.same({2147483648, 1}, columns.b:totable())
    assert.same({1, -2147483648}, columns.a:totable())
    command.write(path, "id\n9007199254740993\n-9223372036854775808\n")
    assert.same({9007199254740993, math.mininteger}, data.read_csv(path).id:totable())
    command.write(path, "1;2\n3;4\n")
    local bare = data.read_csv(path, {header = false, separator = ";"})
    assert.same({1, 3}, bare.column0:totable())
  end)

  it("takes a fill into a column's type", function()
    command.write(path, "id,n\n5,7\n,8\n")
    local columns, types = data.read_csv(path, {fill = {id = 9007199254740993}})
    assert.same({id = "int64", n = "int32"}, types)
    assert.same({5, 9007199254740993}, columns.id:totable())
    assert.equal("float32", select(2, data.read_csv(path, {fill = 0.5})).id)
  end)

  it("rounds no integer for the sake of a fraction beside it", function()
    command.write(path, "id,n\n3000000001,16777216\n,16777218\n1,\n")
    local columns, types = data.read_csv(path, {fill = 0.5})
    assert.same({id = "float64", n = "float32"}, types)
    assert.same({3000000001, 0.5, 1}, columns.id:totable())
    command.write(path, "id\n16777217\n-0.5\n")
    columns, types = data.read_csv(path)
    assert.equal("float64", types.id)
    assert.same({16777217, -0.5}, columns.id:totable())
  end)

  -- float32 holds all integers up to 2^24 and float64 up to 2^53: IEEE 754, table 3.5.
  it("refuses a fraction where float64 would round the column's integers", function()
    for _, rest in ipairs{"0.5", "", "nan"} do
      command.write(path, "id,n\n9007199254740992,7\n9007199254740993,7\n" .. rest .. ",8\n")
      assert.error_matches(function() data.read_csv(path, {fill = {id = -0.25}}) end,
        "record 2, column 'id': .*round the integer 9007199254740993 to 9007199254740992; without")
    end
    for x, dtype in pairs{[16777216] = "float32", [-16777218] = "float32", [16777219] = "float64",
      [9007199254740992] = "float32", [9007199254740991] = "float64"} do
      command.write(path, "id,n\n" .. x .. ",7\n,8\n")
      local columns, types = data.read_csv(path, {fill = {id = 0.5}})
      assert.equal(dtype, types.id)
      assert.same({x, 0.5}, columns.id:totable())
    end
  end)

  it("is told where an integer is too large for any type", function()
    command.write(path, "id\n1\n9223372036854775808\n")
    assert.error_matches(function() data.read_csv(path) end,
      "record 2, column 'id': 9223372036854775808 doesn't fit int64")
    command.write(path, "id\n1.5\n9223372036854775808\n")
    assert.equal("float32", select(2, data.read_csv(path)).id)
  end)

  it("of words is refused as a dataset of numbers, with the way that reads it", function()
    command.write(path, table_text)
    assert.error_matches(function() data.from_csv(path) end, "'Paris' is no number; data.read_csv")
  end)

  it("holds no number that its type makes infinite or 0", function()
    for cell, dtype in pairs{["1e39"] = "float64", ["-1e-50"] = "float64", ["1e38"] = "float32",
      inf = "float32", ["0.0"] = "float32"} do
      command.write(path, "a\n" .. cell .. "\n2.5\n")
      local columns, types = data.read_csv(path)
      assert.equal(dtype, types.a)
      local want, got = tonumber(cell) or math.huge, columns.a[1]:item()
      assert.is_true(got == want or math.abs(got / want - 1) < 1e-7)
    end
    command.write(path, "a\n1e999\n2.5\n")
    assert.error_matches(function() data.read_csv(path) end,
      "record 1, column 'a': 1e999 doesn't fit float64")
    command.write(path, "a\n1e39\n")
    assert.error_matches(function() data.from_csv(path) end, "1e39 doesn't fit float32")
    assert.same({{1e39}}, rows(data.from_csv(path, {dtype = "float64"})))
  end)

  it("needs a label in each record, whatever fill is", function()
    command.write(path, "a,y\n1,3\n2,\n")
    for _, fill in ipairs{0, {a = 0}} do
      assert.error_matches(function() data.from_csv(path, {label = "y", fill = fill}) end,
        "line 3, column 2: the cell is missing %(it is empty%); a label is never filled")
    end
    assert.error_matches(function() data.from_csv(path, {label = "z"}) end, "no column .*'?z")
    assert.error_matches(function() data.from_csv("nowhere.csv", {label = "z"}) end, "nowhere.csv")
  end)

  -- The forms of strtod, C11 7.22.1.3: printf writes -nan and -inf, other languages Infinity.
  it("has numbers that are not finite in each form that from_csv reads", function()
    for cell, want in pairs{inf = math.huge, ["+Inf"] = math.huge, ["-inf"] = -math.huge,
      INFINITY = math.huge, ["-Infinity"] = -math.huge, nan = "nan", NaN = "nan", ["-nan"] = "nan",
      ["+nan"] = "nan"} do
      command.write(path, "a\n" .. cell .. "\n2.5\n")
      local columns, types = data.read_csv(path)
      assert.equal("float32", types.a, cell)
      for _, got in ipairs{columns.a[1]:item(), data.from_csv(path):iter()()[1]:item()} do
        assert.is_true(got == want or want == "nan" and got ~= got, cell)
      end
    end
    for _, cell in ipairs{"infin", "nano", "+-inf", "-"} do
      command.write(path, "a\n" .. cell .. "\n2.5\n")
      assert.equal("text", select(2, data.read_csv(path)).a)
    end
  end)

  it("of columns of one name loses none in silence", function()
    command.write(path, "a,b,a\n1,2,3\n")
    assert.error_matches(function() data.read_csv(path) end, "two columns are called 'a'")
    assert.error_matches(function() data.read_csv(path, {columns = {"a"}}) end, "two columns")
    assert.same({2}, data.read_csv(path, {columns = {"b"}}).b:totable())
    assert.same({{1, 2, 3}}, rows(data.from_csv(path)))
    assert.same({"a", "3"}, {table.unpack(data.read_csv(path, {header = false}).column2)})
  end)

  it("has fills of columns that are read, which fit their types", function()
    command.write(path, "a,b\n1,\n3,4\n")
    assert.error_matches(function() data.read_csv(path, {fill = {b = 0, c = 0}}) end,
      "read_csv: 'fill' names the column 'c', which isn't read")
    assert.error_matches(function() data.read_csv(path, {columns = {"a"}, fill = {b = 0}}) end,
      "names the column 'b'")
    for fill, told in pairs{[1.5] = "1.5", [1e12] = "1e%+12", [3000000000] = "3e%+09"} do
      assert.error_matches(function() data.from_csv(path, {dtype = "int32", fill = fill}) end,
        "column 2: the cell is missing, and fill, " .. told .. ", doesn't fit int32")
    end
    assert.same({{1, 9007199254740993}, {3, 4}},
      rows(data.from_csv(path, {dtype = "int64", fill = 9007199254740993})))
  end)

  it("may end its lines with a carriage return alone", function()
    command.write(path, 'a,b\r1,"x\ry"\r3,z\r')
    local columns = data.read_csv(path)
    assert.same({1, 3}, columns.a:totable())
    assert.same({"x\ry", "z"}, {table.unpack(columns.b)})
  end)

  it("without a cell is refused", function()
    for _, text in ipairs{"", "\n\n"} do
      command.write(path, text)
      assert.error_matches(function() data.read_csv(path) end, "the table is empty")
      assert.error_matches(function() data.from_csv(path) end, "the table is empty")
    end
  end)
end)
