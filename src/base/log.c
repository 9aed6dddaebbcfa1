#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define X(id, name) [id] = name,
static const char *const level_names[LOG_LEVEL_COUNT] = {LOG_LEVELS(X)};
#undef X

static bool find_level(const char *name, LogLevel *out) {
  for (int i = 0; i < LOG_LEVEL_COUNT; i++)
    if (strcmp(name, level_names[i]) == 0) return *out = (LogLevel)i, true;
  return false;
}

static void to_stderr(void *context, LogLevel level, const char *line) {
  (void)context;
  fprintf(stderr, "ipulua: %s: %s\n", level_names[level], line);
}

bool log_init(Log *log, const char *level_name) {
  *log = (Log){.level = LOG_WARN, .sink = to_stderr};
  return !level_name || !*level_name || find_level(level_name, &log->level);
}

void log_line(const Log *log, LogLevel level, const char *format, ...) {
  if (!log_shows(log, level) || !log->sink) return;
  char line[2000];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  log->sink(log->context, level, line);
}
