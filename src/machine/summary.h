/* A price as text for people. Each returns a string to free(), NULL when memory is out. */
#ifndef IPULUA_MACHINE_SUMMARY_H
#define IPULUA_MACHINE_SUMMARY_H
#include "machine/priced.h"

char *profile_text(const Price *p);
/* A change that only the caller can make, with the price of the changed program. */
typedef struct Remedy {
  const char *words;
  const Price *price;
} Remedy;
/* Why the program doesn't fit, and remedies: changes of the machine's options, priced here, and the
 * caller's. */
char *profile_complaint(const Price *p, const Remedy *remedies, int count);
#endif
