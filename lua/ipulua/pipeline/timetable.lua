-- ipu.timetable: a pipeline's schedule as a drawing, and as numbers.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local drawing = require "ipulua.pipeline.drawing"
local func = require "ipulua.trace.func"
local machine = require "ipulua.config.target"
local plain = require "ipulua.base.plain"
local plans = require "ipulua.pipeline.plan"

local timetable = {}

-- ------------------------------------------------ the fields of a timetable

---@class Timetable
---@field count integer micro-batches
---@field count_multiple integer a divisor that their number must have
---@field time_steps integer
---@field stash_depth integer[] by stage
---@field order table[] time steps, each a list of {ipu, kind, stage, micro_batch}
---@field utilisation number share of the IPUs' slots with a pass; if compiled, of their time
---@field timing string steps, or dependencies
---@field span number time of a run, in cycles; of a schedule alone in passes of one length
---@field stage_ops table[]? by stage {forward =, backward =}
---@field stage_bytes integer[]? by stage: weights, and activations that wait
---@field stage_cycles number[]? by stage: forward and backward pass of a micro-batch
local Timetable = class.new("Timetable")

local function make_order(facts, count)
  local order = {}
  for step, row in ipairs(facts.plan:timetable(count)) do
    order[step] = {}
    for i, e in ipairs(row) do
      order[step][i] = {ipu = e.ipu, kind = e.backward and "backward" or "forward",
        stage = facts.position_of[e.stage + 1],
        micro_batch = e.micro}
    end
  end
  return order
end

