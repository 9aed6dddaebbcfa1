/* The plan of a program's memory: buffers whose lives don't overlap share bytes. */
#ifndef IPULUA_PROGRAM_MEMORY_H
#define IPULUA_PROGRAM_MEMORY_H
#include "program/program.h"

/* Whether the two may be live at once. */
bool buffers_overlap(const Buffer *a, const Buffer *b);
/* Sets the offsets of ARENA buffers, in streaming memory (remote) or outside of it. Returns the
 * total bytes; SIZE_MAX when memory is out. */
size_t plan_memory(Buffer *buffers, int count, bool remote);
/* The maximum over all steps of the bytes of live ARENA buffers, without streaming memory. It is a
 * lower bound for any plan. */
size_t max_live_bytes(Buffer *buffers, int count);
#endif
