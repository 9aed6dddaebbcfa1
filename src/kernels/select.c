#include "kernels/fill.h"

#include <pthread.h>

enum {
#define X(isa) TABLE_##isa,
  KERNEL_ISAS(X)
#undef X
      TABLE_COUNT
};

/* Whether IPULUA_CPU asks for a class. On a CPU with AVX alone that matters to OpenBLAS, which has
 * a core for it; our kernels have none. */
enum { UNASKED, ASKED, WAYS_OF_ASKING };

/* Filled once, then only read. */
static Kernels tables[TABLE_COUNT][WAYS_OF_ASKING][PRODUCT_USES];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

/* Whether this CPU and its operating system support the instruction set of that table. */
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

/* The newest core of OpenBLAS whose instructions a class has. OpenBLAS itself knows CPUs by their
 * model, and takes those newer than itself for the oldest. */
static const char *core_of(const char *name, bool asked) {
#if defined(__x86_64__)
  if (!strcmp(name, "avx512")) return "SkylakeX";
  if (!strcmp(name, "avx2")) return "Haswell";
  return !asked && __builtin_cpu_supports("avx") ? "Sandybridge" : "Prescott";
#else
  (void)name, (void)asked;
  return NULL;
#endif
}

static void fill_variants(int t) {
  const Kernels first = tables[t][UNASKED][PRODUCTS_BY_TABLE];
  for (int asked = UNASKED; asked < WAYS_OF_ASKING; asked++)
    for (int use = 0; use < PRODUCT_USES; use++) {
      Kernels *k = &tables[t][asked][use];
      *k = first;
      k->core = core_of(k->name, asked);
      k->products = (ProductUse)use;
    }
}

/* The functions that fill a table are compiled for its instruction set, too. They may run only on
 * CPUs that have it. */
static void fill_tables(void) {
#define FIRST(isa) tables[TABLE_##isa][UNASKED][PRODUCTS_BY_TABLE]
#define FILL_FILE(file, isa) kernels_fill_##file##_##isa(&FIRST(isa));
#define FILL_TABLE(isa)          \
  FIRST(isa).name = #isa;        \
  if (cpu_has(#isa)) {           \
    KERNEL_FILES(FILL_FILE, isa) \
  }                              \
  fill_variants(TABLE_##isa);
  KERNEL_ISAS(FILL_TABLE)
#undef FILL_FILE
#undef FILL_TABLE
#undef FIRST
}

static const Kernels *first_of(int t, int asked) { return &tables[t][asked][PRODUCTS_BY_TABLE]; }

const Kernels *kernels_find(const char *name) {
  pthread_once(&filled, fill_tables);
  for (int t = 0; t < TABLE_COUNT; t++)
    if (!strcmp(first_of(t, UNASKED)->name, name))
      return cpu_has(name) ? first_of(t, UNASKED) : NULL;
  return NULL;
}

static const Kernels *best_up_to(int t, int asked) {
  while (t > 0 && !cpu_has(first_of(t, asked)->name)) t--;
  return first_of(t, asked);
}

const Kernels *kernels_select(void) {
  pthread_once(&filled, fill_tables);
  return best_up_to(TABLE_COUNT - 1, UNASKED);
}

/* If a class has no table, as on another architecture, the next lower one is taken. */
const Kernels *kernels_at_most(const char *name) {
  static const char *const classes[] = {"base", "avx2", "avx512"};
  if (!name || !*name) return kernels_select();
  pthread_once(&filled, fill_tables);
  for (int t = 0; t < (int)(sizeof classes / sizeof *classes); t++)
    if (!strcmp(classes[t], name)) return best_up_to(t < TABLE_COUNT ? t : TABLE_COUNT - 1, ASKED);
  return NULL;
}

const Kernels *kernels_with_products(const Kernels *k, ProductUse use) {
  return k - k->products + use;
}
