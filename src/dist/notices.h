/* What instances tell each other beside their meetings. Inside of this folder only. */
#ifndef IPULUA_DIST_NOTICES_H
#define IPULUA_DIST_NOTICES_H
#include "dist/internal.h"

void notice_send(Instances *t, NoticeKind kind, int status, const char *words);
/* Takes in all that has arrived. */
void notices_take(Instances *t);
bool notices_sent(Instances *t);
/* The failure of the job, once it is known, and e. */
Status job_failed(Instances *t, Error *e, Status s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Says where this instance is, hears the others, and fails with both sides. */
Status tell_difference(Instances *t, const Meeting *m, Error *e);
#endif
