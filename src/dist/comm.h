/* What a plug-in for communication offers: bytes from one process to another, and nothing else.
 * Each function gives 0 or the library's code; none waits for another process. One thread calls at
 * a time. The order of additions, waiting, agreement and ending are instances.h's. */
#ifndef IPULUA_DIST_COMM_H
#define IPULUA_DIST_COMM_H
#include <stddef.h>
#include <stdint.h>

enum { COMM_VERSION = 1 };

typedef struct CommRequest CommRequest; /* the plug-in's */

typedef struct Comm {
  int32_t version, struct_size;
  /* Joins the others. library: what it calls itself, with its version. */
  int (*begin)(int32_t *rank, int32_t *size, char *library, size_t n);
  /* Begin to move bytes; data stays until the request is done. control: on a channel of its own. */
  int (*send)(const void *data, int64_t bytes, int32_t to, int32_t tag, int32_t control,
              CommRequest **out);
  int (*receive)(void *data, int64_t bytes, int32_t from, int32_t tag, int32_t control,
                 CommRequest **out);
  /* Never waits. Requests that are done become NULL; NULLs are done. */
  int (*test)(CommRequest **requests, int32_t count, int32_t *done);
  /* The next message of the control channel; from = -1: there is none. */
  int (*look)(int32_t *from, int32_t *bytes);
  /* Memory that all processes see: this one's part, and the parts of all, in order. All call it,
   * once, right after they have begun. mine NULL: they are not all of one host. The function NULL:
   * not offered. */
  int (*share)(int64_t bytes, void **mine, void **all);
  const char *(*words)(int code);
  void (*abort)(int32_t status); /* ends all processes */
  int (*end)(void);              /* after which nothing may be called */
} Comm;

#define COMM_SYMBOL "comm_table" /* extern const Comm comm_table: the one symbol of a plug-in */
#endif
