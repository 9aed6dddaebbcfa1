-- Not an example itself: shuffled batches of MNIST without end, for mnist_functional.lua and
-- mnist_sequential.lua.
local ipu = require "ipulua"
require "ipulua.script".part("mnist_functional.lua, mnist_sequential.lua and their like")

return function(batch_size)
  local x, y = ipu.keras.datasets.mnist.load_data()
  return ipu.data.from_tensor_slices{x, y}
    :shuffle(10000)
    :batch(batch_size, {drop_remainder = true})
    :map(function(images, labels)
      return ipu.cast(images, "float32") / 255, ipu.cast(labels, "float32")
    end)
    :prefetch(16)
    :repeat_n()
end
