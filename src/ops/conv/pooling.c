/* Pooling over windows of one to three spatial axes, channels last. Padding never counts:
 * windows are cut at the image's border. Max pooling records which position of its window won,
 * the first of equals; its gradient goes there. */
#include <string.h>

#include "ops/nn.h"
#include "target/cost.h"

/* attributes; shape: gradients, the image's spatial extents */
enum { KSIZE, STRIDES, PADDING, SHAPE };

typedef struct Pooling {
  Window w;
  int64_t batch, channels, taps; /* taps of a whole window */
  bool wide;                     /* the index is int32 */
} Pooling;

static Status geometry(Error *e, const Node *n, const Type *given, bool backward, Pooling *p) {
  char text[TYPE_TEXT];
  memset(p, 0, sizeof *p);
  int rank = given->rank - 2;
  if (rank < 1 || rank > SPATIAL)
    return fail(e, ERR_INVALID_ARGUMENT,
                "x must be [batch, 1 to 3 spatial extents, channels], got %s",
                shape_text(given, text));
  Window *w = &p->w;
  w->rank = rank;
  p->batch = given->shape[0];
  p->channels = given->shape[rank + 1];
  for (int i = 0; i < SPATIAL; i++) w->dilation[i] = w->in[i] = 1;
  Status s = nn_spatial(e, "ksize", &n->attr[KSIZE], rank, 1, NULL, w->kernel);
  if (s == OK) s = nn_spatial(e, "strides", &n->attr[STRIDES], rank, 1, w->kernel, w->stride);
  if (s == OK && backward) s = nn_spatial(e, "shape", &n->attr[SHAPE], rank, 0, NULL, w->in);
  for (int i = 0; i < rank && !backward; i++) w->in[SPATIAL - rank + i] = given->shape[1 + i];
  if (s == OK) s = nn_window(e, &n->attr[PADDING], w);
  if (s != OK) return s;
  p->taps = 1;
  for (int i = 0; i < SPATIAL; i++) {
    if (w->kernel[i] > w->in[i] + w->stride[i] && w->kernel[i] > (1 << 15))
      return fail(e, ERR_VALUE, "ksize %lld is far beyond the extent %lld", (long long)w->kernel[i],
                  (long long)w->in[i]);
    p->taps *= w->kernel[i];
    if (p->taps > INT32_MAX)
      return fail(e, ERR_VALUE, "a window of more than %d positions", INT32_MAX);
  }
  p->wide = p->taps > 256;
  return OK;
}

static Type spatial_type(const Pooling *p, Dtype d, const int64_t *extent) {
  Type t = {.dtype = d, .rank = p->w.rank + 2};
  t.shape[0] = p->batch;
  for (int i = 0; i < p->w.rank; i++) t.shape[1 + i] = extent[SPATIAL - p->w.rank + i];
  t.shape[p->w.rank + 1] = p->channels;
  return t;
}

static Status infer(Error *e, Node *n) {
  Pooling p;
  Status s = nn_want_float(e, n, 0, 1);
  if (s == OK) s = geometry(e, n, &n->in[0]->type, false, &p);
  if (s != OK) return s;
  n->out[0].type = spatial_type(&p, n->in[0]->type.dtype, p.w.out);
  if (n->out_count == 2) n->out[1].type = spatial_type(&p, p.wide ? I32 : U8, p.w.out);
  return OK;
}

static Status want_index(Error *e, const Type *index) {
  if (index->dtype == U8 || index->dtype == I32) return OK;
  return fail(e, ERR_TYPE, "index must be uint8 or int32, got %s", dtype_name(index->dtype));
}

