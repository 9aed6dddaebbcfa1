/* Running a program: a walk over its steps. Nothing here allocates but the results. */
#include "engine/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/interrupt.h"
#include "base/subnormal.h"
#include "engine/cancel.h"
#include "engine/control.h"
#include "engine/dequeue.h"
#include "engine/finite_check.h"
#include "engine/replicas.h"
#include "kernels/products.h"
#include "program/addresses.h"
#include "program/replicas.h"

enum { CHAIN_GRAIN = 16384 };

typedef struct ChainWork {
  const Chain *chain;
  const Maker *maker; /* of the CHAIN_BLOCK slots; NULL: there are none */
  int64_t grain;
  _Atomic int events;
  CancellableLoop loop;
} ChainWork;

/* Pieces of a chain run side by side. The failure of the earliest step is reported, whichever
 * failed first. */
static void keep_first(_Atomic int *kept, int events) {
  if (!events) return;
  int before = atomic_load(kept);
  while (!atomic_compare_exchange_weak(kept, &before, chain_first_events(before, events))) continue;
}

/* Elements [begin, end) of a chain with one row, whose block is made before it is read. */
static int run_made(const ChainWork *w, int64_t begin, int64_t end) {
  enum { MADE = CHAIN_BLOCK_BYTES / sizeof(float) };
  _Alignas(64) float block[MADE];
  int events = 0;
  for (int64_t at = begin; at < end; at += MADE) {
    int64_t n = min(MADE, end - at);
    w->maker->make(w->maker, at, n, block);
    events = chain_first_events(events, chain_run_block(w->chain, block, n, 0, 1, at, n));
  }
  return events;
}

static int run_part(const ChainWork *w, int64_t begin, int64_t end) {
  return w->maker ? run_made(w, begin, end) : chain_run(w->chain, begin, end);
}

static void run_chain_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  ChainWork *w = context;
  if (interrupt_cancels(&w->loop)) return;
  int64_t begin = chunk * w->grain;
  keep_first(&w->events, run_part(w, begin, min(begin + w->grain, w->chain->count)));
}

static Status check_events(Run *r, const Node *n, int events) {
  const char *what = numerics_trap(&r->engine->numerics, events);
  if (!what) return OK;
  return fail_at(r->error, n->source, ERR_INTERNAL, "Tiles in excepted state: %s in %s", what,
                 n->op->name);
}

static Status check_chain(Run *r, const Chain *c, int result) {
  return result ? check_events(r, c->step[chain_step_of(result)].of, chain_events_of(result)) : OK;
}

/* Each execution of a step rounds by other numbers; a new seed begins again
 * (program_begin_rounding). */
void run_next_rounding(const Run *r, const Numerics *n, RngKey *key) {
  if (!n || !n->stochastic_rounding) return;
  key->seed = r->program->rounding_seed;
  key->step++;
}

static bool reset_rounding(Step *s, void *context) {
  (void)context;
  if (s->kind == STEP_OP) s->call.rng.step = 0;
  else if (s->kind == STEP_CHAIN) s->chain->rng.step = 0;
  else if (s->kind == STEP_GEMM && s->gemm->epilogue) s->gemm->epilogue->rng.step = 0;
  return false;
}

void program_begin_rounding(const Engine *g, Program *p) {
  if (p->rounding_epoch == g->rounding_epoch) return;
  p->rounding_epoch = g->rounding_epoch;
  p->rounding_seed =
      p->rounding_part ? rng_part(g->rounding_seed, p->rounding_part) : g->rounding_seed;
  block_find(&p->main, reset_rounding, NULL);
}

static void begin_part(Program *p, uint64_t part) {
  enum { NO_EPOCH = -1 };
  p->rounding_part = part;
  p->rounding_epoch = NO_EPOCH;
}

void engine_number_rounding(Engine *g, Program *p) { begin_part(p, ++g->eager_roundings); }

