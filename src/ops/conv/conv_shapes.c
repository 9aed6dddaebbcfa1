/* Geometry of convolutions: from operands and attributes to a window, and the types of results. */
#include "ops/conv/conv.h"

/* ---- geometry ---- */

static void spatial_of(const Type *t, int first, int rank, int64_t out[SPATIAL]) {
  for (int i = 0; i < SPATIAL; i++) out[i] = 1;
  for (int i = 0; i < rank; i++) out[SPATIAL - rank + i] = t->shape[first + i];
}

static Type image_type(Dtype d, int64_t batch, int rank, const int64_t extent[SPATIAL],
                       int64_t channels) {
  Type t = {.dtype = d, .rank = rank + 2};
  t.shape[0] = batch;
  for (int i = 0; i < rank; i++) t.shape[1 + i] = extent[SPATIAL - rank + i];
  t.shape[rank + 1] = channels;
  return t;
}

static Status check_channels(Error *e, const Type *x, const Type *kernel, int64_t groups) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  int64_t have = x->shape[x->rank - 1], per_group = kernel->shape[kernel->rank - 2],
          out = kernel->shape[kernel->rank - 1];
  if (groups < 1 || groups > INT32_MAX)
    return fail(e, ERR_VALUE, "groups must be 1 to %d, got %lld", INT32_MAX, (long long)groups);
  if (have != per_group * groups)
    return fail(e, ERR_INVALID_ARGUMENT,
                "x %s has %lld channel%s, but kernel %s with groups = %lld takes %lld",
                shape_text(x, a), (long long)have, plural(have), shape_text(kernel, b),
                (long long)groups, (long long)(per_group * groups));
  if (out % groups)
    return fail(e, ERR_INVALID_ARGUMENT,
                "groups = %lld don't divide the %lld output channels of kernel %s",
                (long long)groups, (long long)out, shape_text(kernel, b));
  return OK;
}

static Status check_extents(Error *e, const Type *kernel) {
  char text[TYPE_TEXT];
  for (int i = 0; i < kernel->rank; i++)
    if (kernel->shape[i] < 1 || kernel->shape[i] > INT32_MAX)
      return fail(e, ERR_INVALID_ARGUMENT, "kernel %s must have extents from 1 to %d",
                  shape_text(kernel, text), INT32_MAX);
  return OK;
}

/* Of an image and a kernel. */
static Status check_operands(Error *e, const Node *n, int rank) {
  Status s = nn_want_float(e, n, 0, 2);
  if (s == OK) s = nn_want_rank(e, "x", &n->in[0]->type, rank + 2);
  if (s == OK) s = nn_want_rank(e, "kernel", &n->in[1]->type, rank + 2);
  return s == OK ? check_extents(e, &n->in[1]->type) : s;
}

static const int64_t ones[SPATIAL] = {1, 1, 1};

/* ---- infer: convN d and depthwise_conv2d ---- */

enum { STRIDES, PADDING, DILATIONS, GROUPS }; /* attributes */

bool conv_is_depthwise(const Node *n) { return n->op->form == CONV_ROW_DEPTHWISE; }

static Status forward_geometry(Error *e, const Node *n, int rank, Geometry *g) {
  const Type *x = &n->in[0]->type, *kernel = &n->in[1]->type;
  bool depthwise = conv_is_depthwise(n);
  memset(g, 0, sizeof *g);
  Status s = check_operands(e, n, rank);
  if (s != OK) return s;
  g->batch = x->shape[0];
  g->channels_in = x->shape[rank + 1];
  g->groups = depthwise ? g->channels_in : n->attr[GROUPS].i;
  g->channels_out = depthwise ? g->channels_in * kernel->shape[rank + 1] : kernel->shape[rank + 1];
  if (depthwise && kernel->shape[rank] != g->channels_in) s = check_channels(e, x, kernel, 1);
  if (!depthwise) s = check_channels(e, x, kernel, g->groups);
  g->w.rank = rank;
  spatial_of(x, 1, rank, g->w.in);
  spatial_of(kernel, 0, rank, g->w.kernel);
  if (s == OK) s = nn_spatial(e, "strides", &n->attr[STRIDES], rank, 1, ones, g->w.stride);
  if (s == OK) s = nn_spatial(e, "dilations", &n->attr[DILATIONS], rank, 1, ones, g->w.dilation);
  return s == OK ? nn_window(e, &n->attr[PADDING], &g->w) : s;
}

static Status infer_forward(Error *e, Node *n, int rank) {
  Geometry g;
  Status s = forward_geometry(e, n, rank, &g);
  if (s == OK)
    n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, rank, g.w.out, g.channels_out);
  return s;
}
Status conv_infer_1(Error *e, Node *n) { return infer_forward(e, n, 1); }
Status conv_infer_2(Error *e, Node *n) { return infer_forward(e, n, 2); }
Status conv_infer_3(Error *e, Node *n) { return infer_forward(e, n, 3); }

