/* Parts of a tensor, and the frames around one. */
#include <string.h>

#include "ops/same.h"
#include "ops/support.h"

/* ---- slice ---- */

enum { BEGIN, SIZE };

static int64_t slice_size(const Node *n, int i) {
  int64_t size = n->attr[SIZE].ints.v[i];
  return size == -1 ? n->in[0]->type.shape[i] - n->attr[BEGIN].ints.v[i] : size;
}

static Status infer_slice(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  const Attr *begin = &n->attr[BEGIN], *size = &n->attr[SIZE];
  char text[TYPE_TEXT];
  if (begin->ints.n != x->rank || size->ints.n != x->rank)
    return fail(e, ERR_VALUE, "begin and size must have %d numbers for %s, got %d and %d", x->rank,
                shape_text(x, text), begin->ints.n, size->ints.n);
  n->out[0].type = *x;
  for (int i = 0; i < x->rank; i++) {
    int64_t from = begin->ints.v[i];
    bool inside = from >= 0 && from <= x->shape[i];
    int64_t count = inside ? slice_size(n, i) : -1;
    if (count < 0 || count > x->shape[i] - from)
      return fail(e, ERR_INVALID_ARGUMENT, "begin %lld, size %lld is outside of axis %d of %s",
                  (long long)from, (long long)size->ints.v[i], i, shape_text(x, text));
    n->out[0].type.shape[i] = count;
  }
  return OK;
}

/* y = x[first + step * i] along each axis, or, backwards, the same elements of a zeroed x from
 * y. */
static void copy_steps(const Call *c, const Type *x, const Type *y, const int64_t *first,
                       const int64_t *step, const void *from, void *to, bool backwards) {
  int64_t xs[MAX_RANK], ys[MAX_RANK], offset = 0;
  size_t size = dtype_size(x->dtype);
  if (!type_count(y)) return;
  type_strides(x, xs);
  type_strides(y, ys);
  Strided s = {0};
  for (int i = 0; i < x->rank; i++) {
    /* a step that is never made may be any number */
    int64_t there = xs[i] * (step && y->shape[i] > 1 ? step[i] : 1);
    offset += xs[i] * first[i];
    strided_add(&s, y->shape[i], backwards ? ys[i] : there, backwards ? there : ys[i]);
  }
  if (backwards) copy_strided(c, size, &s, from, (char *)to + offset * (int64_t)size);
  else copy_strided(c, size, &s, (const char *)from + offset * (int64_t)size, to);
}

static Status eval_slice(const Call *c) {
  copy_steps(c, c->in_type[0], c->out_type[0], c->attr[BEGIN].ints.v, NULL, c->in[0], c->out[0],
             false);
  return OK;
}

static void grad_slice(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Type *x = &n->in[0]->type;
  int64_t around[2 * MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    around[2 * i] = n->attr[BEGIN].ints.v[i];
    around[2 * i + 1] = x->shape[i] - around[2 * i] - slice_size(n, i);
  }
  Attr attrs[MAX_ATTRS] = {attr_ints(around, 2 * x->rank)};
  dx[0] = op_with(g, "pad", &dy[0], 1, attrs);
}

/* ---- strided_slice: Python's x[begin:end:stride, ...] ---- */

enum { BEGINS, ENDS, STRIDES, WHOLE };

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}

/* A position as written to one within the axis; SLICE_OPEN is the given end. */
static int64_t position(int64_t v, int64_t extent, int64_t low, int64_t high, int64_t open) {
  if (v == SLICE_OPEN) return open;
  return clamp(v < 0 ? v + extent : v, low, high);
}

typedef struct Steps {
  int64_t first[MAX_RANK], step[MAX_RANK], count[MAX_RANK];
} Steps;

static int64_t item(const Attr *a, int i, int64_t otherwise) {
  return attr_given(a) && i < a->ints.n ? a->ints.v[i] : otherwise;
}

