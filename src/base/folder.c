#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"

enum { MAX_DEPTH = 64 };

static Status system_failed(Error *e, const char *path, const char *what, int number) {
  char buffer[128];
  Status s = number == ENOENT || number == ENOTDIR ? ERR_NOT_FOUND : ERR_RUNTIME;
  return fail(e, s, "%s: %s: %s", path, what, strerror_r(number, buffer, sizeof buffer));
}

static Status out_of_memory(Error *e) { return fail(e, ERR_OUT_OF_MEMORY, "out of memory"); }

bool folder_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static Status make_one(Error *e, const char *path) {
  if (mkdir(path, 0777) == 0 || (errno == EEXIST && folder_exists(path))) return OK;
  if (errno == EEXIST)
    return fail(e, ERR_RUNTIME, "%s: cannot make the folder: a file has that name", path);
  return system_failed(e, path, "cannot make the folder", errno);
}

Status folder_make(Error *e, const char *path) {
  char *copy = strdup(path);
  if (!copy) return out_of_memory(e);
  Status s = OK;
  for (char *p = copy + 1; s == OK && copy[0] && *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    s = make_one(e, copy);
    *p = '/';
  }
  if (s == OK) s = make_one(e, copy);
  free(copy);
  return s;
}

void folder_list_free(char **names, int count) {
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
}

Status folder_list(Error *e, const char *path, char ***names, int *count) {
  *names = NULL, *count = 0;
  int capacity = 0;
  DIR *d = opendir(path);
  if (!d) return system_failed(e, path, "cannot read the folder", errno);
  Status s = OK;
  for (struct dirent *entry; s == OK && (entry = readdir(d));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    char *copy = strdup(entry->d_name);
    if (copy && array_reserve(names, &capacity, *count + 1, sizeof **names))
      (*names)[(*count)++] = copy;
    else free(copy), s = out_of_memory(e);
  }
  closedir(d);
  if (s != OK) {
    folder_list_free(*names, *count);
    return *names = NULL, *count = 0, s;
  }
  if (*count) qsort(*names, (size_t)*count, sizeof **names, text_order);
  return OK;
}

static void sync_folder(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd); /* a file system that can't is no failure */
  close(fd);
}

static void sync_parent(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) {
    sync_folder(".");
    return;
  }
  char *parent = strndup(path, slash == path ? 1 : (size_t)(slash - path));
  if (parent) sync_folder(parent);
  free(parent);
}

Status folder_replace(Error *e, const char *from, const char *to, bool *swapped) {
  sync_folder(from);
  *swapped = folder_exists(to);
  int failed =
      *swapped ? renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) : rename(from, to);
  if (failed && *swapped && (errno == EINVAL || errno == ENOSYS)) { /* no exchange here */
    *swapped = false;
    Status s = folder_remove(e, to);
    if (s != OK) return s;
    failed = rename(from, to);
  }
  if (failed) return system_failed(e, to, "cannot put the folder in place", errno);
  sync_parent(to);
  return OK;
}

static Status remove_tree(Error *e, const char *path, int depth) {
  struct stat info;
  if (lstat(path, &info) != 0)
    return errno == ENOENT ? OK : system_failed(e, path, "cannot remove", errno);
  if (!S_ISDIR(info.st_mode))
    return unlink(path) == 0 || errno == ENOENT ? OK
                                                : system_failed(e, path, "cannot remove", errno);
  if (depth == MAX_DEPTH)
    return fail(e, ERR_VALUE, "%s: folders are nested too deeply to remove", path);
  char **names;
  int count;
  Status s = folder_list(e, path, &names, &count);
  for (int i = 0; i < count && s == OK; i++) {
    size_t size = strlen(path) + strlen(names[i]) + 2;
    char *inner = malloc(size);
    if (inner) snprintf(inner, size, "%s/%s", path, names[i]);
    s = inner ? remove_tree(e, inner, depth + 1) : out_of_memory(e);
    free(inner);
  }
  folder_list_free(names, count);
  if (s != OK) return s;
  return rmdir(path) == 0 || errno == ENOENT ? OK : system_failed(e, path, "cannot remove", errno);
}

Status folder_remove(Error *e, const char *path) { return remove_tree(e, path, 0); }
