/* The tables of kernels that a check program goes through. */
#ifndef INSTRUCTION_SETS_H
#define INSTRUCTION_SETS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"

enum { INSTRUCTION_SETS = 3 };
static const char *const instruction_sets[INSTRUCTION_SETS] = {"base", "avx2", "avx512"};

/* The answer of the compiler's own question to the CPU. */
static inline bool cpu_should_have(const char *name) {
  if (!strcmp(name, "base")) return true;
#ifdef __x86_64__
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!strcmp(name, "avx2")) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

/* A table; NULL where the CPU lacks the instructions, which is told. One that the CPU has but
 * kernels_find doesn't is a failure. */
static inline const Kernels *table_or_pending(const char *name, int *failed) {
  const Kernels *table = kernels_find(name);
  if (!table && cpu_should_have(name))
    printf("kernels_find knows no %s, which this CPU has\n", name), ++*failed;
  else if (!table) printf("pending %s: this CPU has no such instructions\n", name);
  return table;
}

#endif
