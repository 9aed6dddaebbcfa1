/* Checks of base/ and tensor/ that Lua can't reach: views, failures, hostile files. Run from the
 * repository's root. Prints what failed; exit status 1 if anything did. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "base/file.h"
#include "base/library.h"
#include "base/log.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/text.h"
#include "scratch.h"
#include "tensor/cifar.h"
#include "tensor/csv.h"
#include "tensor/decimal.h"
#include "tensor/idx.h"
#include "tensor/image.h"
#include "tensor/npy.h"
#include "tensor/print.h"
#include "tensor/safetensors.h"
#ifdef HAVE_LIBJPEG
#include <jpeglib.h>
#endif

static int checks, failures;

static void check_at(bool ok, const char *file, int line, const char *what) {
  checks++;
  if (ok) return;
  if (failures++ < 40) fprintf(stderr, "%s:%d: %s\n", file, line, what);
}
#define CHECK(condition) check_at((condition), __FILE__, __LINE__, #condition)

/* ---- allocations that fail: the Makefile has the linker send them here ---- */

static long allocations_left = -1; /* -1: no end */

static bool may_allocate(void) {
  if (allocations_left < 0) return true;
  return allocations_left > 0 && allocations_left-- > 0;
}

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
char *__real_strdup(const char *);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
char *__wrap_strdup(const char *);
void *__wrap_malloc(size_t n) { return may_allocate() ? __real_malloc(n) : NULL; }
void *__wrap_calloc(size_t n, size_t size) {
  return may_allocate() ? __real_calloc(n, size) : NULL;
}
void *__wrap_realloc(void *p, size_t n) { return may_allocate() ? __real_realloc(p, n) : NULL; }
char *__wrap_strdup(const char *s) { return may_allocate() ? __real_strdup(s) : NULL; }

/* ---- libzip allocates by itself: these fail by their number ---- */

static long zip_calls_left = -1; /* -1: no end */
static __typeof__(zip_source_buffer) *real_source_buffer;
static __typeof__(zip_file_add) *real_file_add;

static bool may_zip(void) { return zip_calls_left < 0 || zip_calls_left-- > 0; }

/* Of the two ways in which it may fail, the one that has freed what it was to own. */
static zip_source_t *failing_source_buffer(zip_t *z, const void *data, zip_uint64_t bytes,
                                           int owns) {
  if (may_zip()) return real_source_buffer(z, data, bytes, owns);
  if (owns) free((void *)(uintptr_t)data);
  return NULL;
}
static zip_int64_t failing_file_add(zip_t *z, const char *name, zip_source_t *source,
                                    zip_flags_t flags) {
  return may_zip() ? real_file_add(z, name, source, flags) : -1;
}

/* An address as dlsym gives it: of an object, with the bytes of the function's. */
static void *replace(void *found, void *real, const void *replacement) {
  memcpy(real, &found, sizeof found);
  memcpy(&found, replacement, sizeof found);
  return found;
}

void *__real_dlsym(void *, const char *);
void *__wrap_dlsym(void *, const char *);
void *__wrap_dlsym(void *handle, const char *name) {
  void *found = __real_dlsym(handle, name);
  if (found && strcmp(name, "zip_source_buffer") == 0)
    return replace(found, &real_source_buffer,
                   &(__typeof__(zip_source_buffer) *){failing_source_buffer});
  if (found && strcmp(name, "zip_file_add") == 0)
    return replace(found, &real_file_add, &(__typeof__(zip_file_add) *){failing_file_add});
  return found;
}

/* ---- printing
 * -------------------------------------------------------------------------------------------- */

static bool parse_extents(const char *s, Type *type) {
  type->rank = 0;
  if (strcmp(s, "-") == 0) return true;
  for (char *end; *s && type->rank < MAX_RANK; s = *end == 'x' ? end + 1 : end)
    type->shape[type->rank++] = strtoll(s, &end, 10);
  return true;
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void fill(Tensor *t, const char *data) {
  int64_t count = type_count(&t->type);
  if (strcmp(data, "range") == 0)
    for (int64_t i = 0; i < count; i++) dtype_set_integer(t->type.dtype, t->data, i, i);
  else if (strcmp(data, "none") != 0)
    for (size_t i = 0; i < type_bytes(&t->type); i++)
      t->data[i] = (char)(hex_digit(data[2 * i]) * 16 + hex_digit(data[2 * i + 1]));
}

/* The lines that begin with mark, joined; NULL when there are none. *line is the first that does
 * not. */
static char *expected_text(FILE *f, char mark, char **line, size_t *capacity) {
  size_t used = 0;
  char *text = NULL;
  while (**line == mark) {
    size_t n = strlen(*line + 1);
    text = realloc(text, used + n + 1);
    memcpy(text + used, *line + 1, n + 1);
    used += n;
    if (getline(line, capacity, f) < 0) **line = 0;
  }
  if (text && used) text[used - 1] = 0; /* the last newline */
  return text;
}

static void compare(const char *what, int number, const char *expected, const char *actual) {
  checks++;
  if (actual && expected && strcmp(expected, actual) == 0) return;
  if (failures++ < 20)
    fprintf(stderr, "print case %d, %s: expected\n%s\ngot\n%s\n", number, what, expected,
            actual ? actual : "(null)");
}

static void print_case(int number, const char *header, const char *text, const char *repr) {
  char name[32], extents[64];
  int at = 0;
  Type type = {.rank = 0};
  Error e = {.status = OK};
  if (sscanf(header, "%31s %63s %n", name, extents, &at) < 2 || !dtype_find(name, &type.dtype)) {
    CHECK(header == NULL); /* a case begins with its dtype */
    return;
  }
  parse_extents(extents, &type);
  Tensor *t = tensor_new(&e, &type);
  fill(t, header + at);
  char *actual_text = tensor_text(&e, t, &print_defaults),
       *actual_repr = tensor_repr(&e, t, &print_defaults);
  compare("text", number, text, actual_text);
  compare("repr", number, repr, actual_repr);
  free(actual_text), free(actual_repr);
  tensor_release(t);
}

static void check_print_cases(const char *path) {
  FILE *f = fopen(path, "r");
  char *line = NULL;
  size_t capacity = 0;
  CHECK(f != NULL);
  if (!f) return;
  int number = 0;
  bool more = getline(&line, &capacity, f) > 0;
  while (more && *line) {
    char *header = strdup(line);
    header[strcspn(header, "\n")] = 0;
    if (getline(&line, &capacity, f) < 0) *line = 0;
    char *text = expected_text(f, '|', &line, &capacity),
         *repr = expected_text(f, '>', &line, &capacity);
    print_case(++number, header, text, repr);
    free(header), free(text), free(repr);
  }
  CHECK(number > 100);
  free(line);
  fclose(f);
}

/* ---- base
 * ---------------------------------------------------------------------------------------------- */

static char scratch[200];

static const char *scratch_path(const char *name) {
  static char path[4][300]; /* good until three later calls */
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", scratch, name);
  return path[turn];
}

/* Did it fail with this status and a message that holds part? */
static bool failed_with(Error *e, Status expected, const char *part) {
  bool ok = e->status == expected && strstr(e->message, part);
  if (!ok)
    fprintf(stderr, "expected %s with \"%s\", got %s: %s\n", status_kind(expected), part,
            status_kind(e->status), e->message);
  error_clear(e);
  return ok;
}

static void check_map(void) {
  Map *m = map_new();
  char key[32];
  for (int i = 0; i < 5000; i++)
    snprintf(key, sizeof key, "key %d", i), CHECK(map_set(m, key, (void *)(intptr_t)i));
  CHECK(map_count(m) == 5000 && map_get(m, "key 4321") == (void *)(intptr_t)4321 &&
        !map_has(m, "key 5000"));
  CHECK(map_set(m, "", m) && map_get(m, "") == m && map_set(m, "", NULL) && map_has(m, "") &&
        !map_get(m, ""));
  int cursor = 0, seen = 0;
  void *value, *last = (void *)(intptr_t)-1;
  for (const char *k; (k = map_next(m, &cursor, &value)) && *k; seen++)
    CHECK((intptr_t)value == (intptr_t)last + 1), last = value;
  CHECK(seen == 5000);
  map_free(m);
  map_free(NULL);
}

#define X(id, name) [id] = name,
static const char *const level_names[LOG_LEVEL_COUNT] = {LOG_LEVELS(X)};
#undef X

static void remember(void *context, LogLevel level, const char *line) {
  snprintf(context, 100, "%s %s", level_names[level], line);
}

static void check_log_and_text(void) {
  char line[100] = "";
  Log log;
  CHECK(log_init(&log, NULL) && log.level == LOG_WARN && log_init(&log, "debug") &&
        log.level == LOG_DEBUG);
  CHECK(!log_init(&log, "loud") && log.level == LOG_WARN);
  log.sink = remember;
  log.context = line;
  log_line(&log, LOG_INFO, "hidden");
  CHECK(line[0] == 0);
  log_line(&log, LOG_WARN, "%d IPUs", 4);
  CHECK(strcmp(line, "warn 4 IPUs") == 0);
  log_line(NULL, LOG_ERROR, "nobody listens");
  Text text = {.data = NULL};
  text_add_json(&text, "a\"b\\\n\x01\xc3\xa9");
  char *s = text_take(&text);
  CHECK(strcmp(s, "\"a\\\"b\\\\\\n\\u0001\xc3\xa9\"") == 0);
  free(s);
  s = text_take(&text);
  CHECK(s && *s == 0);
  free(s);
}

static void write_gz(const char *path, const void *data, size_t bytes) {
  gzFile f = gzopen(path, "wb");
  for (size_t done = 0; done < bytes; done += 1 << 20) {
    size_t n = bytes - done < 1 << 20 ? bytes - done : 1 << 20;
    gzwrite(f, (const char *)data + done, (unsigned)n);
  }
  gzclose(f);
}

static void append_to(const char *path, const void *data, size_t bytes) {
  FILE *f = fopen(path, "ab");
  fwrite(data, 1, bytes, f);
  fclose(f);
}

static void check_read(const char *path, size_t limit, const void *expected,
                       size_t expected_bytes) {
  Error e = {.status = OK};
  void *data;
  size_t bytes;
  bool ok = file_read(&e, path, limit, true, &data, &bytes) == OK;
  CHECK(ok);
  if (!ok) return;
  CHECK(bytes == expected_bytes && memcmp(data, expected, bytes) == 0 &&
        ((char *)data)[bytes] == 0);
  free(data);
}

static size_t said; /* the bytes that the file is said to have; SIZE_MAX: never */
static int asked;

static Status say(Error *e, const char *path, const void *start, size_t bytes, size_t *total) {
  asked++;
  if (said == 0) return fail(e, ERR_VALUE, "%s: begins with %d", path, *(const char *)start);
  if (bytes >= 200000 || said < 200000) *total = said;
  return OK;
}

/* path: a gzipped file with content. Of /dev/zero nothing but what is said is read. */
static void check_beginnings(const char *path, const char *content, size_t content_bytes) {
  static const size_t sizes[] = {1, 65536, 131071, 131072, 131073, 199999, 300000, 1000003};
  Error e = {.status = OK};
  void *data = NULL, *zeros = NULL;
  size_t bytes = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    said = sizes[i];
    CHECK(file_read_from(&e, path, 0, true, say, &data, &bytes) == OK && bytes == said + 1 &&
          memcmp(data, content, bytes) == 0 && !((char *)data)[bytes]);
    CHECK(file_read_from(&e, "/dev/zero", 4000000, true, say, &zeros, &bytes) == OK &&
          bytes == said + 1);
    free(data), data = NULL;
    free(zeros), zeros = NULL;
  }
  said = content_bytes, asked = 0;
  CHECK(file_read_from(&e, path, 0, true, say, &data, &bytes) == OK && bytes == content_bytes &&
        memcmp(data, content, bytes) == 0);
  CHECK(asked == 2);
  free(data);
  said = 0;
  CHECK(file_read_from(&e, "/dev/zero", 0, true, say, &data, &bytes) == ERR_VALUE);
  CHECK(failed_with(&e, ERR_VALUE, "/dev/zero: begins with 0"));
  said = SIZE_MAX;
  CHECK(file_read_from(&e, "/dev/zero", 300000, true, say, &data, &bytes) == ERR_OUT_OF_RANGE);
  error_clear(&e);
}

