-- Files without an end. The beginning of a file bounds what its reader takes in: at most 300 MB of
-- memory and 3 seconds. Pipes with an end are read as files are.

local command = require "spec.support.command"

local ipulua <const> = command.quote(command.ipulua)
local most_seconds <const>, most_kilobytes <const> = 3, 300000

local is_sanitized <const> = command.ipulua:find("/build%-.san/") ~= nil

-- The output of a script, with its seconds and kilobytes in the last line. Reading /dev/zero to the
-- end is ended by the limit of memory instead of this computer's.
local function run(script)
  local whole <const> = ([[local ipu = require "ipulua"
    print(select(2, pcall(function() %s end)))
    for l in io.lines "/proc/self/status" do
      local n = l:match "VmHWM:%%s+(%%d+)"
      if n then print(("%%.2f %%d"):format(os.clock(), n)) end
    end]]):format(script)
  local limit <const> = is_sanitized and "" or "ulimit -v 4000000; "
  local pipe <close> = assert(io.popen(("%s timeout 60 %s -e %s 2>&1"):format(limit, ipulua,
    command.quote(whole))))
  return pipe:read("a")
end

local function check(script, expected)
  local out <const> = run(script)
  assert.matches(expected, out)
  local seconds, kilobytes = out:match("(%S+) (%d+)\n$")
  if is_sanitized then return end
  assert.is_true(tonumber(seconds) <= most_seconds, out)
  assert.is_true(tonumber(kilobytes) <= most_kilobytes, out)
end

-- A name of that ending for /dev/zero.
local function zeros(ending)
  local path <const> = command.scratch(ending)
  os.execute("ln -s /dev/zero " .. path)
  return path
end

-- A pipe into which the shell's words write.
local function pipe_of(ending, words)
  local path <const> = command.scratch(ending)
  os.execute(("mkfifo %s; (%s) >%s 2>/dev/null &"):format(path, words, path))
  return path
end

-- float32 [2, 3] in NumPy's format, version 1: 128 bytes before the 24 of the elements.
local header <const> = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
local npy <const> = "\x93NUMPY\1\0\x76\0" .. header .. (" "):rep(117 - #header) .. "\n"
local safetensors <const> = string.pack("<s8",
  [[{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}]])
local idx <const> = "\0\0\8\1\0\0\0\4"

-- The beginning of a file, as a file that `cat` reads.
local function file_of(text)
  local path <const> = command.scratch()
  command.write(path, text)
  return path
end

describe("a file without an end", function()
  for ending, case in pairs{
    [".npy"] = {"ipu.load %q", "not an npy file"},
    [".safetensors"] = {"ipu.load %q", "header length at byte offset 0 is 0"},
    [".csv"] = {"ipu.data.read_csv %q", "a zero byte at byte offset 0"},
    [".png"] = {"ipu.image.read %q", "neither a PNG nor a JPEG file"},
    [".onnx"] = {"ipu.keras.onnx.import %q", "onnx.import: .* a zero byte at byte offset 0"},
    [".txt"] = {"ipu.keras.layers.StringLookup{vocabulary = %q}", "can't be read"},
    [".json"] = {"ipu.estimate(ipu.func(function(x) return x end), "
      .. "{inputs = {{2}}, target = %q})", "can't be read"}} do
    it("is refused by its beginning: " .. ending, function()
      check(case[1]:format(zeros(ending)), case[2])
    end)
  end

  for ending, case in pairs{
    [".npy"] = {npy, "ends at byte offset 152"},
    [".safetensors"] = {safetensors, "the tensors end at byte offset 65"}} do
    it("is oversized after what its header says: " .. ending, function()
      local words <const> = "cat " .. file_of(case[1]) .. " /dev/zero"
      check(("return ipu.load %q"):format(pipe_of(ending, words)), case[2])
    end)
  end

  it("is oversized after what its header says: .idx", function()
    local words <const> = "cat " .. file_of(idx) .. " /dev/zero"
    check(("return ipu.data.from_idx %q"):format(pipe_of(".idx", words)),
      "it goes on after byte offset 12")
  end)
end)

describe("a pipe with an end", function()
  it("is read as a file is: .npy", function()
    local path <const> = pipe_of(".npy", "cat " .. file_of(npy .. string.pack("<ffffff",
      1, 2, 3, 4, 5, 6)))
    check(("return ipu.load %q"):format(path), "^%[%[1%. 2%. 3%.%]\n %[4%. 5%. 6%.%]%]\n")
  end)

  it("is read as a file is: .safetensors", function()
    local path <const> = pipe_of(".safetensors", "cat " .. file_of(safetensors .. "\7\8\9\10"))
    check(("return ipu.load(%q).w"):format(path), "^%[ 7  8  9 10%]\n")
  end)

  it("is read as a file is: .idx", function()
    local path <const> = pipe_of(".idx", "cat " .. file_of(idx .. "\7\8\9\10"))
    check(("for e in ipu.data.from_idx(%q):batch(4):iter() do return e end"):format(path),
      "^%[ 7  8  9 10%]\n")
  end)

  it("takes a tensor that is saved", function()
    local path <const> = command.scratch(".npy")
    os.execute("ln -s /dev/stdout " .. path)
    local pipe <close> = assert(io.popen(("%s -e %s | cat"):format(ipulua, command.quote(
      ("local ipu = require 'ipulua' ipu.save(%q, ipu.constant{1., 2., 3.})"):format(path)))))
    local bytes <const> = pipe:read("a")
    assert.equal(140, #bytes)
    assert.equal(string.pack("<fff", 1, 2, 3), bytes:sub(129))
  end)
end)

describe("a symbolic link without a target", function()
  it("stays, and its target is made", function()
    local ipu <const> = require "ipulua"
    local folder <const> = command.folder()
    os.execute(("mkdir %s/real; ln -s real/x.npy %s/link.npy; ln -s link.npy %s/second.npy"):format(
      folder, folder, folder))
    ipu.save(folder .. "/second.npy", ipu.constant{5, 6})
    assert.is_true(os.execute(("cd %s; test -L link.npy && test -L second.npy && test -f real/x.npy"
      ):format(folder)))
    assert.same({5, 6}, ipu.load(folder .. "/real/x.npy"):totable())
    command.remove(folder)
  end)
end)
