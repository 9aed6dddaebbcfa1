/* A lock on writing to a folder. It ends with its process, and leaves no file. Readers need no
 * lock. */
#ifndef IPULUA_BASE_LOCK_H
#define IPULUA_BASE_LOCK_H
#include "base/status.h"
typedef struct FolderLock FolderLock;
/* Waits up to `seconds` for another holder, which may be in this process. Then it returns NULL with
 * e filled, which names the holder's process id. On file systems without locks the folder counts as
 * free. */
FolderLock *folder_lock(Error *e, const char *folder, double seconds);
/* False: the folder has been replaced by another one. */
bool folder_lock_holds(const FolderLock *l, const char *folder);
void folder_unlock(FolderLock *l); /* NULL is fine */
#endif
