#include "engine/finite_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static FiniteRange range_of(const Type *type, const void *data) {
  FiniteRange r = {.least = INFINITY, .most = -INFINITY, .count = type_count(type)};
  for (int64_t i = 0; i < r.count; i++) {
    double x = dtype_get(type->dtype, data, i);
    if (isnan(x)) r.nan++;
    else if (isinf(x)) r.infinite++;
    else r.least = fmin(r.least, x), r.most = fmax(r.most, x);
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
  if (r->least <= r->most) fprintf(f, " from %.6g to %.6g", r->least, r->most);
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

Status finite_check_results(const FiniteCheck *check, const Call *c, Error *e) {
  for (int i = 0; i < c->out_count; i++) {
    if (!dtype_is_float(c->out_type[i]->dtype)) continue;
    FiniteRange r = range_of(c->out_type[i], c->out[i]);
    if (!is_made_here(check, &r)) continue;
    char text[512] = "";
    FILE *f = fmemopen(text, sizeof text - 1, "w");
    if (f) {
      describe(f, c->out_type[i], &r);
      describe_operands(f, check, c);
      fclose(f);
    }
    const Node *n = c->node;
    int name = n->name && *n->name ? (int)strlen(n->name) - 1 : 0; /* "dense/", without the slash */
    return fail_at(e, n->source, ERR_INTERNAL,
                   "%s made the first value that is not finite%s%s%.*s: %s", n->op->name,
                   n->place.backward ? ", in a gradient" : "", name ? ", in " : "", name,
                   name ? n->name : "", text);
  }
  return OK;
}
