-- keras.preprocessing: sequences of numbers and texts made ready for a model, windows over time
-- series.

local modules = require "ipulua.base.modules"
local offering = require "ipulua.base.parts.offering"

local preprocessing = {
  timeseries_dataset_from_array =
  require "ipulua.keras.preprocessing.timeseries".timeseries_dataset_from_array,
}
for _, name in ipairs{"sequence", "text"} do
  preprocessing[name] = modules.guard("keras.preprocessing." .. name,
    (require("ipulua.keras.preprocessing." .. name)))
end

preprocessing.image = modules.guard("keras.preprocessing.image", require "ipulua.keras.pictures")

-- What Keras has in its module of that name and this one lacks, with what to use instead.
local folder_of_images <const> = "use ipu.data.from_image_folder(path, {image_size = {height, "
  .. "width}})"
local no_texts <const> = "read the files with io.open; ipu.data.from_tensor_slices{texts, labels} "
  .. "makes a dataset of the lists"
local missing <const> = {
  image_dataset_from_directory = folder_of_images, text_dataset_from_directory = no_texts,
}

return offering.answer("preprocessing", preprocessing, {missing = missing})
