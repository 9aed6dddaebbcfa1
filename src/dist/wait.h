/* Waiting for other instances. Inside of this folder only. */
#ifndef IPULUA_DIST_WAIT_H
#define IPULUA_DIST_WAIT_H
#include "dist/internal.h"

typedef struct Wait {
  const Meeting *meeting; /* NULL: none */
  int count;              /* of t->request that are waited for */
  bool for_boards;        /* what is waited for are all boards */
  int spins;
  double began;
  double missed_since; /* a partner has ended */
  bool told;
} Wait;
Wait wait_begin(const Meeting *m, int count);
/* Once more, after a test that found nothing done: fails when there is nothing more to wait for. */
Status wait_step(Instances *t, Wait *w, Error *e);
/* Until the first count of t->request are done. */
Status wait_all(Instances *t, const Meeting *m, int count, Error *e);
/* What failed meetings leave: waits for a moment, so that little stays. */
void wait_abandon(Instances *t, int count);
Status reserve_requests(Instances *t, int count, Error *e);
Status comm_failed(Instances *t, int code, Error *e);

/* Until all have come to the meeting that this one is at, as their boards say. */
Status wait_for_boards(Instances *t, const Meeting *m, Error *e);
#endif
