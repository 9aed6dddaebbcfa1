/* Making, listing, replacing and removing folders. */
#ifndef IPULUA_BASE_FOLDER_H
#define IPULUA_BASE_FOLDER_H
#include "base/status.h"
/* Makes the folder and its parents. An existing folder is no error. */
Status folder_make(Error *e, const char *path);
/* Names in the folder but "." and "..", sorted; folder_list_free them. */
Status folder_list(Error *e, const char *path, char ***names, int *count);
void folder_list_free(char **names, int count);
bool folder_exists(const char *path);
/* Renames the folder `from` to `to`, durably; the files in it must be durable already. If `to`
 * exists, the two are exchanged, and *swapped is true. `to` is always the old or the new folder. On
 * file systems without an exchange it is missing for an instant. */
Status folder_replace(Error *e, const char *from, const char *to, bool *swapped);
/* Removes a folder and its content. Links in it are removed, not followed. A missing folder is no
 * error. */
Status folder_remove(Error *e, const char *path);
#endif
