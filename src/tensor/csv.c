/* Two walks over the text: one counts records and checks quotes and field counts, one converts. */
#include "tensor/csv.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"

enum { COLUMN_LIMIT = 1 << 20, NUMBER = 200 };

typedef enum Ending { FIELD_ENDS, RECORD_ENDS, TEXT_ENDS } Ending;

typedef struct Csv {
  Error *error;
  const char *path, *text;
  size_t at, bytes;
  char separator;
  int64_t line;  /* of the cursor */
  int64_t begun; /* the line on which the current field began */
  int column;    /* fields of this record so far */
  Text field;    /* the current one, unquoted */
} Csv;

static Status wrong(Csv *c, const char *what) {
  return fail(c->error, ERR_VALUE, "%s: line %lld, column %d: %s", c->path, (long long)c->begun,
              c->column, what);
}

static bool at_newline(const Csv *c) { return c->text[c->at] == '\n' || c->text[c->at] == '\r'; }

static void skip_newline(Csv *c) {
  bool is_pair = c->text[c->at] == '\r' && c->at + 1 < c->bytes && c->text[c->at + 1] == '\n';
  c->at += is_pair ? 2 : 1;
  c->line++;
}

static void skip_empty_lines(Csv *c) {
  while (c->at < c->bytes && at_newline(c)) skip_newline(c);
}

static Status read_quoted(Csv *c) {
  for (c->at++; c->at < c->bytes; c->at++) {
    char x = c->text[c->at];
    if (x == '\n') c->line++;
    if (x == '"') {
      if (c->at + 1 >= c->bytes || c->text[c->at + 1] != '"') return c->at++, OK;
      c->at++; /* two stand for one */
    }
    text_add_bytes(&c->field, &x, 1);
  }
  return wrong(c, "a quote isn't closed");
}

static Status read_plain(Csv *c) {
  size_t begin = c->at;
  for (; c->at < c->bytes && c->text[c->at] != c->separator && !at_newline(c); c->at++)
    if (c->text[c->at] == '"')
      return wrong(c, "a quote inside a field that doesn't begin with one");
  text_add_bytes(&c->field, c->text + begin, c->at - begin);
  return OK;
}

static Status read_field(Csv *c, Ending *ending) {
  c->begun = c->line;
  c->column++;
  c->field.used = 0;
  text_add(&c->field, ""); /* the final zero */
  Status s = c->at < c->bytes && c->text[c->at] == '"' ? read_quoted(c) : read_plain(c);
  if (s != OK) return s;
  if (c->field.failed) return fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
  if (c->at == c->bytes) return *ending = TEXT_ENDS, OK;
  if (at_newline(c)) {
    skip_newline(c);
    skip_empty_lines(c);
    return *ending = c->at == c->bytes ? TEXT_ENDS : RECORD_ENDS, OK;
  }
  if (c->text[c->at] != c->separator) return wrong(c, "text after a closing quote");
  c->at++;
  return *ending = FIELD_ENDS, OK;
}

static void rewind_to(Csv *c, size_t at, int64_t line) {
  c->at = at;
  c->line = line;
  c->column = 0;
}

/* From the cursor to the end; fields is 0 until the first record has been read. */
static Status count_records(Csv *c, int *fields, int64_t *records) {
  Ending ending = c->at == c->bytes ? TEXT_ENDS : RECORD_ENDS;
  for (*records = 0; ending != TEXT_ENDS; ++*records) {
    int64_t line = c->line;
    c->column = 0;
    do {
      Status s = read_field(c, &ending);
      if (s != OK) return s;
      if (c->column > COLUMN_LIMIT) return wrong(c, "too many columns");
    } while (ending == FIELD_ENDS);
    if (*fields && c->column != *fields)
      return fail(c->error, ERR_VALUE, "%s: line %lld has %d column%s; the first one has %d",
                  c->path, (long long)line, c->column, plural(c->column), *fields);
    *fields = c->column;
  }
  return OK;
}

static char *trimmed(char *s) {
  while (*s == ' ' || *s == '\t') s++;
  size_t n = strlen(s);
  while (n && (s[n - 1] == ' ' || s[n - 1] == '\t')) s[--n] = 0;
  return s;
}

