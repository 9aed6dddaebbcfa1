/* Cycles. Moves get their prices, pipelines their timetables, then all steps are added up. The time
 * in which an IPU waits counts as sync. */
#include "machine/time.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "machine/io_tiles.h"
#include "machine/merge.h"
#include "machine/priced.h"
#include "machine/timeline.h"
#include "ops/io/feed.h"
#include "program/identical.h"
#include "program/program.h"
#include "program/timetable.h"

static const Cost *keep(Price *p, const Cost *c) { return arena_copy(p->arena, c, sizeof *c); }

/* ---- steps that the graph does not have ---- */

static PricedStep *append(Price *p, PricedKind kind, int ipu, double bytes, double times) {
  if (!arena_reserve(p->arena, &p->step, &p->step_capacity, p->step_count + 1, sizeof *p->step))
    return NULL;
  PricedStep *r = &p->step[p->step_count++];
  *r = (PricedStep){.kind = kind,
                    .parent = -1,
                    .end = p->step_count,
                    .ipu = ipu,
                    .stage = -1,
                    .times = times,
                    .repeats = 1,
                    .bytes = bytes,
                    .moved = -1,
                    .arrived = -1,
                    .ready = -1};
  return r;
}

/* Is v left different by each replica's own data? Then its gradient is summed. */
static bool is_summed(const Program *program, const bool *differs, const Variable *v) {
  int at = program->result_count;
  for (int i = 0; i < program->variable_count; i++) {
    if (program->variable[i] == v) return program->writes[i] && differs[at];
    at += program->writes[i];
  }
  return false;
}

/* Gradients are summed over the replicas before each update, unless the program does it itself. */
static bool add_collectives(Price *p) {
  bool *differs = p->replicas > 1 ? program_find_unsummed(p->program, p->arena) : NULL;
  if (!differs) return p->replicas < 2;
  for (int ipu = 0; ipu < p->shards; ipu++) {
    double bytes = 0, times = 0;
    for (int i = 0; i < p->allocation_count; i++) {
      const Allocation *h = &p->allocation[i];
      if (h->ipu != ipu || !h->variable || !h->variable->trainable || !h->written || h->alias >= 0)
        continue;
      if (!is_summed(p->program, differs, h->variable)) continue;
      bytes += h->bytes;
      times = fmax(times, h->writes);
    }
    if (bytes > 0 && !append(p, PRICED_COLLECTIVE, ipu, bytes, times)) return false;
  }
  return true;
}

/* The host starts the run. */
static bool add_call(Price *p) {
  double calls = p->machine.calls == 0 ? 1 : p->machine.calls;
  if (calls < 0 || p->machine.pod.model_host) return true;
  PricedStep *r = append(p, PRICED_HOST_IN, 0, 0, calls);
  if (!r) return false;
  Cost c = cost_free();
  cost_stream(&c, priced_name(r), 0, pod_run_cycles(&p->machine.pod));
  return (r->cost = keep(p, &c)) != NULL;
}

/* ---- prices of moves ---- */

/* A transfer that was begun early: only its bytes are waited for. Each tensor of an element has a
 * stream with a latency of its own. Tensors are copied together, after one sync, or one after
 * another. */
static Cost host_move(const Price *p, const PricedStep *r, Cost c) {
  const Pod *pod = &p->machine.pod;
  if (!(c.cycles[PHASE_STREAM] > 0)) return c;
  const char *name = c.steps[0].name;
  if (!p->machine.no_prefetch && !pod->model_host)
    cost_wait(&c, name, PHASE_STREAM, -(double)pod->target.host_latency_cycles);
  if (r->follows && p->machine.split_infeed)
    cost_wait(&c, name, PHASE_SYNC, pod_sync_cycles(pod, pod->ipus));
  return c;
}

/* Only the first of several transfers has a latency. The others' addresses are known beforehand. */
static Cost streamed(const Price *p, const PricedStep *r) {
  Cost c = cost_streaming(&p->machine.pod, r->bytes);
  if (r->follows && c.cycles[PHASE_STREAM] > 0)
    cost_wait(&c, c.steps[0].name, PHASE_STREAM,
              -(double)p->machine.pod.target.host_latency_cycles);
  return c;
}

