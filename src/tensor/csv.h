/* Tables of numbers as text (RFC 4180). */
#ifndef IPULUA_TENSOR_CSV_H
#define IPULUA_TENSOR_CSV_H
#include "tensor/tensor.h"

typedef struct CsvOptions {
  Dtype dtype;
  char separator;  /* 0: a comma */
  bool has_header; /* the first record names the columns */
  /* Which columns, in which order, by name or by position from 0; column_count 0: all. One of
   * the two is NULL. */
  int column_count;
  const char *const *names;
  const int64_t *positions;
  const double *fill; /* what a missing cell (empty, NA, N/A, null) becomes; NULL: an error */
} CsvOptions;

/* [records, columns]. Records end with LF or CRLF and have equally many fields; empty lines
 * don't count. Spaces around numbers are fine; bool takes 0 1 true false. Messages name line and
 * column, both from 1. */
Status csv_parse(Error *e, const char *path, const void *data, size_t bytes,
                 const CsvOptions *options, Tensor **out);
/* All cells as text, record by record: (context, record from 0, column from 0, text). The first
 * record is a header where the caller says so. *fields: of each record. */
typedef bool CsvTake(void *context, int64_t record, int column, const char *text, size_t bytes);
Status csv_read_cells(Error *e, const char *path, char separator, CsvTake *take, void *context,
                      int *fields, int64_t *records);
/* gzipped or not */
Status csv_read(Error *e, const char *path, const CsvOptions *options, Tensor **out);
/* The fields of the first record: the columns' names, if it is a header. free() each and the
 * list. */
Status csv_first_record(Error *e, const char *path, char separator, char ***fields, int *count);
#endif
