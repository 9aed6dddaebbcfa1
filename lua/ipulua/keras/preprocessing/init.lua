-- keras.preprocessing: sequences of numbers and texts made ready for a model, windows over time
-- series.

local modules = require "ipulua.base.modules"
local offering = require "ipulua.base.parts.offering"

local preprocessing = {
  timeseries_dataset_from_array =
  require "ipulua.keras.preprocessing.timeseries".timeseries_dataset_from_array,
}
for name, f in pairs(require "ipulua.keras.preprocessing.folders") do preprocessing[name] = f end
for _, name in ipairs{"sequence", "text"} do
  preprocessing[name] = modules.guard("keras.preprocessing." .. name,
    (require("ipulua.keras.preprocessing." .. name)))
end

preprocessing.image = modules.guard("keras.preprocessing.image", require "ipulua.keras.pictures")

return offering.answer("preprocessing", preprocessing)
