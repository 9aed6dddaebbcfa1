#include "program/step.h"

static const char *const kind_name[] = {[STEP_OP] = "op",
                                        [STEP_CHAIN] = "chain",
                                        [STEP_GEMM] = "gemm",
                                        [STEP_COPY] = "copy",
                                        [STEP_LOAD] = "load",
                                        [STEP_STORE] = "store",
                                        [STEP_DEQUEUE] = "dequeue",
                                        [STEP_ENQUEUE] = "enqueue",
                                        [STEP_REPEAT] = "repeat",
                                        [STEP_WHILE] = "while",
                                        [STEP_COND] = "cond",
                                        [STEP_CALL] = "call",
                                        [STEP_PIPELINE] = "pipeline"};

const char *step_kind_name(StepKind kind) { return kind_name[kind]; }

Step *block_find(const Block *b, StepTest *is, void *context) {
  Step *found = NULL;
  for (int i = 0; i < b->count && !found; i++) {
    Step *s = &b->step[i];
    if (is(s, context)) found = s;
    for (int k = 0; k < s->nested_count && !found; k++)
      found = block_find(s->nested[k].block, is, context);
  }
  return found;
}
