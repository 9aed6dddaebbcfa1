#include "cli/complete.h"

#include <ctype.h>
#include <dirent.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/cursor.h"

const LazyGlobal lazy_globals[] = {{"ipu", "ipulua"}, {"keras", "ipulua.keras"}, {NULL, NULL}};

static const char *const keywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while",
};

enum { CHAIN = 16 /* __index tables followed */ };

/* Adds text + suffix to the set on top of the stack if it begins with the stem. */
static void add(lua_State *L, const char *text, const char *suffix, const char *stem,
                size_t length) {
  if (strncmp(text, stem, length)) return;
  luaL_checkstack(L, 4, "completion");
  lua_pushfstring(L, "%s%s", text, suffix);
  lua_pushboolean(L, true);
  lua_rawset(L, -3);
}

static bool is_identifier(const char *s, size_t n) {
  if (!n || isdigit((unsigned char)s[0])) return false;
  for (size_t i = 0; i < n; i++)
    if (!cursor_is_name(s[i])) return false;
  return true;
}

/* Adds the names in the table at index; methods: functions only. Of names that begin with
 * `hidden` underscores only those that the stem begins. Stack top: the set. */
static void add_keys(lua_State *L, int index, const char *stem, size_t length, bool methods,
                     const char *hidden) {
  luaL_checkstack(L, 6, "completion");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    size_t n;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : NULL;
    bool wanted = key && is_identifier(key, n) && (!methods || lua_isfunction(L, -1));
    if (wanted && !(length == 0 && !strncmp(key, hidden, strlen(hidden)))) {
      lua_pushvalue(L, -3);
      add(L, key, "", stem, length);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
}

/* Replaces the value on top by its metatable's __index; pops it if that is not a table. If __index
 * is a function, the metatable may have the methods in a table "methods". */
static bool follow_index(lua_State *L) {
  if (!lua_getmetatable(L, -1)) {
    lua_pop(L, 1);
    return false;
  }
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  if (!lua_istable(L, -1)) {
    lua_pop(L, 1);
    lua_pushliteral(L, "methods");
    lua_rawget(L, -2);
  }
  if (!lua_istable(L, -1)) {
    lua_pop(L, 3);
    return false;
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
  return true;
}

/* A module of the library, whose code may be trusted to run here. */
static bool is_library(lua_State *L, int index) {
  bool found = false;
  index = lua_absindex(L, index);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (!strncmp(name, "ipulua", 6) && lua_rawequal(L, -1, index)) found = true;
  }
  lua_pop(L, 1);
  if (found || !lua_getmetatable(L, index)) return found;
  /* of lua/ipulua/base/modules.lua: a module that is no file of its own */
  lua_pushliteral(L, "guarded");
  lua_rawget(L, -2);
  found = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return found;
}

/* Pushes the list of names that require("ipulua.tools.help")'s function gives for the value at
 * index. It runs none of the script's code. False, with nothing pushed, if there are none. */
static bool push_help(lua_State *L, const char *function, int index, bool methods) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool loaded = lua_getfield(L, -1, "ipulua.core") != LUA_TNIL;
  lua_settop(L, top);
  if (!loaded) return false;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ipulua.tools.help");
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1)) {
    lua_pushstring(L, function);
    lua_rawget(L, -2);
    lua_pushvalue(L, index);
    lua_pushboolean(L, methods);
    if (lua_isfunction(L, -3) && lua_pcall(L, 2, 1, 0) == LUA_OK && lua_istable(L, -1)) {
      lua_replace(L, top + 1);
      lua_settop(L, top + 1);
      return true;
    }
  }
  lua_settop(L, top);
  return false;
}