static void check_files(void) {
  enum { BYTES = 3000001 };
  Error e = {.status = OK};
  void *data;
  size_t bytes;
  struct stat info;
  char *content = calloc(1, 2 * BYTES);
  for (int i = 0; i < 2 * BYTES; i++) content[i] = (char)(i % BYTES % 251);
  const char *path = scratch_path("plain");
  CHECK(file_write(&e, path, content, BYTES) == OK && file_exists(path));
  check_read(path, 0, content, BYTES);
  check_read(path, BYTES, content, BYTES);
  CHECK(file_read(&e, path, BYTES - 1, true, &data, &bytes) == ERR_OUT_OF_RANGE &&
        failed_with(&e, ERR_OUT_OF_RANGE, "3000001"));
  chmod(path, 0600);
  CHECK(file_write(&e, path, "x", 1) == OK && stat(path, &info) == 0 &&
        (info.st_mode & 0777) == 0600);
  check_read(path, 0, "x", 1);
  CHECK(file_write(&e, path, "", 0) == OK);
  check_read(path, 0, "", 0);
  CHECK(unlink(path) == 0);
  write_gz(path, content, BYTES);
  check_read(path, BYTES, content, BYTES);
  CHECK(file_read(&e, path, BYTES - 1, true, &data, &bytes) == ERR_OUT_OF_RANGE), error_clear(&e);
  check_beginnings(path, content, BYTES);
  CHECK(truncate(path, 1000) == 0 && file_read(&e, path, 0, true, &data, &bytes) == ERR_VALUE);
  CHECK(failed_with(&e, ERR_VALUE, "ends too early"));
  write_gz(path, content, BYTES);
  append_to(path, "garbage", 7);
  CHECK(file_read(&e, path, 0, true, &data, &bytes) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "gzip data"));
  write_gz(path, content, BYTES);
  const char *second = scratch_path("second");
  write_gz(second, content, BYTES);
  CHECK(file_read(&e, second, 0, false, &data, &bytes) == OK);
  append_to(path, data, bytes); /* two members */
  free(data);
  check_read(path, 0, content, 2 * BYTES);
  unlink(path), unlink(second);
  CHECK(file_read(&e, path, 0, true, &data, &bytes) == ERR_NOT_FOUND &&
        failed_with(&e, ERR_NOT_FOUND, "plain: cannot open"));
  CHECK(file_read(&e, scratch, 0, true, &data, &bytes) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "folder"));
  CHECK(file_write(&e, scratch, "", 0) == ERR_VALUE && failed_with(&e, ERR_VALUE, "folder"));
  CHECK(file_write(&e, "/no/such/folder", "", 0) == ERR_NOT_FOUND), error_clear(&e);
  CHECK(file_write(&e, "/dev/null", "x", 1) == OK && stat("/dev/null", &info) == 0 &&
        S_ISCHR(info.st_mode));
  CHECK(file_write(&e, "/dev/full", "x", 1) == ERR_RUNTIME &&
        failed_with(&e, ERR_RUNTIME, "/dev/full: cannot write"));
  FileWriter *w = file_begin(&e, path);
  CHECK(w && file_append(&e, w, "abc", 3) == OK && !file_exists(path));
  file_abort(w);
  CHECK(!file_exists(path));
  free(content);
}

/* ---- dtypes, types, tensors
 * ------------------------------------------------------------------------------ */

static int64_t cast_to_integer(Dtype d, double x) {
  int64_t out = 0;
  dtype_set(d, &out, 0, x);
  return dtype_get_integer(d, &out, 0);
}

static float cast_to_float(Dtype d, double x) {
  double out = 0;
  dtype_set(d, &out, 0, x);
  return (float)dtype_get(d, &out, 0);
}

/* Every 16-bit float goes to float32 and to text and back; its text has no digit too many. Each
 * of the three counts once. */
static void check_16_bit(Dtype d) {
  int numbers = 0, other_bits = 0, other_text = 0, long_text = 0;
  for (uint32_t i = 0; i < 65536; i++) {
    uint16_t bits = (uint16_t)i, back;
    double x = dtype_get(d, &bits, 0);
    if (!isfinite(x)) continue;
    numbers++;
    dtype_set(d, &back, 0, x);
    other_bits += back != bits;
    char text[DECIMAL_TEXT], shorter[DECIMAL_TEXT];
    dtype_set(d, &back, 0, strtod(decimal_text(d, &bits, 0, text), NULL));
    other_text += back != bits;
    int digits = decimal_of(d, &bits, 0, decimal_shortest).count;
    if (digits < 2) continue;
    snprintf(shorter, sizeof shorter, "%.*e", digits - 2, x);
    dtype_set(d, &back, 0, strtod(shorter, NULL));
    long_text += back == bits;
  }
  CHECK(numbers == (d == F16 ? 63488 : 65280)); /* all but those with the largest exponent */
  CHECK(other_bits == 0);
  CHECK(other_text == 0);
  CHECK(long_text == 0);
}

static void check_dtypes(void) {
  Dtype d;
  CHECK(dtype_find("bfloat16", &d) && d == BF16 && !dtype_find("float", &d) &&
        dtype_size(I64) == 8);
  CHECK(cast_to_integer(I32, -2.9) == -2 && cast_to_integer(I32, 1e10) == INT32_MAX &&
        cast_to_integer(I8, -1e3) == 24);
  CHECK(cast_to_integer(U8, -1) == 255 && cast_to_integer(U8, 255.9) == 255 &&
        cast_to_integer(I64, 0x1p63) == INT64_MAX);
  CHECK(cast_to_integer(I64, (double)NAN) == INT64_MIN &&
        cast_to_integer(I32, (double)NAN) == INT32_MIN);
  CHECK(cast_to_integer(I8, (double)NAN) == 0 && cast_to_integer(U8, (double)NAN) == 0);
  CHECK(cast_to_integer(BOOL, (double)NAN) == 1 && cast_to_integer(BOOL, 0.1) == 1 &&
        cast_to_integer(BOOL, -0.0) == 0);
  CHECK(isinf(cast_to_float(F16, 65520)) && cast_to_float(F16, 65519.999) == 65504.0f);
  CHECK(cast_to_float(F16, 2049) == 2048 &&
        cast_to_float(F16, 2049 + 1e-12) == 2050); /* one rounding, not two */
  CHECK(cast_to_float(F16, 0x1p-25) == 0 && cast_to_float(F16, 0x1.0000000001p-25) == 0x1p-24f);
  CHECK(cast_to_float(BF16, 1 + 0x1p-8) == 1 &&
        cast_to_float(BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7f);
  CHECK(isnan(cast_to_float(F16, (double)NAN)) && isnan(cast_to_float(BF16, (double)NAN)));
  CHECK(isinf(cast_to_float(BF16, 1e300)) && cast_to_float(F16, -1e300) < -1e30f);
  int64_t exact = INT64_MAX - 1;
  CHECK(dtype_get_integer(I64, &exact, 0) == INT64_MAX - 1);
  dtype_set_integer(I64, &exact, 0, INT64_MIN + 1);
  CHECK(exact == INT64_MIN + 1);
  bf16 b;
  dtype_set_integer(BF16, &b, 0, (INT64_C(1) << 62) + (INT64_C(1) << 54) + 1);
  CHECK(bf16_to_f32(b) == 0x1p62f * (1 + 0x1p-7f));
  check_16_bit(F16);
  check_16_bit(BF16);
}

static Type type_of(Dtype d, int rank, int64_t a, int64_t b, int64_t c) {
  return type_make(d, rank, (int64_t[]){a, b, c});
}

static bool broadcasts(Type a, Type b, Type expected) {
  Type out;
  return type_broadcast(&a, &b, &out) && type_equal(&out, &expected);
}

static void check_types(void) {
  Error e = {.status = OK};
  char text[TYPE_TEXT];
  Type t = type_of(F32, 2, 2, 3, 0), longest = {.dtype = BF16, .rank = MAX_RANK}, out;
  for (int i = 0; i < MAX_RANK; i++) longest.shape[i] = INT64_MIN;
  CHECK(strcmp(type_text(&t, text), "float32[2, 3]") == 0 &&
        strcmp(shape_text(&t, text), "[2, 3]") == 0);
  CHECK(strlen(type_text(&longest, text)) < TYPE_TEXT && text[strlen(text) - 1] == ']');
  CHECK(type_count(&t) == 6 && type_bytes(&t) == 24 && type_is_static(&t));
  CHECK(broadcasts(t, type_of(F32, 1, 3, 0, 0), t) &&
        broadcasts(type_of(F32, 3, 4, 1, 1), t, type_of(F32, 3, 4, 2, 3)));
  CHECK(broadcasts(t, type_scalar(I32), t) &&
        broadcasts(type_of(F32, 1, -1, 0, 0), type_of(F32, 1, 5, 0, 0), type_of(F32, 1, 5, 0, 0)));
  CHECK(broadcasts(type_of(F32, 1, 0, 0, 0), type_of(F32, 1, 1, 0, 0), type_of(F32, 1, 0, 0, 0)));
  CHECK(broadcasts(type_of(F32, 1, 1, 0, 0), type_of(F32, 1, -1, 0, 0), type_of(F32, 1, -1, 0, 0)));
  Type wide = type_of(F32, 1, 2, 0, 0);
  CHECK(!type_broadcast(&t, &wide, &out));
  Type unknown = type_of(F32, 2, -1, 4, 0),
       large = type_of(F32, 3, INT64_C(1) << 40, INT64_C(1) << 40, 0);
  CHECK(type_check(&e, "zeros", &unknown) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "zeros: extent -1 of dimension 0"));
  CHECK(type_check(&e, "zeros", &large) == ERR_VALUE && failed_with(&e, ERR_VALUE, "too large") &&
        !type_is_static(&unknown));
  int axis;
  CHECK(axis_check(&e, "sum", -2, 2, &axis) == OK && axis == 0 &&
        axis_check(&e, "sum", 1, 2, &axis) == OK && axis == 1);
  CHECK(axis_check(&e, "sum", 2, 2, &axis) != OK &&
        failed_with(&e, ERR_VALUE, "sum: 2 is out of range"));
  CHECK(axis_check(&e, "sum", INT64_MIN, 2, &axis) != OK), error_clear(&e);
  CHECK(axis_check(&e, "sum", 0, 0, &axis) != OK), error_clear(&e);
}

