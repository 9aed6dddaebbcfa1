rockspec_format = "3.0"
package = "ipulua"
version = "0.1.0-1"
source = {url = "git+file://."}
description = {
  summary = "Train neural networks from Lua scripts, as on IPUs",
  detailed = "Tensors, automatic differentiation, Keras models, queues, loops and pipelines, compiled to programs in C.",
  license = "MIT",
}
supported_platforms = {"linux"}
dependencies = {"lua >= 5.4, < 5.5"}
external_dependencies = {
  JANSSON = {header = "jansson.h"}, LIBZIP = {header = "zip.h"}, ZLIB = {header = "zlib.h"},
}
build = {
  type = "make",
  build_target = "all",
  install_target = "install-rock",
  build_variables = {},
  install_variables = {BINDIR = "$(BINDIR)", LUA_LMOD = "$(LUADIR)", LUA_CMOD = "$(LIBDIR)"},
}
test = {type = "busted"}
