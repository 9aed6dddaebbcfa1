/* ipulua.hdf5: the datasets and texts of an HDF5 file, for Keras' weights. A Lua module of its
 * own, since the library is large and seldom needed. Links, external and virtual data, and
 * filters from other files are refused: a file holds what it shows. libhdf5 reads in a process of
 * its own, since damaged files bring it down. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/hdf5_read.h"

enum { BUFFER_BYTES = 1 << 16 };

typedef struct Receiver {
  const char *path;
  pid_t child;
  int in;
  size_t at, used; /* of the buffer */
  char buffer[BUFFER_BYTES];
} Receiver;

static int damaged(lua_State *L, const Receiver *r) {
  return luaL_error(L, "%s: it is damaged: libhdf5 can't read it", r->path);
}

/* ---- records ---- */

static void fill(lua_State *L, Receiver *r) {
  ssize_t n;
  do n = read(r->in, r->buffer, BUFFER_BYTES);
  while (n < 0 && errno == EINTR);
  if (n <= 0) damaged(L, r);
  r->at = 0, r->used = (size_t)n;
}

static void take(lua_State *L, Receiver *r, void *to, size_t bytes) {
  for (char *at = to; bytes;) {
    if (r->at == r->used) fill(L, r);
    size_t n = r->used - r->at < bytes ? r->used - r->at : bytes;
    memcpy(at, r->buffer + r->at, n);
    at += n, r->at += n, bytes -= n;
  }
}

static uint32_t take_size(lua_State *L, Receiver *r, uint32_t max) {
  uint32_t n;
  take(L, r, &n, sizeof n);
  if (n > max) damaged(L, r);
  return n;
}

static void push_bytes(lua_State *L, Receiver *r, size_t bytes) {
  luaL_Buffer b;
  take(L, r, luaL_buffinitsize(L, &b, bytes), bytes);
  luaL_pushresultsize(&b, bytes);
}

static void push_text(lua_State *L, Receiver *r) {
  push_bytes(L, r, take_size(L, r, HDF5_MAX_TEXT));
}

/* Pushes a dataset's name and {dtype, shape, data}. */
static void push_dataset(lua_State *L, Receiver *r) {
  uint64_t bytes;
  push_text(L, r);
  lua_createtable(L, 0, 3);
  push_text(L, r);
  lua_setfield(L, -2, "dtype");
  int rank = (int)take_size(L, r, HDF5_MAX_RANK);
  lua_createtable(L, rank, 0);
  for (int i = 0; i < rank; i++) {
    int64_t extent;
    take(L, r, &extent, sizeof extent);
    lua_pushinteger(L, (lua_Integer)extent);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "shape");
  take(L, r, &bytes, sizeof bytes);
  if (bytes > SIZE_MAX / 2) damaged(L, r);
  push_bytes(L, r, (size_t)bytes);
  lua_setfield(L, -2, "data");
}

/* Pushes the name of an unreadable dataset and {holds = its content in words}. */
static void push_other(lua_State *L, Receiver *r) {
  push_text(L, r);
  lua_createtable(L, 0, 1);
  push_text(L, r);
  lua_setfield(L, -2, "holds");
}

/* Pushes an attribute's name and its texts. */
static void push_attribute(lua_State *L, Receiver *r) {
  push_text(L, r);
  int count = (int)take_size(L, r, HDF5_MAX_TEXTS);
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    push_text(L, r);
    lua_rawseti(L, -2, i + 1);
  }
}

/* The stack: datasets, groups, the group whose attributes come. */
static int receive(lua_State *L) {
  Receiver *r = lua_touserdata(L, 1);
  lua_settop(L, 0);
  lua_newtable(L);
  lua_newtable(L);
  lua_newtable(L);
  for (;;) {
    char letter;
    take(L, r, &letter, 1);
    if (letter == 'Z') break;
    if (letter == 'D') {
      push_dataset(L, r);
      lua_settable(L, 1);
    } else if (letter == 'U') {
      push_other(L, r);
      lua_settable(L, 1);
    } else if (letter == 'G') {
      push_text(L, r);
      lua_newtable(L);
      lua_copy(L, -1, 3);
      lua_settable(L, 2);
    } else if (letter == 'A') {
      push_attribute(L, r);
      lua_settable(L, 3);
    } else if (letter == 'E') {
      push_text(L, r);
      return luaL_error(L, "%s: %s", r->path, lua_tostring(L, -1));
    } else return damaged(L, r);
  }
  lua_settop(L, 2);
  return 2;
}

/* ---- the process that reads ---- */

static void be_reader(const Receiver *r, int out) {
  int nowhere = open("/dev/null", O_WRONLY); /* for libc's messages about a damaged heap */
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_DFL);
  hdf5_read(r->path, out);
  _exit(0); /* without the exit handlers of the process that this is a copy of */
}

static const char *start(Receiver *r) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
  r->child = fork();
  if (r->child == 0) be_reader(r, ends[1]);
  int problem = errno;
  close(ends[1]);
  if (r->child < 0) close(ends[0]);
  r->in = ends[0];
  return r->child < 0 ? strerror(problem) : NULL;
}

static void end(const Receiver *r) {
  close(r->in);
  kill(r->child, SIGKILL); /* after an error it may still be writing */
  while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR) continue;
}

/* (path) → {name = {dtype, shape, data} or {holds}}, {group = {attribute = list of texts}}; "/" is the root */
static int read_file(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  Receiver *r = lua_newuserdatauv(L, sizeof *r, 0);
  *r = (Receiver){.path = path};
  lua_pushcfunction(L, receive);
  lua_pushlightuserdata(L, r);
  const char *problem = start(r);
  if (problem)
    return luaL_error(L, "%s: a process that reads it can't be started: %s", path, problem);
  int status = lua_pcall(L, 1, 2, 0);
  end(r);
  return status == LUA_OK ? 2 : lua_error(L);
}

__attribute__((visibility("default"))) int luaopen_ipulua_hdf5(lua_State *L);
int luaopen_ipulua_hdf5(lua_State *L) {
  static const luaL_Reg functions[] = {{"read", read_file}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
