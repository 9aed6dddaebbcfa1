/* A price in words: the text summary, and the message of a program that doesn't fit. */
#include "machine/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "machine/band.h"
#include "machine/io_tiles.h"
#include "machine/memory.h"
#include "machine/price.h"
#include "program/schedule.h"
#include "program/timetable.h"

static const char *bytes_text(double bytes, char room[32]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (fabs(bytes) >= 1024 && unit < 4) bytes /= 1024, unit++;
  snprintf(room, 32, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
  return room;
}

/* "1,234,567" */
static const char *count_text(double count, char room[40]) {
  char plain[40];
  int digits = snprintf(plain, sizeof plain, "%.0f", count), at = 0;
  for (int i = 0; i < digits && at < 38; i++) {
    if (i && (digits - i) % 3 == 0 && plain[i - 1] != '-') room[at++] = ',';
    room[at++] = plain[i];
  }
  room[at] = 0;
  return room;
}

static void put_cycles(FILE *f, const double *cycles, double total) {
  char room[40];
  for (int k = 0; k < PHASE_COUNT; k++)
    fprintf(f, "  %-12s %18s  %5.1f %%\n", cost_phase_name((CostPhase)k),
            count_text(cycles[k], room), total > 0 ? 100 * cycles[k] / total : 0);
}

static void put_target(FILE *f, const Price *p) {
  char a[40], b[32];
  const Target *t = &p->machine.pod.target;
  double streaming = 0;
  for (int i = 0; i < p->shards; i++) streaming += p->ipu[i].streaming;
  fprintf(
      f,
      "Program %s\n\nTarget\n  %s: %d IPU%s, %d replica%s of %d, %lld tiles of %s bytes each, %.3f GHz\n",
      p->name, t->name, p->machine.pod.ipus, p->machine.pod.ipus == 1 ? "" : "s", p->replicas,
      p->replicas == 1 ? "" : "s", p->shards, (long long)t->tiles,
      count_text((double)t->tile_bytes, a), (double)t->clock_hz / 1e9);
  if (pod_hosts(&p->machine.pod) > 1)
    fprintf(f, "  %d instances of %d replica%s, each with a host of its own\n",
            pod_hosts(&p->machine.pod), p->replicas / pod_hosts(&p->machine.pod),
            p->replicas / pod_hosts(&p->machine.pod) == 1 ? "" : "s");
  fprintf(f, "  %d steps, %d ops (%d priced), %d tensors, %s of streaming memory used\n",
          p->step_count, p->op_count, p->op_count - p->unpriced, p->allocation_count,
          bytes_text(streaming, b));
}

static void put_execution(FILE *f, const Price *p) {
  char a[40];
  fprintf(f, "\nOne run: %s cycles, %.6g ms", count_text(p->total, a), p->seconds * 1e3);
  if (p->elements > 0)
    fprintf(f, ", %.6g infeed elements a second", p->elements * p->replicas / p->seconds);
  fputc('\n', f);
  Band band = price_band(p);
  fprintf(f, "How sure: cycles within %.0f %% in the mean, memory within %.0f %%\n",
          100 * band.cycles, 100 * band.memory);
  put_cycles(f, p->cycles, p->total);
}

static void put_stages(FILE *f, const Price *p) {
  char a[40], b[40], c[32];
  if (!p->stage_count) return;
  fprintf(f, "\nPipeline: %s, %d time steps\n  stage  IPU        forward       backward  stash\n",
          p->plan ? p->plan->schedule->name : "", p->time_steps);
  for (int s = 0; s < p->stage_count; s++) {
    const StagePrice *x = &p->stage[s];
    fprintf(f, "  %5d  %3d  %13s  %13s  %d deep, %s\n", s, x->ipu, count_text(x->forward, a),
            count_text(x->backward, b), x->stash_depth, bytes_text(x->stash_bytes, c));
  }
}

static void put_memory(FILE *f, const Price *p) {
  char a[32], b[32], c[32];
  for (int i = 0; i < p->shards; i++) {
    const IpuPrice *x = &p->ipu[i];
    fprintf(f, "\nMemory of IPU %d: %s without gaps, %s with (always live %s)\n", i,
            bytes_text(price_bytes(x), a), bytes_text(price_bytes(x) + x->gaps, b),
            bytes_text(x->always, c));
    for (int k = 0; k < BYTES_COUNT; k++)
      if (x->bytes[k] >= 0.5)
        fprintf(f, "  %-26s %12s\n", price_category_name((PriceCategory)k),
                bytes_text(x->bytes[k], a));
    if (x->streaming > 0)
      fprintf(f, "  %-26s %12s\n", "in streaming memory", bytes_text(x->streaming, a));
    fprintf(f, "  a tile: least %s, mean %s, most %s%s\n", bytes_text(x->min, a),
            bytes_text(x->mean, b), bytes_text(x->max, c), x->fits ? "" : "  DOES NOT FIT");
    if (price_has_io(p))
      fprintf(f, "  %d I/O tiles: %s of %s%s\n", p->machine.io_tiles, bytes_text(x->io_bytes, a),
              bytes_text(price_io_limit(p), b),
              price_overlaps(p, i)
                  ? ""
                  : "; too much for them: on all tiles, and computing waits for it");
  }
}

/* Cycles by Lua line and op, the dearest first. */
typedef struct Line {
  const char *name, *source;
  double cycles, times;
} Line;

static int by_cycles(const void *a, const void *b) {
  const Line *x = *(Line *const *)a, *y = *(Line *const *)b;
  if (x->cycles != y->cycles) return x->cycles < y->cycles ? 1 : -1;
  int order = strcmp(x->source, y->source);
  return order ? order : strcmp(x->name, y->name);
}

static void put_dearest(FILE *f, const Price *p) {
  enum { SHOWN = 12 };
  Map *lines = map_new();
  Arena *a = arena_new();
  char key[600], room[40], other[40];
  double all = 0;
  for (int i = 0; lines && a && i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    double cycles = r->times * priced_cycles(r);
    if (!(cycles > 0)) continue;
    all += cycles;
    snprintf(key, sizeof key, "%s|%s", priced_name(r), priced_source(r));
    Line *line = map_get(lines, key);
    if (!line && (line = arena_alloc(a, sizeof *line))) {
      *line = (Line){.name = priced_name(r), .source = priced_source(r)};
      map_set(lines, key, line);
    }
    if (line) line->cycles += cycles, line->times += r->times;
  }
  int count = lines ? map_count(lines) : 0, n = 0, cursor = 0;
  Line **order = a ? arena_alloc(a, (size_t)(count + 1) * sizeof *order) : NULL;
  void *value;
  while (order && n < count && map_next(lines, &cursor, &value)) order[n++] = value;
  if (n) qsort(order, (size_t)n, sizeof *order, by_cycles);
  if (n)
    fprintf(f, "\nDearest operations%s\n            cycles     times  share\n",
            p->stage_count ? " (of all IPUs together)" : "");
  for (int i = 0; i < n && i < SHOWN; i++)
    fprintf(f, "  %16s  %8s  %4.1f %%  %s%s%s\n", count_text(order[i]->cycles, room),
            count_text(order[i]->times, other), 100 * order[i]->cycles / all, order[i]->name,
            *order[i]->source ? "  " : "", order[i]->source);
  map_free(lines);
  arena_free(a);
}

char *profile_text(const Price *p) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  put_target(f, p);
  put_execution(f, p);
  put_stages(f, p);
  put_memory(f, p);
  put_dearest(f, p);
  if (p->why)
    fprintf(f, "\nNote: %s: %s (%s)\n", p->why_node->op->name, p->why,
            p->why_node->source ? p->why_node->source : "");
  fclose(f);
  return text;
}

