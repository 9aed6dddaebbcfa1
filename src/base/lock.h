/* A folder that one process alone writes to while it has the lock, which goes with the process.
 * Reading needs none, and nothing is left behind. */
#ifndef IPULUA_BASE_LOCK_H
#define IPULUA_BASE_LOCK_H
#include "base/status.h"
typedef struct FolderLock FolderLock;
/* Waits so many seconds for another process (or lock of this one) that has it; then NULL with e
 * filled, which tells that process's number. Where the file system has no locks, it is taken as
 * free. */
FolderLock *folder_lock(Error *e, const char *folder, double seconds);
/* false: somebody replaced it by another folder */
bool folder_lock_holds(const FolderLock *l, const char *folder);
void folder_unlock(FolderLock *l); /* NULL is fine */
#endif
