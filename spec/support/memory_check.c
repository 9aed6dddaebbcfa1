/* The memory plan against its definition, read naively. In the plan's order each buffer gets the
 * lowest offset that is free all its life. The order is by size, or with the buffers of the fullest
 * step first. In large plans it is by birth. */
#include <stdio.h>
#include <stdlib.h>

#include "program/memory.h"
#include "program/program.h"

enum { ALIGNMENT = 64, SMALL_PLAN = 3000, LARGEST = 6000 };

static int passed, failed;

static void expect(bool good, const char *what, int plan) {
  passed += good;
  failed += !good;
  if (!good) printf("FAIL plan %d: %s\n", plan, what);
}

static uint64_t state = 1;

static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static int64_t aligned(size_t bytes) {
  return (int64_t)((bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

typedef enum Order { BY_SIZE, FULLEST_BY_SIZE, FULLEST_BY_LIFE, BY_BIRTH } Order;
static int fullest; /* step of the plan being checked */

static bool is_live(const Buffer *b, int step) { return b->first <= step && b->last >= step; }

static bool goes_before(const Buffer *a, const Buffer *b, Order order) {
  bool at_fullest = order == FULLEST_BY_SIZE || order == FULLEST_BY_LIFE;
  if (at_fullest && is_live(a, fullest) != is_live(b, fullest)) return is_live(a, fullest);
  if (order == FULLEST_BY_LIFE && a->last - a->first != b->last - b->first)
    return a->last - a->first > b->last - b->first;
  if (order == BY_BIRTH && a->first != b->first) return a->first < b->first;
  if (a->bytes != b->bytes) return a->bytes > b->bytes;
  return a->first != b->first ? a->first < b->first : a < b;
}

static bool overlap(const Buffer *a, int64_t at, int64_t size, const Buffer *b) {
  return buffers_overlap(a, b) && at < b->offset + aligned(b->bytes) && b->offset < at + size;
}

/* 0 and the ends of what was placed before are the only offsets that can be the lowest. */
static int64_t lowest(const Buffer *b, const Buffer *buffers, int count, Order order) {
  int64_t best = INT64_MAX, size = aligned(b->bytes);
  for (int c = -1; c < count; c++) {
    const Buffer *below_it = c < 0 ? NULL : &buffers[c];
    if (below_it && (!buffers_overlap(b, below_it) || !goes_before(below_it, b, order))) continue;
    int64_t at = below_it ? below_it->offset + aligned(below_it->bytes) : 0;
    bool taken = at >= best;
    for (int k = 0; k < count && !taken; k++)
      taken = goes_before(&buffers[k], b, order) && overlap(b, at, size, &buffers[k]);
    if (!taken) best = at;
  }
  return best;
}

static void fill(Buffer *buffers, int count, int life, int lanes) {
  for (int i = 0; i < count; i++) {
    int first = below(count);
    buffers[i] = (Buffer){.kind = BUFFER_ARENA,
                          .bytes = below(8) ? (size_t)below(4000) : (size_t)below(200000),
                          .first = first,
                          .last = first + below(below(10) ? life : count),
                          .lane = lanes ? below(lanes + 1) - 1 : -1,
                          .copies = 1};
    if (!below(50)) buffers[i].bytes = 0;
  }
}

static int fullest_step(const Buffer *buffers, int count) {
  int64_t max = -1;
  int best = -1;
  for (int i = 0; i < count; i++) {
    int64_t live = 0;
    for (int k = 0; k < count; k++)
      if (is_live(&buffers[k], buffers[i].first)) live += aligned(buffers[k].bytes);
    if (live > max || (live == max && buffers[i].first < best)) max = live, best = buffers[i].first;
  }
  return best;
}

static bool is_low(const Buffer *buffers, int count, int samples, Order order) {
  bool low = true;
  for (int s = 0; s < samples && low; s++) {
    const Buffer *b = &buffers[samples < count ? below(count) : s % count];
    low = !b->bytes || b->offset == lowest(b, buffers, count, order);
  }
  return low;
}

static void check_plan(int plan, int count, int life, int lanes, int samples) {
  static Buffer buffers[LARGEST];
  fill(buffers, count, life, lanes);
  int64_t end = 0;
  size_t total = plan_memory(buffers, count, false);
  bool apart = true, low;
  for (int i = 0; i < count; i++) {
    if (buffers[i].bytes && buffers[i].offset + aligned(buffers[i].bytes) > end)
      end = buffers[i].offset + aligned(buffers[i].bytes);
    for (int k = 0; k < i && apart; k++)
      apart = !overlap(&buffers[i], buffers[i].offset, aligned(buffers[i].bytes), &buffers[k]);
  }
  bool timely = count > SMALL_PLAN;
  fullest = timely ? -1 : fullest_step(buffers, count);
  low = is_low(buffers, count, samples, timely ? BY_BIRTH : BY_SIZE);
  for (Order order = FULLEST_BY_SIZE; order <= FULLEST_BY_LIFE && !timely && !low; order++)
    low = is_low(buffers, count, samples, order);
  expect(apart, "buffers that live at once share bytes", plan);
  expect(low, "a buffer is not at the lowest offset that is free", plan);
  expect(total == (size_t)end, "the plan's size is not the end of its last buffer", plan);
  expect(total >= max_live_bytes(buffers, count), "the plan is smaller than what lives at once",
         plan);
}

int main(void) {
  for (int i = 0; i < 60; i++)
    check_plan(i, 2 + below(200), 1 + below(40), i % 3 ? 0 : 1 + below(4), 200);
  for (int i = 60; i < 64; i++)
    check_plan(i, SMALL_PLAN + 1 + below(LARGEST - SMALL_PLAN), 5 << (2 * (i - 60)),
               i == 63 ? 3 : 0, 60);
  check_plan(64, SMALL_PLAN, 20, 0, 60);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