static Status run_chain(Run *r, const Step *s, const Chain *c, const Maker *m) {
  ChainWork w = {.chain = c, .maker = m};
  if (!s->parallel || !r->pool) return check_chain(r, c, run_part(&w, 0, c->count));
  /* whole rows, so that short rows go several at a time */
  int64_t rows = (CHAIN_GRAIN + c->cols - 1) / c->cols;
  w.grain = c->cols >= CHAIN_GRAIN ? CHAIN_GRAIN : rows * c->cols;
  w.loop = interrupt_begin_loop();
  pool_run(r->pool, (c->count + w.grain - 1) / w.grain, run_chain_chunk, &w);
  interrupt_end_loop(&w.loop);
  return check_chain(r, c, w.events);
}

static Status run_chain_step(Run *r, Step *s) {
  run_next_rounding(r, s->chain->numerics, &s->chain->rng);
  return run_chain(r, s, s->chain, NULL);
}

Status run_chain_of(Run *r, Step *s, int slot, const Maker *m) {
  Status status = s->changes ? cancel_end(r) : OK;
  if (status != OK) return status;
  run_next_rounding(r, s->chain->numerics, &s->chain->rng);
  Chain c = *s->chain;
  c.slot[slot].role = CHAIN_BLOCK;
  return run_chain(r, s, &c, m);
}

typedef struct GemmWork {
  const Kernels *kernels;
  GemmStep *step;
  _Atomic int events;
  CancellableLoop loop;
} GemmWork;

static void pack_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  GemmWork *w = context;
  product_pack(w->kernels, &w->step->plan, w->step->dtype, &w->step->gemm, chunk);
}

static void gemm_chunk(void *context, int64_t chunk, int slot) {
  GemmWork *w = context;
  if (interrupt_cancels(&w->loop)) return;
  product_chunk(w->kernels, &w->step->plan, w->step->dtype, &w->step->gemm, chunk, slot);
}

static void finish_chunk(void *context, int64_t chunk, int slot) {
  GemmWork *w = context;
  product_finish(w->kernels, &w->step->plan, w->step->dtype, &w->step->gemm, chunk, slot);
}

static void run_epilogue(void *context, void *block, int64_t block_row, int64_t row, int64_t rows,
                         int64_t col, int64_t cols, int slot) {
  (void)slot;
  GemmWork *w = context;
  int events = chain_run_block(w->step->epilogue, block, block_row, row, rows, col, cols);
  keep_first(&w->events, events);
}

static void fetch_for_epilogue(void *context, int64_t row, int64_t rows, int64_t col,
                               int64_t cols) {
  GemmWork *w = context;
  chain_fetch_block(w->step->epilogue, row, rows, col, cols);
}

static Status run_gemm_step(Run *r, Step *s) {
  GemmWork w = {.kernels = r->engine->kernels, .step = s->gemm, .loop = interrupt_begin_loop()};
  if (s->gemm->epilogue) run_next_rounding(r, s->gemm->epilogue->numerics, &s->gemm->epilogue->rng);
  s->gemm->gemm.context = &w;
  s->gemm->gemm.epilogue = s->gemm->epilogue ? run_epilogue : NULL;
  s->gemm->gemm.ahead = s->gemm->epilogue ? fetch_for_epilogue : NULL;
  Pool *pool = s->parallel ? r->pool : NULL;
  if (s->gemm->plan.pack_chunks) pool_run(pool, s->gemm->plan.pack_chunks, pack_chunk, &w);
  pool_run(pool, s->gemm->plan.chunks, gemm_chunk, &w);
  if (s->gemm->plan.finish_chunks) pool_run(pool, s->gemm->plan.finish_chunks, finish_chunk, &w);
  interrupt_end_loop(&w.loop);
  return check_chain(r, s->gemm->epilogue, w.events);
}

static Status run_op(Run *r, Step *s) {
  s->call.pool = r->pool;
  s->call.error = r->error;
  run_next_rounding(r, s->call.numerics, &s->call.rng);
  FiniteCheck check;
  bool is_checked = s->call.numerics->check_finite;
  if (is_checked) finite_check_operands(&check, &s->call);
  Status status = op_eval(s->node->op, &s->call);
  return is_checked && status == OK ? finite_check_results(&check, &s->call, r->error) : status;
}

static Status run_enqueue(Run *r, Step *s) {
  if (r->engine->synthetic.outfeed) return OK;
  return outlet_put(s->node, 1, s->call.in_type, s->call.in, r->error);
}

/* A run that stops consumes the interruption, so that no other run reacts to it. It sets a flag for
 * the replicas that run beside it. */