/* Pushes the names that a module of the library loads on demand, its __names(). */
static bool push_listed(lua_State *L, int index) {
  if (!lua_istable(L, index) || !is_library(L, index)) return false;
  lua_pushvalue(L, index);
  lua_pushliteral(L, "__names");
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (lua_isfunction(L, -1) && lua_pcall(L, 0, 1, 0) == LUA_OK && lua_istable(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

/* The public names of a module of the library; false, nothing pushed, if the value at index is
 * none. */
static bool push_public(lua_State *L, int index, bool methods) {
  return lua_istable(L, index) && !methods && is_library(L, index) &&
         push_help(L, "names", index, methods);
}

/* Fields and methods of objects of the library. */
static bool push_members(lua_State *L, int index, bool methods) {
  bool object = lua_isuserdata(L, index) || lua_istable(L, index);
  if (!object || !lua_getmetatable(L, index)) return false;
  lua_pop(L, 1);
  return push_help(L, "members", index, methods);
}

static bool push_names(lua_State *L, int index, bool methods) {
  return push_public(L, index, methods) || (!methods && push_listed(L, index)) ||
         push_members(L, index, methods);
}

/* Whether push_names has found all fields and methods of an object. That holds for tables, but not
 * for tensors and variables. */
static bool is_described(lua_State *L, int index, bool methods) {
  bool described = lua_istable(L, index) && push_members(L, index, methods);
  if (described) lua_pop(L, 1);
  return described;
}

/* Adds the names of the list to the set at the stack's top, below which the list is, and removes
 * the list. */
static void add_listed(lua_State *L, const char *stem, size_t length) {
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -2); i <= n; i++) {
    size_t bytes;
    lua_rawgeti(L, -2, i);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &bytes) : NULL;
    lua_insert(L, -2);
    if (name && is_identifier(name, bytes)) add(L, name, "", stem, length);
    lua_remove(L, -2);
  }
  lua_remove(L, -2);
}

/* Replaces value and set on the stack by the set, with the fields of the value added. */
static void add_fields(lua_State *L, const char *stem, size_t length, bool methods) {
  lua_insert(L, -2);
  int set = lua_gettop(L) - 1;
  /* and nothing else: a module's other fields are its own */
  if (push_public(L, set + 1, methods)) {
    lua_replace(L, set + 1);
    lua_insert(L, -2);
    add_listed(L, stem, length);
    return;
  }
  for (int i = 0; i < CHAIN; i++) {
    int value = lua_gettop(L);
    bool listed = i == 0 && push_names(L, value, methods);
    lua_pushvalue(L, set);
    if (listed) add_listed(L, stem, length);
    bool described = listed && is_described(L, value, methods);
    if (lua_istable(L, value) && !(described && methods))
      add_keys(L, value, stem, length, methods, described ? "_" : "__");
    lua_pop(L, 1);
    if (described) break;
    if (!follow_index(L)) return;
  }
  lua_pop(L, 1);
}

