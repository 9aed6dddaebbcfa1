#include "kernels/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "kernels/kernels.h"

/* Built without it, there is none. */
#ifndef WITHOUT_OPENBLAS
static const char *const files[] = {"libopenblas.so.0", "liblapack.so.3"};
#else
static const char *const files[] = {NULL};
#endif

/* OpenBLAS reads these variables while it loads. */
#define CORE_VARIABLE "OPENBLAS_CORETYPE"
#define THREADS_VARIABLE "OPENBLAS_NUM_THREADS"

static Blas library;
static const char *_Atomic chosen_core;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(int) state; /* NOT_TRIED … */
enum { NOT_TRIED, MISSING, OPEN };

/* A variable of the environment for as long as the library loads. */
typedef struct Setting {
  const char *name;
  char *former; /* NULL: it wasn't there */
} Setting;

static Setting set_variable(const char *name, const char *value) {
  const char *former = getenv(name);
  Setting s = {name, former ? strdup(former) : NULL};
  if (value) setenv(name, value, 1);
  else unsetenv(name);
  return s;
}

static void restore_variable(Setting *s) {
  if (s->former) setenv(s->name, s->former, 1);
  else unsetenv(s->name);
  free(s->former);
}

static bool find_routines(void *handle, Blas *b) {
  bool found = true;
#define FIND(id, T, parameters) found = library_find(handle, "s" #id "_", &b->f32.id) && found;
  BLAS_ROUTINES(FIND, float)
#undef FIND
#define FIND(id, T, parameters) found = library_find(handle, "d" #id "_", &b->f64.id) && found;
  BLAS_ROUTINES(FIND, double)
#undef FIND
  return found;
}

/* "OpenBLAS 0.3.21 DYNAMIC_ARCH …" → "0.3.21" */
static void read_version(void *handle, Blas *b) {
  char *(*config)(void);
  if (!library_find(handle, "openblas_get_config", &config)) return;
  sscanf(config(), "OpenBLAS %31s", b->version);
}

static bool open_file(const char *file, const char *wanted_core) {
  Setting core = set_variable(CORE_VARIABLE, wanted_core),
          threads = set_variable(THREADS_VARIABLE, "1");
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  restore_variable(&threads), restore_variable(&core);
  Blas b = {.file = file, .core = ""};
  if (!handle) return false;
  if (!find_routines(handle, &b)) {
    dlclose(handle);
    return false;
  }
  void (*set_threads)(int);
  char *(*get_core)(void);
  if (library_find(handle, "openblas_set_num_threads", &set_threads) &&
      library_find(handle, "openblas_get_corename", &get_core)) {
    set_threads(1);
    b.is_openblas = true, b.core = get_core();
    read_version(handle, &b);
  }
  library = b;
  return true;
}

void blas_choose_core(const char *core) { chosen_core = core; }

static int open_first(void) {
  const char *core = chosen_core ? chosen_core : kernels_select()->core;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i] && open_file(files[i], core)) return OPEN;
  return MISSING;
}

const Blas *blas_open(void) {
  if (state == NOT_TRIED) {
    pthread_mutex_lock(&opening);
    if (state == NOT_TRIED) state = open_first();
    pthread_mutex_unlock(&opening);
  }
  return state == OPEN ? &library : NULL;
}
