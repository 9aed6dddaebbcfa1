-- Not an example itself: the text that char_gpt.lua and char_lstm.lua learn from. The first three
-- results are as of keras.datasets.text.load_data, the fourth one is a beginning for samples.
-- Without tinyshakespeare.txt the text is made of this project's pages.
local ipu = require "ipulua"
require "ipulua.script".part("char_gpt.lua and char_lstm.lua")

-- All pages in one file.
local function book(folder)
  local path = os.tmpname()
  local pages <const> = {"README", "docs/architecture", "docs/performance", "docs/explain/replicas",
    "docs/howto/models", "docs/howto/datasets", "docs/howto/sessions", "docs/howto/processes",
    "docs/reference/api/tensors", "docs/reference/api/datasets",
    "docs/reference/ops/functions-of-one-tensor", "docs/reference/keras/layers-core",
    "docs/reference/keras/layers-recurrent", "docs/reference/keras/models",
    "docs/reference/keras/metrics", "docs/reference/keras/optimizers"}
  local out <close> = assert(io.open(path, "w"))
  for _, name in ipairs(pages) do
    for line in io.lines(folder .. name .. ".md") do out:write(line, "\n") end
  end
  return path
end

return function()
  local ok, train, validation, vocabulary = pcall(ipu.keras.datasets.text.load_data)
  if ok then return train, validation, vocabulary, "ROMEO:" end
  print "no tinyshakespeare.txt under IPULUA_DATA: the pages of this project instead"
  local path = book((arg[0]:gsub("[^/]*$", "../../")))
  train, validation, vocabulary = ipu.keras.datasets.text.load_data(path)
  os.remove(path)
  return train, validation, vocabulary, "A tensor"
end
