-- ReportHelper: a private folder for reports, and finding them there.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local IPUConfig = require "ipulua.config".IPUConfig

---A folder of its own for the reports of one piece of work.
---Source: ReportHelper of the tests and tutorials of Graphcore's TensorFlow 2.6
---@class ReportHelper
local ReportHelper = class.new("ReportHelper")

local function remove(folder)
  if core.folder_exists(folder) then core.remove_folder(folder) end
end

function ReportHelper:init()
  local name = os.tmpname()
  os.remove(name)
  self.directory = name .. ".reports"
  core.make_folder(self.directory)
  self.owner = setmetatable({}, {__gc = function() pcall(remove, self.directory) end})
end

function ReportHelper:__tostring() return "<ReportHelper " .. self.directory .. ">" end

local rows <const> = {
  {"config", IPUConfig}, {"output_graph_profile", "boolean", true},
  {"output_execution_profile", "boolean", false},
  {"max_execution_reports", "integer", 1000, range = "[1, inf)", says = "executions"},
}

---Programs compiled under the configuration write their reports into the helper's folder.
---Errors: config is no IPUConfig: `ipu.ReportHelper():set_autoreport_options(1)`
---@param ... any config, {output_graph_profile, output_execution_profile, max_execution_reports}
function ReportHelper:set_autoreport_options(...)
  local a = args.check("set_autoreport_options", rows, ...)
  local options = {}
  for key, value in pairs(a.config.compilation_poplar_options) do options[key] = value end
  options["autoReport.directory"] = self.directory
  options["autoReport.outputGraphProfile"] = tostring(a.output_graph_profile)
  options["autoReport.outputExecutionProfile"] = tostring(a.output_execution_profile)
  options["autoReport.executionProfileProgramRunCount"] = tostring(a.max_execution_reports)
  a.config.compilation_poplar_options = options
end

---The folders of all reports, oldest first.
---@return string[]
function ReportHelper:find_reports()
  local list = {}
  for _, name in ipairs(core.list_folder(self.directory)) do
    local order = name:match("^ipulua_report_%d+_%d+_(%d+)_")
    if order then list[#list + 1] = {tonumber(order), self.directory .. "/" .. name} end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i, each in ipairs(list) do list[i] = each[2] end
  return core.plain(list)
end

---The only report; an error when there are none or several.
---Errors: no report, or several
---@return string
function ReportHelper:find_report()
  local list = self:find_reports()
  if #list ~= 1 then
    blame.error(string.format("find_report: expected exactly one report in %s, found %d",
      self.directory, #list), "runtime")
  end
  return list[1]
end

---Removes all reports.
function ReportHelper:clear_reports()
  for _, folder in ipairs(self:find_reports()) do core.remove_folder(folder) end
end

return class.guard(ReportHelper)
