/* Bytes: the live allocations at each step, and how the fullest moment lies over the tiles of each
 * IPU. Variables, arguments and results are spread evenly, as PopLibs maps them: 128 bytes to a
 * tile at least. Each tensor begins where the last one ended. */
#include "machine/memory.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/map.h"
#include "machine/priced.h"
#include "program/timetable.h"

/* GRAIN_BYTES: the fewest bytes of a tensor on a tile (PopLibs TileMapping). RUNTIME_BYTES: the
 * runtime's own programs. STACK_BYTES: stacks of six workers and a supervisor. gap_share: gaps
 * beside live tensors, published for ResNet-50. */
enum {
  GRAIN_BYTES = 128,
  RUNTIME_BYTES = 1000,
  STACK_BYTES = 6 * 96 + 512,
  PACKET_BYTES = 128,
  TRANSFER_BYTES = 64
};
static const double gap_share = 0.084, step_code_bytes = 7.2;

static const struct {
  const char *name;
  bool always;
} categories[] = {
#define X(id, name, always, summary) [BYTES_##id] = {name, always},
    PRICE_CATEGORIES(X)
#undef X
};

const char *price_category_name(PriceCategory c) { return categories[c].name; }
bool price_category_always(PriceCategory c) { return categories[c].always; }

double price_bytes(const IpuPrice *i) { return i->always + i->temporary; }
double price_fullest(const IpuPrice *i) { return i->max * (1 + gap_share); }
double price_tile_limit(const Price *p) { return (double)p->machine.pod.target.tile_bytes; }

static double tiles_of(const Price *p) { return (double)p->machine.pod.target.tiles; }

/* ---- stashes ---- */

/* Copies that wait, beside the one in use. */
static int stash_depth(const PipelinePlan *plan, int stage) {
  Error e = {0};
  int copies = plan->training ? plan_copies(&e, plan, plan_program(plan, stage, false),
                                            plan_program(plan, stage, true), false)
                              : 1;
  return copies > 1 ? copies - 1 : 0;
}

/* Does the backward stage need h of the forward one, kept since then? */
static bool is_stashed(const Price *p, const Allocation *h, const PricedStep *block, int begin) {
  if (h->category != BYTES_VALUE || h->first <= begin || h->last >= block->end ||
      h->first >= p->step_count)
    return false;
  const PricedStep *made = &p->step[h->first];
  return !made->backward && made->stage >= 0 && p->step[h->last].backward;
}

static bool add_stash(Price *p, int stage, double bytes, bool offloaded) {
  if (!(bytes > 0)) return true;
  if (!arena_reserve(p->arena, &p->allocation, &p->allocation_capacity, p->allocation_count + 1,
                     sizeof *p->allocation))
    return false;
  p->allocation[p->allocation_count++] = (Allocation){.category = BYTES_STASH,
                                                      .bytes = bytes,
                                                      .ipu = price_ipu_of_stage(p, stage),
                                                      .last = p->step_count,
                                                      .alias = -1,
                                                      .offloaded = offloaded};
  return true;
}

static bool add_stashes(Price *p) {
  if (p->pipeline_step < 0) return true;
  PricedStep block = p->step[p->pipeline_step];
  int count = p->allocation_count;
  double *bytes[2]; /* on the tiles, in streaming memory */
  for (int k = 0; k < 2; k++)
    if (!(bytes[k] = arena_alloc(p->arena, (size_t)(p->stage_count + 1) * sizeof **bytes)))
      return false;
  for (int i = 0; i < count; i++)
    if (is_stashed(p, &p->allocation[i], &block, p->pipeline_step))
      bytes[p->allocation[i].offloaded][p->step[p->allocation[i].first].stage] +=
          p->allocation[i].bytes;
  for (int s = 0; s < p->stage_count; s++) {
    int depth = p->stage[s].stash_depth = stash_depth(block.plan, s);
    p->stage[s].stash_bytes = depth * (bytes[0][s] + bytes[1][s]);
    if (!add_stash(p, s, depth * bytes[0][s], false) || !add_stash(p, s, depth * bytes[1][s], true))
      return false;
  }
  return true;
}

/* ---- live bytes ---- */

static bool is_always(const Allocation *h) {
  return categories[h->category].always && !h->offloaded;
}

static bool is_live(const Allocation *h, int step) {
  return !h->offloaded && (is_always(h) || (h->first <= step && step <= h->last));
}

