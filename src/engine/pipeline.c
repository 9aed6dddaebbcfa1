#include "engine/pipeline.h"

#include <string.h>

/* A row of the timetable being run. */
typedef struct Row {
  Run *run;
  PipelineStep *pipeline;
  const TimetableEntry *entry;
  int count;
} Row;

void pipeline_point(Pass *p, int micro) {
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
  for (int i = 0; i < row->count; i++) {
    for (int q = p->first[row->entry[i].program]; q < p->first[row->entry[i].program + 1]; q++) {
      Pass *pass = &p->pass[q];
      pipeline_point(pass, row->entry[i].micro);
      Status s = run_block(row->run, &pass->dequeues);
      if (s != OK) return s;
      if (!p->lane[pass->lane].active) p->active[(*lanes)++] = pass->lane;
      p->lane[pass->lane].active = true;
      *on_main = *on_main || pass->on_main;
    }
  }
  return OK;
}

/* One lane's passes, in the order of the row. */
static Status run_lane(const Row *row, int lane, Run *run) {
  PipelineStep *p = row->pipeline;
  for (int i = 0; i < row->count; i++) {
    for (int q = p->first[row->entry[i].program]; q < p->first[row->entry[i].program + 1]; q++) {
      if (p->pass[q].lane != lane) continue;
      Status s = run_block(run, &p->pass[q].body);
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
  Run own = *row->run;
  own.pool = NULL;
  own.error = &l->error;
  error_clear(&l->error);
  l->status = run_lane(row, lane, &own);
}

/* Which lane failed first is decided by their order, not by time. */
static Status run_side_by_side(Row *row, int lanes) {
  PipelineStep *p = row->pipeline;
  pool_run(row->run->pool, lanes, run_lane_chunk, row);
  for (int i = 0; i < lanes; i++) {
    Lane *l = &p->lane[p->active[i]];
    if (l->status == OK) continue;
    *row->run->error = l->error;
    return l->status;
  }
  return OK;
}

static Status run_row(Row *row) {
  PipelineStep *p = row->pipeline;
  int lanes = 0;
  bool on_main = false;
  Status s = begin_row(row, &lanes, &on_main);
  for (int i = 0; i < lanes; i++) p->lane[p->active[i]].active = false;
  if (s != OK) return s;
  if (lanes > 1 && !on_main && pool_size(row->run->pool) > 1) return run_side_by_side(row, lanes);
  for (int i = 0; i < lanes && s == OK; i++) s = run_lane(row, p->active[i], row->run);
  return s;
}

Status pipeline_find_timetable(Run *r, Step *s, int32_t micros) {
  PipelineStep *p = s->pipeline;
  if (p->timetable && p->timetable->micros == micros) return OK;
  Timetable *t = timetable_new(r->error, p->plan, micros);
  if (!t) {
    if (s->node->source && !r->error->source[0])
      strncpy(r->error->source, s->node->source, sizeof r->error->source - 1);
    return r->error->status;
  }
  timetable_free(p->timetable);
  p->timetable = t;
  return OK;
}

Status run_pipeline(Run *r, Step *s) {
  int32_t micros;
  memcpy(&micros, s->cell[CELL_TEST], sizeof micros);
  Status status = pipeline_find_timetable(r, s, micros);
  const Timetable *t = s->pipeline->timetable;
  for (int i = 0; status == OK && i < t->rows; i++) {
    Row row = {r, s->pipeline, t->entry + t->row_begin[i], t->row_begin[i + 1] - t->row_begin[i]};
    status = run_row(&row);
    if (status == OK && i + 1 < t->rows) status = run_interrupted(r);
  }
  return status;
}
