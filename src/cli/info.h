/* `ipulua info`: version, features, plug-ins, CPU kernels, on standard output. */
#ifndef IPULUA_CLI_INFO_H
#define IPULUA_CLI_INFO_H
#include <lua.h>
#include <stdbool.h>

/* environment: whether it is asked which kernels are wanted. */
void info_print(lua_State *L, bool environment);
#endif
