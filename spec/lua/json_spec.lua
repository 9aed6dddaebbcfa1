local json = require "ipulua.base.json"

describe("json.encode", function()
  for _, case in ipairs {
    {1, "1"}, {1.0, "1.0"}, {0.1, "0.1"}, {1 / 3, "0.3333333333333333"}, {1e300, "1e+300"},
    {-0.0, "-0.0"},
    {math.mininteger, "-9223372036854775808"}, {math.maxinteger, "9223372036854775807"},
    {2^53, "9007199254740992.0"},
    {true, "true"}, {json.null, "null"}, {{}, "{}"}, {json.array(), "[]"}, {{1, {2}}, "[1,[2]]"},
    {{b = 1, a = {c = false}}, '{"a":{"c":false},"b":1}'},
    {'a"\\\n\1\127é', '"a\\"\\\\\\n\\u0001\127é"'},
  } do
    it("writes " .. case[2], function() assert.equal(case[2], json.encode(case[1])) end)
  end

  it("indents", function()
    assert.equal('{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}',
      json.encode({a = {1, 2}, b = {}}, {indent = 2}))
  end)

  it("refuses what JSON has no form for", function()
    local loop = {}
    loop[1] = loop
    for _, case in ipairs {{0 / 0, "no number"}, {1 / 0, "no number"},
      {print, "a function has no JSON form"},
      {{[1] = 1, a = 2}, "names are strings"}, {{1, nil, 3}, "names are strings"},
      {"\255", "UTF%-8"}, {loop, "deeper"}} do
      assert.error_matches(function() json.encode(case[1]) end, case[2])
    end
  end)
end)

describe("json.decode", function()
  for _, case in ipairs {
    {"1", 1}, {" -1.5e2 ", -150.0}, {"9223372036854775807", math.maxinteger},
    {"-9223372036854775808", math.mininteger},
    {'"\\u00e9\\ud83d\\ude00\\/"', "é😀/"}, {"[]", {}}, {"[1, [2,3]]", {1, {2, 3}}},
    {'{"a": {"b": true}}', {a = {b = true}}},
  } do
    it("reads " .. case[1], function() assert.same(case[2], json.decode(case[1])) end)
  end

  it("reads what is nested in 200 levels", function()
    local depth, v = 0, json.decode(("["):rep(200) .. ("]"):rep(200))
    while v do depth, v = depth + 1, v[1] end
    assert.equal(200, depth)
  end)

  it("keeps integers, floats and null apart", function()
    local v = json.decode("[1, 1.0, null]")
    assert.equal("integer", math.type(v[1]))
    assert.equal("float", math.type(v[2]))
    assert.equal(json.null, v[3])
    assert.equal("[1,1.0,null]", json.encode(v))
    assert.equal("[]", json.encode(json.decode("[]")))
  end)

  for _, case in ipairs {
    {"", "line 1, column 0: "}, {"[1,]", "line 1, column 4: "}, {"{1:2}", "'}' expected near '1'"},
    {"[1 2]", "']' expected near '2'"},
    {'{"a":1,"a":2}', "duplicate object key"}, {"01", "line 1, column 1: "}, {"1.", "near '1.'"},
    {"1e", "near '1e'"}, {"-", "near '-'"},
    {"9223372036854775808", "too big integer near '9223372036854775808'"},
    {"-9223372036854775809", "integer near '-9223372036854775809'"},
    {"1e999", "overflow near '1e999'"}, {"1 2", "expected near '2'"},
    {'"a', "premature end"}, {'"\1"', "control character"}, {'"\\x"', "invalid escape"},
    {'"\\u12"', "invalid escape"},
    {'"\\ud800"', "invalid Unicode"}, {'"\\udc00"', "invalid Unicode"}, {"\255", "byte 0xff"},
    {'"\255"', "0xff"}, {"nul", "near 'nul'"}, {"NaN", "near 'NaN'"},
    {("["):rep(201) .. ("]"):rep(201), "nested deeper than 200 levels"},
    {("["):rep(100000), "depth"}, {"[1,\n  x]", "line 2, column 3: "}, {"+1", "near '+'"},
    {"\239\187\1911", "line 1, column 1: "},
  } do
    it("refuses " .. case[1]:sub(1, 20):gsub("%c", "?"), function()
      local value, problem = json.parse(case[1])
      assert.is_nil(value)
      assert.matches(case[2], problem, 1, true)
      local _, message = pcall(json.decode, case[1])
      assert.equal("json.decode: " .. problem, message:match("json_spec.lua:%d+: (.*)"))
    end)
  end

  it("refuses what is no text", function()
    assert.error_matches(function() json.decode(5) end, "a string was expected, got number")
  end)
end)