static Status infer_grad(Error *e, Node *n) {
  Pooling p;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  const Type *dy = &n->in[0]->type;
  Status s = nn_want_float(e, n, 0, 1);
  if (s == OK) s = geometry(e, n, dy, true, &p);
  if (s != OK) return s;
  Type y = spatial_type(&p, dy->dtype, p.w.out);
  if (!shape_equal(&y, dy))
    return fail(e, ERR_INVALID_ARGUMENT, "dy %s must be %s", shape_text(dy, a), shape_text(&y, b));
  if (n->in_count == 2 && !shape_equal(&y, &n->in[1]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "index %s must be %s", shape_text(&n->in[1]->type, a),
                shape_text(&y, b));
  n->out[0].type = spatial_type(&p, dy->dtype, p.w.in);
  return n->in_count == 2 ? want_index(e, &n->in[1]->type) : OK;
}

/* (x, index) → the elements at index. */
static Status infer_pick(Error *e, Node *n) {
  Pooling p;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Status s = nn_want_float(e, n, 0, 1);
  if (s == OK) s = geometry(e, n, &n->in[0]->type, false, &p);
  if (s != OK) return s;
  Type y = spatial_type(&p, n->in[0]->type.dtype, p.w.out);
  if (!shape_equal(&y, &n->in[1]->type))
    return fail(e, ERR_INVALID_ARGUMENT, "index %s must be %s", shape_text(&n->in[1]->type, a),
                shape_text(&y, b));
  n->out[0].type = y;
  return want_index(e, &n->in[1]->type);
}

/* ---- running ---- */

typedef enum Mode { MODE_MAX, MODE_MAX_GRAD, MODE_PICK, MODE_MEAN, MODE_MEAN_GRAD } Mode;

typedef struct Job {
  Pooling p;
  Mode mode;
  const Kernels *kernels;
  Dtype dtype;
  size_t size, index_size;
  const char *x, *given_index;
  char *y, *index;
  int64_t rows; /* of a chunk: result rows */
} Job;

static bool is_backward(Mode m) { return m == MODE_MAX_GRAD || m == MODE_MEAN_GRAD; }

/* The taps of window position j that lie in the image: [*first, *end). */
static void cut(const Window *w, int i, int64_t j, int64_t *first, int64_t *end) {
  int64_t at = j * w->stride[i] - w->pad[i];
  *first = at < 0 ? -at : 0;
  *end = w->in[i] - at < w->kernel[i] ? w->in[i] - at : w->kernel[i];
}

/* Windows [j, j + count) of a row, all with taps [first2, end2) in it. */
static void run(const Job *job, int64_t image, const int64_t at[2], const int64_t first[SPATIAL],
                const int64_t end[SPATIAL], int64_t j, int64_t count, void *lists) {
  const Window *w = &job->p.w;
  int64_t channels = job->p.channels, taps = 0;
  int64_t *offset = lists;
  int32_t *tap = (int32_t *)(void *)(offset + job->p.taps);
  for (int64_t a = first[0]; a < end[0]; a++)
    for (int64_t b = first[1]; b < end[1]; b++)
      for (int64_t c = first[2]; c < end[2]; c++) {
        offset[taps] = ((a * w->in[1] + b) * w->in[2] + c) * channels;
        tap[taps++] = (int32_t)((a * w->kernel[1] + b) * w->kernel[2] + c);
      }
  int64_t z = at[0] * w->stride[0] - w->pad[0], y = at[1] * w->stride[1] - w->pad[1],
          x = j * w->stride[2] - w->pad[2];
  int64_t in = (((image * w->in[0] + z) * w->in[1] + y) * w->in[2] + x) *
               channels; /* of the window's corner, maybe outside */
  int64_t out = (((image * w->out[0] + at[0]) * w->out[1] + at[1]) * w->out[2] + j) * channels;
  bool backward = is_backward(job->mode);
  for (int64_t t = 0; t < taps; t++) offset[t] += in;
  PoolRun r = {.offset = offset,
               .tap = tap,
               .taps = taps,
               .rows = count,
               .channels = channels,
               .wide_index = job->p.wide,
               .scale = taps ? 1.0 / (double)taps : 0};
  r.x = job->x + (backward ? (size_t)out * job->size : 0);
  r.y = job->y + (backward ? 0 : (size_t)out * job->size);
  r.x_row = backward ? channels : w->stride[2] * channels;
  r.y_row = backward ? w->stride[2] * channels : channels;
  if (job->mode == MODE_MAX) r.index = job->index + (size_t)out * job->index_size;
  if (job->given_index)
    r.index = (char *)(uintptr_t)job->given_index + (size_t)out * job->index_size;
  switch (job->mode) {
    case MODE_MAX:
      job->kernels->pool_max[job->dtype](&r);
      break;
    case MODE_MAX_GRAD:
      job->kernels->pool_max_grad[job->dtype](&r);
      break;
    case MODE_PICK:
      job->kernels->pool_max_pick[job->dtype](&r);
      break;
    case MODE_MEAN:
      job->kernels->pool_sum[job->dtype](&r);
      break;
    case MODE_MEAN_GRAD:
      job->kernels->pool_spread[job->dtype](&r);
      break;
  }
}

static void run_row(const Job *job, int64_t image, int64_t z, int64_t y, void *lists) {
  const Window *w = &job->p.w;
  int64_t first[SPATIAL], end[SPATIAL], at[2] = {z, y};
  cut(w, 0, z, &first[0], &end[0]);
  cut(w, 1, y, &first[1], &end[1]);
  for (int64_t j = 0, count; j < w->out[2]; j += count) {
    int64_t next_first, next_end;
    cut(w, 2, j, &first[2], &end[2]);
    for (count = 1; j + count < w->out[2]; count++) {
      cut(w, 2, j + count, &next_first, &next_end);
      if (next_first != first[2] || next_end != end[2]) break;
    }
    run(job, image, at, first, end, j, count, lists);
  }
}

/* Gradients: an image at a time, as windows overlap. */
static void run_image(const Job *job, int64_t image, void *lists) {
  const Window *w = &job->p.w;
  size_t bytes = (size_t)(w->in[0] * w->in[1] * w->in[2] * job->p.channels) * job->size;
  memset(job->y + (size_t)image * bytes, 0, bytes);
  for (int64_t z = 0; z < w->out[0]; z++)
    for (int64_t y = 0; y < w->out[1]; y++) run_row(job, image, z, y, lists);
}

static void run_chunk(void *context, int64_t chunk, void *scratch) {
  const Job *job = context;
  const Window *w = &job->p.w;
  if (is_backward(job->mode)) {
    run_image(job, chunk, scratch);
    return;
  }
  int64_t rows = job->p.batch * w->out[0] * w->out[1], end = (chunk + 1) * job->rows;
  for (int64_t r = chunk * job->rows; r < end && r < rows; r++)
    run_row(job, r / w->out[1] / w->out[0], r / w->out[1] % w->out[0], r % w->out[1], scratch);
}

static size_t list_bytes(const Pooling *p) {
  return ((size_t)p->taps * (sizeof(int64_t) + sizeof(int32_t)) + 63) & ~(size_t)63;
}

static Status pool(const Call *c, Mode mode) {
  enum { GRAIN = 32768 }; /* elements read by a chunk */
  Error ignored = {0};
  Job job = {.mode = mode,
             .kernels = c->kernels,
             .dtype = c->in_type[0]->dtype,
             .x = c->in[0],
             .y = c->out[0]};
  geometry(&ignored, c->node, &c->node->in[0]->type, is_backward(mode), &job.p);
  const Window *w = &job.p.w;
  job.size = dtype_size(job.dtype);
  if (mode == MODE_MAX) job.index = c->out[1];
  if (mode == MODE_MAX_GRAD || mode == MODE_PICK) {
    job.given_index = c->in[1];
    job.p.wide = c->in_type[1]->dtype == I32;
  }
  job.index_size = job.p.wide ? 4 : 1;
  if (type_count(c->out_type[0]) == 0) return OK;
  int64_t per_row = w->out[2] * job.p.taps * job.p.channels,
          rows = job.p.batch * w->out[0] * w->out[1];
  job.rows = per_row < GRAIN ? GRAIN / (per_row + 1) + 1 : 1;
  int64_t chunks = is_backward(mode) ? job.p.batch : ceil_div(rows, job.rows);
  nn_run(c, chunks, c->scratch, list_bytes(&job.p), run_chunk, &job);
  return OK;
}

static size_t scratch(const Node *n) {
  Error ignored = {0};
  Pooling p;
  bool backward = op_attr_count(n->op) > SHAPE;
  geometry(&ignored, n, &n->in[0]->type, backward, &p);
  return wide_scratch(n, list_bytes(&p) * NN_SLOTS);
}

static void cost(const Target *t, const Node *n, PoolingKind kind, Cost *c) {
  Error ignored = {0};
  Pooling p;
  bool backward = op_attr_count(n->op) > SHAPE;
  geometry(&ignored, n, &n->in[0]->type, backward, &p);
  ConvShape s = {.batch = p.batch,
                 .groups = 1,
                 .in_channels = p.channels,
                 .out_channels = p.channels,
                 .rank = p.w.rank};
  for (int i = 0; i < p.w.rank; i++) {
    int from = SPATIAL - p.w.rank + i;
    s.in[i] = p.w.in[from], s.out[i] = p.w.out[from], s.kernel[i] = p.w.kernel[from];
    s.stride[i] = p.w.stride[from], s.dilation[i] = 1;
  }
  *c = cost_pooling(t, n->in[0]->type.dtype, kind, &s, backward);
}
static void cost_max(const Target *t, const Node *n, Cost *c) { cost(t, n, POOLING_MAX, c); }
static void cost_average(const Target *t, const Node *n, Cost *c) {
  cost(t, n, POOLING_AVERAGE, c);
}

#define EVAL(id, mode)                                              \
  static Status inner_##id(const Call *c) { return pool(c, mode); } \
  static Status eval_##id(const Call *c) { return eval_wide(c, inner_##id); }
EVAL(max, MODE_MAX)
EVAL(max_grad, MODE_MAX_GRAD)
EVAL(pick, MODE_PICK)
EVAL(mean, MODE_MEAN)
EVAL(mean_grad, MODE_MEAN_GRAD)
#undef EVAL

/* ---- gradients ---- */

/* The attributes of the gradient of a pooling of x, and back. */
static Value *with_shape(Graph *g, const char *name, const Node *n, Value *const *in, int count,
                         const Value *x) {
  return op_with(g, name, in, count,
                 (Attr[MAX_ATTRS]){n->attr[KSIZE], n->attr[STRIDES], n->attr[PADDING],
                                   attr_ints(x->type.shape + 1, x->type.rank - 2)});
}
static Value *same_window(Graph *g, const char *name, const Node *n, Value *const *in, int count) {
  return op_with(g, name, in, count,
                 (Attr[MAX_ATTRS]){n->attr[KSIZE], n->attr[STRIDES], n->attr[PADDING]});
}

static void grad_max(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  if (dy[0])
    dx[0] = with_shape(g, "nn.max_pool_grad", n, (Value *[]){dy[0], &n->out[1]}, 2, n->in[0]);
}
static void grad_max_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  dx[0] = same_window(g, "nn.max_pool_pick", n, (Value *[]){u[0], n->in[1]}, 2);
}
static void grad_pick(Graph *g, const Node *n, Value *const *u, Value **dx) {
  dx[0] = with_shape(g, "nn.max_pool_grad", n, (Value *[]){u[0], n->in[1]}, 2, n->in[0]);
}
static void grad_mean(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = with_shape(g, "nn.avg_pool_grad", n, dy, 1, n->in[0]);
}
static void grad_mean_grad(Graph *g, const Node *n, Value *const *u, Value **dx) {
  dx[0] = same_window(g, "nn.avg_pool", n, u, 1);
}

