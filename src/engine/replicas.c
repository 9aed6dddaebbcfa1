/* Running replicas in step. Steps of one replica alone run side by side on the pool. This thread
 * runs the steps of all together, in the order of replicas. So nothing waits for anything, any
 * number of threads will do, and the bits are the same for all. */
#include "engine/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "dist/instances.h"
#include "engine/across.h"
#include "engine/cancel.h"
#include "engine/control.h"
#include "engine/dequeue.h"
#include "engine/finite_check.h"
#include "program/addresses.h"
#include "program/replicas.h"

typedef struct Team {
  const Replication *replication;
  Pool *pool;
  bool side_by_side;  /* else one after the other, each on the whole pool */
  Run *run;           /* [replicas] */
  Error *own_error;   /* [replicas] */
  Error *error;       /* of the whole */
  const Call **call;  /* [replicas] */
  const void **value; /* [replicas * most_values] */
  _Atomic bool *stop;
  const Phase *local; /* that the pool runs now */
  int done;           /* steps of it that ran before */
  Across across;      /* with the replicas of other instances */
} Team;

static Status run_phases(Team *t, const Phases *list);

static void run_local_of(void *context, int64_t replica, int slot) {
  (void)slot;
  Team *t = context;
  int done = t->done;
  run_steps(&t->run[replica], t->local->step[replica] + done, t->local->count - done);
}

/* The failure of the first replica in order that failed, not of the first in time. */
static Status first_failure(Team *t) {
  for (int r = 0; r < t->replication->count; r++) {
    if (t->own_error[r].status == OK) continue;
    *t->error = t->own_error[r];
    return t->error->status;
  }
  return OK;
}

static Status run_local(Team *t, const Phase *p) {
  int count = t->replication->count;
  t->local = p, t->done = t->across.steps_ahead;
  t->across.steps_ahead = 0;
  if (p->heavy && t->side_by_side) {
    for (int r = 0; r < count; r++) t->run[r].pool = NULL;
    pool_run(t->pool, count, run_local_of, t);
    for (int r = 0; r < count; r++) t->run[r].pool = t->pool;
  } else {
    for (int r = 0; r < count; r++) run_local_of(t, r, 0);
  }
  return first_failure(t);
}

/* ---- collectives, queues, calls of the host ---- */

/* Either each replica has an element of a step, or none has. An element that fails costs the
 * step. If an interruption or the end of the data stops reading, the elements that were read
 * come again. */
static Status dequeue(Team *t, const Phase *p) {
  int count = t->replication->count;
  Feed *f = (Feed *)p->step[0]->node->attr[0].object;
  for (int r = 0; r < count; r++) {
    Status s = run_dequeue(&t->run[r], p->step[r]);
    if (s == OK) continue;
    if (s == ERR_CANCELLED || s == ERR_OUT_OF_RANGE)
      while (r--) f->put_back(f, OK, NULL, p->step[r]->call.out);
    else f->leave_out(f, count - r - 1);
    return first_failure(t);
  }
  return OK;
}

static Status enqueue(Team *t, const Phase *p) {
  const Call *first = &p->step[0]->call;
  for (int r = 0; r < t->replication->count; r++)
    for (int i = 0; i < first->in_count; i++)
      t->value[r * first->in_count + i] = p->step[r]->call.in[i];
  if (t->run[0].engine->synthetic.outfeed) return OK;
  return outlet_put(p->step[0]->node, t->replication->count, first->in_type, t->value, t->error);
}

static Status collective(Team *t, const Phases *list, Phase *p) {
  for (int r = 0; r < t->replication->count; r++) {
    Call *c = &p->step[r]->call;
    c->pool = t->pool;
    c->error = t->error;
    run_next_rounding(&t->run[r], c->numerics, &c->rng);
    t->call[r] = c;
  }
  const OpDef *op = p->step[0]->node->op;
  bool across = t->across.instances && op->traits & ACROSS;
  /* operands of other instances aren't here */
  bool traps = !across && numerics_trapped(t->call[0]->numerics);
  int given = 0;
  for (int r = 0; r < t->replication->count && traps; r++) given |= op_given(t->call[r]);
  Status s = across ? across_collective(&t->across, list, p, t->call, t->error)
                    : op->eval_collective(t->call, t->replication->count);
  for (int r = 0; r < t->replication->count && s == OK && traps; r++)
    s = op_trap(t->call[r], given);
  for (int r = 0; r < t->replication->count && s == OK; r++)
    if (t->call[r]->numerics->check_finite)
      s = finite_check_results(&(FiniteCheck){0}, t->call[r], t->error);
  return s;
}

static Status run_collective(Team *t, const Phases *list, Phase *p) {
  if (p->step[0]->kind == STEP_DEQUEUE) return dequeue(t, p);
  if (p->step[0]->kind == STEP_ENQUEUE) return enqueue(t, p);
  return collective(t, list, p);
}

/* ---- control with collectives inside: all replicas must go the same way ---- */

/* An interrupted instance continues until all instances know of it, so that they stop at the same
 * point. A failure of another instance ends it at once. */
static bool others_stop(Team *t) {
  if (instances_look(t->across.instances, &t->own_error[0]) != OK) return true;
  if (!instances_asked_to_stop(t->across.instances)) return false;
  interrupt_take();
  fail(&t->own_error[0], ERR_CANCELLED, "interrupted!");
  return true;
}

/* An iteration around the loop that has yet to change something is finished first. */
static bool is_asked_to_stop(Team *t, const Phase *loop) {
  if (t->across.instances) return !loop->step[0]->changes_follow && others_stop(t);
  return !loop->step[0]->changes_follow && run_interrupted(&t->run[0]) != OK;
}

