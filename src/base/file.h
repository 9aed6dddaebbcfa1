/* Whole files: read (inflating gzip), and replace in one step. */
#ifndef IPULUA_BASE_FILE_H
#define IPULUA_BASE_FILE_H
#include "base/status.h"
/* The caller frees *data. A file of more than limit bytes (0: 16 GiB) is ERR_OUT_OF_RANGE. inflate:
 * gzipped files are inflated, and damage or trailing bytes are errors. A zero byte follows the
 * data, which *size doesn't include. */
Status file_read(Error *e, const char *path, size_t limit, bool inflate, void **data,
                 size_t *bytes);
/* Looks at the first bytes of a file, and fails if they are not of its format. Sets *total to the
 * bytes of the whole file once `bytes` of them are enough to know. Until then it leaves *total, and
 * is asked again with more. It is first asked with 128 KiB, or with a shorter file's whole
 * content. */
typedef Status FileBeginning(Error *e, const char *path, const void *start, size_t bytes,
                             size_t *total);
/* The same, which fails as soon as the beginning is wrong. A pipe, a device or a gzipped file may
 * have no end. So it is read up to *total + 1 bytes, and its reader calls it oversized. */
Status file_read_from(Error *e, const char *path, size_t limit, bool inflate,
                      FileBeginning *beginning, void **data, size_t *bytes);
/* Of formats that no zero byte begins: refuses zeros without end, as of /dev/zero. */
FileBeginning file_no_zero_first;
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
