/* "Did you mean …?": the known name with the fewest edits to one that is not known. */
#ifndef IPULUA_BASE_NEAREST_H
#define IPULUA_BASE_NEAREST_H

/* The number of characters to insert, delete or replace. For long names it is above any limit. */
int nearest_distance(const char *a, const char *b);
/* The number of edits from which on a name counts as a different one. */
int nearest_limit(const char *given);
/* The first of the nearest names; NULL if none is below the limit. names ends with NULL. */
const char *nearest_name(const char *given, const char *const *names);
#endif
