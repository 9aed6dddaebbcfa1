#include "samples.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

char *arena_print(Arena *a, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  char *s = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
  if (s) vsnprintf(s, (size_t)n + 1, format, again);
  va_end(again);
  va_end(args);
  return s;
}

typedef struct Reader {
  Error *error;
  Arena *arena;
  const OpDef *op;
  const char *at;
} Reader;

static bool complain(Reader *r, const char *what) {
  fail(r->error, ERR_VALUE, "%s: sample: %s at '%.30s'", r->op->name, what, r->at);
  return false;
}

static void skip_space(Reader *r) {
  while (isspace((unsigned char)*r->at)) r->at++;
}

static bool take(Reader *r, char c) {
  skip_space(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static char *take_word(Reader *r) {
  skip_space(r);
  const char *begin = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
  return arena_print(r->arena, "%.*s", (int)(r->at - begin), begin);
}

/* ---- attributes, in Lua syntax ---- */

/* Nested lists are flattened, false stands for an open end: as the Lua binding does. */
static bool read_ints(Reader *r, int64_t *v, int *n) {
  while (!take(r, '}')) {
    skip_space(r);
    if (*n == 32 || !*r->at) return complain(r, "a list of numbers expected");
    if (take(r, '{')) {
      if (!read_ints(r, v, n)) return false;
    } else if (!strncmp(r->at, "false", 5)) {
      v[(*n)++] = INT64_MIN, r->at += 5;
    } else {
      char *end;
      v[(*n)++] = strtoll(r->at, &end, 10);
      if (end == r->at) return complain(r, "a number expected");
      r->at = end;
    }
    take(r, ',');
  }
  return true;
}

static char *take_string(Reader *r) {
  skip_space(r);
  char quote = *r->at++;
  const char *begin = r->at;
  while (*r->at && *r->at != quote) r->at++;
  char *s = arena_print(r->arena, "%.*s", (int)(r->at - begin), begin);
  if (*r->at) r->at++;
  return s;
}

static bool read_list(Reader *r, Attr *out) {
  int64_t v[32];
  int n = 0;
  char *end;
  skip_space(r);
  bool listed = take(r, '{');
  if (listed) {
    if (!read_ints(r, v, &n)) return false;
  } else if (!strncmp(r->at, "false", 5)) {
    v[n++] = INT64_MIN, r->at += 5;
  } else {
    v[n++] = strtoll(r->at, &end, 10);
    if (end == r->at) return complain(r, "a number expected");
    r->at = end;
  }
  *out = attr_ints(arena_copy(r->arena, v, sizeof *v * (size_t)n), n);
  out->ints.listed = listed;
  return true;
}

static bool read_value(Reader *r, const AttrDef *def, Attr *out) {
  char *end = NULL;
  Dtype d;
  skip_space(r);
  switch (def->kind) {
    case ATTR_INT:
      *out = attr_int(strtoll(r->at, &end, 10));
      break;
    case ATTR_FLOAT:
      *out = attr_float(strtod(r->at, &end));
      break;
    case ATTR_BOOL:
      *out = attr_bool(!strcmp(take_word(r), "true"));
      return true;
    case ATTR_STRING:
      *out = attr_string(take_string(r));
      return true;
    case ATTR_INTS:
      return read_list(r, out);
    case ATTR_DTYPE:
      if (!dtype_find(take_string(r), &d)) return complain(r, "a dtype expected");
      *out = attr_dtype(d);
      return true;
    default:
      return complain(r, "an attribute that samples can't hold");
  }
  if (end == r->at) return complain(r, "a number expected");
  r->at = end;
  return true;
}

static bool read_attrs(Reader *r, Sample *s) {
  while (!take(r, '}')) {
    const char *name = take_word(r);
    int i = 0;
    while (i < op_attr_count(r->op) && strcmp(r->op->attrs[i].name, name)) i++;
    if (i == op_attr_count(r->op)) return complain(r, "unknown attribute");
    if (!take(r, '=')) return complain(r, "'=' expected");
    if (!read_value(r, &r->op->attrs[i], &s->attr[i])) return false;
    take(r, ',');
  }
  return true;
}

/* ---- operands ---- */

static double draw(const RngKey *key, int64_t i) { return (double)rng_uniform(key, (uint64_t)i); }

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Distinct numbers in [-2, 2), shuffled. */
static void fill_distinct(double *v, int64_t n, const RngKey *key) {
  for (int64_t i = 0; i < n; i++) v[i] = ((double)i + 0.5) / (double)n * 4 - 2;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t j = (int64_t)rng_below(key, (uint64_t)i, (uint64_t)i + 1);
    double t = v[i];
    v[i] = v[j], v[j] = t;
  }
}

/* With a dominant diagonal; symmetric or not. */
static void fill_matrices(SampleOperand *o, const RngKey *key, bool symmetric) {
  int rank = o->type.rank;
  int64_t n = rank ? o->type.shape[rank - 1] : 0, count = type_count(&o->type);
  for (int64_t k = 0; k < count; k++) {
    int64_t matrix = k / (n * n), i = k / n % n, j = k % n;
    int64_t low = symmetric && j < i ? j : i, high = symmetric && j < i ? i : j;
    o->value[k] = i == j ? 1.5 + (double)n * 0.5 + draw(key, k)
                         : draw(key, matrix * n * n + low * n + high) - 0.5;
  }
}

static void fill(SampleOperand *o, const RngKey *key) {
  int64_t n = type_count(&o->type);
  if (o->letter == 'D') fill_distinct(o->value, n, key);
  if (o->letter == 'M' || o->letter == 'W') fill_matrices(o, key, o->letter == 'M');
  uint32_t word[4];
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) rng_block(key, (uint64_t)i / 4, word); /* four draws at once */
    double u = (double)((float)(word[i % 4] >> 8) * 0x1p-24f);
    switch (o->letter) {
      case 'F':
        o->value[i] = u * 4 - 2;
        break;
      case 'H':
      case 'P':
        o->value[i] = u * 2 + 0.2;
        break;
      case 'U':
        o->value[i] = u * 1.8 - 0.9;
        break;
      case 'B':
        o->value[i] = u < 0.5;
        break;
      case 'I':
      case 'S':
        o->value[i] = floor(u * (double)o->below);
        break;
      default:
        break;
    }
  }
  if (o->letter == 'S') qsort(o->value, (size_t)n, sizeof(double), compare_doubles);
}

