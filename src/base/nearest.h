/* "Did you mean …?": the known name with the fewest edits to one that is not known. */
#ifndef IPULUA_BASE_NEAREST_H
#define IPULUA_BASE_NEAREST_H

/* Characters to insert, delete or replace; more than any limit for long names. */
int nearest_distance(const char *a, const char *b);
/* As many edits as make another name of this one. */
int nearest_limit(const char *given);
/* The first of the nearest names, which NULL ends; NULL when none is below the limit. */
const char *nearest_name(const char *given, const char *const *names);
#endif
