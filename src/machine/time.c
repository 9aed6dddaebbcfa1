/* Cycles: what moves data gets its price, then everything is added up. IPUs of one replica take turns unless a pipeline keeps
 * them all busy; whoever waits, waits in sync. */
#include <math.h>
#include <string.h>

#include "machine/rows.h"

static const Cost *keep(Price *p, const Cost *c) { return arena_copy(p->arena, c, sizeof *c); }

double row_cycles(const Row *r) { return r->cost ? cost_cycles(r->cost) : 0; }

int price_ipu_of_stage(const Price *p, int stage) {
  return stage < p->machine.mapping_count ? p->machine.mapping[stage] : stage;
}

/* ---- rows that the graph does not have ---- */

static Row *append(Price *p, RowKind kind, int ipu, double bytes, double times) {
  if (!arena_reserve(p->arena, &p->row, &p->row_capacity, p->row_count + 1, sizeof *p->row)) return NULL;
  Row *r = &p->row[p->row_count++];
  *r = (Row){.kind = kind, .parent = -1, .end = p->row_count, .ipu = ipu, .stage = -1, .times = times, .repeats = 1, .bytes = bytes};
  return r;
}

static bool is_state(const Price *p, const Held *h) {
  if (h->category != BYTES_VARIABLE || !h->variable || h->variable->trainable || !h->written || !h->variable->type.rank) return false;
  for (int i = 0; i < p->held_count; i++) {
    const Variable *v = p->held[i].variable;
    if (v && v->trainable && p->held[i].written && p->held[i].ipu == h->ipu && shape_equal(&v->type, &h->variable->type)) return true;
  }
  return false;
}

static bool has_collectives(const Price *p) {
  for (int i = 0; i < p->row_count; i++)
    if (p->row[i].kind == ROW_OP && strstr(p->row[i].node->op->name, "replica")) return true;
  return false;
}

/* Gradients are summed over the replicas before each update, unless the program says how itself. */
static bool add_collectives(Price *p) {
  if (p->replicas < 2 || has_collectives(p)) return true;
  for (int ipu = 0; ipu < p->shards; ipu++) {
    double bytes = 0, times = 0;
    for (int i = 0; i < p->held_count; i++) {
      const Held *h = &p->held[i];
      if (h->ipu != ipu || !h->variable || !h->variable->trainable || !h->written || h->alias >= 0) continue;
      bytes += h->bytes;
      times = fmax(times, h->writes);
    }
    if (bytes > 0 && !append(p, ROW_COLLECTIVE, ipu, bytes, times)) return false;
  }
  return true;
}

/* Optimizer state comes in for an update and goes out again. */
static bool add_offloads(Price *p) {
  if (!p->machine.offload_state || p->machine.pod.target.streaming_bytes < 1) return true;
  for (int ipu = 0; ipu < p->shards; ipu++) {
    double bytes = 0, times = 0;
    for (int i = 0; i < p->held_count; i++) {
      Held *h = &p->held[i];
      if (h->ipu != ipu || !is_state(p, h)) continue;
      h->offloaded = true;
      bytes += h->bytes;
      times = fmax(times, h->writes);
    }
    if (p->machine.shard_state) bytes /= p->replicas;
    if (bytes > 0 && !append(p, ROW_STREAMING, ipu, 2 * bytes, times)) return false;
  }
  return true;
}

/* The host starts the run. */
static bool add_call(Price *p) {
  double calls = p->machine.calls == 0 ? 1 : p->machine.calls;
  if (calls < 0 || p->machine.pod.model_host) return true;
  Row *r = append(p, ROW_HOST_IN, 0, 0, calls);
  if (!r) return false;
  Cost c = cost_free();
  c.cycles[PHASE_STREAM] = pod_run_cycles(&p->machine.pod);
  return (r->cost = keep(p, &c)) != NULL;
}

/* ---- prices of moves ---- */

/* A transfer that was begun early: what waiting remains is its bytes'. */
static Cost prefetched(const Price *p, Cost c) {
  bool waits = p->machine.no_prefetch || p->machine.pod.model_host || !(c.cycles[PHASE_STREAM] > 0);
  if (!waits) c.cycles[PHASE_STREAM] -= (double)p->machine.pod.target.host_latency_cycles;
  return c;
}

static Cost cost_of_move(const Price *p, const Row *r) {
  const Pod *pod = &p->machine.pod;
  int board = (int)pod->target.ipus_per_board, on_board = board < pod->ipus ? board : pod->ipus;
  int sharing = on_board / p->shards; /* replicas that draw from the same network card */
  switch (r->kind) {
    case ROW_LINK: return cost_link(pod, r->from_ipu, r->ipu, r->bytes);
    case ROW_HOST_IN:
    case ROW_HOST_OUT: return prefetched(p, cost_host(pod, r->bytes, sharing));
    case ROW_STREAMING: return cost_streaming(pod, r->bytes);
    case ROW_COLLECTIVE: {
      Cost c = cost_all_reduce(pod, p->replicas, p->shards, r->bytes);
      return c;
    }
    default: return cost_free();
  }
}

