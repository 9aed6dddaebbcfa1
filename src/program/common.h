/* The part of a program that must be equal on all instances that run it together. */
#ifndef IPULUA_PROGRAM_COMMON_H
#define IPULUA_PROGRAM_COMMON_H
#include "program/program.h"

/* A text with a line for each node; lines of the script follow a tab. free() it. NULL: memory is
 * out. */
char *program_common_text(const Program *p);
#endif
