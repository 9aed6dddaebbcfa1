/* Ctrl-C, for long-running work. The command's signal handler raises the interruption. Work that
 * can stop in good order polls it at least every 100 ms, and takes it. A process has one keyboard,
 * so the state belongs to the whole process. It consists of lock-free atomics, and may be used in a
 * signal handler and on any thread.
 *
 *   first Ctrl-C INTERRUPT_SOON: stop in good order, after the current step, and keep what was
 *     computed
 *   second INTERRUPT_NOW: fail with "interrupted!" (ERR_CANCELLED), after the current step all the
 *     same
 *   third          the signal's default action; nobody polls any more
 *
 * A call that stops in good order, but runs Lua code in between, holds the interruption; an example
 * is fit with its callbacks. While it is held, the first Ctrl-C doesn't interrupt Lua code. Every
 * hold needs its unhold, also if an error leaves the call. */
#ifndef IPULUA_BASE_INTERRUPT_H
#define IPULUA_BASE_INTERRUPT_H
#include <stdbool.h>

typedef enum Interrupt { INTERRUPT_NONE, INTERRUPT_SOON, INTERRUPT_NOW } Interrupt;

int interrupt_raise(void); /* returns how often it was raised since the last reset */
/* The number of raises since the last reset. With more than 1, work fails instead of stopping in
 * good order. */
int interrupt_count(void);
Interrupt interrupt_pending(void); /* raised and not yet taken */
/* The same, and takes it: the caller acts on it. */
Interrupt interrupt_take(void);
int interrupt_taken(void);  /* how many were taken since the process began */
void interrupt_reset(void); /* nothing raised, nothing held: a new piece of work begins */
void interrupt_hold(void);  /* holds nest */
void interrupt_unhold(void);
bool interrupt_held(void);

/* Cancellable work, whose result can be thrown away, such as an eager op. Between begin and end,
 * long loops of this thread may skip their remaining chunks when interrupt_stops. End tells whether
 * a loop did: then the result is incomplete. */
void interrupt_begin_cancellable(void);
bool interrupt_end_cancellable(void);

/* A cancellable loop. The thread that began the work makes and ends it. Chunks on any thread ask it
 * whether to stop. */
typedef struct CancellableLoop {
  bool allowed;
  _Atomic bool cancelled;
} CancellableLoop;
CancellableLoop interrupt_begin_loop(void);
bool interrupt_cancels(CancellableLoop *l);
void interrupt_end_loop(const CancellableLoop *l);

/* SIGTERM: the system or a launcher wants the process to end. The signal handler raises SIGINT,
 * too. */
void interrupt_terminate(void); /* for a signal handler */
bool interrupt_terminated(void);

bool interrupt_stops(void); /* pending, and not held to stop in good order */
#endif
