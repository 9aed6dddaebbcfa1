#include "cli/paths.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path) {
  struct stat s;
  return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* The folder that holds our Lua files, "" when there is none. The executable is ROOT/build/ipulua in the
 * build tree, PREFIX/bin/ipulua when installed. */
static void find_folder(char *folder, size_t size) {
  char root[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", root, sizeof root - 1);
  folder[0] = '\0';
  if (n <= 0) return;
  root[n] = '\0';
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(root, '/');
    if (!slash) return;
    *slash = '\0';
  }
  static const char *const places[] = {"lua", "share/lua/5.4"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char library[PATH_MAX + 32];
    snprintf(library, sizeof library, "%s/%s/ipulua", root, places[i]);
    if (!is_folder(library)) continue;
    snprintf(folder, size, "%s/%s", root, places[i]);
    return;
  }
}

bool paths_add(lua_State *L) {
  char folder[PATH_MAX + 16];
  find_folder(folder, sizeof folder);
  /* In a path template these two characters have a meaning of their own. */
  if (!folder[0] || strpbrk(folder, ";?")) return false;
  int top = lua_gettop(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  const char *path = lua_tostring(L, -1);
  const char *ours = lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", folder, folder);
  const char *standard = strstr(path, LUA_PATH_DEFAULT);
  if (standard) {
    const char *before = lua_pushlstring(L, path, (size_t)(standard - path));
    lua_pushfstring(L, "%s%s;%s", before, ours, standard);
  } else {
    lua_pushfstring(L, "%s;%s", path, ours);
  }
  lua_setfield(L, top + 1, "path");
  lua_settop(L, top);
  return true;
}
