-- plot_model: a model's layers as a picture. SVG is drawn here; other pictures by graphviz.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local describe = require "ipulua.keras.models.describe"
local functional = require "ipulua.keras.models.functional"
local summary = require "ipulua.keras.models.summary"
local text_columns = require "ipulua.base.text.columns"
local xml = require "ipulua.base.text.xml"

local Model <const> = require "ipulua.keras.models".Model

local rows <const> = {
  {"model", Model}, {"to_file", "string", "model.svg"}, {"show_shapes", "boolean", false},
  {"show_dtype", "boolean", false},
  {"show_layer_names", "boolean", true}, {"rankdir", "string", "TB", choices = {"TB", "LR"}},
}

-- ------------------------------------------------ what is drawn

local function lines_of(model, layer, a)
  local class_name = getmetatable(layer).__name
  local lines = {a.show_layer_names and layer.name .. ": " .. class_name or class_name}
  if a.show_dtype then lines[#lines + 1] = layer.dtype end
  if a.show_shapes then
    lines[#lines + 1] = summary.show_shape(describe.output_shape(model, layer))
  end
  return lines
end

---@class DrawnLayer
---@field lines string[]
---@field from integer[] positions of the layers that it reads, rising

-- The layers in order, each with the layers that it reads.
local function read_layers(model, a)
  local layers, place, seen = {}, {}, {}
  for i, layer in ipairs(model:sublayers()) do
    place[layer], layers[i] = i, {lines = lines_of(model, layer, a), from = {}}
    if not model._graph and i > 1 then layers[i].from = {i - 1} end
  end
  for _, node in ipairs(model._graph and model._graph.nodes or {}) do
    for _, operand in ipairs(functional.operands(node)) do
      local from, to = place[operand.layer], place[node.layer]
      local key = from and to and from .. ">" .. to
      if key and not seen[key] then
        seen[key] = true
        table.insert(layers[to].from, from)
      end
    end
  end
  return layers
end

-- ------------------------------------------------ DOT

local function quote(s)
  return '"' .. s:gsub('[\\"]', "\\%0") .. '"'
end

local function dot_text(model, layers, rankdir)
  local lines = {"digraph " .. quote(model.name) .. " {", "  rankdir=" .. rankdir .. ";",
    "  node [shape=box];"}
  for i, layer in ipairs(layers) do
    local label = quote(table.concat(layer.lines, "\\n")):gsub("\\\\n", "\\n")
    lines[#lines + 1] = string.format("  l%d [label=%s];", i, label)
  end
  for i, layer in ipairs(layers) do
    for _, from in ipairs(layer.from) do
      lines[#lines + 1] = string.format("  l%d -> l%d;", from, i)
    end
  end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n") .. "\n"
end

-- ------------------------------------------------ SVG

local line_height <const>, padding <const>, character <const> = 16, 8, 7.2 -- pixels
local between_ranks <const>, between_boxes <const>, margin <const> = 36, 24, 12

local function size_of(layer)
  local longest = 0
  for _, line in ipairs(layer.lines) do longest = math.max(longest, text_columns.width(line)) end
  layer.width = math.ceil(longest * character) + 2 * padding
  layer.height = #layer.lines * line_height + 2 * padding
end

-- A layer's rank is the longest way to it. In a rank, layers are in the order of the layers that
-- they read.
local function rank_layers(layers)
  local ranks = {}
  for i, layer in ipairs(layers) do
    layer.rank = 1
    for _, from in ipairs(layer.from) do
      if from < i then layer.rank = math.max(layer.rank, layers[from].rank + 1) end
    end
    ranks[layer.rank] = ranks[layer.rank] or {}
    table.insert(ranks[layer.rank], layer)
    layer.place = #ranks[layer.rank]
  end
  for r = 2, #ranks do
    for i, layer in ipairs(ranks[r]) do
      local sum = 0
      for _, from in ipairs(layer.from) do sum = sum + layers[from].place end
      layer.wish, layer.at = #layer.from > 0 and sum / #layer.from or i, i
    end
    table.sort(ranks[r], function(x, y)
      if x.wish ~= y.wish then return x.wish < y.wish end
      return x.at < y.at
    end)
    for i, layer in ipairs(ranks[r]) do layer.place = i end
  end
  return ranks
end

-- Positions of the boxes; across: the extent across the ranks ("width" of a picture from top to
-- bottom). Returns the picture's extents along and across the ranks.
local function place_boxes(ranks, along, across)
  local widest, at = 0, margin
  for _, rank in ipairs(ranks) do
    rank.across = -between_boxes
    for _, layer in ipairs(rank) do rank.across = rank.across + layer[across] + between_boxes end
    widest = math.max(widest, rank.across)
  end
  for _, rank in ipairs(ranks) do
    local thickest, offset = 0, margin + (widest - rank.across) / 2
    for _, layer in ipairs(rank) do
      layer.along_at, layer.across_at = at, offset
      offset = offset + layer[across] + between_boxes
      thickest = math.max(thickest, layer[along])
    end
    at = at + thickest + between_ranks
  end
  return at - between_ranks + margin, widest + 2 * margin
end

local function draw_box(out, layer)
  out[#out + 1] = string.format('<rect x="%.1f" y="%.1f" width="%d" height="%d" rx="4"/>', layer.x,
    layer.y, layer.width, layer.height)
  for i, line in ipairs(layer.lines) do
    out[#out + 1] = string.format('<text x="%.1f" y="%.1f"%s>%s</text>',
      layer.x + layer.width / 2, layer.y + padding + i * line_height - 4,
      i == 1 and ' class="name"' or "", xml(line))
  end
end

-- From the middle of a box' far side to the middle of the next box' near side.
local function draw_arrow(out, from, to, is_down)
  local x1, y1 = from.x + from.width / 2, from.y + from.height
  local x2, y2 = to.x + to.width / 2, to.y
  if not is_down then
    x1, y1 = from.x + from.width, from.y + from.height / 2
    x2, y2 = to.x, to.y + to.height / 2
  end
  local bend = is_down and (y2 - y1) / 2 or (x2 - x1) / 2
  local dx, dy = is_down and 0 or bend, is_down and bend or 0
  out[#out + 1] = string.format(
    '<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" marker-end="url(#to)"/>',
    x1, y1, x1 + dx, y1 + dy, x2 - dx, y2 - dy, x2, y2)
end

local style <const> = [[
<defs><marker id="to" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">
<polygon points="0 0, 9 4, 0 8" fill="#555"/></marker></defs>
<style>rect{fill:#eef3fb;stroke:#4472a8}path{fill:none;stroke:#555;stroke-width:1.3}
text{font:12px monospace;text-anchor:middle;fill:#222}.name{font-weight:bold}</style>]]

local function svg_text(model, layers, rankdir)
  local is_down = rankdir == "TB"
  for _, layer in ipairs(layers) do size_of(layer) end
  local ranks = rank_layers(layers)
  local along, across = "height", "width"
  if not is_down then along, across = across, along end
  local length, breadth = place_boxes(ranks, along, across)
  for _, layer in ipairs(layers) do
    layer.x, layer.y = layer.across_at, layer.along_at
    if not is_down then layer.x, layer.y = layer.y, layer.x end
  end
  local width, height = is_down and breadth or length, is_down and length or breadth
  local out = {string.format('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
    .. 'viewBox="0 0 %d %d">', width, height, width, height),
    "<title>" .. xml(model.name) .. "</title>", style,
    '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>'}
  for _, layer in ipairs(layers) do
    for _, from in ipairs(layer.from) do draw_arrow(out, layers[from], layer, is_down) end
  end
  for _, layer in ipairs(layers) do draw_box(out, layer) end
  out[#out + 1] = "</svg>"
  return table.concat(out, "\n") .. "\n"
end

-- ------------------------------------------------ files

local drawn_as <const> = {dot = true, png = true, svg = true, pdf = true, jpg = true, gif = true}

local function shell_word(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function draw_by_graphviz(path, ending, dot)
  local graph <const>, picture <const> = path .. ".tmp.dot", path .. ".tmp." .. ending
  core.replace_file(graph, dot)
  local done = os.execute(string.format("dot -T%s -o %s %s 2>/dev/null", ending,
    shell_word(picture), shell_word(graph))) and os.rename(picture, path)
  os.remove(graph)
  if done then return end
  os.remove(picture)
  local dot_path = path:gsub("%.%w+$", "") .. ".dot"
  core.replace_file(dot_path, dot)
  blame.error(string.format("plot_model: graphviz's 'dot' is needed for '%s' (.svg needs "
    .. "nothing); '%s' was written instead", path, dot_path), "not_found")
end

---Draws a model's layers into an .svg or .dot file, or with graphviz a .png, .pdf, .jpg or .gif;
---returns the DOT text.
---Errors: a model that is not built, an unknown ending or rankdir, another picture than .svg
---without graphviz' dot: `keras.utils.plot_model{model, to_file = "m.txt"}`
---@param ... any model, to_file, show_shapes, show_dtype, show_layer_names, rankdir
---@return string
return function(...)
  local a = args.check("plot_model", rows, ...)
  local ending = a.to_file:match("%.(%w+)$")
  if not drawn_as[ending] then
    blame.error("plot_model: 'to_file' must end in .dot, .png, .svg, .pdf, .jpg or .gif, got "
      .. a.to_file, "value")
  end
  local layers = read_layers(a.model, a)
  local dot = dot_text(a.model, layers, a.rankdir)
  if ending == "dot" then core.replace_file(a.to_file, dot)
  elseif ending == "svg" then core.replace_file(a.to_file, svg_text(a.model, layers, a.rankdir))
  else draw_by_graphviz(a.to_file, ending, dot) end
  return dot
end
