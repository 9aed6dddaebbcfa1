/* Tables of numbers as text (RFC 4180). */
#ifndef IPULUA_TENSOR_CSV_H
#define IPULUA_TENSOR_CSV_H
#include "tensor/tensor.h"

typedef struct CsvFill {
  double number;
  int64_t whole; /* the same, where is_whole */
  bool is_whole;
} CsvFill;

typedef struct CsvOptions {
  Dtype dtype;
  char separator;  /* 0: a comma */
  bool has_header; /* the first record names the columns */
  /* The columns to read, in order, by name or by position from 0; column_count 0: all. One of the
   * two lists is NULL. */
  int column_count;
  const char *const *names;
  const int64_t *positions;
  const CsvFill *fill; /* the value of a missing cell (empty, NA, N/A, null); NULL: an error */
  bool is_label;       /* the cells are labels, which have no fill: the error says so */
} CsvOptions;

/* A tensor [records, columns]. Records end with LF, CRLF or CR and have the same number of fields.
 * Empty lines are skipped. Numbers may have spaces around them. bool reads 0, 1, true and false.
 * Messages name line and column, both from 1. */
Status csv_parse(Error *e, const char *path, const void *data, size_t bytes,
                 const CsvOptions *options, Tensor **out);
/* All cells as text, record by record: (context, record from 0, column from 0, text). The caller
 * may treat the first record as a header. *fields is the number of fields of each record. */
typedef bool CsvTake(void *context, int64_t record, int column, const char *text, size_t bytes);
Status csv_read_cells(Error *e, const char *path, char separator, CsvTake *take, void *context,
                      int *fields, int64_t *records);
/* csv_parse of a file, which may be gzipped. */
Status csv_read(Error *e, const char *path, const CsvOptions *options, Tensor **out);
/* The fields of the first record, which are the columns' names if it is a header. The caller frees
 * each and the list. */
Status csv_first_record(Error *e, const char *path, char separator, char ***fields, int *count);
#endif
