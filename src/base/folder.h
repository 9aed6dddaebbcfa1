/* Folders: made, listed, put in place in one step, removed. */
#ifndef IPULUA_BASE_FOLDER_H
#define IPULUA_BASE_FOLDER_H
#include "base/status.h"
/* With all folders above it; one that is there already is fine. */
Status folder_make(Error *e, const char *path);
/* Names in the folder but "." and "..", sorted; folder_list_free them. */
Status folder_list(Error *e, const char *path, char ***names, int *count);
void folder_list_free(char **names, int count);
bool folder_exists(const char *path);
/* from, whose files are durable, becomes to, and durably so. What to was before is then at from
 * (*swapped): at every moment to is the one or the other, or (on file systems that can't
 * exchange) missing for an instant. */
Status folder_replace(Error *e, const char *from, const char *to, bool *swapped);
/* With all that is in it; a link in it is removed, not followed. A missing one is fine. */
Status folder_remove(Error *e, const char *path);
#endif
