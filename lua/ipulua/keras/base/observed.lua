-- Observers of the calls of layers: observed.call(layer, results); nil for none.

return {}
