/* What instances that run a program together must have in common. */
#ifndef IPULUA_PROGRAM_COMMON_H
#define IPULUA_PROGRAM_COMMON_H
#include "program/program.h"

/* A line for each node; the script's lines follow a tab. free() it. NULL: memory is out. */
char *program_common_text(const Program *p);
#endif
