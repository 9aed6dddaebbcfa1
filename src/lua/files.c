/* Files of tensors for Lua, and functions of the process: clock and terminal. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/lock.h"
#include "base/sha256.h"
#include "lua/bind.h"
#include "tensor/formats.h"

static int push_read(lua_State *L, Tensor *t, const Error *e) {
  bind_check(L, e);
  bind_push_tensor(L, t);
  return 1;
}

/* ---- named tensors ---- */

#define NAMED_NAME "ipulua.NamedTensors"

static NamedTensors *new_named(lua_State *L) {
  NamedTensors *n = lua_newuserdatauv(L, sizeof *n, 0);
  named_init(n);
  luaL_setmetatable(L, NAMED_NAME);
  return n;
}

static int free_named(lua_State *L) {
  named_clear(lua_touserdata(L, 1));
  return 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys of the table at index, sorted, in a userdata that is pushed. */
static const char **sorted_names(lua_State *L, int index, int *count) {
  int n = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      bind_fail(L, ERR_TYPE, "save: tensors are saved by name, got a key of type %s",
                luaL_typename(L, -2));
    n++;
  }
  const char **names = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *names, 0);
  int i = 0;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    names[i] = lua_tostring(L, -2);
    if (strlen(names[i++]) != lua_rawlen(L, -2))
      bind_fail(L, ERR_VALUE, "save: no file can hold a name with a NUL in it: '%s\\0…'",
                names[i - 1]);
  }
  qsort(names, (size_t)n, sizeof *names, by_name);
  *count = n;
  return names;
}

/* The names of the list at index, in its order, in a userdata that is pushed. The table of
 * tensors keeps them alive. */
static const char **listed_names(lua_State *L, int index, int *count) {
  int n = (int)lua_rawlen(L, index);
  const char **names = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *names, 0);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, index, i + 1);
    names[i] = luaL_checkstring(L, -1);
    lua_pop(L, 1);
  }
  *count = n;
  return names;
}

/* Replaces a table of tensors by name by the one that a file of such a format holds. A list is a
 * tensor itself. */
static void only_tensor(lua_State *L, int index, const char *ending) {
  if (lua_rawlen(L, index)) return;
  int count;
  const char **names = sorted_names(L, index, &count);
  if (count != 1)
    bind_fail(L, ERR_VALUE,
              "save: a %s holds one tensor, got %d; save them as .npz or .safetensors", ending,
              count);
  lua_getfield(L, index, names[0]);
  lua_replace(L, index);
}

/* A path, which ends where C says; a NUL in it would name another file. */
static const char *check_path(lua_State *L, int index, const char *who) {
  size_t bytes;
  const char *path = luaL_checklstring(L, index, &bytes);
  if (strlen(path) != bytes)
    bind_fail(L, ERR_VALUE, "%s: the path '%s' has a NUL in it", who, path);
  return path;
}

static const TensorFormat *format_of(lua_State *L, const char *who, const char *path,
                                     const char *ending) {
  char text[FORMAT_ENDINGS_TEXT];
  const TensorFormat *format = tensor_format(ending);
  if (!format)
    bind_fail(L, ERR_VALUE, "%s: '%s' must end in %s", who, path, tensor_format_endings(text));
  return format;
}

/* The texts of the table at index. */
static void add_metadata(lua_State *L, NamedTensors *n, int index) {
  Error e = {0};
  int count;
  const char **names = sorted_names(L, index, &count);
  for (int i = 0; i < count; i++) {
    lua_getfield(L, index, names[i]);
    named_add_metadata(&e, n, names[i], luaL_checkstring(L, -1));
    bind_check(L, &e);
    lua_pop(L, 1);
  }
}

static int save_one(lua_State *L, const char *path, const TensorFormat *format) {
  Error e = {0};
  if (lua_istable(L, 2)) only_tensor(L, 2, format->ending);
  NamedTensors *n = new_named(L);
  named_add(&e, n, "", bind_concrete(L, 2, lua_istable(L, 2) ? "save: the list" : "save"));
  if (e.status == OK) format->write(&e, path, n);
  bind_check(L, &e);
  return 0;
}