#define A_KSIZE       \
  {.name = "ksize",   \
   .kind = ATTR_INTS, \
   .fallback = "2",   \
   .summary = "The window's extents, at least 1: one, or one for each spatial axis."}
#define A_STRIDES     \
  {.name = "strides", \
   .kind = ATTR_INTS, \
   .fallback = "nil", \
   .summary = "Steps between windows, at least 1; by default ksize."}
#define A_PADDING           \
  {.name = "padding",       \
   .kind = ATTR_STRING,     \
   .fallback = "'VALID'",   \
   .choices = "VALID SAME", \
   .summary = "VALID: only whole windows; SAME: the extent divided by the stride, rounding up."}
#define A_SHAPE {.name = "shape", .kind = ATTR_INTS, .summary = "The image's spatial extents."}

const OpDef ops_pool[] = {
    {.name = "nn.max_pool",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_POOLING,
     .summary = "The greatest element of each window; padding never wins.",
     .shapes = "[n, spatial…, c] → [n, spatial'…, c]",
     .inputs = {"x"},
     .attrs = {A_KSIZE, A_STRIDES, A_PADDING},
     .outputs = 2,
     .visible_outputs = 1,
     .infer = infer,
     .eval = eval_max,
     .scratch = scratch,
     .cost = cost_max,
     .grad = grad_max,
     .sample =
         "D[1,4,4,2] | D[2,5,7,3] {padding = 'SAME'} | D[1,6,5,2] {ksize = {3, 2}, strides = {1, 2}} | "
         "D[1,7,1] {ksize = 3, strides = 1, padding = 'SAME'} | D[1,4,3,4,2] {strides = {2, 1, 1}}"},
    {.name = "nn.avg_pool",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_POOLING,
     .summary = "The mean of each window; padding doesn't count.",
     .shapes = "[n, spatial…, c] → [n, spatial'…, c]",
     .inputs = {"x"},
     .attrs = {A_KSIZE, A_STRIDES, A_PADDING},
     .infer = infer,
     .eval = eval_mean,
     .scratch = scratch,
     .cost = cost_average,
     .grad = grad_mean,
     .sample =
         "F[1,4,4,2] | F[2,5,7,3] {padding = 'SAME'} | F[1,6,5,2] {ksize = {3, 2}, strides = {1, 2}} | "
         "F[1,7,1] {ksize = 3, strides = 1, padding = 'SAME'} | F[1,4,3,4,2] {strides = {2, 1, 1}}"},
    {.name = "nn.max_pool_grad",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_POOLING,
     .summary = "Spreads dy to the elements that won.",
     .shapes = "dy, index → dx",
     .inputs = {"dy", "index"},
     .attrs = {A_KSIZE, A_STRIDES, A_PADDING, A_SHAPE},
     .traits = INTERNAL,
     .infer = infer_grad,
     .eval = eval_max_grad,
     .scratch = scratch,
     .cost = cost_max,
     .grad = grad_max_grad,
     .sample =
         "F[1,2,2,2] I4[1,2,2,2] {shape = {4, 5}} | F[1,3,2] I3[1,3,2] {ksize = 3, strides = 1, shape "
         "= {5}}"},
    {.name = "nn.max_pool_pick",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_POOLING,
     .summary = "The elements of x that won.",
     .shapes = "x, index → y",
     .inputs = {"x", "index"},
     .attrs = {A_KSIZE, A_STRIDES, A_PADDING},
     .traits = INTERNAL,
     .infer = infer_pick,
     .eval = eval_pick,
     .scratch = scratch,
     .cost = cost_max,
     .grad = grad_pick,
     .sample = "F[1,4,5,2] I4[1,2,2,2]"},
    {.name = "nn.avg_pool_grad",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_POOLING,
     .summary = "Spreads each dy evenly over its window.",
     .shapes = "dy → dx",
     .inputs = {"dy"},
     .attrs = {A_KSIZE, A_STRIDES, A_PADDING, A_SHAPE},
     .traits = INTERNAL,
     .infer = infer_grad,
     .eval = eval_mean_grad,
     .scratch = scratch,
     .cost = cost_average,
     .grad = grad_mean_grad,
     .sample = "F[1,2,2,2] {shape = {4, 5}} | F[2,3,4,1] {padding = 'SAME', shape = {5, 7}}"},
    {0}};
