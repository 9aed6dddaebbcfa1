#include "base/status.h"

#include <stdio.h>
#include <string.h>

#define X(id, kind, code) [id] = {kind, code},
static const struct {
  const char *kind, *code;
} status_info[STATUS_COUNT] = {STATUSES(X)};
#undef X

Status failv(Error *e, Status s, const char *format, va_list args) {
  if (!e || e->status != OK) return s;
  e->status = s;
  e->source[0] = 0;
  vsnprintf(e->message, sizeof e->message, format, args);
  return s;
}

Status fail(Error *e, Status s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  failv(e, s, format, args);
  va_end(args);
  return s;
}

Status fail_at(Error *e, const char *source, Status s, const char *format, ...) {
  bool first = e && e->status == OK;
  va_list args;
  va_start(args, format);
  failv(e, s, format, args);
  va_end(args);
  if (first && source) snprintf(e->source, sizeof e->source, "%s", source);
  return s;
}

void error_clear(Error *e) { memset(e, 0, offsetof(Error, message) + 1), e->source[0] = 0; }
const char *status_kind(Status s) { return s < STATUS_COUNT ? status_info[s].kind : "internal"; }
const char *status_code(Status s) {
  return s < STATUS_COUNT ? status_info[s].code : "IPU_E_INTERNAL";
}
