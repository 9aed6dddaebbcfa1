/* Whole files: read (inflating gzip), and replace in one step. */
#ifndef IPULUA_BASE_FILE_H
#define IPULUA_BASE_FILE_H
#include "base/status.h"
/* free(*data) it. limit: more bytes are ERR_OUT_OF_RANGE (0: 16 GiB). gzipped files are inflated
 * when inflate is set; damage in them and bytes behind them are errors. A zero byte that doesn't
 * count follows the data. */
Status file_read(Error *e, const char *path, size_t limit, bool inflate, void **data,
                 size_t *bytes);
/* The first bytes of the same content, as many as there are up to capacity: a header that says
 * how much to expect, before anything is allocated for it. */
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
void file_abort(FileWriter *w); /* nothing is left behind; NULL is fine */
#endif
