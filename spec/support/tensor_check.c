/* Checks of base/ and tensor/ that Lua can't reach: views, failures, hostile files. Run from the repository's
 * root: build/tensor_check [scratch folder]. Prints what failed; exit status 1 if anything did. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/decimal.h"
#include "tensor/print.h"

static int checks, failures;

static void check_at(bool ok, const char *file, int line, const char *what) {
  checks++;
  if (ok) return;
  if (failures++ < 40) fprintf(stderr, "%s:%d: %s\n", file, line, what);
}
#define CHECK(condition) check_at((condition), __FILE__, __LINE__, #condition)

/* ---- printing -------------------------------------------------------------------------------------------- */

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

/* The lines that begin with mark, joined; NULL when there are none. *line is the first that does not. */
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
    fprintf(stderr, "print case %d, %s: expected\n%s\ngot\n%s\n", number, what, expected, actual ? actual : "(null)");
}

static void print_case(int number, const char *header, const char *text, const char *repr) {
  char name[32], extents[64];
  int at = 0;
  Type type = {.rank = 0};
  Error e = {.status = OK};
  if (sscanf(header, "%31s %63s %n", name, extents, &at) < 2 || !dtype_find(name, &type.dtype)) {
    CHECK(!"a case begins with its dtype");
    return;
  }
  parse_extents(extents, &type);
  Tensor *t = tensor_new(&e, &type);
  fill(t, header + at);
  char *actual_text = tensor_text(&e, t), *actual_repr = tensor_repr(&e, t);
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
    char *text = expected_text(f, '|', &line, &capacity), *repr = expected_text(f, '>', &line, &capacity);
    print_case(++number, header, text, repr);
    free(header), free(text), free(repr);
  }
  CHECK(number > 100);
  free(line);
  fclose(f);
}

int main(int argc, char **argv) {
  check_print_cases(argc > 1 ? argv[1] : "spec/tensor/print_cases.txt");
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
