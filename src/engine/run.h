/* Running a program, and the parts of running its steps. */
#ifndef IPULUA_ENGINE_RUN_H
#define IPULUA_ENGINE_RUN_H
#include "engine/engine.h"

/* Run once. arguments are dense and of the traced types; results are new tensors, yours. */
Status program_run(Engine *g, Program *p, Tensor *const *arguments, Tensor **results, Error *e);

/* The same on memory given: dense buffers of the traced types; pool may be NULL. For mapped
 * functions: number is the element's, on which alone it depends how p rounds. */
Status program_run_into(Engine *g, Pool *pool, Program *p, uint64_t number,
                        const void *const *arguments, void *const *results, Error *e);

/* p runs once, in place of an eager op: it shall round by other numbers than the one before. */
void engine_number_rounding(Engine *g, Program *p);

/* ---- inside the engine ---- */

typedef struct Run {
  Engine *engine;
  Program *program;
  Pool *pool; /* NULL: the run has one thread */
  Error *error;
  _Atomic bool *stop; /* loops end after the iteration that they are in */
  bool cancels;       /* a Ctrl-C ends it also between the steps of an iteration */
  bool cancellable;   /* now: nothing was changed since the run or the iteration began */
  bool with_others;   /* other instances run it too: they agree on a first Ctrl-C */
  /* another iteration of the innermost counted loop follows, unless something fails */
  bool goes_on;
} Run;

Status run_steps(Run *r, Step *s, int count);
/* Makes elements [begin, begin + n) of an operand in `to`. */
typedef struct Maker Maker;
struct Maker {
  void (*make)(const Maker *m, int64_t begin, int64_t n, float *to);
};
/* Runs a chain step whose operand in that slot is made block by block. */
Status run_chain_of(Run *r, Step *s, int slot, const Maker *m);
static inline Status run_block(Run *r, Block *b) { return run_steps(r, b->step, b->count); }
void run_next_rounding(const Run *r, const Numerics *n, RngKey *key);
Status run_interrupted(Run *r); /* fails when somebody asked to stop */

/* The tensor of an argument, variable or result in this run. */
void program_bind(Program *p, int index, void *data);
/* count 1 and, afterwards, -1: functions called meanwhile see that a program is running on these
 * variables. */
void run_hold_variables(const Program *p, int count);
void program_begin_rounding(const Engine *g, Program *p);
#endif
