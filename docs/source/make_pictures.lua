-- `make pictures`: the pictures of README and docs, each from what the library really computes.
-- All stand still; look at them afterwards (rsvg-convert draws an SVG as a PNG).

local ipu = require "ipulua"

local folder <const> = "docs/images/"
local ipulua <const> = os.getenv("IPULUA") or "build/ipulua"

local function write_file(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

local function run(command) assert(os.execute(command), command) end

-- The scripts of a page, one after the other, as a script of its own in a folder of its own.
local function run_page(page, also)
  local code, inside = {}, false
  for line in io.lines(page) do
    if line:find("^```") then inside = line:find("^```lua%s*$") ~= nil
    elseif inside then code[#code + 1] = line end
  end
  local scratch = os.tmpname()
  os.remove(scratch)
  run("mkdir " .. scratch)
  write_file(scratch .. "/page.lua", table.concat(code, "\n") .. "\n" .. (also or ""))
  local command = ipulua:find("^/") and ipulua or "$OLDPWD/" .. ipulua
  run(("cd %s && %s --seed 20 page.lua >out 2>/dev/null"):format(scratch, command))
  return scratch
end

-- ------------------------------------------------ plots

local width <const>, height <const>, left <const>, top <const> = 640, 260, 62, 44

local function plot(title)
  local out = {}
  local function put(form, ...) out[#out + 1] = form:format(...) end
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
    .. 'font-family="sans-serif" font-size="12">', width, height, width, height)
  put('<rect width="%d" height="%d" rx="6" fill="#fff"/>', width, height)
  put('<text x="8" y="22" font-size="15" font-weight="bold">%s</text>', title)
  put('<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>', left, top, height - 34, width - 20)
  return put, function()
    put("</svg>")
    return table.concat(out, "\n") .. "\n"
  end
end

-- A distance between the lines of a scale up to `most`: 1, 2 or 5 times a power of ten, and three
-- to seven lines.
local function scale_step(most)
  local power = 10 ^ math.floor(math.log(most / 3, 10))
  for _, factor in ipairs{5, 2} do
    if factor * power <= most / 3 then return factor * power end
  end
  return power
end

-- Losses by epoch, on a scale from 0.
local function loss_curve(losses)
  local put, text = plot("Loss of the first model, by epoch")
  local most, bottom = math.max(table.unpack(losses)), height - 34
  local step = scale_step(most)
  local function x_of(epoch) return left + (epoch - 1) / (#losses - 1) * (width - left - 24) end
  local function y_of(loss) return bottom - loss / most * (bottom - top) end
  for i = 0, most // step do
    local y = y_of(i * step)
    if i > 0 then put('<path d="M%d %.1fH%d" stroke="#e5e7eb"/>', left + 1, y, width - 20) end
    put('<text x="%d" y="%.1f" text-anchor="end">%.3g</text>', left - 6, y + 4, i * step)
  end
  for epoch = 1, #losses do
    if epoch == 1 or epoch % 5 == 0 then
      put('<text x="%.1f" y="%d" text-anchor="middle">%d</text>', x_of(epoch), bottom + 16, epoch)
    end
  end
  local points = {}
  for i, loss in ipairs(losses) do points[i] = ("%.1f,%.1f"):format(x_of(i), y_of(loss)) end
  put('<polyline points="%s" fill="none" stroke="#2563eb" stroke-width="2"/>',
    table.concat(points, " "))
  return text()
end

-- rows: {label, bytes by IPU, colour}; limit: the memory of a tile, drawn as a line.
local function memory_bars(title, rows, limit)
  local put, text = plot(title)
  local most, bottom, ipus = 0, height - 34, #rows[1][2]
  for _, row in ipairs(rows) do most = math.max(most, limit, table.unpack(row[2])) end
  most = 1.05 * most
  local function y_of(bytes) return bottom - bytes / most * (bottom - top) end
  local slot = (width - left - 24) / ipus
  for i = 1, ipus do
    for k, row in ipairs(rows) do
      local wide = slot * 0.8 / #rows
      put('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>',
        left + (i - 1) * slot + slot * 0.1 + (k - 1) * wide, y_of(row[2][i]), wide - 1,
        bottom - y_of(row[2][i]), row[3])
    end
    put('<text x="%.1f" y="%d" text-anchor="middle">IPU %d</text>', left + (i - 0.5) * slot,
      bottom + 16, i - 1)
  end
  put('<path d="M%d %.1fH%d" stroke="#b91c1c" stroke-width="1.5" stroke-dasharray="6 4"/>', left,
    y_of(limit), width - 20)
  put('<text x="%d" y="%.1f" text-anchor="end" fill="#b91c1c">a tile has %.0f KiB</text>',
    width - 22, y_of(limit) - 5, limit / 1024)
  for kib = 0, most // 1024, 500 do
    put('<text x="%d" y="%.1f" text-anchor="end">%d</text>', left - 6, y_of(kib * 1024) + 4, kib)
  end
  put('<text x="%d" y="%d">KiB of the fullest tile</text>', left + 6, top - 4)
  for k, row in ipairs(rows) do
    put('<rect x="%d" y="%d" width="14" height="12" fill="%s"/><text x="%d" y="%d">%s</text>',
      width - 190 * (#rows - k + 1), top - 34, row[3], width - 190 * (#rows - k + 1) + 19, top - 24,
      row[1])
  end
  return text()
end

-- ------------------------------------------------ pages

local function draw_loss(path)
  local scratch = run_page("docs/tutorial/getting-started.md", [[
    for _, each in ipairs(losses) do io.stdout:write("loss ", each, "\n") end]])
  local losses = {}
  for line in io.lines(scratch .. "/out") do
    losses[#losses + 1] = tonumber(line:match("^loss ([%d.e-]+)$"))
  end
  run("rm -r " .. scratch)
  write_file(path, loss_curve(losses))
end

local function draw_memory(path)
  local scratch = run_page("docs/tutorial/does-it-fit.md", [[
    for _, recompute in ipairs{false, true} do
      for _, each in ipairs(price("Grouped", recompute).ipu) do
        print("ipu", recompute, each.fullest_tile_bytes)
      end
    end
    print("tile", price("Grouped", true).tile_bytes)]])
  local bytes, limit = {["false"] = {}, ["true"] = {}}, nil
  for line in io.lines(scratch .. "/out") do
    local which, n = line:match("^ipu\t(%l+)\t(%d+)")
    if which then table.insert(bytes[which], math.tointeger(n)) end
    limit = limit or tonumber(line:match("^tile\t(%d+)"))
  end
  run("rm -r " .. scratch)
  write_file(path, memory_bars("24 blocks, Grouped", {
    {"without recomputation", bytes["false"], "#9ca3af"}, {"with recomputation", bytes["true"],
      "#2563eb"},
  }, limit))
end

-- The schedules of docs/explain/pipelines.md, drawn by its own script, and what it has no call for.
local function draw_schedules()
  local scratch = run_page("docs/explain/pipelines.md")
  for _, name in ipairs{"sequential", "gpipe", "onefoneb", "interleaved", "grouped"} do
    run(("cp %s/%s.svg %sschedule_%s.svg"):format(scratch, name, folder, name))
  end
  run("rm -r " .. scratch)
  ipu.timetable{schedule = "InterleavedVirtual", device_mapping = {0, 1, 0, 1}, count = 8}
    :svg(folder .. "schedule_virtual.svg", {title = "InterleavedVirtual, {0, 1, 0, 1}"})
  ipu.timetable{schedule = "Grouped", device_mapping = {0, 1}, count = 8}
    :svg(folder .. "first_pipeline.svg")
end

-- ------------------------------------------------ the report

-- The page of a profile, as a browser shows it; wants chromium.
local function draw_report(path)
  if not os.execute("command -v chromium >/dev/null") then
    return print("without chromium " .. path .. " stays as it is")
  end
  local scratch = os.tmpname()
  os.remove(scratch)
  run(ipulua .. " --estimate --profile " .. scratch
    .. " docs/source/four_stages.lua >/dev/null 2>&1")
  run("cp $(ls -d " .. scratch .. "/*/ | head -1)index.html " .. scratch .. "/page.html")
  run("chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars "
    .. "--virtual-time-budget=5000 --window-size=1200,1636 "
    .. "--screenshot=" .. path .. " file://" .. scratch .. "/page.html >/dev/null 2>&1")
  run("rm -rf " .. scratch)
end

draw_loss(folder .. "loss.svg")
draw_memory(folder .. "memory.svg")
draw_schedules()
run("LC_ALL=C.UTF-8 " .. ipulua .. " examples/pipelines/where_to_cut.lua --plot " .. folder
  .. "where_to_cut.svg >/dev/null")
draw_report(folder .. "report.png")