static void find_steps(const Node *n, const Type *x, Steps *s) {
  for (int i = 0; i < x->rank; i++) {
    int64_t extent = x->shape[i], step = item(&n->attr[STRIDES], i, 1);
    bool back = step < 0;
    int64_t low = back ? -1 : 0, high = back ? extent - 1 : extent;
    int64_t first =
        position(item(&n->attr[BEGINS], i, SLICE_OPEN), extent, low, high, back ? extent - 1 : 0);
    int64_t last =
        position(item(&n->attr[ENDS], i, SLICE_OPEN), extent, low, high, back ? -1 : extent);
    int64_t span = back ? first - last : last - first, stride = back ? -step : step;
    s->first[i] = first, s->step[i] = step;
    s->count[i] = span > 0 ? (span - 1) / stride + 1 : 0;
  }
}

static Status check_steps(Error *e, const Node *n, const Type *x) {
  char text[TYPE_TEXT];
  for (int a = BEGINS; a <= STRIDES; a++)
    if (attr_given(&n->attr[a]) && n->attr[a].ints.n > x->rank)
      return fail(e, ERR_VALUE, "%s has %d number%s, but %s only %d %s", n->op->attrs[a].name,
                  n->attr[a].ints.n, plural(n->attr[a].ints.n), shape_text(x, text), x->rank,
                  x->rank == 1 ? "axis" : "axes");
  for (int i = 0; i < x->rank; i++) {
    int64_t step = item(&n->attr[STRIDES], i, 1);
    if (step == 0 || step == SLICE_OPEN) return fail(e, ERR_VALUE, "strides must not be 0");
  }
  return OK;
}

static Type stepped_type(const Type *x, const Steps *s) {
  Type t = *x;
  for (int i = 0; i < x->rank; i++) t.shape[i] = s->count[i];
  return t;
}

static Status infer_strided(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  Steps s;
  Status status = check_steps(e, n, x);
  if (status != OK) return status;
  find_steps(n, x, &s);
  n->out[0].type = stepped_type(x, &s);
  return OK;
}

static Status eval_strided(const Call *c) {
  Steps s;
  find_steps(c->node, c->in_type[0], &s);
  copy_steps(c, c->in_type[0], c->out_type[0], s.first, s.step, c->in[0], c->out[0], false);
  return OK;
}

static void grad_strided(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Type *x = &n->in[0]->type;
  Attr attrs[] = {n->attr[BEGINS], n->attr[ENDS], n->attr[STRIDES], attr_ints(x->shape, x->rank)};
  dx[0] = op_with(g, "strided_slice_grad", &dy[0], 1, attrs);
}

/* dy into zeros of the sliced shape. */
static Status infer_strided_grad(Error *e, Node *n) {
  const Attr *a = &n->attr[WHOLE];
  char want[TYPE_TEXT], got[TYPE_TEXT];
  Steps s;
  Type x = type_make(n->in[0]->type.dtype, (int)clamp(a->ints.n, 0, MAX_RANK), a->ints.v);
  Status status = type_check(e, "shape", &x);
  if (status == OK) status = check_steps(e, n, &x);
  if (status != OK) return status;
  find_steps(n, &x, &s);
  Type y = stepped_type(&x, &s);
  if (!shape_equal(&y, &n->in[0]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "dy must be %s, got %s", shape_text(&y, want),
                shape_text(&n->in[0]->type, got));
  n->out[0].type = x;
  return OK;
}

static Status eval_strided_grad(const Call *c) {
  Steps s;
  find_steps(c->node, c->out_type[0], &s);
  fill_zero(c, c->out[0], type_bytes(c->out_type[0]));
  copy_steps(c, c->out_type[0], c->in_type[0], s.first, s.step, c->in[0], c->out[0], true);
  return OK;
}

static void grad_strided_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "strided_slice", &dy[0], 1, n->attr);
}

/* ---- pad ---- */

enum { PADDINGS, MODE, CONSTANT_VALUES, PADDED };

typedef enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_SYMMETRIC } PadMode;

/* The word is one of the row's, in any case; C callers pass the row's own. */
static PadMode pad_mode(const Node *n) {
  char first = n->attr[MODE].s[0];
  return first == 'R' || first == 'r'   ? PAD_REFLECT
         : first == 'S' || first == 's' ? PAD_SYMMETRIC
                                        : PAD_CONSTANT;
}

static int64_t before(const Node *n, int axis) { return n->attr[PADDINGS].ints.v[2 * axis]; }
static int64_t behind(const Node *n, int axis) { return n->attr[PADDINGS].ints.v[2 * axis + 1]; }

