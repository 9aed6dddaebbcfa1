#include "engine/finite_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static FiniteRange range_of(const Type *type, const void *data) {
  FiniteRange r = {.min = INFINITY, .max = -INFINITY, .count = type_count(type)};
  for (int64_t i = 0; i < r.count; i++) {
    double x = dtype_get(type->dtype, data, i);
    if (isnan(x) && !r.nan++) r.first_nan = i;
    else if (isinf(x) && !r.infinite++) r.first_infinite = i;
    else if (isfinite(x)) r.min = fmin(r.min, x), r.max = fmax(r.max, x);
  }
  return r;
}

void finite_check_operands(FiniteCheck *check, const Call *c) {
  check->count = c->in_count < FINITE_CHECK_OPERANDS ? c->in_count : FINITE_CHECK_OPERANDS;
  for (int i = 0; i < check->count; i++) check->operand[i] = range_of(c->in_type[i], c->in[i]);
}

/* Infinite operands may rightly give infinities (masks do), but no NaN. */
static bool is_made_here(const FiniteCheck *check, const FiniteRange *result) {
  int64_t nan = 0, infinite = 0;
  for (int i = 0; i < check->count; i++)
    nan += check->operand[i].nan, infinite += check->operand[i].infinite;
  return (result->nan && !nan) || (result->infinite && !nan && !infinite);
}

static void describe(FILE *f, const Type *type, const FiniteRange *r) {
  char text[TYPE_TEXT];
  fprintf(f, "%s", type_text(type, text));
  if (r->min <= r->max) fprintf(f, " from %.6g to %.6g", r->min, r->max);
  if (r->nan) fprintf(f, ", %lld NaN", (long long)r->nan);
  if (r->infinite) fprintf(f, ", %lld infinite", (long long)r->infinite);
}

static void describe_operands(FILE *f, const FiniteCheck *check, const Call *c) {
  for (int i = 0; i < check->count; i++) {
    const char *name = i < MAX_INPUTS ? c->node->op->inputs[i] : NULL;
    fputs(i ? "; " : "; its operands: ", f);
    if (name) fprintf(f, "%s ", name);
    describe(f, c->in_type[i], &check->operand[i]);
  }
}

/* "[3, 0]" of a position in row-major order. */
static void describe_place(FILE *f, const Type *type, int64_t position) {
  int64_t index[MAX_RANK];
  for (int axis = type->rank - 1; axis >= 0; axis--) {
    index[axis] = position % type->shape[axis];
    position /= type->shape[axis];
  }
  fputc('[', f);
  for (int axis = 0; axis < type->rank; axis++)
    fprintf(f, "%s%lld", axis ? ", " : "", (long long)index[axis]);
  fputc(']', f);
}

/* The last name of the scopes in which the node was made, which is its layer's: "mlp/dense/" →
 * "dense". */
static void describe_layer(FILE *f, const Node *n) {
  int length = n->name ? (int)strlen(n->name) : 0;
  while (length > 0 && n->name[length - 1] == '/') length--;
  int begin = length;
  while (begin > 0 && n->name[begin - 1] != '/') begin--;
  if (length > begin) fprintf(f, "layer '%.*s', ", length - begin, n->name + begin);
}

static void describe_result(FILE *f, const FiniteCheck *check, const Call *c, int i,
                            const FiniteRange *r) {
  const Node *n = c->node;
  describe_layer(f, n);
  fprintf(f, "op %s%s", n->op->name, n->place.backward ? ", in a gradient" : "");
  if (n->source && *n->source) fprintf(f, " (%s)", n->source);
  fputs(r->nan ? ": nan at " : ": inf at ", f);
  describe_place(f, c->out_type[i], r->nan ? r->first_nan : r->first_infinite);
  fputs(" of ", f);
  describe(f, c->out_type[i], r);
  describe_operands(f, check, c);
}

Status finite_check_results(const FiniteCheck *check, const Call *c, Error *e) {
  for (int i = 0; i < c->out_count; i++) {
    if (!dtype_is_float(c->out_type[i]->dtype)) continue;
    FiniteRange r = range_of(c->out_type[i], c->out[i]);
    if (!is_made_here(check, &r)) continue;
    char text[512] = "";
    FILE *f = fmemopen(text, sizeof text - 1, "w");
    if (f) {
      describe_result(f, check, c, i, &r);
      fclose(f);
    }
    return fail_at(e, c->node->source, ERR_INTERNAL, "check_numerics: %s", text);
  }
  return OK;
}