Status run_interrupted(Run *r) {
  if (!interrupt_pending() && !atomic_load_explicit(r->stop, memory_order_relaxed)) return OK;
  if (r->with_others && interrupt_pending() != INTERRUPT_NOW) return OK;
  bool replicated = r->program->replicas > 1 || r->program->replica,
       by_script = !replicated && !interrupt_pending();
  interrupt_take();
  if (replicated) atomic_store(r->stop, true);
  return fail(r->error, ERR_CANCELLED, by_script ? "the job was cancelled" : "interrupted!");
}

/* ---- control ---- */

/* A control step of one instance. */
typedef struct Alone {
  Control control;
  bool changed;    /* state was changed since the loop, or the loop around it, began */
  bool outer_goes; /* Run.goes_on, outside of the loop */
} Alone;

static Status run_nested(Control *c, int i) {
  return run_block(c->alone, c->step[0]->nested[i].block);
}

static void begin_iteration(Control *c, bool last) { c->alone->goes_on = !last; }

/* After an iteration: a run that was asked to stop stops here, or in a part of the next iteration
 * that can be cancelled. After the last iteration the loop has ended anyway. If an iteration around
 * the loop has changed state, and will change more, it is finished first. */
static Status end_iteration(Control *c, bool last) {
  Alone *a = (Alone *)c;
  Run *r = c->alone;
  a->changed = a->changed || !r->cancellable;
  if (a->changed && c->step[0]->changes_follow) return OK;
  Status s = last ? OK : run_interrupted(r);
  if (s == OK) cancel_begin(r);
  return s;
}

/* State that a loop has changed stays changed after it. */
static Status leave_loop(Control *c, Status s) {
  Alone *a = (Alone *)c;
  const Step *loop = c->step[0];
  c->alone->goes_on = a->outer_goes;
  if (s == OK) return a->changed ? cancel_end(c->alone) : OK;
  run_leave_loop(c->alone, loop->nested[loop->nested_count - 1].block);
  return s;
}

static Status end_row(Control *c) { return run_interrupted(c->alone); }

static Status run_control(Run *r, Step *s) {
  static const ControlWay way = {.nested = run_nested,
                                 .begin_iteration = begin_iteration,
                                 .end_iteration = end_iteration,
                                 .leave_loop = leave_loop,
                                 .end_row = end_row};
  Alone a = {.control = {.way = &way, .step = &s, .count = 1, .error = r->error, .alone = r},
             .changed = !r->cancellable,
             .outer_goes = r->goes_on};
  return control_run(&a.control);
}

/* ---- steps ---- */

static void run_copy(const Step *s) {
  if (s->cell[0]) memcpy(s->cell[1], s->cell[0], s->copy_bytes);
  else memset(s->cell[1], 0, s->copy_bytes);
}

static Status run_step(Run *r, Step *s) {
  switch (s->kind) {
    case STEP_OP:
      return run_op(r, s);
    case STEP_CHAIN:
      return run_chain_step(r, s);
    case STEP_GEMM:
      return run_gemm_step(r, s);
    case STEP_COPY:
      run_copy(s);
      return OK;
    case STEP_LOAD:
    case STEP_STORE:
      return s->call.out_count ? run_op(r, s) : OK;
    case STEP_DEQUEUE:
      return run_dequeue(r, s);
    case STEP_ENQUEUE:
      return run_enqueue(r, s);
    default:
      return run_control(r, s);
  }
}

Status run_steps(Run *r, Step *step, int count) {
  for (int i = 0; i < count; i++) {
    Status s = step[i].changes ? cancel_end(r) : OK;
    if (s == OK) s = run_step(r, &step[i]);
    if (s == OK && r->cancellable && interrupt_stops()) s = run_interrupted(r);
    if (s != OK) return s;
  }
  return OK;
}

static Status run_whole(Run *r) {
  r->cancels = true;
  cancel_find_changes(r->program);
  cancel_begin(r);
  Status s = run_block(r, &r->program->main), end = cancel_end(r);
  return s != OK ? s : end;
}

/* ---- binding ---- */

