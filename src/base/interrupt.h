/* Ctrl-C, as seen by what runs for long. The command's signal handler raises; whoever can stop in
 * good order polls (at least every 100 ms) and takes. A process has one keyboard, so this is the
 * one state that is shared by the whole process; all of it is lock-free atomics and may be used in
 * a signal handler and on any thread.
 *
 *   first Ctrl-C INTERRUPT_SOON: stop in good order, after the current step, and keep what was
 *     computed
 *   second INTERRUPT_NOW: fail with "interrupted!" (ERR_CANCELLED), after the current step all the
 *     same
 *   third          the signal's default action; nobody polls any more
 *
 * A call that will stop in good order, but runs Lua code in between (fit and its callbacks),
 * holds the interruption: while held, Lua code is left alone by the first Ctrl-C. Every hold
 * needs its unhold, also when an error leaves the call. */
#ifndef IPULUA_BASE_INTERRUPT_H
#define IPULUA_BASE_INTERRUPT_H
#include <stdbool.h>

typedef enum Interrupt { INTERRUPT_NONE, INTERRUPT_SOON, INTERRUPT_NOW } Interrupt;

int interrupt_raise(void); /* returns how often it was raised since the last reset */
/* the same, asked: whoever stops in good order fails instead when it is more than 1 */
int interrupt_count(void);
Interrupt interrupt_pending(void); /* raised and not yet taken */
/* the same, and it is no longer pending: the caller acts on it */
Interrupt interrupt_take(void);
void interrupt_reset(void); /* nothing raised, nothing held: a new piece of work begins */
void interrupt_hold(void);  /* holds nest */
void interrupt_unhold(void);
bool interrupt_held(void);

/* Cancellable work: its result can be thrown away (an op called at once). Between begin and end,
 * long loops of this thread may skip their remaining pieces when interrupt_stops. End tells whether
 * one did: the result is then incomplete. */
void interrupt_begin_cancellable(void);
bool interrupt_end_cancellable(void);

/* Such a loop: made by the thread that began, asked by each piece of work on any thread, ended
 * by the former. */
typedef struct CancellableLoop {
  bool allowed;
  _Atomic bool cancelled;
} CancellableLoop;
CancellableLoop interrupt_begin_loop(void);
bool interrupt_cancels(CancellableLoop *l);
void interrupt_end_loop(const CancellableLoop *l);

/* The system, or a launcher, wants the process to end (SIGTERM); who notes it raises SIGINT,
 * too. */
void interrupt_terminate(void); /* for a signal handler */
bool interrupt_terminated(void);

bool interrupt_stops(void); /* pending, and nobody holds it to stop in good order */
#endif
