-- history:plot: reported numbers as curves over epochs, in letters or as SVG.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local xml = require "ipulua.base.text.xml"

local curves = {}

---@class Chart
---@field name string
---@field series {name: string, values: number[]}[]

local function numbers_of(list)
  local values = {}
  for i, value in ipairs(list) do
    if type(value) ~= "number" then return nil end
    values[i] = value
  end
  return #values > 0 and values or nil
end

-- A chart for each number, the validation's beside it; the loss first.
local function charts_of(history)
  local names, charts = {}, {}
  for name, list in pairs(history) do
    local is_validation = name:find "^val_" and history[name:sub(5)]
    if not is_validation and numbers_of(list) then names[#names + 1] = name end
  end
  table.sort(names, function(a, b)
    if (a == "loss") ~= (b == "loss") then return a == "loss" end
    return a < b
  end)
  for i, name in ipairs(names) do
    local chart = {name = name, series = {{name = name, values = numbers_of(history[name])}}}
    local validation = history["val_" .. name]
    local values = validation and numbers_of(validation)
    if values then chart.series[2] = {name = "val_" .. name, values = values} end
    charts[i] = chart
  end
  return charts
end

-- The least and greatest finite number; a band around them where they are the same.
local function range_of(chart)
  local least, greatest = math.huge, -math.huge
  for _, series in ipairs(chart.series) do
    for _, value in ipairs(series.values) do
      if value - value == 0 then
        least, greatest = math.min(least, value), math.max(greatest, value)
      end
    end
  end
  if least > greatest then return 0, 1 end
  if least == greatest then
    local half <const> = math.max(0.5, math.abs(least) / 1000) -- 0.5 is nothing beside 1e17
    return least - half, greatest + half
  end
  return least, greatest
end

-- Where along an axis of `extent` steps a value lies. Halves, whose difference is finite.
local function along(value, least, greatest, extent)
  return (value / 2 - least / 2) / (greatest / 2 - least / 2) * extent
end

-- A series over `steps` places: positions from 0 to 1, and values that are finite.
local function points_of(series)
  local points, last = {}, #series.values
  for i, value in ipairs(series.values) do
    if value - value == 0 then
      points[#points + 1] = {last > 1 and (i - 1) / (last - 1) or 0, value}
    end
  end
  return points
end

-- ------------------------------------------------ letters

local columns <const>, lines <const> = 60, 12
local marks <const> = {"*", "o"}

local function text_chart(chart, first, last)
  local least, greatest = range_of(chart)
  local grid = {}
  for y = 0, lines - 1 do
    grid[y] = {}
    for x = 0, columns - 1 do grid[y][x] = " " end
  end
  for i = #chart.series, 1, -1 do
    for _, point in ipairs(points_of(chart.series[i])) do
      local x = math.floor(point[1] * (columns - 1) + 0.5)
      local y = math.floor(along(point[2], least, greatest, lines - 1) + 0.5)
      grid[y][x] = marks[i]
    end
  end
  local out, legend = {}, {}
  for i, series in ipairs(chart.series) do legend[i] = marks[i] .. " " .. series.name end
  out[1] = string.rep(" ", 12) .. table.concat(legend, "   ")
  for y = lines - 1, 0, -1 do
    local label = (y == lines - 1 and greatest or y == 0 and least) or nil
    local head = label and string.format("%10.4g |", label) or string.rep(" ", 11) .. "|"
    out[#out + 1] = (head .. table.concat(grid[y], "", 0, columns - 1)):gsub(" +$", "")
  end
  out[#out + 1] = string.rep(" ", 11) .. "+" .. string.rep("-", columns)
  local epochs = string.format("epoch %d", first)
  out[#out + 1] = string.rep(" ", 12) .. epochs
    .. string.format("%" .. columns - #epochs .. "d", last)
  return table.concat(out, "\n")
end

-- ------------------------------------------------ SVG

local width <const>, height <const>, margin <const>, left <const> = 560, 220, 30, 80
local colours <const> = {"#1f6fb4", "#d9731a"}

local function svg_text(out, x, y, anchor, colour, words)
  out[#out + 1] = string.format('<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>', x,
    y, anchor, colour, xml(words))
end

local function draw_series(out, series, colour, top, least, greatest)
  local places = {}
  for i, point in ipairs(points_of(series)) do
    places[i] = string.format("%.1f,%.1f", left + point[1] * width,
      top + height - along(point[2], least, greatest, height))
  end
  out[#out + 1] = string.format('<polyline points="%s" stroke="%s"/>', table.concat(places, " "),
    colour)
  if #places == 1 then
    local x, y = places[1]:match "(.*),(.*)"
    out[#out + 1] = string.format('<circle cx="%s" cy="%s" r="3" fill="%s"/>', x, y, colour)
  end
end

local function draw_chart(out, chart, top, first, last)
  local least, greatest = range_of(chart)
  out[#out + 1] = string.format('<rect x="%d" y="%d" width="%d" height="%d"/>', left, top, width,
    height)
  svg_text(out, left - 6, top + 10, "end", "#222", string.format("%.4g", greatest))
  svg_text(out, left - 6, top + height, "end", "#222", string.format("%.4g", least))
  svg_text(out, left, top + height + 16, "start", "#222", "epoch " .. first)
  svg_text(out, left + width, top + height + 16, "end", "#222", tostring(last))
  for i, series in ipairs(chart.series) do
    draw_series(out, series, colours[i], top, least, greatest)
    svg_text(out, left + 10 + (i - 1) * width / 2, top - 6, "start", colours[i], series.name)
  end
end

local function svg_of(charts, first, last)
  local step <const> = height + 2 * margin
  local whole <const> = #charts * step
  local out = {string.format('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">',
    left + width + margin, whole), "<title>training</title>",
    "<style>text{font:12px monospace}rect{fill:none;stroke:#999}"
    .. "polyline{fill:none;stroke-width:1.6}</style>",
    '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>'}
  for i, chart in ipairs(charts) do draw_chart(out, chart, (i - 1) * step + margin, first, last) end
  out[#out + 1] = "</svg>"
  return table.concat(out, "\n") .. "\n"
end

-- ------------------------------------------------ both

local rows <const> = {
  {"to_file", "string", optional = true, says = "an .svg; else letters on standard output"},
}

---Curves of a history over its epochs: the loss, then each metric, the validation's beside it.
---@param history History
---@param ... any to_file
---@return string
function curves.plot(history, ...)
  local a = args.check("plot", rows, ...)
  if a.to_file and not a.to_file:find "%.svg$" then
    blame.error("plot: 'to_file' must end in .svg, got " .. a.to_file, "value")
  end
  local charts, epochs = charts_of(history.history), history.epoch
  if #charts == 0 then blame.error("plot: there is no epoch to show", "value") end
  local first, last = (epochs[1] or 0) + 1, (epochs[#epochs] or #charts[1].series[1].values - 1) + 1
  if a.to_file then
    local drawn = svg_of(charts, first, last)
    core.replace_file(a.to_file, drawn)
    return drawn
  end
  local texts = {}
  for i, chart in ipairs(charts) do texts[i] = text_chart(chart, first, last) end
  local drawn = table.concat(texts, "\n\n") .. "\n"
  io.stdout:write(drawn)
  return drawn
end

return curves
