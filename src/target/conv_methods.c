/* The methods that compute a convolution, and the best of them.
 *   n x 1      one pass over the rows for each point of the kernel
 *   expanded   the kernel's rows, columns or both become input channels: fewer passes, with the
 *              input copied once for each point
 *   SLIC       four kernel columns of four channels in one pass, for a network's first layer
 *   vectors    multiply-adds of the workers, for one channel a group
 *   combined   several groups of one channel as one group */
#include <math.h>

#include "target/conv_plan.h"

/* A serial part of the groups, or of the rows, including the rows that the kernel reaches. */
static Problem part_of(const Problem *q, int64_t parts, bool rows) {
  Problem p = *q;
  if (rows)
    p.rows = ceil_div(q->rows, parts),
    p.in_rows = ceil_div(q->in_rows, parts) + (parts > 1 ? q->kernel_rows - 1 : 0);
  else p.groups = ceil_div(q->groups, parts);
  return p;
}

static Problem laid_on_its_side(const Problem *q) {
  Problem p = *q;
  p.rows = q->columns, p.in_rows = q->in_columns, p.kernel_rows = q->kernel_columns,
  p.stride_rows = q->stride_columns;
  p.columns = q->rows, p.in_columns = q->in_rows, p.kernel_columns = q->kernel_rows,
  p.stride_columns = q->stride_rows;
  p.gap_rows = q->gap_columns, p.gap_columns = q->gap_rows;
  return p;
}

static double points_of(const Problem *q) {
  return (double)q->groups * (double)q->batch * (double)q->rows * (double)q->columns;
}

/* One way of working on a part: a method, and which of the kernel's dimensions become channels
 * for it. */
typedef struct Way {
  Method method;
  bool rows, columns;
} Way;

static void try_way(const Target *t, const Units *u, const Problem *q, const Way *way, Plan *best) {
  bool expands = way->rows || way->columns;
  Problem p = expands ? expand(q, way->rows, way->columns) : *q;
  try_method(t, u, &p, way->method, expands ? expanded_bytes(&p, u) : 0, best);
  if (way->method.kernel != VERTEX_VECTOR_MAC || q->kernel_rows <= q->kernel_columns) return;
  Problem turned = laid_on_its_side(q); /* the inner loop goes along the kernel's columns */
  double image = (double)q->groups * (double)q->batch * (double)q->in_rows * (double)q->in_columns *
                 (double)u->element;
  try_method(t, u, &turned, way->method, image, best);
}

static void try_parts(const Target *t, const Units *u, const Problem *q, const Way *way,
                      int64_t parts, bool rows, Plan *best) {
  Problem part = part_of(q, parts, rows);
  Plan p = {0};
  try_way(t, u, &part, way, &p);
  if (p.cycles == 0) return;
  if (parts > 1) {
    double outputs = points_of(q) * (double)q->out_channels / (double)t->tiles;
    p.serial = parts;
    p.joined_bytes = outputs * (double)u->element;
    p.prepare *= (double)parts, p.prepare_exchange *= (double)parts,
        p.prepare_steps *= (double)parts;
    p.update = join_cycles(t, u, outputs / (double)parts, false);
    p.cycles = (double)parts * (p.cycles + p.update);
  }
  if (is_better(&p, best)) *best = p;
}

/* If a method's blocks don't fit, the fewest serial parts of the groups that do. Parts may also be
 * of the rows, but that makes a small image in the kernel's place too slow. */
static void try_serially(const Target *t, const Units *u, const Problem *q, const Way *way,
                         Plan *best) {
  static const int64_t parts[] = {1, 2, 3, 4, 6, 8, 12, 16};
  enum { PARTS = sizeof parts / sizeof *parts };
  Plan found = {0};
  for (size_t i = 0; i < PARTS && parts[i] <= q->groups && !found.fits; i++)
    try_parts(t, u, q, way, parts[i], false, &found);
  for (size_t i = 1; i < PARTS && !q->swapped && parts[i] <= q->rows && !found.fits; i++)
    try_parts(t, u, q, way, parts[i], true, &found);
  if (found.cycles > 0 && is_better(&found, best)) *best = found;
}

/* Adds an operand whose single elements come out of vectors of channels. On the tile they are
 * copied one by one (PL ConvModel's regression over random copies). The planner expects less:
 * planned has the bytes that it counts as moved. */
static void add_scattered(const Target *t, Plan *p, double bytes, double planned, bool as_charged) {
  double share = bytes / (double)t->tiles;
  double exchange = share / (double)t->exchange_bytes_per_cycle, copy = 587 + 5.1484 * share;
  p->prepare_exchange += exchange;
  p->prepare += copy;
  p->prepare_steps += 2;
  p->cycles += as_charged
                   ? exchange + copy + 2 * step_cycles(t)
                   : planned_move(t, planned, EVEN_CHANNELS, true) * (double)t->tiles / p->tiles;
}

