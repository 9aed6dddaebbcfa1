-- `make walk`: from model:fit to a kernel, and from a pipeline to its price, as lists of files.
-- Functions of these files are open when the first kernel, or the first price of an op, is entered.
-- The outermost file is first. Prints both. With --write they replace the lists in
-- docs/architecture.md, with --check they must be equal.
--
--   LD_PRELOAD=build-walk/walk.so build-walk/ipulua --threads 1 spec/support/walk.lua [option]

local build <const> = os.getenv("WALK_BUILD") or "build-walk"
local command <const> = build .. "/ipulua"
local page <const> = "docs/architecture.md"

local function tracer()
  return assert(package.loadlib(build .. "/walk.so", "luaopen_walk"))()
end

-- Lines {lua = files, c = offsets}.
local function read(path)
  local list = {}
  for line in io.lines(path) do
    local each, frames, offsets = {lua = {}, c = {}}, line:match("^(.-)|(.*)$")
    for file in frames:gmatch("%S+") do table.insert(each.lua, file) end
    for offset in offsets:gmatch("%S+") do table.insert(each.c, offset) end
    list[#list + 1] = each
  end
  return list
end

-- Offset → the file of its function, below src.
local function files_of(lines)
  local path, file_of, offsets = os.tmpname(), {}, {}
  for _, line in ipairs(lines) do
    for _, offset in ipairs(line.c) do
      if not file_of[offset] then file_of[offset], offsets[#offsets + 1] = "", offset end
    end
  end
  local file = assert(io.open(path, "w"))
  assert(file:write(table.concat(offsets, "\n"), "\n"))
  file:close()
  local pipe <close> = assert(io.popen(("addr2line -e %s <%s"):format(command, path)))
  for _, offset in ipairs(offsets) do
    file_of[offset] = pipe:read("l"):match("(src/[%w_/]+%.%a)") or ""
  end
  os.remove(path)
  return file_of
end

-- The files of a line's frames, each once where it follows itself.
local function path_of(line, file_of)
  local list = {}
  local function add(file)
    if file ~= "" and list[#list] ~= file then list[#list + 1] = file end
  end
  for _, file in ipairs(line.lua) do
    add(file:match("^%[ipulua%]/(.*)$") and "lua/ipulua/" .. file:match("^%[ipulua%]/(.*)$")
      or file:match("lua/ipulua/.*$") or "")
  end
  local inside = false -- of the command's own functions, those below Lua
  for _, offset in ipairs(line.c) do
    local file = file_of[offset]
    inside = inside or file:find("^src/lua/") ~= nil
    if inside then add(file) end
  end
  return list
end

local function has(list, pattern)
  for _, file in ipairs(list) do
    if file:find(pattern) then return true end
  end
  return false
end

-- The path to the first function whose file fits `last`, by way of one that fits `through`.
local function trace(last, through, run)
  local walk, path = tracer(), os.tmpname()
  walk.start(path)
  run()
  walk.stop()
  local lines = read(path)
  os.remove(path)
  local file_of = files_of(lines)
  for _, line in ipairs(lines) do
    if file_of[line.c[#line.c]]:find(last) then
      local list = path_of(line, file_of)
      if has(list, through) then return list end
    end
  end
  error("no function of " .. last .. " was entered through " .. through)
end

local function model_of(ipu, stages)
  local keras, layers = ipu.keras, ipu.keras.layers
  local model = keras.Sequential{layers.Dense{8, activation = "relu", input_shape = {4}},
    layers.Dense{2}}
  if stages then
    model:set_pipeline_stage_assignment{0, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
  end
  model:compile{optimizer = "sgd", loss = "mse", steps_per_execution = stages and 4 or 1}
  return model
end

local walks <const> = {
  {"From `model:fit` to the first kernel of its first step:", function()
    local ipu = require "ipulua"
    local model = model_of(ipu)
    local x, y = ipu.ones{4, 4}, ipu.ones{4, 2}
    model:build{4, 4}
    model:get_weights() -- so that they have values: the first kernel is the step's
    return trace("^src/kernels/", "^src/engine/", function()
      model:fit{x = x, y = y, batch_size = 4, epochs = 1, verbose = 0}
    end)
  end},
  {"From `ipu.estimate` of a pipeline to the price of its first op:", function()
    local ipu = require "ipulua"
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = 2
    cfg:configure_ipu_system()
    local model = model_of(ipu, true)
    return trace("^src/target/cost", "^src/machine/", function()
      ipu.estimate(model, {batch_size = 4})
    end)
  end},
}

local text = {}
for _, walk in ipairs(walks) do
  local list = walk[2]()
  text[#text + 1] = walk[1] .. "\n\n```\n" .. table.concat(list, "\n") .. "\n```\n"
end
text = table.concat(text, "\n")

local file = assert(io.open(page))
local old = file:read("a")
file:close()
local from = select(2, assert(old:find("<!-- walks -->\n\n", 1, true)))
local to = assert(old:find("\n<!-- end of walks -->", 1, true))
local wanted = arg and arg[1]
if wanted == "--write" then
  local new <close> = assert(io.open(page, "w"))
  assert(new:write(old:sub(1, from), text, old:sub(to)))
elseif wanted == "--check" then
  if old:sub(from + 1, to - 1) ~= text then
    io.stderr:write(page, " has other walks; `make walk` writes these:\n\n", text)
    os.exit(1)
  end
  print "the walks of docs/architecture.md are those that were traced"
else io.write(text) end
