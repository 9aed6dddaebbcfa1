-- Ctrl-C in the midst of a function that makes elements in Lua. Reading goes on with that element,
-- which draws the same numbers as without Ctrl-C.
local command = require "spec.support.command"

local script <const> = [[
local ipu = require "ipulua"
local data = ipu.data
local ready = true -- to press Ctrl-C, once

local function pressed_at(x, number)
  if ready and x == number then
    ready = false
    io.popen("kill -INT $PPID"):close()
  end
  for _ = 1, 30000 do end -- long enough to be worth a thread
end

local function numbers()
  return data.range(60):map(function(x) return ipu.cast(x, "int32") end)
end
local scalar <const> = {eager = true, output_types = "int32", output_shapes = {}}

local chains <const> = {
  map = function(at)
    return numbers():map(function(x)
      pressed_at(x:item(), at)
      return x * 2
    end, scalar)
  end,
  draws = function(at)
    return numbers():map(function(x)
      pressed_at(x:item(), at)
      return ipu.cast(ipu.random.uniform{} * 1e6, "int32")
    end, scalar)
  end,
  filter = function(at)
    return numbers():filter(function(x)
      pressed_at(x:item(), at)
      return x:item() % 7 ~= 0
    end, {eager = true})
  end,
  take_while = function(at)
    return numbers():take_while(function(x)
      pressed_at(x:item(), at)
      return x:item() < 55
    end)
  end,
  flat_map = function(at)
    return numbers():flat_map(function(x)
      pressed_at(x:item(), at)
      return data.from_tensors(x):repeat_n(2)
    end)
  end,
  interleave = function(at)
    return numbers():interleave(function(x)
      pressed_at(x:item(), at)
      return data.range(x:item(), x:item() + 3):map(function(v)
        return ipu.cast(v + ipu.cast(ipu.random.uniform{} * 1e6, "int64"), "int32")
      end)
    end, {cycle_length = 3, block_length = 2})
  end,
  from_generator = function(at)
    return data.from_generator(function()
      local next_one = 0
      return function()
        pressed_at(next_one, at)
        next_one = next_one + 1
        if next_one > 60 then return nil end
        return ipu.cast(ipu.random.uniform{} * 1e6, "int32") + next_one
      end
    end, {output_types = "int32", output_shapes = {}})
  end,
  shapes = function(at) -- the function is traced for each shape
    local lengths = numbers():map(function(x)
      for _ = 1, 30000 do end
      return ipu.ones{1 + x:item() // 3} * x:item()
    end, {eager = true, output_types = "float32", output_shapes = {-1}})
    return lengths:map(function(x)
      pressed_at(x.shape[1], 1 + at // 3)
      return ipu.reduce_sum(x * x)
    end, {num_parallel_calls = 4})
  end,
}

local function read(chain, way, at)
  ipu.random.set_seed(1)
  local ds, out, stops = chain(at), {}, 0
  if way == "prefetch" then ds = ds:prefetch(3) end
  if way == "batch" then ds = ds:batch(4) end
  local it = ds:iterator()
  while true do
    local fine, x = pcall(it.next, it)
    if fine and x == nil then break end
    if fine then out[#out + 1] = tostring(x)
    else
      stops = stops + 1
      assert(x:find("interrupted!", 1, true), x)
    end
  end
  return table.concat(out, " "), stops
end

local chain <const>, way <const>, at <const> = chains[arg[1] ], arg[2], tonumber(arg[3])
local want = read(chain, way, -1)
local got, stops = read(chain, way, at)
print(got == want, stops, #want > 100)
]]

describe("Ctrl-C in a function of a dataset that runs in Lua", function()
  local folder
  setup(function()
    folder = command.folder()
    command.write(folder .. "/chains.lua", script)
  end)
  teardown(function() command.remove(folder) end)

  -- each is traced for trial shapes when it is made
  for _, name in ipairs{"map", "filter"} do
    it("ends the " .. name .. " whose function is being traced", function()
      command.write(folder .. "/traced.lua", [[
local ipu = require "ipulua"
local name <const>, calls = arg[1], 0
local ds = ipu.data.from_generator(function()
  local n = 0
  return function() n = n + 1; if n < 4 then return ipu.ones{n} end end
end, {output_types = "float32", output_shapes = {-1}})
local function f(x)
  calls = calls + 1
  local noise = ipu.random.uniform{}
  if calls == 1 and arg[2] == "pressed" then
    io.popen("kill -INT $PPID"):close()
    for _ = 1, 30000 do end
  end
  local y = ipu.reduce_sum(x) + noise
  return name == "map" and y or ipu.greater(y, 1.5)
end
ipu.random.set_seed(1)
if arg[2] == "pressed" then
  local ok, problem = pcall(ds[name], ds, f)
  print(ok, problem:match("[^:]*$"), calls)
end
for x in ds[name](ds, f):iter() do print(x) end
]])
      local plain = command.run{command.ipulua, folder .. "/traced.lua", name}
      local pressed = command.run{command.ipulua, folder .. "/traced.lua", name, "pressed"}
      assert.equal(0, plain.status, plain.err)
      assert.truthy(#plain.out > 3)
      assert.equal("false\t interrupted!\t1\n" .. plain.out, pressed.out, pressed.err)
    end)
  end

  for _, name in ipairs{"map", "draws", "filter", "take_while", "flat_map", "interleave",
    "from_generator", "shapes"} do
    for _, way in ipairs{"plain", "prefetch", "batch"} do
      it("loses no element: " .. name .. ", " .. way, function()
        for _, threads in ipairs{"1", "3"} do
          local r = command.run{command.ipulua, "--threads", threads, folder .. "/chains.lua", name,
            way, "41"}
          assert.equal("true\t1\ttrue\n", r.out, r.err)
          assert.equal(0, r.status)
        end
      end)
    end
  end
end)
