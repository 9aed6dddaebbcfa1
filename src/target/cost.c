#include "target/cost.h"

#include <math.h>
#include <string.h>

#include "target/plan.h"

/* --- building --- */

const char *cost_phase_name(CostPhase p) {
#define X(id, name) [PHASE_##id] = name,
  static const char *const names[] = {COST_PHASES(X)};
#undef X
  return names[p];
}

double cost_cycles(const Cost *c) {
  double sum = 0;
  for (int p = 0; p < PHASE_COUNT; p++) sum += c->cycles[p];
  return sum;
}

static bool is_temporary(int category) { return category <= MEMORY_TEMPORARY; }

double cost_temporary(const Cost *c) {
  double sum = 0;
  for (int m = 0; m < MEMORY_COUNT; m++) sum += is_temporary(m) ? c->bytes[m] : 0;
  return sum;
}

Cost cost_free(void) { return (Cost){.fits = true}; }

/* The row of that name: an existing one, a new one or, if there is no room, the last. */
static CostStep *find_row(Cost *c, const char *name) {
  for (int i = 0; i < c->row_count; i++)
    if (!strcmp(c->steps[i].name, name)) return &c->steps[i];
  if (c->row_count == COST_STEPS) return &c->steps[COST_STEPS - 1];
  CostStep *row = &c->steps[c->row_count++];
  row->name = name;
  return row;
}

/* A single tile exchanges nothing. */
static double exchange_start(const Target *t) {
  return t->tiles > 1 ? (double)t->exchange_start_cycles : 0;
}

void cost_steps(Cost *c, const Target *t, const char *name, double times, double exchange_bytes,
                double compute) {
  if (!(times > 0)) return;
  if (t->tiles < 2) exchange_bytes = 0;
  double exchange = exchange_start(t) + exchange_bytes / (double)t->exchange_bytes_per_cycle;
  double sync = (double)t->sync_cycles;
  compute += (double)t->launch_cycles;
  CostStep *row = find_row(c, name);
  row->times += times;
  row->compute += times * compute;
  row->exchange += times * exchange;
  row->sync += times * sync;
  row->bytes += times * exchange_bytes;
  c->cycles[PHASE_COMPUTE] += times * compute;
  c->cycles[PHASE_EXCHANGE] += times * exchange;
  c->cycles[PHASE_SYNC] += times * sync;
  c->moved_bytes += times * exchange_bytes;
  c->step_count += times;
  c->bytes[MEMORY_CONTROL_CODE] += t->code ? CONTROL_BYTES : 0;
}

void cost_step(Cost *c, const Target *t, const char *name, double exchange_bytes, double compute) {
  cost_steps(c, t, name, 1, exchange_bytes, compute);
}

void cost_local(Cost *c, const Target *t, const char *name, double compute) {
  double start = exchange_start(t);
  cost_step(c, t, name, 0, compute);
  c->cycles[PHASE_EXCHANGE] -= start;
  find_row(c, name)->exchange -= start;
}

void cost_wait(Cost *c, const char *name, CostPhase phase, double cycles) {
  CostStep *row = find_row(c, name);
  *(phase == PHASE_SYNC ? &row->sync : &row->stream) += cycles;
  c->cycles[phase] += cycles;
}

void cost_stream(Cost *c, const char *name, double bytes, double cycles) {
  find_row(c, name)->times += 1;
  cost_wait(c, name, PHASE_STREAM, cycles);
  c->streamed_bytes += bytes;
  c->step_count += 1;
}

double cost_code_bytes(uint32_t vertices) {
#define X(id, bytes) [VERTEX_##id] = bytes,
  static const double sizes[] = {COST_VERTICES(X)};
#undef X
  double sum = 0;
  for (int v = 0; v < VERTEX_COUNT; v++) sum += vertices >> v & 1 ? sizes[v] : 0;
  return sum;
}

void cost_vertex(Cost *c, const Target *t, VertexKind kind, double state_bytes,
                 double exchange_code_bytes) {
  c->vertices |= 1u << kind;
  c->bytes[MEMORY_VERTEX_CODE] = t->code ? cost_code_bytes(c->vertices) : 0;
  c->bytes[MEMORY_VERTEX_STATE] += state_bytes;
  c->bytes[MEMORY_EXCHANGE_CODE] += t->code ? exchange_code_bytes : 0;
}

void cost_memory(Cost *c, CostCategory category, double bytes_per_tile) {
  c->bytes[category] = fmax(c->bytes[category], bytes_per_tile);
  c->temporary_total = fmax(c->temporary_total, cost_temporary(c) * c->tiles);
}

static void add_rows(Cost *a, const Cost *b) {
  for (int i = 0; i < b->row_count; i++) {
    const CostStep *from = &b->steps[i];
    CostStep *row = find_row(a, from->name);
    row->times += from->times;
    row->compute += from->compute;
    row->exchange += from->exchange;
    row->sync += from->sync;
    row->stream += from->stream;
    row->bytes += from->bytes;
  }
}

