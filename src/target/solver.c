/* Blocked factorisation and substitution.
 *
 * A block of a Cholesky factorisation is one vertex, one worker, and so is the inverse of its
 * triangle. Substitution has no vertex of its own: each row is a product with the rows solved so
 * far, a subtraction and a copy, one after the other. */
#include <math.h>
#include <string.h>

#include "target/plan.h"

/* PL poplin's cycle estimators: of each of the three loops, rows, pairs of them and triples. */
static void factorise(Cost *c, const Target *t, double b) {
  double pairs = b * (b + 1) / 2, triples = (b + 1) * b * (b - 1) / 6;
  cost_step(c, t, "factorise", 0, (double)t->workers * (1 + 11 * b + 18 * pairs + 5 * triples));
  cost_vertex(c, t, VERTEX_SOLVE, 60, 40);
}

static void invert(Cost *c, const Target *t, Dtype d, double b) {
  double pairs = b * (b - 1) / 2, triples = (b + 1) * b * (b - 1) / 6;
  cost_step(c, t, "invert", b * b * element_bytes(d),
            (double)t->workers * (28 + 63 * b + 17 * pairs + 6 * triples));
  cost_step(c, t, "invert", b * b * element_bytes(d), 0);
}

static Cost cholesky_by(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t block) {
  Cost c = cost_free();
  double b = (double)block, rounds = (double)batch / (double)t->tiles,
         blocks = (double)ceil_div(n, block);
  factorise(&c, t, b);
  cost_repeat(&c, ceil(fmax(1, rounds)) * blocks);
  if (blocks > 1) { /* what is left shrinks by a block each time: priced at its mean square size */
    int64_t left = to_extent(
        fmax(1, (double)(n - block) * sqrt((2 * blocks - 1) / fmax(1, 6 * (blocks - 1)))));
    if (blocks <= 2) left = n - block;
    PlanOptions moved = {.left_moved = true, .right_moved = true};
    Cost round = cost_free();
    invert(&round, t, d, b);
    Cost panel = cost_matmul(t, d, F32, batch, left, block, block, &moved);
    cost_then(&round, &panel);
    moved.accumulate = true;
    Cost update = cost_matmul(t, d, F32, batch, left, block, left, &moved);
    cost_then(&round, &update);
    cost_steps(&round, t, "copy", 2, (double)left * b * element_bytes(d) / (double)t->tiles, 0);
    cost_repeat(&round, blocks - 1);
    cost_then(&c, &round);
  }
  cost_step(&c, t, "mask", 0, 25);
  /* tiles that have a part of the matrices */
  double held = (double)batch * fmax(1, ceil(b / (double)t->workers)) * blocks * blocks;
  c.tiles = fmin((double)t->tiles, fmax(blocks > 1 ? c.tiles : 0, held));
  c.flops = (double)batch * (double)n * (double)n * (double)n / 3;
  return c;
}

static bool is_quicker(const Cost *c, const Cost *than) {
  return c->fits != than->fits ? c->fits : cost_cycles(c) < cost_cycles(than);
}

enum { BLOCK_LEAST = 8, BLOCK_MOST = 512 }; /* of those that are tried where none is asked for */

Cost cost_cholesky(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t block) {
  if (batch <= 0 || n <= 0) return cost_free();
  batch = clamp_extent(batch), n = clamp_extent(n);
  if (block > 0) return cholesky_by(t, d, batch, n, block < n ? block : n);
  Cost best = cholesky_by(t, d, batch, n, n < BLOCK_LEAST ? n : BLOCK_LEAST);
  for (int64_t b = 2 * BLOCK_LEAST; b < 2 * n && b <= BLOCK_MOST; b *= 2) {
    Cost c = cholesky_by(t, d, batch, n, b < n ? b : n);
    if (is_quicker(&c, &best)) best = c;
  }
  return best;
}

/* Cycles of a product of vectors: its sum is the result, which nothing converts. */
static double dot_cycles(const Cost *product) {
  double cycles = cost_cycles(product);
  for (int i = 0; i < product->row_count; i++) {
    const CostStep *s = &product->steps[i];
    if (!strcmp(s->name, "convert")) cycles -= s->compute + s->exchange + s->sync;
  }
  return cycles;
}

/* Rows one after the other: a product with those above, a subtraction and, of several columns, a
 * copy into place. */
