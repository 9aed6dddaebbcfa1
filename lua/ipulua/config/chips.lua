-- The names of the chips, from the core's table (src/target/chips.h).

local core = require "ipulua.core"

local chips = {}

local function any_of(words)
  return table.concat(words, ", ", 1, #words - 1) .. " or " .. words[#words]
end

local names, descriptions <const> = {}, {}
---The architectures, which IPUConfig calls versions; each stands for its first chip.
chips.versions = {}
for _, chip in ipairs(core.chips()) do
  names[#names + 1] = chip.name:lower()
  if not chips.versions[chip.architecture] then
    chips.versions[chip.architecture] = true
    table.insert(chips.versions, chip.architecture)
    descriptions[#descriptions + 1] = string.format("%s (%d tiles of %d KiB)", chip.architecture,
      chip.tiles, chip.tile_bytes // 1024)
  end
end

chips.names = table.concat(names, ", ")
chips.any_version = any_of(chips.versions)
chips.described = any_of(descriptions)

return chips
