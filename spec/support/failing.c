/* A module for Lua that stands in front of malloc (LD_PRELOAD). arm(n) lets the nth allocation of
 * this thread fail. disarm() gives the number of allocations. Lua's own go by realloc, and never
 * fail. */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static __thread long long count, failing;

static bool fails(void) {
  if (!failing || ++count != failing) return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }

static int arm(lua_State *L) {
  failing = luaL_checkinteger(L, 1);
  count = 0;
  return 0;
}

static int disarm(lua_State *L) {
  failing = 0;
  lua_pushinteger(L, count);
  return 1;
}

int luaopen_failing(lua_State *L) {
  luaL_newlib(L, ((const luaL_Reg[]){{"arm", arm}, {"disarm", disarm}, {NULL, NULL}}));
  return 1;
}
