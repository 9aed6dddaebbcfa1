std = "lua54"
self = false
max_line_length = 100
max_string_line_length = false
files["spec"] = {std = "lua54+busted"}
files["lua/ipulua/ffi.lua"] = {std = "luajit"}
files["lua/ipulua/ffi"] = {std = "luajit"}
