/* Reporting of failures: a Status is returned, and a message for users is put into the context's
 * Error. The first failure is kept, as it is the cause. */
#ifndef IPULUA_BASE_STATUS_H
#define IPULUA_BASE_STATUS_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* id, kind as ipu.last_error() shows it, code. The one list of failure kinds. */
/* clang-format off */
#define STATUSES(X)                                              \
  X(OK, "ok", "IPU_OK")                                          \
  X(ERR_VALUE, "value", "IPU_E_VALUE")                           \
  X(ERR_TYPE, "type", "IPU_E_TYPE")                              \
  X(ERR_INVALID_ARGUMENT, "invalid_argument", "IPU_E_INVALID_ARGUMENT")          \
  X(ERR_FAILED_PRECONDITION, "failed_precondition", "IPU_E_FAILED_PRECONDITION") \
  X(ERR_NOT_FOUND, "not_found", "IPU_E_NOT_FOUND")               \
  X(ERR_NOT_IMPLEMENTED, "not_implemented", "IPU_E_NOT_IMPLEMENTED")             \
  X(ERR_OUT_OF_RANGE, "out_of_range", "IPU_E_OUT_OF_RANGE")      \
  X(ERR_OUT_OF_MEMORY, "out_of_memory", "IPU_E_OUT_OF_MEMORY")   \
  X(ERR_RUNTIME, "runtime", "IPU_E_RUNTIME")                     \
  X(ERR_CANCELLED, "runtime", "IPU_E_CANCELLED")                 \
  X(ERR_INTERNAL, "internal", "IPU_E_INTERNAL")
/* clang-format on */

#define X(id, kind, code) id,
typedef enum Status { STATUSES(X) STATUS_COUNT } Status;
#undef X

typedef struct Error {
  Status status;
  char message[2000]; /* cut, never overrun */
  /* "script.lua:12" of the node that failed; "": the line of the caller */
  char source[200];
} Error;

/* The plural ending of a noun after its number: "" for 1, otherwise "s". */
static inline const char *plural(long long n) { return n == 1 ? "" : "s"; }

/* Fills e, unless it is NULL or holds an earlier failure, and returns s. */
Status fail(Error *e, Status s, const char *format, ...) __attribute__((format(printf, 3, 4)));
Status failv(Error *e, Status s, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* The same, blaming a script line: source is "file:line" or NULL. */
Status fail_at(Error *e, const char *source, Status s, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void error_clear(Error *e);
const char *status_kind(Status s);
const char *status_code(Status s);
#endif