static void count_release(void *context) { ++*(int *)context; }

static Tensor *range(Dtype d, int rank, int64_t a, int64_t b, int64_t c) {
  Error e = {.status = OK};
  Type type = type_of(d, rank, a, b, c);
  Tensor *t = tensor_new(&e, &type);
  for (int64_t i = 0; i < type_count(&type); i++) dtype_set_integer(d, t->data, i, i);
  return t;
}

static void check_out_of_memory(void) {
  Error e = {.status = OK};
  Type t = type_of(F32, 3, 1000000, 1000000, 30);
  CHECK(!tensor_new(&e, &t) &&
        failed_with(&e, ERR_OUT_OF_MEMORY,
                    "cannot allocate float32[1000000, 1000000, 30] (109.1 TiB)"));
  t = type_of(F64, 3, INT64_MAX, INT64_MAX, INT64_MAX);
  CHECK(!tensor_new(&e, &t) && failed_with(&e, ERR_OUT_OF_MEMORY, "cannot allocate"));
  t = type_of(F64, 1, -1, 0, 0);
  CHECK(!tensor_new(&e, &t) && failed_with(&e, ERR_VALUE, "negative"));
  CHECK(!tensor_wrap(&e, &t, NULL, NULL, NULL) && failed_with(&e, ERR_VALUE, "negative"));
  t.rank = MAX_RANK + 1;
  CHECK(!tensor_new(&e, &t) && failed_with(&e, ERR_VALUE, "dimensions"));
}

static void check_views(void) {
  Error e = {.status = OK};
  int64_t before = storage_bytes_alive();
  Tensor *t = range(F32, 3, 2, 3, 4), *row = tensor_row(&e, t, 1),
         *element = tensor_row(&e, row, 2);
  CHECK((uintptr_t)t->data % 64 == 0 && storage_bytes_alive() == before + 96);
  CHECK(row->type.rank == 2 && tensor_get(row, 5) == 17 && tensor_is_shared(t) &&
        tensor_is_shared(row));
  CHECK(!tensor_row(&e, t, 2) && failed_with(&e, ERR_OUT_OF_RANGE, "row 2"));
  CHECK(!tensor_row(&e, t, -1)), error_clear(&e);
  Type flat = type_of(F32, 1, 24, 0, 0), five = type_of(F32, 1, 5, 0, 0),
       small = type_of(F32, 2, 4, 3, 0);
  Tensor *flattened = tensor_view(&e, t, &flat, (int64_t[]){1}, 0);
  CHECK(flattened && tensor_get(flattened, 23) == 23);
  Tensor *transposed = tensor_view(&e, row, &small, (int64_t[]){1, 4}, 0);
  CHECK(transposed && !tensor_is_dense(transposed) && tensor_get(transposed, 1) == 16);
  Tensor *dense = tensor_dense(&e, transposed), *same = tensor_dense(&e, dense);
  CHECK(tensor_is_dense(dense) && ((float *)dense->data)[1] == 16 && same == dense &&
        ((float *)dense->data)[11] == 23);
  Tensor *backwards = tensor_view(&e, flattened, &five, (int64_t[]){-2}, 8),
         *repeated = tensor_view(&e, t, &five, (int64_t[]){0}, 23);
  CHECK(backwards && tensor_get(backwards, 4) == 0 && repeated && tensor_get(repeated, 3) == 23);
  CHECK(!tensor_view(&e, flattened, &five, (int64_t[]){-2}, 7) &&
        failed_with(&e, ERR_OUT_OF_RANGE, "reaches beyond"));
  CHECK(!tensor_view(&e, flattened, &five, (int64_t[]){1}, 20)), error_clear(&e);
  CHECK(!tensor_view(&e, flattened, &five, (int64_t[]){INT64_MAX}, 1)), error_clear(&e);
  Tensor *earlier =
      tensor_view(&e, row, &five, (int64_t[]){1}, -12); /* the storage's start, before the row's */
  CHECK(earlier && tensor_get(earlier, 1) == 1 &&
        !tensor_view(&e, row, &five, (int64_t[]){1}, -13)),
      error_clear(&e);
  tensor_release(t), tensor_release(row), tensor_release(flattened), tensor_release(transposed),
      tensor_release(dense);
  tensor_release(same), tensor_release(backwards), tensor_release(repeated),
      tensor_release(earlier);
  CHECK(tensor_get(element, 0) != 1e9 && element->type.rank == 1 && tensor_get(element, 3) == 23);
  Type twice = type_of(F64, 1, 1, 0, 0), none = type_of(F32, 2, 3, 0, 0);
  CHECK(!tensor_view(&e, element, &twice, (int64_t[]){1}, 0) &&
        failed_with(&e, ERR_TYPE, "differ in size"));
  Tensor *empty = tensor_new(&e, &none), *empty_row = tensor_row(&e, empty, 2),
         *gone = tensor_view(&e, element, &none, (int64_t[]){9, 9}, 999);
  CHECK(empty && empty_row && gone && tensor_is_dense(gone) && tensor_is_dense(empty_row));
  tensor_copy_out(gone, NULL);
  tensor_release(empty), tensor_release(empty_row), tensor_release(gone), tensor_release(element);
  tensor_release(NULL);
}

static void check_wrapped(void) {
  Error e = {.status = OK};
  float memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  Type type = type_of(F32, 2, 2, 3, 0), one = type_scalar(F32);
  Tensor *t = tensor_wrap(&e, &type, memory, count_release, &released), *row = tensor_row(&e, t, 1);
  tensor_release(t);
  CHECK(released == 0 && tensor_get(row, 2) == 5);
  Tensor *scalar = tensor_row(&e, row, 0);
  CHECK(!tensor_row(&e, scalar, 0) && failed_with(&e, ERR_VALUE, "no rows") &&
        type_equal(&scalar->type, &one));
  tensor_release(row), tensor_release(scalar);
  CHECK(released == 1);
  t = tensor_from(&e, &type, memory);
  memory[3] = 9;
  CHECK(tensor_get(t, 3) == 3 && !tensor_is_shared(t));
  tensor_release(t);
}

/* All ways to walk a random view give the same elements. */
static void check_copies(void) {
  Error e = {.status = OK};
  RngKey key = {.seed = 5};
  static const Dtype dtypes[] = {U8, F16, F32, F64};
  for (uint64_t i = 0; i < 400; i++) {
    Dtype d = dtypes[i % 4];
    Tensor *t = range(d, 1, 100, 0, 0);
    Type type = {.dtype = d, .rank = (int)rng_below(&key, i * 20, 5)};
    int64_t stride[MAX_RANK], packed[100];
    for (int k = 0; k < type.rank; k++) {
      type.shape[k] = (int64_t)rng_below(&key, i * 20 + 1 + (uint64_t)k, 4) + (k == 0);
      stride[k] = (int64_t)rng_below(&key, i * 20 + 10 + (uint64_t)k, 12) - 3;
    }
    Tensor *view = tensor_view(&e, t, &type, stride, 40);
    CHECK(view || e.status == ERR_OUT_OF_RANGE);
    error_clear(&e);
    if (view && type_bytes(&type) <= sizeof packed) {
      tensor_copy_out(view, packed);
      for (int64_t k = 0; k < type_count(&type); k++)
        CHECK(dtype_get(d, packed, k) == tensor_get(view, k));
    }
    tensor_release(view), tensor_release(t);
  }
}

/* ---- files of tensors
 * ------------------------------------------------------------------------------------ */

typedef struct Blob {
  unsigned char bytes[4096];
  size_t used;
} Blob;

static void blob_add(Blob *b, const void *data, size_t bytes) {
  memcpy(b->bytes + b->used, data, bytes);
  b->used += bytes;
}

static Blob safetensors_blob(const char *header, size_t data_bytes) {
  Blob b = {.used = 0};
  uint64_t length = strlen(header);
  blob_add(&b, &length, 8);
  blob_add(&b, header, length);
  for (size_t i = 0; i < data_bytes; i++) b.bytes[b.used++] = (unsigned char)i;
  return b;
}

static void refuse_safetensors(const char *header, size_t data_bytes, const char *part) {
  Error e = {.status = OK};
  NamedTensors n;
  Blob b = safetensors_blob(header, data_bytes);
  CHECK(safetensors_parse(&e, "w.safetensors", b.bytes, b.used, &n) == ERR_VALUE);
  CHECK(n.count == 0 && strstr(e.message, "w.safetensors: ") == e.message);
  CHECK(failed_with(&e, ERR_VALUE, part));
  named_clear(&n);
}

static void accept_safetensors(const char *header, size_t data_bytes, int count) {
  Error e = {.status = OK};
  NamedTensors n;
  Blob b = safetensors_blob(header, data_bytes);
  CHECK(safetensors_parse(&e, "w.safetensors", b.bytes, b.used, &n) == OK);
  if (e.status != OK) fprintf(stderr, "%s\n", e.message);
  CHECK(n.count == count);
  named_clear(&n);
}

#define ENTRY(name, dtype, shape, begin, end)                                                      \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end \
  "]}"

