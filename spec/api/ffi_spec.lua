-- LuaJIT over the C library: spec/support/ffi_session.lua, a section at a time.
local command = require "spec.support.command"

local build = command.ipulua:match("^(.*)/[^/]*$")
-- luajit can't load a library that was built with them
local sanitized = command.ipulua:find("/build%-[at]san/") ~= nil
local run_if = sanitized and pending or it

local function session(section, env, script)
  env = env or {}
  env.LUA_PATH = "lua/?.lua;" .. build .. "/luajit/?.lua"
  env.IPULUA_LIBRARY = env.IPULUA_LIBRARY or build .. "/libipulua.so.0"
  script = script or "spec/support/ffi_session.lua"
  return command.run{"luajit", script, section, env = env}
end

describe("ipulua.ffi under LuaJIT #ffi", function()
  for _, section in ipairs{"tensors", "arrays", "json", "functions", "dropped", "coroutines",
    "models", "leaks", "ending",
    "loading", "limits", "captures", "counts", "numbers", "fields"} do
    run_if(section, function()
      local r = session(section)
      assert.equal("", r.err)
      assert.equal(0, r.status)
      assert.truthy(r.out:find("done", 1, true))
    end)
  end

  for _, section in ipairs{"tensors", "arrays", "functions", "coroutines", "limits",
    "captures"} do
    run_if(section .. " with a collection every 23 instructions", function()
      local r = session(section, {COLLECT = "23", MALLOC_PERTURB_ = "165"})
      assert.equal("", r.err)
      assert.truthy(r.out:find("done", 1, true))
    end)
  end

  run_if("keeps apart what runs while it traces or takes results", function()
    local r = session("", {MALLOC_PERTURB_ = "165"}, "spec/support/ffi_traces.lua")
    assert.equal("", r.err)
    assert.equal(0, r.status)
    assert.equal("done\n", r.out)
  end)

  run_if("refuses a library with another version of the interface", function()
    local folder = command.folder()
    command.write(folder .. "/old.c", "unsigned ipu_abi_version(void) { return 99; } const char "
      .. "*ipu_version(void) { return \"9\"; }")
    assert.equal(0, command.run{"gcc", "-shared", "-fPIC", "-o", folder .. "/old.so",
      folder .. "/old.c"}.status)
    local r = session("tensors", {IPULUA_LIBRARY = folder .. "/old.so"})
    command.remove(folder)
    assert.equal(1, r.status)
    assert.truthy(r.err:find("made for version 1 of the C interface; this library has version 99",
      1, true))
    assert.matches("ffi_session.lua:%d+: ipulua.ffi is made", r.err)
  end)

  run_if("names the script's line where there is no library", function()
    local r = session("tensors", {IPULUA_LIBRARY = "/nowhere/libipulua.so.0"})
    assert.equal(1, r.status)
    assert.matches("ffi_session.lua:%d+: ipulua.ffi: the C library can't be loaded: "
      .. "/nowhere/libipulua.so.0", r.err)
  end)
end)
