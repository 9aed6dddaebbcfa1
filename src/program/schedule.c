#include "program/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

static bool any_shared_ipu(const PipelinePlan *p) {
  for (int a = 0; a < p->positions; a++)
    for (int b = a + 1; b < p->positions; b++)
      if (plan_positions_share_ipu(p, a, b)) return true;
  return false;
}

/* ---- grouped: an IPU runs its backward and its forward program in the same row ---- */

static int grouped_overlap(const PipelinePlan *p) { return p->io_overlap ? 1 : plan_programs(p); }

/* Tiles of their own for moving data are two positions more to fill. */
static int grouped_min(const PipelinePlan *p) {
  return p->io_overlap ? plan_programs(p) + 2 : plan_programs(p);
}

static bool grouped_starts(const PipelinePlan *p, int micros, int *row) {
  (void)p;
  for (int m = 0; m < micros; m++) row[m] = m;
  return true;
}

/* ---- interleaved: they alternate ---- */

static Status interleaved_check(Error *e, const PipelinePlan *p) {
  if (p->training && any_shared_ipu(p))
    return fail(e, ERR_NOT_IMPLEMENTED,
                "schedule Interleaved can't train with several stages on one IPU");
  return OK;
}

/* Do the programs of two micro-batches, the second `shift` programs later, never need one IPU at
 * once? */
static bool shift_is_free(const PipelinePlan *p, int shift) {
  int count = plan_programs(p);
  for (int k = 0; k < count; k++) {
    int x = plan_position_of_program(p, k), y = plan_position_of_program(p, (k + shift) % count);
    if (x == y || plan_positions_share_ipu(p, x, y)) return false;
  }
  return true;
}

/* Chooses greedily the rotations of the list of programs that can run side by side. Micro-batch i
 * of a round begins offset[i] rows after the first. Returns their number, 0 without memory. */
static int find_rotations(const PipelinePlan *p, int *offset) {
  int count = plan_programs(p), found = 0;
  bool *is_free = malloc((size_t)count * sizeof *is_free);
  if (!is_free) return 0;
  for (int shift = 0; shift < count; shift++) is_free[shift] = shift_is_free(p, shift);
  for (int r = 0; r < count; r++) {
    bool good = true;
    for (int i = 0; i < found && good; i++) good = is_free[r - offset[i]];
    if (good) offset[found++] = r;
  }
  free(is_free);
  return found;
}

static int interleaved_overlap(const PipelinePlan *p) {
  int *offset = malloc((size_t)plan_programs(p) * sizeof *offset);
  int found = offset ? find_rotations(p, offset) : 0;
  free(offset);
  return int_max(1, found);
}

static bool interleaved_starts(const PipelinePlan *p, int micros, int *row) {
  int programs = plan_programs(p);
  int *offset = malloc((size_t)programs * sizeof *offset);
  if (!offset) return false;
  int overlap = find_rotations(p, offset);
  for (int m = 0; m < micros && overlap; m++) row[m] = m / overlap * programs + offset[m % overlap];
  free(offset);
  return overlap > 0;
}

/* ---- sequential: one program at a time in the whole machine ---- */

static bool sequential_starts(const PipelinePlan *p, int micros, int *row) {
  for (int m = 0; m < micros; m++) row[m] = m * plan_programs(p);
  return true;
}

/* ---- 1F1B: forward passes until the pipeline is full, then backward and forward in turns. With
 * virtual stages an IPU has several positions and takes them in turns. ---- */

static Status one_f_one_b_check(Error *e, const PipelinePlan *p) {
  if (any_shared_ipu(p))
    return fail(
        e, ERR_VALUE,
        "schedule OneFOneB needs each stage on an IPU of its own; InterleavedVirtual takes several");
  return OK;
}

static Status virtual_check(Error *e, const PipelinePlan *p) {
  bool turns = p->positions % p->ipus == 0;
  for (int s = 0; s < p->stages && turns; s++)
    turns = p->stages == p->positions && p->ipu_of[s] == s % p->ipus;
  if (!turns)
    return fail(
        e, ERR_VALUE,
        "schedule InterleavedVirtual needs the stages on the IPUs in turns: 0, 1, … and again 0, 1, …");
  return OK;
}

