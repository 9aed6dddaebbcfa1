/* The memory that the machine has left. A block that is too large is refused before the system
 * kills the process. */
#ifndef IPULUA_BASE_MEMORY_H
#define IPULUA_BASE_MEMORY_H
#include <stdbool.h>
#include <stddef.h>

/* Whether a block of this size can be used. True for small ones, and if the system doesn't report
 * it. */
bool memory_has_room(size_t bytes);
#endif
