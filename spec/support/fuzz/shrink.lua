-- Takes steps away from a program as long as it stays wrong.

local function copy(program)
  local out = {inputs = program.inputs, steps = {}, dtype = program.dtype,
    on_devices = program.on_devices}
  for i, step in ipairs(program.steps) do
    local operands = {}
    for k, operand in ipairs(step.operands) do
      operands[k] = {input = operand.input, wrap = operand.wrap, step = operand.step,
        result = operand.result}
    end
    out.steps[i] = {call = step.call, operands = operands, results = step.results,
      listed = step.listed}
  end
  return out
end

-- Without step k; nil where another one reads it.
local function without_step(program, k)
  local out = copy(program)
  table.remove(out.steps, k)
  for _, step in ipairs(out.steps) do
    for _, operand in ipairs(step.operands) do
      if operand.step == k then return nil end
      if operand.step and operand.step > k then operand.step = operand.step - 1 end
    end
  end
  return #out.steps > 0 and out or nil
end

-- Inputs that nobody reads go.
local function without_unread(program)
  local out, new = copy(program), {}
  out.inputs = {}
  for _, step in ipairs(out.steps) do
    for _, operand in ipairs(step.operands) do
      if operand.input then
        if not new[operand.input] then
          out.inputs[#out.inputs + 1] = program.inputs[operand.input]
          new[operand.input] = #out.inputs
        end
        operand.input = new[operand.input]
      end
    end
  end
  return out
end

---The smaller program and what is wrong with it.
return function(program, wrong, wrong_with)
  local changed = true
  while changed do
    changed = false
    for k = #program.steps, 1, -1 do
      local smaller = without_step(program, k)
      smaller = smaller and without_unread(smaller)
      local ok, words = pcall(wrong_with, smaller or program)
      if smaller and ok and words then program, wrong, changed = smaller, words, true end
    end
  end
  return program, wrong
end
