/* A program as text. */
#ifndef IPULUA_PROGRAM_TEXT_H
#define IPULUA_PROGRAM_TEXT_H
#include "program/program.h"

char *program_text(const Program *p); /* a line a step; free() it. NULL: memory is out */
#endif