-- When all is done, and the share of the IPUs' time until then in which they compute.
local function by_dependencies(order, length)
  local passes, ends, ipus = drawing.times(order, length, "dependencies")
  return ends[#ends], 1 - drawing.bubble(passes, ends, ipus)
end

-- An IPU's slots in a time step are as many as it ever needs: two where a forward and a backward
-- pass share a step.
local function utilisation(order)
  local busy, slots = {}, {}
  for _, row in ipairs(order) do
    local here = {}
    for _, e in ipairs(row) do
      busy[e.ipu] = (busy[e.ipu] or 0) + 1
      here[e.ipu] = (here[e.ipu] or 0) + 1
      slots[e.ipu] = math.max(slots[e.ipu] or 0, here[e.ipu])
    end
  end
  local sum, ipus, most = 0, 0, 1
  for ipu, n in pairs(busy) do
    sum, ipus, most = sum + n / (slots[ipu] * #order), ipus + 1, math.max(most, slots[ipu])
  end
  return sum / ipus, most * #order
end

---@param facts PipelineFacts
---@param count integer
---@param timing string
---@param entry table? a compiled program with this pipeline
function Timetable:init(facts, count, timing, entry)
  self.timing = timing
  self.facts, self.count = facts, count
  self.schedule, self.training = facts.schedule, facts.training
  self.count_multiple = plans.count_rule(facts)
  self.order = plain.mark(make_order(facts, count))
  self.time_steps = #self.order
  self.stash_depth = plain.mark(plans.stash_depth(facts))
  if timing == "steps" then
    self.utilisation, self.span = utilisation(self.order)
  else
    self.span, self.utilisation = by_dependencies(self.order, function() return 1 end)
  end
  if not entry then return end
  self:add_measures(core.pipeline_stages(entry.program))
  local priced, price = blame.attempt(function()
    return machine.price(entry, machine.options(nil, entry.device)):summary()
  end)
  if priced then self:add_cycles(price.stages) end
end

function Timetable:add_measures(measured)
  self.stage_ops, self.stage_bytes = {}, {}
  for s, m in ipairs(measured) do
    local position = self.facts.position_of[s] + 1
    local ops = self.stage_ops[position] or {forward = 0, backward = 0}
    ops.forward, ops.backward = ops.forward + m.forward_ops, ops.backward + m.backward_ops
    self.stage_ops[position] = ops
    self.stage_bytes[position] = (self.stage_bytes[position] or 0) + m.weight_bytes
      + (self.stash_depth[position] + 1) * m.stash_bytes
  end
end

-- The length of a time step: its slowest IPU's. In a step with both kinds of passes, forward passes
-- come first, then backward passes.
local function step_cycles(row, cycles, grouped)
  local here, longest, busy = {}, {}, 0
  for _, e in ipairs(row) do
    local kind, n = grouped and e.kind or "any", cycles[e.stage .. "@" .. e.ipu][e.kind]
    local slot = kind .. e.ipu
    here[slot] = (here[slot] or 0) + n
    longest[kind] = math.max(longest[kind] or 0, here[slot])
    busy = busy + n
  end
  return (longest.any or 0) + (longest.forward or 0) + (longest.backward or 0), busy
end

-- The share of the IPUs' time in which they do something.
local function busy_share(order, cycles, grouped)
  local busy, total, ipus, count = 0, 0, {}, 0
  for _, row in ipairs(order) do
    for _, e in ipairs(row) do
      if not ipus[e.ipu] then ipus[e.ipu], count = true, count + 1 end
    end
    local length, used = step_cycles(row, cycles, grouped)
    busy, total = busy + used, total + length
  end
  return total > 0 and busy / (count * total) or nil, total
end

---@param stages table[] of a price: {forward_cycles =, backward_cycles =}, concurrent stages singly
function Timetable:add_cycles(stages)
  local facts, cycles = self.facts, {}
  if #stages ~= #facts.position_of then return end
  self.stage_cycles = {}
  for s, each in ipairs(stages) do
    local position = facts.position_of[s]
    cycles[position .. "@" .. facts.ipu_of[s]] = {forward = each.forward_cycles,
      backward = each.backward_cycles}
    self.stage_cycles[position + 1] = math.max(self.stage_cycles[position + 1] or 0,
      each.forward_cycles + each.backward_cycles)
  end
  self.cycles = cycles
  local share, span
  if self.timing == "steps" then
    share, span = busy_share(self.order, cycles, self.facts.rules.both_passes)
  else
    span, share = by_dependencies(self.order,
      function(e) return cycles[e.stage .. "@" .. e.ipu][e.kind] end)
  end
  if share then self.utilisation, self.span, self.is_timed = share, span, true end
end

-- ------------------------------------------------ drawing

local widest <const> = 40 -- time steps that are drawn; of more, the first and the last ones

-- The time steps to draw; false stands for those left out.
local function shown_steps(count)
  local list = {}
  for t = 1, count do
    if count <= widest or t <= widest // 2 or t > count - widest // 2 then list[#list + 1] = t
    elseif list[#list] then list[#list + 1] = false end
  end
  return list
end

-- Rows of a drawing: {label, cells by time step}.
local function rows_of(self)
  local facts, rows, find = self.facts, {}, {}
  local grouped = facts.rules.both_passes and self.training
  for i, mapped in ipairs(facts.mapping) do
    local list = type(mapped) == "table" and mapped or {mapped}
    for _, ipu in ipairs(list) do
      for _, kind in ipairs(grouped and {"forward", "backward"} or {"both"}) do
        local first = kind ~= "backward"
        local row = {cells = {}, label = first
          and string.format("stage %d  IPU %d", i - 1, ipu) or "",
          kind = grouped and (first and "F" or "B") or ""}
        rows[#rows + 1] = row
        find[ipu .. ":" .. i - 1 .. ":" .. kind] = row
      end
    end
  end
  for t, entries in ipairs(self.order) do
    for _, e in ipairs(entries) do
      local row = find[e.ipu .. ":" .. e.stage .. ":" .. (grouped and e.kind or "both")]
      local mark = (grouped or not self.training) and "" or e.kind == "forward" and "F" or "B"
      row.cells[t] = mark .. e.micro_batch
    end
  end
  return rows
end

local function draw(self, lines)
  local rows, steps = rows_of(self), shown_steps(self.time_steps)
  local width, label = 1, 0
  for _, row in ipairs(rows) do
    label = math.max(label, #row.label)
    for _, cell in pairs(row.cells) do width = math.max(width, #cell) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, t in ipairs(steps) do
      local cell = t and (row.cells[t] or ".") or "~"
      cells[i] = cell .. string.rep(" ", width - #cell)
    end
    local text = string.format("%-" .. label .. "s  %s%s", row.label,
      row.kind ~= "" and row.kind .. "  " or "", table.concat(cells, " "))
    lines[#lines + 1] = (text:gsub("%s+$", ""))
  end
end

local function bytes_text(n)
  for _, unit in ipairs{"B", "KiB", "MiB"} do
    if n < 1024 then return string.format(unit == "B" and "%d %s" or "%.1f %s", n, unit) end
    n = n / 1024
  end
  return string.format("%.2f GiB", n)
end

-- The facts of each stage; of a schedule alone the depth of its stash.
local function stage_table(self, lines)
  local form = self.stage_ops and "%-8s%-8s%-14s%-14s%s" or "%-8s%s"
  lines[#lines + 1] = form:format("stage", "stash", "ops F + B", "cycles", "bytes")
  for s, depth in ipairs(self.stash_depth) do
    local ops, bytes = self.stage_ops and self.stage_ops[s], self.stage_bytes
      and self.stage_bytes[s]
    local cycles = self.stage_cycles and self.stage_cycles[s]
    lines[#lines + 1] = form:format(s - 1, depth, ops and ops.forward .. " + "
      .. ops.backward or "-",
      cycles and string.format("%.0f", cycles) or "-", bytes and bytes_text(bytes)
      or "-"):gsub("%s+$", "")
  end
end

---The drawing: stages by time steps; a digit is a micro-batch, a point an idle slot.
function Timetable:__tostring()
  local facts = self.facts
  local lines = {string.format("%s, %s on %s, %s, %s: %s, %.1f %% of the %s used%s",
    self.schedule, counted(facts.positions, "stage"),
    counted(math.max(table.unpack(facts.ipu_of)) + 1, "IPU"),
    self.training and "training" or "inference",
    counted(self.count, "micro-batch", "micro-batches"), counted(self.time_steps, "time step"),
    100 * self.utilisation, self.is_timed and "time" or "slots",
    self.timing == "steps" and "" or ", by dependencies")}
  draw(self, lines)
  stage_table(self, lines)
  return table.concat(lines, "\n")
end

-- ------------------------------------------------ to scale

-- The lengths of passes and their unit: priced cycles of a compiled program, else the given
-- lengths.
local function lengths(self, a)
  if self.cycles and not (a.forward or a.backward) then
    return function(e) return self.cycles[e.stage .. "@" .. e.ipu][e.kind] end, "cycles"
  end
  local of = {forward = a.forward or 1, backward = a.backward or 2}
  return function(e) return of[e.kind] end,
    of.forward == 1 and "forward passes long" or "units long"
end

local length_rows <const> = {
  {"forward", "number", optional = true, range = "(0, inf)", says = "length of a forward pass"},
  {"backward", "number", optional = true, range = "(0, inf)", says = "length of a backward pass"},
}
local svg_rows <const> = {
  {"path", "string", optional = true, says = "the file, which is replaced"},
  {"title", "string", optional = true, says = "the schedule's name by default"},
  length_rows[1], length_rows[2],
}

---The share of the IPUs' time in which they wait: the pipeline's bubbles.
---A time step lasts as long as the IPU with the most to do in it. Passes of something compiled are
---as long as they are priced; else a forward pass is 1 long and a backward pass 2.
---@param ... any {forward, backward}
---@return number
function Timetable:bubble(...)
  local a = args.check("timetable.bubble", length_rows, ...)
  local length = lengths(self, a)
  return drawing.bubble(drawing.times(self.order, length, self.timing))
end

---The timetable drawn to scale, its bubbles hatched: the text of an SVG, also written to `path`.
---Lengths are the same as for `bubble`.
---Errors: a path that can't be written
---@param ... any path, {title, forward, backward}
---@return string
function Timetable:svg(...)
  local a = args.check("timetable.svg", svg_rows, ...)
  local length, unit = lengths(self, a)
  local text = drawing.svg(self, length, unit, a.title)
  if a.path then core.replace_file(a.path, text) end
  return text
end

-- ------------------------------------------------ of what

local timing_row <const> = {"timing", "string", "steps", choices = {"steps", "dependencies"},
  says = "all IPUs step together; or a pass begins when its operands are there and its IPU is free"}
local spec <const> = {
  {"schedule", {"string", "list"}, plans.default_schedule},
  {"device_mapping", "any", optional = true, of = "integers", says = "the IPU of each stage"},
  {"training", "boolean", true},
  {"count", "integer", optional = true}, {"stages", "integer", optional = true}, timing_row,
}
local compiled_spec <const> = {
  {"of", "any", one = true, of = "Function or Model, compiled"}, timing_row,
}

local function widths_of(a)
  if a.device_mapping == nil and a.stages == nil then
    blame.error("timetable: give a pipelined model, a function that runs a pipeline, or "
      .. "'device_mapping', the IPU of each stage", "value")
  end
  local widths = {}
  for i = 1, a.stages or #a.device_mapping do
    local mapped = a.device_mapping and a.device_mapping[i]
    local concurrent = type(mapped) == "table"
    widths[i] = {concurrent = concurrent, count = concurrent and #mapped or 1}
  end
  if #widths == 0 then blame.error("timetable: there are no stages", "value") end
  return widths
end

-- Of a schedule alone.
local function from_words(...)
  local a = args.check("timetable", spec, ...)
  if a.device_mapping ~= nil and not args.is_list(a.device_mapping) then
    blame.error("timetable: 'device_mapping' must be a list, got "
      .. args.describe(a.device_mapping), "type")
  end
  local facts = plans.new("timetable", {
    schedule = plans.read_schedule("timetable", a.schedule), training = a.training,
    widths = widths_of(a),
    device_mapping = a.device_mapping,
  })
  local count = a.count or plans.least_count(facts)
  local words = plans.refuse_count(facts, count, "count")
  if words then blame.error("timetable: " .. words, "failed_precondition") end
  return Timetable(facts, count, a.timing)
end

-- The newest program with a pipeline among a function's.
local function of_function(fn, timing)
  local found
  for _, entry in ipairs(fn.order) do found = entry.pipeline and entry or found end
  if not found then
    blame.error(string.format("timetable: the function '%s' has not been compiled with a pipeline "
      .. "yet; run it first", fn.name), "value")
  end
  local count = found.pipeline.count or plans.least_count(found.pipeline)
  return Timetable(found.pipeline, count, timing, found)
end

---The timetable of a pipelined model, of a function that runs a pipeline, or of a schedule:
---{schedule =, device_mapping =, training =, count =}. With timing = "dependencies" its times are
---times of devices that don't wait for each other's time steps.
---Units: time steps; a step lasts as long as its longest stage; span: passes, compiled: cycles
---Errors: a model without stages, an unknown schedule, a mapping that the schedule can't have:
---`ipu.timetable{schedule = "Round", device_mapping = {0, 1}}`
---@param ... any a model, a function, or {schedule, device_mapping, training, count, timing}
---@return Timetable
function timetable.timetable(...)
  local first = ...
  local of = class.of(first)
  if func.is_function(first) or of and of.timetable_of then
    local a = args.check("timetable", compiled_spec, ...)
    if func.is_function(first) then return of_function(first, a.timing) end
    return first:timetable_of(Timetable, a.timing) -- a model
  end
  if first == nil and select("#", ...) == 1 then -- a name that stands for nothing
    blame.error("timetable: expected a model, a function or a schedule, got nil", "type")
  end
  return from_words(...)
end

timetable.Timetable = Timetable
return timetable
