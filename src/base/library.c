#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* dlsym returns addresses of objects. A function's address has the same bytes. */
bool library_find(void *handle, const char *name, void *function) {
  void *address = dlsym(handle, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

static bool fill(const Library *l, void *handle) {
  for (const LibrarySymbol *s = l->symbols; s->name; s++)
    if (!library_find(handle, s->name, s->function)) return false;
  return true;
}

/* All functions or none: what is left of a table is not used. why: of that size, for the reason. */
static bool open_now(const Library *l, char *why, size_t size) {
  void *handle = dlopen(l->file, RTLD_LAZY | RTLD_LOCAL);
  if (handle && fill(l, handle)) return true;
  const char *reason = dlerror();
  snprintf(why, size, "%s", reason ? reason : "for no reason that the loader gives");
  if (handle) dlclose(handle);
  return false;
}

Status library_open(Error *e, Library *l, const char *wanting) {
  if (l->open) return OK;
  char why[400];
  pthread_mutex_lock(&opening);
  bool open = l->open || open_now(l, why, sizeof why);
  l->open = open;
  pthread_mutex_unlock(&opening);
  if (open) return OK;
  return fail(e, ERR_FAILED_PRECONDITION, "%s need %s; Debian's %s brings it (%s)", wanting,
              l->file, l->package, why);
}
