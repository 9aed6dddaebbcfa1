return {family = "stages", names = {"none"}, random = function() end}
