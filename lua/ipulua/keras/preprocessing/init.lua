-- keras.preprocessing: sequences of numbers and texts made ready for a model, windows over time
-- series.

local modules = require "ipulua.base.modules"

local preprocessing = {
  timeseries_dataset_from_array =
  require "ipulua.keras.preprocessing.timeseries".timeseries_dataset_from_array,
}
for _, name in ipairs{"sequence", "text"} do
  preprocessing[name] = modules.guard("keras.preprocessing." .. name,
    (require("ipulua.keras.preprocessing." .. name)))
end

return require("ipulua.keras.base.other_names").answer("preprocessing", preprocessing)