/* (path, {name = tensor} | tensor, {key = text} | nil, names in the order in which they are
 * written | nil: sorted) */
static int save(lua_State *L) {
  const char *path = check_path(L, 1, "save");
  Error e = {0};
  lua_settop(L, 4);
  const TensorFormat *format = format_of(L, "save", path, path);
  if (format->one) return save_one(L, path, format);
  if (!lua_istable(L, 2))
    bind_fail(L, ERR_TYPE,
              "save: '%s' holds tensors by name, as in {x = tensor}; a .npy holds a single one",
              path);
  NamedTensors *n = new_named(L);
  int count;
  const char **names = lua_istable(L, 4) ? listed_names(L, 4, &count) : sorted_names(L, 2, &count);
  for (int i = 0; i < count; i++) {
    lua_pushfstring(L, "save: '%s'", names[i]);
    lua_getfield(L, 2, names[i]);
    Tensor *t = bind_concrete(L, -1, lua_tostring(L, -2));
    named_add(&e, n, names[i], t);
    bind_check(L, &e);
    lua_pop(L, 3);
  }
  if (lua_istable(L, 3)) add_metadata(L, n, 3);
  format->write(&e, path, n);
  bind_check(L, &e);
  return 0;
}

/* (path, ending | nil: the path's) → {name = tensor}, metadata, names as they stand in the file;
 * a .npy gives its tensor */
static int load(lua_State *L) {
  const char *path = check_path(L, 1, "load"), *ending = luaL_optstring(L, 2, path);
  Error e = {0};
  const TensorFormat *format = format_of(L, "load", path, ending);
  NamedTensors *n = new_named(L);
  format->read(&e, path, n);
  if (format->one && e.status == OK) return push_read(L, tensor_retain(n->tensor[0]), &e);
  bind_check(L, &e);
  lua_createtable(L, 0, n->count);
  for (int i = 0; i < n->count; i++) {
    bind_push_tensor(L, tensor_retain(n->tensor[i]));
    lua_setfield(L, -2, n->name[i]);
  }
  lua_createtable(L, 0, n->metadata_count);
  for (int i = 0; i < n->metadata_count; i++) {
    bind_set_text(L, n->key[i], n->value[i]);
  }
  bind_push_texts(L, n->name, n->count);
  return 3;
}

