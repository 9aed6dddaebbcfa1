#include "ops/linear/equation.h"

#include <ctype.h>
#include <string.h>

#include "ops/support.h"

static int letter_index(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : 26 + c - 'a';
} /* in the order of characters */

static Status add_index(Error *e, Term *t, int index) {
  if (t->rank == MAX_RANK)
    return fail(e, ERR_VALUE, "more than %d indices for one operand", MAX_RANK);
  t->index[t->rank++] = (uint8_t)index;
  return OK;
}

static int letters_before(const char *s) {
  int n = 0;
  for (; *s && *s != ',' && *s != '-'; s++) n += isalpha((unsigned char)*s) != 0;
  return n;
}

/* One operand's indices; rank is the number of dimensions that they and "..." (dots of them) fill. */
static Status read_term(Error *e, const char **s, int dots, Term *t) {
  bool seen = false;
  for (; **s && **s != ',' && **s != '-'; ++*s) {
    Status status = OK;
    if (isspace((unsigned char)**s)) continue;
    if (isalpha((unsigned char)**s)) {
      status = add_index(e, t, letter_index(**s));
    } else if (!strncmp(*s, "...", 3) && dots < 0) {
      return fail(e, ERR_INVALID_ARGUMENT,
                  "an operand has %d dimension%s less than the equation has indices for it", -dots,
                  dots == -1 ? "" : "s");
    } else if (!strncmp(*s, "...", 3) && !seen) {
      seen = true;
      for (int i = dots; i > 0 && status == OK; i--) status = add_index(e, t, LETTERS + i - 1);
      *s += 2;
    } else {
      return fail(e, ERR_VALUE, "can't read '%.20s' in the equation", *s);
    }
    if (status != OK) return status;
  }
  return OK;
}

static Status read_extents(Error *e, Equation *q, int operand, const Type *x) {
  const Term *t = &q->in[operand];
  char text[TYPE_TEXT];
  if (t->rank != x->rank)
    return fail(e, ERR_INVALID_ARGUMENT, "operand %d has %d %s in the equation, but shape %s",
                operand, t->rank, t->rank == 1 ? "index" : "indices", shape_text(x, text));
  for (int i = 0; i < t->rank; i++) {
    int64_t *extent = &q->extent[t->index[i]], here = x->shape[i];
    if (q->used[t->index[i]] && *extent != here && *extent != 1 && here != 1)
      return fail(e, ERR_INVALID_ARGUMENT,
                  "an index has extent %lld elsewhere and %lld in operand %d (%s)",
                  (long long)*extent, (long long)here, operand, shape_text(x, text));
    if (!q->used[t->index[i]] || *extent == 1) *extent = here;
    q->used[t->index[i]] = true;
  }
  return OK;
}

/* Without "->": the indices that stand once, in order, after the indices of "...". */
static Status imply_output(Error *e, Equation *q) {
  int times[INDICES] = {0};
  Status s = OK;
  for (int k = 0; k < q->count; k++)
    for (int i = 0; i < q->in[k].rank; i++) times[q->in[k].index[i]]++;
  for (int i = INDICES - 1; i >= LETTERS && s == OK; i--)
    if (times[i]) s = add_index(e, &q->out, i);
  for (int i = 0; i < LETTERS && s == OK; i++)
    if (times[i] == 1) s = add_index(e, &q->out, i);
  return s;
}

static Status read_output(Error *e, Equation *q, const char *s, int dots) {
  bool seen[INDICES] = {false};
  if (!*s) return imply_output(e, q);
  if (strncmp(s, "->", 2)) return fail(e, ERR_VALUE, "can't read '%.20s' in the equation", s);
  s += 2;
  Status status = read_term(e, &s, dots, &q->out);
  if (status == OK && *s)
    return fail(e, ERR_VALUE, "can't read '%.20s' after the result of the equation", s);
  for (int i = 0; i < q->out.rank && status == OK; i++) {
    if (!q->used[q->out.index[i]])
      return fail(e, ERR_VALUE, "the result has an index that no operand has");
    if (seen[q->out.index[i]]) return fail(e, ERR_VALUE, "the result has an index twice");
    seen[q->out.index[i]] = true;
  }
  return status;
}

Status equation_read(Error *e, const char *s, int count, Value *const *in, Equation *q) {
  *q = (Equation){.count = count};
  int max_dots = 0;
  for (int k = 0; k < count; k++) {
    int dots = in[k]->type.rank - letters_before(s);
    if (dots > max_dots) max_dots = dots;
    Status status = read_term(e, &s, dots, &q->in[k]);
    if (status == OK) status = read_extents(e, q, k, &in[k]->type);
    if (status != OK) return status;
    if (k + 1 < count && *s++ != ',')
      return fail(e, ERR_VALUE, "the equation names fewer operands than the %d given", count);
  }
  if (*s == ',')
    return fail(e, ERR_VALUE, "the equation names more operands than the %d given", count);
  return read_output(e, q, s, max_dots);
}