static void check_safetensors_rules(void) {
  accept_safetensors("{}", 0, 0);
  accept_safetensors("{}   \n", 0, 0);
  accept_safetensors("{" ENTRY("a", "F32", "2", 0, 8) "}", 8, 1);
  accept_safetensors("{" ENTRY("a", "F32", "", 0, 4) "," ENTRY("b", "U8", "0,7", 4, 4) "," ENTRY(
                         "c", "I8", "1", 4, 5) "}",
                     5, 3);
  accept_safetensors("{" ENTRY("b", "I16", "2", 2, 6) "," ENTRY("a", "U16", "1", 0, 2) "," ENTRY(
                         "c", "U32", "1", 6, 10) "}",
                     10, 3);
  accept_safetensors("{\"__metadata__\":{\"k\":\"v\"}," ENTRY("a", "BF16", "2", 0, 4) "}", 4, 1);
  refuse_safetensors("[]", 0, "begin with '{'");
  refuse_safetensors(" {}", 0, "begin with '{'");
  refuse_safetensors("{", 0, "header length"); /* no JSON is that short */
  refuse_safetensors("{}x", 0, "byte offset");
  refuse_safetensors("{\"a\":}", 0, "byte offset");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 0, 8) "," ENTRY("a", "F32", "2", 0, 8) "}", 8,
                     "uplicate");
  refuse_safetensors(
      "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
      "uplicate");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 0, 7) "}", 7, "needs 8 bytes; data_offsets hold 7");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 0, 8) "}", 9, "the tensors end at");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 0, 8) "}", 7, "data_offsets end at");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 4, 12) "}", 12, "hole");
  refuse_safetensors("{" ENTRY("a", "F32", "1", 0, 4) "," ENTRY("b", "F32", "1", 8, 12) "}", 12,
                     "'b': data_offsets leave a hole");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 0, 8) "," ENTRY("b", "F32", "1", 4, 8) "}", 8,
                     "overlap");
  refuse_safetensors("{" ENTRY("a", "F32", "2", 0, 8) "," ENTRY("b", "F32", "2", 0, 8) "}", 8,
                     "overlap");
  refuse_safetensors("{" ENTRY("a", "F32", "1", 4, 0) "}", 4, "data_offsets must be");
  refuse_safetensors("{" ENTRY("a", "F32", "1", -4, 0) "}", 4, "data_offsets must be");
  refuse_safetensors("{" ENTRY("a", "F32", "1", 0, 4.0) "}", 4, "data_offsets must be");
  refuse_safetensors("{" ENTRY("a", "F32", "-1", 0, 4) "}", 4, "extent 0");
  refuse_safetensors("{" ENTRY("a", "F32", "1.5", 0, 4) "}", 4, "extent 0");
  refuse_safetensors("{" ENTRY("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 4) "}", 4, "9 extents");
  refuse_safetensors("{" ENTRY("a", "F32", "4611686018427387904,4", 0, 0) "}", 0, "too large");
  refuse_safetensors("{" ENTRY("a", "F32", "0,4611686018427387904,4", 0, 0) "}", 0, "too large");
  refuse_safetensors("{" ENTRY("a", "F32", "99999999999999999999", 0, 0) "}", 0, "integer");
  refuse_safetensors("{" ENTRY("a", "F8_E4M3", "1", 0, 1) "}", 1, "dtype 'F8_E4M3' is none of");
  refuse_safetensors("{" ENTRY("a", "f32", "1", 0, 4) "}", 4, "dtype 'f32' is none of");
  refuse_safetensors("{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "dtype must be");
  refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape must be");
  refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets must be");
  refuse_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
                     "unknown field 'x'");
  refuse_safetensors("{\"a\":1}", 0, "'a' must be an object");
  refuse_safetensors("{\"__metadata__\":{\"k\":1}}", 0, "'k' must be a string");
  refuse_safetensors("{\"__metadata__\":[]}", 0, "__metadata__ must be");
  refuse_safetensors("{\"a\\u0000b\":1}", 0, "byte offset");
  refuse_safetensors("{\"\xff\":1}", 0, "byte offset");
  refuse_safetensors("{\"a\":[[[[[[[[[[]]]]]]]]]]}", 0, "nested too deeply");
  Error e = {.status = OK};
  NamedTensors n;
  unsigned char length[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
  CHECK(safetensors_parse(&e, "w", length, 10, &n) != OK &&
        failed_with(&e, ERR_VALUE, "18446744073709551615"));
  CHECK(safetensors_parse(&e, "w", length, 7, &n) != OK && failed_with(&e, ERR_VALUE, "7 bytes"));
  CHECK(safetensors_parse(&e, "w", length, 0, &n) != OK), error_clear(&e);
}

/* A list with a tensor of each dtype, an empty one, one without dimensions, one that isn't
 * dense. */
static NamedTensors sample(bool with_bfloat16) {
  Error e = {.status = OK};
  NamedTensors n;
  named_init(&n);
  for (int d = 0; d < DTYPE_COUNT; d++) {
    if (d == BF16 && !with_bfloat16) continue;
    Tensor *t = range((Dtype)d, 2, 3, 2, 0);
    named_add(&e, &n, dtype_name((Dtype)d), t);
    tensor_release(t);
  }
  Tensor *t = range(F32, 2, 2, 3, 0), *scalar = range(I64, 0, 0, 0, 0),
         *empty = range(F32, 2, 0, 3, 0);
  Type across = type_of(F32, 2, 3, 2, 0);
  Tensor *turned = tensor_view(&e, t, &across, (int64_t[]){1, 3}, 0);
  named_add(&e, &n, "turned \"\xc3\xa9\"", turned);
  named_add(&e, &n, "scalar", scalar);
  named_add(&e, &n, "empty", empty);
  tensor_release(t), tensor_release(scalar), tensor_release(empty), tensor_release(turned);
  return n;
}

static bool same_tensors(const NamedTensors *a, const NamedTensors *b) {
  if (a->count != b->count || a->metadata_count != b->metadata_count) return false;
  for (int i = 0; i < a->count; i++) {
    const Tensor *x = a->tensor[i], *y = named_find(b, a->name[i]);
    if (!y || !type_equal(&x->type, &y->type)) return false;
    for (int64_t k = 0; k < type_count(&x->type); k++)
      if (tensor_get(x, k) != tensor_get(y, k)) return false;
  }
  return true;
}

static bool same_files(const char *a, const char *b) {
  Error e = {.status = OK};
  void *x = NULL, *y = NULL;
  size_t m = 0, n = 0;
  file_read(&e, a, 0, false, &x, &m), file_read(&e, b, 0, false, &y, &n);
  bool same = e.status == OK && m == n && memcmp(x, y, m) == 0;
  free(x), free(y);
  return same;
}

/* The same list in another order. */
static NamedTensors reversed(const NamedTensors *n) {
  Error e = {.status = OK};
  NamedTensors r;
  named_init(&r);
  for (int i = n->count; i-- > 0;) named_add(&e, &r, n->name[i], n->tensor[i]);
  for (int i = n->metadata_count; i-- > 0;) named_add_metadata(&e, &r, n->key[i], n->value[i]);
  return r;
}

typedef Status (*ReadNamed)(Error *, const char *, NamedTensors *);
typedef Status (*WriteNamed)(Error *, const char *, const NamedTensors *);

/* Files of one format have one order whatever the list's is (sorts); the other keeps the list's,
 * and equal lists give equal files. */
static void check_round_trip(const char *name, NamedTensors *n, ReadNamed read, WriteNamed write,
                             bool sorts) {
  Error e = {.status = OK};
  NamedTensors back, other = reversed(n);
  char path[300], second[300];
  snprintf(path, sizeof path, "%s/%s", scratch, name);
  snprintf(second, sizeof second, "%s/again-%s", scratch, name);
  CHECK(write(&e, path, n) == OK && read(&e, path, &back) == OK && same_tensors(n, &back));
  CHECK(write(&e, second, sorts ? &other : n) == OK && same_files(path, second));
  if (!sorts) {
    NamedTensors turned;
    CHECK(write(&e, second, &other) == OK && read(&e, second, &turned) == OK &&
          turned.count == n->count && !strcmp(turned.name[0], n->name[n->count - 1]));
    named_clear(&turned);
  }
  if (e.status != OK) fprintf(stderr, "%s\n", e.message);
  named_clear(&back), named_clear(&other);
  named_init(&other);
  CHECK(write(&e, second, &other) == OK && read(&e, second, &back) == OK && back.count == 0);
  named_clear(&back);
  named_add(&e, &other, "x", n->tensor[0]), named_add(&e, &other, "x", n->tensor[1]);
  CHECK(write(&e, second, &other) == ERR_VALUE && failed_with(&e, ERR_VALUE, "'x'"));
  named_clear(&other);
  CHECK(read(&e, "/nowhere/at/all", &back) == ERR_NOT_FOUND), error_clear(&e);
  unlink(second);
}

/* The work of each thread that opens libzip. */
static void *write_and_read(void *context) {
  int number = *(int *)context;
  char file[sizeof scratch + 32];
  Error e = {.status = OK};
  NamedTensors n, back;
  named_init(&n);
  Tensor *t = tensor_new(&e, &(Type){.dtype = I32, .rank = 1, .shape = {1}});
  memcpy(t->data, &number, sizeof number);
  named_add(&e, &n, "t", t);
  tensor_release(t);
  snprintf(file, sizeof file, "%s/first%d.npz", scratch, number);
  bool good = npz_write(&e, file, &n) == OK && npz_read(&e, file, &back) == OK;
  if (good) {
    good = back.count == 1 && memcmp(back.tensor[0]->data, &number, sizeof number) == 0;
    named_clear(&back);
  }
  named_clear(&n);
  unlink(file);
  return good ? context : NULL;
}

static void check_first_use(void) {
  enum { THREADS = 8 };
  pthread_t thread[THREADS];
  int number[THREADS];
  for (int i = 0; i < THREADS; i++) {
    number[i] = i;
    CHECK(pthread_create(&thread[i], NULL, write_and_read, &number[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *result = NULL;
    CHECK(pthread_join(thread[i], &result) == 0 && result == &number[i]);
  }
}

/* A library that isn't there, and one that lacks a function, are told; the next try is a new one. */
static void check_libraries(void) {
  static void (*found)(void), (*missing)(void);
  static const LibrarySymbol symbols[] = {{"crc32", &found}, {"no_such", &missing}, {NULL, NULL}},
                             enough[] = {{"crc32", &found}, {NULL, NULL}};
  Library absent = {.file = "libnone.so.9", .package = "libnone9", .symbols = symbols},
          lacking = {.file = "libz.so.1", .package = "zlib1g", .symbols = symbols};
  Error e = {.status = OK};
  CHECK(library_open(&e, &absent, "w: files") == ERR_FAILED_PRECONDITION && !absent.open);
  CHECK(
      strstr(e.message, "w: files need libnone.so.9; Debian's libnone9 brings it (libnone.so.9: "));
  error_clear(&e);
  CHECK(library_open(&e, &lacking, "w: files") == ERR_FAILED_PRECONDITION && !lacking.open);
  CHECK(strstr(e.message, "libz.so.1; Debian's zlib1g brings it (") &&
        strstr(e.message, "no_such"));
  error_clear(&e);
  lacking.symbols = enough;
  CHECK(library_open(&e, &lacking, "w: files") == OK && lacking.open && found);
}

/* A member that can't be added leaves the former file, and nothing is freed twice. */
static void check_zip_failures(const NamedTensors *n) {
  Error e = {.status = OK};
  const char *path = scratch_path("f.npz");
  CHECK(file_write(&e, path, "before", 6) == OK);
  for (int k = 0; k < 2 * n->count; k++) {
    void *data;
    size_t bytes;
    zip_calls_left = k;
    CHECK(npz_write(&e, path, n) != OK &&
          strstr(e.message, k % 2 ? "cannot add" : "out of memory"));
    zip_calls_left = -1, error_clear(&e);
    CHECK(file_read(&e, path, 0, false, &data, &bytes) == OK && bytes == 6);
    free(data);
  }
  unlink(path);
}

/* Names that a file system takes, and names that a zip takes. */
static void check_long_names(Tensor *t) {
  enum { ZIP_LONGEST = 65535 - 4 };
  Error e = {.status = OK};
  NamedTensors n, back;
  char file[256] = "", *member = calloc(1, ZIP_LONGEST + 2);
  for (int length = 230; length <= 255; length++) {
    memset(file, 'n', (size_t)length), file[length] = 0;
    CHECK(file_write(&e, scratch_path(file), "x", 1) == OK && file_exists(scratch_path(file)));
    unlink(scratch_path(file));
  }
  memset(member, 'm', ZIP_LONGEST);
  named_init(&n), named_add(&e, &n, member, t);
  CHECK(npz_write(&e, scratch_path("l.npz"), &n) == OK &&
        npz_read(&e, scratch_path("l.npz"), &back) == OK && back.count == 1);
  CHECK(!strcmp(back.name[0], member));
  named_clear(&n), named_clear(&back);
  member[ZIP_LONGEST] = 'm';
  named_init(&n), named_add(&e, &n, member, t);
  CHECK(npz_write(&e, scratch_path("l.npz"), &n) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "too long for an npz file"));
  CHECK(npz_read(&e, scratch_path("l.npz"), &back) == OK); /* the former one */
  named_clear(&n), named_clear(&back);
  unlink(scratch_path("l.npz"));
  free(member);
}

/* Bytes that are no character of UTF-8 (RFC 3629) become the one that stands for those. */
static void put_32(unsigned char *to, uint32_t x) {
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(x >> 8 * i);
}

/* Members that are plausible one by one, of 4 MiB and of two bytes less than 4 GiB, are more than
 * 4 GiB together. That is more than 100 times what the archive says that it stores. */
static void check_declared_sizes(void) {
  enum { STORED_AT = 20, ENTRY_BYTES = 46 };
  const char *path = scratch_path("d.npz");
  Error e = {.status = OK};
  NamedTensors n, back;
  void *content = NULL;
  size_t bytes = 0;
  named_init(&n);
  Tensor *first = range(F32, 1, 1 << 20, 0, 0), *second = range(F32, 1, 2, 0, 0);
  named_add(&e, &n, "a", first), named_add(&e, &n, "b", second);
  CHECK(npz_write(&e, path, &n) == OK && npz_read(&e, path, &back) == OK && back.count == 2);
  named_clear(&back);
  CHECK(file_read(&e, path, 0, false, &content, &bytes) == OK);
  unsigned char *last = NULL; /* member's entry in the list at the end */
  for (size_t i = 0; content && i + ENTRY_BYTES < bytes; i++)
    if (!memcmp((char *)content + i, "PK\1\2", 4)) last = (unsigned char *)content + i;
  CHECK(last != NULL);
  if (last) {
    put_32(last + STORED_AT, 5000000), put_32(last + STORED_AT + 4, UINT32_MAX - 1);
    CHECK(file_write(&e, path, content, bytes) == OK && npz_read(&e, path, &back) == ERR_VALUE &&
          failed_with(&e, ERR_VALUE, "size 4294967294 is implausible for 5000000 stored bytes"));
  }
  free(content);
  unlink(path);
  named_clear(&n);
  tensor_release(first), tensor_release(second);
}

static void check_json_text(void) {
  static const char *const cases[][2] = {{"gr\xc3\xb6\xc3\x9f", "\"gr\xc3\xb6\xc3\x9f\""},
                                         {"gr\xf6\xdf!", "\"gr\\ufffd\\ufffd!\""},
                                         {"\xe2\x82\xac\xe2\x82", "\"\xe2\x82\xac\\ufffd\\ufffd\""},
                                         {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
                                         {"\xc0\x80\xf5", "\"\\ufffd\\ufffd\\ufffd\""},
                                         {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
                                         {"a\"\\\n\x01\x7f", "\"a\\\"\\\\\\n\\u0001\\u007f\""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Text t = {.data = NULL};
    text_add_json(&t, cases[i][0]);
    CHECK(!strcmp(t.data, cases[i][1]));
    text_free(&t);
  }
}

static void check_named_files(void) {
  Error e = {.status = OK};
  NamedTensors n = sample(true), plain = sample(false), bad;
  named_add_metadata(&e, &n, "b", "line\nbreak");
  named_add_metadata(&e, &n, "a", "");
  check_round_trip("t.safetensors", &n, safetensors_read, safetensors_write, true);
  check_round_trip("t.npz", &plain, npz_read, npz_write, false);
  check_zip_failures(&plain);
  check_long_names(plain.tensor[0]);
  check_json_text();
  check_declared_sizes();
  CHECK(npz_write(&e, scratch_path("x.npz"), &n) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "metadata"));
  named_clear(&n);
  n = sample(true);
  CHECK(npz_write(&e, scratch_path("x.npz"), &n) == ERR_TYPE &&
        failed_with(&e, ERR_TYPE, "bfloat16"));
  CHECK(!file_exists(scratch_path("x.npz")));
  named_init(&bad);
  named_add(&e, &bad, "\xff", n.tensor[0]);
  CHECK(safetensors_write(&e, scratch_path("x"), &bad) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "UTF-8"));
  named_clear(&bad);
  named_add(&e, &bad, "__metadata__", n.tensor[0]);
  CHECK(safetensors_write(&e, scratch_path("x"), &bad) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "__metadata__"));
  named_clear(&bad), named_clear(&n), named_clear(&plain);
}

static Blob npy_blob(int version, const char *header, size_t data_bytes) {
  Blob b = {.used = 0};
  unsigned char start[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
  uint32_t length = (uint32_t)strlen(header);
  blob_add(&b, start, 8);
  blob_add(&b, &length, version == 1 ? 2 : 4);
  blob_add(&b, header, length);
  for (size_t i = 0; i < data_bytes; i++) b.bytes[b.used++] = (unsigned char)i;
  return b;
}

static void refuse_npy(const char *header, size_t data_bytes, const char *part) {
  Error e = {.status = OK};
  Tensor *t;
  Blob b = npy_blob(1, header, data_bytes);
  CHECK(npy_parse(&e, "x.npy", b.bytes, b.used, &t) != OK && !t &&
        strstr(e.message, "x.npy: ") == e.message);
  CHECK(failed_with(&e, ERR_VALUE, part));
}

/* Element 1, and the type. */
static void accept_npy(int version, const char *header, size_t data_bytes, const char *type,
                       double expected) {
  Error e = {.status = OK};
  Tensor *t;
  char text[TYPE_TEXT];
  Blob b = npy_blob(version, header, data_bytes);
  CHECK(npy_parse(&e, "x.npy", b.bytes, b.used, &t) == OK);
  if (e.status != OK) fprintf(stderr, "%s\n", e.message);
  if (!t) return;
  CHECK(strcmp(type_text(&t->type, text), type) == 0);
  if (type_count(&t->type) > 1) CHECK(tensor_get(t, 1) == expected);
  tensor_release(t);
}

#define NPY(descr, order, shape) \
  "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

static void check_npy_rules(void) {
  accept_npy(1, NPY("|u1", "False", "(2, 3)"), 6, "uint8[2, 3]", 1);
  accept_npy(2, NPY("|u1", "True", "(2, 3)"), 6, "uint8[2, 3]", 2);
  accept_npy(3, NPY("<u2", "False", "(2,)"), 4, "int32[2]", 0x0302);
  accept_npy(1, NPY(">u2", "False", "(2,)"), 4, "int32[2]", 0x0203);
  accept_npy(1, NPY(">i4", "False", "(2,)"), 8, "int32[2]", 0x04050607);
  accept_npy(1, NPY("<u4", "False", "(2,)"), 8, "int64[2]", 0x07060504);
  accept_npy(1, NPY("|b1", "False", "()"), 1, "bool[]", 0);
  accept_npy(1, NPY("<f8", "False", "(0, 4)"), 0, "float64[0, 4]", 0);
  accept_npy(1, "{\"shape\":(2L,),\"descr\":\"|i1\",\"fortran_order\":False}", 2, "int8[2]", 1);
  refuse_npy(NPY("|u1", "False", "(2, 3)"), 5, "truncated");
  refuse_npy(NPY("|u1", "False", "(2, 3)"), 7, "oversized");
  refuse_npy(NPY("|O", "False", "(2,)"), 2, "elements of type '|O'");
  refuse_npy(NPY("<c8", "False", "(1,)"), 8, "elements of type '<c8'");
  refuse_npy(NPY("<f16", "False", "(1,)"), 16, "elements of type '<f16'");
  refuse_npy(NPY("|f4", "False", "(1,)"), 4, "elements of type '|f4'");
  refuse_npy(NPY("<U5", "False", "(1,)"), 20, "elements of type");
  refuse_npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, "structured");
  refuse_npy(NPY("<f4", "Maybe", "(1,)"), 4, "True or False");
  refuse_npy(NPY("<f4", "False", "(1)"), 4, "shape");
  refuse_npy(NPY("<f4", "False", "[1]"), 4, "tuple");
  refuse_npy(NPY("<f4", "False", "(-1,)"), 4, "extent");
  refuse_npy(NPY("<f4", "False", "(1,,)"), 4, "extent");
  refuse_npy(NPY("<f4", "False", "(1 1)"), 4, "shape");
  refuse_npy(NPY("<f4", "False", "(1,1,1,1,1,1,1,1,1)"), 4, "more than 8");
  refuse_npy(NPY("<f4", "False", "(99999999999999999999,)"), 4, "too large");
  refuse_npy(NPY("<f4", "False", "(4611686018427387904,4)"), 4, "too large");
  refuse_npy(NPY("<f4", "False", "(0,4611686018427387904,4)"), 0, "too large");
  refuse_npy("{'descr': '<f4', 'fortran_order': False}", 4, "must all be there");
  refuse_npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, "twice");
  refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", 4, "unknown field");
  refuse_npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, "after");
  refuse_npy("{'descr': '<f4' 'fortran_order': False, 'shape': ()}", 4, "','");
  refuse_npy("{'descr': '<\\x664', 'fortran_order': False, 'shape': ()}", 4, "unexpected text");
  refuse_npy("{'descr", 0, "quote");
  refuse_npy("", 0, "'{' expected");
  Error e = {.status = OK};
  Tensor *t;
  Blob b = npy_blob(4, NPY("<f4", "False", "()"), 4),
       cut = npy_blob(1, NPY("<f4", "False", "()"), 4);
  CHECK(npy_parse(&e, "x", b.bytes, b.used, &t) != OK &&
        failed_with(&e, ERR_VALUE, "version at byte offset 6 is 4"));
  for (size_t n = 0; n < cut.used; n++)
    CHECK(npy_parse(&e, "x", cut.bytes, n, &t) != OK), error_clear(&e);
  b = npy_blob(1, "{'descr': '<u8', 'fortran_order': False, 'shape': ()}", 0);
  blob_add(&b, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  CHECK(npy_parse(&e, "x", b.bytes, b.used, &t) != OK &&
        failed_with(&e, ERR_VALUE, "too large for int64"));
}

static void check_npy_files(void) {
  Error e = {.status = OK};
  NamedTensors n = sample(true);
  const char *path = scratch_path("t.npy");
  for (int i = 0; i < n.count; i++) {
    Tensor *back = NULL;
    if (n.tensor[i]->type.dtype == BF16) {
      CHECK(npy_write(&e, path, n.tensor[i]) == ERR_TYPE && failed_with(&e, ERR_TYPE, "bfloat16"));
      continue;
    }
    CHECK(npy_write(&e, path, n.tensor[i]) == OK && npy_read(&e, path, &back) == OK);
    CHECK(back && type_equal(&back->type, &n.tensor[i]->type));
    for (int64_t k = 0; back && k < type_count(&back->type); k++)
      CHECK(tensor_get(back, k) == tensor_get(n.tensor[i], k));
    tensor_release(back);
  }
  named_clear(&n);
}

static void refuse_idx(const char *bytes, size_t count, const char *part) {
  Error e = {.status = OK};
  Tensor *t;
  CHECK(idx_parse(&e, "x.idx", bytes, count, &t) == ERR_VALUE && !t &&
        strstr(e.message, "x.idx: ") == e.message);
  CHECK(failed_with(&e, ERR_VALUE, part));
}

static void accept_idx(const char *bytes, size_t count, const char *type, double last) {
  Error e = {.status = OK};
  Tensor *t;
  char text[TYPE_TEXT];
  CHECK(idx_parse(&e, "x.idx", bytes, count, &t) == OK && t);
  if (!t) return;
  CHECK(strcmp(type_text(&t->type, text), type) == 0);
  CHECK(type_count(&t->type) == 0 || tensor_get(t, type_count(&t->type) - 1) == last);
  tensor_release(t);
}

#define BYTES(text) text, sizeof text - 1

static void check_idx_rules(void) {
  accept_idx(BYTES("\0\0\x08\1\0\0\0\3\1\2\xff"), "uint8[3]", 255);
  accept_idx(BYTES("\0\0\x09\2\0\0\0\1\0\0\0\2\1\xff"), "int8[1, 2]", -1);
  accept_idx(BYTES("\0\0\x0b\1\0\0\0\1\xff\xfe"), "int32[1]", -2);
  accept_idx(BYTES("\0\0\x0c\1\0\0\0\1\x80\0\0\1"), "int32[1]", -2147483647);
  accept_idx(BYTES("\0\0\x0d\1\0\0\0\1\x3f\xc0\0\0"), "float32[1]", 1.5);
  accept_idx(BYTES("\0\0\x0e\1\0\0\0\1\x3f\xf8\0\0\0\0\0\0"), "float64[1]", 1.5);
  accept_idx(BYTES("\0\0\x08\0\7"), "uint8[]", 7);
  accept_idx(BYTES("\0\0\x08\2\0\0\0\0\0\0\0\5"), "uint8[0, 5]", 0);
  refuse_idx(BYTES(""), "magic number");
  refuse_idx(BYTES("\0\0\x08"), "magic number");
  refuse_idx(BYTES("\1\0\x08\1\0\0\0\0"), "byte offset 0 is 01 00");
  refuse_idx(BYTES("\0\0\x0a\1\0\0\0\0"), "byte offset 2 is 0x0a");
  refuse_idx(BYTES("\0\0\x08\x09\0\0\0\0"), "rank at byte offset 3 is 9");
  refuse_idx(BYTES("\0\0\x08\2\0\0\0\1\0\0"),
             "truncated: extents: 12 bytes expected, it ends at byte offset 10");
  refuse_idx(BYTES("\0\0\x08\1\0\0\0\3\1\2"),
             "truncated: data: [3] of 1-byte elements ends at byte offset 11, the file at 10");
  refuse_idx(BYTES("\0\0\x08\1\0\0\0\3\1\2\3\4"), "oversized");
  refuse_idx(BYTES("\0\0\x08\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
             "too large");
  refuse_idx(BYTES("\0\0\x08\2\xff\xff\xff\xff\xff\xff\xff\xff"), "too large");
}

static void check_idx_files(void) {
  Error e = {.status = OK};
  Tensor *t;
  const char *path = scratch_path("t.idx.gz");
  static const char small[] = "\0\0\x08\1\0\0\0\3abc";
  write_gz(path, small, sizeof small - 1);
  CHECK(idx_read(&e, path, &t) == OK && t && tensor_get(t, 2) == 'c');
  tensor_release(t);
  char *bomb = calloc(1, 1 << 24);
  memcpy(bomb, small, sizeof small);
  write_gz(path, bomb, 1 << 24);
  CHECK(idx_read(&e, path, &t) == ERR_VALUE && !t &&
        failed_with(&e, ERR_VALUE, "oversized: data: it goes on after byte offset 11"));
  bomb[4] = 0x40; /* a gigabyte is promised, 16 MiB come */
  write_gz(path, bomb, 1 << 24);
  CHECK(idx_read(&e, path, &t) == ERR_VALUE && failed_with(&e, ERR_VALUE, "truncated"));
  CHECK(truncate(path, 100) == 0 && idx_read(&e, path, &t) == ERR_VALUE), error_clear(&e);
  CHECK(file_write(&e, path, small, sizeof small - 1) == OK && idx_read(&e, path, &t) == OK);
  tensor_release(t);
  unlink(path);
  CHECK(idx_read(&e, path, &t) == ERR_NOT_FOUND &&
        failed_with(&e, ERR_NOT_FOUND, "t.idx.gz: cannot open"));
  free(bomb);
}

/* ---- CSV, CIFAR, pictures ---- */

static void accept_csv(const char *text, CsvOptions o, const char *type, double last) {
  Error e = {.status = OK};
  Tensor *t;
  char buffer[TYPE_TEXT];
  CHECK(csv_parse(&e, "x.csv", text, strlen(text), &o, &t) == OK);
  if (e.status != OK) fprintf(stderr, "%s\n", e.message);
  if (!t) return;
  CHECK(strcmp(type_text(&t->type, buffer), type) == 0);
  double x = type_count(&t->type) ? tensor_get(t, type_count(&t->type) - 1) : last;
  CHECK(x == last || (isnan(x) && isnan(last)));
  tensor_release(t);
}

static void refuse_csv(const char *text, CsvOptions o, const char *part) {
  Error e = {.status = OK};
  Tensor *t;
  CHECK(csv_parse(&e, "x.csv", text, strlen(text), &o, &t) == ERR_VALUE && !t &&
        failed_with(&e, ERR_VALUE, part));
}

static void check_csv(void) {
  CsvOptions f = {.dtype = F32}, i = {.dtype = I32}, headed = {.dtype = F64, .has_header = true},
             b = {.dtype = BOOL};
  accept_csv("1,2\n3,4\n", f, "float32[2, 2]", 4);
  accept_csv("1,2\r\n3,4", f, "float32[2, 2]", 4);
  accept_csv("\xef\xbb\xbf\n1,2\n\n3, -4.5e1 \n\n", f, "float32[2, 2]", -45);
  static const CsvFill three = {3, 3, true}, half = {0.5, 0, false},
                       wide = {1e12, 1000000000000, true};
  accept_csv("1,\n", (CsvOptions){.dtype = F32, .fill = &three}, "float32[1, 2]", 3);
  accept_csv("1, NA \n", (CsvOptions){.dtype = I32, .fill = &three}, "int32[1, 2]", 3);
  refuse_csv("1,\n", (CsvOptions){.dtype = I32, .fill = &half}, "fill, 0.5, doesn't fit int32");
  refuse_csv("1,\n", (CsvOptions){.dtype = I32, .fill = &wide}, "fill, 1e+12, doesn't fit int32");
  refuse_csv("1,\n", (CsvOptions){.dtype = F16, .fill = &wide}, "fill, 1e+12, doesn't fit float16");
  accept_csv("1,2\r3,4\r", f, "float32[2, 2]", 4);
  accept_csv("\r\r\n1,2\r\r\n3,4\n\r", f, "float32[2, 2]", 4);
  refuse_csv("1\n1e39", f, "line 2, column 1: 1e39 doesn't fit float32");
  refuse_csv("70000", (CsvOptions){.dtype = F16}, "70000 doesn't fit float16");
  refuse_csv("-1e999", (CsvOptions){.dtype = F64}, "-1e999 doesn't fit float64");
  refuse_csv("1,\n", f, "line 1, column 2: the cell is missing (it is empty)");
  refuse_csv("1,2\n3,NA\n", f, "line 2, column 2: the cell is missing (NA)");
  accept_csv("nan,-inf", f, "float32[1, 2]", -(double)INFINITY);
  accept_csv("\"1\",\"2\"\n", i, "int32[1, 2]", 2);
  accept_csv("a,\"b \"\"x\"\",\nc\"\n1,2\n", headed, "float64[1, 2]", 2);
  accept_csv("a,b\n", headed, "float64[0, 2]", 0);
  accept_csv("true,0\nFALSE,1", b, "bool[2, 2]", 1);
  accept_csv("1;2", (CsvOptions){.dtype = U8, .separator = ';'}, "uint8[1, 2]", 2);
  static const char *const names[] = {"b", "a", "b"};
  static const int64_t positions[] = {2, 0, 2};
  accept_csv("a,b,text\n1,2,hello\n3,4,\"x,y\"",
             (CsvOptions){.dtype = F32, .has_header = true, .column_count = 3, .names = names},
             "float32[2, 3]", 4);
  accept_csv("1,x,3\n4,y,6", (CsvOptions){.dtype = I64, .column_count = 2, .positions = positions},
             "int64[2, 2]", 4);
  refuse_csv("1,2\n3\n", f, "line 2 has 1 column; the first one has 2");
  refuse_csv("1,2\n3,x\n", f, "line 2, column 2: 'x' is no number");
  refuse_csv("1,2\n3,rose\n", f,
             "'rose' is no number; data.read_csv reads columns of words; here choose others");
  refuse_csv("1;2\n", f,
             "'1;2' is no number; if ';' stands between the fields, say separator = \";\"");
  refuse_csv("1\t2\n", f, "if tabs stand between the fields, say separator = \"\\t\"");
  refuse_csv("a,b\n1,2\n", f, "'a' is no number; if the first line holds names");
  refuse_csv("1,0x10", f, "column 2: '0x10' is no number");
  refuse_csv("nan(1)", f, "is no number");
  refuse_csv("1.5", i, "'1.5' is no integer");
  refuse_csv("\n\n1\n3000000000", i, "line 4, column 1: 3000000000 doesn't fit int32");
  refuse_csv("99999999999999999999", (CsvOptions){.dtype = I64}, "doesn't fit int64");
  refuse_csv("1,", i, "column 2: the cell is missing");
  refuse_csv("yes", b, "'yes' is no bool");
  refuse_csv("1,\"2\n3\n", f, "line 1, column 2: a quote isn't closed");
  refuse_csv("\"a\nb\",1\"\n", f, "line 2, column 2: a quote inside");
  refuse_csv("\"1\"2", f, "after a closing quote");
  refuse_csv("", f, "the table is empty");
  refuse_csv("\n\n", f, "the table is empty");
  refuse_csv("a,a,b\n1,2,3", (CsvOptions){.has_header = true, .column_count = 2, .names = names},
             "two columns are called 'a'");
  refuse_csv("a,c\n1,2", (CsvOptions){.has_header = true, .column_count = 2, .names = names},
             "no column is called 'b'");
  refuse_csv("a,c\n1,2", (CsvOptions){.column_count = 2, .names = names}, "without a header");
  refuse_csv("1,2", (CsvOptions){.column_count = 2, .positions = positions},
             "no column 2; there are 2");
}

static void check_cifar(void) {
  enum { RECORD = 3073, FINE = 3074 };
  Error e = {.status = OK};
  Tensor *x, *y, *z;
  unsigned char *data = calloc(2, FINE);
  data[0] = 9, data[1 + 1024 + 33] = 7, data[RECORD] = 3;
  CHECK(cifar_parse(&e, "c", 10, data, 2 * RECORD, &x, &y, &z) == OK && x->type.shape[0] == 2 &&
        x->type.shape[3] == 3);
  CHECK(tensor_get(y, 0) == 9 && tensor_get(y, 1) == 3 && tensor_get(x, (32 + 1) * 3 + 1) == 7 &&
        y->type.rank == 1);
  tensor_release(x), tensor_release(y);
  CHECK(cifar_parse(&e, "c", 10, data, 2 * RECORD - 1, &x, &y, &z) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "offset 3073"));
  CHECK(cifar_parse(&e, "c", 10, data, 0, &x, &y, &z) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "not a CIFAR-10 file"));
  CHECK(cifar_parse(&e, "c", 20, data, RECORD, &x, &y, &z) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "10 or 100"));
  data[RECORD] = 10;
  CHECK(cifar_parse(&e, "c", 10, data, 2 * RECORD, &x, &y, &z) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "label at byte offset 3073 is 10"));
  CHECK(!x && !y && !z);
  data[RECORD] = 0, data[1] = 99, data[FINE] = 19;
  CHECK(cifar_parse(&e, "c", 100, data, 2 * FINE, &x, &y, &z) == OK && y->type.rank == 1 &&
        tensor_get(y, 0) == 99 && tensor_get(z, 0) == 9 && tensor_get(z, 1) == 19);
  tensor_release(x), tensor_release(y), tensor_release(z);
  data[FINE + 1] = 100;
  CHECK(cifar_parse(&e, "c", 100, data, 2 * FINE, &x, &y, &z) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "offset 3075 is 100"));
  const char *path = scratch_path("c.bin");
  write_gz(path, data, RECORD);
  CHECK(cifar_read(&e, path, 10, &x, &y, &z) == OK && x && y && !z);
  tensor_release(x), tensor_release(y), unlink(path);
  CHECK(cifar_read(&e, path, 10, &x, &y, &z) == ERR_NOT_FOUND), error_clear(&e);
  free(data);
}

