/* One memory plan: buffers whose lives don't meet may share bytes. Larger buffers are placed first, each at the lowest
 * offset that is free through its life; beyond a few thousand buffers, in order of birth, which stays fast. */
#include <stdlib.h>
#include <string.h>

#include "program/step.h"

enum { ALIGNMENT = 64, SMALL_PLAN = 3000 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int by_size(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : (x > y) - (x < y);
}

static int by_birth(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : by_size(a, b);
}

static int by_offset(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Lanes run side by side: what is live when is known only within one. */
bool buffers_meet(const Buffer *a, const Buffer *b) {
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

static bool is_planned(const Buffer *b, bool remote) { return b->kind == BUFFER_ARENA && b->first >= 0 && b->remote == remote; }

size_t plan_memory(Buffer *buffers, int count, bool remote) {
  Buffer **order = malloc((size_t)(count + 1) * sizeof *order), **placed = malloc((size_t)(count + 1) * sizeof *placed);
  Buffer **near = malloc((size_t)(count + 1) * sizeof *near);
  size_t total = 0;
  int n = 0, done = 0;
  if (!order || !placed || !near) {
    free(order), free(placed), free(near);
    return SIZE_MAX;
  }
  for (int i = 0; i < count; i++)
    if (is_planned(&buffers[i], remote)) order[n++] = &buffers[i];
  bool timely = n > SMALL_PLAN;
  qsort(order, (size_t)n, sizeof *order, timely ? by_birth : by_size);
  for (int i = 0; i < n; i++) {
    int near_count = 0, kept = 0;
    for (int k = 0; k < done; k++) {
      if (buffers_meet(placed[k], order[i])) near[near_count++] = placed[k];
      if (!timely || placed[k]->lane >= 0 || placed[k]->last >= order[i]->first) placed[kept++] = placed[k];
    }
    done = kept;
    qsort(near, (size_t)near_count, sizeof *near, by_offset);
    order[i]->offset = lowest_gap(near, near_count, order[i]);
    size_t end = (size_t)order[i]->offset + aligned(order[i]->bytes);
    if (end > total) total = end;
    placed[done++] = order[i];
  }
  free(order), free(placed), free(near);
  return total;
}

static int by_death(const void *a, const void *b) {
  const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
  return (x->last > y->last) - (x->last < y->last);
}

size_t most_live_bytes(Buffer *buffers, int count) {
  Buffer **born = malloc((size_t)(count + 1) * sizeof *born), **dying = malloc((size_t)(count + 1) * sizeof *dying);
  size_t live = 0, most = 0;
  int n = 0;
  for (int i = 0; i < count && born && dying; i++)
    if (is_planned(&buffers[i], false)) born[n] = dying[n] = &buffers[i], n++;
  if (n) qsort(born, (size_t)n, sizeof *born, by_birth), qsort(dying, (size_t)n, sizeof *dying, by_death);
  for (int i = 0, dead = 0; i < n; i++) {
    while (dying[dead]->last < born[i]->first) live -= aligned(dying[dead++]->bytes);
    live += aligned(born[i]->bytes);
    if (live > most) most = live;
  }
  free(born), free(dying);
  return most;
}
