/* The rows of convolution, their gradients and cost. conv.h lists the files that do the work. */
#include "ops/conv/conv.h"

static void cost(const Target *t, const Node *n, Cost *c) {
  Geometry g;
  Form form = conv_geometry_of(n, &g);
  ConvShape s = {.batch = g.batch,
                 .groups = g.groups,
                 .in_channels = g.channels_in / g.groups,
                 .out_channels = g.channels_out / g.groups,
                 .rank = g.w.rank};
  for (int i = 0; i < g.w.rank; i++) {
    int from = SPATIAL - g.w.rank + i;
    s.in[i] = g.w.in[from], s.out[i] = g.w.out[from], s.kernel[i] = g.w.kernel[from];
    s.stride[i] = g.w.stride[from], s.dilation[i] = g.w.dilation[from];
  }
  ConvPass pass = form == FORM_FORWARD ? CONV_FORWARD
                  : form == FORM_IMAGE ? CONV_BACKWARD
                                       : CONV_WEIGHTS;
  *c = cost_conv(t, n->in[0]->type.dtype, nn_conv_partials(n), &s, pass, NULL);
}

/* ---- gradients: the three forms are each other's ---- */

static Value *form(Graph *g, const char *name, Value *a, Value *b, const Geometry *geometry,
                   const int64_t *shape) {
  const Window *w = &geometry->w;
  int skip = SPATIAL - w->rank, rank = w->rank;
  Attr attrs[MAX_ATTRS] = {attr_ints(w->stride + skip, rank), attr_ints(w->pad + skip, rank),
                           attr_ints(w->dilation + skip, rank), attr_int(geometry->groups),
                           attr_ints(shape + skip, rank)};
  return op_with(g, name, (Value *[]){a, b}, 2, attrs);
}
static Value *forward(Graph *g, Value *x, Value *kernel, const Geometry *geometry) {
  return form(g, "nn.conv_general", x, kernel, geometry, geometry->w.out);
}
static Value *grad_input(Graph *g, Value *dy, Value *kernel, const Geometry *geometry) {
  return form(g, "nn.conv_grad_input", dy, kernel, geometry, geometry->w.in);
}
static Value *grad_kernel(Graph *g, Value *x, Value *dy, const Geometry *geometry) {
  return form(g, "nn.conv_grad_kernel", x, dy, geometry, geometry->w.kernel);
}

static void grad_forward(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Geometry geometry;
  conv_geometry_of(n, &geometry);
  Value *x = n->in[0], *kernel = n->in[1];
  if (conv_is_depthwise(n)) { /* [h, w, c, m] is [h, w, 1, c m] in c groups */
    Type t = kernel->type;
    t.shape[t.rank - 1] *= t.shape[t.rank - 2];
    t.shape[t.rank - 2] = 1;
    kernel = ops_reshape(g, kernel, &t);
  }
  dx[0] = grad_input(g, dy[0], kernel, &geometry);
  dx[1] = ops_reshape_like(g, grad_kernel(g, x, dy[0], &geometry), n->in[1]);
}

/* Of the adjoint in the image (dy, kernel) → dx, and so of the transposed convolution. */
static void grad_image(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Geometry geometry;
  conv_geometry_of(n, &geometry);
  dx[0] = forward(g, u[0], n->in[1], &geometry);
  dx[1] = grad_kernel(g, u[0], n->in[0], &geometry);
}

/* Of the adjoint in the kernel (x, dy) → dkernel. */
static void grad_of_kernel(Graph *g, const Node *n, Value *const *u, Value **dx) {
  Geometry geometry;
  conv_geometry_of(n, &geometry);
  dx[0] = grad_input(g, n->in[1], u[0], &geometry);
  dx[1] = forward(g, n->in[0], u[0], &geometry);
}

#define A_STRIDES     \
  {.name = "strides", \
   .kind = ATTR_INTS, \
   .fallback = "1",   \
   .summary = "Steps between windows, at least 1: one, or one for each spatial axis."}
