/* Timetables from a schedule: from the row in which each micro-batch begins, or from the order of
 * each IPU's programs. */
#include "program/timetable.h"

#include <stdlib.h>
#include <string.h>

#include "program/schedule.h"

int plan_program(const PipelinePlan *p, int stage, bool backward) {
  int position = p->position_of[stage];
  return backward ? 2 * p->positions - 1 - position : position;
}

int plan_position_of_program(const PipelinePlan *p, int program) {
  return program < p->positions ? program : 2 * p->positions - 1 - program;
}

/* ---- the plan ---- */

static void destroy_plan(Object *o) {
  PipelinePlan *p = (PipelinePlan *)o;
  free(p->position_of);
  free(p->ipu_of);
  free(p->order);
  free(p->order_begin);
  free(p);
}

static int *copy_ints(const int *v, int n) {
  int *c = malloc((size_t)(n + 1) * sizeof *c);
  if (c) memcpy(c, v, (size_t)n * sizeof *c);
  return c;
}

/* The stages of a position stand side by side. */
static int first_stage(const PipelinePlan *p, int position) {
  int low = 0, high = p->stages;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (p->position_of[middle] < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool is_of_position(const PipelinePlan *p, int stage, int position) {
  return stage < p->stages && p->position_of[stage] == position;
}

static bool uses_ipu(const PipelinePlan *p, int position, int ipu) {
  for (int s = first_stage(p, position); is_of_position(p, s, position); s++)
    if (p->ipu_of[s] == ipu) return true;
  return false;
}

bool plan_positions_share_ipu(const PipelinePlan *p, int a, int b) {
  for (int s = first_stage(p, a); is_of_position(p, s, a); s++)
    if (uses_ipu(p, b, p->ipu_of[s])) return true;
  return false;
}

static bool is_concurrent(const PipelinePlan *p, int position) {
  int stages = 0;
  for (int s = 0; s < p->stages; s++) stages += p->position_of[s] == position;
  return stages > 1;
}

static Status check_stages(Error *e, const PipelinePlan *p) {
  int position = 0;
  for (int s = 0; s < p->stages; s++) {
    if (p->ipu_of[s] < 0) return fail(e, ERR_VALUE, "stage %d is on IPU %d", s, p->ipu_of[s]);
    if (p->position_of[s] != position && p->position_of[s] != position + 1)
      return fail(e, ERR_INTERNAL, "the positions of stages leave a gap");
    position = p->position_of[s];
    for (int other = 0; other < s; other++)
      if (p->position_of[other] == position && p->ipu_of[other] == p->ipu_of[s])
        return fail(e, ERR_VALUE, "two concurrent stages are on IPU %d", p->ipu_of[s]);
  }
  return p->schedule->check ? p->schedule->check(e, p) : OK;
}

PipelinePlan *pipeline_plan_new(Error *e, const Schedule *schedule, bool training, int stages,
                                const int *position_of, const int *ipu_of) {
  PipelinePlan *p = calloc(1, sizeof *p);
  if (p) {
    p->object = (Object){.references = 1, .kind = "pipeline plan", .destroy = destroy_plan};
    p->position_of = copy_ints(position_of, stages);
    p->ipu_of = copy_ints(ipu_of, stages);
  }
  if (!p || !p->position_of || !p->ipu_of) {
    if (p) destroy_plan(&p->object);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  p->schedule = schedule;
  p->training = training;
  p->stages = stages;
  for (int s = 0; s < stages; s++) {
    if (position_of[s] >= p->positions) p->positions = position_of[s] + 1;
    if (ipu_of[s] >= p->ipus) p->ipus = ipu_of[s] + 1;
  }
  if (check_stages(e, p) == OK) return p;
  destroy_plan(&p->object);
  return NULL;
}

/* ---- how many micro-batches overlap ---- */

int plan_overlap(const PipelinePlan *p) {
  if (p->micros) return p->micros;
  return p->schedule->overlap ? p->schedule->overlap(p) : 1;
}

int plan_min(const PipelinePlan *p) {
  return p->schedule->min ? p->schedule->min(p) : plan_overlap(p);
}

/* ---- tables ---- */

void timetable_free(Timetable *t) {
  if (!t) return;
  free(t->row_begin);
  free(t->entry);
  free(t);
}

/* row[program * micros + micro] → the table. */
static Timetable *from_rows(Error *e, const int *row, int programs, int micros) {
  Timetable *t = calloc(1, sizeof *t);
  size_t entries = (size_t)programs * (size_t)micros;
  int rows = 0;
  for (size_t i = 0; i < entries; i++)
    if (row[i] >= rows) rows = row[i] + 1;
  if (t) {
    t->row_begin = calloc((size_t)rows + 2, sizeof *t->row_begin);
    t->entry = malloc((entries + 1) * sizeof *t->entry);
  }
  if (!t || !t->row_begin || !t->entry) {
    timetable_free(t);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory");
    return NULL;
  }
  t->rows = rows;
  t->micros = micros;
  for (size_t i = 0; i < entries; i++) t->row_begin[row[i] + 2]++;
  for (int r = 0; r < rows; r++) t->row_begin[r + 2] += t->row_begin[r + 1];
  for (int k = programs - 1; k >= 0; k--)
    for (int m = 0; m < micros; m++) {
      int r = row[(size_t)k * (size_t)micros + (size_t)m];
      t->entry[t->row_begin[r + 1]++] = (TimetableEntry){k, m};
    }
  return t;
}

/* Every program follows the one before it row by row. */
static bool fill_from_starts(const PipelinePlan *p, int micros, int *row) {
  int programs = plan_programs(p);
  if (!p->schedule->starts(p, micros, row)) return false;
  for (int k = 1; k < programs; k++)
    for (int m = 0; m < micros; m++) row[(size_t)k * (size_t)micros + (size_t)m] = row[m] + k;
  return true;
}

/* Whether `next` is the next entry of each of its IPUs, and its inputs are made in rows before t.
 * at[d] is the position of IPU d in its list. */
static bool is_ready(const PipelinePlan *p, const TimetableEntry *order, const int *begin,
                     const int *at, TimetableEntry next, const int *before, int t) {
  if (before && (*before < 0 || *before >= t)) return false;
  int position = plan_position_of_program(p, next.program);
  for (int s = first_stage(p, position); is_of_position(p, s, position); s++) {
    int d = p->ipu_of[s];
    if (at[d] >= begin[d + 1] || order[at[d]].program != next.program ||
        order[at[d]].micro != next.micro)
      return false;
  }
  return true;
}

/* Every IPU runs its list in order. Each entry is in the first row after its inputs. Rows stay -1
 * if lists wait for one another for ever. With concurrent stages a program is in several lists. */
static bool run_lists(const PipelinePlan *p, const TimetableEntry *order, const int *begin,
                      int micros, int *row) {
  int *at = copy_ints(begin, p->ipus), *next = copy_ints(begin, p->ipus);
  bool moved = at && next;
  for (int t = 0; moved; t++) {
    moved = false;
    for (int d = 0; d < p->ipus; d++) {
      if (at[d] >= begin[d + 1]) continue;
      TimetableEntry s = order[at[d]];
      int *mine = &row[(size_t)s.program * (size_t)micros + (size_t)s.micro];
      if (!is_ready(p, order, begin, at, s, s.program ? mine - micros : NULL, t)) continue;
      *mine = t;
      next[d]++;
      moved = true;
    }
    memcpy(at, next, (size_t)p->ipus * sizeof *at);
  }
  bool good = at && next;
  free(at), free(next);
  return good;
}

static bool fill_from_orders(const PipelinePlan *p, int micros, int *row) {
  size_t max = (size_t)p->stages * (p->training ? 2 : 1) * (size_t)micros;
  TimetableEntry *order = malloc((max + 1) * sizeof *order);
  int *begin = calloc((size_t)p->ipus + 1, sizeof *begin);
  bool good = order && begin;
  for (int ipu = 0; ipu < p->ipus && good; ipu++)
    begin[ipu + 1] = begin[ipu] + p->schedule->order(p, ipu, micros, order + begin[ipu]);
  good = good && run_lists(p, order, begin, micros, row);
  free(order), free(begin);
  return good;
}

static Status check_count(Error *e, const PipelinePlan *p, int micros) {
  int overlap = plan_overlap(p);
  if (p->micros && micros != p->micros)
    return fail(e, ERR_FAILED_PRECONDITION,
                "this schedule is for %d micro-batches, but there are %d", p->micros, micros);
  if (micros < plan_min(p) && micros % overlap == 0)
    return fail(
        e, ERR_FAILED_PRECONDITION,
        "a pipeline of %d stage%s with tiles for moving data needs at least %d micro-batches, but there are %d",
        p->positions, plural(p->positions), plan_min(p), micros);
  if (micros < 1 || micros % overlap)
    return fail(
        e, ERR_FAILED_PRECONDITION,
        "the number of micro-batches of a pipeline (gradient_accumulation_count) must be a multiple of %d for schedule %s "
        "with %d stage%s, but it is %d",
        overlap, p->schedule->name, p->positions, plural(p->positions), micros);
  return OK;
}

Timetable *timetable_new(Error *e, const PipelinePlan *p, int micros) {
  if (check_count(e, p, micros) != OK) return NULL;
  int programs = plan_programs(p);
  size_t entries;
  int *row = size_mul((size_t)programs, (size_t)micros, &entries) && entries < INT32_MAX / 2
                 ? malloc((entries + 1) * sizeof *row)
                 : NULL;
  for (size_t i = 0; row && i < entries; i++) row[i] = -1;
  Timetable *t = NULL;
  bool (*fill)(const PipelinePlan *, int, int *) =
      p->schedule->starts ? fill_from_starts : fill_from_orders;
  if (!row || !fill(p, micros, row)) {
    fail(e, ERR_OUT_OF_MEMORY, "out of memory for a schedule of %d micro-batches", micros);
  } else {
    size_t waiting = 0;
    while (waiting < entries && row[waiting] >= 0) waiting++;
    if (waiting < entries)
      fail(
          e, ERR_VALUE,
          "the schedule never comes to %s of stage %d on micro-batch %d: its IPUs wait for one another",
          (int)(waiting / (size_t)micros) < p->positions ? "the forward pass" : "the backward pass",
          plan_position_of_program(p, (int)(waiting / (size_t)micros)),
          (int)(waiting % (size_t)micros));
    else t = from_rows(e, row, programs, micros);
  }
  free(row);
  return t;
}

/* ---- orders that are given ---- */

Status pipeline_plan_set_order(Error *e, PipelinePlan *p, const TimetableEntry *order,
                               const int *begin) {
  int programs = plan_programs(p), micros = 0;
  for (int i = 0; i < begin[p->ipus]; i++) {
    if (order[i].program < 0 || order[i].program >= programs || order[i].micro < 0)
      return fail(e, ERR_VALUE,
                  "entry %d of the schedule names a program or a micro-batch that doesn't exist",
                  i + 1);
    if (order[i].micro >= micros) micros = order[i].micro + 1;
  }
  int *expected = calloc((size_t)programs + 1, sizeof *expected);
  if (!expected) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status s = OK;
  /* In micro-batch order for every program: gradients are then added in the same order in all
   * schedules. */
  for (int d = 0; d < p->ipus && s == OK; d++) {
    memset(expected, 0, (size_t)programs * sizeof *expected);
    for (int i = begin[d]; i < begin[d + 1] && s == OK; i++) {
      int position = plan_position_of_program(p, order[i].program);
      const char *pass = order[i].program < p->positions ? "forward" : "backward";
      if (!uses_ipu(p, position, d))
        s = fail(e, ERR_VALUE, "the schedule runs stage %d on IPU %d, where it isn't", position, d);
      else if (order[i].micro != expected[order[i].program]++)
        s = fail(
            e, ERR_VALUE,
            "IPU %d of the schedule: the %s pass of stage %d takes micro-batch %d where %d is next",
            d, pass, position, order[i].micro, expected[order[i].program] - 1);
    }
    for (int k = 0; k < programs && s == OK; k++)
      if (uses_ipu(p, plan_position_of_program(p, k), d) && expected[k] != micros)
        s = fail(e, ERR_VALUE,
                 "IPU %d of the schedule: the %s pass of stage %d runs on %d micro-batches of %d",
                 d, k < p->positions ? "forward" : "backward", plan_position_of_program(p, k),
                 expected[k], micros);
  }
  free(expected);
  if (s != OK) return s;
  free(p->order), free(p->order_begin);
  p->order = malloc(((size_t)begin[p->ipus] + 1) * sizeof *p->order);
  p->order_begin = copy_ints(begin, p->ipus + 1);
  if (!p->order || !p->order_begin) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  memcpy(p->order, order, (size_t)begin[p->ipus] * sizeof *order);
  p->micros = micros;
  Timetable *t = timetable_new(e, p, micros);
  if (!t) return e->status;
  timetable_free(t);
  return OK;
}

/* ---- stashes ---- */

/* Sweep through time: a copy is live from the row of `made` to the row of `used`. */
int plan_copies(Error *e, const PipelinePlan *p, int made, int used, bool at_row_start) {
  if (made == used) return 1;
  int overlap = plan_overlap(p);
  int enough = p->micros ? p->micros : (4 * plan_programs(p) + 2 + overlap - 1) / overlap * overlap;
  Timetable *t = timetable_new(e, p, enough);
  if (!t) return 0;
  int from = plan_position_of_program(p, made), to = plan_position_of_program(p, used);
  bool same = !at_row_start && plan_positions_share_ipu(p, from, to) && !is_concurrent(p, from) &&
              !is_concurrent(p, to);
  int there = 0, max = 0;
  for (int r = 0; r < t->rows; r++) {
    int gone = 0;
    for (int i = t->row_begin[r]; i < t->row_begin[r + 1]; i++) {
      bool makes = t->entry[i].program == made, uses = t->entry[i].program == used;
      if (makes && ++there > max) max = there;
      if (uses && same) there--; /* one IPU does one thing after the other */
      else if (uses) gone++;
    }
    there -= gone;
  }
  timetable_free(t);
  return max;
}
