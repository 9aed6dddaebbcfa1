-- The message for scripts that give a model texts. Texts are no tensors, and stay on the host.

local class = require "ipulua.base.class"
local host_strings = require "ipulua.data.host_strings"

local texts = {}

local words <const> = "; texts are no tensors: TextVectorization or StringLookup numbers them "
  .. "before the model, vectorize(texts), in a dataset ds:map(vectorize)"

-- Objects that take texts, and lists of texts.
local function has_texts(value)
  local c = class.of(value)
  return c ~= nil and c.takes_texts == true or host_strings.is(value)
end

---The words that help, or "" where no texts were given.
---@param value any
---@return string
function texts.hint(value) return has_texts(value) and words or "" end

return texts
