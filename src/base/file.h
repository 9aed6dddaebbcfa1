/* Whole files: read (inflating gzip), and replace in one step. */
#ifndef IPULUA_BASE_FILE_H
#define IPULUA_BASE_FILE_H
#include "base/status.h"
/* The caller frees *data. A file of more than limit bytes (0: 16 GiB) is ERR_OUT_OF_RANGE. inflate:
 * gzipped files are inflated, and damage or trailing bytes are errors. A zero byte follows the
 * data, which *size doesn't include. */
Status file_read(Error *e, const char *path, size_t limit, bool inflate, void **data,
                 size_t *bytes);
/* Reads up to capacity bytes from the beginning of the same content. So a header can be read for
 * the size before memory is allocated. */
Status file_read_start(Error *e, const char *path, bool inflate, void *data, size_t capacity,
                       size_t *bytes);
/* Written to a temporary sibling, fsynced, renamed, folder fsynced. */
Status file_write(Error *e, const char *path, const void *data, size_t bytes);
bool file_exists(const char *path);

/* The same in pieces: the file appears, whole, with file_commit. Both _commit and _abort free w. */
typedef struct FileWriter FileWriter;
FileWriter *file_begin(Error *e, const char *path);
Status file_append(Error *e, FileWriter *w, const void *data, size_t bytes);
Status file_commit(Error *e, FileWriter *w);
void file_abort(FileWriter *w); /* removes the temporary file; NULL is fine */
#endif
