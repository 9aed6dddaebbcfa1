-- A timetable to scale, as SVG: a lane for each IPU, a box for each pass, hatched bubbles between
-- them. Time is counted as in the machine model. A time step lasts as long as its slowest IPU, and
-- ends for all IPUs together.

local counted = require "ipulua.base.counted"
local xml = require "ipulua.base.text.xml"

local drawing = {}

local width <const>, left <const>, right <const>, top <const> = 960, 64, 92, 58
local lane <const>, gap <const>, letter <const> = 26, 6, 6.2
-- Shades of the stages of an IPU, in turns, and the colour of the digits on each.
local colours <const> = {forward = {"#2563eb", "#93c5fd"}, backward = {"#c2410c", "#fdba74"}}
local digits <const> = {"#fff", "#111827"}

-- Three results: passes {ipu, kind, stage, micro_batch, from, to}, the end of each time step, and
-- the IPUs in order. length(entry) is the duration of a pass. By dependencies a pass begins once
-- its IPU is free and the previous pass of its micro-batch is done. A step ends with its last pass.
---@param order table[] as the field of a timetable
---@param length fun(entry: table): number
---@param timing? string steps by default
function drawing.times(order, length, timing)
  local passes, ends, ipus, free, last = {}, {}, {}, {}, 0
  local steps, done = timing ~= "dependencies", {}
  for step, row in ipairs(order) do
    local begin, made = last, {}
    for _, e in ipairs(row) do
      if not free[e.ipu] then free[e.ipu], ipus[#ipus + 1] = 0, e.ipu end
      local from = math.max(free[e.ipu], steps and begin or done[e.micro_batch] or 0)
      local to = from + length(e)
      passes[#passes + 1] = {ipu = e.ipu, kind = e.kind, stage = e.stage,
        micro_batch = e.micro_batch, from = from, to = to}
      free[e.ipu], last = to, math.max(last, to)
      made[e.micro_batch] = math.max(made[e.micro_batch] or 0, to)
    end
    for micro, at in pairs(made) do done[micro] = at end
    ends[step] = last
  end
  table.sort(ipus)
  return passes, ends, ipus
end

---The share of the IPUs' time in which they wait.
function drawing.bubble(passes, ends, ipus)
  local busy, total = 0, #ipus * (ends[#ends] or 0)
  for _, p in ipairs(passes) do busy = busy + p.to - p.from end
  return total > 0 and 1 - busy / total or 0
end

-- A pass: a box, with the number of its micro-batch if the digits fit.
local function draw_pass(put, p, shade, x, y, wide) -- shade: 1 or 2
  local text = tostring(p.micro_batch)
  put('<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" stroke="#fff" '
    .. 'stroke-width="0.6"><title>%s pass of micro-batch %d, stage %d</title></rect>', x, y, wide,
    lane, colours[p.kind][shade], p.kind, p.micro_batch, p.stage)
  if wide >= letter * #text + 2 then
    put('<text x="%.2f" y="%d" text-anchor="middle" fill="%s">%s</text>', x + wide / 2, y + 17,
      digits[shade], text)
  end
end

-- Stage → 1 or 2: in turns among the stages of one IPU.
local function shades(passes)
  local of, count = {}, {}
  table.sort(passes, function(a, b) return a.stage < b.stage end)
  for _, p in ipairs(passes) do
    if not of[p.stage] then
      of[p.stage] = (count[p.ipu] or 0) % 2 + 1
      count[p.ipu] = (count[p.ipu] or 0) + 1
    end
  end
  return of
end

-- A lane: a hatched bar of bubbles, and the passes over it.
local function draw_lane(put, passes, shade_of, ipu, y, scale, total)
  put('<text x="8" y="%d">IPU %d</text>', y + 17, ipu)
  put('<rect x="%d" y="%d" width="%.2f" height="%d" fill="url(#bubble)"/>', left, y, total * scale,
    lane)
  for _, p in ipairs(passes) do
    if p.ipu == ipu then
      draw_pass(put, p, shade_of[p.stage], left + p.from * scale, y, (p.to - p.from) * scale)
    end
  end
end

local function stash_of(timetable, ipu)
  local depths = {}
  for s, each in ipairs(timetable.facts.ipu_of) do
    local position = timetable.facts.position_of[s] + 1
    if each == ipu then depths[#depths + 1] = tostring(timetable.stash_depth[position]) end
  end
  return table.concat(depths, "+")
end

local function number(x)
  local text = x < 1000 and string.format("%.4g", x) or string.format("%.0f", x)
  local count
  repeat text, count = text:gsub("^(%d+)(%d%d%d)", "%1,%2") until count == 0
  return text
end

local function draw_legend(put, y, training)
  local x = left
  local function item(fill, text)
    put('<rect x="%d" y="%d" width="14" height="12" fill="%s"/><text x="%d" y="%d">%s</text>', x,
      y - 10, fill, x + 19, y, text)
    x = x + 34 + #text * 7
  end
  item(colours.forward[1], "forward")
  if training then item(colours.backward[1], "backward") end
  item("url(#bubble)", "bubble: the IPU waits")
end

---The picture's text.
---@param timetable Timetable
---@param length fun(entry: table): number
---@param unit string what a length of 1 is called
---@param title string?
---@return string
function drawing.svg(timetable, length, unit, title)
  local passes, ends, ipus = drawing.times(timetable.order, length, timetable.timing)
  local total, out, shade_of = ends[#ends], {}, shades(passes)
  local function put(form, ...) out[#out + 1] = string.format(form, ...) end
  local scale = (width - left - right) / total
  local height = top + #ipus * (lane + gap) + 34
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
    .. 'font-family="sans-serif" font-size="12">', width, height, width, height)
  put('<defs><pattern id="bubble" width="6" height="6" patternUnits="userSpaceOnUse" '
    .. 'patternTransform="rotate(45)"><rect width="6" height="6" fill="#f3f4f6"/>'
    .. '<rect width="2" height="6" fill="#9ca3af"/></pattern></defs>')
  put('<rect width="%d" height="%d" rx="6" fill="#fff"/>', width, height)
  put('<text x="8" y="22" font-size="15" font-weight="bold">%s</text>',
    xml(title or timetable.schedule))
  put('<text x="8" y="42" fill="#374151">%s on %s, %s: %s %s, bubbles %.1f %%</text>',
    counted(timetable.facts.positions, "stage"), counted(#ipus, "IPU"),
    counted(timetable.count, "micro-batch", "micro-batches"), number(total), unit,
    100 * drawing.bubble(passes, ends, ipus))
  if timetable.training then
    put('<text x="%d" y="42" fill="#374151">stash</text>', width - right + 12)
  end
  for i, ipu in ipairs(ipus) do
    local y = top + (i - 1) * (lane + gap)
    draw_lane(put, passes, shade_of, ipu, y, scale, total)
    if timetable.training then
      put('<text x="%d" y="%d">%s</text>', width - right + 12, y + 17, stash_of(timetable, ipu))
    end
  end
  draw_legend(put, height - 12, timetable.training)
  put("</svg>")
  return table.concat(out, "\n") .. "\n"
end

return drawing
