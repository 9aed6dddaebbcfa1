/* The tracer of `make walk`, preloaded into a command that is compiled with -finstrument-functions.
 * When a C function is entered for the first time, it writes a line. The line has the open Lua
 * frames and C functions, the outermost first:
 *
 *   lua/ipulua/keras/training/fit.lua … | offset offset …
 * Offsets are as addr2line takes them for the command. It records between walk.start(path) and
 * walk.stop(), on the thread that has started it. */
#define _GNU_SOURCE
#include <lauxlib.h>
#include <link.h>
#include <lua.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 4096, SLOTS = 1 << 16 };

#define QUIET __attribute__((no_instrument_function))

static FILE *out;
static lua_State *state;
static uintptr_t base, seen[SLOTS];
static _Thread_local uintptr_t open_function[DEEPEST];
static _Thread_local int depth;
static _Thread_local int records;

QUIET static int is_new(uintptr_t f) {
  size_t slot = (f >> 2) * 2654435761u % SLOTS;
  while (seen[slot] && seen[slot] != f) slot = (slot + 1) % SLOTS;
  if (seen[slot]) return 0;
  seen[slot] = f;
  return 1;
}

QUIET static void write_lua(void) {
  lua_Debug frame;
  int count = 0;
  while (lua_getstack(state, count, &frame)) count++;
  while (count-- > 0) {
    lua_getstack(state, count, &frame);
    lua_getinfo(state, "S", &frame);
    if (frame.source[0] == '@') fprintf(out, "%s ", frame.source + 1);
  }
}

QUIET void __cyg_profile_func_enter(void *function, void *caller) {
  (void)caller;
  uintptr_t f = (uintptr_t)function;
  if (depth < DEEPEST) open_function[depth] = f;
  depth++;
  if (!records || !out || !is_new(f)) return;
  records = 0; /* calls here do not belong to the walk */
  write_lua();
  fputc('|', out);
  for (int i = 0; i < depth && i < DEEPEST; i++)
    fprintf(out, " %#zx", (size_t)(open_function[i] - base));
  fputc('\n', out);
  records = 1;
}

QUIET void __cyg_profile_func_exit(void *function, void *caller) {
  (void)function, (void)caller;
  if (depth > 0) depth--;
}

/* The command is the first object that is listed. */
QUIET static int find_command(struct dl_phdr_info *object, size_t size, void *context) {
  (void)size, (void)context;
  base = object->dlpi_addr;
  return 1;
}

QUIET static int start(lua_State *L) {
  dl_iterate_phdr(find_command, NULL);
  out = fopen(luaL_checkstring(L, 1), "w");
  if (!out) return luaL_error(L, "%s can't be written", lua_tostring(L, 1));
  state = L;
  memset(seen, 0, sizeof seen);
  records = 1;
  return 0;
}

QUIET static int stop(lua_State *L) {
  (void)L;
  records = 0;
  if (out) fclose(out);
  out = NULL;
  return 0;
}

QUIET int luaopen_walk(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", start}, {"stop", stop}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
