-- Who is told of each call of a layer: observed.call(layer, results), nil for nobody.

return {}
