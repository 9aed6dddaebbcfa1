-- Coroutines at random: they open scopes, trace functions and loops, record tapes, resume and close
-- each other, fail, and are forgotten. In a scope of its own each sees that one, and nothing of it
-- shows where the script is. run(seed, turns) gives how often one yielded.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local ipu = require "ipulua"
local scope = require "ipulua.base.scope"

local utils <const> = ipu.keras.utils

-- Draws of its own: Lua's are told of where functions are traced.
local state = 1
local function random(first, last)
  state = state * 6364136223846793005 + 1442695040888963407
  local share = (state >> 33) / (1 << 31)
  if not first then return share end
  if not last then first, last = 1, first end
  return first + math.floor(share * (last - first + 1))
end

local most_alive <const>, deepest <const> = 40, 4

local function shard()
  local value = core.set_placement("shard", 0)
  core.set_placement("shard", value)
  return value
end

-- Errors that a coroutine may get when its enclosing trace has ended.
local function is_expected(problem)
  for _, words in ipairs{
    "planned", "is used after", "is not known while a function is traced", "outside the function",
    "no function is being traced", "no trace is open",
  } do
    if tostring(problem):find(words, 1, true) then return true end
  end
  return false
end

local function run(seed, turns)
  state = seed
  local x, alive, yields, body = ipu.ones{4}, {}, 0, nil

  local function maybe_yield()
    if random(2) == 1 then
      yields = yields + 1
      coroutine.yield()
    end
  end

  local function resume(co)
    if coroutine.status(co) ~= "suspended" then return end
    local ok, problem = coroutine.resume(co)
    if not ok and not is_expected(problem) then error(problem, 0) end
  end

  local ways <const> = {
    function(depth)
      local mine = random(0, 3)
      ipu.ipu_shard(mine)(function()
        maybe_yield()
        body(depth - 1, mine)
        maybe_yield()
        assert(shard() == mine, "another shard")
      end)
    end,
    function(depth, own)
      ipu.func(function(z)
        maybe_yield()
        body(depth - 1, own)
        local y = z + 1
        maybe_yield()
        return y
      end)(x)
    end,
    function()
      local tape, v = ipu.GradientTape(), ipu.Variable(2.0)
      maybe_yield()
      local y = v * v
      maybe_yield()
      if core.trace_depth() == 0 then
        assert(tape:gradient(y, v):item() == 4, "another gradient")
      end
    end,
    function()
      ipu.func(function(z)
        return ipu.loops.repeat_n(2, function(w)
          maybe_yield()
          return w + 1
        end, {z})
      end)(x)
    end,
    function()
      local v = ipu.Variable(function()
        maybe_yield()
        return ipu.ones{2}
      end)
      assert(v.shape[1] == 2)
    end,
    function(depth)
      ipu.name_scope("a")(function()
        ipu.placeholder("float32", {}, {name = "p"})
        body(depth - 1)
      end)
    end,
    function(depth, own)
      local name, mine = "N" .. random(3), function() end
      utils.custom_object_scope{[name] = mine}(function()
        maybe_yield()
        body(depth - 1, own)
        maybe_yield()
        assert(utils.get_registered_object(name) == mine, "another object of that name")
      end)
    end,
    function(depth, own)
      local mine <const> = "(" .. random(1000) .. ")"
      local _ <close> = blame.explaining(function() return mine end)
      maybe_yield()
      body(depth - 1, own)
      local _, message = pcall(ipu.ones, "x")
      assert(message:sub(-#mine) == mine, "another explanation")
    end,
    function() error("planned") end,
    function() if #alive
      < most_alive then alive[#alive + 1] = coroutine.create(function() body(deepest) end) end end,
    function() if #alive > 0 then resume(alive[random(#alive)]) end end,
    function()
      if #alive > 0 then table.remove(alive, random(#alive)) end
      if random(10) == 1 then collectgarbage() end
    end,
    maybe_yield,
  }

  function body(depth, own)
    for _ = 1, depth > 0 and 4 or 0 do
      assert(not own or shard() == own, "another shard")
      ways[random(#ways)](depth, own)
    end
  end

  for _ = 1, turns do
    local co = #alive > 0 and random(3) > 1 and alive[random(#alive)]
      or coroutine.create(function() body(deepest) end)
    if random(3) == 1 then alive[#alive + 1] = co end
    resume(co)
    if random(8) == 1 and coroutine.status(co) == "suspended" then coroutine.close(co) end
    assert(next(utils.get_custom_objects()) == nil, "a name is left")
    assert(not tostring(select(2, pcall(ipu.ones, "x"))):find("%(%d+%)$"), "an explanation is left")
    assert(shard() == -1 and core.trace_depth() == 0 and scope.depth() == 0,
      "the script is disturbed")
  end
  return yields
end

return {run = run}
