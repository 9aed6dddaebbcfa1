/* Elements of queues. In a loop on several threads the next one is read while this one is worked
 * on, by an idle thread of the team. The order of elements stays the same; a cheap element just
 * isn't waited for. */
#include "engine/dequeue.h"

#include <string.h>

#include "engine/finite_check.h"
#include "engine/run.h"

static Status make_up(Run *r, Step *s) {
  Synthetic *synthetic = &r->engine->synthetic;
  for (int i = 0; i < s->call.out_count; i++)
    synthetic_fill(synthetic, r->engine->seed, i, s->call.out_type[i], s->call.out[i]);
  synthetic->elements++;
  return OK;
}

static void read_next(void *context) {
  ReadAhead *a = context;
  a->status = a->feed->next(a->feed, true, a->buffer[1 - a->now], &a->error);
}

/* Everything that reads or writes the element finds it in its other buffer from now on. */
static void turn(const Program *p, ReadAhead *a) {
  a->now = 1 - a->now;
  for (int c = 0; c < a->feed->count; c++)
    for (int i = a->links[2 * c]; i < a->links[2 * c + 1]; i++)
      *p->link[i].where = a->buffer[a->now][c];
}

static Status take(Run *r, ReadAhead *a) {
  a->offered = false;
  pool_finish(r->pool, &a->errand);
  turn(r->program, a);
  if (a->status != OK && r->error->status == OK) *r->error = a->error;
  return a->status;
}

static void offer(Run *r, ReadAhead *a) {
  error_clear(&a->error);
  a->errand.run = read_next;
  a->errand.context = a;
  a->offered = true;
  pool_offer(r->pool, &a->errand);
}

/* The loop ends before the prefetched element was asked for. */
void run_leave_loop(Run *r, const Block *body) {
  for (int i = 0; i < body->count; i++) {
    ReadAhead *a = body->step[i].kind == STEP_DEQUEUE ? body->step[i].ahead : NULL;
    if (!a || !a->offered) continue;
    a->offered = false;
    if (!pool_withdraw(r->pool, &a->errand))
      a->feed->put_back(a->feed, a->status, &a->error, a->buffer[1 - a->now]);
  }
}

Status run_dequeue(Run *r, Step *s) {
  if (r->engine->synthetic.infeed) return make_up(r, s);
  Feed *f = (Feed *)s->node->attr[0].object;
  ReadAhead *a = s->ahead;
  Status status = a && a->offered ? take(r, a) : f->next(f, false, s->call.out, r->error);
  if (status == OK && s->call.numerics->check_finite)
    status = finite_check_results(&(FiniteCheck){0}, &s->call, r->error);
  if (status == OK && a && r->goes_on && pool_size(r->pool) > 1 && f->may_read_aside(f))
    offer(r, a);
  if (status != OK && s->node->source && !r->error->source[0])
    strncpy(r->error->source, s->node->source, sizeof r->error->source - 1);
  return status;
}