#ifdef HAVE_LIBJPEG
/* A small colour gradient. */
static unsigned char *make_jpeg(unsigned long *bytes, bool progressive) {
  struct jpeg_error_mgr errors;
  struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&errors)};
  unsigned char *data = NULL, row[16 * 3];
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &data, bytes);
  jpeg.image_width = 16, jpeg.image_height = 12, jpeg.input_components = 3,
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < 12; y++) {
    for (int x = 0; x < 16; x++)
      row[3 * x] = (unsigned char)(16 * x), row[3 * x + 1] = (unsigned char)(20 * y),
              row[3 * x + 2] = 128;
    jpeg_write_scanlines(&jpeg, (unsigned char *[]){row}, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  return data;
}

static void check_jpeg(bool progressive) {
  Error e = {.status = OK};
  unsigned long bytes = 0;
  Tensor *t;
  unsigned char *data = make_jpeg(&bytes, progressive);
  CHECK(image_parse(&e, "x.jpg", data, bytes, 0, &t) == OK && t->type.shape[0] == 12 &&
        t->type.shape[1] == 16 && t->type.shape[2] == 3);
  CHECK(fabs(tensor_get(t, (6 * 16 + 8) * 3) - 128) < 12 &&
        fabs(tensor_get(t, (6 * 16 + 8) * 3 + 1) - 120) < 12);
  tensor_release(t);
  CHECK(image_parse(&e, "x.jpg", data, bytes, 1, &t) == OK && t->type.shape[2] == 1);
  tensor_release(t);
  CHECK(image_parse(&e, "x.jpg", data, bytes * 3 / 4, 0, &t) == ERR_VALUE && !t &&
        failed_with(&e, ERR_VALUE, "x.jpg: JPEG data"));
  CHECK(image_parse(&e, "x.jpg", data, 20, 0, &t) == ERR_VALUE), error_clear(&e);
  free(data);
}
#endif

static void check_png(void) {
  Error e = {.status = OK};
  Tensor *back;
  const char *path = scratch_path("t.png");
  for (int channels = 1; channels <= 4; channels++) {
    Tensor *t = range(U8, 3, 5, 3, channels);
    CHECK(image_write(&e, path, t, IMAGE_PNG, 0) == OK && image_read(&e, path, 0, &back) == OK &&
          type_equal(&t->type, &back->type));
    for (int64_t i = 0; back && i < type_count(&t->type); i++)
      CHECK(tensor_get(t, i) == tensor_get(back, i));
    tensor_release(back);
    for (int to = 1; to <= 4; to++) {
      CHECK(image_read(&e, path, to, &back) == OK && back->type.shape[2] == to);
      if (to == 4 && channels % 2 == 1) CHECK(tensor_get(back, 3) == 255);
      tensor_release(back);
    }
    tensor_release(t);
  }
  Tensor *flat = range(U8, 2, 4, 6, 0), *wrong = range(F32, 2, 4, 6, 0),
         *deep = range(U8, 3, 1, 1, 5);
  Type across = type_of(U8, 2, 6, 4, 0);
  Tensor *turned = tensor_view(&e, flat, &across, (int64_t[]){1, 6}, 0);
  CHECK(image_write(&e, path, turned, IMAGE_PNG, 0) == OK && image_read(&e, path, 0, &back) == OK &&
        tensor_get(back, 1) == 6);
  tensor_release(back);
  CHECK(image_write(&e, path, wrong, IMAGE_PNG, 0) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "not float32[4, 6]"));
  CHECK(image_write(&e, path, deep, IMAGE_PNG, 0) == ERR_VALUE), error_clear(&e);
  CHECK(image_read(&e, path, 5, &back) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "1 to 4 channels"));
  CHECK(image_parse(&e, "x", "GIF89a", 6, 0, &back) == ERR_VALUE &&
        failed_with(&e, ERR_VALUE, "neither a PNG nor a JPEG"));
  CHECK(image_parse(&e, "x", "", 0, 0, &back) == ERR_VALUE), error_clear(&e);
  /* 16777216 x 16777216 in 33 bytes, with the right checksum */
  unsigned char huge[] = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\1\0\0\0\1\0\0\0\x08\0\0\0\0....";
  uLong sum = crc32(0, huge + 12, 17);
  for (int i = 0; i < 4; i++) huge[29 + i] = (unsigned char)(sum >> (24 - 8 * i));
  CHECK(image_parse(&e, "x", huge, 33, 0, &back) == ERR_VALUE), error_clear(&e);
  tensor_release(flat), tensor_release(wrong), tensor_release(deep), tensor_release(turned);
}

