/* A price as text for programs and for trace viewers. Each returns a string to free(), NULL when
 * memory is out. docs/reference/profile.md describes the JSON. */
#ifndef IPULUA_MACHINE_PROFILE_H
#define IPULUA_MACHINE_PROFILE_H
#include "machine/priced.h"

enum { PROFILE_VERSION = 1 };

/* extra: a JSON object with further facts of the caller (runs, options). It becomes the member
 * "session". */
char *profile_json(const Price *p, const char *extra);
/* Trace events for Chrome's viewer and Perfetto: a thread for each IPU; a microsecond is one of
 * the IPU's. */
char *profile_trace(const Price *p);
#endif
