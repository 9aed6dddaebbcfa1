/* Blocked factorisation and substitution.
 *
 * One worker runs a block of a Cholesky factorisation as one vertex. So it is for the inverse of
 * its triangle, and for a substitution of one column. With several columns, each row is a product
 * with the rows solved so far, a subtraction and a copy, one after the other. */
#include <math.h>

#include "target/plan.h"

/* The elements of matrices that a tile holds: rows of a block stay together (PL
 * createCholeskyInput, createInput of TriangularSolve); without blocks, single vectors. */
typedef struct MatrixShare {
  double share, tiles;
} MatrixShare;

static MatrixShare hold_matrices(const Target *t, Dtype d, int64_t batch, int64_t n,
                                 int64_t columns, double min) {
  double elements = (double)batch * (double)n * (double)columns, grain = vector_width(t, d);
  double share = fmax(min, ceil_ratio(ceil_ratio(elements, grain), (double)t->tiles) * grain);
  return (MatrixShare){share, ceil_ratio(elements, share)};
}

/* A solver's vertex, which few of the tiles run: its program is spread over all that the cost is
 * for. */
static void add_rare_vertex(Cost *c, const Target *t, double tiles) {
  double bytes = 40 + (t->code ? cost_code_bytes(1u << VERTEX_SOLVE) : 0);
  c->bytes[MEMORY_VERTEX_STATE] += bytes * fmin(1, tiles / fmax(1, c->tiles));
}

/* PL poplin's cycle estimators: of each of the three loops, rows, pairs of them and triples. */
static void factorise(Cost *c, const Target *t, Dtype d, double b) {
  double pairs = b * (b + 1) / 2, triples = (b + 1) * b * (b - 1) / 6;
  cost_step(c, t, "factorise", 0, (double)t->workers * (1 + 11 * b + 18 * pairs + 5 * triples));
  /* the block and the program have memory elements of their own */
  if (t->code) c->separate_bytes = (double)t->element_bytes + b * b * element_bytes(d);
}

static void invert(Cost *c, const Target *t, Dtype d, double b) {
  double pairs = b * (b - 1) / 2, triples = (b + 1) * b * (b - 1) / 6;
  cost_step(c, t, "invert", b * b * element_bytes(d),
            (double)t->workers * (28 + 63 * b + 17 * pairs + 6 * triples));
  cost_step(c, t, "invert", b * b * element_bytes(d), 0);
}

/* After a block is factorised: its inverse, the panel below it, the update of the remaining
 * matrix. */
static Cost cholesky_round(const Target *t, Dtype d, int64_t batch, int64_t block, int64_t left) {
  PlanOptions moved = {.left_moved = true, .right_moved = true};
  Cost round = cost_free();
  invert(&round, t, d, (double)block);
  Cost panel = cost_matmul(t, d, F32, batch, left, block, block, &moved);
  cost_then(&round, &panel);
  moved.accumulate = true;
  Cost update = cost_matmul(t, d, F32, batch, left, block, left, &moved);
  cost_then(&round, &update);
  cost_steps(&round, t, "copy", 2,
             (double)left * (double)block * element_bytes(d) / (double)t->tiles, 0);
  return round;
}