/* ---- mutated files: any answer is right but a crash, a leak or a tensor that lies ---- */

typedef Status (*ParseAny)(Error *, const void *, size_t, NamedTensors *);

static Status take_one(Error *e, NamedTensors *out, Status s, Tensor *t) {
  named_init(out);
  if (s == OK) named_add(e, out, "x", t);
  tensor_release(t);
  return s;
}

static Status parse_safetensors(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  return safetensors_parse(e, "f", data, bytes, out);
}

static Status parse_npy(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  Tensor *t;
  Status s = npy_parse(e, "f", data, bytes, &t);
  return take_one(e, out, s, t);
}

static Status parse_idx(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  Tensor *t;
  Status s = idx_parse(e, "f", data, bytes, &t);
  return take_one(e, out, s, t);
}

static Status parse_npz(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  const char *path = scratch_path("fuzz.npz");
  FILE *f = fopen(path, "wb");
  fwrite(data, 1, bytes, f);
  fclose(f);
  return npz_read(e, path, out);
}

static Status parse_gz(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  const char *path = scratch_path("fuzz.gz");
  Tensor *t;
  FILE *f = fopen(path, "wb");
  fwrite(data, 1, bytes, f);
  fclose(f);
  Status s = idx_read(e, path, &t);
  return take_one(e, out, s, t);
}