/* () → the formats: a list of {ending = , one = , metadata = } */
static int file_formats(lua_State *L) {
  const TensorFormat *format;
  lua_newtable(L);
  for (int i = 0; (format = tensor_format_at(i)); i++) {
    lua_createtable(L, 0, 3);
    bind_set_text(L, "ending", format->ending);
    bind_set_flag(L, "one", format->one);
    bind_set_flag(L, "metadata", format->metadata);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int push_bytes(lua_State *L) {
  lua_pushlstring(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

void bind_push_freed(lua_State *L, char *data, size_t bytes) {
  lua_pushcfunction(L, push_bytes);
  lua_pushlightuserdata(L, data);
  lua_pushinteger(L, (lua_Integer)bytes);
  int status = lua_pcall(L, 2, 1, 0);
  free(data);
  if (status != LUA_OK) lua_error(L);
}

/* (path, limit in bytes) → the text of a file; or nil, why there is none, and the error's kind */
static int content(lua_State *L) {
  Error e = {0};
  void *data = NULL;
  size_t bytes = 0;
  if (file_read_from(&e, luaL_checkstring(L, 1), (size_t)luaL_checkinteger(L, 2), false,
                     file_no_zero_first, &data, &bytes) != OK) {
    lua_pushnil(L);
    lua_pushstring(L, e.message);
    lua_pushstring(L, e.status == ERR_NOT_FOUND ? "not_found"
                      : e.status == ERR_RUNTIME ? "runtime"
                                                : "value");
    return 3;
  }
  bind_push_freed(L, data, bytes);
  return 1;
}

static int exists(lua_State *L) {
  lua_pushboolean(L, file_exists(luaL_checkstring(L, 1)));
  return 1;
}

static int replace_file(lua_State *L) { /* (path, text): all or nothing */
  size_t bytes;
  const char *text = luaL_checklstring(L, 2, &bytes);
  Error e = {0};
  file_write(&e, luaL_checkstring(L, 1), text, bytes);
  bind_check(L, &e);
  return 0;
}

static int file_hash(lua_State *L) { /* (path) → SHA-256 in hexadecimal */
  Error e = {0};
  void *data = NULL;
  size_t bytes = 0;
  char text[SHA256_TEXT];
  if (file_read(&e, luaL_checkstring(L, 1), 0, false, &data, &bytes) != OK) bind_raise(L, &e);
  sha256_text(data, bytes, text);
  free(data);
  lua_pushstring(L, text);
  return 1;
}

static int text_hash(lua_State *L) { /* (text) → SHA-256 in hexadecimal */
  size_t bytes;
  const char *data = luaL_checklstring(L, 1, &bytes);
  char text[SHA256_TEXT];
  sha256_text(data, bytes, text);
  lua_pushstring(L, text);
  return 1;
}

/* ---- folders ---- */

static int folder_there(lua_State *L) {
  lua_pushboolean(L, folder_exists(luaL_checkstring(L, 1)));
  return 1;
}

static int make_folder(lua_State *L) {
  Error e = {0};
  folder_make(&e, luaL_checkstring(L, 1));
  bind_check(L, &e);
  return 0;
}

#define LIST_NAME "ipulua.FolderList"
typedef struct FolderList {
  char **name;
  int count;
} FolderList;

static int free_list(lua_State *L) {
  FolderList *f = lua_touserdata(L, 1);
  folder_list_free(f->name, f->count);
  *f = (FolderList){.name = NULL};
  return 0;
}

static int list_folder(lua_State *L) { /* (path) → names, sorted */
  const char *path = luaL_checkstring(L, 1);
  FolderList *f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = (FolderList){.name = NULL};
  luaL_setmetatable(L, LIST_NAME);
  Error e = {0};
  folder_list(&e, path, &f->name, &f->count);
  bind_check(L, &e);
  bind_push_texts(L, f->name, f->count);
  return 1;
}

/* (from, to): the folder `from` takes the place of `to`, which is removed. */
static int replace_folder(lua_State *L) {
  const char *from = luaL_checkstring(L, 1), *to = luaL_checkstring(L, 2);
  bool swapped = false;
  Error e = {0};
  if (folder_replace(&e, from, to, &swapped) == OK && swapped) folder_remove(&e, from);
  bind_check(L, &e);
  return 0;
}

static int remove_folder(lua_State *L) {
  Error e = {0};
  folder_remove(&e, luaL_checkstring(L, 1));
  bind_check(L, &e);
  return 0;
}

#define LOCK_NAME "ipulua.FolderLock"

static int free_lock(lua_State *L) {
  FolderLock **l = lua_touserdata(L, 1);
  folder_unlock(*l);
  *l = NULL;
  return 0;
}

/* The identity of a folder, however its path is written: device and number. */
static void push_identity(lua_State *L, const char *folder) {
  struct stat info = {.st_dev = 0};
  if (stat(folder, &info) != 0) lua_pushfstring(L, "%s", folder);
  else lua_pushfstring(L, "%I:%I", (LUAI_UACINT)info.st_dev, (LUAI_UACINT)info.st_ino);
}

/* (folder, seconds to wait) → a lock for unlock_folder, which holds until then or the state's
 * end; nil where the state has one. An error names the process whose it is. */
static int lock_folder(lua_State *L) {
  const char *folder = luaL_checkstring(L, 1);
  double seconds = luaL_checknumber(L, 2);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LOCK_NAME "s");
  push_identity(L, folder);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) != LUA_TNIL) {
    const FolderLock *held = *(FolderLock **)lua_touserdata(L, -1);
    if (held && folder_lock_holds(held, folder)) return 0;
  }
  lua_pop(L, 1);
  FolderLock **l = lua_newuserdatauv(L, sizeof *l, 0);
  *l = NULL;
  luaL_setmetatable(L, LOCK_NAME);
  Error e = {0};
  *l = folder_lock(&e, folder, seconds);
  bind_check(L, &e);
  lua_pushvalue(L, -1);
  lua_insert(L, -4);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  return 1;
}

static int unlock_folder(lua_State *L) { /* (lock) */
  luaL_checkudata(L, 1, LOCK_NAME);
  return free_lock(L);
}

static int process_id(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)getpid());
  return 1;
}

