-- Structures of elements: random ones through every stage, and ones unlike the declared structure
-- or the first one.

local ipu = require "ipulua"
local structures = require "spec.support.element_structures"
local data = ipu.data

local function read(d)
  local out = {}
  for x in d:iter() do
    out[#out + 1] = type(x) == "table" and not x.totable and ipu.json.encode{a = x.a:totable()}
      or tostring(x)
  end
  return table.concat(out, " ")
end

local function refuses(pattern, f)
  local ok, message = pcall(f)
  assert.is_false(ok)
  assert.matches("structures_spec%.lua:%d+: .*" .. pattern, message)
end

local eager <const> = {eager = true}

describe("elements of a random structure", function()
  for first = 1, 240, 60 do
    it("come as they were made, seeds " .. first .. " to " .. first + 59, function()
      for seed = first, first + 59 do
        local ds, s, list, words = structures.make(seed)
        local want = {}
        for i, values in ipairs(list) do want[i] = structures.text(s, values) end
        assert.same(want, structures.read(ds, s), words)
      end
    end)
  end
end)

describe("a generator's element", function()
  local function generator(types, shapes, ...)
    local values = table.pack(...)
    return data.from_generator(function()
      local n = 0
      return function()
        n = n + 1
        if n == 1 then return table.unpack(values, 1, values.n) end
      end
    end, {output_types = types, output_shapes = shapes})
  end

  it("has false as a component, in a tuple and by name", function()
    local a, b = generator({"bool", "float32"}, {{}, {}}, false, 2):iterator():next()
    assert.same({false, 2.0}, {a:item(), b:item()})
    assert.is_false(generator({a = "bool"}, {a = {}}, {a = false}):iterator():next().a:item())
  end)

  it("has no component that isn't declared", function()
    refuses("component '3', which is not declared", function()
      read(generator({"int32", "int32"}, {{}, {}}, 1, 2, 3))
    end)
    refuses("component 'z', which is not declared", function()
      read(generator({a = "int32"}, {a = {}}, {a = 1, z = 2}))
    end)
    refuses("declared float32%[%], but an element has float32%[2%]", function()
      read(generator("float32", {}, 1, 2))
    end)
    assert.equal("1.0", read(generator("float32", {}, 1, nil)))
  end)

  it("has values that the declared dtype holds, given as a number or as a tensor", function()
    for _, x in ipairs{2.5, ipu.tensor(2.5), ipu.tensor(2.5, {dtype = "float64"})} do
      refuses("2.5 is no int32", function() read(generator("int32", {}, 2.5)) end)
      refuses(type(x) == "number" and "2.5 is no int32"
        or "declared int32, but an element has float%d+ values that it can't hold",
        function() read(generator("int32", {}, x)) end)
    end
    refuses("int64 values that it can't hold", function()
      read(generator("int32", {}, ipu.tensor(1 << 40, {dtype = "int64"})))
    end)
    refuses("float32 values that it can't hold", function()
      read(generator("int32", {}, ipu.tensor(0 / 0)))
    end)
    assert.equal("3", read(generator("int32", {}, ipu.tensor(3.0))))
    assert.equal("3.0", read(generator("float32", {}, ipu.tensor(3, {dtype = "int64"}))))
  end)

  it("has the shapes in the structure of the types", function()
    refuses("must have the structure of output_types, {a = a tensor, b = a tensor}", function()
      generator({a = "int32", b = "int32"}, {b = {}, c = {}}, {a = 1, b = 2})
    end)
  end)
end)

describe("an eager map", function()
  it("gives what its first element had: the same components, of dtypes that hold them", function()
    local function from_two(f, g) -- f of the first two elements, g of later ones
      return function() read(data.range(4):map(function(i) return (i:item() < 2 and f or g)(i) end,
        eager)) end
    end
    refuses("component 'b', which is not declared", from_two(function(i)
      return {a = i} end, function(i) return {a = i, b = i}
    end))
    refuses("component '3', which is not declared", from_two(function(i)
      return i, i end, function(i) return i, i, i
    end))
    refuses("float32 values that it can't hold", from_two(function(i)
      return i end, function(i) return ipu.cast(i, "float32") + 0.5
    end))
  end)

  it("takes shapes alone, and both only together with eager", function()
    local ragged = data.range(3):map(function(i) return ipu.zeros{i:item()} end,
      {eager = true, output_shapes = {-1}})
    assert.equal("[] [0.] [0. 0.]", read(ragged))
    assert.same({-1}, ragged.element_spec.shape)
    refuses("map: output_types needs output_shapes", function()
      data.range(3):map(print, {eager = true, output_types = "int64"})
    end)
    refuses("for {eager = true}",
      function() data.range(3):map(function(i) return i end, {output_shapes = {}}) end)
    refuses("for {eager = true}",
      function() data.range(3):map(function(i) return i end, {output_types = "int64"}) end)
  end)
end)

describe("a filter", function()
  it("is answered with one boolean, eagerly too", function()
    for _, answer in ipairs{ipu.tensor{true, false}, 1, 0, ipu.tensor(1, {dtype = "int64"}), "no",
      {true}} do
      refuses("must give one bool scalar",
        function() read(data.range(3):filter(function() return answer end, eager)) end)
    end
    refuses("must give one bool scalar",
      function() read(data.range(3):filter(function() return true, false end, eager)) end)
    assert.equal("0 2", read(data.range(3):filter(function(i) return ipu.equal(i % 2, 0) end,
      eager)))
  end)
end)

describe("a traced function on elements of several shapes", function()
  local function other(f, g) -- f where a batch is whole, g on the remainder
    return function() read(data.range(6):batch(4):map(function(i) return (i.shape[1] == 4 and f
      or g)(i) end)) end
  end
  local function same(i) return i end

  it("gives one structure, one dtype and rank", function()
    refuses("gives int64%[%-1%] for elements of one shape, float32%[4%] for elements of another",
      other(function(i) return ipu.cast(i, "float32") end, same))
    refuses("int64%[%] for elements of another",
      other(function(i) return ipu.reduce_sum(i) end, same))
    refuses("{int64%[4%], int64%[4%]} for elements of another", other(function(i) return i, i end,
      same))
    refuses("{a = int64%[4%], c = int64%[4%]} for elements of another", other(function(i)
      return {a = i, c = i} end, function(i) return {a = i, b = i}
    end))
    refuses("float32%[300, 300%] for elements of another", other(function()
      return ipu.zeros{300, 300} end, function() return ipu.zeros{2}
    end))
  end)

  it("gives the extents that it gave for others, where those didn't change", function()
    refuses("gives int64%[2%] for elements of one shape, int64%[1%] for elements of another",
      function()
      read(data.range(5):batch(4):map(function(i) return i:slice({0},
        {math.min(2, i.shape[1])}) end):batch(1))
    end)
  end)
end)

describe("datasets that are joined", function()
  local function dict(a, b)
    return data.from_tensor_slices{[a] = ipu.zeros{2}, [b] = ipu.ones{2}}
  end

  it("nest alike: columns keep their names", function()
    refuses("nest as {a = float32%[%], b = float32%[%]} in the first dataset, as {b = float32%[%],"
      .. " c = float32%[%]}", function()
      dict("a", "b"):concatenate(dict("b", "c"))
    end)
    refuses("concatenate: the elements nest", function()
      dict("a", "b"):concatenate(data.from_tensor_slices{ipu.zeros{2}, ipu.ones{2}})
    end)
    for _, method in ipairs{"flat_map", "interleave"} do
      refuses(method .. ": the datasets that the function makes have elements {a = a tensor, b = a"
        .. " tensor} and {b = a tensor, c", function()
        read(data.range(2)[method](data.range(2), function(i)
          return i:item() == 0 and dict("a", "b") or dict("b", "c")
        end))
      end)
    end
  end)
end)

-- Values after a gap would move to other places: the weights of (x, nil, weights) to the labels.
describe("a nil before a value", function()
  local r <const>, x <const> = data.range(3), ipu.ones{2}
  local cases <const> = {
    ["what a traced map returns"] = function()
      return r:map(function(i) return i, nil, i end)
    end,
    ["the list that it returns"] = function() return r:map(function(i) return {i, nil, i} end) end,
    ["a list in a table"] = function() return r:map(function(i) return {a = {nil, i}} end) end,
    ["its first result"] = function() return r:map(function(i) return nil, i end) end,
    ["what an eager map returns"] = function()
      return r:map(function(i) return i, nil, i end, {eager = true})
    end,
    ["the list that an eager map returns"] = function()
      return r:map(function(i) return {i, nil, i} end, {eager = true})
    end,
    ["tensors"] = function() return data.from_tensors{x, nil, x} end,
    ["slices"] = function() return data.from_tensor_slices{x, nil, x} end,
    ["datasets"] = function() return data.zip{r, nil, r} end,
    ["types of a generator"] = function()
      return data.from_generator(ipairs, {output_types = {"int32", nil, "int32"},
        output_shapes = {{}, nil, {}}})
    end,
  }
  for name, make in pairs(cases) do
    it("is refused among " .. name, function()
      assert.error_matches(make, "nil at position %d")
    end)
  end

  it("is refused among the arguments of zip, also as the last", function()
    local words <const> = "argument 2 must be a dataset, got nil"
    assert.error_matches(function() data.zip(r, nil, r) end, words)
    assert.error_matches(function() data.zip(r, nil) end, words)
  end)

  it("is nothing after the last one", function()
    local ds = r:map(function(i) return i, i * 2, nil end)
    for a, b, c in ds:iter() do
      assert.equal(a:item() * 2, b:item())
      assert.is_nil(c)
    end
  end)
end)