static Status parse_image(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  Tensor *t;
  Status s = image_parse(e, "f", data, bytes, 0, &t);
  return take_one(e, out, s, t);
}

static Status parse_csv(Error *e, const void *data, size_t bytes, NamedTensors *out) {
  Tensor *t;
  CsvOptions o = {.dtype = F32, .has_header = true};
  Status s = csv_parse(e, "f", data, bytes, &o, &t);
  return take_one(e, out, s, t);
}

static uint64_t random_below(uint64_t *counter, uint64_t n) {
  RngKey key = {.seed = 20};
  return rng_below(&key, (*counter)++, n);
}

/* Change, insert, remove or repeat a few bytes; sometimes cut the end. Works in place; returns the
 * new size. */
static size_t mutate(unsigned char *p, size_t bytes, size_t capacity, uint64_t *counter) {
  static const unsigned char liked[] = {0,   1,   0x7f, 0x80, 0xff, '"', '{', '}', '[',
                                        ']', ',', '0',  '9',  '-',  '(', ')', '\''};
  for (uint64_t n = 1 + random_below(counter, 4); n-- && bytes > 4;) {
    /* Headers come first: half of the changes go there. */
    size_t span = random_below(counter, 2) && bytes > 200 ? 200 : bytes,
           at = (size_t)random_below(counter, span);
    switch (random_below(counter, 6)) {
      case 0:
        p[at] ^= (unsigned char)(1 << random_below(counter, 8));
        break;
      case 1:
        p[at] = liked[random_below(counter, sizeof liked)];
        break;
      case 2:
        p[at] = (unsigned char)random_below(counter, 256);
        break;
      case 3:
        memmove(p + at, p + at + 1, bytes - at - 1), bytes--;
        break;
      case 4:
        if (bytes < capacity) memmove(p + at + 1, p + at, bytes - at), bytes++;
        break;
      default:
        if (random_below(counter, 8) == 0) bytes = at;
    }
  }
  return bytes;
}

