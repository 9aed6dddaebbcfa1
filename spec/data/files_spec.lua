-- Datasets from files.

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
    made = os.tmpname()
    paths[#paths + 1] = made
  end)
  after_each(function()
    for _, name in ipairs{"", "a.idx", "b.idx", "t.csv", "t.txt", "c.bin"} do os.remove(made .. name) end
  end)

  it("from_idx", function()
    local images = write("a.idx", "\0\0\8\3" .. string.pack(">I4I4I4", 2, 1, 2) .. "\1\2\3\4")
    local labels = write("b.idx", "\0\0\8\1" .. string.pack(">I4", 2) .. "\7\8")
    assert.equal("[[1 2]]; [[3 4]]", elements(data.from_idx(images)))
    assert.equal("[[1 2]],7; [[3 4]],8", elements(data.from_idx(images, labels)))
    raises(function() data.from_idx("/no/such/file") end, "files_spec%.lua:%d+: .*/no/such/file")
  end)

  it("from_csv", function()
    local path = write("t.csv", 'a,"b ""x""",y\n1,2,0\n3,4.5,1\n')
    assert.equal("[1. 2. 0.]; [3. 4.5 1. ]", elements(data.from_csv(path)))
    assert.equal("[1. 2.],0; [3. 4.5],1", elements(data.from_csv(path, {label = "y"})))
    assert.equal("[2. 0.],1; [4.5 1. ],3", elements(data.from_csv(path, {label = 0})))
    assert.equal("[2.],0; [4.5],1", elements(data.from_csv(path, {columns = {'b "x"'}, label = "y"})))
    raises(function() data.from_csv(path, {label = "z"}) end, "no column is called 'z'")
    raises(function() data.from_csv(path, {header = false}) end, "line 1, column 1")
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

  it("from_text", function()
    local path = write("t.txt", "ab\r\n\né")
    assert.equal("[97 98]; []; [195 169]", elements(data.from_text(path)))
    assert.equal("97; 98; 13; 10; 10; 233", elements(data.from_text(path, {unit = "char"})))
    assert.equal(7, data.from_text(path, {unit = "byte"}):cardinality())
    raises(function() data.from_text(path, {unit = "word"}) end, '"line", "char" or "byte"')
  end)

  it("from_image_folder wants folders of pictures", function()
    raises(function() data.from_image_folder("/no/such/folder") end, "files_spec%.lua:%d+: .*/no/such/folder")
    raises(function() data.from_image_folder(".", {image_size = {0, 3}}) end, "two positive integers")
  end)
end)
