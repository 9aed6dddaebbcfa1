/* core.so lies beside this library, or where Lua 5.4 looks for modules below its folder.
 *
 *   build/libipulua.so.0         build/modules/ipulua/core.so    lua/ipulua/init.lua
 *   lib/libipulua.so.0           lib/lua/5.4/ipulua/core.so      share/lua/5.4/ipulua/init.lua
 *   lib/TRIPLET/libipulua.so.0   lib/TRIPLET/lua/5.4/ipulua/…    share/lua/5.4/ipulua/init.lua
 *
 * It is loaded with RTLD_DEEPBIND, because the process may have a lua_* of its own (LuaJIT). */
#include "api/interpreter.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of this library, without its last slash. */
static bool own_folder(char folder[PATH_MAX]) {
  Dl_info info;
  union {
    int (*function)(ipu_context **);
    void *address;
  } here = {.function = ipu_context_new}; /* ISO C knows no cast between the two */
  if (!dladdr(here.address, &info) || !info.dli_fname || !realpath(info.dli_fname, folder))
    return false;
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  return slash != NULL;
}

/* The first of folder/folders[i]/name that exists, with its name or without. */
static bool find(const char *folder, const char *const *folders, const char *name, bool keep_name,
                 char *out, size_t size) {
  for (; *folders; folders++) {
    int n = snprintf(out, size, "%s/%s/%s", folder, *folders, name);
    if (n <= 0 || (size_t)n >= size || access(out, R_OK)) continue;
    if (!keep_name) out[(size_t)n - strlen(name) - 1] = '\0';
    return true;
  }
  *out = '\0';
  return false;
}

static const Bridge *load(Error *e, const char *folder) {
  static const char *const folders[] = {"modules", "lua/5.4", "../lib/lua/5.4", NULL};
  char path[PATH_MAX + 64];
  if (!find(folder, folders, "ipulua/core.so", true, path, sizeof path)) {
    fail(e, ERR_NOT_FOUND, "models need ipulua/core.so, which is neither in %s nor in %s/lua/5.4",
         folder, folder);
    return NULL;
  }
  int flags = RTLD_NOW | RTLD_LOCAL;
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* they refuse it */
  flags |= RTLD_DEEPBIND;
#endif
  void *library = dlopen(path, flags); /* stays: tensors may outlive the context */
  if (!library) {
    fail(e, ERR_RUNTIME, "models need ipulua/core.so: %s", dlerror());
    return NULL;
  }
  const Bridge *b = dlsym(library, BRIDGE_SYMBOL);
  if (b && b->version == BRIDGE_VERSION) return b;
  fail(e, ERR_FAILED_PRECONDITION, "%s belongs to another version of this library", path);
  return NULL;
}

static Status open_interpreter(ipu_context *c) {
  static const char *const folders[] = {"../lua", "../share/lua/5.4", "../../share/lua/5.4", NULL};
  char folder[PATH_MAX], lua[PATH_MAX + 64];
  Error *e = &c->error;
  if (!own_folder(folder))
    return fail(e, ERR_RUNTIME, "models: the folder of this library can't be found");
  if (!c->bridge) c->bridge = load(e, folder);
  if (!c->bridge) return e->status;
  find(folder, folders, "ipulua/init.lua", false, lua, sizeof lua);
  c->lua = c->bridge->open(e, lua, c->engine->threads, c->engine->seed);
  return e->status;
}

Status interpreter_call(ipu_context *c, BridgeCall *call) {
  if (c->lua || open_interpreter(c) == OK) return c->bridge->call(&c->error, c->lua, call);
  for (int i = 0; i < call->in_count; i++) call->in[i].release(call->in[i].owner);
  return c->error.status;
}
