-- Lines about events, for programs that show or keep them themselves: where they go, and how many
-- there are.

local log = require "ipulua.base.log"

return {set_level = log.set_level, set_writer = log.set_writer}
