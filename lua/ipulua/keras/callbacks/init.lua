-- keras.callbacks: objects whose functions fit, evaluate and predict call.

local offering = require "ipulua.base.parts.offering"

local callbacks = {}

for _, file in ipairs{"base", "monitors", "files", "tensorboard", "backup"} do
  for name, c in pairs(require("ipulua.keras.callbacks." .. file)) do callbacks[name] = c end
end

-- Names of Keras' module that this one lacks, with the names to use instead.
local missing <const> = {
  ProgbarLogger = "fit shows its progress itself; its argument `verbose` and IPULUA_PROGRESS say "
  .. "how",
  BaseLogger = "the logs of an epoch are running means already",
  RemoteMonitor = "nothing is sent over a network; use CSVLogger, or extend Callback with "
  .. "on_epoch_end(epoch, logs)",
}

return offering.answer("callbacks", callbacks, {missing = missing})
