/* Convolutions side by side on the tiles of one IPU. */
#include <math.h>
#include <string.h>

#include "target/conv_plan.h"

static double macs_of(const ConvShape *s) {
  return (double)s->batch * (double)conv_product(s->out, s->rank) *
         (double)conv_product(s->kernel, s->rank) * (double)s->groups * (double)s->in_channels *
         (double)s->out_channels;
}

/* b runs beside a, on other tiles: each kind of step lasts as long as the slower of the two. */
static void run_beside(Cost *a, const Cost *b) {
  for (int i = 0; i < b->row_count; i++) {
    const CostStep *from = &b->steps[i];
    CostStep *row = NULL;
    for (int k = 0; k < a->row_count && !row; k++)
      if (!strcmp(a->steps[k].name, from->name)) row = &a->steps[k];
    if (!row && a->row_count < COST_STEPS)
      row = &a->steps[a->row_count++], *row = (CostStep){.name = from->name};
    if (!row) continue;
    row->times = fmax(row->times, from->times);
    row->compute = fmax(row->compute, from->compute);
    row->exchange = fmax(row->exchange, from->exchange);
    row->sync = fmax(row->sync, from->sync);
    row->bytes = fmax(row->bytes, from->bytes);
  }
  for (int m = 0; m < MEMORY_COUNT; m++) a->bytes[m] = fmax(a->bytes[m], b->bytes[m]);
  a->temporary_total += b->temporary_total;
  a->interleaved_bytes = fmax(a->interleaved_bytes, b->interleaved_bytes);
  a->vertices |= b->vertices;
  a->tiles += b->tiles;
  a->flops += b->flops;
  if (a->fits && !b->fits) a->fits = false, a->why = b->why;
}

/* The sums that follow from the rows. */
static void add_up(Cost *c) {
  memset(c->cycles, 0, sizeof c->cycles);
  c->step_count = c->moved_bytes = 0;
  for (int i = 0; i < c->row_count; i++) {
    c->cycles[PHASE_COMPUTE] += c->steps[i].compute;
    c->cycles[PHASE_EXCHANGE] += c->steps[i].exchange;
    c->cycles[PHASE_SYNC] += c->steps[i].sync;
    c->step_count += c->steps[i].times;
    c->moved_bytes += c->steps[i].bytes;
  }
}

/* Inputs averaged over 2 x 2 points, outputs repeated 2 x 2 times and added to another part's. */
static void resample(Cost *c, const Target *t, Dtype d, const ConvPart *part) {
  const ConvShape *s = &part->shape;
  double in = (double)s->batch * (double)s->in_channels * (double)conv_product(s->in, s->rank);
  double out = (double)s->batch * (double)s->out_channels * (double)conv_product(s->out, s->rank);
  double tiles = (double)t->tiles, w = (double)t->workers;
  if (part->pooled) {
    cost_step(c, t, "average", 0, w * (73 + 19 * ceil_ratio(4 * in, 8 * w * tiles)));
    cost_layout(c, t, d, 4 * in, 8);
  }
  if (part->upsampled) {
    cost_layout(c, t, d, 4 * out, 8);
    cost_scaled_add(c, t, d, 4 * out);
  }
}

static double cycles_on(const Target *t, Dtype d, Dtype partials, const ConvShape *s, ConvPass pass,
                        const PlanOptions *options, int64_t tiles) {
  Target share = *t;
  share.tiles = tiles;
  Cost c = cost_conv(&share, d, partials, s, pass, options);
  return cost_cycles(&c);
}

/* PopLibs plans convolutions side by side (perConvReservedTiles and cycleBackOff at their
 * defaults). The largest is planned first, without 50 tiles for each other part. It then takes the
 * fewest tiles on which it is at most a tenth slower for each of them. The others share the
 * remaining tiles in proportion to their work. */
enum { RESERVED_TILES = 50 };
static const double back_off = 0.1;

static int64_t tiles_of_largest(const Target *t, Dtype d, Dtype partials, const ConvPart *largest,
                                int count, ConvPass pass, const PlanOptions *options) {
  int64_t others = count - 1,
          reserved = max(1, min(t->tiles / (2 * (int64_t)count), RESERVED_TILES));
  int64_t high = max(1, t->tiles - reserved * others), low = max(1, high / 4);
  double limit = (1 + back_off * (double)others) *
                 cycles_on(t, d, partials, &largest->shape, pass, options, high);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (cycles_on(t, d, partials, &largest->shape, pass, options, middle) <= limit) high = middle;
    else low = middle + 1;
  }
  return high;
}

Cost cost_octave(const Target *t, Dtype d, Dtype partials, const ConvPart *parts, int count,
                 ConvPass pass, const PlanOptions *options) {
  Cost all = cost_free();
  double others = 0;
  int largest = 0;
  for (int i = 1; i < count; i++)
    if (macs_of(&parts[i].shape) > macs_of(&parts[largest].shape)) largest = i;
  for (int i = 0; i < count; i++) others += i == largest ? 0 : macs_of(&parts[i].shape);
  if (count < 1 || !(macs_of(&parts[largest].shape) > 0)) return all;
  int64_t tiles = others > 0
                      ? tiles_of_largest(t, d, partials, &parts[largest], count, pass, options)
                      : t->tiles;
  for (int i = 0; i < count; i++) {
    double work = macs_of(&parts[i].shape);
    Target share = *t;
    share.tiles = i == largest
                      ? tiles
                      : max(1, (int64_t)((double)(t->tiles - tiles) * work / fmax(1, others)));
    Cost c = cost_conv(&share, d, partials, &parts[i].shape, pass, options);
    run_beside(&all, &c);
  }
  all.tiles = fmin(all.tiles, (double)t->tiles);
  add_up(&all);
  for (int i = 0; i < count && pass == CONV_FORWARD; i++) resample(&all, t, d, &parts[i]);
  return all;
}
