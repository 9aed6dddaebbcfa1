/* Each IPU has a clock of its own. Steps that join IPUs (a link, a collective, a block that
 * repeats) make their clocks agree. */
#include "machine/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "machine/priced.h"

typedef struct Clocks {
  double at[POD_IPUS_MAX];
  double begin; /* of the body */
  int first;    /* its block's step; -1: the program */
} Clocks;

static void add(Timeline *t, Event e) {
  if (t->failed) return;
  if (t->room <= 0) {
    if (!t->left_out++) t->cut = e;
    return;
  }
  if (!array_reserve(&t->event, &t->capacity, t->count + 1, sizeof *t->event)) {
    t->failed = true;
    return;
  }
  t->event[t->count++] = e;
  t->room--;
}

static void note_end(Timeline *t, int step, double at) {
  if (t->done) t->done[step] = at;
}

static double latest(const Price *p, const Clocks *c) {
  double max = 0;
  for (int i = 0; i < p->shards; i++) max = fmax(max, c->at[i]);
  return max;
}

static void set_all(const Price *p, Clocks *c, double at) {
  for (int i = 0; i < p->shards; i++) c->at[i] = at;
}

static void walk(Timeline *t, const Price *p, int begin, int end, Clocks *c, bool draws);

/* The body once, beginning at `at` on all IPUs; gives the cycles. */
static double walk_body(Timeline *t, const Price *p, int i, double at, bool draws) {
  Clocks inner = {.begin = at, .first = i};
  set_all(p, &inner, at);
  walk(t, p, i + 1, p->step[i].end, &inner, draws);
  return latest(p, &inner) - at;
}

static void walk_loop(Timeline *t, const Price *p, int i, Clocks *c, bool draws) {
  const PricedStep *r = &p->step[i];
  double at = latest(p, c), each = walk_body(t, p, i, at, false), shown = r->repeats,
         steps = r->end - i;
  if (shown * steps > t->room) shown = fmin(shown, 2);
  for (double k = 0; draws && k < shown; k++) walk_body(t, p, i, at + k * each, true);
  if (draws && shown < r->repeats)
    add(t, (Event){.begin = at + shown * each,
                   .cycles = (r->repeats - shown) * each,
                   .step = i,
                   .ipu = r->ipu,
                   .slot = -1,
                   .repeats = r->repeats - shown});
  set_all(p, c, at + r->repeats * each);
}

/* After the last pass its results are handed over, and micro-batches that aren't laid out run. */
static void draw_rest(Timeline *t, const Price *p, int i, double at, double passed) {
  const PricedStep *block = &p->step[i];
  int step = i;
  bool whole = p->entry_count && p->entry[p->entry_count - 1].step + 1 >= p->time_steps;
  for (int k = i + 1; whole && k < block->end; k++)
    if (p->step[k].kind == PRICED_HOST_OUT || (p->step[k].kind == PRICED_LINK && step == i))
      step = k;
  add(t, (Event){.begin = at + passed,
                 .cycles = block->elapsed - passed,
                 .step = step,
                 .ipu = price_ipu_of(p, &p->step[step]),
                 .slot = -1});
}

static void walk_pipeline(Timeline *t, const Price *p, int i, Clocks *c, bool draws) {
  double at = latest(p, c), passed = 0;
  for (int k = 0; draws && i == p->pipeline_step && k < p->entry_count; k++) {
    const PricedEntry *b = &p->entry[k];
    add(t,
        (Event){.begin = at + b->begin, .cycles = b->cycles, .step = i, .ipu = b->ipu, .slot = k});
    passed = fmax(passed, b->begin + b->cycles);
  }
  if (draws && p->step[i].elapsed - passed > 0.5) draw_rest(t, p, i, at, passed);
  set_all(p, c, at + p->step[i].elapsed);
}

/* Steps that the graph doesn't have stand outside of its loops: they say how often they happen. */
static double duration(const PricedStep *r) {
  return priced_cycles(r) * (r->parent < 0 && !r->node ? r->times : 1);
}

static int walk_collectives(Timeline *t, const Price *p, int i, int end, Clocks *c, bool draws) {
  double at = latest(p, c), longest = 0;
  for (; i < end && p->step[i].kind == PRICED_COLLECTIVE && !p->step[i].node; i++) {
    double cycles = duration(&p->step[i]);
    if (draws)
      add(t, (Event){.begin = at, .cycles = cycles, .step = i, .ipu = p->step[i].ipu, .slot = -1});
    longest = fmax(longest, cycles);
  }
  set_all(p, c, at + longest);
  return i;
}

/* A copy begins when its value exists and the receiving IPU reaches the copy. The sender waits for
 * that. If the sender already runs later steps, these are delayed by the time of the bytes, but not
 * by the latency. */