static Status check_paddings(Error *e, const Node *n, const Type *x) {
  char text[TYPE_TEXT];
  PadMode mode = pad_mode(n);
  if (n->attr[PADDINGS].ints.n != 2 * x->rank)
    return fail(e, ERR_VALUE, "paddings must be %d pairs for %s, got %d numbers", x->rank,
                shape_text(x, text), n->attr[PADDINGS].ints.n);
  for (int i = 0; i < x->rank; i++) {
    int64_t limit = mode == PAD_REFLECT ? x->shape[i] - 1 : x->shape[i];
    int64_t max_asked = max(before(n, i), behind(n, i));
    if (before(n, i) < 0 || behind(n, i) < 0)
      return fail(e, ERR_VALUE, "paddings must not be negative (axis %d)", i);
    if (mode != PAD_CONSTANT && max_asked > max(limit, 0))
      return fail(e, ERR_VALUE,
                  "axis %d of %s can be padded by %lld at most in this mode, not %lld", i,
                  shape_text(x, text), (long long)max(limit, 0), (long long)max_asked);
  }
  return OK;
}

static Status padded_type(Error *e, const Node *n, const Type *x, Type *y) {
  char text[TYPE_TEXT];
  *y = *x;
  for (int i = 0; i < x->rank; i++)
    if (__builtin_add_overflow(y->shape[i], before(n, i), &y->shape[i]) ||
        __builtin_add_overflow(y->shape[i], behind(n, i), &y->shape[i]))
      return fail(e, ERR_VALUE, "%s with these paddings is too large", shape_text(x, text));
  return OK;
}

static Status infer_pad(Error *e, Node *n) {
  Status s = check_paddings(e, n, &n->in[0]->type);
  return s == OK ? padded_type(e, n, &n->in[0]->type, &n->out[0].type) : s;
}

typedef struct Fill {
  const void *value;
  size_t size;
  char *y;
} Fill;

static void fill_range(void *context, int64_t begin, int64_t end) {
  const Fill *f = context;
  fill_elements(f->y + (size_t)begin * f->size, f->size, f->value, end - begin);
}

/* Where element i of a padded axis comes from. */
static int64_t mirrored(PadMode mode, int64_t i, int64_t pad, int64_t extent) {
  int64_t at = i - pad, edge = mode == PAD_REFLECT ? 0 : 1;
  if (at < 0) return -at - edge;
  return at < extent ? at : 2 * extent - 2 + edge - at;
}

/* One axis after the other: the frame of axis i is made of slices that stand in y already. */
static void fill_mirrors(const Call *c, size_t size) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  PadMode mode = pad_mode(c->node);
  for (int axis = x->rank - 1; axis >= 0; axis--) {
    Around a = around_axis(y, axis);
    int64_t pad = before(c->node, axis), extent = x->shape[axis], run = a.inner * (int64_t)size;
    for (int64_t o = 0; o < a.outer; o++) {
      char *base = (char *)c->out[0] + o * a.extent * run;
      for (int64_t i = 0; i < a.extent; i++)
        if (i < pad || i >= pad + extent)
          memcpy(base + i * run, base + (pad + mirrored(mode, i, pad, extent)) * run, (size_t)run);
    }
  }
}

static Status eval_pad(const Call *c) {
  const Type *x = c->in_type[0], *y = c->out_type[0];
  size_t size = dtype_size(x->dtype);
  int64_t first[MAX_RANK], bits = 0;
  for (int i = 0; i < x->rank; i++) first[i] = before(c->node, i);
  int events = set_cast(x->dtype, &bits, 0, c->attr[CONSTANT_VALUES].f, c->numerics);
  Fill f = {&bits, size, c->out[0]};
  if (pad_mode(c->node) == PAD_CONSTANT) parallel_for(c, type_count(y), 1 << 16, fill_range, &f);
  copy_steps(c, y, x, first, NULL, c->in[0], c->out[0], true);
  if (pad_mode(c->node) != PAD_CONSTANT) fill_mirrors(c, size);
  return trap_events(c, events);
}