/* A step without a node sums gradients. An all-reduce is a reduce-scatter and an all-gather;
 * bytes are a replica's input. */
static Cost cost_of_collective(const Price *p, const PricedStep *r) {
  Collective kind = r->node ? r->node->op->collective : COLLECTIVE_SUM;
  const Pod *pod = &p->machine.pod;
  if (kind == COLLECTIVE_GATHER)
    return cost_reduce_scatter(pod, p->replicas, p->shards, r->bytes * p->replicas);
  bool half = kind == COLLECTIVE_SCATTER || kind == COLLECTIVE_EXCHANGE;
  return half ? cost_reduce_scatter(pod, p->replicas, p->shards, r->bytes)
              : cost_all_reduce(pod, p->replicas, p->shards, r->bytes);
}

static Cost cost_of_move(const Price *p, const PricedStep *r) {
  const Pod *pod = &p->machine.pod;
  int board = (int)pod->target.ipus_per_board, own = pod->ipus / pod_hosts(pod);
  int on_board = int_min(board, own);
  int sharing = on_board / p->shards; /* replicas that draw from the same network card */
  switch (r->kind) {
    case PRICED_LINK:
      return cost_link(pod, r->from_ipu, r->ipu, r->bytes);
    case PRICED_HOST_IN:
    case PRICED_HOST_OUT:
      return host_move(p, r, cost_host(pod, r->bytes, sharing));
    case PRICED_STREAMING:
      return streamed(p, r);
    case PRICED_COLLECTIVE:
      return cost_of_collective(p, r);
    default:
      return cost_free();
  }
}

static bool price_moves(Price *p) {
  for (int i = 0; i < p->step_count; i++) {
    PricedStep *r = &p->step[i];
    if (r->cost || priced_is_block(r->kind)) continue;
    Cost c = cost_of_move(p, r);
    if (!(r->cost = keep(p, &c))) return false;
  }
  return true;
}

/* ---- branches ---- */

static double cycles_between(const Price *p, int begin, int end) {
  double sum = 0;
  for (int i = begin; i < end; i++) sum += p->step[i].times * priced_cycles(&p->step[i]);
  return sum;
}

/* Of two branches the longer one counts. Of equally long ones it is the one with more work. Inner
 * branches are decided first. A pipeline's time isn't known yet, so its work on one IPU stands for
 * it. */
static void choose_branches(Price *p) {
  for (int at = p->step_count - 1; at >= 0; at--) {
    PricedStep *r = &p->step[at];
    if (r->kind == PRICED_PIPELINE && r->times > 0)
      r->elapsed = cycles_between(p, at + 1, r->end) / r->times;
    if (r->kind != PRICED_BRANCH) continue;
    double one = timeline_between(p, at + 1, r->middle),
           other = timeline_between(p, r->middle, r->end);
    bool first = one > other || (one == other && cycles_between(p, at + 1, r->middle) >=
                                                     cycles_between(p, r->middle, r->end));
    for (int i = first ? r->middle : at + 1; i < (first ? r->end : r->middle); i++)
      p->step[i].times = 0;
  }
}

/* Elements of infeeds in a run: each component has a step, one after another. */
static void count_elements(Price *p) {
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
    if (r->kind == PRICED_HOST_IN && r->node && node_is_dequeue(r->node) &&
        (i == 0 || r[-1].node != r->node))
      p->elements += r->times;
  }
}

/* ---- pipelines ---- */

typedef struct Work {
  double forward[PHASE_COUNT], backward[PHASE_COUNT];
} Work;

typedef struct Rhythm {
  Price *price;
  const PricedStep *block;
  const PipelinePlan *plan;
  Work *work;                      /* [stages], of one micro-batch */
  double links, host_in, host_out; /* of a time step */
  double elapsed;
  double waited;    /* for the host, of that */
  double *ipu_step; /* [shards] cycles of the present time step; asynchronous: when it is free */
  bool keeps_entries;
  /* asynchronous: */
  bool asynchronous;
  double *arrival;  /* [programs] cycles that its operands take over the links */
  double *done;     /* [micro-batches] when the last of its passes was done */
  double host_free; /* when the host has moved its elements, if it moves meanwhile */
} Rhythm;

