-- Where should this model be cut into pipeline stages? The script prices programs with different
-- borders, schedules, recomputation and sizes of micro-batches. None of them runs. It takes the
-- fastest that fits. First one estimate with every block as a stage gives each block's cycles.
-- Borders that balance those are priced with each schedule, then moved in the best programs.
--
-- --model is resnet50, gpt or a Lua file, --policy float16 or float32, --optimizer sgd (with
-- momentum) or adam. --plot names an SVG file for the picture. A model's file returns {title =,
-- samples =, sizes =, build =}. They are the samples of a weight update, the sizes of micro-batches
-- to try, and a function that makes the model of blocks. The table `models` below has two of these.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local model_name, ipus, plot, policy, optimizer = require "ipulua.script".arguments{
  {"model", "resnet50", short = "gpt"}, {"ipus", 4, least = 2}, {"plot", ""},
  {"policy", "float16"}, {"optimizer", "sgd"}}
if plot == "" then plot = nil end

local function refuse(words, ...)
  io.stderr:write("where_to_cut: ", words:format(...), "\n")
  os.exit(1, true)
end

if ipus & (ipus - 1) ~= 0 then
  refuse("the number of IPUs must be a power of two from 2 on, got %d", ipus)
end
if policy ~= "float16" and policy ~= "float32" then
  refuse("--policy is float16 or float32, got '%s'", policy)
end
local optimizers <const> = {
  sgd = function() return keras.optimizers.SGD{learning_rate = 0.1, momentum = 0.9} end,
  adam = function() return keras.optimizers.Adam{epsilon = 1e-3} end,
}
if not optimizers[optimizer] then refuse("--optimizer is sgd or adam, got '%s'", optimizer) end
local target <const> = "bow"

-- ------------------------------------------------ models

local function convolution(x, filters, size, strides)
  x = layers.Conv2D{filters, size, strides = strides or 1, padding = "same", use_bias = false}(x)
  return layers.BatchNormalization()(x)
end
local function relu(x) return layers.Activation("relu")(x) end

local function bottleneck(x, filters, strides, project)
  local y = relu(convolution(x, filters, 1))
  y = convolution(relu(convolution(y, filters, 3, strides)), 4 * filters, 1)
  if project then x = convolution(x, 4 * filters, 1, strides) end
  return relu(layers.Add(){x, y})
end

local function encoder(x, width, heads)
  local seen = layers.LayerNormalization()(x)
  x = layers.Add(){x, layers.MultiHeadAttention{num_heads = heads, key_dim = width // heads}(seen,
    seen, {use_causal_mask = true})}
  local y = layers.Dense{4 * width, activation = "gelu"}(layers.LayerNormalization()(x))
  return layers.Add(){x, layers.Dense{width}(y)}
end

-- build(block) makes the model; block(name, f, ...) calls f for a part that no border divides.
-- samples: in a weight update. sizes: micro-batches to try. loss: given if it is not a
-- classification.
local models = {
  resnet50 = {title = "ResNet-50", samples = 256, sizes = {2, 4, 8, 16}, build = function(block)
    local images = keras.Input{shape = {224, 224, 3}, dtype = "uint8"}
    local x = block("stem", function()
      local y = relu(convolution(layers.Rescaling{1 / 255}(images), 64, 7, 2))
      return layers.MaxPooling2D{3, strides = 2, padding = "same"}(y)
    end)
    for group, count in ipairs{3, 4, 6, 3} do
      for i = 1, count do
        x = block(group + 1 .. ("abcdef"):sub(i, i), bottleneck, x, 32 << group,
          i == 1 and group > 1 and 2 or 1, i == 1)
      end
    end
    x = block("head", function() return layers.Dense{1000}(layers.GlobalAveragePooling2D()(x)) end)
    return keras.Model{inputs = images, outputs = x, name = "resnet50"}
  end},
  gpt = {title = "A GPT of 12 blocks", samples = 128, sizes = {1, 2, 4, 8}, build = function(block)
    local words = keras.Input{shape = {512}, dtype = "int32"}
    local x = block("words", function() return layers.Embedding{16384, 768}(words) end)
    for i = 1, 12 do x = block("b" .. i, encoder, x, 768, 12) end
    x = block("head", function() return layers.Dense{16384}(layers.LayerNormalization()(x)) end)
    return keras.Model{inputs = words, outputs = x, name = "gpt"}
  end},
}
local function load_model(path)
  local file = io.open(path) or refuse("'%s' is neither resnet50, gpt nor a file", path)
  file:close()
  local made = dofile(path)
  if type(made) ~= "table" or getmetatable(made) or type(made.build) ~= "function"
    or not made.samples or not made.sizes then
    refuse("'%s' must return {title =, samples =, sizes = {…}, build = function(block) … return "
      .. "model end}", path)
  end
  made.title = made.title or path
  return made
