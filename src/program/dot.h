/* A program for Graphviz. */
#ifndef IPULUA_PROGRAM_DOT_H
#define IPULUA_PROGRAM_DOT_H
#include "program/program.h"

char *program_dot(const Program *p); /* free() it; NULL: memory is out */
#endif