enum { MAX_ENTRIES = 200000 };

static double sum(const double *cycles) {
  double s = 0;
  for (int i = 0; i < PHASE_COUNT; i++) s += cycles[i];
  return s;
}

static int stage_of(const Rhythm *t, const PricedStep *r) {
  return r->stage >= 0 && r->stage < t->plan->stages ? r->stage : 0;
}

static void add_arrival(Rhythm *t, const PricedStep *r, double times) {
  Cost c = cost_link(&t->price->machine.pod, r->from_ipu, r->ipu, r->bytes * times);
  bool backward = r->backward && t->plan->training;
  t->arrival[plan_program(t->plan, stage_of(t, r), backward)] += cost_cycles(&c);
}

/* The cost of a micro-batch in each stage, and of the moves at the end of a time step. */
static bool gather_work(Rhythm *t) {
  Price *p = t->price;
  int begin = (int)(t->block - p->step), count = 0;
  Transfer *transfers =
      arena_alloc(p->arena, (size_t)(t->block->end - begin + 1) * sizeof *transfers);
  if (!transfers) return false;
  double runs = t->block->times * t->block->repeats;
  for (int i = begin + 1; i < t->block->end; i++) {
    const PricedStep *r = &p->step[i];
    double times = runs > 0 ? r->times / runs : 0;
    if (r->kind == PRICED_LINK)
      transfers[count++] = (Transfer){r->from_ipu, r->ipu, r->bytes * times};
    if (r->kind == PRICED_LINK && t->asynchronous) add_arrival(t, r, times);
    if (r->kind == PRICED_HOST_IN) t->host_in += times * priced_cycles(r);
    if (r->kind == PRICED_HOST_OUT) t->host_out += times * priced_cycles(r);
    if (r->kind != PRICED_OP && r->kind != PRICED_STREAMING && r->kind != PRICED_COLLECTIVE)
      continue;
    Work *w = &t->work[stage_of(t, r)];
    double *to = r->backward && t->plan->training ? w->backward : w->forward;
    for (int k = 0; k < PHASE_COUNT; k++) to[k] += times * r->cost->cycles[k];
  }
  if (!count) return true;
  Cost c = cost_links(&p->machine.pod, transfers, count);
  t->links = cost_cycles(&c);
  return true;
}

static double cycles_of(const Rhythm *t, int stage, bool backward) {
  return sum(backward ? t->work[stage].backward : t->work[stage].forward);
}

static bool add_entry(Rhythm *t, int step, int stage, int micro, bool backward, double begin) {
  Price *p = t->price;
  if (t->keeps_entries && p->entry_count < MAX_ENTRIES) {
    if (!arena_reserve(p->arena, &p->entry, &p->entry_capacity, p->entry_count + 1,
                       sizeof *p->entry))
      return false;
    p->entry[p->entry_count++] = (PricedEntry){.step = step,
                                               .ipu = t->plan->ipu_of[stage],
                                               .stage = stage,
                                               .micro_batch = micro,
                                               .backward = backward,
                                               .begin = begin,
                                               .cycles = cycles_of(t, stage, backward)};
  }
  return true;
}

/* One pass of a micro-batch, on the IPU of each of its stages. It begins when its IPU is free, the
 * previous pass is done, and the results of that have arrived. With I/O tiles the host moves data
 * beside computing. Otherwise it does so before the first stage's pass and after the last one's. */