static bool read_operand(Reader *r, Sample *s) {
  if (s->count == SAMPLE_OPERANDS - 1) return complain(r, "too many operands");
  SampleOperand *o = &s->operand[s->count++];
  o->letter = *r->at++;
  if (!strchr("FPUDMWISBH", o->letter)) return complain(r, "unknown letter");
  char *end;
  o->below = strtoll(r->at, &end, 10);
  r->at = end;
  o->type.dtype = sample_is_float(o) ? F64 : o->letter == 'B' ? BOOL : o->letter == 'H' ? F32 : I32;
  if (take(r, '['))
    while (!take(r, ']')) {
      if (o->type.rank == MAX_RANK || !*r->at) return complain(r, "a shape expected");
      o->type.shape[o->type.rank++] = strtoll(r->at, &end, 10);
      if (end == r->at) return complain(r, "an extent expected");
      r->at = end;
      take(r, ',');
    }
  return true;
}

static uint64_t name_seed(const char *name) {
  uint64_t h = 1469598103934665603u; /* FNV-1a */
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return h;
}

static bool fill_operands(Reader *r, Sample *s, const char *begin) {
  if (r->op->traits & RANDOM)
    s->operand[s->count++] = (SampleOperand){.letter = 'C', .type = {.dtype = I64}};
  for (int i = 0; i < s->count; i++) {
    SampleOperand *o = &s->operand[i];
    RngKey key = {.seed = name_seed(begin), .stream = (uint32_t)i};
    o->value = arena_alloc(r->arena, (size_t)(type_count(&o->type) + 1) * sizeof *o->value);
    if (!o->value) return complain(r, "out of memory");
    fill(o, &key);
  }
  return true;
}

bool sample_next(Error *e, Arena *a, const OpDef *op, const char **text, Sample *out) {
  Reader r = {e, a, op, *text};
  *out = (Sample){.op = op};
  skip_space(&r);
  if (!*r.at) return false;
  const char *begin = r.at;
  for (skip_space(&r); *r.at && *r.at != '|'; skip_space(&r))
    if (!(take(&r, '{') ? read_attrs(&r, out) : read_operand(&r, out))) return false;
  out->text = arena_print(a, "%.*s", (int)(r.at - begin), begin);
  if (*r.at == '|') r.at++;
  *text = r.at;
  return fill_operands(&r, out, out->text);
}

Type sample_type(const Sample *s, int operand, Dtype real, Dtype integer) {
  const SampleOperand *o = &s->operand[operand];
  Type t = o->type;
  if (sample_is_float(o)) t.dtype = real;
  else if (strchr("IS", o->letter)) t.dtype = integer;
  return t;
}

Tensor *sample_tensor(Error *e, const Sample *s, int operand, Dtype real, Dtype integer) {
  Type type = sample_type(s, operand, real, integer);
  Tensor *t = tensor_new(e, &type);
  for (int64_t i = 0; t && i < type_count(&type); i++)
    dtype_set(type.dtype, t->data, i, s->operand[operand].value[i]);
  return t;
}

Node *sample_node(Graph *g, const Sample *s, Dtype real, Dtype integer) {
  Value *in[SAMPLE_OPERANDS];
  for (int i = 0; i < s->count; i++) {
    Type t = sample_type(s, i, real, integer);
    in[i] = graph_input(g, &t, "x");
  }
  return graph_node(g, s->op, in, s->count, s->attr);
}

bool sample_wanted(const OpDef *op, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (!strcmp(op->name, argv[i])) return true;
  return argc == 1;
}

int sample_unknown(int argc, char **argv) {
  int count = 0;
  for (int i = 1; i < argc; i++) {
    if (op_find(argv[i])) continue;
    printf("FAIL %-24s there is no such op\n", argv[i]);
    count++;
  }
  return count;
}