static void grad_pad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Type *x = &n->in[0]->type;
  int64_t first[MAX_RANK];
  for (int i = 0; i < x->rank; i++) first[i] = before(n, i);
  Attr cut[] = {attr_ints(first, x->rank), attr_ints(x->shape, x->rank)};
  Attr fold[] = {n->attr[PADDINGS], n->attr[MODE], n->attr[CONSTANT_VALUES],
                 attr_ints(x->shape, x->rank)};
  dx[0] = pad_mode(n) == PAD_CONSTANT ? op_with(g, "slice", &dy[0], 1, cut)
                                      : op_with(g, "pad_grad", &dy[0], 1, fold);
}

static Status infer_pad_grad(Error *e, Node *n) {
  const Attr *a = &n->attr[PADDED];
  const Type *dy = &n->in[0]->type;
  char want[TYPE_TEXT], got[TYPE_TEXT];
  Type x = type_make(dy->dtype, (int)clamp(a->ints.n, 0, MAX_RANK), a->ints.v), y;
  Status s = want_float(e, dy);
  if (s == OK && pad_mode(n) == PAD_CONSTANT)
    s = fail(e, ERR_VALUE, "mode must be REFLECT or SYMMETRIC");
  if (s == OK && a->ints.n != x.rank)
    s = fail(e, ERR_VALUE, "shape has %d numbers, at most %d", a->ints.n, MAX_RANK);
  if (s == OK) s = type_check(e, "shape", &x);
  if (s == OK) s = check_paddings(e, n, &x);
  if (s == OK) s = padded_type(e, n, &x, &y);
  if (s == OK && !shape_equal(&y, dy))
    return fail(e, ERR_INVALID_ARGUMENT, "dy must be %s, got %s", shape_text(&y, want),
                shape_text(dy, got));
  n->out[0].type = x;
  return s;
}

/* Fold the frame of one axis of dy (in scratch) onto the inside. */
static void fold_axis(Dtype d, void *data, PadMode mode, Around a, int64_t pad, int64_t extent) {
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t i = 0; i < a.extent; i++) {
      if (i >= pad && i < pad + extent) continue;
      int64_t to = (o * a.extent + pad + mirrored(mode, i, pad, extent)) * a.inner,
              from = (o * a.extent + i) * a.inner;
      for (int64_t k = 0; k < a.inner; k++)
        if (d == F64) ((double *)data)[to + k] += ((double *)data)[from + k];
        else ((float *)data)[to + k] += ((float *)data)[from + k];
    }
}

static Status body_pad_grad(const Call *c) {
  const Type *dy = c->in_type[0], *x = c->out_type[0];
  int64_t first[MAX_RANK];
  copy_bytes(c, c->scratch, c->in[0], type_bytes(dy));
  for (int i = 0; i < x->rank; i++) {
    first[i] = before(c->node, i);
    fold_axis(dy->dtype, c->scratch, pad_mode(c->node), around_axis(dy, i), first[i], x->shape[i]);
  }
  copy_steps(c, dy, x, first, NULL, c->scratch, c->out[0], false);
  return OK;
}
static Status eval_pad_grad(const Call *c) { return eval_wide(c, body_pad_grad); }
static size_t scratch_pad_grad(const Node *n) {
  return wide_scratch(n, compute_bytes(&n->in[0]->type));
}
static void grad_pad_grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "pad", &dy[0], 1, n->attr);
}

/* ---- rows ---- */

#define STEP_ATTRS                                                          \
  {"begins", ATTR_INTS, NULL, NULL,                                         \
   "first index of each axis; negative from the end, false: open"},         \
      {"ends", ATTR_INTS, NULL, NULL, "index after the last; false: open"}, \
      {"strides", ATTR_INTS, "nil", NULL, "steps; negative ones go backwards"}
#define PAD_ATTRS                                                                        \
  {"paddings", ATTR_INTS, NULL, NULL, "for each axis: elements before, elements after"}, \
      {"mode", ATTR_STRING, "'CONSTANT'", "CONSTANT REFLECT SYMMETRIC",                  \
       "how the frame is filled"},                                                       \
      {"constant_values", ATTR_FLOAT, "0", NULL, "the number that CONSTANT fills with"}
#define WHOLE_ATTR {"shape", ATTR_INTS, NULL, NULL, "of the result"}

