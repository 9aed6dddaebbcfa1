#include "engine/pipeline.h"

#include "program/timetable.h"

#include <string.h>

/* A row of the timetable being run. */
typedef struct Row {
  Control *control;
  PipelineStep *pipeline; /* the first instance's; all instances have equal ones */
  const TimetableEntry *entry;
  int count;
} Row;

static void point(Pass *p, int micro) {
  for (int i = 0; i < p->stash_count; i++) {
    const StashLink *s = &p->stash[i];
    *s->where = s->base + (size_t)(micro % s->copies) * s->stride;
  }
  *p->index = micro;
}

/* Point every pass of the row at its micro-batch, take in its data, and list the lanes that have
 * something to do. */
static Status begin_row(Row *row, int *lanes, bool *on_main) {
  PipelineStep *p = row->pipeline;
  Control *c = row->control;
  for (int i = 0; i < row->count; i++) {
    for (int q = p->first[row->entry[i].program]; q < p->first[row->entry[i].program + 1]; q++) {
      Pass *pass = &p->pass[q];
      for (int r = 0; r < c->count; r++) point(&c->step[r]->pipeline->pass[q], row->entry[i].micro);
      Status s = c->way->nested(c, 2 * q);
      if (s != OK) return s;
      if (!p->lane[pass->lane].active) p->active[(*lanes)++] = pass->lane;
      p->lane[pass->lane].active = true;
      *on_main = *on_main || pass->on_main;
    }
  }
  return OK;
}

/* One lane's passes, in the order of the row; run: by that one. */
static Status run_lane(const Row *row, int lane, Run *run) {
  PipelineStep *p = row->pipeline;
  Control *c = row->control;
  for (int i = 0; i < row->count; i++) {
    for (int q = p->first[row->entry[i].program]; q < p->first[row->entry[i].program + 1]; q++) {
      if (p->pass[q].lane != lane) continue;
      Status s = run ? run_block(run, &p->pass[q].body) : c->way->nested(c, 2 * q + 1);
      if (s != OK) return s;
    }
  }
  return OK;
}

static void run_lane_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  Row *row = context;
  int lane = row->pipeline->active[chunk];
  Lane *l = &row->pipeline->lane[lane];
  Run own = *row->control->alone;
  own.pool = NULL;
  own.error = &l->error;
  error_clear(&l->error);
  l->status = run_lane(row, lane, &own);
}

/* Which lane failed first is decided by their order, not by time. */
static Status run_side_by_side(Row *row, int lanes) {
  PipelineStep *p = row->pipeline;
  pool_run(row->control->alone->pool, lanes, run_lane_chunk, row);
  for (int i = 0; i < lanes; i++) {
    Lane *l = &p->lane[p->active[i]];
    if (l->status == OK) continue;
    *row->control->error = l->error;
    return l->status;
  }
  return OK;
}

static Status run_row(Row *row) {
  PipelineStep *p = row->pipeline;
  const Run *alone = row->control->alone;
  int lanes = 0;
  bool on_main = false;
  Status s = begin_row(row, &lanes, &on_main);
  for (int i = 0; i < lanes; i++) p->lane[p->active[i]].active = false;
  if (s != OK) return s;
  if (lanes > 1 && !on_main && alone && pool_size(alone->pool) > 1)
    return run_side_by_side(row, lanes);
  for (int i = 0; i < lanes && s == OK; i++) s = run_lane(row, p->active[i], NULL);
  return s;
}

static Status find_timetable(Error *e, const Step *s, int32_t micros) {
  PipelineStep *p = s->pipeline;
  if (p->timetable && p->timetable->micros == micros) return OK;
  Timetable *t = timetable_new(e, p->plan, micros);
  if (!t) {
    if (s->node->source && !e->source[0]) strncpy(e->source, s->node->source, sizeof e->source - 1);
    return e->status;
  }
  timetable_free(p->timetable);
  p->timetable = t;
  return OK;
}

Status run_pipeline(Control *c) {
  int32_t micros = 0;
  PipelineStep *p = c->step[0]->pipeline;
  Status s = control_number(c, CELL_TEST, "the number of micro-batches", &micros);
  if (s == OK) s = find_timetable(c->error, c->step[0], micros);
  const Timetable *t = p->timetable;
  for (int i = 0; s == OK && i < t->rows; i++) {
    Row row = {c, p, t->entry + t->row_begin[i], t->row_begin[i + 1] - t->row_begin[i]};
    s = run_row(&row);
    if (s == OK && i + 1 < t->rows) s = c->way->end_row(c);
  }
  return s;
}