/* ---- out of memory ---- */

static int by_bytes(const void *a, const void *b) {
  const Allocation *x = *(Allocation *const *)a, *y = *(Allocation *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x > y) - (x < y);
}

static void put_largest(FILE *f, const Price *p, int ipu) {
  enum { SHOWN = 5 };
  int n = 0, peak = p->ipu[ipu].peak;
  const Allocation **live = malloc((size_t)(p->allocation_count + 1) * sizeof *live);
  char a[32], label[256];
  if (!live) return;
  for (int i = 0; i < p->allocation_count; i++) {
    const Allocation *h = &p->allocation[i];
    bool always = price_category_always(h->category) && !h->offloaded;
    if (h->ipu == ipu && !h->offloaded && (always || (h->first <= peak && peak <= h->last)))
      live[n++] = h;
  }
  qsort(live, (size_t)n, sizeof *live, by_bytes);
  fputs("the largest that are live there:", f);
  for (int i = 0; i < n && i < SHOWN; i++) {
    const Allocation *h = live[i];
    fprintf(f, "\n  %10s  %s (%s)%s%s", bytes_text(h->bytes, a), allocation_label(h, label),
            price_category_name(h->category), *allocation_source(h) ? "  " : "",
            allocation_source(h));
  }
  free(live);
}

