#include "kernels/fill.h"

#include <pthread.h>

enum {
#define X(isa) TABLE_##isa,
  KERNEL_ISAS(X)
#undef X
      TABLE_COUNT
};

/* Filled once, then only read. */
static Kernels tables[TABLE_COUNT];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

/* Whether this CPU (and its operating system) runs what the table was compiled for. */
static bool cpu_has(const char *name) {
#if defined(__x86_64__)
  /* each such CPU has F16C */
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!strcmp(name, "avx2")) return avx2;
  if (!strcmp(name, "avx512"))
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#endif
  return !strcmp(name, "base");
}

/* What fills a table is compiled as its kernels are: another CPU could not even run that. */
static void fill_tables(void) {
#define FILL_FILE(file, isa) kernels_fill_##file##_##isa(&tables[TABLE_##isa]);
#define FILL_TABLE(isa)            \
  tables[TABLE_##isa].name = #isa; \
  if (cpu_has(#isa)) {             \
    KERNEL_FILES(FILL_FILE, isa)   \
  }
  KERNEL_ISAS(FILL_TABLE)
#undef FILL_FILE
#undef FILL_TABLE
}

const Kernels *kernels_find(const char *name) {
  pthread_once(&filled, fill_tables);
  for (int t = 0; t < TABLE_COUNT; t++)
    if (!strcmp(tables[t].name, name)) return cpu_has(name) ? &tables[t] : NULL;
  return NULL;
}

static const Kernels *best_up_to(int t) {
  while (t > 0 && !cpu_has(tables[t].name)) t--;
  return &tables[t];
}

const Kernels *kernels_select(void) {
  pthread_once(&filled, fill_tables);
  return best_up_to(TABLE_COUNT - 1);
}

/* Where a class has no table, as on another architecture, what is below it is meant. */
const Kernels *kernels_at_most(const char *name) {
  static const char *const classes[] = {"base", "avx2", "avx512"};
  if (!name || !*name) return kernels_select();
  pthread_once(&filled, fill_tables);
  for (int t = 0; t < (int)(sizeof classes / sizeof *classes); t++)
    if (!strcmp(classes[t], name)) return best_up_to(t < TABLE_COUNT ? t : TABLE_COUNT - 1);
  return NULL;
}
