/* Where the extremes along an axis are. */
#include <string.h>

#include "ops/support.h"

enum { AXIS };

static Status infer_position(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int axis;
  char text[TYPE_TEXT];
  if (x->dtype == BOOL) return fail(e, ERR_TYPE, "operands must be numbers, got bool");
  Status s = axis_check(e, "axis", n->attr[0].i, x->rank, &axis);
  if (s != OK) return s;
  n->attr[0].i = axis;
  n->out[0].type = type_reduced(x, 1, &axis, false);
  n->out[0].type.dtype = I32;
  if (x->shape[axis] == 0)
    return fail(e, ERR_VALUE, "nothing to choose from along axis %d of %s", axis,
                shape_text(x, text));
  return x->shape[axis] <= INT32_MAX
             ? OK
             : fail(e, ERR_VALUE, "axis %d of %s is too long", axis, shape_text(x, text));
}

typedef struct Positions {
  const void *x;
  int32_t *y;
  Around shape;
} Positions;

/* The first of equals; NaN beats all. Walks rows, so that inner elements are read in order. */
#define POSITION(id, T, better)                                      \
  static void find_##id(void *context, int64_t begin, int64_t end) { \
    const Positions *p = context;                                    \
    int64_t inner = p->shape.inner;                                  \
    for (int64_t o = begin; o < end; o++) {                          \
      const T *x = (const T *)p->x + o * p->shape.extent * inner;    \
      int32_t *y = p->y + o * inner;                                 \
      memset(y, 0, (size_t)inner * sizeof *y);                       \
      for (int64_t k = 1; k < p->shape.extent; k++)                  \
        for (int64_t i = 0; i < inner; i++) {                        \
          T a = x[k * inner + i], b = x[y[i] * inner + i];           \
          if (better) y[i] = (int32_t)k;                             \
        }                                                            \
    }                                                                \
  }
#define POSITIONS(id, T)                             \
  POSITION(max_##id, T, a > b || (a != a && b == b)) \
  POSITION(min_##id, T, a < b || (a != a && b == b))
/* clang-format off */
#define POSITION_TYPES(X) \
  X(f32, F32, float)      \
  X(f64, F64, double) X(i8, I8, int8_t) X(u8, U8, uint8_t) X(i32, I32, int32_t) X(i64, I64, int64_t)
/* clang-format on */
#define X(id, d, T) POSITIONS(id, T)
POSITION_TYPES(X)
#undef X

typedef void (*FindPositions)(void *, int64_t, int64_t);

static Status find_positions(const Call *c, const FindPositions *find) {
  Positions p = {c->in[0], c->out[0], around_axis(c->in_type[0], (int)c->attr[0].i)};
  parallel_for(c, p.shape.outer, (1 << 14) / max(p.shape.extent * p.shape.inner, 1),
               find[c->in_type[0]->dtype], &p);
  return OK;
}

static Status body_argmax(const Call *c) {
#define X(id, d, T) [d] = find_max_##id,
  static const FindPositions find[DTYPE_COUNT] = {POSITION_TYPES(X)};
#undef X
  return find_positions(c, find);
}
static Status body_argmin(const Call *c) {
#define X(id, d, T) [d] = find_min_##id,
  static const FindPositions find[DTYPE_COUNT] = {POSITION_TYPES(X)};
#undef X
  return find_positions(c, find);
}
static Status eval_argmax(const Call *c) { return eval_wide(c, body_argmax); }
static Status eval_argmin(const Call *c) { return eval_wide(c, body_argmin); }

#define POSITION_ROW(id, which, cases)                                                        \
  {.name = #id,                                                                               \
   .summary = "Position of the " which " element along an axis, int32; the first of equals.", \
   .shapes = "[...] → without axis",                                                          \
   .inputs = {"x"},                                                                           \
   .attrs = {{"axis", ATTR_INT, "0", NULL, "axis to search"}},                                \
   .traits = NO_GRADIENT,                                                                     \
   .infer = infer_position,                                                                   \
   .cost = cost_of_position,                                                                  \
   .eval = eval_##id,                                                                         \
   .scratch = scratch_wide,                                                                   \
   .sample = "D[2,3,4] {axis = 1} | D[2,3] {axis = -1} | I5[7]" cases}
const OpDef ops_position[] = {POSITION_ROW(argmax, "greatest", " | D[200,90] {axis = 1}"),
                              POSITION_ROW(argmin, "smallest", ""),
                              {0}};
