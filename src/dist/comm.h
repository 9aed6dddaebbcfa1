/* The interface of a plug-in for communication: it moves bytes from one process to another. Each
 * function gives 0 or the library's code; none waits for another process. One thread calls at a
 * time. The order of additions, waiting, agreement and ending are left to instances.h. */
#ifndef IPULUA_DIST_COMM_H
#define IPULUA_DIST_COMM_H
#include <stddef.h>
#include <stdint.h>

enum { COMM_VERSION = 1 };

typedef struct CommRequest CommRequest; /* the plug-in's */

typedef struct Comm {
  int32_t version, struct_size;
  /* Joins the others. library: its name and version. */
  int (*begin)(int32_t *rank, int32_t *size, char *library, size_t n);
  /* Begin to move bytes; data stays until the request is done. control: on a channel of its own. */
  int (*send)(const void *data, int64_t bytes, int32_t to, int32_t tag, int32_t control,
              CommRequest **out);
  int (*receive)(void *data, int64_t bytes, int32_t from, int32_t tag, int32_t control,
                 CommRequest **out);
  /* Never waits. Completed requests become NULL, and NULL counts as completed. */
  int (*test)(CommRequest **requests, int32_t count, int32_t *done);
  /* The sender and size of the next message of the control channel. *from is -1 if there is
   * none. */
  int (*look)(int32_t *from, int32_t *bytes);
  /* Memory shared by all processes of one host: this process's part, and the parts of all by rank.
   * All processes call it once, right after begin. *mine is NULL if they run on several hosts. A
   * plug-in without shared memory sets the function to NULL. */
  int (*share)(int64_t bytes, void **mine, void **all);
  const char *(*words)(int code);
  void (*abort)(int32_t status); /* ends all processes */
  int (*end)(void);              /* no function may be called afterwards */
} Comm;

#define COMM_SYMBOL "comm_table" /* extern const Comm comm_table: the one symbol of a plug-in */
#endif
