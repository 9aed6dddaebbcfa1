/* The target that a program is priced for: a copy of a chip's column of target/chips.h. A user's
 * own chip is a column with some numbers replaced. */
#ifndef IPULUA_TARGET_TARGET_H
#define IPULUA_TARGET_TARGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "target/chips.h"

typedef struct Target {
  char name[32];         /* "GC200" */
  char architecture[16]; /* "ipu2" */
  bool code;             /* count vertex, exchange and control code (compile_ipu_code) */
  /* of a tile, for temporaries of a plan; 0 means 0.6 */
  double matmul_proportion, conv_proportion;
  int64_t cholesky_block, solve_block; /* rows and columns; 0: the quickest */
#define X(member, unit, min, max, source, ...) int64_t member;
  TARGET_NUMBERS(X)
#undef X
} Target;

/* The chip of that name or other name, or the first one of that architecture. Case doesn't matter.
 * NULL if there is none. */
const Target *target_find(const char *name);
const Target *target_at(int index); /* 0, 1, ... in order of age; NULL after the last */
#define TARGET_DEFAULT "GC200"
/* "GC2, GC200, …", or in small letters; returns out. */
enum { TARGET_NAMES = 300 }; /* enough for eight chips and the final zero */
const char *target_names(char out[TARGET_NAMES], bool small);

/* A target in JSON: {"base": "GC200", "name": "mine", "tiles": 3000, ...}. base is GC200 unless
 * given. */
Status target_parse(Error *e, const char *json, size_t length, Target *out);

/* Restricts the target to some of its tiles; 0 means all. io_tiles are reserved for streaming. */
Status target_restrict(Error *e, Target *t, int64_t tiles_per_ipu, int64_t io_tiles);

double target_seconds(const Target *t, double cycles);
/* Peak multiply-accumulates of one tile and cycle. sums_bytes is 2 or 4. */
double target_macs(const Target *t, int64_t element_bytes, int64_t sum_bytes);
#endif