static bool price_moves(Price *p) {
  for (int i = 0; i < p->row_count; i++) {
    Row *r = &p->row[i];
    if (r->cost || row_is_block(r->kind)) continue;
    Cost c = cost_of_move(p, r);
    if (!(r->cost = keep(p, &c))) return false;
  }
  return true;
}

/* ---- pipelines ---- */

typedef struct Work {
  double forward[PHASE_COUNT], backward[PHASE_COUNT];
} Work;

typedef struct Timeline {
  Price *price;
  const Row *block;
  int stages;
  bool trains;
  Work *work;                         /* [stages], of one micro-batch */
  double links, host_in, host_out;    /* of a time step */
  double elapsed;
  double *ipu_step;                   /* [shards] scratch: cycles of the present step */
  bool keeps_slots;
} Timeline;

static double sum(const double *cycles) {
  double s = 0;
  for (int i = 0; i < PHASE_COUNT; i++) s += cycles[i];
  return s;
}

static bool gather_work(Timeline *t, int block) {
  Price *p = t->price;
  Transfer *transfers = arena_alloc(p->arena, (size_t)(p->row[block].end - block + 1) * sizeof *transfers);
  int count = 0;
  if (!transfers) return false;
  double runs = t->block->times * t->block->repeats;
  for (int i = block + 1; i < t->block->end; i++) {
    const Row *r = &p->row[i];
    double times = runs > 0 ? r->times / runs : 0;
    if (r->kind == ROW_LINK) transfers[count++] = (Transfer){r->from_ipu, r->ipu, r->bytes * times};
    if (r->kind == ROW_HOST_IN) t->host_in += times * row_cycles(r);
    if (r->kind == ROW_HOST_OUT) t->host_out += times * row_cycles(r);
    if (r->kind != ROW_OP) continue;
    int s = r->stage >= 0 ? r->stage : 0;
    double *to = r->backward ? t->work[s].backward : t->work[s].forward;
    for (int k = 0; k < PHASE_COUNT; k++) to[k] += times * r->cost->cycles[k];
    t->trains = t->trains || r->backward;
  }
  if (count) {
    Cost c = cost_links(&p->machine.pod, transfers, count);
    t->links = cost_cycles(&c);
  }
  return true;
}

/* A backward stage that recomputes runs its forward ops once more; the last one has just run them. */
static void add_recomputation(Timeline *t) {
  for (int s = 0; t->price->machine.recompute && s + 1 < t->stages; s++)
    for (int k = 0; k < PHASE_COUNT; k++) t->work[s].backward[k] += t->work[s].forward[k];
}

static bool add_slot(Timeline *t, int step, int stage, int64_t batch, bool backward) {
  Price *p = t->price;
  int ipu = price_ipu_of_stage(p, stage);
  double cycles = sum(backward ? t->work[stage].backward : t->work[stage].forward);
  if (t->keeps_slots && p->slot_count < 100000) {
    if (!arena_reserve(p->arena, &p->slot, &p->slot_capacity, p->slot_count + 1, sizeof *p->slot)) return false;
    p->slot[p->slot_count++] = (Slot){.step = step, .ipu = ipu, .stage = stage, .micro_batch = (int)batch, .backward = backward,
                                      .begin = t->elapsed + t->ipu_step[ipu], .cycles = cycles};
  }
  t->ipu_step[ipu] += cycles;
  return true;
}

/* The micro-batch that a stage works on in a step; -1: none. */
static int64_t batch_at(const Timeline *t, int64_t step, int s, bool backward) {
  int64_t n = (int64_t)t->block->repeats, last = 2 * t->stages - 1, m;
  switch (t->trains ? t->price->machine.schedule : SCHEDULE_GROUPED) {
    case SCHEDULE_INTERLEAVED:
      m = step - (backward ? last - s : s);
      if (m < 0 || m % 2) return -1;
      m /= 2;
      break;
    case SCHEDULE_SEQUENTIAL:
      m = step % (last + 1) == (backward ? last - s : s) ? step / (last + 1) : -1;
      break;
    default: m = step - (backward ? last - s : s);
  }
  return m >= 0 && m < n ? m : -1;
}

static int64_t step_count(const Timeline *t) {
  int64_t n = (int64_t)t->block->repeats, s = t->stages;
  if (n < 1) return 0;
  if (!t->trains) return n + s - 1;
  switch (t->price->machine.schedule) {
    case SCHEDULE_INTERLEAVED: return 2 * n + 2 * s - 2;
    case SCHEDULE_SEQUENTIAL: return 2 * s * n;
    default: return n + 2 * s - 1;
  }
}

static bool run_step(Timeline *t, int64_t step) {
  Price *p = t->price;
  memset(t->ipu_step, 0, (size_t)p->shards * sizeof *t->ipu_step);
  bool first = false, last = false;
  for (int s = 0; s < t->stages; s++) {
    int64_t back = t->trains ? batch_at(t, step, s, true) : -1, ahead = batch_at(t, step, s, false);
    if (back >= 0 && !add_slot(t, (int)step, s, back, true)) return false;
    if (ahead >= 0 && !add_slot(t, (int)step, s, ahead, false)) return false;
    if (s == 0 && ahead >= 0) first = true;
    if (s == t->stages - 1 && ahead >= 0) last = true;
  }
  double most = 0, host = (first ? t->host_in : 0) + (last ? t->host_out : 0);
  for (int i = 0; i < p->shards; i++) most = fmax(most, t->ipu_step[i]);
  double cycles = (p->machine.io_tiles ? fmax(most, host) : most + host) + t->links;
  if (t->keeps_slots) p->step_cycles_most = fmax(p->step_cycles_most, cycles);
  t->elapsed += cycles;
  return true;
}