static double streaming_excess(const Price *p, int ipu) {
  return p->ipu[ipu].streaming - (double)p->machine.pod.target.streaming_bytes;
}

static bool exceeds_streaming(const Price *p) {
  for (int i = 0; i < p->shards; i++)
    if (streaming_excess(p, i) > 0) return true;
  return false;
}

static void put_streaming(FILE *f, const Price *p) {
  char a[40], b[40];
  const Target *t = &p->machine.pod.target;
  for (int i = 0; i < p->shards; i++) {
    if (!(streaming_excess(p, i) > 0)) continue;
    fprintf(
        f,
        "out of memory: '%s' does not fit on IPU %d of %s: %s bytes lie in its streaming memory, ",
        p->name, i, t->name, count_text(p->ipu[i].streaming, a));
    if (t->streaming_bytes < 1) fputs("and it has none\n", f);
    else fprintf(f, "which holds %s\n", count_text((double)t->streaming_bytes, b));
    return;
  }
}

static void put_saving(FILE *f, const Price *p, const char *words, const Price *q, int *count) {
  char a[32];
  if (exceeds_streaming(q)) return;
  double before = price_fullest(&p->ipu[p->worst]), after = price_fullest(&q->ipu[q->worst]);
  if (before - after <= 0.001 * before) return;
  fprintf(f, "%s\n  %s: %s less on the fullest tile%s", *count ? "" : "\nwhat would help:", words,
          bytes_text(before - after, a), q->fits ? "; it fits then" : "");
  ++*count;
}

static void put_remedy(FILE *f, const Price *p, const char *words, const Machine *m, int *count) {
  Error e = {0};
  Price *q = price_program(&e, p->program, m);
  if (q) put_saving(f, p, words, q, count);
  price_free(q);
}

/* Tensors in streaming memory can gain nothing more, and are not listed. */
static void put_offloading(FILE *f, const Price *p, int *count) {
  enum { MIN = 128 };
  const struct {
    const char *words;
    Offload offload;
  } remedies[] = {
      {"offload_activations", {.activations = true}},
      {"offload_gradient_accumulation_buffers", {.accumulators = true}},
      {"optimizer state in streaming memory (offload_weight_update_variables)", {.state = true}},
      {"the same, divided over the replicas (replicated_optimizer_state_sharding)",
       {.state = true, .shard_state = true}},
      {"offload_weights", {.weights = true}},
  };
  for (size_t i = 0;
       i < sizeof remedies / sizeof *remedies && p->machine.pod.target.streaming_bytes > 0; i++) {
    Machine m = p->machine;
    if (remedies[i].offload.shard_state && p->replicas < 2) continue;
    m.offload = remedies[i].offload;
    m.offload.min = MIN;
    put_remedy(f, p, remedies[i].words, &m, count);
  }
}