const OpDef ops_slice[] = {
    {.name = "slice",
     .summary = "size elements from begin on along each axis; size -1 goes to the end.",
     .shapes = "[...] → size",
     .inputs = {"x"},
     .attrs = {{"begin", ATTR_INTS, NULL, NULL, "first index of each axis"},
               {"size", ATTR_INTS, NULL, NULL, "elements of each axis; -1: the rest"}},
     .infer = infer_slice,
     .simplify = simplify_whole,
     .cost = cost_of_copy,
     .eval = eval_slice,
     .grad = grad_slice,
     .sample =
         "F[5,4] {begin = {1, 0}, size = {3, 2}} | F[2,3,5] {begin = {0, 1, 2}, size = {2, 1, -1}} | "
         "F[] {begin = {}, size = {}} | "
         "F[3] {begin = 3, size = 0} | I5[4] {begin = 1, size = 2} | F[300,200] {begin = {1, 1}, size "
         "= {298, 150}}"},
    {.name = "strided_slice",
     .summary = "Python's x[begin:end:stride, ...]; false stands for an open end.",
     .shapes = "[...] → sliced",
     .inputs = {"x"},
     .attrs = {STEP_ATTRS},
     .infer = infer_strided,
     .cost = cost_of_rearrange,
     .eval = eval_strided,
     .grad = grad_strided,
     .sample =
         "F[7] {begins = 1, ends = 6, strides = 2} | F[5,6] {begins = {false, false}, ends = {false, "
         "false}, strides = {2, 3}} | "
         "F[4,5] {begins = {-3, 0}, ends = {false, -1}} | F[2,3,8] {begins = {0, false, 7}, ends = {1, "
         "false, false}, strides = {1, 1, -3}} | "
         "F[4] {begins = 3, ends = 1} | F[5] {begins = false, ends = false, strides = -1} | I5[4,2] "
         "{begins = 1, ends = 9}"},
    {.name = "strided_slice_grad",
     .summary = "dy where strided_slice took it from, in zeros.",
     .shapes = "sliced → shape",
     .inputs = {"dy"},
     .attrs = {STEP_ATTRS, WHOLE_ATTR},
     .traits = INTERNAL,
     .infer = infer_strided_grad,
     .cost = cost_of_rearrange,
     .eval = eval_strided_grad,
     .grad = grad_strided_grad,
     .sample =
         "F[3] {begins = 1, ends = 6, strides = 2, shape = 7} | F[1,3,3] {begins = {0, false, 7}, ends "
         "= {1, false, false}, "
         "strides = {1, 1, -3}, shape = {2, 3, 8}}"},
    {.name = "pad",
     .summary = "A frame around x.",
     .shapes = "[n, ...] → [before + n + after, ...]",
     .inputs = {"x"},
     .attrs = {PAD_ATTRS},
     .infer = infer_pad,
     .simplify = simplify_whole,
     .cost = cost_of_copy,
     .eval = eval_pad,
     .grad = grad_pad,
     .sample =
         "F[2,3] {paddings = {{1, 0}, {0, 2}}} | F[4] {paddings = {{2, 3}}, constant_values = 1.5} | "
         "F[3,4] {paddings = {{1, 2}, {2, 1}}, mode = 'REFLECT'} | F[3,2] {paddings = {{2, 1}, {1, "
         "2}}, mode = 'SYMMETRIC'} | "
         "F[2,3,2] {paddings = {{0, 0}, {2, 1}, {0, 0}}, mode = 'REFLECT'} | F[0] {paddings = {{1, "
         "1}}} | I5[3] {paddings = {1, 1}} | "
         "F[300,200] {paddings = {{1, 1}, {2, 2}}}"},
    {.name = "pad_grad",
     .summary = "The frame of a mirrored pad added to the inside.",
     .shapes = "[before + n + after, ...] → [n, ...]",
     .inputs = {"dy"},
     .attrs = {PAD_ATTRS, WHOLE_ATTR},
     .traits = INTERNAL,
     .infer = infer_pad_grad,
     .cost = cost_of_rearrange,
     .eval = eval_pad_grad,
     .scratch = scratch_pad_grad,
     .grad = grad_pad_grad,
     .sample = "F[6,7] {paddings = {{1, 2}, {2, 1}}, mode = 'REFLECT', shape = {3, 4}} | "
               "F[6,5] {paddings = {{2, 1}, {1, 2}}, mode = 'SYMMETRIC', shape = {3, 2}}"},
    {0}};
