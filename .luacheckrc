std = "lua54"
self = false
max_line_length = 130
files["spec"] = {std = "lua54+busted"}
