-- A training that was killed goes on where it stood. The script starts itself, ends the training by
-- force after three epochs, and starts it again. Then it trains once more without a stop, and
-- compares the losses.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local folder, stop = require "ipulua.script".arguments{{"folder", ""}, {"stop", 0, least = 0},
  "short"} -- it is short as it stands

-- Trains six epochs. Its state is saved in a folder after each; a later start goes on from there.
local function train(backup, killed_after)
  keras.utils.set_random_seed(1)
  local x = ipu.random.normal({500, 8}, {seed = 1})
  local y = ipu.reduce_sum(x * x, {axis = 1})
  local model = keras.Sequential{layers.Dense{32, activation = "relu", input_shape = {8}},
    layers.Dropout{0.1}, layers.Dense{1}}
  model:compile{optimizer = keras.optimizers.Adam{0.01}, loss = "mse"}
  local Killer = keras.callbacks.Callback:extend "Killer"
  function Killer.on_epoch_begin(_, epoch) -- hard, as a power cut: nothing is closed
    if epoch == killed_after then os.exit(9, false) end
  end
  model:fit{x, y, epochs = 6, verbose = 2,
    callbacks = {keras.callbacks.BackupAndRestore{backup}, Killer()}}
  return model:evaluate(x, y, {verbose = 0})
end

if folder ~= "" then
  print(string.format("loss at the end %.6f", train(folder, stop)))
  return
end

folder = os.tmpname()
os.remove(folder)
local i = -1
while arg[i - 1] do i = i - 1 end -- the command that runs this script
local function start(name, stop_after)
  local command = string.format("'%s' '%s' --folder '%s/%s' --stop %d", arg[i], arg[0], folder,
    name, stop_after)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end
io.write(start("killed", 3), "killed; started again:\n")
local resumed, through = start("killed", 99), start("whole", 99)
io.write(resumed)
local same = resumed:match "loss at the end.*" == through:match "loss at the end.*"
print(same and "the same, to the last digit, as of a training that went through"
  or "NOT the same as of a training that went through")
os.execute("rm -r '" .. folder .. "'")
