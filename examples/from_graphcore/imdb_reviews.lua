-- Not an example itself: reviews as numbers of words, and whether each is a good one, for
-- imdb_pipelined.lua and the like. reviews(vocabulary, length) gives int32 [n, length] and float32
-- [n, 1]. Without the data set's file, reviews are drawn whose words are more often good or bad
-- ones.
local ipu = require "ipulua"
require "ipulua.script".part("imdb_pipelined.lua and imdb_sequential_pipelined.lua")

local function drawn(vocabulary, length)
  local n = 2048
  local words = ipu.cast(ipu.random.uniform({n, length}, {maxval = vocabulary // 2, seed = 1}),
    "int32")
  local labels = ipu.cast(ipu.greater(ipu.random.uniform({n, 1}, {seed = 2}), 0.5), "int32")
  -- good words are the upper half
  local marked = ipu.cast(ipu.less(ipu.random.uniform({n, length}, {seed = 3}), 0.3), "int32")
  return words + marked * labels * (vocabulary // 2), ipu.cast(labels, "float32")
end

return function(vocabulary, length)
  local ok, x, y = pcall(ipu.keras.datasets.imdb.load_data,
    {num_words = vocabulary, maxlen = length})
  if ok then return ipu.cast(x, "int32"), ipu.cast(y, "float32") end
  print "no reviews of IMDB under IPULUA_DATA: drawn ones instead"
  return drawn(vocabulary, length)
end