end
local chosen = models[model_name] or load_model(model_name)

-- ------------------------------------------------ pricing

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = ipus
cfg.matmuls.poplar_options = {partialsType = "half"}
cfg.convolutions.poplar_options = {partialsType = "half"}
local function configure(recompute)
  if cfg.allow_recompute == recompute then return end
  cfg.allow_recompute = recompute
  ipu.reset_ipu_configuration()
  cfg:configure_ipu_system()
end
cfg:configure_ipu_system()
keras.mixed_precision.set_global_policy(policy)
local _ <close> = ipu.IPUStrategy():scope()

local blocks, model = {}, nil -- names; the model of them

local function build()
  model = chosen.build(function(name, f, ...)
    blocks[#blocks + 1] = name
    local _ <close> = keras.PipelineStage(#blocks - 1)
    return f(...)
  end)
  if #blocks < ipus then refuse("%d blocks can't be cut into stages for %d IPUs", #blocks, ipus) end
  model:compile{optimizer = optimizers[optimizer](),
    loss = chosen.loss or keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
  local mapping = {}
  for i = 1, #blocks do mapping[i] = 0 end
  model:set_pipelining_options{gradient_accumulation_steps_per_replica = 1,
    pipeline_schedule = "Sequential", device_mapping = mapping}
  return model
end
-- The model is made for an estimate, so its weights take no memory.
ipu.estimate(build, {batch_size = chosen.sizes[1], target = target, ipus = ipus})
local layer_calls, block_of = model:get_pipeline_stage_assignment(), {}
for i, entry in ipairs(layer_calls) do block_of[i] = entry.pipeline_stage + 1 end

-- A cut is the list of its stages' first blocks, without the first stage's.
local function assign(cut)
  for i, entry in ipairs(layer_calls) do
    entry.pipeline_stage = 0
    for stage, first in ipairs(cut) do
      if block_of[i] >= first then entry.pipeline_stage = stage end
    end
  end
  model:set_pipeline_stage_assignment(layer_calls)
end

local function estimate(schedule, size, count, mapping)
  model:set_pipelining_options{gradient_accumulation_steps_per_replica = count,
    pipeline_schedule = schedule,
    device_mapping = mapping, offload_weight_update_variables = false}
  return ipu.estimate(model, {batch_size = size, target = target, ipus = ipus})
end

-- Cycles of each block's forward and backward pass: every block is a stage, all of them on one IPU.
local function block_cycles()
  local mapping, work = {}, {}
  for i = 1, #blocks do mapping[i] = 0 end
  for i, stage in ipairs(estimate("Sequential", chosen.sizes[#chosen.sizes], 1, mapping).stages) do
    work[i] = stage.forward_cycles + stage.backward_cycles
  end
  return work
end

-- The cut into n stages whose longest one is shortest: by the number of stages and the blocks that
-- they cover.
local function balanced(work, n)
  local longest, from = {[0] = {[0] = 0}}, {}
  for k = 1, n do
    longest[k], from[k] = {}, {}
    for last = k, #work do
      local stage = 0
      for first = last, k, -1 do
        stage = stage + work[first]
        local length = math.max(stage, longest[k - 1][first - 1] or math.huge)
        if length < (longest[k][last] or math.huge) then
          longest[k][last], from[k][last] = length, first
        end
      end
    end
  end
  local cut, last = {}, #work
  for k = n, 2, -1 do
    cut[k - 1] = from[k][last]
    last = cut[k - 1] - 1
  end
  return cut
end

-- The time of a sample as a product of three factors. The first is the work of an average IPU, the
-- second how much more the slowest IPU has. The third is how much longer than its work that IPU
-- takes. The last factor comes from filling, draining, links and weight updates.
local function factors(e, samples)
  local by_ipu, work, slowest = {}, 0, 0
  for _, stage in ipairs(e.stages) do
    local cycles = stage.forward_cycles + stage.backward_cycles
    by_ipu[stage.ipu], work = (by_ipu[stage.ipu] or 0) + cycles, work + cycles
  end
  for _, cycles in pairs(by_ipu) do slowest = math.max(slowest, cycles) end
  return {work = work / ipus, balance = slowest * ipus / work,
    waiting = e.cycles.total / (samples * slowest)}
end

local priced, tried = {}, 0
local function price(way, cut)
  local key = table.concat({way.schedule, tostring(way.recompute), way.size,
    table.concat(cut, " ")}, " ")
  if priced[key] then return priced[key] end
  configure(way.recompute)
  assign(cut)
  local mapping = {}
  for i = 0, #cut do mapping[i + 1] = i % ipus end
  tried = tried + 1
  local ok, e = pcall(estimate, way.schedule, way.size, way.count, mapping)
  local found = {way = way, cut = cut, refused = not ok and e:match(":%d+: (.*)") or nil}
  if ok then
    found.e, found.speed, found.fits, found.bytes = e, e.samples_per_second, e.fits,
      e.fullest_tile_bytes
    found.factors = factors(e, way.count)
  end
  priced[key] = found
  return found
end

-- ------------------------------------------------ searching

local function better(a, b)
  if a.refused or b.refused then return not a.refused end
  if a.fits ~= b.fits then return a.fits end
  if a.fits then return a.speed > b.speed end
  return a.bytes < b.bytes
end

-- The stage that limits a program: the slowest one if the program fits, else the fullest.
local function limiting(found)
  local worst, most = 1, 0
  for i, stage in ipairs(found.e.stages) do
    local size = found.fits and stage.forward_cycles + stage.backward_cycles
      or stage.fullest_tile_bytes
    if size > most then worst, most = i, size end
  end
  return worst
end

-- Moves blocks from the limiting stage to the stage before or after it, as long as that helps.
local function climb(found)
  local best = found
  repeat
    local from, stage = best, limiting(best)
    for border = stage - 1, stage do
      local cut, step = table.move(from.cut, 1, #from.cut, 1, {}), border < stage and 1 or -1
      if cut[border] then
        cut[border] = cut[border] + step
        if cut[border] > (cut[border - 1] or 1)
          and cut[border] < (cut[border + 1] or #blocks + 1) then
          local other = price(from.way, cut)
          if better(other, best) then best = other end
        end
      end
    end
  until best == from
  return best
end

local function search()
  local cycles, found = block_cycles(), {}
  local cut, finer = balanced(cycles, ipus), balanced(cycles, math.min(2 * ipus, #blocks))
  for _, recompute in ipairs{true, false} do
    for _, schedule in ipairs{"Grouped", "OneFOneB", "Interleaved", "Sequential",
      "InterleavedVirtual"} do
      for _, size in ipairs(chosen.sizes) do
        local way = {schedule = schedule, recompute = recompute, size = size,
          count = chosen.samples // size}
        found[#found + 1] = price(way, schedule == "InterleavedVirtual" and finer or cut)
      end
    end
  end
  -- The fastest programs, also those that do not fit: other borders may make them fit.
  table.sort(found, function(a, b) return (a.speed or 0) > (b.speed or 0) end)
  for i = 1, math.min(8, #found) do
    if not found[i].refused then found[i] = climb(found[i]) end
  end
  table.sort(found, better)
  return found, cycles
end

-- ------------------------------------------------ printing

local utf8_shown = (os.getenv("LC_ALL") or os.getenv("LC_CTYPE") or os.getenv("LANG")
  or ""):lower():find("utf%-?8")
local function bar(share, width)
  return (utf8_shown and "━" or "="):rep(math.max(1, math.floor(share * width + 0.5)))
end

local function describe(way)
  return string.format("%s%s, %d micro-batches of %d", way.schedule,
    way.recompute and " with recomputation" or "", way.count, way.size)
end

local function names(cut)
  local list = {}
  for i, first in ipairs(cut) do list[i] = blocks[first] end
  return table.concat(list, " ")
end

-- Why this program loses: the memory that it lacks, or the factor of its time that exceeds the best
-- program's most.
local function reason(found, best)
  if found.refused then return "refused: " .. found.refused end
  if not found.fits then
    local stage = found.e.stages[limiting(found)]
    return string.format("does not fit: stage %d needs %.0f KiB of a tile, which has %.0f",
      stage.stage, found.bytes / 1024,
      found.e.tile_bytes / 1024)
  end
  if found == best then return "the one to take" end
  local f, b, way = found.factors, best.factors, found.way
  local work = f.work / way.size / (b.work / best.way.size)
  local balance, waiting = f.balance / b.balance, f.waiting / b.waiting
  if work >= balance and work >= waiting then
    local why = way.recompute and not best.way.recompute and "computing forward passes twice"
      or "micro-batches of " .. way.size .. " use the tiles less well"
    return string.format("%.0f %% more work: %s", 100 * work - 100, why)
  elseif balance
    >= waiting then return string.format("its slowest IPU has %.0f %% more than the mean",
      100 * f.balance - 100)
  elseif way.schedule == "Sequential" then return "one IPU works at a time"
  end
  return string.format("IPUs wait %.0f %% of the time: filling, draining, links",
    100 - 100 / f.waiting)
end

local function print_table(found, best, shown)
  local fastest, width = 0, 3
  for i = 1, shown do
    fastest = math.max(fastest, found[i].speed or 0)
    width = math.max(width, #names(found[i].cut))
  end
  local form = "%2s %-" .. width .. "s %-18s %-9s %8s %9s %5s %9s  %s"
  print(form:format("", "cut", "schedule", "recompute", "batches", "samples/s", "used",
    "tile KiB", ""))
  for i = 1, shown do
    local f, way = found[i], found[i].way
    local batches = way.count .. "x" .. way.size
    local speed, used, bytes = "", "", ""
    if f.e then
      speed, used, bytes = ("%.0f"):format(f.speed), ("%.0f %%"):format(100 * f.e.utilisation),
        ("%.0f"):format(f.bytes / 1024)
    end
    print(form:format(f.fits and i or "-", names(f.cut), way.schedule,
      way.recompute and "yes" or "no", batches, speed, used, bytes,
      (f.e and bar(f.speed / fastest, 20) .. " " or "") .. reason(f, best)))
  end
end

local function print_stages(best)
  local longest = 0
  for _, stage in ipairs(best.e.stages) do
    longest = math.max(longest, stage.forward_cycles + stage.backward_cycles)
  end
  for i, stage in ipairs(best.e.stages) do
    local first, last = best.cut[i - 1] or 1, (best.cut[i] or #blocks + 1) - 1
    local cycles = stage.forward_cycles + stage.backward_cycles
    local to = first < last and "to " .. blocks[last] or ""
    local line = bar(cycles / longest, 20)
    line = line .. (" "):rep(20 - (utf8.len(line)))
    print(string.format("stage %d  IPU %d  %5s %-8s %s %5.2f M cycles  %4.0f of %.0f KiB",
      stage.stage, stage.ipu, blocks[first], to,
      line, cycles / 1e6, stage.fullest_tile_bytes / 1024, best.e.tile_bytes / 1024))
  end
end

local started = os.clock()
local found, cycles = search()
local best = found[1]
if best.refused then refuse("no program was priced: %s", best.refused) end
print(string.format("%s on %d IPUs (%s), %d samples for a weight update: %d programs priced in "
  .. "%.1f s, none of them ran\n", chosen.title,
  ipus, best.e.target, chosen.samples, tried, os.clock() - started))
local shown, misfits = {}, 0
for i, f in ipairs(found) do -- the best ten, and the fastest of those that do not fit
  if i <= 10 then shown[#shown + 1] = f end
end
local rest = table.move(found, #shown + 1, #found, 1, {})
table.sort(rest, function(a, b) return (a.speed or 0) > (b.speed or 0) end)
for _, f in ipairs(rest) do
  if not f.fits and misfits < 6 then shown[#shown + 1], misfits = f, misfits + 1 end
end
print_table(shown, best, #shown)
if not best.fits then
  print("\nNothing fits: more IPUs are needed, or smaller micro-batches.")
  os.exit(1, true)
end
print(string.format("\nCut before %s: %s, %.0f samples a second\n", names(best.cut),
  describe(best.way), best.speed))
print_stages(best)

-- ------------------------------------------------ drawing

local colours <const> = {Grouped = "#2563eb", OneFOneB = "#16a34a", Interleaved = "#d97706",
  Sequential = "#6b7280", InterleavedVirtual = "#9333ea"}

-- A step for an axis, not above x: 1, 2 or 5 times a power of ten.
local function round(x)
  local power = 10 ^ math.floor(math.log(math.max(x, 1), 10))
  return math.tointeger((x >= 5 * power and 5 or x >= 2 * power and 2 or 1) * power)
end

local function draw(path)
  local out = {}
  local function put(...) out[#out + 1] = string.format(...) end
  local left, top, width, height = 62, 50, 470, 300
  local limit, fastest, most = best.e.tile_bytes, 0, 0
  for _, f in pairs(priced) do
    if f.e then fastest, most = math.max(fastest, f.speed), math.max(most, f.bytes) end
  end
  most = math.max(1.1 * limit, math.min(most, 2.5 * limit)) * 1.05
  local function x_of(bytes) return left + math.min(bytes / most, 1) * width end
  local function y_of(speed) return top + height - speed / (1.1 * fastest) * height end
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 436" width="860" height="436" '
    .. 'font-family="sans-serif" font-size="12">')
  put('<rect width="860" height="436" rx="8" fill="#fff"/><text x="%d" y="26" font-size="15" '
    .. 'font-weight="bold">Where to cut %s on %d '
    .. 'IPUs: %d programs priced, none run</text>', left, chosen.title, ipus, tried)
  put('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#fee2e2"/><text x="%.1f" y="%d" '
    .. 'fill="#b91c1c">does not fit</text>',
    x_of(limit), top, left + width - x_of(limit), height, x_of(limit) + 6, top - 5)
  put('<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>', left, top, top + height, left + width)
  for speed = 0, fastest, round(fastest / 4) do
    put('<text x="%d" y="%.1f" text-anchor="end">%d</text>', left - 6, y_of(speed) + 4, speed)
  end
  for kib = 0, most // 1024, round(most / 4096) do
    put('<text x="%.1f" y="%d" text-anchor="middle">%d</text>', x_of(kib * 1024),
      top + height + 16, kib)
  end
  put('<text x="%d" y="%d" text-anchor="end">KiB of the fullest tile</text><text x="%d" '
    .. 'y="%d">samples a second</text>',
    left + width, top + height + 34, left + 6, top - 5)
  local keys, drawn = {}, {}
  for key in pairs(priced) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    local f = priced[key]
    if f.e then
      local colour, x, y = colours[f.way.schedule], x_of(f.bytes), y_of(f.speed)
      -- Interleaved often has the price of OneFOneB: its larger circle shows around the other.
      local radius = f.way.schedule == "Interleaved" and 8 or 5
      local shape = f.bytes <= most
        and string.format('circle cx="%.1f" cy="%.1f" r="%d"', x, y, radius)
        or string.format('path d="M%.1f %.1fl10 5l-10 5z"', x + 2, y - 5)
      put('<%s stroke="%s" stroke-width="2" fill="%s"><title>%s, cut before %s</title></%s>',
        shape, colour, f.way.recompute and "#fff" or colour, describe(f.way), names(f.cut),
        shape:match("^%l+"))
      drawn[f.way.schedule] = true
      drawn.further = drawn.further or f.bytes > most
    end
  end
  put('<circle cx="%.1f" cy="%.1f" r="10" fill="none" stroke="#dc2626" stroke-width="2"/>',
    x_of(best.bytes), y_of(best.speed))
  local x, y = left, top + height + 54
  for _, schedule in ipairs{"Grouped", "OneFOneB", "Interleaved", "Sequential",
    "InterleavedVirtual"} do
    if drawn[schedule] then
      put('<circle cx="%d" cy="%d" r="5" fill="%s"/><text x="%d" y="%d">%s</text>', x + 5, y - 4,
        colours[schedule], x + 15, y, schedule)
      x = x + 40 + 7 * #schedule
    end
  end
  put('<circle cx="%d" cy="%d" r="5" fill="#fff" stroke="#333" stroke-width="2"/><text x="%d" '
    .. 'y="%d">hollow: with recomputation%s</text>', left + 5, y + 16, left + 15, y + 20,
    drawn.further and "; triangles: fuller than the scale shows" or "")
  -- The best cut: blocks, as wide as they take time.
  local column, longest = 590, 0
  for _, stage in ipairs(best.e.stages) do
    longest = math.max(longest, stage.forward_cycles + stage.backward_cycles)
  end
  put('<text x="%d" y="%d" font-weight="bold">%s</text><text x="%d" y="%d">%s</text>', column, top,
    best.way.schedule, column, top + 17,
    describe(best.way):match(", (.*)") .. (best.way.recompute and ", recomputed" or ""))
  local step = math.min(62, 280 / (#best.cut + 1))
  for stage = 0, #best.cut do
    local at, line, sum = column, top + 34 + stage * step, 0
    local first, last = best.cut[stage] or 1, (best.cut[stage + 1] or #blocks + 1) - 1
    for block = first, last do sum = sum + cycles[block] end
    local length = best.e.stages[stage + 1].forward_cycles
      + best.e.stages[stage + 1].backward_cycles
    put('<text x="%d" y="%.1f" fill="#555">stage %d</text>', column, line + 10, stage)
    for block = first, last do
      local wide = cycles[block] / sum * length / longest * 230
      put('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="#fff"/>', at,
        line + 15, wide, step * 0.45,
        colours[best.way.schedule])
      put('<text x="%.1f" y="%.1f" text-anchor="middle" fill="#fff" font-size="10">%s</text>',
        at + wide / 2, line + 18 + step * 0.25,
        wide > 7 * #blocks[block] and blocks[block] or "")
      at = at + wide
    end
  end
  put("</svg>")
  local file <close> = io.open(path, "w") or refuse("'%s' can't be written", path)
  assert(file:write(table.concat(out, "\n"), "\n"))
  print("\n" .. path .. " has the picture")
end

if plot then draw(plot) end
