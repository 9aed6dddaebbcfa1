/* Whole files: read (inflating gzip), and replace in one step. */
#ifndef IPULUA_BASE_FILE_H
#define IPULUA_BASE_FILE_H
#include "base/status.h"
/* free(*data) it. limit: refuse more bytes (0: 16 GiB). gzipped files are inflated when inflate is set. */
Status file_read(Error *e, const char *path, size_t limit, bool inflate, void **data, size_t *bytes);
/* Written to a temporary sibling, fsynced, renamed, folder fsynced. */
Status file_write(Error *e, const char *path, const void *data, size_t bytes);
bool file_exists(const char *path);
#endif