typedef struct InStep {
  Control control;
  Team *team;
  const Phase *phase;
} InStep;

static Status run_nested(Control *c, int i) {
  const InStep *in = (const InStep *)c;
  return run_phases(in->team, &in->phase->nested[i]);
}

static Status end_iteration(Control *c, bool last) {
  const InStep *in = (const InStep *)c;
  return !last && is_asked_to_stop(in->team, in->phase) ? first_failure(in->team) : OK;
}

static Status leave_loop(Control *c, Status s) {
  (void)c;
  return s;
}

static Status end_row(Control *c) {
  Team *t = ((InStep *)c)->team;
  return !t->across.instances && run_interrupted(&t->run[0]) != OK ? first_failure(t) : OK;
}

static Status run_control(Team *t, const Phase *p) {
  static const ControlWay way = {.nested = run_nested,
                                 .end_iteration = end_iteration,
                                 .leave_loop = leave_loop,
                                 .end_row = end_row};
  InStep in = {
      .control = {.way = &way, .step = p->step, .count = t->replication->count, .error = t->error},
      .team = t,
      .phase = p};
  return control_run(&in.control);
}

static Status run_phases(Team *t, const Phases *list) {
  Status s = OK;
  for (int i = 0; i < list->count && s == OK; i++) {
    Phase *p = &list->phase[i];
    s = p->kind == PHASE_LOCAL        ? run_local(t, p)
        : p->kind == PHASE_COLLECTIVE ? run_collective(t, list, p)
                                      : run_control(t, p);
  }
  return s;
}

/* ---- a run ---- */

/* Arguments and results were bound to the first instance. */
static void bind_others(const Replication *r) {
  Program *first = r->instance[0];
  int results = first->argument_count + first->variable_count;
  for (int i = 1; i < r->count; i++) {
    char *spare = r->spare[i];
    for (int k = 0; k < first->argument_count; k++)
      program_bind(r->instance[i], k, first->binding[k].bound);
    for (int k = 0; k < first->result_count; k++) {
      program_bind(r->instance[i], results + k, spare);
      spare += (type_bytes(&first->result_type[k]) + 63) / 64 * 64;
    }
  }
}

/* Whether replicas have memory of their own for a variable. */
static bool is_spread(const Program *p, int i) {
  return p->writes[i] || p->variable[i]->first_only;
}

/* Counters begin as far apart as replicas are numbered, whatever instance they are of. */
static Status place_counter(Error *e, const Program *p, Variable *v) {
  if (!v->replica_step || v->is_placed || !p->first_replica) return OK;
  int64_t *data = variable_writable(e, v);
  if (!data) return e->status;
  *data += p->first_replica * v->replica_step;
  v->is_placed = true;
  return OK;
}

static Status bind_variables(const Replication *r, void **data, Error *e) {
  const Program *first = r->instance[0];
  for (int i = 0; i < first->variable_count; i++) {
    Variable *v = first->variable[i];
    if (!v->value)
      return fail(e, ERR_FAILED_PRECONDITION, "variable '%s' is read before it was initialised",
                  v->name);
    if (first->shared[i]) {
      if (!(data[0] = variable_writable(e, v))) return e->status;
      for (int k = 1; k < r->count; k++) data[k] = data[0];
    } else if (is_spread(first, i) &&
               (place_counter(e, first, v) != OK || variable_spread(e, v, r->count, data) != OK)) {
      return e->status;
    }
    for (int k = 0; k < r->count; k++)
      program_bind(r->instance[k], first->argument_count + i,
                   first->writes[i] || first->shared[i]
                       ? data[k]
                       : (void *)(uintptr_t)variable_of_replica(v, k, r->count));
  }
  return OK;
}

Status run_replicas(Engine *g, Pool *pool, Program *p, Error *e) {
  const Replication *r = p->replication;
  size_t count = (size_t)r->count;
  _Atomic bool *stop = &p->cancelled;
  Team t = {.replication = r,
            .pool = pool,
            .error = e,
            .stop = stop,
            .side_by_side = r->count > 1 && 2 * r->count > pool_size(pool)};
  t.run = calloc(count, sizeof *t.run);
  t.own_error = calloc(count, sizeof *t.own_error);
  t.call = calloc(count, sizeof *t.call);
  t.value = calloc(count * (size_t)(r->max_values + 1), sizeof *t.value);
  Status s =
      t.run && t.own_error && t.call && t.value ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < r->count && s == OK; i++) {
    t.run[i] = (Run){.engine = g,
                     .program = r->instance[i],
                     .pool = pool,
                     .error = &t.own_error[i],
                     .stop = stop,
                     .with_others = p->has_collectives};
    program_begin_rounding(g, r->instance[i]);
    s = program_fit_team(e, r->instance[i], pool_size(pool));
  }
  if (s == OK) s = across_begin(&t.across, g, p, e);
  bool begun = s == OK;
  t.across.run = t.run;
  if (s == OK) bind_others(r);
  if (s == OK) s = bind_variables(r, (void **)(uintptr_t)t.call, e);
  if (s == OK) {
    run_hold_variables(r->instance[0], 1);
    cancel_find_changes(r->instance[0]);
    s = run_phases(&t, &r->main);
    run_hold_variables(r->instance[0], -1);
  }
  if (begun) across_end(&t.across, s, e);
  free(t.run), free(t.own_error), free(t.call), free(t.value);
  return s;
}