/* Likely causes of a field that is no number: another separator, a line of names, a column of
 * words. */
static const char *hint(const Csv *c, const char *field) {
  static const struct {
    const char *mark, *words;
  } separators[] = {{";", "; if ';' stands between the fields, say separator = \";\""},
                    {"\t", "; if tabs stand between the fields, say separator = \"\\t\""},
                    {"|", "; if '|' stands between the fields, say separator = \"|\""}};
  for (size_t i = 0; i < sizeof separators / sizeof *separators; i++)
    if (strstr(field, separators[i].mark)) return separators[i].words;
  if (!isalpha((unsigned char)*field)) return "";
  if (c->begun == 1) return "; if the first line holds names, header = true says so";
  return "; data.read_csv reads columns of words; here choose others (columns = {...}), or put a number in the place of each word";
}

static Status not_a(Csv *c, const char *kind, const char *field) {
  return fail(c->error, ERR_VALUE, "%s: line %lld, column %d: '%.60s' is no %s%s", c->path,
              (long long)c->begun, c->column, field, kind, hint(c, field));
}

static Status too_large(Csv *c, const char *field, Dtype d) {
  return fail(c->error, ERR_VALUE, "%s: line %lld, column %d: %s doesn't fit %s", c->path,
              (long long)c->begun, c->column, field, dtype_name(d));
}

/* Decimal only; strtod would take hexadecimal too. */
static Status convert_float(Csv *c, locale_t plain, const char *field, Dtype d, Tensor *t,
                            int64_t index) {
  char *end;
  bool named = strpbrk(field, "nN") != NULL;
  double x = strtod_l(field, &end, plain);
  if (*end || (!named && strspn(field, "0123456789+-.eE") != strlen(field)) || strchr(field, '('))
    return not_a(c, "number", field);
  dtype_set(d, t->data, index, x);
  if (!named && isinf(dtype_get(d, t->data, index))) return too_large(c, field, d);
  return OK;
}

static Status convert_integer(Csv *c, const char *field, Dtype d, Tensor *t, int64_t index) {
  char *end;
  errno = 0;
  long long x = strtoll(field, &end, 10);
  if (end == field || *end) return not_a(c, "integer", field);
  dtype_set_integer(d, t->data, index, x);
  if (errno || dtype_get_integer(d, t->data, index) != x) return too_large(c, field, d);
  return OK;
}

static Status convert_bool(Csv *c, const char *field, Tensor *t, int64_t index) {
  bool yes = strcmp(field, "1") == 0 || strcasecmp(field, "true") == 0;
  if (!yes && strcmp(field, "0") != 0 && strcasecmp(field, "false") != 0)
    return not_a(c, "bool", field);
  return dtype_set_integer(BOOL, t->data, index, yes), OK;
}

