/* `ipulua info`: version, features, plug-ins, CPU kernels, on standard output. */
#ifndef IPULUA_CLI_INFO_H
#define IPULUA_CLI_INFO_H
#include <lua.h>
#include <stdbool.h>

/* environment: whether environment variables choose the kernels. */
void info_print(lua_State *L, bool environment);
#endif
