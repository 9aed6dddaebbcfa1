#include "machine/timeline.h"

#include <math.h>
#include <stdlib.h>

static void add(Timeline *t, Event e) {
  if (t->failed || t->room <= 0) return;
  if (!array_reserve(&t->event, &t->capacity, t->count + 1, sizeof *t->event)) {
    t->failed = true;
    return;
  }
  t->event[t->count++] = e;
  t->room--;
}

static double walk(Timeline *t, const Price *p, int begin, int end, double at, bool draws);

static double walk_loop(Timeline *t, const Price *p, int i, double at, bool draws) {
  const Row *r = &p->row[i];
  double each = walk(t, p, i + 1, r->end, at, false), shown = r->repeats, rows = r->end - i;
  if (shown * rows > t->room) shown = fmin(shown, 2);
  for (double k = 0; draws && k < shown; k++) walk(t, p, i + 1, r->end, at + k * each, true);
  if (draws && shown < r->repeats)
    add(t, (Event){.begin = at + shown * each, .cycles = (r->repeats - shown) * each, .row = i, .ipu = r->ipu, .slot = -1,
                   .repeats = r->repeats - shown});
  return r->repeats * each;
}

static double walk_pipeline(Timeline *t, const Price *p, int i, double at, bool draws) {
  for (int k = 0; draws && i == p->slot_row && k < p->slot_count; k++) {
    const Slot *s = &p->slot[k];
    add(t, (Event){.begin = at + s->begin, .cycles = s->cycles, .row = i, .ipu = s->ipu, .slot = k});
  }
  return p->row[i].elapsed;
}

/* Rows of one kind that IPUs do at the same time. */
static int beside(const Price *p, int i, int end) {
  RowKind kind = p->row[i].kind;
  if (kind != ROW_COLLECTIVE && kind != ROW_STREAMING) return i + 1;
  while (i < end && p->row[i].kind == kind) i++;
  return i;
}

static double walk_rows(Timeline *t, const Price *p, int begin, int end, double at, bool draws) {
  double longest = 0;
  for (int i = begin; i < end; i++) {
    const Row *r = &p->row[i];
    double times = begin + 1 < end ? r->times : 1, cycles = row_cycles(r) * times;
    if (draws && cycles > 0) add(t, (Event){.begin = at, .cycles = cycles, .row = i, .ipu = r->ipu, .slot = -1});
    longest = fmax(longest, cycles);
  }
  return longest;
}

/* Rows begin … end-1 once; gives the cycles. */
static double walk(Timeline *t, const Price *p, int begin, int end, double at, bool draws) {
  double start = at;
  for (int i = begin; i < end;) {
    const Row *r = &p->row[i];
    int next = row_is_block(r->kind) ? r->end : beside(p, i, end);
    if (r->kind == ROW_LOOP) at += walk_loop(t, p, i, at, draws);
    else if (r->kind == ROW_PIPELINE) at += walk_pipeline(t, p, i, at, draws);
    else if (row_is_block(r->kind)) at += walk(t, p, i + 1, r->end, at, draws);
    else if (r->times > 0) at += walk_rows(t, p, i, next, at, draws);
    i = next;
  }
  return at - start;
}

Timeline timeline_of(const Price *p, int most) {
  Timeline t = {.room = most};
  walk(&t, p, 0, p->row_count, 0, true);
  return t;
}
