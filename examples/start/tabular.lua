-- A CSV table with numbers, words and empty cells: empty cells are filled, words numbered, numbers
-- normalised. The last fifth of the rows is for validation, and training stops when its loss no
-- longer falls. The table is made up; it says which travellers take a trip again.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local epochs, rows = require "ipulua.script".arguments{{"epochs", 60, short = 30},
  {"rows", 2000, short = 600}}
keras.utils.set_random_seed(1)

local path = os.tmpname()
do
  local file <close> = assert(io.open(path, "w"))
  local cities <const> = {"Rome", "Oslo", "Lima"}
  file:write("age,city,price,again\n")
  for i = 1, rows do
    local age, city, price = 20 + i * 7 % 50, cities[i % 3 + 1], 100 + i * 37 % 900
    local again = (age > 45) ~= (city == "Oslo") and price < 800
    file:write(i % 11 == 0 and "" or age, ",", i % 13 == 0 and "NA" or city, ",",
      i % 17 == 0 and "" or price + 0.5, ",", again and 1 or 0, "\n")
  end
end

local columns, types = data.read_csv(path, {fill = {age = 45, city = "?", price = 550}})
os.remove(path)
print("age is " .. types.age .. ", city " .. types.city .. ", price " .. types.price)

local number_of = layers.StringLookup{output_mode = "one_hot"}
number_of:adapt(columns.city)
local numbers = ipu.stack({ipu.cast(columns.age, "float32"), columns.price}, {axis = 1})
local normalised = layers.Normalization()
normalised:adapt(numbers)

local numeric = keras.Input{shape = {2}, name = "numeric"}
local city = keras.Input{shape = {number_of:vocabulary_size()}, name = "city"}
local x = layers.Concatenate(){normalised(numeric), city}
x = layers.Dense{32, activation = "relu"}(x)
x = layers.Dropout{0.1}(x)
local model = keras.Model{inputs = {numeric, city},
  outputs = layers.Dense{1, activation = "sigmoid"}(x)}
model:compile{optimizer = keras.optimizers.Adam{0.01}, loss = "binary_crossentropy",
  metrics = {"accuracy"}}
local history = model:fit{
  x = {numeric = numbers, city = number_of(columns.city)}, y = columns.again,
  validation_split = 0.2, epochs = epochs, verbose = 0,
  callbacks = {keras.callbacks.EarlyStopping{patience = 5, restore_best_weights = true}},
}
local log = history.history
print(string.format("stopped after %d of %d epochs, best validation loss %.3f, accuracy %.1f %%",
  #log.loss, epochs, math.min(table.unpack(log.val_loss)),
  100 * math.max(table.unpack(log.val_accuracy))))
local guest = {numeric = ipu.tensor{{60, 300}}, city = number_of{{"Rome"}}}
print(string.format("60 years, Rome, 300: again with %.0f %%",
  100 * model:predict(guest)[1][1]:item()))
