/* One memory plan: buffers whose lives don't overlap may share bytes. Each gets the lowest offset
 * that is free throughout its life. Two orders are tried, and the smaller plan wins: larger buffers
 * first, or first the ones live at the fullest step. Beyond a few thousand buffers the order of
 * birth is taken, which is fast. */
#include "program/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "program/program.h"

enum { ALIGNMENT = 64, SMALL_PLAN = 3000 };

static size_t aligned(size_t bytes) { return size_round_up(bytes, ALIGNMENT); }

static int by_size(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : (x > y) - (x < y);
}

static int by_birth(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : by_size(a, b);
}

/* Lanes run side by side. So lives can be compared only within one lane. */
bool buffers_overlap(const Buffer *a, const Buffer *b) {
  if (a->lane >= 0 && b->lane >= 0 && a->lane != b->lane) return true;
  return a->first <= b->last && b->first <= a->last;
}

/* The lowest gap for b among neighbours, which are sorted by offset. */
static int64_t lowest_gap(Buffer *const *neighbour, int count, const Buffer *b) {
  int64_t at = 0, size = (int64_t)aligned(b->bytes);
  for (int i = 0; i < count; i++) {
    if (neighbour[i]->offset >= at + size) break;
    int64_t end = neighbour[i]->offset + (int64_t)aligned(neighbour[i]->bytes);
    if (end > at) at = end;
  }
  return at;
}

static bool is_planned(const Buffer *b, bool remote) {
  return b->kind == BUFFER_ARENA && b->first >= 0 && b->remote == remote;
}

/* Keeps the placed buffers sorted by offset; `near` has room for as many. Beyond a few thousand,
 * dead buffers are dropped. */
static void fit_among_placed(Buffer *const *order, int n, bool timely, Buffer **placed,
                             Buffer **near) {
  for (int i = 0, done = 0; i < n; i++) {
    int near_count = 0, kept = 0;
    for (int k = 0; k < done; k++) {
      if (buffers_overlap(placed[k], order[i])) near[near_count++] = placed[k];
      if (!timely || placed[k]->lane >= 0 || placed[k]->last >= order[i]->first)
        placed[kept++] = placed[k];
    }
    order[i]->offset = lowest_gap(near, near_count, order[i]);
    int at = kept;
    for (; at > 0 && placed[at - 1]->offset > order[i]->offset; at--) placed[at] = placed[at - 1];
    placed[at] = order[i];
    done = kept + 1;
  }
}

/* ---- in order of birth: free memory is a list of gaps ---- */

typedef struct Gap {
  int64_t begin, end;
} Gap;

typedef struct Gaps {
  Gap *gap; /* rising, never touching; the last has no end */
  int count;
} Gaps;

static void remove_gap(Gaps *g, int i) {
  g->count--;
  memmove(&g->gap[i], &g->gap[i + 1], (size_t)(g->count - i) * sizeof *g->gap);
}

static int64_t take_lowest(Gaps *g, int64_t size) {
  int i = 0;
  while (g->gap[i].end - g->gap[i].begin < size) i++;
  int64_t at = g->gap[i].begin;
  g->gap[i].begin += size;
  if (g->gap[i].begin == g->gap[i].end) remove_gap(g, i);
  return at;
}

static void give_back(Gaps *g, int64_t begin, int64_t end) {
  int above = 0, high = g->count;
  while (above < high) {
    int middle = above + (high - above) / 2;
    if (g->gap[middle].begin < end) above = middle + 1;
    else high = middle;
  }
  bool joins_below = above > 0 && g->gap[above - 1].end == begin,
       joins_above = g->gap[above].begin == end;
  if (joins_below && joins_above) {
    g->gap[above - 1].end = g->gap[above].end;
    remove_gap(g, above);
  } else if (joins_below) {
    g->gap[above - 1].end = end;
  } else if (joins_above) {
    g->gap[above].begin = begin;
  } else {
    memmove(&g->gap[above + 1], &g->gap[above], (size_t)(g->count++ - above) * sizeof *g->gap);
    g->gap[above] = (Gap){begin, end};
  }
}

/* Without lanes everything that is live when a buffer is born is its neighbour. dying: the same
 * buffers by_death. */
static void fit_into_gaps(Buffer *const *order, Buffer *const *dying, int n, Gap *room) {
  Gaps g = {room, 1};
  room[0] = (Gap){0, INT64_MAX};
  for (int i = 0, dead = 0; i < n; i++) {
    for (; dying[dead]->last < order[i]->first; dead++)
      if (dying[dead]->bytes)
        give_back(&g, dying[dead]->offset,
                  dying[dead]->offset + (int64_t)aligned(dying[dead]->bytes));
    order[i]->offset = order[i]->bytes ? take_lowest(&g, (int64_t)aligned(order[i]->bytes)) : 0;
  }
}

static int by_death(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  return (x->last > y->last) - (x->last < y->last);
}

/* ---- the lower bound of all plans ---- */

typedef struct Lives {
  Buffer **born, **dying; /* the same buffers by_birth and by_death */
  int count;
} Lives;

enum { ALL_LANES = -1 };

/* Of the buffers of one lane, or of all; *peak: where that is. */
static size_t max_at_once(const Lives *l, int lane, int *peak) {
  size_t live = 0, max = 0;
  for (int i = 0, dead = 0; i < l->count; i++) {
    if (lane != ALL_LANES && l->born[i]->lane != lane) continue;
    for (; l->dying[dead]->last < l->born[i]->first; dead++)
      if (lane == ALL_LANES || l->dying[dead]->lane == lane) live -= aligned(l->dying[dead]->bytes);
    live += aligned(l->born[i]->bytes);
    if (live > max) max = live, *peak = l->born[i]->first;
  }
  return max;
}