static bool is_missing(const char *field) {
  static const char *const marks[] = {"", "NA", "N/A", "n/a", "null", "NULL"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (!strcmp(field, marks[i])) return true;
  return false;
}

/* A whole number becomes an integer exactly, not by way of the nearest double. */
static Status set_fill(Csv *c, const CsvFill *fill, Tensor *t, int64_t index) {
  Dtype d = t->type.dtype;
  bool fits;
  if (dtype_is_float(d)) {
    dtype_set(d, t->data, index, fill->number);
    fits = isinf(fill->number) || !isinf(dtype_get(d, t->data, index));
  } else {
    dtype_set_integer(d, t->data, index, fill->whole);
    fits = fill->is_whole && dtype_get_integer(d, t->data, index) == fill->whole;
  }
  if (fits) return OK;
  return fail(c->error, ERR_VALUE,
              "%s: line %lld, column %d: the cell is missing, and fill, %g, doesn't fit %s",
              c->path, (long long)c->begun, c->column, fill->number, dtype_name(d));
}

static Status fill_missing(Csv *c, const char *field, const CsvOptions *o, Tensor *t,
                           int64_t index) {
  if (o->fill) return set_fill(c, o->fill, t, index);
  return fail(c->error, ERR_VALUE, "%s: line %lld, column %d: the cell is missing (%s); %s",
              c->path, (long long)c->begun, c->column, *field ? field : "it is empty",
              o->is_label ? "a label is never filled: leave its record out"
                          : "say what it becomes, fill = 0 for all columns or fill = {name = 0}");
}

static Status convert(Csv *c, locale_t plain, const CsvOptions *o, Tensor *t, int64_t index) {
  Dtype d = t->type.dtype;
  if (c->field.used >= NUMBER || strlen(c->field.data) != c->field.used)
    return not_a(c, "number", c->field.data);
  char *field = trimmed(c->field.data);
  if (is_missing(field)) return fill_missing(c, field, o, t, index);
  if (dtype_is_float(d)) return convert_float(c, plain, field, d, t, index);
  return d == BOOL ? convert_bool(c, field, t, index) : convert_integer(c, field, d, t, index);
}

/* Which output columns a field goes to: lists, first[field] → next[output] → …, -1 ends. */
typedef struct Selection {
  int fields, outputs;
  int *first, *next;
} Selection;

static Status convert_records(Csv *c, const CsvOptions *o, const Selection *selection, Tensor *t) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
  Status s = OK;
  Ending ending;
  for (int64_t row = 0; row < t->type.shape[0] && s == OK; row++) {
    c->column = 0;
    do {
      s = read_field(c, &ending);
      for (int k = s == OK ? selection->first[c->column - 1] : -1; k >= 0 && s == OK;
           k = selection->next[k])
        s = convert(c, plain, o, t, row * selection->outputs + k);
    } while (s == OK && ending == FIELD_ENDS);
  }
  freelocale(plain);
  return s;
}

static Status select_position(Csv *c, Selection *s, int output, int64_t position) {
  if (position < 0 || position >= s->fields)
    return fail(c->error, ERR_VALUE, "%s: no column %lld; there are %d", c->path,
                (long long)position, s->fields);
  s->next[output] = s->first[position];
  s->first[position] = output;
  return OK;
}

/* The header's field is matched with every name asked for. */
static Status select_names(Csv *c, const CsvOptions *o, Selection *s, bool *found) {
  Ending ending;
  c->column = 0;
  do {
    Status status = read_field(c, &ending);
    if (status != OK) return status;
    for (int i = 0; i < o->column_count; i++) {
      if (strcmp(o->names[i], c->field.data) != 0) continue;
      if (found[i])
        return fail(c->error, ERR_VALUE, "%s: two columns are called '%s'", c->path, o->names[i]);
      found[i] = true;
      select_position(c, s, i, c->column - 1);
    }
  } while (ending == FIELD_ENDS);
  for (int i = 0; i < o->column_count; i++)
    if (!found[i])
      return fail(c->error, ERR_VALUE, "%s: no column is called '%s'", c->path, o->names[i]);
  return OK;
}

static Status choose(Csv *c, const CsvOptions *o, Selection *s) {
  s->outputs = o->column_count ? o->column_count : s->fields;
  s->first = malloc(((size_t)s->fields + 1) * sizeof *s->first);
  s->next = malloc(((size_t)s->outputs + 1) * sizeof *s->next);
  if (!s->first || !s->next) return fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < s->fields; i++) s->first[i] = -1;
  Status status = OK;
  if (o->column_count && o->names) {
    if (!o->has_header)
      return fail(c->error, ERR_VALUE, "%s: columns can't be chosen by name without a header",
                  c->path);
    bool *found = calloc((size_t)o->column_count, sizeof *found);
    status =
        found ? select_names(c, o, s, found) : fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
    free(found);
    return status;
  }
  for (int i = 0; i < s->outputs && status == OK; i++)
    status = select_position(c, s, i, o->column_count ? o->positions[i] : i);
  return status;
}

