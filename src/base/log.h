/* A log with one line for each event. Each context has a Log, whose level selects the events and
 * whose sink receives the lines. */
#ifndef IPULUA_BASE_LOG_H
#define IPULUA_BASE_LOG_H
#include <stdbool.h>

/* id, name in IPULUA_LOG. In order: a level shows itself and those before it. */
/* clang-format off */
#define LOG_LEVELS(X)   \
  X(LOG_ERROR, "error") \
  X(LOG_WARN, "warn")   \
  X(LOG_INFO, "info")   \
  X(LOG_DEBUG, "debug")
/* clang-format on */
#define X(id, name) id,
typedef enum LogLevel { LOG_LEVELS(X) LOG_LEVEL_COUNT } LogLevel;
#undef X

/* line has no newline and no level, and is valid during the call only. Threads may call at once. */
typedef void (*LogSink)(void *context, LogLevel level, const char *line);

typedef struct Log {
  LogLevel level;
  LogSink sink;
  void *context;
} Log;

/* Warnings and errors to stderr, unless level_name (from IPULUA_LOG; NULL and "" are allowed) names
 * another level. False if it names none: the log can be used all the same. */
bool log_init(Log *log, const char *level_name);
/* Whether the level is shown, to be asked before a line is built. */
static inline bool log_shows(const Log *log, LogLevel level) { return log && level <= log->level; }
/* Lines are cut at 2000 bytes. A NULL log ignores them. */
void log_line(const Log *log, LogLevel level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