/* Lanes run side by side: each needs its own maximum, and shared buffers come on top. */
static size_t max_beside(const Lives *l) {
  int lanes = 0, begin = INT_MAX, end = -1, peak;
  size_t bytes = 0;
  for (int i = 0; i < l->count; i++) {
    const Buffer *b = l->born[i];
    if (b->lane < 0) continue;
    if (b->lane >= lanes) lanes = b->lane + 1;
    if (b->first < begin) begin = b->first;
    if (b->last > end) end = b->last;
  }
  for (int lane = 0; lane < lanes; lane++) bytes += max_at_once(l, lane, &peak);
  for (int i = 0; i < l->count && lanes; i++)
    if (l->born[i]->lane < 0 && l->born[i]->first <= begin && l->born[i]->last >= end)
      bytes += aligned(l->born[i]->bytes);
  return bytes;
}

static size_t min_bytes(const Lives *l, int *peak) {
  if (l->count) qsort(l->born, (size_t)l->count, sizeof *l->born, by_birth);
  if (l->count) qsort(l->dying, (size_t)l->count, sizeof *l->dying, by_death);
  size_t at_once = max_at_once(l, ALL_LANES, peak), beside = max_beside(l);
  return size_max(at_once, beside);
}

/* ---- small plans: the best of a few orders ---- */

enum { ORDERS = 3, SLACK_SHIFT = 6 };

static int by_life(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  int life_x = x->last - x->first, life_y = y->last - y->first;
  return life_x != life_y ? (life_x < life_y ? 1 : -1) : by_size(a, b);
}

/* Buffers that are live there come first, in the order that they have. */
static void put_first(Buffer **order, int n, int peak, Buffer **scratch) {
  int first = 0, later = 0;
  for (int i = 0; i < n; i++) {
    bool live = order[i]->first <= peak && order[i]->last >= peak;
    if (live) order[first++] = order[i];
    else scratch[later++] = order[i];
  }
  memcpy(order + first, scratch, (size_t)later * sizeof *order);
}

static size_t end_of_plan(Buffer *const *order, int n) {
  size_t total = 0;
  for (int i = 0; i < n; i++) {
    size_t end = (size_t)order[i]->offset + aligned(order[i]->bytes);
    if (end > total) total = end;
  }
  return total;
}

/* By size. If that leaves gaps, the buffers that are live at the fullest step come before the rest,
 * by size and by length of life. */
static void plan_small(Lives *l, Buffer **near, int64_t *best_offset, Buffer *base) {
  Buffer **order = l->born;
  int peak = -1, n = l->count;
  size_t min = min_bytes(l, &peak), best = SIZE_MAX;
  for (int k = 0; k < ORDERS && best > min + (min >> SLACK_SHIFT); k++) {
    qsort(order, (size_t)n, sizeof *order, k == 2 ? by_life : by_size);
    if (k > 0) put_first(order, n, peak, near);
    fit_among_placed(order, n, false, l->dying, near);
    size_t total = end_of_plan(order, n);
    for (int i = 0; i < n && total < best; i++) best_offset[order[i] - base] = order[i]->offset;
    if (total < best) best = total;
  }
  for (int i = 0; i < n; i++) order[i]->offset = best_offset[order[i] - base];
}

static void plan_large(Lives *l, bool lanes, void *scratch) {
  qsort(l->born, (size_t)l->count, sizeof *l->born, by_birth);
  if (lanes) {
    fit_among_placed(l->born, l->count, true, l->dying, scratch);
  } else {
    qsort(l->dying, (size_t)l->count, sizeof *l->dying, by_death);
    fit_into_gaps(l->born, l->dying, l->count, scratch);
  }
}

/* ---- the plan ---- */

/* False: out of memory. */
static bool collect(Lives *l, Buffer *buffers, int count, bool remote) {
  size_t room = (size_t)count + 2;
  *l = (Lives){malloc(room * sizeof *l->born), malloc(room * sizeof *l->dying), 0};
  for (int i = 0; i < count && l->born && l->dying; i++)
    if (is_planned(&buffers[i], remote))
      l->born[l->count] = l->dying[l->count] = &buffers[i], l->count++;
  return l->born && l->dying;
}

size_t plan_memory(Buffer *buffers, int count, bool remote) {
  Lives l;
  bool good = collect(&l, buffers, count, remote), lanes = false;
  void *scratch = malloc(((size_t)count + 2) * sizeof(Gap)); /* of gaps, or of neighbours */
  int64_t *offset = malloc(((size_t)count + 2) * sizeof *offset);
  size_t total = good && scratch && offset ? 0 : SIZE_MAX;
  for (int i = 0; i < l.count; i++) lanes = lanes || l.born[i]->lane >= 0;
  if (total == 0 && l.count > SMALL_PLAN) plan_large(&l, lanes, scratch);
  else if (total == 0 && l.count) plan_small(&l, scratch, offset, buffers);
  if (total == 0) total = end_of_plan(l.born, l.count);
  free(l.born), free(l.dying), free(scratch), free(offset);
  return total;
}

size_t max_live_bytes(Buffer *buffers, int count) {
  Lives l;
  int peak = -1;
  size_t min = collect(&l, buffers, count, false) ? min_bytes(&l, &peak) : 0;
  free(l.born), free(l.dying);
  return min;
}
