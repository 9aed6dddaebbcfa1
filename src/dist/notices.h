/* Messages between instances outside of meetings. Inside of this folder only. */
#ifndef IPULUA_DIST_NOTICES_H
#define IPULUA_DIST_NOTICES_H
#include "dist/internal.h"

void notice_send(Instances *t, NoticeKind kind, int status, const char *words);
/* Receives all notices that have arrived. */
void notices_take(Instances *t);
bool notices_sent(Instances *t);
/* Records the job's failure, unless one is known already. The recorded one is put into e and
 * returned. */
Status job_failed(Instances *t, Error *e, Status s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sends this instance's meeting, receives the others', and fails with a message that names both. */
Status tell_difference(Instances *t, const Meeting *m, Error *e);
#endif