static bool run_entry(Rhythm *t, int row, TimetableEntry x) {
  const PipelinePlan *plan = t->plan;
  int position = plan_position_of_program(plan, x.program);
  bool backward = x.program >= plan->positions,
       meanwhile = price_overlaps(t->price, plan->ipu_of[0]);
  double in = x.program == 0 ? t->host_in : 0,
         out = x.program == plan->positions - 1 ? t->host_out : 0,
         there = x.program ? t->done[x.micro] + t->arrival[x.program] : 0, done = 0;
  if (in > 0 && meanwhile) there = t->host_free += in, in = 0;
  for (int s = 0; s < plan->stages; s++) {
    if (plan->position_of[s] != position) continue;
    double *free_at = &t->ipu_step[plan->ipu_of[s]], begin = fmax(there, *free_at) + in;
    if (!add_entry(t, row, s, x.micro, backward, begin)) return false;
    *free_at = begin + cycles_of(t, s, backward) + (meanwhile ? 0 : out);
    done = fmax(done, *free_at);
  }
  if (out > 0 && meanwhile) t->host_free = fmax(t->host_free, done) + out;
  if (!meanwhile) t->waited += in + out;
  t->done[x.micro] = done;
  t->elapsed = fmax(t->elapsed, fmax(done, t->host_free));
  return true;
}

static bool run_entries(Rhythm *t, const Timetable *table) {
  Price *p = t->price;
  Arena *arena = arena_new();
  t->done = arena ? arena_alloc(arena, (size_t)(table->micros + 1) * sizeof *t->done) : NULL;
  bool good = t->done != NULL;
  memset(t->ipu_step, 0, (size_t)p->shards * sizeof *t->ipu_step);
  t->elapsed = t->waited = t->host_free = 0;
  for (int row = 0; row < table->rows && good; row++)
    for (int i = table->row_begin[row]; i < table->row_begin[row + 1] && good; i++)
      good = run_entry(t, row, table->entry[i]);
  arena_free(arena);
  return good;
}

/* A time step lasts as long as its slowest IPU. Then stages hand over results, and the host moves
 * data. */
static bool run_row(Rhythm *t, const Timetable *table, int row) {
  Price *p = t->price;
  const PipelinePlan *plan = t->plan;
  double host = 0, max = 0;
  memset(t->ipu_step, 0, (size_t)p->shards * sizeof *t->ipu_step);
  for (int i = table->row_begin[row]; i < table->row_begin[row + 1]; i++) {
    TimetableEntry x = table->entry[i];
    int position = plan_position_of_program(plan, x.program);
    bool backward = x.program >= plan->positions;
    for (int s = 0; s < plan->stages; s++) {
      if (plan->position_of[s] != position) continue;
      double *spent = &t->ipu_step[plan->ipu_of[s]];
      if (!add_entry(t, row, s, x.micro, backward, t->elapsed + *spent)) return false;
      *spent += cycles_of(t, s, backward);
    }
    if (x.program == 0) host += t->host_in;
    if (x.program == plan->positions - 1) host += t->host_out;
  }
  for (int i = 0; i < p->shards; i++) max = fmax(max, t->ipu_step[i]);
  double waited = price_overlaps(p, plan->ipu_of[0]) ? fmax(0, host - max) : host,
         cycles = max + waited + t->links;
  t->elapsed += cycles;
  t->waited += waited;
  return true;
}

static void charge_ipus(Rhythm *t, double steps) {
  Price *p = t->price;
  double n = t->block->repeats, runs = t->block->times;
  for (int s = 0; s < t->plan->stages; s++) {
    IpuPrice *ipu = &p->ipu[t->plan->ipu_of[s]];
    for (int k = 0; k < PHASE_COUNT; k++)
      ipu->cycles[k] += runs * n * (t->work[s].forward[k] + t->work[s].backward[k]);
  }
  /* a pass that waits for its operands waits in sync */
  double links = t->asynchronous ? 0 : t->links;
  for (int i = 0; i < p->shards; i++) p->ipu[i].cycles[PHASE_STREAM] += runs * steps * links;
  /* moves beside computing are not charged */
  double moved = n * (t->host_in + t->host_out), share = moved > 0 ? t->waited / moved : 0;
  p->ipu[t->plan->ipu_of[0]].cycles[PHASE_STREAM] += runs * n * t->host_in * share;
  p->ipu[t->plan->ipu_of[t->plan->stages - 1]].cycles[PHASE_STREAM] +=
      runs * n * t->host_out * share;
}

static void note_stages(Rhythm *t, int rows) {
  Price *p = t->price;
  p->pipeline_step = (int)(t->block - p->step);
  p->time_steps = rows;
  p->trains = t->plan->training;
  for (int s = 0; s < t->plan->stages && s < p->stage_count; s++) {
    p->stage[s].ipu = t->plan->ipu_of[s];
    p->stage[s].forward = sum(t->work[s].forward);
    p->stage[s].backward = sum(t->work[s].backward);
  }
}

