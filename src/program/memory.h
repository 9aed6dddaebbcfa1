/* The plan of a program's memory: buffers whose lives don't overlap share bytes. */
#ifndef IPULUA_PROGRAM_MEMORY_H
#define IPULUA_PROGRAM_MEMORY_H
#include "program/program.h"

/* May the two be live at once? */
bool buffers_overlap(const Buffer *a, const Buffer *b);
/* Offsets for ARENA buffers of the one home or the other; returns the bytes in all, SIZE_MAX when
 * memory is out. */
size_t plan_memory(Buffer *buffers, int count, bool remote);
/* The most bytes of ARENA buffers, streaming memory apart, that are live at one step: no plan
 * can need less. */
size_t most_live_bytes(Buffer *buffers, int count);
#endif
