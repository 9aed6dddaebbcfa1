#include "cli/bundle.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The build writes two files: the concatenated texts, and the offset of each. Texts are in the
 * order of their names. */
__asm__(
    ".pushsection .rodata\n"
    "ipulua_bundle:\n"
    ".incbin \"" BUNDLE
    "\"\n"
    ".popsection\n");
__attribute__((visibility("hidden"))) extern const char ipulua_bundle[];

typedef struct Bundled {
  const char *name; /* "keras/losses.lua" */
  size_t at, bytes;
} Bundled;

static const Bundled table[] = {
#include "bundle.inc"
};

static int compare(const void *name, const void *row) {
  return strcmp(name, ((const Bundled *)row)->name);
}

static const Bundled *find(const char *name) {
  return bsearch(name, table, sizeof table / sizeof *table, sizeof *table, compare);
}

/* "ipulua.keras.losses" → keras/losses.lua; NULL if there is no such module. */
static const Bundled *find_module(lua_State *L, const char *module) {
  static const char library[] = "ipulua";
  enum { LENGTH = sizeof library - 1 };
  if (strncmp(module, library, LENGTH)) return NULL;
  if (!module[LENGTH]) return find("init.lua");
  if (module[LENGTH] != '.') return NULL;
  const char *path = luaL_gsub(L, module + LENGTH + 1, ".", "/");
  const Bundled *found = find(lua_pushfstring(L, "%s.lua", path));
  if (!found) found = find(lua_pushfstring(L, "%s/init.lua", path));
  return found;
}

/* Whether the module is a file of the part of package.path before Lua's default, or of all of it
 * without the default. */
static bool is_in_front(lua_State *L, const char *module) {
  lua_getglobal(L, "package");
  if (!lua_istable(L, -1) || lua_getfield(L, -1, "path") != LUA_TSTRING) return false;
  const char *path = lua_tostring(L, -1), *standard = strstr(path, LUA_PATH_DEFAULT);
  if (standard == path || !*path) return false;
  lua_getfield(L, -2, "searchpath");
  lua_pushstring(L, module);
  lua_pushlstring(L, path, standard ? (size_t)(standard - path) : strlen(path));
  lua_call(L, 2, 1);
  return lua_isstring(L, -1);
}

/* A searcher, as package.searchers has them. */
static int search(lua_State *L) {
  const char *module = luaL_checkstring(L, 1);
  const Bundled *found = find_module(L, module);
  if (!found || is_in_front(L, module)) return 0;
  const char *source = lua_pushfstring(L, "@" BUNDLE_FOLDER "%s", found->name);
  if (luaL_loadbufferx(L, ipulua_bundle + found->at, found->bytes, source, "t") != LUA_OK)
    return lua_error(L);
  lua_pushstring(L, source + 1);
  return 2;
}

/* ("machine/report/report.html") → its text, nil if there is none */
static int read(lua_State *L) {
  const Bundled *found = find(luaL_checkstring(L, 1));
  if (found) lua_pushlstring(L, ipulua_bundle + found->at, found->bytes);
  else lua_pushnil(L);
  return 1;
}

static int open_bundle(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, read);
  lua_setfield(L, -2, "read");
  return 1;
}

void bundle_add(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_bundle);
  lua_setfield(L, -2, "ipulua.bundle");
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = luaL_len(L, -1); i >= 2; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, search);
  lua_rawseti(L, -2, 2); /* after package.preload, before files */
  lua_pop(L, 3);
}