/* ---- the process ---- */

static int now(lua_State *L) {
  lua_pushnumber(L, clock_seconds());
  return 1;
}

static int epoch(lua_State *L) {
  lua_pushnumber(L, clock_epoch());
  return 1;
}

/* → whether stderr is a terminal, its columns | nil, whether stdout is one */
static int terminal(lua_State *L) {
  struct winsize size = {0};
  lua_pushboolean(L, isatty(STDERR_FILENO));
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) lua_pushinteger(L, size.ws_col);
  else lua_pushnil(L);
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  return 3;
}

static int peak_memory(lua_State *L) { /* bytes */
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  lua_pushinteger(L, (lua_Integer)usage.ru_maxrss * 1024);
  return 1;
}

/* Bytes that malloc gave and that were not freed, Lua's included; nil: unknown. */
static int heap_bytes(lua_State *L) {
#if defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  struct mallinfo2 m = mallinfo2();
  if (m.uordblks) { /* a sanitizer's allocator doesn't report it */
    lua_pushinteger(L, (lua_Integer)(m.uordblks + m.hblkhd));
    return 1;
  }
#endif
  lua_pushnil(L);
  return 1;
}

/* Seconds since this process began, from the system's own record. */
static int process_seconds(lua_State *L) {
  unsigned long long start = 0;
  double uptime = 0;
  FILE *f = fopen("/proc/self/stat", "r");
  char line[1024] = "";
  if (f) {
    if (!fgets(line, sizeof line, f)) line[0] = 0;
    fclose(f);
  }
  const char *after = strrchr(line, ')'); /* field 22 counts from here: field 3 follows */
  for (int field = 2; after && field < 22; field++) after = strchr(after + 1, ' ');
  if (after) start = strtoull(after + 1, NULL, 10);
  f = fopen("/proc/uptime", "r");
  if (f) {
    if (fscanf(f, "%lf", &uptime) != 1) uptime = 0;
    fclose(f);
  }
  lua_pushnumber(L, uptime - (double)start / (double)sysconf(_SC_CLK_TCK));
  return 1;
}

void bind_open_files(lua_State *L) {
  static const luaL_Reg functions[] = {{"save", save},
                                       {"load", load},
                                       {"file_formats", file_formats},
                                       {"content", content},
                                       {"file_exists", exists},
                                       {"replace_file", replace_file},
                                       {"file_hash", file_hash},
                                       {"text_hash", text_hash},
                                       {"folder_exists", folder_there},
                                       {"make_folder", make_folder},
                                       {"list_folder", list_folder},
                                       {"replace_folder", replace_folder},
                                       {"remove_folder", remove_folder},
                                       {"lock_folder", lock_folder},
                                       {"unlock_folder", unlock_folder},
                                       {"process_id", process_id},
                                       {"clock", now},
                                       {"epoch", epoch},
                                       {"terminal", terminal},
                                       {"peak_memory", peak_memory},
                                       {"heap_bytes", heap_bytes},
                                       {"process_seconds", process_seconds},
                                       {NULL, NULL}};
  bind_set_functions(L, functions);
  bind_type(L, NAMED_NAME, free_named, NULL);
  bind_type(L, LIST_NAME, free_list, NULL);
  bind_type(L, LOCK_NAME, free_lock, NULL);
}
