-- Descriptions of the parts of Keras for help and the references. Each file describes the parts
-- that it has.

local about = {}

local lists, rows = {}, {} -- module → rows in their order; module → name → row

---@class AboutPart
---@field [1] string its name in the module
---@field text string? a sentence, where no comment stands above it
---@field source string? a paper; its name in ipu.keras of Graphcore's TensorFlow 2.6
---@field keras string|false|nil what tf.keras calls it, if not by its name here; false: nothing
---@field takes_one boolean? of a layer that has no input_spec: any tensor, but one
---@field other_names string[]? of a layer: what Keras calls it, too
---@field section string? of a layer: in which section of the reference it stands
---@field sample string? of a layer: code that makes one
---@field input integer[]|integer[][]|nil shape of the sample's input, or shapes
---@field wrong string|integer[]|nil code that raises an error, or a shape that the sample refuses
---@field is string? the shapes with names; `also`, what else they may be
---@field shapes string? where they aren't computed

---Adds descriptions of a module's parts.
---@param module string "layers", "schedules" …
---@param list AboutPart[]
---@param holder table? the classes by name, where rows hold facts of classes
function about.say(module, list, holder)
  lists[module], rows[module] = lists[module] or {}, rows[module] or {}
  for _, row in ipairs(list) do
    local c = holder and holder[row[1]]
    if c and row.takes_one then c.takes_one = true end
    if c and row.other_names then c.other_names = row.other_names end
    table.insert(lists[module], row)
    rows[module][row[1]] = row
  end
end

---The row of a part; an empty one where nothing is said.
---@param module string
---@param name string
---@return AboutPart
function about.of(module, name) return rows[module] and rows[module][name] or {} end

---The rows of a module, in the order in which its files have them.
---@param module string
---@return AboutPart[]
function about.list(module) return lists[module] or {} end

---Every module with rows.
---@return table<string, AboutPart[]>
function about.all() return lists end

local places <const> = {schedules = "optimizers.schedules"}

---The source of a part: the given one, and its name in tf.keras.
---@param module string
---@param name string
---@return string
function about.source(module, name)
  local row = about.of(module, name)
  local given, keras = row.source, row.keras
  if given and given:find("of Graphcore's TensorFlow 2.6", 1, true) then return given end
  if keras == nil then keras = string.format("tf.keras.%s.%s", places[module] or module, name) end
  return given and keras and given .. "; " .. keras or keras or given
end

return about