/* The step at which an IPU holds most, temporaries included. */
static bool find_peak(Price *p, int ipu) {
  size_t count = (size_t)p->step_count + 2;
  double *change = arena_alloc(p->arena, count * sizeof *change);
  if (!change) return false;
  for (int i = 0; i < p->allocation_count; i++) {
    const Allocation *h = &p->allocation[i];
    if (h->ipu != ipu || h->offloaded || is_always(h) || h->first > h->last || h->first < 0)
      continue;
    int first = int_min(h->first, p->step_count), last = int_min(h->last, p->step_count);
    change[first] += h->bytes;
    change[last + 1] -= h->bytes;
  }
  double live = 0, max = -1;
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    live += change[i];
    double now = live + (r->cost && r->ipu == ipu ? r->cost->temporary_total : 0);
    if (now > max) max = now, p->ipu[ipu].peak = i;
  }
  return true;
}

/* ---- tiles ---- */

typedef struct Spread {
  double *change; /* [tiles + 1] */
  int tiles, next;
} Spread;

static void spread_over(Spread *s, double bytes, int used) {
  if (!(bytes > 0) || used < 1) return;
  if (used > s->tiles) used = s->tiles;
  double each = bytes / used;
  int begin = s->next, end = begin + used;
  s->change[begin] += each;
  s->change[min(end, s->tiles)] -= each;
  if (end > s->tiles) {
    s->change[0] += each;
    s->change[end - s->tiles] -= each;
  }
  s->next = end % s->tiles;
}

static void spread(Spread *s, double bytes) {
  double used = ceil(bytes / GRAIN_BYTES);
  spread_over(s, bytes, used < s->tiles ? (int)used : s->tiles);
}

/* Has an equal operation of that IPU been outlined? Costs of equal operations are one object. */
static bool is_repeated(Map *seen, const Cost *c) {
  enum { WORTH_STEPS = 3 }; /* of fewer steps a call would take as much code */
  if (c->step_count < WORTH_STEPS) return false;
  char key[32];
  snprintf(key, sizeof key, "%p", (const void *)c);
  if (map_has(seen, key)) return true;
  map_set(seen, key, (void *)(uintptr_t)c);
  return false;
}

/* Sequences for transfers with the host or another IPU. */
static double header_bytes(double bytes, double tiles) {
  return bytes * 4 / PACKET_BYTES + TRANSFER_BYTES * fmin(tiles, ceil(bytes / PACKET_BYTES));
}

/* Variables come from the host before the program's first run. Changed ones are fetched on
 * demand. */
static void add_variable_headers(const Price *p, IpuPrice *x, int ipu) {
  for (int i = 0; i < p->allocation_count && !p->machine.synthetic_variables; i++) {
    const Allocation *h = &p->allocation[i];
    if (h->category == BYTES_VARIABLE && h->ipu == ipu && h->variable && !h->offloaded)
      x->bytes[BYTES_HOST_HEADER] += (h->written ? 2 : 1) * header_bytes(h->bytes, tiles_of(p));
  }
}

static void add_code(Price *p, IpuPrice *x, int ipu) {
  const Target *t = &p->machine.pod.target;
  double steps = 0, tiles = tiles_of(p);
  Map *seen = p->machine.no_outlining ? NULL : map_new();
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    if (priced_is_block(r->kind)) steps++;
    if (r->ipu != ipu || !r->cost) continue;
    const Cost *c = r->cost;
    x->vertices |= c->vertices;
    if (seen && r->kind == PRICED_OP && is_repeated(seen, c)) {
      steps += 2; /* copies to and from the function's arguments, a call */
      continue;
    }
    /* each tile runs the program, but few have a part in a small step */
    double used = c->tiles > 0 ? fmin(c->tiles, tiles) : tiles;
    x->bytes[BYTES_VERTEX_STATE] += c->bytes[MEMORY_VERTEX_STATE] * used;
    x->bytes[BYTES_EXCHANGE_CODE] += c->bytes[MEMORY_EXCHANGE_CODE] * used;
    x->bytes[BYTES_CONTROL_CODE] += c->bytes[MEMORY_CONTROL_CODE] * tiles;
    bool host = r->kind == PRICED_HOST_IN || r->kind == PRICED_HOST_OUT;
    if (r->bytes > 0 && (host || r->kind == PRICED_LINK))
      x->bytes[host ? BYTES_HOST_HEADER : BYTES_GLOBAL_HEADER] += header_bytes(r->bytes, tiles);
  }
  map_free(seen);
  add_variable_headers(p, x, ipu);
  if (!t->code) return;
  x->bytes[BYTES_CONTROL_CODE] += steps * step_code_bytes * tiles;
  x->bytes[BYTES_VERTEX_CODE] = (cost_code_bytes(x->vertices) + RUNTIME_BYTES) * tiles;
  x->bytes[BYTES_STACK] = STACK_BYTES * tiles;
}

