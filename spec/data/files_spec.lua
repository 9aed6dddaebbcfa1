-- Datasets from files.

local command = require "spec.support.command"
local ipu = require "ipulua"
local data = ipu.data

-- Fails with a message that, line included, matches.
local function raises(f, pattern)
  local ok, message = pcall(f)
  assert.is_false(ok)
  assert.matches(pattern, message)
end

local made

local function write(name, text)
  local path = made .. name
  local f <close> = assert(io.open(path, "wb"))
  f:write(text)
  return path
end

local function elements(ds)
  local list = {}
  for a, b in ds:iter() do
    list[#list + 1] = tostring(a):gsub("%s+", " ") .. (b and "," .. tostring(b) or "")
  end
  return table.concat(list, "; ")
end

describe("datasets from files", function()
  local paths = {}
  before_each(function()
    made = command.scratch()
    paths[#paths + 1] = made
  end)
  after_each(function()
    for _, name in ipairs{"", "a.idx", "b.idx", "t.csv", "t.txt", "c.bin", "n.npz", "n.npy",
      "n.safetensors"} do
      os.remove(made .. name)
    end
  end)

  it("from_idx", function()
    local images = write("a.idx", "\0\0\8\3" .. string.pack(">I4I4I4", 2, 1, 2) .. "\1\2\3\4")
    local labels = write("b.idx", "\0\0\8\1" .. string.pack(">I4", 2) .. "\7\8")
    assert.equal("[[1 2]]; [[3 4]]", elements(data.from_idx(images)))
    assert.equal("[[1 2]],7; [[3 4]],8", elements(data.from_idx(images, labels)))
    local one = write("c.bin", "\0\0\8\1" .. string.pack(">I4", 1) .. "\7")
    raises(function() data.from_idx(images, one) end,
      "from_idx: %S+a%.idx has 2 elements, but %S+c%.bin has 1 element: the files do not")
    raises(function() data.from_idx("/no/such/file") end, "files_spec%.lua:%d+: .*/no/such/file")
  end)

  it("from_csv", function()
    local path = write("t.csv", 'a,"b ""x""",y\n1,2,0\n3,4.5,1\n')
    assert.equal("[1. 2. 0.]; [3. 4.5 1. ]", elements(data.from_csv(path)))
    assert.equal("[1. 2.],0; [3. 4.5],1", elements(data.from_csv(path, {label = "y"})))
    assert.equal("[2. 0.],1; [4.5 1. ],3", elements(data.from_csv(path, {label = 0})))
    assert.equal("[2.],0; [4.5],1",
      elements(data.from_csv(path, {columns = {'b "x"'}, label = "y"})))
    assert.equal("Dataset(from_csv: float32[3])", tostring(data.from_csv(path)))
    assert.equal("Dataset(from_csv: float32[2], int32[])",
      tostring(data.from_csv(path, {label = "y"})))
    raises(function() data.from_csv(path, {label = "z"}) end, "no column is called 'z'")
    for _, number in ipairs{3, -1, 1 << 31, 1 << 32, (1 << 32) + 1, math.mininteger} do
      raises(function() data.from_csv(path, {columns = {number}}) end,
        "no column " .. tostring(number):gsub("-", "%%-"))
    end
    raises(function() data.from_csv(path, {header = false}) end,
      "line 1, column 1: 'a' is no number; .*header = true")
    raises(function() data.from_csv(path, {sep = ";"}) end,
      "from_csv has no argument 'sep'; did you mean 'separator'%?")
  end)

  it("from_cifar", function()
    local path = write("c.bin", "\3" .. ("\10"):rep(1024) .. ("\20"):rep(1024) .. ("\30"):rep(1024))
    for x, y in data.from_cifar(path):iter() do
      assert.same({32, 32, 3}, x.shape)
      assert.equal("[10 20 30]", tostring(x[1][1]))
      assert.equal(3, y:item())
    end
    assert.equal(2, data.from_cifar{{path, path}}:cardinality())
  end)

  it("from_cifar with 100 classes gives fine or coarse labels", function()
    local pixels = ("\1"):rep(3072)
    local path = write("c.bin", "\4\77" .. pixels .. "\19\99" .. pixels)
    local function labels(options)
      local list = {}
      for _, y in data.from_cifar(path, options):iter() do list[#list + 1] = y:item() end
      return list
    end
    assert.same({77, 99}, labels{classes = 100})
    assert.same({4, 19}, labels{classes = 100, label_mode = "coarse"})
    raises(function() data.from_cifar(path) end, "files_spec%.lua:%d+: .*not a CIFAR%-10 file")
    raises(function() data.from_cifar(path, {label_mode = "coarse"}) end, "no coarse labels")
    raises(function() data.from_cifar(path, {classes = 7}) end, "10 or 100, got 7")
    raises(function() data.from_cifar({}) end, "no file is given")
  end)

  it("from_npy and from_safetensors give rows, of named tensors tables of rows", function()
    local x, y = ipu.tensor({{1, 2}, {3, 4}}), ipu.tensor({5, 6}, {dtype = "int32"})
    local function joined(ds)
      local list = {}
      for row in ds:iter() do list[#list + 1] = tostring(row.x) .. row.y:item() end
      return table.concat(list, "; ")
    end
    for _, name in ipairs {"n.npz", "n.safetensors"} do
      ipu.save(made .. name, {x = x, y = y})
      local ds = (name == "n.npz" and data.from_npy or data.from_safetensors)(made .. name)
      assert.equal("[1. 2.]5; [3. 4.]6", joined(ds))
      assert.same({shape = {2}, dtype = "float32"}, ds.element_spec.x)
    end
    ipu.save(made .. "n.npy", x)
    assert.equal("[1. 2.]; [3. 4.]", elements(data.from_npy(made .. "n.npy")))
    ipu.save(made .. "n.npz", {x = x, y = ipu.zeros{3}})
    raises(function() data.from_npy(made .. "n.npz") end,
      "files_spec%.lua:%d+: .*n%.npz' holds arrays of unequal lengths: . has 2 rows, . has 3 rows")
    write("n.safetensors", "\255\255\255")
    raises(function() data.from_safetensors(made .. "n.safetensors") end,
      "files_spec%.lua:%d+: .*n%.safetensors")
  end)

  it("from_image_folder reads pictures and the classes that their folders are", function()
    local core = require "ipulua.core"
    local is_written, message = pcall(core.write_image, made .. "x.png",
      ipu.zeros({1, 1, 3}, "uint8"))
    if not is_written then return assert.matches("this build is without", message) end
    os.execute("mkdir -p " .. made .. "pictures/cat " .. made .. "pictures/dog")
    local function picture(path, value)
      core.write_image(made .. "pictures/" .. path, ipu.full({2, 3, 3}, value, "uint8"))
    end
    picture("cat/1.png", 10)
    picture("dog/1.png", 20)
    picture("dog/2.png", 30)
    local ds, names = data.from_image_folder(made .. "pictures")
    assert.same({"cat", "dog"}, names)
    local seen = {}
    for x, y in ds:iter() do
      assert.same({2, 3, 3}, x.shape)
      seen[#seen + 1] = math.tointeger(x[1][1][1]:item()) .. ":" .. math.tointeger(y:item())
    end
    assert.same({"10:0", "20:1", "30:1"}, seen)
    local sized = data.from_image_folder(made .. "pictures", {image_size = {4, 4}})
    assert.same({4, 4, 3}, sized.element_spec[1].shape)
    assert.same({4, 4, 3}, (sized:iterator():next()).shape)
    local broken <close> = assert(io.open(made .. "pictures/dog/3.png", "wb"))
    broken:write("no picture")
    broken:close()
    -- no error here: pictures are read one by one
    local damaged = data.from_image_folder(made .. "pictures")
    raises(function() elements(damaged) end,
      "stage 'from_image_folder' %(%S*files_spec%.lua:%d+%): %S+/dog/3%.png: ")
    os.execute("rm -r " .. made .. "pictures")
  end)

  it("from_image_folder reads more pictures than it decodes side by side, in their order, for any "
    .. "team", function()
    local core = require "ipulua.core"
    if not pcall(core.write_image, made .. "x.png", ipu.zeros({1, 1, 3}, "uint8")) then return end
    for class = 1, 3 do
      os.execute("mkdir -p " .. made .. "many/" .. class)
      for i = 1, 15 do
        core.write_image(string.format("%smany/%d/%02d.png", made, class, i),
          ipu.full({2, 3, 3}, class * 20 + i, "uint8"))
      end
    end
    for _, threads in ipairs{1, 2, 3, 17} do
      ipu.set_num_threads(threads)
      local count = 0
      for x, y in data.from_image_folder(made .. "many"):iter() do
        local class, i = count // 15 + 1, count % 15 + 1
        assert.equal(class * 20 + i, x[2][3][1]:item())
        assert.equal(class - 1, y:item())
        count = count + 1
      end
      assert.equal(45, count)
    end
    ipu.set_num_threads(2)
    os.execute("rm -r " .. made .. "many")
  end)

  it("from_text", function()
    local path = write("t.txt", "ab\r\n\né")
    assert.equal("[97 98]; []; [195 169]", elements(data.from_text(path)))
    assert.equal("97; 98; 13; 10; 10; 233", elements(data.from_text(path, {unit = "char"})))
    assert.equal(7, data.from_text(path, {unit = "byte"}):cardinality())
    raises(function() data.from_text(path, {unit = "word"}) end, '"line", "char" or "byte"')
  end)

  it("from_image_folder needs folders of pictures", function()
    raises(function() data.from_image_folder("/no/such/folder") end,
      "files_spec%.lua:%d+: .*/no/such/folder")
    raises(function() data.from_image_folder(".", {image_size = {0, 3}}) end,
      "two positive integers")
  end)
end)

describe("a cache's file of elements of different shapes", function()
  local path
  before_each(function() path = command.scratch() end)
  after_each(function() os.remove(path) end)

  -- Element i: i % 3 numbers i, a bool, and i % 2 rows of four.
  local function ragged(count)
    return data.from_generator(function()
      local i = -1
      return function()
        i = i + 1
        if i >= count then return nil end
        return ipu.full({i % 3}, i, {dtype = "int32"}), ipu.tensor(i % 5 == 0, {dtype = "bool"}),
          ipu.full({i % 2, 4}, i / 2, {dtype = "float64"})
      end
    end, {output_types = {"int32", "bool", "float64"}, output_shapes = {{-1}, {}, {-1, 4}}})
  end

  local function check(ds, count)
    local i = 0
    for a, b, c in ds:iter() do
      assert.same({i % 3}, a.shape)
      assert.same({i % 2, 4}, c.shape)
      if i % 3 > 0 then assert.equal(i, a[1]:item()) end
      assert.equal(i % 5 == 0, b:item())
      if i % 2 > 0 then assert.equal(i / 2, c[1][4]:item()) end
      i = i + 1
    end
    assert.equal(count, i)
  end

  it("has all of them, and they come back", function()
    for _, count in ipairs{0, 1, 2, 7, 100} do
      os.remove(path)
      check(ragged(count):cache(path), count)
      check(ragged(0):cache(path), count) -- from the file
    end
  end)

  it("holds more elements than a file may have tensors", function()
    local count <const> = 65537
    local values <const> = {ipu.tensor({1}, {dtype = "int32"}), ipu.tensor({2, 3},
      {dtype = "int32"})}
    local function pairs_of(n)
      return data.from_generator(function()
        local i = 0
        return function()
          i = i + 1
          return i <= n and values[1 + i % 2] or nil
        end
      end, {output_types = "int32", output_shapes = {-1}}):cache(path)
    end
    local function sizes(ds)
      local n, size = 0, 0
      for a in ds:iter() do n, size = n + 1, size + a.size end
      return n .. " of " .. size
    end
    local expected <const> = "65537 of 98306" -- 32768 of one number, 32769 of two
    assert.equal(expected, sizes(pairs_of(count)))
    assert.equal(expected, sizes(pairs_of(0)))
  end)

  it("whose shapes are not its elements' is refused", function()
    local function one() return ragged(7):map(function(a) return a end):cache(path) end
    local function refused(words, shapes, values)
      local written <const> = {["component.0.shapes"] = shapes, ["component.0.values"] = values}
      ipu.save(path .. ".safetensors", written)
      os.remove(path)
      local text = io.open(path .. ".safetensors", "rb"):read "a"
      os.remove(path .. ".safetensors")
      -- the header with the number of elements that a cache has
      local length = string.unpack("<I8", text)
      local header = text:sub(9, 8 + length):gsub("^{(\"__metadata__\":{[^}]*},)?", "{")
      header = header:gsub("^{", "{\"__metadata__\":{\"ipulua.cached_elements\":\"2\"},")
      header = header .. (" "):rep(-#header % 8)
      local file = io.open(path, "wb")
      file:write(string.pack("<I8", #header), header, text:sub(9 + length))
      file:close()
      assert.error_matches(function() one():iter()() end, words)
    end
    local function integers(list) return ipu.tensor(list, {dtype = "int32"}) end
    local function shapes(list) return ipu.tensor(list, {dtype = "int64"}) end
    refused("a shape in it is no element's", shapes{{2}, {2}}, integers{1, 2, 3})
    refused("a shape in it is no element's", shapes{{2}, {-1}}, integers{1, 2, 3})
    refused("a shape in it is no element's", shapes{{1}, {math.maxinteger}}, integers{1, 2, 3})
    refused("'component.0.shapes' is int64%[3, 1%], not int64%[2, 1%]", shapes{{1}, {1}, {1}},
      integers{1, 2, 3})
    refused("'component.0.values' is float32%[3%], not int32%[%-1%]", shapes{{1}, {1}},
      ipu.tensor{1, 2, 3})
  end)
end)
