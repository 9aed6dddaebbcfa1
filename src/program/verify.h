/* Checks that a program is valid. */
#ifndef IPULUA_PROGRAM_VERIFY_H
#define IPULUA_PROGRAM_VERIFY_H
#include "program/program.h"

Status program_verify(Error *e, const Program *p);
#endif
