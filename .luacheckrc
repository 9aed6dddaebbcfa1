std = "lua54"
max_line_length = 130
files["spec"] = {std = "lua54+busted"}
