-- Code that generators of random programs share: numbers that are the same on every machine, and a
-- run over seeds from the command line.

local seeds = {}

---A generator of numbers in [0, 1) of its own.
---@param seed integer
---@return fun(): number
function seeds.generator(seed)
  local state = seed * 2654435761 % 4294967296 + 1
  local function random()
    state = (state * 1664525 + 1013904223) % 4294967296
    return (state >> 8) / 16777216
  end
  for _ = 1, 4 do random() end -- the first ones of near seeds are near
  return random
end

function seeds.below(random, n) return math.floor(random() * n) end

function seeds.pick(random, list) return list[1 + seeds.below(random, #list)] end

---`ipulua FILE [first seed] [how many]` runs check(seed, true), which gives what is wrong, if
---anything is, and how many programs it ran; nothing where another script asked for the module.
---@param name string of the file
---@param check fun(seed: integer, shrinks: boolean): string?, integer?
function seeds.main(name, check)
  if not (arg and arg[0] and arg[0]:find(name .. ".lua", 1, true)) then return end
  local first, count = math.tointeger(tonumber(arg[1])), math.tointeger(tonumber(arg[2]))
  local bad, ran = 0, 0
  first, count = first or 1, count or 100
  for seed = first, first + count - 1 do
    local message, programs = check(seed, true)
    ran = ran + (programs or 1)
    if message then
      bad = bad + 1
      print(message)
    end
  end
  print(string.format("%d seeds, %d programs, %d wrong", count, ran, bad))
end

return seeds
