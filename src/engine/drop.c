#include "engine/drop.h"

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
    if (slot->is_written && slot->role != CHAIN_TEMPORARY && slot->role != CHAIN_BLOCK && is_kept(p, slot->data)) return true;
  }
  return false;
}

static bool call_changes(const Program *p, const Step *s) {
  if (s->kind == STEP_OP && (s->node->op->traits & STATEFUL)) return true;
  for (int i = 0; i < s->call.out_count; i++)
    if (is_kept(p, s->call.out[i])) return true;
  return false;
}

static void find_in(const Program *p, Block *b) {
  for (int i = 0; b && i < b->count; i++) {
    Step *s = &b->step[i];
    switch (s->kind) {
      case STEP_OP:
      case STEP_LOAD:
      case STEP_STORE: s->changes = call_changes(p, s); break;
      case STEP_CHAIN: s->changes = chain_changes(p, s->chain); break;
      case STEP_GEMM: s->changes = is_kept(p, s->gemm->gemm.c) || chain_changes(p, s->gemm->epilogue); break;
      case STEP_COPY: s->changes = is_kept(p, s->cell[1]); break;
      case STEP_DEQUEUE:
      case STEP_ENQUEUE:
      case STEP_PIPELINE: s->changes = true; break;
      case STEP_REPEAT:
      case STEP_WHILE:
      case STEP_COND:
      case STEP_CALL:
        find_in(p, s->control.body);
        find_in(p, s->control.other);
        break;
    }
  }
}

void drop_find_changes(Program *p) {
  if (p->changes_found) return;
  find_in(p, &p->main);
  p->changes_found = true;
}

/* ---- while it runs ---- */

void drop_begin(Run *r) {
  if (!r->drops || r->droppable) return;
  interrupt_begin_droppable();
  r->droppable = true;
}

Status drop_end(Run *r) {
  if (!r->droppable) return OK;
  r->droppable = false;
  if (!interrupt_end_droppable()) return OK;
  interrupt_take();
  return fail(r->error, ERR_CANCELLED, "interrupted!");
}
