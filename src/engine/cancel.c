#include "engine/cancel.h"

#include "base/interrupt.h"

/* ---- which steps change something ---- */

/* Does data lie in a variable that the program changes? */
static bool is_kept(const Program *p, const void *data) {
  for (int i = 0; data && i < p->variable_count; i++) {
    const char *base = p->binding[p->argument_count + i].bound, *at = data;
    size_t bytes = type_bytes(&p->variable[i]->type);
    if (p->writes[i] && base && at >= base && at < base + (bytes ? bytes : 1)) return true;
  }
  return false;
}

static bool chain_changes(const Program *p, const Chain *c) {
  for (int i = 0; c && i < c->slot_count; i++) {
    const ChainSlot *slot = &c->slot[i];
    if (slot->is_written && slot->role != CHAIN_TEMPORARY && slot->role != CHAIN_BLOCK &&
        is_kept(p, slot->data))
      return true;
  }
  return false;
}

static bool call_changes(const Program *p, const Step *s) {
  if (s->kind == STEP_OP && (s->node->op->traits & STATEFUL)) return true;
  for (int i = 0; i < s->call.out_count; i++)
    if (is_kept(p, s->call.out[i])) return true;
  return false;
}

static bool changes_itself(const Program *p, const Step *s) {
  switch (s->kind) {
    case STEP_OP:
    case STEP_LOAD:
    case STEP_STORE:
      return call_changes(p, s);
    case STEP_CHAIN:
      return chain_changes(p, s->chain);
    case STEP_GEMM:
      return is_kept(p, s->gemm->gemm.c) || chain_changes(p, s->gemm->epilogue);
    case STEP_COPY:
      return is_kept(p, s->cell[1]);
    default: /* a queue, a whole pipeline */
      return true;
  }
}

/* Does a step in b change state? follows: is state changed after b, in an iteration that b is a
 * part of? */
static bool find_in(const Program *p, const Block *b, bool in_loop, bool follows) {
  bool found = false;
  for (int i = b->count - 1; i >= 0; i--) {
    Step *s = &b->step[i];
    bool steps_inside = s->nested_count && !s->nested[0].pass, inside = false;
    bool is_loop = steps_inside && s->nested[0].repeats, behind = in_loop && (follows || found);
    for (int k = 0; steps_inside && k < s->nested_count; k++)
      inside |= find_in(p, s->nested[k].block, in_loop || is_loop, behind);
    s->changes_follow = is_loop && behind;
    s->changes = !steps_inside && changes_itself(p, s);
    found = found || inside || s->changes;
  }
  return found;
}

void cancel_find_changes(Program *p) {
  if (p->changes_found) return;
  find_in(p, &p->main, false, false);
  p->changes_found = true;
}

/* ---- while it runs ---- */

void cancel_begin(Run *r) {
  if (!r->cancels || r->cancellable) return;
  interrupt_begin_cancellable();
  r->cancellable = true;
}

Status cancel_end(Run *r) {
  if (!r->cancellable) return OK;
  r->cancellable = false;
  if (!interrupt_end_cancellable()) return OK;
  interrupt_take();
  return fail(r->error, ERR_CANCELLED, "interrupted!");
}