/* ---- infer: transposes. The convolution whose adjoint they are has this op's result as its
 * image. ---- */

enum { T_STRIDES, T_PADDING, T_OUTPUT_PADDING, T_DILATIONS };

static Status transpose_extents(Error *e, const Node *n, Window *w) {
  bool same = nn_is(&n->attr[T_PADDING], "SAME"),
       explicit = n->attr[T_OUTPUT_PADDING].kind != ATTR_NONE;
  int64_t extra[SPATIAL];
  Status s = nn_spatial(e, "output_padding", &n->attr[T_OUTPUT_PADDING], w->rank, 0, ones, extra);
  if (s == OK && !same && !nn_is(&n->attr[T_PADDING], "VALID"))
    return fail(e, ERR_VALUE, "padding must be VALID or SAME, got %s",
                n->attr[T_PADDING].s ? n->attr[T_PADDING].s : "nothing");
  for (int i = SPATIAL - w->rank; s == OK && i < SPATIAL; i++) {
    int64_t reach;
    s = nn_reach(e, w, i, w->out[i], &reach);
    if (s != OK) return s;
    int64_t beyond = max(reach - w->stride[i], 0);
    if (!explicit) {
      w->in[i] = w->out[i] * w->stride[i] + (same ? 0 : beyond);
      w->pad[i] = same ? beyond / 2 : 0;
      continue;
    }
    if (extra[i] >= w->stride[i])
      return fail(e, ERR_VALUE, "output_padding %lld must be less than the stride %lld",
                  (long long)extra[i], (long long)w->stride[i]);
    int64_t covered = (w->out[i] - 1) * w->stride[i] + reach;
    w->in[i] = max(covered - (same ? reach / 2 * 2 : 0) + extra[i], 0);
    /* as SAME pads an image of that extent */
    w->pad[i] = same ? max(covered - w->in[i], 0) / 2 : 0;
  }
  return s;
}

static Status transpose_geometry(Error *e, const Node *n, int rank, Geometry *g) {
  const Type *x = &n->in[0]->type, *kernel = &n->in[1]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  memset(g, 0, sizeof *g);
  Status s = check_operands(e, n, rank);
  if (s != OK) return s;
  if (x->shape[rank + 1] != kernel->shape[rank + 1])
    return fail(
        e, ERR_INVALID_ARGUMENT,
        "x %s has %lld channel%s, but the last extent of kernel %s, its input channels, is %lld",
        shape_text(x, a), (long long)x->shape[rank + 1], plural(x->shape[rank + 1]),
        shape_text(kernel, b), (long long)kernel->shape[rank + 1]);
  g->batch = x->shape[0];
  g->groups = 1;
  g->channels_out = kernel->shape[rank + 1];
  g->channels_in = kernel->shape[rank];
  g->w.rank = rank;
  for (int i = 0; i < SPATIAL; i++) g->w.in[i] = 1;
  spatial_of(x, 1, rank, g->w.out);
  spatial_of(kernel, 0, rank, g->w.kernel);
  s = nn_spatial(e, "strides", &n->attr[T_STRIDES], rank, 1, ones, g->w.stride);
  if (s == OK) s = nn_spatial(e, "dilations", &n->attr[T_DILATIONS], rank, 1, ones, g->w.dilation);
  return s == OK ? transpose_extents(e, n, &g->w) : s;
}

static Status infer_transpose(Error *e, Node *n, int rank) {
  Geometry g;
  Status s = transpose_geometry(e, n, rank, &g);
  if (s == OK)
    n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, rank, g.w.in, g.channels_in);
  return s;
}
Status conv_infer_transpose_1(Error *e, Node *n) { return infer_transpose(e, n, 1); }
Status conv_infer_transpose_2(Error *e, Node *n) { return infer_transpose(e, n, 2); }
Status conv_infer_transpose_3(Error *e, Node *n) { return infer_transpose(e, n, 3); }

/* ---- infer: the three forms with an explicit geometry ---- */

enum { G_STRIDES, G_PADS, G_DILATIONS, G_GROUPS, G_SHAPE };

