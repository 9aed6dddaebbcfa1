/* base/interrupt: what is pending after how many Ctrl-C, and what a take, a hold, a reset
 * change. */
#include "base/interrupt.h"

#include <signal.h>
#include <stdio.h>

static int passed, failed;

static void check(bool good, const char *what) {
  if (good) {
    passed++;
  } else {
    failed++;
    printf("FAIL %s\n", what);
  }
}

static void on_signal(int number) {
  (void)number;
  interrupt_raise();
}

static void check_urgency(void) {
  interrupt_reset();
  check(interrupt_pending() == INTERRUPT_NONE, "nothing is pending at first");
  check(interrupt_raise() == 1 && interrupt_pending() == INTERRUPT_SOON,
        "the first asks for a stop in good order");
  check(interrupt_take() == INTERRUPT_SOON && interrupt_pending() == INTERRUPT_NONE, "taken once");
  check(interrupt_take() == INTERRUPT_NONE, "not twice");
  check(interrupt_raise() == 2 && interrupt_pending() == INTERRUPT_NOW,
        "the second is urgent, though the first was taken");
  check(interrupt_raise() == 3 && interrupt_count() == 3, "the third is counted");
  interrupt_reset();
  check(interrupt_pending() == INTERRUPT_NONE && interrupt_count() == 0 && interrupt_raise() == 1,
        "a reset forgets all");
}

static void check_hold(void) {
  interrupt_reset();
  check(!interrupt_held(), "nothing is held at first");
  interrupt_hold();
  interrupt_hold();
  interrupt_unhold();
  check(interrupt_held(), "holds nest");
  interrupt_unhold();
  check(!interrupt_held(), "the last unhold ends it");
  interrupt_hold();
  interrupt_reset();
  check(!interrupt_held(), "a reset ends holds");
  interrupt_unhold();
  interrupt_hold();
  check(interrupt_held(), "an unhold after a reset counts for nothing");
  interrupt_reset();
}

static void check_cancellable(void) {
  interrupt_reset();
  interrupt_raise();
  CancellableLoop outside = interrupt_begin_loop();
  check(interrupt_stops() && !interrupt_cancels(&outside),
        "nothing is cancelled outside of cancellable work");
  interrupt_reset();
  interrupt_begin_cancellable();
  CancellableLoop loop = interrupt_begin_loop();
  check(!interrupt_cancels(&loop), "nothing is cancelled without a Ctrl-C");
  interrupt_raise();
  check(interrupt_cancels(&loop), "the first cancels what is left");
  interrupt_end_loop(&loop);
  check(interrupt_end_cancellable(), "what was cancelled is told");
  interrupt_begin_cancellable();
  check(!interrupt_end_cancellable(), "and forgotten");
  interrupt_hold();
  check(!interrupt_stops(), "not while it is held");
  interrupt_raise();
  check(interrupt_stops(), "the second stops it all the same");
  interrupt_reset();
}

static void check_signal(void) {
  signal(SIGINT, on_signal);
  raise(SIGINT);
  check(interrupt_take() == INTERRUPT_SOON, "raised in a signal handler");
}

int main(void) {
  check_urgency();
  check_hold();
  check_cancellable();
  check_signal();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