static int index_protected(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

/* Pushes the field that the value at index lists under the key and makes on demand, else nil. */
static void push_listed_field(lua_State *L, int index, int key) {
  bool listed = false;
  if (push_names(L, index, false)) {
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n && !listed; i++) {
      lua_rawgeti(L, -1, i);
      listed = lua_rawequal(L, -1, key);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  if (listed) {
    lua_pushcfunction(L, index_protected);
    lua_pushvalue(L, index);
    lua_pushvalue(L, key);
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) return;
    lua_pop(L, 1);
  }
  lua_pushnil(L);
}

/* Pushes the raw field of the table at index, or nil. */
static void push_own_field(lua_State *L, int index, int key) {
  lua_pushvalue(L, key);
  lua_rawget(L, index);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  push_listed_field(L, index, key);
}

/* Replaces value and key on the stack by the field, nil if there is none to be seen without
 * running code of the script. */
static void get_field(lua_State *L) {
  int key = lua_gettop(L);
  lua_pushvalue(L, key - 1);
  if (lua_isuserdata(L, -1)) {
    push_listed_field(L, key + 1, key);
    lua_replace(L, key - 1);
    lua_settop(L, key - 1);
    return;
  }
  for (int i = 0; i < CHAIN; i++) {
    if (lua_istable(L, -1)) {
      push_own_field(L, key + 1, key);
      if (!lua_isnil(L, -1)) {
        lua_replace(L, key - 1);
        lua_settop(L, key - 1);
        return;
      }
      lua_pop(L, 1);
    }
    if (!follow_index(L)) break;
  }
  lua_settop(L, key - 2);
  lua_pushnil(L);
}

/* Pushes a loaded module, requiring it (quietly) if need be. */
static void push_module(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushstring(L, name);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
}

static void push_global(lua_State *L, const char *name, size_t length) {
  lua_pushglobaltable(L);
  lua_pushlstring(L, name, length);
  get_field(L);
  if (!lua_isnil(L, -1)) return;
  for (const LazyGlobal *lazy = lazy_globals; lazy->name; lazy++) {
    if (strlen(lazy->name) != length || strncmp(lazy->name, name, length)) continue;
    lua_pop(L, 1);
    push_module(L, lazy->module);
    return;
  }
}

/* Pushes the value of the expression s[begin, end); nil if it is unknown. */
static void push_path(lua_State *L, const char *s, size_t begin, size_t end) {
  size_t i = begin;
  while (i < end && cursor_is_name(s[i])) i++;
  if (i == begin || isdigit((unsigned char)s[begin])) {
    lua_pushnil(L);
    return;
  }
  push_global(L, s + begin, i - begin);
  while (i < end && !lua_isnil(L, -1)) {
    size_t from = ++i; /* past the ".", ":" or "[" */
    if (s[from - 1] == '[') {
      lua_pushinteger(L, (lua_Integer)strtoll(s + from, NULL, 10));
      while (i < end && s[i] != ']') i++;
      if (i < end) i++;
    } else {
      while (i < end && cursor_is_name(s[i])) i++;
      lua_pushlstring(L, s + from, i - from);
    }
    get_field(L);
  }
}

/* Pushes help.rows(f), or nil. */
static void push_rows(lua_State *L, int f, int help) {
  lua_pushliteral(L, "rows");
  lua_rawget(L, help);
  lua_pushvalue(L, f);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* Adds "name = " for the options of the call around the cursor. help stands for
 * require("ipulua.tools.help"). help.options maps a function or class to a list of names, or to
 * rows that begin with the name. Other options are the argument_rows of a class, or come from
 * help.rows. */
static void add_options(lua_State *L, const Cursor *p, const char *s, const char *stem,
                        size_t length) {
  if (p->depth < 1 || p->depth > BRACKETS || s[p->open[p->depth - 1]] != '{') return;
  size_t end = cursor_callee_end(p, s, p->open[p->depth - 1]);
  size_t begin = cursor_path_begin(s, end);
  if (begin == end) return;
  int set = lua_gettop(L);
  push_path(L, s, begin, end);
  if (!lua_isnil(L, -1)) {
    push_module(L, "ipulua.tools.help");
    if (lua_istable(L, -1)) {
      lua_pushliteral(L, "options");
      lua_rawget(L, -2);
      if (lua_istable(L, -1)) {
        lua_pushvalue(L, set + 1);
        lua_rawget(L, -2);
      }
    }
    if (!lua_istable(L, -1) && lua_istable(L, set + 1)) {
      lua_pushliteral(L, "argument_rows");
      lua_rawget(L, set + 1);
    }
    if (!lua_istable(L, -1) && lua_isfunction(L, set + 1) && lua_istable(L, set + 2))
      push_rows(L, set + 1, set + 2);
  }
  int list = lua_gettop(L);
  for (lua_Integer i = 1, n = lua_istable(L, list) ? (lua_Integer)lua_rawlen(L, list) : 0; i <= n;
       i++) {
    if (lua_rawgeti(L, list, i) == LUA_TTABLE) lua_rawgeti(L, -1, 1);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pushvalue(L, set);
    if (name) add(L, name, " = ", stem, length);
    lua_settop(L, list);
  }
  lua_settop(L, set);
}

static void add_globals(lua_State *L, const char *stem, size_t length) {
  lua_pushglobaltable(L);
  lua_pushvalue(L, -2);
  add_fields(L, stem, length, false);
  lua_pop(L, 1);
  for (const LazyGlobal *lazy = lazy_globals; lazy->name; lazy++)
    add(L, lazy->name, "", stem, length);
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    add(L, keywords[i], "", stem, length);
}

static void add_names(lua_State *L, const Cursor *p, const char *s, size_t n, size_t *stem_length) {
  size_t begin = n;
  while (begin > 0 && cursor_is_name(s[begin - 1])) begin--;
  const char *stem = s + begin;
  size_t length = *stem_length = n - begin;
  char before = begin > 0 ? s[begin - 1] : '\0';
  bool field = (before == '.' && !(begin > 1 && s[begin - 2] == '.')) ||
               (before == ':' && !(begin > 1 && s[begin - 2] == ':'));
  if (field) {
    size_t from = cursor_path_begin(s, begin - 1);
    push_path(L, s, from, begin - 1);
    lua_pushvalue(L, -2);
    add_fields(L, stem, length, before == ':');
    lua_remove(L, -2);
  } else {
    add_options(L, p, s, stem, length);
    add_globals(L, stem, length);
  }
}

/* Names with control characters: a line can't hold a newline, and the terminal interprets
 * escapes. */
static bool has_control(const char *name) {
  while (*name && !iscntrl((unsigned char)*name)) name++;
  return *name != '\0';
}

/* Adds the files whose path begins with text; a folder's name ends with a slash. */
static void add_files(lua_State *L, const char *text, size_t length) {
  const char *slash = length ? memrchr(text, '/', length) : NULL;
  size_t folder_length = slash ? (size_t)(slash - text) + 1 : 0;
  const char *stem = text + folder_length;
  size_t stem_length = length - folder_length;
  const char *folder = lua_pushlstring(L, text, folder_length);
  lua_insert(L, -2);
  /* Names are copied before anything that can raise, so that the folder is always closed. */
  enum { NAMES = 1 << 16 };
  char *names = lua_newuserdatauv(L, NAMES, 0);
  lua_insert(L, -2);
  size_t used = 0;
  DIR *d = opendir(folder_length ? folder : ".");
  for (struct dirent *entry; d && (entry = readdir(d));) {
    size_t n = strlen(entry->d_name) + 1;
    bool hidden = (entry->d_name[0] == '.' && stem_length == 0) || has_control(entry->d_name);
    if (hidden || strncmp(entry->d_name, stem, stem_length) || used + n > NAMES) continue;
    memcpy(names + used, entry->d_name, n);
    used += n;
  }
  if (d) closedir(d);
  for (const char *name = names; name < names + used; name += strlen(name) + 1) {
    struct stat kind;
    const char *path = lua_pushfstring(L, "%s%s", folder, name);
    bool is_folder = !stat(path, &kind) && S_ISDIR(kind.st_mode);
    lua_insert(L, -2);
    add(L, name, is_folder ? "/" : "", stem, stem_length);
    lua_remove(L, -2);
  }
  lua_remove(L, -2);
  lua_remove(L, -2);
}

/* Replaces the set on top by the sorted list of its keys. */
static void sort_set(lua_State *L) {
  int set = lua_gettop(L);
  size_t count = 0, i = 0;
  for (lua_pushnil(L); lua_next(L, set); lua_pop(L, 1)) count++;
  const char **texts = lua_newuserdatauv(L, (count + 1) * sizeof *texts, 0);
  for (lua_pushnil(L); lua_next(L, set); lua_pop(L, 1)) texts[i++] = lua_tostring(L, -2);
  qsort(texts, count, sizeof *texts, text_order);
  lua_createtable(L, (int)count, 0);
  for (i = 0; i < count; i++) {
    lua_pushstring(L, texts[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_replace(L, set);
  lua_settop(L, set);
}

void complete_push(lua_State *L, const char *text, size_t length, size_t *stem) {
  Cursor cursor = cursor_find(text, length);
  luaL_checkstack(L, 20, "completion");
  lua_newtable(L);
  *stem = 0;
  if (cursor.string) {
    const char *slash = memrchr(text + cursor.start, '/', length - cursor.start);
    *stem = slash ? (size_t)(text + length - slash) - 1 : length - cursor.start;
    add_files(L, text + cursor.start, length - cursor.start);
  } else if (!cursor.comment) {
    add_names(L, &cursor, text, length, stem);
  }
  sort_set(L);
}
