/* Rows written at a position that is known only when the program runs. Loops keep values for their
 * gradients so. In a program a carried tape is written in place, so a step costs a row and not the
 * tape. */
#include <string.h>

#include "ops/support.h"

static Status infer_tape(Error *e, Node *n) {
  const Type *tape = &n->in[0]->type, *row = &n->in[1]->type, *index = &n->in[2]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = want_integer(e, "index", index);
  if (s == OK) s = want_same_dtype(e, "row", row, tape->dtype);
  if (s != OK) return s;
  Type wanted = *tape;
  if (tape->rank)
    memmove(wanted.shape, wanted.shape + 1, sizeof wanted.shape - sizeof *wanted.shape),
        wanted.rank--;
  if (!tape->rank || index->rank || !shape_equal(row, &wanted))
    return fail(e, ERR_INVALID_ARGUMENT,
                "row %s doesn't fit tape %s: a row has the tape's shape without its first axis",
                shape_text(row, a), shape_text(tape, b));
  return infer_same(e, n);
}

static Status infer_tape_add(Error *e, Node *n) {
  Status s = infer_number(e, n);
  return s == OK ? infer_tape(e, n) : s;
}

/* Output 0 as a copy of the tape, where it doesn't have its memory; the row at the index. NULL
 * with c->error filled. */
static char *row_place(const Call *c) {
  int64_t rows = c->in_type[0]->shape[0],
          at = index_at(c, "index", c->in_type[2]->dtype, c->in[2], 0, rows);
  if (at < 0) return NULL;
  if (c->out[0] != c->in[0]) copy_bytes(c, c->out[0], c->in[0], type_bytes(c->in_type[0]));
  return (char *)c->out[0] + (size_t)at * type_bytes(c->in_type[1]);
}

static Status eval_set(const Call *c) {
  char *row = row_place(c);
  if (!row) return c->error->status;
  copy_bytes(c, row, c->in[1], type_bytes(c->in_type[1]));
  return OK;
}

static Status eval_add(const Call *c) {
  char *row = row_place(c);
  if (!row) return c->error->status;
  Dtype d = c->in_type[0]->dtype;
  for (int64_t i = 0, n = type_count(c->in_type[1]); i < n; i++) {
    if (d == F32) ((float *)(void *)row)[i] += ((const float *)c->in[1])[i];
    else if (dtype_is_float(d))
      dtype_set(d, row, i, dtype_get(d, row, i) + dtype_get(d, c->in[1], i));
    else
      dtype_set_integer(d, row, i,
                        (int64_t)((uint64_t)dtype_get_integer(d, row, i) +
                                  (uint64_t)dtype_get_integer(d, c->in[1], i)));
  }
  return OK;
}

static Value *read_row(Graph *g, Value *tape, Value *index) {
  return op2(g, "gather", tape, index);
}

static void grad_set(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[1] = read_row(g, dy[0], n->in[2]);
  dx[0] = op3(g, "tape_set", dy[0], ops_zeros_of(g, n->in[1]), n->in[2]);
}

static void grad_add(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = dy[0];
  dx[1] = read_row(g, dy[0], n->in[2]);
}

const OpDef ops_tape[] = {
    {.name = "tape_set",
     .summary = "The tape with one row replaced.",
     .shapes = "[n, ...], [...], [] → [n, ...]",
     .inputs = {"tape", "row", "index"},
     .traits = INTERNAL | IN_PLACE(0),
     .infer = infer_tape,
     .cost = cost_of_copy,
     .eval = eval_set,
     .grad = grad_set,
     .sample = "F[4,3] F[3] I4 | F[5] F I5 | I9[3,2] I9[2] I3 | B[2,2] B[2] I2"},
    {.name = "tape_add",
     .summary = "The tape with a row added to one of its own.",
     .shapes = "[n, ...], [...], [] → [n, ...]",
     .inputs = {"tape", "row", "index"},
     .traits = INTERNAL | IN_PLACE(0),
     .infer = infer_tape_add,
     .cost = cost_of_copy,
     .eval = eval_add,
     .grad = grad_add,
     .sample = "F[4,3] F[3] I4 | F[5] F I5 | I9[3,2] I9[2] I3"},
    {0}};