#define A_PADDING(words)                                                                              \
  {.name = "padding",                                                                                 \
   .kind = ATTR_STRING,                                                                               \
   .fallback = "'VALID'",                                                                             \
   .choices = words,                                                                                  \
   .summary =                                                                                         \
       "VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, " \
       "rounding up."}
#define A_DILATIONS     \
  {.name = "dilations", \
   .kind = ATTR_INTS,   \
   .fallback = "1",     \
   .summary = "Steps between the taps of a window, at least 1."}
#define A_GROUPS     \
  {.name = "groups", \
   .kind = ATTR_INT, \
   .fallback = "1",  \
   .summary = "Parts of the channels that are convolved apart; divides them."}
#define A_OUTPUT             \
  {.name = "output_padding", \
   .kind = ATTR_INTS,        \
   .fallback = "nil",        \
   .summary = "Extra extent at the end, less than the stride."}
#define EXPLICIT                                                                 \
  {                                                                              \
    {.name = "strides", .kind = ATTR_INTS}, {.name = "pads", .kind = ATTR_INTS}, \
        {.name = "dilations", .kind = ATTR_INTS},                                \
        {.name = "groups", .kind = ATTR_INT, .fallback = "1"}, {                 \
      .name = "shape", .kind = ATTR_INTS                                         \
    }                                                                            \
  }

const OpDef ops_conv[] = {
    {.name = "nn.conv1d",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_CONVOLUTION,
     .summary = "Convolution of sequences. CAUSAL padding stands in front only.",
     .shapes = "[n, t, c], [k, c / groups, d] → [n, t', d]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME CAUSAL"), A_DILATIONS, A_GROUPS},
     .infer = conv_infer_1,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample =
         "F[2,7,2] F[3,2,3] | F[1,8,3] F[3,3,2] {strides = 2, padding = 'SAME'} | "
         "F[1,7,2] F[4,2,1] {strides = 3, padding = 'CAUSAL'} | F[1,9,4] F[2,2,4] {dilations = 3, "
         "groups = 2}"},
    {.name = "nn.conv2d",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_CONVOLUTION,
     .summary = "Convolution of channels-last images.",
     .shapes = "[n, h, w, c], [kh, kw, c / groups, d] → [n, h', w', d]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_DILATIONS, A_GROUPS},
     .infer = conv_infer_2,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample =
         "F[2,5,7,3] F[3,2,3,4] {padding = 'SAME'} | F[2,6,5,2] F[2,3,2,3] {strides = {2, 1}} | "
         "F[1,5,5,4] F[3,3,2,6] {padding = 'SAME', groups = 2} | F[1,7,7,2] F[3,3,2,2] {dilations = 2, "
         "padding = 'SAME'} | "
         "F[1,8,8,2] F[3,3,2,2] {strides = 3, dilations = 2, padding = 'SAME'}"},
    {.name = "nn.conv3d",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_CONVOLUTION,
     .summary = "Convolution of channels-last volumes.",
     .shapes = "[n, z, h, w, c], [kz, kh, kw, c / groups, d] → [n, z', h', w', d]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_DILATIONS, A_GROUPS},
     .infer = conv_infer_3,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample =
         "F[1,3,4,4,2] F[2,2,3,2,3] {padding = 'SAME'} | F[2,4,3,3,1] F[2,2,2,1,2] {strides = {2, 1, 1}}"},
    {.name = "nn.depthwise_conv2d",
     .form = CONV_ROW_DEPTHWISE,
     .source = "Chollet, Xception, 2016",
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_DEPTHWISE,
     .summary =
         "Each channel convolved with its own kernels; channel c gives channels c m … c m + m - 1.",
     .shapes = "[n, h, w, c], [kh, kw, c, m] → [n, h', w', c m]",
     .inputs = {"x", "kernel"},
     .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_DILATIONS},
     .infer = conv_infer_2,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample =
         "F[1,5,5,2] F[3,3,2,1] | F[2,4,5,3] F[3,2,3,2] {padding = 'SAME'} | F[1,6,6,1] F[3,3,1,4] "
         "{strides = 2} | "
         "F[1,7,7,2] F[2,3,2,2] {padding = 'SAME', dilations = 2}"},