/* Adds the time steps of so many micro-batches. */
static Status run_table(Error *e, Rhythm *t, int micros, double *rows) {
  Timetable *table = timetable_new(e, t->plan, micros);
  if (!table) return e->status;
  bool good = !t->asynchronous || run_entries(t, table);
  for (int row = 0; row < table->rows && good && !t->asynchronous; row++)
    good = run_row(t, table, row);
  *rows += table->rows;
  timetable_free(table);
  return good ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", t->price->name);
}

/* Of more micro-batches than this the time table isn't made. */
static double max_counted(const Rhythm *t) {
  enum { MANY = 1 << 15 };
  int overlap = plan_overlap(t->plan);
  return t->plan->micros ? t->block->repeats : (double)overlap * (MANY / overlap + 1);
}

/* The timetable is periodic once the pipeline is full. So the other steps take as long as the
 * second half of the counted ones. */
static Status extrapolate(Error *e, Rhythm *t, double counted, double *rows) {
  Rhythm half = *t;
  int overlap = plan_overlap(t->plan);
  double some = overlap * floor(counted / overlap / 2), half_rows = 0;
  half.elapsed = half.waited = 0;
  half.keeps_entries = false;
  if (run_table(e, &half, (int)some, &half_rows) != OK) return e->status;
  double more = (t->block->repeats - counted) / (counted - some);
  t->elapsed += more * (t->elapsed - half.elapsed);
  t->waited += more * (t->waited - half.waited);
  *rows += more * (*rows - half_rows);
  return OK;
}

static Status time_pipeline(Error *e, Price *p, int block) {
  Rhythm t = {.price = p,
              .block = &p->step[block],
              .plan = p->step[block].plan,
              .keeps_entries = p->pipeline_step < 0};
  t.work = arena_alloc(p->arena, (size_t)(t.plan->stages + 1) * sizeof *t.work);
  t.ipu_step = arena_alloc(p->arena, (size_t)(p->shards + 1) * sizeof *t.ipu_step);
  t.asynchronous = p->machine.dependencies;
  t.arrival = arena_alloc(p->arena, (size_t)(plan_programs(t.plan) + 1) * sizeof *t.arrival);
  if (!t.work || !t.ipu_step || !t.arrival || !gather_work(&t))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", p->name);
  double rows = 0, counted = fmin(t.block->repeats, max_counted(&t));
  if (run_table(e, &t, (int)counted, &rows) != OK) return e->status;
  if (counted < t.block->repeats && extrapolate(e, &t, counted, &rows) != OK) return e->status;
  if (t.keeps_entries) note_stages(&t, (int)fmin(rows, INT_MAX));
  p->step[block].elapsed = t.elapsed;
  charge_ipus(&t, rows);
  return OK;
}

/* ---- all of it ---- */

static void charge(Price *p, const PricedStep *r) {
  IpuPrice *ipu = &p->ipu[price_ipu_of(p, r)];
  for (int k = 0; k < PHASE_COUNT; k++) ipu->cycles[k] += r->times * r->cost->cycles[k];
}

static void add_totals(Price *p) {
  for (int i = 0; i < p->step_count; i++) {
    const PricedStep *r = &p->step[i];
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

Status price_time(Error *e, Price *p) {
  p->pipeline_step = -1;
  if (!price_merge(p) || !add_collectives(p) || !add_call(p) || !price_moves(p))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", p->name);
  choose_branches(p);
  count_elements(p);
  if (!price_io_tiles(p) || !price_overlap(p))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory while pricing '%s'", p->name);
  for (int i = 0; i < p->step_count;) {
    const PricedStep *r = &p->step[i];
    if (r->kind == PRICED_PIPELINE && r->times > 0) {
      if (time_pipeline(e, p, i) != OK) return e->status;
      i = p->step[i].end;
      continue;
    }
    if (r->cost) charge(p, r);
    i++;
  }
  p->total = timeline_cycles(p);
  add_totals(p);
  return OK;
}