static Cost cholesky_by(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t block) {
  Cost c = cost_free();
  double rounds = ceil_ratio(fmax(1, ceil((double)batch / (double)t->tiles)), (double)t->workers);
  /* the last block holds the remaining rows of the matrix (PL factoriseBlocked) */
  int64_t whole = (n - 1) / block;
  Cost last = cost_free();
  factorise(&last, t, d, (double)(n - whole * block));
  cost_repeat(&last, rounds);
  if (whole > 0) factorise(&c, t, d, (double)block), cost_repeat(&c, rounds * (double)whole);
  cost_then(&c, &last);
  /* the remaining matrix shrinks by a block each time: priced at no more than eight sizes */
  int64_t rounds_left = ceil_div(n, block) - 1, each = ceil_div(rounds_left, 8);
  for (int64_t done = 0; done < rounds_left; done += each) {
    int64_t count = each < rounds_left - done ? each : rounds_left - done;
    int64_t left = n - (done + 1 + (count - 1) / 2) * block;
    Cost round = cholesky_round(t, d, batch, block, left > 1 ? left : 1);
    round.bytes[MEMORY_VERTEX_STATE] *= (double)count;
    cost_repeat(&round, (double)count);
    cost_then(&c, &round);
  }
  cost_step(&c, t, "mask", 0, 25);
  /* the products' programs are on fewer tiles than the matrices, or the other way round */
  double busy = c.tiles;
  c.tiles = fmax(busy, hold_matrices(t, d, batch, n, n, (double)block).tiles);
  c.bytes[MEMORY_VERTEX_CODE] *= busy / c.tiles, c.bytes[MEMORY_VERTEX_STATE] *= busy / c.tiles;
  add_rare_vertex(&c, t, (double)batch);
  c.flops = (double)batch * (double)n * (double)n * (double)n / 3;
  return c;
}

static bool is_quicker(const Cost *c, const Cost *than) {
  return c->fits != than->fits ? c->fits : cost_cycles(c) < cost_cycles(than);
}

enum { BLOCK_MIN = 8, BLOCK_MAX = 512 }; /* block sizes that are tried if none is given */

Cost cost_cholesky(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t block) {
  if (batch <= 0 || n <= 0) return cost_free();
  batch = clamp_extent(batch), n = clamp_extent(n);
  if (block > 0) return cholesky_by(t, d, batch, n, block < n ? block : n);
  Cost best = cholesky_by(t, d, batch, n, n < BLOCK_MIN ? n : BLOCK_MIN);
  for (int64_t b = 2 * BLOCK_MIN; b < 2 * n && b <= BLOCK_MAX; b *= 2) {
    Cost c = cholesky_by(t, d, batch, n, b < n ? b : n);
    if (is_quicker(&c, &best)) best = c;
  }
  return best;
}

/* One column: a vertex for each matrix, on one worker. It is on the tile that holds most of the
 * triangle, and the rest is sent there (PL TriangularSolve and its estimator). It reads and writes
 * three memory elements: the triangle's, the column's, the result's. */
static Cost substitute_column(const Target *t, Dtype d, int64_t batch, double b) {
  Cost c = cost_free();
  double bytes = b * b * element_bytes(d), tiles = (double)t->tiles,
         each = ceil_ratio(ceil_ratio((double)batch, tiles), (double)t->workers);
  double vertex = 41 + 29 * b + 3 * b * (b - 1);
  c.tiles = fmin(tiles, (double)batch);
  cost_step(&c, t, "solve", bytes * ceil_ratio((double)batch, tiles),
            (double)t->workers * each * vertex);
  cost_memory(&c, MEMORY_MESSAGE, bytes);
  c.separate_bytes = (double)t->element_bytes * ceil_ratio(bytes + 24, (double)t->element_bytes) +
                     b * element_bytes(d);
  return c;
}

/* Bytes of code for each byte that a row's product gathers, and for each piece of a triangle that
 * is laid out. They are fitted to published totals of solves, three with rows of several columns
 * and three of one. */
static const double gather_code = 0.7, piece_code = 16;

/* Several columns, rows one after the other: a product with the rows above, a subtraction and a
 * copy into place. A tile holds this many solved bytes of whole blocks (PL
 * createTriangularSolveOutput). For each product it sends its solved rows. For large matrices that
 * is more than any tile receives. */
