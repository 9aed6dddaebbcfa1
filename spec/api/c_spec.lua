-- The C library: its header in C and C++, what it exports, the examples of examples/c.
local command = require "spec.support.command"

local build = command.ipulua:match("^(.*)/[^/]*$")
local library = build .. "/libipulua.so.0"
local sanitized = command.ipulua:find("/build%-[at]san/") ~= nil
local run_if = sanitized and pending or it

local function run(words)
  local r = command.run(words)
  assert(r.status == 0, r.err .. r.out)
  return r.out
end

describe("ipulua.h", function()
  local languages = {
    {"gcc", "-std=c99", "c"}, {"gcc", "-std=c11", "c"}, {"g++", "-std=c++11", "c++"},
    {"g++", "-std=c++20", "c++"},
  }
  for _, each in ipairs(languages) do
    it("is clean in " .. each[2], function()
      local source = '#include "ipulua.h"\n#include "ipulua.h"\nint main(void) { return '
        .. 'ipu_abi_version() != IPU_ABI_VERSION; }\n'
      run{each[1], each[2], "-x", each[3], "-pedantic", "-Wall", "-Wextra", "-Werror",
        "-fsyntax-only", "-Isrc", "-", stdin = source}
    end)
  end

  it("declares nothing in its marked region but functions and opaque types", function()
    local region = command.read("src/ipulua.h"):match("ffi.cdef begins %-%-%-%- %*/(.*)/%* "
      .. "%-%-%-%- ffi.cdef ends")
    assert.truthy(region)
    assert.falsy(region:find("\n%s*#"))
    assert.falsy(region:find("enum") or region:find("{\n"))
    local declared = {}
    for name in region:gsub("/%*.-%*/", ""):gmatch("(ipu_[%w_]+)%(") do
      declared[#declared + 1] = name
    end
    table.sort(declared)
    local exported = {}
    for name in run{"nm", "-D", "--defined-only", library}:gmatch(" T (%S+)") do
      exported[#exported + 1] = name:match("^[^@]+")
    end
    table.sort(exported)
    assert.same(exported, declared)
  end)
end)

describe("libipulua.so.0", function()
  run_if("computes at random what ops at once do, and gives out nothing that it still needs",
    function()
    local program = command.scratch()
    run{"gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror",
      "-Isrc", "spec/support/api_random.c", library, "-Wl,-rpath," .. build, "-o", program}
    assert.equal("1000 functions, 0 wrong\n", run{program, "1", "1000"})
    os.remove(program)
  end)

  run_if("answers the same of any op at once and in a function", function()
    local program = command.scratch()
    run{"gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror",
      "-Isrc", "spec/support/api_all_ops.c", library, "-Wl,-rpath," .. build, "-o", program}
    local calls, taken, wrong = run{program, "1", "5000"}:match("^(%d+) calls, (%d+) taken, (%d+)")
    assert.same({"5000", "0"}, {calls, wrong})
    assert.truthy(tonumber(taken) > 300)
    os.remove(program)
  end)

  it("is asked what it says of NULL by each function that can fail", function()
    local asked = {}
    for name in command.read("spec/support/api_check.c"):gmatch("NULLED%((ipu_[%w_]+),") do
      asked[name] = true
    end
    local owners = {ipu_context = true, ipu_builder = true, ipu_function = true, ipu_model = true}
    for name, first in command.read("src/ipulua.h"):gmatch("\nint (ipu_[%w_]+)%((ipu_%w+) %*") do
      assert.equal(owners[first], asked[name], name)
    end
  end)

  it("has its soname, and exports nothing but ipu_*", function()
    assert.truthy(run{"readelf", "-d", library}:find("soname: [libipulua.so.0]", 1, true))
    for line in run{"nm", "-D", "--defined-only", library}:gmatch("[^\n]+") do
      assert.truthy(line:find(" [TA] ipu_[%w_]+@@IPULUA_0") or line:find(" A IPULUA_0"), line)
    end
    assert.equal("luaopen_ipulua_core",
      run{"nm", "-D", "--defined-only", build .. "/modules/ipulua/core.so"}:match(" T (%S+)"))
  end)

  run_if("needs no Lua, and neither prints nor ends the process", function()
    assert.falsy(run{"readelf", "-d", library}:find("lua5.4", 1, true))
    local needed = run{"nm", "-D", "--undefined-only", library}
    for _, name in ipairs{"exit", "_exit", "abort", "printf", "puts", "putchar", "perror"} do
      assert.falsy(needed:find(" " .. name .. "[@\n]"), name)
    end
  end)
end)

describe("examples/c", function()
  local folder
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  local function example(name, ...)
    run{"gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Isrc",
      "examples/c/" .. name .. ".c", "-o",
      folder .. "/" .. name, library, "-Wl,-rpath," .. build, "-lm"}
    local words = {folder .. "/" .. name, ...}
    words.dir = folder
    return run(words)
  end

  run_if("function.c fits a line without Lua", function()
    local slope, offset = example("function"):match("slope (%S+) offset (%S+)")
    assert.near(3, tonumber(slope), 0.02)
    assert.near(0.25, tonumber(offset), 0.01)
  end)

  run_if("predict.c loads a model and predicts", function()
    local code = "local k = require 'ipulua'.keras local m = k.Sequential{k.layers.Dense{2, "
      .. "input_shape = {3}, kernel_initializer = 'ones'}} m:save '%s/m.safetensors'"
    run{command.ipulua, "-e", code:format(folder)}
    assert.equal("1\n1\n", example("predict", "m.safetensors", "0.5", "1.5", "-1"))
  end)

  run_if("online.c learns, and learns anew when the sensor changes", function()
    local errors = {}
    local function weights() return io.open(folder .. "/learnt.safetensors") end
    example("online")
    assert.is_nil(weights())
    for e in example("online", "learnt.safetensors"):gmatch("error (%S+)") do
      errors[#errors + 1] = tonumber(e)
    end
    assert(weights()):close()
    assert.equal(6, #errors)
    assert.is_true(errors[3] < errors[1] / 10)
    assert.is_true(errors[4] > errors[3] * 10) -- learnt facts no longer hold
    assert.is_true(errors[6] < errors[4] / 10)
  end)
end)