static bool recomputes(const Price *p) {
  return p->machine.recompute || p->plan->recomputation != RECOMPUTE_NONE;
}

static void put_pipeline_remedies(FILE *f, const Price *p, int *count) {
  Machine m = p->machine;
  if (p->trains && !recomputes(p)) {
    m.recompute = true;
    put_remedy(f, p, "recomputation (allow_recompute)", &m, count);
    m = p->machine;
  }
  const char *leaner = p->plan->schedule->leaner;
  if (p->trains && leaner) {
    char words[64];
    snprintf(words, sizeof words, "the %s schedule", leaner);
    m.lean_schedule = true;
    put_remedy(f, p, words, &m, count);
  }
}

static void put_remedies(FILE *f, const Price *p, const Remedy *more, int more_count) {
  int count = 0;
  Machine m = p->machine;
  if (p->stage_count > 0 && p->plan) put_pipeline_remedies(f, p, &count);
  put_offloading(f, p, &count);
  m.pod.target.matmul_proportion = m.pod.target.conv_proportion = 0.2;
  put_remedy(f, p, "availableMemoryProportion 0.2 for matmuls and convolutions", &m, &count);
  m = p->machine;
  if (!m.half_products || !m.half_convolutions) {
    m.half_products = m.half_convolutions = true;
    put_remedy(f, p, "float16 partials (partialsType half)", &m, &count);
  }
  for (int i = 0; i < more_count; i++) put_saving(f, p, more[i].words, more[i].price, &count);
  if (!count) fputs("\nwhat may help: a smaller batch, or pipeline stages on several IPUs", f);
}

static void put_tiles(FILE *f, const Price *p, const Remedy *remedies, int count) {
  char a[40], b[40], c[40];
  const IpuPrice *x = &p->ipu[p->worst];
  const PricedStep *peak = x->peak < p->step_count ? &p->step[x->peak] : NULL;
  double fullest = price_fullest(x), limit = price_tile_limit(p);
  int stage = -1, tile = 0;
  for (int s = 0; s < p->stage_count && stage < 0; s++)
    if (p->stage[s].ipu == p->worst) stage = s;
  for (int t = 0; t < (int)p->machine.pod.target.tiles; t++)
    if (x->tile[t] > x->tile[tile]) tile = t;
  fprintf(f, "out of memory: '%s' does not fit on IPU %d", p->name, p->worst);
  if (stage >= 0) fprintf(f, " (pipeline stage %d)", stage);
  fprintf(f, " of %s: tile %d needs %s bytes of %s, %s too many; ", p->machine.pod.target.name,
          tile, count_text(fullest, a), count_text(limit, b), count_text(fullest - limit, c));
  fprintf(f, "%d of %lld tiles are over\n", x->tiles_over, (long long)p->machine.pod.target.tiles);
  if (peak)
    fprintf(f, "most is live at step %d, %s%s%s%s; ", x->peak, priced_name(peak),
            *priced_source(peak) ? " (" : "", priced_source(peak), *priced_source(peak) ? ")" : "");
  put_largest(f, p, p->worst);
  double code = x->code * (double)p->machine.pod.target.tiles;
  fprintf(f, "\nof %s in all ", bytes_text(price_bytes(x), a));
  fprintf(f, "%s are always live, %s not; %s of it is code", bytes_text(x->always, a),
          bytes_text(x->temporary, b), bytes_text(code, c));
  put_remedies(f, p, remedies, count);
}

char *profile_complaint(const Price *p, const Remedy *remedies, int count) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  put_streaming(f, p);
  if (p->ipu[p->worst].tiles_over) put_tiles(f, p, remedies, count);
  fclose(f);
  return text;
}