void cost_then(Cost *a, const Cost *b) {
  for (int p = 0; p < PHASE_COUNT; p++) a->cycles[p] += b->cycles[p];
  bool larger = cost_temporary(b) > cost_temporary(a), first = a->vertices == 0;
  for (int m = 0; m < MEMORY_COUNT; m++)
    if (!is_temporary(m)) a->bytes[m] += b->bytes[m];
    else if (larger) a->bytes[m] = b->bytes[m];
  bool code = a->bytes[MEMORY_VERTEX_CODE] > 0;
  a->vertices |= b->vertices;
  if (code && !first) a->bytes[MEMORY_VERTEX_CODE] = cost_code_bytes(a->vertices);
  a->tiles = fmax(a->tiles, b->tiles);
  a->temporary_total = fmax(a->temporary_total, b->temporary_total);
  a->interleaved_bytes = fmax(a->interleaved_bytes, b->interleaved_bytes);
  a->uneven_bytes = fmax(a->uneven_bytes, b->uneven_bytes);
  a->separate_bytes = fmax(a->separate_bytes, b->separate_bytes);
  a->flops += b->flops;
  a->moved_bytes += b->moved_bytes;
  a->streamed_bytes += b->streamed_bytes;
  a->step_count += b->step_count;
  if (a->fits && !b->fits) a->fits = false, a->why = b->why;
  add_rows(a, b);
}

void cost_repeat(Cost *c, double times) {
  for (int p = 0; p < PHASE_COUNT; p++) c->cycles[p] *= times;
  c->flops *= times;
  c->moved_bytes *= times;
  c->streamed_bytes *= times;
  c->step_count *= times;
  for (int i = 0; i < c->row_count; i++) {
    CostStep *row = &c->steps[i];
    row->times *= times;
    row->compute *= times;
    row->exchange *= times;
    row->sync *= times;
    row->stream *= times;
    row->bytes *= times;
  }
}

/* --- shared arithmetic --- */

double ceil_ratio(double a, double b) { return ceil(a / b); }

/* The type that the chip computes with: types that it lacks are carried in wider ones. */
double element_bytes(Dtype d) {
  double size = (double)dtype_size(d);
  return size < 1 ? 1 : size;
}

double vector_width(const Target *t, Dtype d) {
  return fmax(1, (double)t->vector_bytes / element_bytes(d));
}

/* Elements on the fullest tile, if they are spread in grains of one vector and at least 128 bytes a
 * tile. */
double tile_share(const Target *t, Dtype d, double elements) {
  if (elements <= 0) return 0;
  double grain = vector_width(t, d), min = 128 / element_bytes(d);
  double share = ceil_ratio(ceil_ratio(elements, grain), (double)t->tiles) * grain;
  return fmin(elements, fmax(share, fmin(min, elements)));
}

double tiles_used(const Target *t, Dtype d, double elements) {
  double share = tile_share(t, d, elements);
  return share > 0 ? fmin((double)t->tiles, ceil_ratio(elements, share)) : 0;
}

/* Six contexts take turns: a tile's time is six times the slowest context's. */
double worker_cycles(const Target *t, double prologue, double elements, double per_vector,
                     double width) {
  double share = ceil_ratio(ceil_ratio(elements, (double)t->workers), width);
  return (double)t->workers * (prologue + share * per_vector) + SUPERVISOR_CYCLES;
}

double rearrange_cycles(const Target *t, double bytes, double run_bytes) {
  /* bytes that the exchange moves anyway */
  if (run_bytes == (double)t->exchange_bytes_per_cycle) return 0;
  return bytes * 1.25 / fmin((double)t->vector_bytes, fmax(1, run_bytes));
}

/* --- vector work --- */

/* PL charges integers per element. */
static double integer_cycles(VectorCycles v, double width) {
  return (v.integer > 0 ? v.integer : 7) * width;
}

double vector_cycles(VectorCycles v, Dtype d) {
  double bytes = element_bytes(d), width = fmax(1, 8 / bytes);
  if (d == BOOL) return 5 * width / 4;
  if (!dtype_is_float(d)) return integer_cycles(v, width);
  double scale = d == F64 ? 20 : 1; /* no f64 unit: software */
  return scale * (bytes >= 4 ? v.f32 * width / v.f32_elements : v.f16 * width / v.f16_elements);
}

/* Prologues of PL's elementwise vertices: one operand, two, or more (fused expressions). */
double pass_prologue(Dtype d, int operands) {
  if (operands <= 0) return element_bytes(d) >= 4 ? 7 : 26;
  if (operands == 1) return 26;
  return element_bytes(d) >= 4 ? 29 : 26;
}

Cost cost_elementwise(const Target *t, Dtype d, int64_t elements, int operands,
                      double cycles_per_vector) {
  Cost c = cost_free();
  if (elements <= 0) return c;
  double share = tile_share(t, d, (double)elements);
  cost_step(&c, t, "elementwise", 0,
            worker_cycles(t, pass_prologue(d, operands), share, fmax(1, cycles_per_vector),
                          vector_width(t, d)));
  c.tiles = tiles_used(t, d, (double)elements);
  c.flops = (double)elements;
  cost_vertex(&c, t, VERTEX_ELEMENTWISE, 12, 0);
  return c;
}

