#include "engine/control.h"

#include <string.h>

#include "engine/pipeline.h"
#include "graph/control.h"

static Status disagree(Control *c, const char *what, int32_t first, int replica, int32_t other) {
  const Node *n = c->step[0]->node;
  return fail_at(
      c->error, n->source, ERR_FAILED_PRECONDITION,
      "%s: replicas meet inside (a collective, a queue or a call of the host), so all must agree on %s; it is %d on "
      "replica 0 and %d on replica %d",
      n->op->name, what, first, other, replica);
}

Status control_number(Control *c, int cell, const char *what, int32_t *out) {
  for (int r = 0; r < c->count; r++) {
    int32_t n;
    memcpy(&n, c->step[r]->cell[cell], sizeof n);
    if (r == 0) *out = n;
    else if (n != *out) return disagree(c, what, *out, r, n);
  }
  return OK;
}

static Status common_test(Control *c, bool *out) {
  for (int r = 0; r < c->count; r++) {
    bool test = *(const uint8_t *)c->step[r]->cell[CELL_TEST];
    if (r == 0) *out = test;
    else if (test != *out) return disagree(c, "the condition", *out, r, test);
  }
  return OK;
}

static Status run_repeat(Control *c) {
  int32_t count = 0;
  Status s = control_number(c, CELL_TEST, "the number of iterations", &count);
  for (int32_t i = 0; i < count && s == OK; i++) {
    bool last = i + 1 == count;
    for (int r = 0; r < c->count; r++) memcpy(c->step[r]->cell[CELL_INDEX], &i, sizeof i);
    if (c->way->begin_iteration) c->way->begin_iteration(c, last);
    s = c->way->nested(c, 0);
    if (s == OK) s = c->way->end_iteration(c, last);
  }
  return c->way->leave_loop(c, s);
}

static Status run_while(Control *c) {
  int32_t limit = 0;
  bool more = true;
  Status s = control_number(c, CELL_LIMIT, "the most iterations", &limit);
  for (int64_t i = 0; s == OK && (limit == CONTROL_NO_LIMIT || i < limit); i++) {
    s = c->way->nested(c, 0);
    if (s == OK) s = common_test(c, &more);
    if (s != OK || !more) break;
    s = c->way->nested(c, 1);
    if (s == OK) s = c->way->end_iteration(c, false);
  }
  return c->way->leave_loop(c, s);
}

static Status run_cond(Control *c) {
  bool test = true;
  Status s = common_test(c, &test);
  return s == OK ? c->way->nested(c, test ? 0 : 1) : s;
}

Status control_run(Control *c) {
  switch (c->step[0]->kind) {
    case STEP_REPEAT:
      return run_repeat(c);
    case STEP_WHILE:
      return run_while(c);
    case STEP_COND:
      return run_cond(c);
    case STEP_PIPELINE:
      return run_pipeline(c);
    default:
      return c->way->nested(c, 0);
  }
}