static Cost substitute(const Target *t, Dtype d, int64_t batch, int64_t block, int64_t columns) {
  Cost c = cost_free();
  int64_t group = element_bytes(d) >= 4 ? t->group_f32 : t->group_f16;
  int64_t span = group > ceil_div(block, 64)
                     ? group
                     : ceil_div(block, 64); /* rows that cost the same, or nearly so */
  double share = ceil_ratio((double)batch * (double)columns, (double)t->tiles),
         width = vector_width(t, d);
  /* each row's product begins at another tile (PL: a hash of its shape) */
  double free_tiles = 1, state = 0;
  for (int64_t at = 1; at < block; at += span) {
    double rows = (double)(at + span < block ? span : block - at);
    Cost product =
        cost_matmul(t, d, F32, batch, 1, at + span < block ? at + span : block, columns, NULL);
    double cycles = columns == 1 ? dot_cycles(&product) : cost_cycles(&product);
    cost_steps(&c, t, "row", rows, 0, fmax(0, cycles - step_cycles(t)));
    cost_steps(&c, t, "subtract", rows, 0, worker_cycles(t, 29, share, 3, width));
    if (columns > 1) cost_steps(&c, t, "copy", rows, share * element_bytes(d), 0);
    c.temporary_total = fmax(c.temporary_total, product.temporary_total);
    c.interleaved_bytes = fmax(c.interleaved_bytes, product.interleaved_bytes);
    c.separate_bytes = fmax(c.separate_bytes, product.separate_bytes);
    free_tiles *= pow(1 - product.tiles / (double)t->tiles, rows);
    state += rows * product.bytes[MEMORY_VERTEX_STATE] * product.tiles;
    c.vertices |= product.vertices;
    if (!product.fits) c.fits = false, c.why = product.why;
  }
  c.tiles = fmax(1, (double)t->tiles * (1 - free_tiles));
  cost_vertex(&c, t, VERTEX_ELEMENTWISE, state / c.tiles, 8 * (double)block);
  return c;
}

static Cost solve_by(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t columns,
                     int64_t block) {
  Cost c = cost_free();
  int64_t depth = block < n ? block : n, width = block < columns ? block : columns;
  double rows = 1, across = 1; /* blocks; both extents are halved until a block is left */
  while (rows * (double)depth < (double)n) rows *= 2;
  while (across * (double)width < (double)columns) across *= 2;
  Cost solve = substitute(t, d, batch, depth, width);
  cost_steps(&solve, t, "copy", rows > 1 || across > 1 ? 3 : 0,
             (double)batch * (double)depth * (double)width * element_bytes(d) / (double)t->tiles,
             0);
  cost_repeat(&solve, rows * across);
  cost_step(&c, t, "mask", 0,
            worker_cycles(t, 30, tile_share(t, d, (double)batch * (double)n * (double)n), 10, 1));
  cost_then(&c, &solve);
  double parts = 1, left = across;
  for (double half = rows / 2; half >= 1; half /= 2) {
    PlanOptions moved = {.left_moved = true, .right_moved = true, .accumulate = true};
    int64_t h = to_extent(half * (double)depth);
    double cut = left > 1 ? 2 : 1;
    left /= cut;
    Cost update = cost_matmul(t, d, F32, batch, h, h, to_extent(left * (double)width), &moved);
    cost_repeat(&update, parts * cut);
    cost_then(&c, &update);
    parts *= 2 * cut;
  }
  c.flops = (double)batch * (double)n * (double)n * (double)columns;
  return c;
}

Cost cost_triangular_solve(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t columns,
                           int64_t block) {
  if (batch <= 0 || n <= 0 || columns <= 0) return cost_free();
  batch = clamp_extent(batch), n = clamp_extent(n), columns = clamp_extent(columns);
  /* by the one element on the diagonal */
  if (n == 1) return cost_elementwise(t, d, times(batch, columns), 2, VECTOR(DIV, d));
  if (block > 0) return solve_by(t, d, batch, n, columns, block);
  Cost best = solve_by(t, d, batch, n, columns, BLOCK_LEAST);
  for (int64_t b = 2 * BLOCK_LEAST, most = n > columns ? n : columns;
       b < 2 * most && b <= BLOCK_MOST; b *= 2) {
    Cost c = solve_by(t, d, batch, n, columns, b);
    if (is_quicker(&c, &best)) best = c;
  }
  return best;
}
