/* What the machine has left, so that a block that can't be is refused before the system ends the
 * process. */
#ifndef IPULUA_BASE_MEMORY_H
#define IPULUA_BASE_MEMORY_H
#include <stdbool.h>
#include <stddef.h>

/* Whether a block of so many bytes can be filled. Small ones always; true where the system does
 * not say. */
bool memory_has_room(size_t bytes);
#endif
