/* Collects the rows of the files of src/ops. ops.inc is the list of files, made by the Makefile. */
#include <string.h>

#include "ops/ops.h"

#define OPS(file) extern const OpDef ops_##file[];
#include "ops.inc"
#undef OPS

static const OpDef *const families[] = {
#define OPS(file) ops_##file,
#include "ops.inc"
#undef OPS
    NULL};

static const OpDef *first_from(int family) {
  for (; families[family]; family++)
    if (families[family]->name) return families[family];
  return NULL;
}

const OpDef *op_next(const OpDef *previous) {
  if (!previous) return first_from(0);
  if (previous[1].name) return previous + 1;
  for (int f = 0; families[f]; f++)
    for (const OpDef *op = families[f]; op->name; op++)
      if (op == previous) return first_from(f + 1);
  return NULL;
}

const OpDef *op_find(const char *name) {
  for (const OpDef *op = op_next(NULL); op; op = op_next(op))
    if (!strcmp(op->name, name)) return op;
  return NULL;
}
