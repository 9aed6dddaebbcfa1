/* Dequeues that may read the next element while the current one is processed. */
#ifndef IPULUA_PROGRAM_READ_AHEAD_H
#define IPULUA_PROGRAM_READ_AHEAD_H
#include "program/program.h"

/* Finds them, and makes their second buffers. A program of one thread needs none. */
Status read_ahead_make(Error *e, Program *p);
void read_ahead_free(Program *p);
#endif
