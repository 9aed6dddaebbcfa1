-- Reinforcement learning with eager ops: a policy learns to keep a pole upright on a moving cart.
-- One model is both actor and critic. It learns from the rewards of each whole episode, by a tape.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local episodes = require "ipulua.script".arguments{{"episodes", 150, short = 40}}
math.randomseed(42)
keras.utils.set_random_seed(42)

local cart = {}
function cart.reset()
  cart.state, cart.time = {}, 0
  for i = 1, 4 do cart.state[i] = (math.random() - 0.5) * 0.1 end
  return cart.state
end
function cart.step(action) -- Barto, Sutton and Anderson (1983), in Euler steps
  local x, speed, angle, turn = table.unpack(cart.state)
  local force = action == 1 and 10 or -10
  local c, s = math.cos(angle), math.sin(angle)
  local push = (force + 0.05 * turn ^ 2 * s) / 1.1
  local turning = (9.8 * s - c * push) / (0.5 * (4 / 3 - 0.1 * c ^ 2 / 1.1))
  local pushed = push - 0.05 * turning * c / 1.1
  cart.state = {x + 0.02 * speed, speed + 0.02 * pushed, angle + 0.02 * turn, turn + 0.02 * turning}
  cart.time = cart.time + 1
  return cart.state, 1, math.abs(x) > 2.4 or math.abs(angle) > 0.2095 or cart.time >= 200
end

local input = keras.Input{shape = {4}}
local common = layers.Dense{64, activation = "relu"}(input)
local model = keras.Model{inputs = input,
  outputs = {layers.Dense{2, activation = "softmax"}(common), layers.Dense{1}(common)}}
local optimizer, huber = keras.optimizers.Adam{0.01}, keras.losses.Huber()

-- The return of each step: the discounted sum of the rewards from there on, normalised to mean 0
-- and variance 1.
local function returns_of(rewards)
  local list, sum = {}, 0
  for i = #rewards, 1, -1 do
    sum = rewards[i] + 0.99 * sum
    list[i] = sum
  end
  local returns = ipu.tensor(list)
  return (returns - returns:reduce_mean()) / (returns:reduce_std() + 1e-6)
end

local running, first = 0, nil
for episode = 1, episodes do
  local states, actions, rewards, state, done = {}, {}, {}, cart.reset(), false
  while not done do
    local probabilities = model(ipu.tensor{state})[1]:totable()[1]
    local action = math.random() < probabilities[1] and 0 or 1
    states[#states + 1], actions[#actions + 1] = state, action
    state, rewards[#rewards + 1], done = cart.step(action)
  end
  local worth = returns_of(rewards)
  local tape = ipu.GradientTape()
  local loss = tape(function()
    local probabilities, values = table.unpack(model(ipu.tensor(states)))
    values = values:squeeze{axis = {1}}
    local taken = ipu.one_hot(ipu.tensor(actions, {dtype = "int32"}), 2)
    local log_taken = ipu.log(ipu.reduce_sum(probabilities * taken, {axis = 1}))
    return ipu.reduce_sum(-log_taken * (worth - ipu.stop_gradient(values)))
      + #rewards * huber(worth, values)
  end)
  local weights = model.trainable_variables
  optimizer:apply_gradients(tape:gradient(loss, weights), weights)
  running = episode == 1 and #rewards or 0.05 * #rewards + 0.95 * running
  first = first or running
  if episode % 10 == 0 then
    print(string.format("episode %d: upright for %d steps, running mean %.1f", episode, #rewards,
      running))
  end
end