/* One channel per group: several groups at a time, or, on f16, several as one group with zeros
 * off the diagonal. PopLibs doesn't do so with a single group, padded to several. */
static void try_single(const Target *t, const Units *u, const Problem *q, Plan *best) {
  bool several_at_once = u->element == 2 && (q->groups > 1 || q->as_charged);
  double in = (double)q->groups * (double)q->batch * (double)q->in_rows * (double)q->in_columns *
              (double)u->element;
  double out = (double)q->groups * (double)q->batch * (double)q->rows * (double)q->columns *
               (double)u->element;
  for (int64_t n = 4; several_at_once && n <= u->group; n *= 2) {
    Problem combined = *q;
    combined.in_channels = combined.out_channels = n;
    combined.groups = ceil_div(q->groups, n);
    combined.moved = planned_move(t, in + out, EVEN_CHANNELS, true);
    try_method(t, u, &combined, (Method){VERTEX_AMP_NX1, 1, n, u->units, 1, u->group / n}, 0, best);
  }
  if (has_phases(q)) return; /* the other two multiply by the zeros */
  Problem several = *q;
  several.moved = planned_move(t, out, ODD_CHANNELS, false);
  /* the vertical multiply-accumulate */
  Way vertical = {.method = {VERTEX_VECTOR_MAC, u->element == 2 ? 4 : 2, 1, 1, 1, 1}};
  try_serially(t, u, &several, &vertical, best);
  if (several_at_once && q->stride_columns <= 2 && !q->spread)
    try_method(t, u, &several, (Method){VERTEX_SLIC, 4, 1, 1, 4, 1}, 0, best);
}

/* The kernel as the field, with the image moving over it (PL: swapOperands). That needs fewer
 * passes if the image is smaller. Points that a strided field left out then lie between the image's
 * points. */
static void try_swapped(const Target *t, const Units *u, const Problem *q, Plan *best) {
  Problem s = *q;
  s.batch = q->out_channels, s.out_channels = q->batch;
  s.in_rows = q->kernel_rows, s.in_columns = q->kernel_columns;
  s.kernel_rows = q->in_rows, s.kernel_columns = q->in_columns;
  s.gap_rows = q->phase_rows, s.gap_columns = q->phase_columns;
  s.phase_rows = s.phase_columns = 0;
  s.swapped = true;
  double images = (double)q->batch * (double)q->in_rows * (double)q->in_columns;
  double kernels = (double)q->out_channels * (double)q->kernel_rows * (double)q->kernel_columns;
  Plan found = {0};
  try_method(t, u, &s, amp_method(u), 0, &found);
  if (s.in_channels == 1 && s.out_channels == 1) try_single(t, u, &s, &found);
  if (found.cycles == 0) return;
  add_prepare(t, &found,
              (double)q->groups * (double)q->in_channels * (images + kernels) * (double)u->element,
              8);
  if (is_better(&found, best)) *best = found;
}

Plan plan_conv(const Target *t, Dtype d, Dtype partials, const Problem *q, double proportion) {
  Units u = find_units(t, d, partials);
  int64_t points = times(times(q->batch, q->rows), q->columns),
          window = times(q->kernel_rows, q->kernel_columns);
  MatmulShape s = {q->groups, points, times(q->in_channels, window), q->out_channels, true, false};
  MatmulShape other = {q->groups, q->out_channels, s.in, points, true, false};
  double moved = (double)q->groups * ((double)points * (double)s.in + (double)s.in * (double)s.out +
                                      (double)points * (double)s.out);
  Plan best = plan_matmul(t, d, partials, &s, &other, moved * element_bytes(d), proportion);
  Problem all = expand(q, true, true);
  bool single = q->in_channels == 1 && q->out_channels == 1;
  if (window > 1 && single && q->groups > 1 && u.element == 2)
    add_scattered(t, &best, expanded_bytes(&all, &u), expanded_bytes(&all, &u), q->as_charged);
  else if (window > 1) add_expanded(t, &best, expanded_bytes(&all, &u), q->as_charged);
  if (single) try_single(t, &u, q, &best);
  if (window == 1) return best;
  Method amp = amp_method(&u);
  const Way ways[] = {{amp, false, false}, {amp, true, false}, {amp, false, true}};
  bool dense = q->stride_rows == 1 && q->stride_columns == 1 && !q->spread;
  if (dense && times(q->in_rows, q->in_columns) <= window) try_swapped(t, &u, q, &best);
  /* else the channels of one dimension are the inputs of plan_matmul */
  bool wide = q->kernel_rows > 1 && q->kernel_columns > 1;
  for (int i = 0; i < (wide || q->as_charged ? 3 : 1); i++)
    if (q->as_charged) try_serially(t, &u, q, &ways[i], &best);
    else try_way(t, &u, q, &ways[i], &best);
  if (u.element == 2 && q->in_channels <= 4 && q->stride_columns <= 2 && !has_phases(q))
    try_method(t, &u, q, (Method){VERTEX_SLIC, 1, 4, 4, 4, 1}, 0, &best);
  return best;
}