static void charge_ipus(Timeline *t, double steps) {
  Price *p = t->price;
  double n = t->block->repeats, runs = t->block->times;
  for (int s = 0; s < t->stages; s++) {
    IpuPrice *ipu = &p->ipu[price_ipu_of_stage(p, s)];
    for (int k = 0; k < PHASE_COUNT; k++) ipu->cycles[k] += runs * n * (t->work[s].forward[k] + t->work[s].backward[k]);
  }
  for (int i = 0; i < p->shards; i++) p->ipu[i].cycles[PHASE_STREAM] += runs * steps * t->links;
  p->ipu[price_ipu_of_stage(p, 0)].cycles[PHASE_STREAM] += runs * n * t->host_in;
  p->ipu[price_ipu_of_stage(p, t->stages - 1)].cycles[PHASE_STREAM] += runs * n * t->host_out;
}

static bool time_pipeline(Price *p, int block) {
  Timeline t = {.price = p, .block = &p->row[block], .stages = p->stage_count, .keeps_slots = p->slot_row < 0};
  t.work = arena_alloc(p->arena, (size_t)(t.stages + 1) * sizeof *t.work);
  t.ipu_step = arena_alloc(p->arena, (size_t)(p->shards + 1) * sizeof *t.ipu_step);
  if (!t.work || !t.ipu_step || !gather_work(&t, block)) return false;
  add_recomputation(&t);
  int64_t steps = step_count(&t), detailed = steps < 20000 ? steps : 20000;
  if (t.keeps_slots) {
    p->slot_row = block;
    p->time_steps = (int)(steps < INT32_MAX ? steps : INT32_MAX);
    for (int s = 0; s < t.stages; s++) {
      p->stage[s].ipu = price_ipu_of_stage(p, s);
      p->stage[s].forward = sum(t.work[s].forward);
      p->stage[s].backward = sum(t.work[s].backward);
    }
  }
  for (int64_t i = 0; i < detailed; i++)
    if (!run_step(&t, i)) return false;
  if (steps > detailed) t.elapsed *= (double)steps / (double)detailed; /* the middle of a long run repeats */
  p->row[block].elapsed = t.elapsed;
  p->total += t.block->times * t.elapsed;
  charge_ipus(&t, (double)steps);
  return true;
}

/* ---- all of it ---- */

/* IPUs that do the same at once (their own collectives, their own state): the slowest counts. */
static bool side_by_side(const Row *r) { return r->kind == ROW_COLLECTIVE || r->kind == ROW_STREAMING; }

static void charge(Price *p, const Row *r) {
  double cycles = r->times * row_cycles(r);
  IpuPrice *ipu = &p->ipu[r->ipu < p->shards ? r->ipu : 0];
  for (int k = 0; k < PHASE_COUNT; k++) ipu->cycles[k] += r->times * r->cost->cycles[k];
  if (!side_by_side(r)) p->total += cycles;
}

static double slowest(const Price *p, RowKind kind) {
  double most = 0;
  for (int i = 0; i < p->row_count; i++)
    if (p->row[i].kind == kind) most = fmax(most, p->row[i].times * row_cycles(&p->row[i]));
  return most;
}

static void add_totals(Price *p) {
  for (int i = 0; i < p->row_count; i++) {
    const Row *r = &p->row[i];
    if (!r->cost) continue;
    p->flops += r->times * r->cost->flops;
    p->moved_bytes += r->times * r->cost->moved_bytes;
    p->streamed_bytes += r->times * r->bytes;
  }
  for (int i = 0; i < p->shards; i++) {
    double busy = sum(p->ipu[i].cycles);
    p->ipu[i].cycles[PHASE_SYNC] += fmax(0, p->total - busy);
    for (int k = 0; k < PHASE_COUNT; k++) p->cycles[k] += p->ipu[i].cycles[k] / p->shards;
  }
  p->total = sum(p->cycles);
  p->seconds = target_seconds(&p->machine.pod.target, p->total);
}

bool price_time(Price *p) {
  p->slot_row = -1;
  if (!add_collectives(p) || !add_offloads(p) || !add_call(p) || !price_moves(p)) return false;
  for (int i = 0; i < p->row_count;) {
    const Row *r = &p->row[i];
    if (r->kind == ROW_PIPELINE) {
      if (!time_pipeline(p, i)) return false;
      i = p->row[i].end;
      continue;
    }
    if (r->cost) charge(p, r);
    i++;
  }
  p->total += slowest(p, ROW_COLLECTIVE) + slowest(p, ROW_STREAMING);
  add_totals(p);
  return true;
}