void program_bind(Program *p, int index, void *data) {
  if (p->outline) return;
  Binding *b = &p->binding[index];
  if (b->bound == data) return;
  b->bound = data;
  for (int i = p->link_begin[2 * index]; i < p->link_begin[2 * index + 1]; i++)
    *p->link[i].where = data;
}

static Status bind_variables(Program *p, const Observed *seen, Error *e) {
  if (p->outline)
    return fail(e, ERR_FAILED_PRECONDITION, "'%s' was compiled to be priced: it can't run",
                p->name);
  for (int i = 0; i < p->variable_count; i++) {
    Variable *v = p->variable[i];
    if (!v->value)
      return fail(e, ERR_FAILED_PRECONDITION, "variable '%s' is read before it was initialised",
                  v->name);
    void *data = p->writes[i] ? variable_writable(e, v) : (void *)(uintptr_t)observed_data(seen, v);
    if (!data) return e->status;
    program_bind(p, p->argument_count + i, data);
  }
  return OK;
}

Status program_run_into(Engine *g, Pool *pool, Program *p, uint64_t number,
                        const void *const *arguments, void *const *results, Error *e) {
  begin_part(p, number + 1);
  for (int i = 0; i < p->argument_count; i++) program_bind(p, i, (void *)(uintptr_t)arguments[i]);
  for (int i = 0; i < p->result_count; i++)
    program_bind(p, p->argument_count + p->variable_count + i, results[i]);
  Run r = {.engine = g, .program = p, .pool = pool, .error = e, .stop = &p->cancelled};
  program_begin_rounding(g, p);
  uint64_t subnormal = subnormal_flush();
  Status s = bind_variables(p, NULL, e);
  if (s == OK) s = run_block(&r, &p->main);
  subnormal_restore(subnormal);
  p->executions++;
  return s;
}

void run_hold_variables(const Program *p, int count) {
  for (int i = 0; i < p->variable_count; i++) {
    atomic_fetch_add_explicit(&p->variable[i]->users, count, memory_order_relaxed);
    if (p->writes[i])
      atomic_fetch_add_explicit(&p->variable[i]->writers, count, memory_order_relaxed);
  }
}

static Status run_on_variables(Run *r, Program *p) {
  run_hold_variables(p, 1);
  Status s = run_whole(r);
  run_hold_variables(p, -1);
  return s;
}

static Status run_bound(Engine *g, Program *p, Error *e) {
  Run r = {.engine = g, .program = p, .pool = engine_pool(g), .error = e, .stop = &p->cancelled};
  Status s = program_fit_team(e, p, pool_size(r.pool));
  uint64_t subnormal = subnormal_flush();
  if (s == OK && (p->replicas > 1 || p->all_replicas > 1) && program_diverges(p)) {
    s = program_make_instances(e, p, g->threads);
    if (s == OK) s = run_replicas(g, r.pool, p, e);
  } else if (s == OK) {
    program_begin_rounding(g, p);
    s = bind_variables(p, g->seen, e);
    if (s == OK) s = run_on_variables(&r, p);
  }
  subnormal_restore(subnormal);
  return s;
}

Status program_run(Engine *g, Program *p, Tensor *const *arguments, Tensor **results, Error *e) {
  Status s = OK;
  if (atomic_exchange(&p->running, true)) {
    for (int i = 0; i < p->result_count; i++) results[i] = NULL;
    return fail(e, ERR_FAILED_PRECONDITION,
                "'%s' is running: a callback can't call the function that it is called from",
                p->name);
  }
  atomic_fetch_add(&g->running, 1);
  for (int i = 0; i < p->result_count; i++) results[i] = NULL;
  for (int i = 0; i < p->result_count && s == OK; i++) {
    results[i] = tensor_new_uninitialised(e, &p->result_type[i]);
    if (!results[i]) s = e->status;
    else program_bind(p, p->argument_count + p->variable_count + i, results[i]->data);
  }
  for (int i = 0; i < p->argument_count; i++) program_bind(p, i, arguments[i]->data);
  if (s == OK) s = run_bound(g, p, e);
  p->executions++;
  atomic_fetch_sub(&g->running, 1);
  atomic_store(&p->running, false);
  if (s == OK) return OK;
  for (int i = 0; i < p->result_count; i++) {
    tensor_release(results[i]);
    results[i] = NULL;
  }
  return s;
}
