-- Values that layers have learnt outside of training, such as a vocabulary: constants of a program.
-- A count of changes is part of the keys of programs, so that none is taken that holds former
-- values.

local learned = {}

local changes = 0

---Values that a program may hold are others now.
function learned.change() changes = changes + 1 end

---How often that was so, as part of a program's key.
---@return string
function learned.key() return "l" .. changes end

return learned
