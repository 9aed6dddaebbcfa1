/* Blocks of pixels as channels, and channels as blocks of pixels. */
#include "ops/support.h"

enum { BLOCK_SIZE };

static Status check(Error *e, const Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  if (x->rank != 4)
    return fail(e, ERR_INVALID_ARGUMENT, "x must be [n, h, w, c], got %s", shape_text(x, text));
  if (n->attr[BLOCK_SIZE].i < 1)
    return fail(e, ERR_VALUE, "block_size must be at least 1, got %lld",
                (long long)n->attr[BLOCK_SIZE].i);
  return OK;
}

static Status infer_depth_to_space(Error *e, Node *n) {
  Status s = check(e, n);
  if (s != OK) return s;
  Type *y = &n->out[0].type;
  *y = n->in[0]->type;
  int64_t b = n->attr[BLOCK_SIZE].i, depth = y->shape[3];
  char text[TYPE_TEXT];
  if (depth % b || depth / b % b)
    return fail(e, ERR_INVALID_ARGUMENT,
                "the %lld channels of %s can't be divided into blocks of %lld by %lld",
                (long long)depth, shape_text(y, text), (long long)b, (long long)b);
  y->shape[3] = depth / b / b;
  if (__builtin_mul_overflow(y->shape[1], b, &y->shape[1]) ||
      __builtin_mul_overflow(y->shape[2], b, &y->shape[2]))
    return fail(e, ERR_VALUE, "block_size %lld is too large", (long long)b);
  return OK;
}

static Status infer_space_to_depth(Error *e, Node *n) {
  Status s = check(e, n);
  if (s != OK) return s;
  Type *y = &n->out[0].type;
  *y = n->in[0]->type;
  int64_t b = n->attr[BLOCK_SIZE].i;
  char text[TYPE_TEXT];
  if (y->shape[1] % b || y->shape[2] % b)
    return fail(e, ERR_INVALID_ARGUMENT,
                "height and width of %s can't be divided into blocks of %lld by %lld",
                shape_text(y, text), (long long)b, (long long)b);
  y->shape[1] /= b;
  y->shape[2] /= b;
  if (__builtin_mul_overflow(y->shape[3], b, &y->shape[3]) ||
      __builtin_mul_overflow(y->shape[3], b, &y->shape[3]))
    return fail(e, ERR_VALUE, "block_size %lld is too large", (long long)b);
  return OK;
}

/* The pixels of `image`, block by block, beside the channels of `deep`; whichever is written. */
static Status move(const Call *c, const Type *image, const Type *deep, bool to_image) {
  int64_t b = c->attr[BLOCK_SIZE].i, channels = image->shape[3];
  int64_t extent[] = {deep->shape[0], deep->shape[1], b, deep->shape[2], b, channels};
  int64_t in_image[] = {image->shape[1] * image->shape[2] * channels,
                        b * image->shape[2] * channels,
                        image->shape[2] * channels,
                        b * channels,
                        channels,
                        1};
  int64_t in_deep[] = {deep->shape[1] * deep->shape[2] * deep->shape[3],
                       deep->shape[2] * deep->shape[3],
                       b * channels,
                       deep->shape[3],
                       channels,
                       1};
  Strided s = {0};
  for (int i = 0; i < 6; i++)
    strided_add(&s, extent[i], to_image ? in_deep[i] : in_image[i],
                to_image ? in_image[i] : in_deep[i]);
  copy_strided(c, dtype_size(image->dtype), &s, c->in[0], c->out[0]);
  return OK;
}

static Status eval_depth_to_space(const Call *c) {
  return move(c, c->out_type[0], c->in_type[0], true);
}

static Status eval_space_to_depth(const Call *c) {
  return move(c, c->in_type[0], c->out_type[0], false);
}

static void grad_depth_to_space(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "nn.space_to_depth", &dy[0], 1, n->attr);
}

static void grad_space_to_depth(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, "nn.depth_to_space", &dy[0], 1, n->attr);
}

const OpDef ops_depth[] = {
    {.name = "nn.depth_to_space",
     .summary =
         "The channels of each pixel as a block of pixels: by row, by column, then by channel.",
     .shapes = "[n, h, w, b·b·c] → [n, h·b, w·b, c]",
     .inputs = {"x"},
     .attrs = {{"block_size", ATTR_INT, NULL, NULL, "pixels of a block, in each direction"}},
     .infer = infer_depth_to_space,
     .cost = cost_of_transpose,
     .eval = eval_depth_to_space,
     .grad = grad_depth_to_space,
     .sample =
         "F[2,2,3,8] {block_size = 2} | F[1,2,1,9] {block_size = 3} | "
         "I9[1,1,2,2] {block_size = 1} | B[1,1,1,4] {block_size = 2} | F[0,2,2,4] {block_size = 2}"},
    {.name = "nn.space_to_depth",
     .summary = "The pixels of each block as channels of one: by row, by column, then by channel.",
     .shapes = "[n, h·b, w·b, c] → [n, h, w, b·b·c]",
     .inputs = {"x"},
     .attrs = {{"block_size", ATTR_INT, NULL, NULL, "pixels of a block, in each direction"}},
     .infer = infer_space_to_depth,
     .cost = cost_of_transpose,
     .eval = eval_space_to_depth,
     .grad = grad_space_to_depth,
     .sample =
         "F[2,4,6,2] {block_size = 2} | F[1,6,3,1] {block_size = 3} | "
         "I9[1,1,2,2] {block_size = 1} | B[1,2,2,1] {block_size = 2} | F[0,2,2,1] {block_size = 2}"},
    {0}};