static Status explicit_geometry(Error *e, const Node *n, Form form, Geometry *g) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  char first[TYPE_TEXT], second[TYPE_TEXT];
  int rank = a->rank - 2;
  memset(g, 0, sizeof *g);
  Status s = nn_want_float(e, n, 0, 2);
  if (s != OK) return s;
  if (rank < 1 || rank > SPATIAL || b->rank != a->rank)
    return fail(e, ERR_INVALID_ARGUMENT,
                "operands must have the same rank, from 3 to %d, got %d and %d", SPATIAL + 2,
                a->rank, b->rank);
  g->w.rank = rank;
  g->batch = a->shape[0];
  g->groups = n->attr[G_GROUPS].i;
  if (g->groups < 1 || g->groups > INT32_MAX)
    return fail(e, ERR_VALUE, "groups must be 1 to %d, got %lld", INT32_MAX, (long long)g->groups);
  s = form == FORM_KERNEL ? OK : check_extents(e, b);
  if (s == OK) s = nn_spatial(e, "strides", &n->attr[G_STRIDES], rank, 1, ones, g->w.stride);
  if (s == OK) s = nn_spatial(e, "dilations", &n->attr[G_DILATIONS], rank, 1, ones, g->w.dilation);
  if (s == OK) s = nn_spatial(e, "pads", &n->attr[G_PADS], rank, -INT32_MAX, ones, g->w.pad);
  int64_t shape[SPATIAL];
  if (s == OK)
    s = nn_spatial(e, "shape", &n->attr[G_SHAPE], rank, form == FORM_KERNEL, ones, shape);
  if (s != OK) return s;
  int64_t outer = form == FORM_KERNEL ? 0 : rank + 1; /* the extent that the operands share */
  if (a->shape[rank + 1] < 1)
    return fail(e, ERR_INVALID_ARGUMENT, "%s has no channels", shape_text(a, first));
  if (form != FORM_FORWARD &&
      (a->shape[outer] != b->shape[outer] || b->shape[rank + 1] % g->groups))
    return fail(e, ERR_INVALID_ARGUMENT,
                "operands %s and %s don't fit a convolution in %lld groups", shape_text(a, first),
                shape_text(b, second), (long long)g->groups);
  if (form == FORM_KERNEL && a->shape[rank + 1] % g->groups)
    return fail(e, ERR_INVALID_ARGUMENT, "groups = %lld must divide the channels of %s",
                (long long)g->groups, shape_text(a, first));
  for (int i = 0; i < SPATIAL - rank; i++) g->w.pad[i] = 0;
  if (form != FORM_IMAGE) spatial_of(a, 1, rank, g->w.in);
  if (form == FORM_FORWARD)
    spatial_of(b, 0, rank, g->w.kernel), memcpy(g->w.out, shape, sizeof shape);
  if (form == FORM_IMAGE)
    spatial_of(a, 1, rank, g->w.out), spatial_of(b, 0, rank, g->w.kernel),
        memcpy(g->w.in, shape, sizeof shape);
  if (form == FORM_KERNEL)
    spatial_of(b, 1, rank, g->w.out), memcpy(g->w.kernel, shape, sizeof shape);
  g->channels_out = b->shape[rank + 1];
  g->channels_in = form == FORM_IMAGE ? b->shape[rank] * g->groups : a->shape[rank + 1];
  return OK;
}

Status conv_infer_explicit_forward(Error *e, Node *n) {
  Geometry g;
  Status s = explicit_geometry(e, n, FORM_FORWARD, &g);
  if (s == OK) s = check_channels(e, &n->in[0]->type, &n->in[1]->type, g.groups);
  if (s == OK)
    n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, g.w.rank, g.w.out, g.channels_out);
  return s;
}
Status conv_infer_grad_input(Error *e, Node *n) {
  Geometry g;
  Status s = explicit_geometry(e, n, FORM_IMAGE, &g);
  if (s == OK)
    n->out[0].type = image_type(n->in[0]->type.dtype, g.batch, g.w.rank, g.w.in, g.channels_in);
  return s;
}
Status conv_infer_grad_kernel(Error *e, Node *n) {
  Geometry g;
  Status s = explicit_geometry(e, n, FORM_KERNEL, &g);
  if (s != OK) return s;
  Type t = {.dtype = n->in[0]->type.dtype, .rank = g.w.rank + 2};
  for (int i = 0; i < g.w.rank; i++) t.shape[i] = g.w.kernel[SPATIAL - g.w.rank + i];
  t.shape[g.w.rank] = g.channels_in / g.groups;
  t.shape[g.w.rank + 1] = g.channels_out;
  n->out[0].type = t;
  return OK;
}

/* Can't fail for shapes that infer has accepted. */
Form conv_geometry_of(const Node *n, Geometry *g) {
  Error ignored = {0};
  int row = n->op->form, rank = n->in[0]->type.rank - 2;
  Form form = row == CONV_ROW_GRAD_KERNEL                               ? FORM_KERNEL
              : row == CONV_ROW_GRAD_INPUT || row == CONV_ROW_TRANSPOSE ? FORM_IMAGE
                                                                        : FORM_FORWARD;
  if (row >= CONV_ROW_GENERAL) explicit_geometry(&ignored, n, form, g);
  else if (row == CONV_ROW_TRANSPOSE) transpose_geometry(&ignored, n, rank, g);
  else forward_geometry(&ignored, n, rank, g);
  return form;
}