/* The memory of an operation while it runs, in the categories of target/cost.h, of all tiles in
 * use. */
static void add_temporaries(IpuPrice *x, const Cost *c, Spread *s) {
  static const PriceCategory to[] = {[MEMORY_MESSAGE] = BYTES_MESSAGE,
                                     [MEMORY_REARRANGEMENT] = BYTES_REARRANGEMENT,
                                     [MEMORY_PARTIALS] = BYTES_PARTIALS,
                                     [MEMORY_TEMPORARY] = BYTES_TEMPORARY};
  double parts = cost_temporary(c);
  if (!(parts > 0) || !(c->temporary_total > 0)) return;
  for (int m = 0; m < (int)(sizeof to / sizeof *to); m++)
    x->bytes[to[m]] += c->temporary_total * c->bytes[m] / parts;
  s->next = 0;
  spread_over(s, c->temporary_total, c->tiles > 1 ? (int)fmin(c->tiles, s->tiles) : 1);
  x->bytes[BYTES_PARTIALS] += c->uneven_bytes;
  s->change[0] += c->uneven_bytes;
  s->change[1] -= c->uneven_bytes;
}

static void measure_tiles(Price *p, IpuPrice *x, const Spread *s) {
  double level = 0, limit = price_tile_limit(p);
  x->min = INFINITY;
  for (int i = 0; i < s->tiles; i++) {
    level += s->change[i];
    x->tile[i] = level;
    x->max = fmax(x->max, level);
    x->min = fmin(x->min, level);
    x->mean += level / s->tiles;
    if (level * (1 + gap_share) > limit) x->tiles_over++;
  }
  x->gaps = gap_share * price_bytes(x);
  x->fits = x->tiles_over == 0 && x->streaming <= (double)p->machine.pod.target.streaming_bytes;
}

static bool fill_tiles(Price *p, int ipu) {
  IpuPrice *x = &p->ipu[ipu];
  Spread s = {.tiles = (int)p->machine.pod.target.tiles};
  s.change = arena_alloc(p->arena, (size_t)(s.tiles + 2) * sizeof *s.change);
  x->tile = arena_alloc(p->arena, (size_t)(s.tiles + 1) * sizeof *x->tile);
  if (!s.change || !x->tile) return false;
  for (int i = 0; i < p->allocation_count; i++) {
    const Allocation *h = &p->allocation[i];
    if (h->ipu != ipu) continue;
    if (h->offloaded) x->streaming += h->bytes;
    if (!is_live(h, x->peak)) continue;
    x->bytes[h->category] += h->bytes;
    spread(&s, h->bytes);
  }
  add_code(p, x, ipu);
  const PriceCategory code[] = {BYTES_VERTEX_CODE,  BYTES_VERTEX_STATE, BYTES_EXCHANGE_CODE,
                                BYTES_CONTROL_CODE, BYTES_STACK,        BYTES_HOST_HEADER,
                                BYTES_GLOBAL_HEADER};
  for (size_t i = 0; i < sizeof code / sizeof *code; i++)
    spread_over(&s, x->bytes[code[i]], s.tiles);
  x->code =
      (x->bytes[BYTES_VERTEX_CODE] + x->bytes[BYTES_EXCHANGE_CODE] + x->bytes[BYTES_CONTROL_CODE]) /
      s.tiles;
  if (p->step_count && p->step[x->peak].cost && p->step[x->peak].ipu == ipu)
    add_temporaries(x, p->step[x->peak].cost, &s);
  for (int k = 0; k < BYTES_COUNT; k++)
    *(categories[k].always ? &x->always : &x->temporary) += x->bytes[k];
  measure_tiles(p, x, &s);
  return true;
}

bool price_memory(Price *p) {
  if (!add_stashes(p)) return false;
  p->fits = true;
  for (int i = 0; i < p->shards; i++) {
    if (!find_peak(p, i) || !fill_tiles(p, i)) return false;
    p->fits = p->fits && p->ipu[i].fits;
    if (price_fullest(&p->ipu[i]) > price_fullest(&p->ipu[p->worst])) p->worst = i;
  }
  return true;
}