static void fuzz(const char *name, const void *valid, size_t bytes, ParseAny parse, int rounds) {
  size_t capacity = bytes + 64;
  int accepted = 0;
  uint64_t counter = 0;
  for (int i = 0; i < rounds; i++) {
    /* The exact size, so that a read beyond the end is seen. */
    unsigned char *work = malloc(capacity), *exact;
    memcpy(work, valid, bytes);
    size_t n = i ? mutate(work, bytes, capacity, &counter) : bytes;
    exact = malloc(n ? n : 1);
    memcpy(exact, work, n);
    Error e = {.status = OK};
    NamedTensors out;
    Status s = parse(&e, exact, n, &out);
    CHECK(s == e.status && (s == OK || e.message[0]));
    if (s == OK) accepted++;
    CHECK(i || s == OK);
    for (int k = 0; s == OK && k < out.count; k++)
      CHECK(type_check(&e, name, &out.tensor[k]->type) == OK);
    if (s == OK) named_clear(&out);
    free(work), free(exact);
  }
  printf("fuzz %s: %d of %d accepted\n", name, accepted, rounds);
}

static void fuzz_file(const char *name, const char *path, ParseAny parse, int rounds) {
  Error e = {.status = OK};
  void *data;
  size_t bytes;
  CHECK(file_read(&e, path, 0, false, &data, &bytes) == OK);
  if (e.status != OK) return;
  fuzz(name, data, bytes, parse, rounds);
  free(data);
}

static void check_mutations(int rounds) {
  char path[300];
  snprintf(path, sizeof path, "%s/t.safetensors", scratch);
  fuzz_file("safetensors", path, parse_safetensors, rounds);
  snprintf(path, sizeof path, "%s/t.npz", scratch);
  fuzz_file("npz", path, parse_npz, rounds / 4);
  snprintf(path, sizeof path, "%s/t.npy", scratch);
  fuzz_file("npy", path, parse_npy, rounds);
  static const char idx[] = "\0\0\x0b\2\0\0\0\2\0\0\0\3abcdefghijkl";
  fuzz("idx", idx, sizeof idx - 1, parse_idx, rounds);
  snprintf(path, sizeof path, "%s/fuzz-seed.gz", scratch);
  write_gz(path, idx, sizeof idx - 1);
  fuzz_file("idx.gz", path, parse_gz, rounds / 4);
  static const char csv[] = "a,\"b\"\"\",c\r\n1,2.5e3,\"-3\"\n4,0,nan\n";
  fuzz("csv", csv, sizeof csv - 1, parse_csv, rounds);
  snprintf(path, sizeof path, "%s/t.png", scratch);
  if (image_reads_png()) fuzz_file("png", path, parse_image, rounds);
#ifdef HAVE_LIBJPEG
  for (int progressive = 0; progressive < 2; progressive++) {
    unsigned long bytes = 0;
    unsigned char *data = make_jpeg(&bytes, progressive);
    fuzz("jpeg", data, bytes, parse_image, rounds);
    free(data);
  }
#endif
}

/* ---- every allocation fails once ---- */

typedef Status (*Job)(Error *e);

static Status job_safetensors(Error *e) {
  NamedTensors n;
  Status s = safetensors_read(e, scratch_path("t.safetensors"), &n);
  if (s == OK) s = safetensors_write(e, scratch_path("t.safetensors"), &n);
  named_clear(&n);
  return s;
}

static Status job_npz(Error *e) {
  NamedTensors n;
  Status s = npz_read(e, scratch_path("t.npz"), &n);
  if (s == OK) s = npz_write(e, scratch_path("t.npz"), &n);
  named_clear(&n);
  return s;
}

static Status job_npy(Error *e) {
  Tensor *t;
  Status s = npy_read(e, scratch_path("t.npy"), &t);
  if (s == OK) s = npy_write(e, scratch_path("t.npy"), t);
  tensor_release(t);
  return s;
}

static Status job_idx(Error *e) {
  Tensor *t;
  Status s = idx_read(e, scratch_path("fuzz-seed.gz"), &t);
  tensor_release(t);
  return s;
}

static Status job_csv(Error *e) {
  Tensor *t;
  static const char *const names[] = {"b"};
  CsvOptions o = {.dtype = F32, .has_header = true, .column_count = 1, .names = names};
  Status s = csv_parse(e, "x", "a,b\n1,2\n", 8, &o, &t);
  tensor_release(t);
  return s;
}

static Status job_png(Error *e) {
  Tensor *t;
  Status s = image_read(e, scratch_path("t.png"), 3, &t);
  if (s == OK) s = image_write(e, scratch_path("t.png"), t, IMAGE_PNG, 0);
  tensor_release(t);
  return s;
}

static Status job_print(Error *e) {
  Type type = type_of(F32, 2, 40, 40, 0);
  Tensor *t = tensor_new(e, &type);
  char *text = t ? tensor_text(e, t, &print_defaults) : NULL,
       *repr = t ? tensor_repr(e, t, &print_defaults) : NULL;
  Status s = text && repr ? OK : e->status;
  free(text), free(repr);
  tensor_release(t);
  return s;
}

static Status job_map(Error *e) {
  Map *m = map_new();
  bool ok = m != NULL;
  char key[16];
  for (int i = 0; i < 100 && ok; i++) snprintf(key, sizeof key, "%d", i), ok = map_set(m, key, m);
  map_free(m);
  return ok ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static void check_allocations(void) {
  static const struct {
    const char *name;
    Job run;
  } jobs[] = {{"safetensors", job_safetensors},
              {"npz", job_npz},
              {"npy", job_npy},
              {"idx", job_idx},
              {"csv", job_csv},
              {"png", job_png},
              {"print", job_print},
              {"map", job_map}};
  for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
    if (jobs[j].run == job_png && !image_reads_png()) continue;
    Status s = ERR_OUT_OF_MEMORY;
    int k = 0;
    for (; s == ERR_OUT_OF_MEMORY && k < 5000; k++) {
      Error e = {.status = OK};
      allocations_left = k;
      s = jobs[j].run(&e);
      allocations_left = -1;
      bool right = s == e.status && (s == OK || s == ERR_OUT_OF_MEMORY);
      CHECK(right);
      if (!right)
        fprintf(stderr, "%s, allocation %d: %s: %s\n", jobs[j].name, k, status_kind(s), e.message);
    }
    CHECK(s == OK && k > 1);
    printf("%s: %d allocations\n", jobs[j].name, k - 1);
  }
}

/* ---- the tool ---- */

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

/* Read one file and write it as another, by their endings: for comparisons with other programs. */
static int convert(const char *from, const char *to) {
  Error e = {.status = OK};
  NamedTensors n;
  Tensor *t = NULL;
  named_init(&n);
  if (ends_with(from, ".safetensors")) safetensors_read(&e, from, &n);
  else if (ends_with(from, ".npz")) npz_read(&e, from, &n);
  else if (ends_with(from, ".npy")) npy_read(&e, from, &t);
  else idx_read(&e, from, &t);
  if (t) named_add(&e, &n, "x", t), tensor_release(t);
  if (e.status == OK) {
    if (ends_with(to, ".safetensors")) safetensors_write(&e, to, &n);
    else if (ends_with(to, ".npz")) npz_write(&e, to, &n);
    else if (n.count) npy_write(&e, to, n.tensor[0]);
  }
  named_clear(&n);
  if (e.status != OK) fprintf(stderr, "%s\n", e.message);
  return e.status != OK;
}

/* tensor_check [rounds] | tensor_check print FILE | tensor_check convert FROM TO */
int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "convert") == 0) return convert(argv[2], argv[3]);
  bool there = argc == 3 || scratch_folder(scratch, sizeof scratch);
  CHECK(there);
  if (argc == 3) check_print_cases(argv[2]);
  else if (there) {
    check_first_use();
    check_libraries();
    check_map();
    check_log_and_text();
    check_files();
    check_dtypes();
    check_types();
    check_out_of_memory();
    check_views();
    check_wrapped();
    check_copies();
    check_print_cases("spec/tensor/print_cases.txt");
    check_safetensors_rules();
    check_named_files();
    check_npy_rules();
    check_npy_files();
    check_idx_rules();
    check_idx_files();
    check_csv();
    check_cifar();
    if (image_reads_png()) check_png();
    else printf("pending png: libpng is not in\n");
#ifdef HAVE_LIBJPEG
    check_jpeg(false);
    check_jpeg(true);
#else
    printf("pending jpeg: libjpeg is not in\n");
#endif
    check_mutations(argc > 1 ? atoi(argv[1]) : 4000);
    check_allocations();
    static const char *const left[] = {"t.safetensors", "t.npz",        "t.npy", "fuzz.npz",
                                       "fuzz.gz",       "fuzz-seed.gz", "t.png"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) unlink(scratch_path(left[i]));
    CHECK(rmdir(scratch) == 0);
    CHECK(storage_bytes_alive() == 0);
  }
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures != 0;
}