#define TRANSPOSED(rank, shape_words, sample_words)                                \
  {.name = "nn.conv" #rank "d_transpose",                                          \
   .form = CONV_ROW_TRANSPOSE,                                                     \
   .family = FAMILY_CONVOLUTION,                                                   \
   .layout = LAYOUT_CHOSEN,                                                        \
   .summary = "The adjoint of a convolution: spreads each element over a window.", \
   .shapes = shape_words,                                                          \
   .inputs = {"x", "kernel"},                                                      \
   .attrs = {A_STRIDES, A_PADDING("VALID SAME"), A_OUTPUT, A_DILATIONS},           \
   .infer = conv_infer_transpose_##rank,                                           \
   .eval = conv_eval,                                                              \
   .scratch = conv_scratch,                                                        \
   .cost = cost,                                                                   \
   .grad = grad_image,                                                             \
   .sample = sample_words}
    TRANSPOSED(1, "[n, t, c], [k, d, c] → [n, t', d]",
               "F[2,4,2] F[3,3,2] {strides = 2, padding = 'SAME'}"),
    TRANSPOSED(
        2, "[n, h, w, c], [kh, kw, d, c] → [n, h', w', d]",
        "F[1,3,3,2] F[3,3,1,2] | F[2,3,4,2] F[3,3,3,2] {strides = 2, padding = 'SAME'} | F[1,3,3,1] "
        "F[2,2,2,1] {strides = 3} | "
        "F[1,3,3,2] F[3,3,2,2] {strides = 2, padding = 'SAME', output_padding = 1}"),
    TRANSPOSED(3, "[n, z, h, w, c], [kz, kh, kw, d, c] → [n, z', h', w', d]",
               "F[1,2,3,2,2] F[2,3,2,2,2] {strides = 2}"),
#undef TRANSPOSED
    {.name = "nn.conv_general",
     .form = CONV_ROW_GENERAL,
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_CONVOLUTION,
     .summary = "Convolution with explicit padding and result extents.",
     .shapes = "image, kernel → result",
     .inputs = {"x", "kernel"},
     .attrs = EXPLICIT,
     .traits = INTERNAL,
     .infer = conv_infer_explicit_forward,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_forward,
     .sample =
         "F[2,5,4,2] F[3,2,2,3] {strides = {2, 1}, pads = {1, 0}, dilations = {1, 1}, groups = 1, "
         "shape = {3, 4}}"},
    {.name = "nn.conv_grad_input",
     .form = CONV_ROW_GRAD_INPUT,
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_CONVOLUTION,
     .summary = "Convolution's adjoint in the image; shape is the image's.",
     .shapes = "result, kernel → image",
     .inputs = {"dy", "kernel"},
     .attrs = EXPLICIT,
     .traits = INTERNAL,
     .infer = conv_infer_grad_input,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_image,
     .sample =
         "F[2,3,4,3] F[3,2,2,3] {strides = {2, 1}, pads = {1, 0}, dilations = {1, 1}, groups = 1, "
         "shape = {5, 4}} | "
         "F[1,3,3,4] F[1,1,1,4] {strides = 2, pads = 0, dilations = 1, groups = 2, shape = {6, 5}}"},
    {.name = "nn.conv_grad_kernel",
     .form = CONV_ROW_GRAD_KERNEL,
     .layout = LAYOUT_CHOSEN,
     .family = FAMILY_CONVOLUTION,
     .summary = "Convolution's adjoint in the kernel; shape is the kernel's.",
     .shapes = "image, result → kernel",
     .inputs = {"x", "dy"},
     .attrs = EXPLICIT,
     .traits = INTERNAL,
     .infer = conv_infer_grad_kernel,
     .eval = conv_eval,
     .scratch = conv_scratch,
     .cost = cost,
     .grad = grad_of_kernel,
     .sample =
         "F[2,5,4,2] F[2,3,4,3] {strides = {2, 1}, pads = {1, 0}, dilations = {1, 1}, groups = 1, "
         "shape = {3, 2}}"},
    {0}};