static Cost substitute(const Target *t, Dtype d, int64_t batch, int64_t block, int64_t columns,
                       double held) {
  Cost c = cost_free();
  int64_t group = element_bytes(d) >= 4 ? t->group_f32 : t->group_f16;
  int64_t span = group > ceil_div(block, 64)
                     ? group
                     : ceil_div(block, 64); /* rows that cost the same, or nearly so */
  double share = ceil_ratio((double)batch * (double)columns, (double)t->tiles),
         width = vector_width(t, d);
  /* each row's product begins at another tile (PL: a hash of its shape) */
  double free_tiles = 1, state = 0, code = 0;
  for (int64_t at = 1; at < block; at += span) {
    double rows = (double)(at + span < block ? span : block - at);
    Cost product =
        cost_matmul(t, d, F32, batch, 1, at + span < block ? at + span : block, columns, NULL);
    double sent = held * fmin(1, ((double)at + rows / 2) / (double)block),
           beyond = fmax(0, sent - product.bytes[MEMORY_MESSAGE]);
    cost_steps(&c, t, "row", rows, beyond, fmax(0, cost_cycles(&product) - step_cycles(t)));
    cost_steps(&c, t, "subtract", rows, 0, worker_cycles(t, 29, share, 3, width));
    cost_steps(&c, t, "copy", rows, share * element_bytes(d), 0);
    c.temporary_total = fmax(c.temporary_total, product.temporary_total);
    c.interleaved_bytes = fmax(c.interleaved_bytes, product.interleaved_bytes);
    c.separate_bytes = fmax(c.separate_bytes, product.separate_bytes);
    free_tiles *= pow(1 - product.tiles / (double)t->tiles, rows);
    state += rows * product.bytes[MEMORY_VERTEX_STATE] * product.tiles;
    code += rows * product.bytes[MEMORY_EXCHANGE_CODE] * product.tiles;
    state += t->code ? rows * gather_code * product.bytes[MEMORY_MESSAGE] * product.tiles : 0;
    c.vertices |= product.vertices;
    if (!product.fits) c.fits = false, c.why = product.why;
  }
  c.tiles = fmax(1, (double)t->tiles * (1 - free_tiles));
  cost_vertex(&c, t, VERTEX_ELEMENTWISE, state / c.tiles, code / c.tiles + 8 * (double)block);
  return c;
}

static Cost solve_by(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t columns,
                     int64_t block) {
  Cost c = cost_free();
  int64_t depth = block < n ? block : n, width = columns;
  /* blocks: rows are halved until a block is left, columns with them as far as they can be */
  double rows = 1, across = 1;
  for (; rows * (double)depth < (double)n; rows *= 2)
    if (width > 1) across *= 2, width = ceil_div(width, 2);
  /* of the whole result; a block lies on as few tiles as its share of it */
  double solved = hold_matrices(t, d, batch, n, columns, n > block ? (double)block : 1).share *
                  element_bytes(d);
  Cost solve = width == 1 ? substitute_column(t, d, batch, (double)depth)
                          : substitute(t, d, batch, depth, width, solved);
  double part = (double)batch * (double)depth * (double)width * element_bytes(d);
  cost_steps(&solve, t, "copy", rows > 1 || across > 1 ? 3 : 0, fmin(part, solved), 0);
  cost_repeat(&solve, rows * across);
  cost_step(&c, t, "mask", 0,
            worker_cycles(t, 30, tile_share(t, d, (double)batch * (double)n * (double)n), 10, 1));
  /* copied row by row: zeros, ones and the triangle, in pieces of a block's row or of elements */
  double run = n > block ? (double)block : 1;
  MatrixShare matrices = hold_matrices(t, d, batch, n, n, run);
  c.tiles = matrices.tiles;
  c.bytes[MEMORY_VERTEX_STATE] += t->code ? piece_code * matrices.share / run : 0;
  if (width == 1) add_rare_vertex(&c, t, (double)batch);
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
  Cost best = solve_by(t, d, batch, n, columns, BLOCK_MIN);
  for (int64_t b = 2 * BLOCK_MIN, max = n > columns ? n : columns; b < 2 * max && b <= BLOCK_MAX;
       b *= 2) {
    Cost c = solve_by(t, d, batch, n, columns, b);
    if (is_quicker(&c, &best)) best = c;
  }
  return best;
}
