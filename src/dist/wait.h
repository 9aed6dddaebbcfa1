/* Waiting for other instances. Inside of this folder only. */
#ifndef IPULUA_DIST_WAIT_H
#define IPULUA_DIST_WAIT_H
#include "dist/internal.h"

typedef struct Wait {
  const Meeting *meeting; /* NULL: none */
  int count;              /* of t->request to be waited for */
  bool for_boards;        /* the wait is for all boards */
  int spins;
  double began;
  double missed_since; /* a partner has ended */
  bool told;
} Wait;
Wait wait_begin(const Meeting *m, int count);
/* Pauses after a test that found no completed request. It fails if the wait can't end any more. */
Status wait_step(Instances *t, Wait *w, Error *e);
/* Waits until the first count of t->request are completed. */
Status wait_all(Instances *t, const Meeting *m, int count, Error *e);
/* Gives the requests of a failed meeting a moment to complete, so that few must be abandoned. */
void wait_abandon(Instances *t, int count);
Status reserve_requests(Instances *t, int count, Error *e);
Status comm_failed(Instances *t, int code, Error *e);

/* Waits until the boards show that all instances have come to the current meeting. */
Status wait_for_boards(Instances *t, const Meeting *m, Error *e);
#endif