static int virtual_overlap(const PipelinePlan *p) { return p->ipus; }

/* D IPUs in turn hold D positions each round: position v·D + d is on the d-th. In groups of D
 * micro-batches an IPU runs them through its first position, then its next; backward passes go
 * through the positions in reverse. One round of positions is plain 1F1B. */
static TimetableEntry nth_pass(const PipelinePlan *p, int turns, int d, int n, bool backward) {
  int rounds = p->positions / turns, group = turns * rounds;
  int round = n % group / turns, micro = n / group * turns + n % turns;
  if (backward) round = rounds - 1 - round;
  int position = round * turns + d;
  return (TimetableEntry){backward ? 2 * p->positions - 1 - position : position, micro};
}

/* Forward passes before the first backward one. */
static int warm_up(const PipelinePlan *p, int turns, int d) {
  int rounds = p->positions / turns;
  return rounds == 1 ? turns - 1 - d : 2 * (turns - 1 - d) + (rounds - 1) * turns;
}

static int fill_turns(const PipelinePlan *p, int turns, int d, int micros, TimetableEntry *order) {
  int passes = micros * (p->positions / turns), forward = 0, backward = 0, at = 0;
  int ahead = p->training ? warm_up(p, turns, d) : passes;
  while (forward < ahead && forward < passes) order[at++] = nth_pass(p, turns, d, forward++, false);
  while (p->training && backward < passes) {
    if (forward < passes) order[at++] = nth_pass(p, turns, d, forward++, false);
    order[at++] = nth_pass(p, turns, d, backward++, true);
  }
  return at;
}

static int one_f_one_b_order(const PipelinePlan *p, int ipu, int micros, TimetableEntry *order) {
  for (int s = 0; s < p->stages; s++)
    if (p->ipu_of[s] == ipu) return fill_turns(p, p->positions, p->position_of[s], micros, order);
  return 0;
}

static int virtual_order(const PipelinePlan *p, int ipu, int micros, TimetableEntry *order) {
  return fill_turns(p, p->ipus, ipu, micros, order);
}

/* ---- a schedule given as time steps ---- */

static int given_order(const PipelinePlan *p, int ipu, int micros, TimetableEntry *order) {
  (void)micros; /* the plan is for these */
  if (!p->order) return 0;
  int count = p->order_begin[ipu + 1] - p->order_begin[ipu];
  memcpy(order, p->order + p->order_begin[ipu], (size_t)count * sizeof *order);
  return count;
}

static const Schedule schedules[] = {
    {.name = "Grouped",
     .overlap = grouped_overlap,
     .min = grouped_min,
     .starts = grouped_starts,
     .recomputations = {RECOMPUTE_STAGE, RECOMPUTE_INTERLEAVED},
     .both_passes = true,
     .leaner = "Interleaved"},
    {.name = "Interleaved",
     .check = interleaved_check,
     .overlap = interleaved_overlap,
     .starts = interleaved_starts,
     .recomputations = {RECOMPUTE_STAGE}},
    {.name = "Sequential",
     .starts = sequential_starts,
     .recomputations = {RECOMPUTE_INTERLEAVED},
     .one_at_a_time = true,
     .recomputes_last = true},
    {.name = "OneFOneB",
     .check = one_f_one_b_check,
     .order = one_f_one_b_order,
     .recomputations = {RECOMPUTE_STAGE}},
    {.name = "InterleavedVirtual",
     .check = virtual_check,
     .overlap = virtual_overlap,
     .order = virtual_order,
     .recomputations = {RECOMPUTE_STAGE}},
    {.name = "Custom", .order = given_order, .recomputations = {RECOMPUTE_STAGE}, .given = true},
};
enum { SCHEDULE_COUNT = sizeof schedules / sizeof *schedules };

const Schedule *schedule_at(int index) {
  return index >= 0 && index < SCHEDULE_COUNT ? &schedules[index] : NULL;
}

const Schedule *schedule_find(const char *name) {
  for (int i = 0; name && i < SCHEDULE_COUNT; i++)
    if (!strcmp(name, schedules[i].name)) return &schedules[i];
  return NULL;
}
