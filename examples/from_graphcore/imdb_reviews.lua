-- Not an example itself: reviews for imdb_pipelined.lua and imdb_sequential_pipelined.lua.
-- reviews(vocabulary, length) gives the words' numbers, int32 [n, length], and whether each review
-- is a good one, float32 [n, 1]. Without the files of IMDB, reviews are made of random words; the
-- good ones have more words of the upper half of the vocabulary.
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
  print "no reviews of IMDB under IPULUA_DATA: made-up ones instead"
  return drawn(vocabulary, length)
end
