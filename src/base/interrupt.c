#include "base/interrupt.h"

#include <stdatomic.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler may use lock-free atomics only");

static atomic_int raised, pending, held, terminated, taken;
static _Thread_local bool cancellable, cancelled;

int interrupt_raise(void) {
  int count = atomic_fetch_add(&raised, 1) + 1;
  atomic_store(&pending, count > 1 ? INTERRUPT_NOW : INTERRUPT_SOON);
  return count;
}

void interrupt_terminate(void) { atomic_store(&terminated, 1); }

bool interrupt_terminated(void) { return atomic_load_explicit(&terminated, memory_order_relaxed); }

int interrupt_count(void) { return atomic_load(&raised); }

Interrupt interrupt_pending(void) {
  return (Interrupt)atomic_load_explicit(&pending, memory_order_relaxed);
}

Interrupt interrupt_take(void) {
  Interrupt p = (Interrupt)atomic_exchange(&pending, INTERRUPT_NONE);
  if (p != INTERRUPT_NONE) atomic_fetch_add(&taken, 1);
  return p;
}

int interrupt_taken(void) { return atomic_load(&taken); }

void interrupt_reset(void) {
  atomic_store(&pending, INTERRUPT_NONE);
  atomic_store(&raised, 0);
  atomic_store(&held, 0);
}

void interrupt_hold(void) { atomic_fetch_add(&held, 1); }

void interrupt_unhold(void) {
  int n = atomic_load(&held);
  /* a reset may have come first */
  while (n > 0 && !atomic_compare_exchange_weak(&held, &n, n - 1)) continue;
}

bool interrupt_held(void) { return atomic_load(&held) > 0; }

void interrupt_begin_cancellable(void) { cancellable = true, cancelled = false; }
bool interrupt_end_cancellable(void) { return cancellable = false, cancelled; }

bool interrupt_stops(void) {
  Interrupt p = interrupt_pending();
  return p == INTERRUPT_NOW || (p == INTERRUPT_SOON && !interrupt_held());
}

CancellableLoop interrupt_begin_loop(void) { return (CancellableLoop){.allowed = cancellable}; }

bool interrupt_cancels(CancellableLoop *l) {
  if (!l->allowed || !interrupt_stops()) return false;
  atomic_store(&l->cancelled, true);
  return true;
}

void interrupt_end_loop(const CancellableLoop *l) {
  if (atomic_load(&l->cancelled)) cancelled = true;
}
