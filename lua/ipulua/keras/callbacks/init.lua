-- keras.callbacks: objects that fit, evaluate and predict tell what happens.

local callbacks = {}

for _, file in ipairs{"base", "monitors", "files", "tensorboard", "backup"} do
  for name, c in pairs(require("ipulua.keras.callbacks." .. file)) do callbacks[name] = c end
end

return require("ipulua.keras.base.other_names").answer("callbacks", callbacks)
