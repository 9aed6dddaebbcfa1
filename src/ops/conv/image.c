/* Images on their way into a model. */
#include <string.h>

#include "ops/support.h"

enum { CHANNELS = 3, PADDED = 4 };

/* Pixels of three channels become four, the last one 0: (image scale - offset) factor. uint8 gives
 * float16. */
static Status infer(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  if (x->dtype != U8 && !dtype_is_float(x->dtype))
    return fail(e, ERR_TYPE, "the image must be uint8 or floating point, got %s",
                dtype_name(x->dtype));
  if (x->rank < 1 || x->shape[x->rank - 1] != CHANNELS)
    return fail(e, ERR_INVALID_ARGUMENT, "the image's innermost axis must have %d channels, got %s",
                CHANNELS, shape_text(x, text));
  for (int i = 1; i < 3; i++) {
    const Type *t = &n->in[i]->type;
    Status s = want_float(e, t);
    if (s != OK) return s;
    if (t->rank != 1 || t->shape[0] != CHANNELS)
      return fail(e, ERR_INVALID_ARGUMENT, "%s must be [%d], got %s", n->op->inputs[i], CHANNELS,
                  shape_text(t, text));
  }
  n->out[0].type = *x;
  n->out[0].type.shape[x->rank - 1] = PADDED;
  if (x->dtype == U8) n->out[0].type.dtype = F16;
  return OK;
}

typedef struct Pixels {
  const Call *call;
  double scale, offset[CHANNELS], factor[CHANNELS];
} Pixels;

#define PIXELS(id, X, Y)                                                     \
  static void pixels_##id(void *context, int64_t begin, int64_t end) {       \
    const Pixels *p = context;                                               \
    const X *x = (const X *)p->call->in[0] + begin * CHANNELS;               \
    Y *y = (Y *)p->call->out[0] + begin * PADDED;                            \
    for (int64_t i = begin; i < end; i++, x += CHANNELS, y += PADDED) {      \
      for (int k = 0; k < CHANNELS; k++)                                     \
        y[k] = (Y)(((double)x[k] * p->scale - p->offset[k]) * p->factor[k]); \
      y[CHANNELS] = 0;                                                       \
    }                                                                        \
  }
PIXELS(u8, uint8_t, float)
PIXELS(f32, float, float)
PIXELS(f64, double, double)

static Status body(const Call *c) {
  Pixels p = {.call = c, .scale = c->attr[0].f};
  for (int k = 0; k < CHANNELS; k++) {
    p.offset[k] = dtype_get(c->in_type[1]->dtype, c->in[1], k);
    p.factor[k] = dtype_get(c->in_type[2]->dtype, c->in[2], k);
  }
  Dtype d = c->in_type[0]->dtype;
  parallel_for(c, type_count(c->in_type[0]) / CHANNELS, 4096,
               d == U8    ? pixels_u8
               : d == F64 ? pixels_f64
                          : pixels_f32,
               &p);
  return OK;
}
static Status eval(const Call *c) { return eval_wide(c, body); }
static size_t scratch(const Node *n) { return wide_scratch(n, 0); }

static void grad(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  const Type *x = &n->in[0]->type;
  Dtype d = n->out[0].type.dtype;
  int64_t begin[MAX_RANK] = {0};
  Attr cut[] = {attr_ints(begin, x->rank), attr_ints(x->shape, x->rank)};
  Value *inner = op_with(g, "slice", &dy[0], 1, cut);
  Value *offset = ops_cast(g, n->in[1], d), *factor = ops_cast(g, n->in[2], d);
  Value *scaled = ops_scale(g, ops_cast(g, n->in[0], d), n->attr[0].f),
        *weighted = ops_mul(g, inner, factor);
  if (dtype_is_float(x->dtype)) dx[0] = ops_scale(g, weighted, n->attr[0].f);
  dx[1] = ops_cast(g, ops_neg(g, ops_sum_to(g, weighted, &n->in[1]->type)), n->in[1]->type.dtype);
  dx[2] = ops_cast(g, ops_sum_to(g, ops_mul(g, inner, ops_sub(g, scaled, offset)), &n->in[2]->type),
                   n->in[2]->type.dtype);
}

const OpDef ops_image[] = {
    {.name = "normalise_image",
     .source = "image_ops.normalise_image of Graphcore's TensorFlow 2.6",
     .summary =
         "(image scale - channel_offsets) channel_scales, with a fourth channel of zeros; uint8 gives "
         "float16, and so are numbers beside it.",
     .shapes = "[..., 3], [3], [3] → [..., 4]",
     .inputs = {"image", "channel_offsets", "channel_scales"},
     .attrs = {{"scale", ATTR_FLOAT, "1", NULL, "of the image, before the offsets"}},
     .traits = HALF_OF_BYTES,
     .infer = infer,
     .cost = cost_of_elementwise,
     .cycles = FUSED(3 + 3 + 3 - 4, 3 + 3 + 3 - 4), /* scaled, less the offset, times the factor */
     .eval = eval,
     .scratch = scratch,
     .grad = grad,
     .sample = "F[2,2,3] F[3] F[3] {scale = 0.5} | F[3] F[3] F[3] | F[70,90,3] F[3] F[3]"},
    {0}};