static Status parse(Csv *c, const CsvOptions *o, Selection *selection, Tensor **out) {
  int64_t records, first_line;
  skip_empty_lines(c);
  size_t begin = c->at;
  first_line = c->line;
  Status s = count_records(c, &selection->fields, &records);
  if (s != OK) return s;
  if (selection->fields == 0) return fail(c->error, ERR_VALUE, "%s: the table is empty", c->path);
  rewind_to(c, begin, first_line);
  if ((s = choose(c, o, selection)) != OK) return s;
  rewind_to(c, begin, first_line);
  for (Ending ending = FIELD_ENDS; o->has_header && ending == FIELD_ENDS;)
    if ((s = read_field(c, &ending)) != OK) return s;
  Type type = type_make(o->dtype, 2, (int64_t[]){records - o->has_header, selection->outputs});
  Tensor *t = tensor_new(c->error, &type);
  if (!t) return ERR_OUT_OF_MEMORY;
  s = convert_records(c, o, selection, t);
  if (s != OK) return tensor_release(t), s;
  return *out = t, OK;
}

static Csv csv_of(Error *e, const char *path, const void *data, size_t bytes, char separator) {
  Csv c = {
      .error = e, .path = path, .text = data, .bytes = bytes, .separator = separator, .line = 1};
  /* UTF-8's mark */
  if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) c.text += 3, c.bytes -= 3;
  return c;
}

Status csv_parse(Error *e, const char *path, const void *data, size_t bytes, const CsvOptions *o,
                 Tensor **out) {
  Csv c = csv_of(e, path, data, bytes, o->separator ? o->separator : ',');
  Selection selection = {.fields = 0};
  *out = NULL;
  Status s = parse(&c, o, &selection, out);
  text_free(&c.field);
  free(selection.first);
  free(selection.next);
  return s;
}

Status csv_read(Error *e, const char *path, const CsvOptions *options, Tensor **out) {
  void *data;
  size_t bytes;
  *out = NULL;
  Status s = file_read_from(e, path, 0, true, file_no_zero_first, &data, &bytes);
  if (s != OK) return s;
  s = csv_parse(e, path, data, bytes, options, out);
  free(data);
  return s;
}

static Status collect_fields(Csv *c, char ***fields, int *count) {
  int capacity = 0;
  skip_empty_lines(c);
  for (Ending ending = c->at == c->bytes ? TEXT_ENDS : FIELD_ENDS; ending == FIELD_ENDS;) {
    Status s = read_field(c, &ending);
    if (s != OK) return s;
    if (c->column > COLUMN_LIMIT) return wrong(c, "too many columns");
    char *copy = strdup(c->field.data);
    if (!copy || !array_reserve(fields, &capacity, *count + 1, sizeof **fields)) {
      free(copy);
      return fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
    }
    (*fields)[(*count)++] = copy;
  }
  return OK;
}

Status csv_first_record(Error *e, const char *path, char separator, char ***fields, int *count) {
  void *data;
  size_t bytes;
  *fields = NULL, *count = 0;
  Status s = file_read_from(e, path, 0, true, file_no_zero_first, &data, &bytes);
  if (s != OK) return s;
  Csv c = csv_of(e, path, data, bytes, separator);
  s = collect_fields(&c, fields, count);
  text_free(&c.field);
  free(data);
  if (s == OK) return OK;
  for (int i = 0; i < *count; i++) free((*fields)[i]);
  free(*fields);
  return *fields = NULL, *count = 0, s;
}

static Status take_cells(Csv *c, CsvTake *take, void *context, int *fields, int64_t *records) {
  skip_empty_lines(c);
  size_t begin = c->at;
  int64_t line = c->line;
  Status s = count_records(c, fields, records);
  rewind_to(c, begin, line);
  for (int64_t record = 0; record < *records && s == OK; record++) {
    Ending ending = FIELD_ENDS;
    for (c->column = 0; s == OK && ending == FIELD_ENDS;) {
      s = read_field(c, &ending);
      if (s == OK && !take(context, record, c->column - 1, c->field.data, c->field.used))
        s = fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
    }
  }
  return s;
}

Status csv_read_cells(Error *e, const char *path, char separator, CsvTake *take, void *context,
                      int *fields, int64_t *records) {
  void *data;
  size_t bytes;
  *fields = 0, *records = 0;
  Status s = file_read_from(e, path, 0, true, file_no_zero_first, &data, &bytes);
  if (s != OK) return s;
  Csv c = csv_of(e, path, data, bytes, separator);
  s = take_cells(&c, take, context, fields, records);
  text_free(&c.field);
  free(data);
  return s;
}
