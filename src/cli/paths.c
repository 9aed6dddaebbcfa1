#include "cli/paths.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "lua/module.h"

/* Puts out the folder of the executable and the one above it; false when they are not known. */
static bool find_executable(char own[PATH_MAX], char above[PATH_MAX]) {
  ssize_t n = readlink("/proc/self/exe", own, PATH_MAX - 1);
  if (n <= 0) return false;
  own[n] = '\0';
  char *slash = strrchr(own, '/');
  if (slash) *slash = '\0';
  strcpy(above, own);
  slash = slash ? strrchr(above, '/') : NULL;
  if (slash) *slash = '\0';
  return slash != NULL;
}

/* Puts our templates in package.path: in front of Lua's default path, wherever that is, so that
 * LUA_PATH and its ";;" keep their meaning. If LUA_PATH has no default, they are at the end. */
static void add_templates(lua_State *L, const char *ours) {
  int top = lua_gettop(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  const char *path = lua_tostring(L, -1), *standard = strstr(path, LUA_PATH_DEFAULT);
  if (standard) {
    const char *before = lua_pushlstring(L, path, (size_t)(standard - path));
    lua_pushfstring(L, "%s%s;%s", before, ours, standard);
  } else {
    lua_pushfstring(L, "%s;%s", path, ours);
  }
  lua_setfield(L, top + 1, "path");
  lua_settop(L, top);
}

/* The executable is ROOT/build/ipulua in the build tree, PREFIX/bin/ipulua when installed. */
bool paths_add(lua_State *L) {
  char own[PATH_MAX], above[PATH_MAX], folder[PATH_MAX + 32];
  if (!find_executable(own, above)) return false;
  snprintf(folder, sizeof folder, "%s/lib/lua/5.4/ipulua", above);
  module_offer_plugins(L, folder, false);
  snprintf(folder, sizeof folder, "%s/modules/ipulua", own);
  module_offer_plugins(L, folder, false);
  /* In a path template these two characters have a meaning of their own. */
  if (strpbrk(above, ";?")) return false;
  static const char *const folders[] = {"lua", "share/lua/5.4"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(folder, sizeof folder, "%s/%s/ipulua", above, folders[i]);
    if (!folder_exists(folder)) continue;
    snprintf(folder, sizeof folder, "%s/%s", above, folders[i]);
    add_templates(L, lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", folder, folder));
    lua_pop(L, 1);
    return true;
  }
  return false;
}