static double walk_link(Timeline *t, const Price *p, int i, Clocks *c, double cycles, bool draws) {
  const PricedStep *r = &p->step[i];
  int ipu = r->ipu < p->shards ? r->ipu : 0,
      from = r->from_ipu >= 0 && r->from_ipu < p->shards ? r->from_ipu : ipu;
  double ready = r->ready > c->first && t->done ? t->done[r->ready] : c->begin,
         begin = fmax(c->at[ipu], ready);
  c->at[ipu] = begin + cycles;
  if (c->at[from] <= begin) {
    c->at[from] = begin + cycles;
  } else {
    Cost latency = cost_link(&p->machine.pod, from, ipu, 1);
    double put_off = fmax(0, cycles - cost_cycles(&latency));
    if (draws && put_off > 0)
      add(t, (Event){.begin = c->at[from], .cycles = put_off, .step = i, .ipu = from, .slot = -1});
    c->at[from] += put_off;
  }
  return begin;
}

/* Arguments come and results go one after another: one host gives and takes them. */
static double walk_argument(const Price *p, int i, Clocks *c, double cycles) {
  const PricedStep *r = &p->step[i];
  int ipu = r->ipu < p->shards ? r->ipu : 0;
  double begin = c->at[ipu];
  for (int k = i - 1; k >= 0 && p->step[k].kind == r->kind && !p->step[k].node; k--)
    begin = fmax(begin, c->at[price_ipu_of(p, &p->step[k])]);
  c->at[ipu] = begin + cycles;
  return begin;
}

static void walk_step(Timeline *t, const Price *p, int i, Clocks *c, bool draws) {
  const PricedStep *r = &p->step[i];
  int ipu = r->ipu < p->shards ? r->ipu : 0;
  double begin = c->at[ipu], cycles = duration(r);
  bool host = (r->kind == PRICED_HOST_IN || r->kind == PRICED_HOST_OUT) && !r->node;
  if (r->kind == PRICED_LINK) begin = walk_link(t, p, i, c, cycles, draws);
  else if (host && r->bytes > 0) begin = walk_argument(p, i, c, cycles);
  else if (host) begin = latest(p, c), set_all(p, c, begin + cycles); /* the call: of all IPUs */
  else c->at[ipu] = begin + cycles;
  if (draws && cycles > 0)
    add(t, (Event){.begin = begin, .cycles = cycles, .step = i, .ipu = ipu, .slot = -1});
  note_end(t, i, begin + cycles);
}

static void walk(Timeline *t, const Price *p, int begin, int end, Clocks *c, bool draws) {
  for (int i = begin; i < end;) {
    const PricedStep *r = &p->step[i];
    int next = priced_is_block(r->kind) ? r->end : i + 1;
    if (priced_is_block(r->kind)) note_end(t, i, latest(p, c)); /* its arguments are there */
    if (!(r->times > 0)) { /* of a branch that isn't taken, a loop of no round */
    } else if (r->kind == PRICED_LOOP) walk_loop(t, p, i, c, draws);
    else if (r->kind == PRICED_PIPELINE) walk_pipeline(t, p, i, c, draws);
    else if (priced_is_block(r->kind)) walk(t, p, i + 1, r->end, c, draws);
    else if (r->kind == PRICED_COLLECTIVE && !r->node)
      next = walk_collectives(t, p, i, end, c, draws);
    else walk_step(t, p, i, c, draws);
    for (int k = i; k < next && priced_is_block(r->kind); k++) note_end(t, k, latest(p, c));
    i = next;
  }
}

Timeline timeline_of(const Price *p, int max) {
  Timeline t = {.room = max, .done = calloc((size_t)p->step_count + 1, sizeof *t.done)};
  Clocks c = {.first = -1};
  t.failed = !t.done;
  set_all(p, &c, 0);
  walk(&t, p, 0, p->step_count, &c, true);
  if (t.left_out) { /* one event for the rest */
    Event rest = {.begin = t.cut.begin,
                  .cycles = fmax(0, latest(p, &c) - t.cut.begin),
                  .step = t.cut.step,
                  .ipu = t.cut.ipu,
                  .slot = -1,
                  .repeats = t.left_out};
    t.room = 1;
    add(&t, rest);
  }
  free(t.done);
  t.done = NULL;
  return t;
}

double timeline_between(const Price *p, int begin, int end) {
  Timeline t = {.done = calloc((size_t)p->step_count + 1, sizeof *t.done)};
  Clocks c = {.first = begin - 1};
  set_all(p, &c, 0);
  walk(&t, p, begin, end, &c, false);
  free(t.done);
  return latest(p, &c);
}

double timeline_cycles(const Price *p) { return timeline_between(p, 0, p->step_count); }