Cost cost_broadcast(const Target *t, Dtype d, int64_t elements, int64_t small_elements,
                    double cycles_per_vector) {
  Cost c = cost_elementwise(t, d, elements, 2, cycles_per_vector);
  if (elements <= 0) return c;
  /* Each tile needs the part of the smaller operand that its share of the larger one meets. */
  double received =
      t->tiles > 1
          ? fmin((double)small_elements, tile_share(t, d, (double)elements)) * element_bytes(d)
          : 0;
  double exchange = received / (double)t->exchange_bytes_per_cycle;
  c.cycles[PHASE_EXCHANGE] += exchange;
  c.steps[0].exchange += exchange;
  c.steps[0].bytes += received;
  c.moved_bytes += received;
  cost_memory(&c, MEMORY_MESSAGE, received);
  cost_vertex(&c, t, VERTEX_BROADCAST, 4, 16);
  return c;
}

Cost cost_cast(const Target *t, Dtype from, Dtype to, int64_t elements) {
  Dtype wide = element_bytes(from) > element_bytes(to) ? from : to;
  return cost_elementwise(t, wide, elements, 1, VECTOR(MOVE, F32));
}

Cost cost_fill(const Target *t, Dtype d, int64_t elements) {
  return cost_elementwise(t, d, elements, 0, VECTOR(MOVE, F32));
}

/* Cycles to enter the vertex, and cycles for a vector of its numbers. */
static const struct {
  double prologue, vector;
} random_cycles[] = {[RANDOM_UNIFORM] = {24, 4},
                     [RANDOM_NORMAL] = {24, 4},
                     [RANDOM_TRUNCATED_NORMAL] = {24, 14}, /* numbers outside are drawn again */
                     [RANDOM_BERNOULLI] = {24, 1},
                     [RANDOM_DROPOUT] = {30, 2}};

Cost cost_random(const Target *t, Dtype d, int64_t elements, RandomKind kind) {
  Cost c = cost_free();
  if (elements <= 0) return c;
  double share = tile_share(t, d, (double)elements);
  cost_step(&c, t, "random", 0,
            worker_cycles(t, random_cycles[kind].prologue, share, random_cycles[kind].vector,
                          vector_width(t, d)));
  c.tiles = tiles_used(t, d, (double)elements);
  cost_vertex(&c, t, VERTEX_RANDOM, 12, 0);
  return c;
}

/* --- moving --- */

Cost cost_copy(const Target *t, int64_t bytes) {
  Cost c = cost_free();
  if (bytes <= 0) return c;
  double share = tile_share(t, U8, (double)bytes);
  cost_step(&c, t, "copy", 0, 25 + share / (double)t->vector_bytes);
  c.tiles = tiles_used(t, U8, (double)bytes);
  return c;
}

Cost cost_rearrange(const Target *t, int64_t bytes, int64_t run_bytes) {
  Cost c = cost_free();
  if (bytes <= 0) return c;
  double share = (double)bytes / (double)t->tiles;
  double compute = rearrange_cycles(t, share, (double)run_bytes);
  cost_step(&c, t, "rearrange", share, 0);
  if (compute > 0) cost_step(&c, t, "rearrange", 0, compute);
  c.tiles = tiles_used(t, U8, (double)bytes);
  cost_memory(&c, MEMORY_REARRANGEMENT, share);
  /* without vertices the exchange addresses each piece, for the same cost by published totals of
   * fourteen layers in f32 */
  if (compute > 0) cost_vertex(&c, t, VERTEX_COPY, 16, 120);
  else c.bytes[MEMORY_VERTEX_STATE] += 16;
  if (run_bytes < 8 && compute > 0) cost_vertex(&c, t, VERTEX_TRANSPOSE, 16, 20);
  else if (run_bytes < 8) c.bytes[MEMORY_VERTEX_STATE] += 16;
  return c;
}

Cost cost_transpose(const Target *t, Dtype d, int64_t elements) {
  return cost_rearrange(t, to_extent((double)elements * element_bytes(d)),
                        (int64_t)element_bytes(d));
}

Cost cost_slice(const Target *t, Dtype d, int64_t elements) {
  Cost c = cost_free();
  if (elements <= 0) return c;
  double share = tile_share(t, d, (double)elements), width = vector_width(t, d);
  double vectors = ceil_ratio(ceil_ratio(share, (double)t->workers), width);
  cost_step(&c, t, "slice", 4, 25 + (double)t->workers * (63 + 2 * vectors));
  c.tiles = tiles_used(t, d, (double)elements);
  cost_vertex(&c, t, VERTEX_SLICE, 24, 16);
  return c;
}

Cost cost_one_hot(const Target *t, Dtype d, int64_t indices, int64_t depth) {
  Cost c = cost_fill(t, d, times(indices, depth));
  if (indices <= 0) return c;
  double share = ceil_ratio((double)indices, (double)t->tiles);
  cost_step(&c, t, "one_hot", share * 4, 74 * share);
  return c;
}