/* The weight gradient of single channels: the images are the channels, the points of the kernel
 * the field. Rows or columns of the points that are summed over may become channels, too, which
 * can be cut over more tiles. */
static void try_depthwise_weights(const Target *t, const Units *u, const ConvShape *s,
                                  double proportion, bool as_charged, bool rows, bool columns,
                                  double read, double deltas, Plan *best) {
  Problem q = {.groups = s->groups,
               .batch = 1,
               .in_channels = s->batch,
               .out_channels = 1,
               .rows = s->kernel[0],
               .columns = s->kernel[1],
               .stride_rows = 1,
               .stride_columns = 1,
               .kernel_rows = s->out[0],
               .kernel_columns = s->out[1],
               .in_rows = s->in[0],
               .in_columns = s->in[1],
               .dilation_rows = s->stride[0],
               .dilation_columns = s->stride[1],
               .as_charged = as_charged,
               .limit = plan_limit(t, proportion)};
  if (rows) read *= (double)s->kernel[0] * (double)s->out[0] / (double)s->in[0];
  if (columns) read *= (double)s->kernel[1] * (double)s->out[1] / (double)s->in[1];
  if (rows || columns) q = expand(&q, rows, columns);
  q.moved = planned_move(t, read + deltas, EVEN_CHANNELS, true);
  Plan found = {0};
  try_method(t, u, &q, (Method){VERTEX_VECTOR_MAC, 4, 1, 1, 1, 1}, 0, &found);
  if (found.cycles == 0) return;
  double ranked = found.cycles;
  if (rows || columns) add_prepare(t, &found, read, 8);
  found.cycles = ranked;
  if (is_better(&found, best)) *best = found;
}

/* The weight gradient is a convolution of the input by the output's gradient, over the points of
 * the kernel. */
Plan plan_weights(const Target *t, Dtype d, Dtype partials, const ConvShape *s, double proportion,
                  bool as_charged) {
  Units u = find_units(t, d, partials);
  int64_t window = conv_product(s->kernel, s->rank),
          points = times(s->batch, conv_product(s->out, s->rank));
  double bytes = (double)s->groups * (double)s->in_channels * (double)u.element;
  MatmulShape inwards = {s->groups, times(s->in_channels, window), points, s->out_channels, true,
                         false};
  MatmulShape outwards = {s->groups, s->out_channels, points, times(s->in_channels, window), true,
                          false};
  Plan best = plan_matmul(t, d, partials, &outwards, &inwards,
                          bytes * (double)window * (double)s->out_channels, proportion);
  if (window == 1) return best;
  double expanded = bytes * (double)points * (double)window;
  if (u.element == 2 && s->in_channels == 1 && s->out_channels == 1 && s->groups > 1 &&
      s->rank == 2) {
    double read = bytes * (double)s->batch * (double)conv_product(s->in, 2),
           deltas = bytes * (double)points;
    add_scattered(t, &best, expanded, expanded + deltas, as_charged);
    for (int rows = 1; rows >= 0; rows--)
      for (int columns = 1; columns >= 0; columns--)
        try_depthwise_weights(t, &u, s, proportion, as_charged, rows, columns, read, deltas, &best);
    return best;
  }
  add_expanded(t, &best, expanded, as_charged);
  if (s->rank != 2) return best;
  const int64_t *out = s->out, *kernel = s->kernel;
  if (conv_product(s->stride, 2) > 1) return best;
  for (int i = 0; i < 2; i++) { /* one dimension expanded, the other one walked along */
    Problem q = {.groups = s->groups,
                 .batch = s->in_channels,
                 .in_channels = times(s->batch, out[i]),
                 .out_channels = s->out_channels,
                 .rows = kernel[0],
                 .columns = kernel[1],
                 .stride_rows = 1,
                 .stride_columns = 1,
                 .kernel_rows = 1,
                 .kernel_columns = 1,
                 .as_charged = as_charged,
                 .limit = plan_limit(t, proportion)};
    q.in_rows = kernel[0], q.in_columns = kernel[1];
    int64_t walked = out[1 - i] + kernel[1 - i] - 1;
    if (i == 1) q.kernel_rows = out[0], q.in_rows = walked;
    else q.kernel_columns = out[1], q.in_columns = walked;
    double copied = kernel[i] > 1 ? bytes * (double)s->batch * (double)out[i] * (double)kernel[i] *
                                        (double)walked
                                  : 0;
    try_method(t, &u, &q, amp_method(&u), copied, &best);
  }
  return best;
}
