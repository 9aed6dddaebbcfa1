/* All ops of the C interface with random operands and attributes: api_all_ops SEED COUNT. Answers
 * of ipu_apply and of a function are compared: the status and its words, and the number, types and
 * bits of the results. A handle is NULL after a failure. Prints what differs, then "COUNT calls, N
 * taken, M wrong". */
#include <ipulua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 5, RESULTS = 16, ATTRIBUTES = 300 };

static uint64_t state;
static int wrong, taken;

static int pick(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static const char *const dtypes[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                     "uint8",   "int32",   "int64",   "bool"};
static const char *const names[] = {"axis",  "keepdims", "shape", "dtype", "begin",    "size",
                                    "k",     "perm",     "depth", "alpha", "paddings", "seed",
                                    "count", "reverse",  "rate",  "mode",  "strides",  "limit"};
static const char *const values[] = {"0",
                                     "1",
                                     "-1",
                                     "2",
                                     "[0]",
                                     "[1, 0]",
                                     "[2, 3]",
                                     "[-1]",
                                     "true",
                                     "false",
                                     "0.5",
                                     "\"same\"",
                                     "\"SAME\"",
                                     "\"int32\"",
                                     "[]",
                                     "[[1, 1], [0, 2]]",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "1e300",
                                     "null",
                                     "\"float16\"",
                                     "[1099511627776]",
                                     "3",
                                     "[3]",
                                     "\"float32\""};

/* The first are likely, so that ops meet what they take. */
static int extent(void) {
  static const int extents[] = {3, 3, 2, 2, 1, 5, 0, 17};
  return extents[pick(8)];
}

static ipu_tensor *operand(ipu_context *c, const char *dtype, int rank) {
  int64_t shape[8];
  ipu_tensor *t;
  for (int i = 0; i < rank; i++) shape[i] = extent();
  if (ipu_tensor_new(c, dtype, rank, shape, NULL, &t)) return NULL;
  /* small whole numbers, as every dtype has them */
  ipu_tensor *numbers, *converted;
  int64_t count = ipu_tensor_count(t);
  double *values64 = calloc((size_t)count + 1, sizeof *values64);
  for (int64_t i = 0; i < count; i++) values64[i] = pick(7) - (pick(4) ? 0 : 3);
  char attributes[40];
  snprintf(attributes, sizeof attributes, "{\"dtype\": \"%s\"}", dtype);
  if (!ipu_tensor_new(c, "float64", rank, shape, values64, &numbers) &&
      !ipu_apply(c, "cast", &numbers, 1, attributes, &converted, 1, NULL)) {
    ipu_tensor_free(t);
    t = converted;
  }
  ipu_tensor_free(numbers);
  free(values64);
  return t;
}

/* With names that the op has, where its refusal of another one tells them. */
static void draw_attributes(ipu_context *c, const char *op, ipu_tensor **in, int count, char *out) {
  char known[ATTRIBUTES] = "";
  ipu_tensor *none[RESULTS];
  if (ipu_apply(c, op, in, count, "{\"no such name\": 1}", none, RESULTS, NULL)) {
    const char *list = strstr(ipu_last_error(c), " has ");
    list = list ? strstr(list + 5, " has ") ? strstr(list + 5, " has ") + 5 : list + 5 : "";
    snprintf(known, sizeof known, "%.280s", list);
  }
  const char *name[16];
  int names_known = 0;
  for (char *word = strtok(known, ", "); word && names_known < 16; word = strtok(NULL, ", "))
    if (strcmp(word, "none")) name[names_known++] = word;
  size_t at = (size_t)snprintf(out, ATTRIBUTES, "{");
  bool first = true;
  for (int i = 0; i < names_known; i++) {
    if (pick(2)) continue;
    at += (size_t)snprintf(out + at, ATTRIBUTES - at, "%s\"%.30s\": %s", first ? "" : ", ", name[i],
                           values[pick((int)(sizeof values / sizeof *values))]);
    first = false;
    if (at > ATTRIBUTES - 80) break;
  }
  if (!names_known && pick(4) == 0)
    at += (size_t)snprintf(out + at, ATTRIBUTES - at, "\"%s\": 1", names[pick(18)]);
  snprintf(out + at, ATTRIBUTES - at, "}");
}

static void differ(uint64_t seed, const char *op, const char *attributes, const char *what,
                   const char *a, const char *b) {
  wrong++;
  printf("seed %llu: %s %s: %s: %s | %s\n", (unsigned long long)seed, op, attributes, what, a, b);
}

static bool same(const ipu_tensor *a, const ipu_tensor *b) {
  if (strcmp(ipu_tensor_dtype(a), ipu_tensor_dtype(b)) || ipu_tensor_rank(a) != ipu_tensor_rank(b))
    return false;
  for (int i = 0; i < ipu_tensor_rank(a); i++)
    if (ipu_tensor_extent(a, i) != ipu_tensor_extent(b, i)) return false;
  return !ipu_tensor_bytes(a) ||
         !memcmp(ipu_tensor_data(a), ipu_tensor_data(b), ipu_tensor_bytes(a));
}

/* The same call in a function; what it says goes to words. */
static int in_function(ipu_context *c, const char *op, ipu_tensor **in, int count,
                       const char *attributes, ipu_tensor **out, int *n, char *words) {
  ipu_builder *b;
  ipu_function *f = NULL;
  ipu_value *v[OPERANDS], *made[RESULTS];
  int status = ipu_builder_new(c, &b);
  *n = 0;
  for (int i = 0; i < count && !status; i++) {
    int64_t shape[8];
    for (int k = 0; k < ipu_tensor_rank(in[i]); k++) shape[k] = ipu_tensor_extent(in[i], k);
    status = ipu_builder_argument(b, ipu_tensor_dtype(in[i]), ipu_tensor_rank(in[i]), shape, &v[i]);
  }
  if (!status) status = ipu_builder_apply(b, op, v, count, attributes, made, RESULTS, n);
  if (!status) status = ipu_builder_finish(b, made, *n, &f);
  if (!status) status = ipu_function_call(f, in, count, out, RESULTS, n);
  snprintf(words, ATTRIBUTES, "%.299s", ipu_last_error(c));
  ipu_function_free(f);
  ipu_builder_free(b);
  if (status) *n = 0;
  return status;
}

/* How many operands the op takes; any number every eighth time. */
static int draw_count(ipu_context *c, const char *op, ipu_tensor **in) {
  ipu_tensor *none[RESULTS];
  for (int tries = pick(8) ? 8 : 1; tries > 0; tries--) {
    int count = pick(OPERANDS + 1);
    if (ipu_apply(c, op, in, count, "{\"no such name\": 1}", none, RESULTS, NULL) &&
        (tries == 1 || !strstr(ipu_last_error(c), " takes ")))
      return count;
  }
  return 0;
}

static void one(ipu_context *c, uint64_t seed, int op_count) {
  state = seed * 977 + 13;
  const char *op = ipu_op_name(pick(op_count)), *dtype = dtypes[pick(9)];
  ipu_tensor *in[OPERANDS], *now[RESULTS], *later[RESULTS];
  char attributes[ATTRIBUTES], words[2][ATTRIBUTES];
  int rank = pick(4), n[2] = {0};
  for (int i = 0; i < OPERANDS; i++)
    in[i] = operand(c, pick(3) ? dtype : dtypes[pick(9)], pick(3) ? rank : pick(5));
  int count = draw_count(c, op, in);
  draw_attributes(c, op, in, count, attributes);
  memset(now, 0x55, sizeof now);
  int status = ipu_apply(c, op, in, count, attributes, now, RESULTS, &n[0]);
  snprintf(words[0], ATTRIBUTES, "%.299s", ipu_last_error(c));
  int in_a_function = in_function(c, op, in, count, attributes, later, &n[1], words[1]);
  /* two draws differ */
  bool draws = !strncmp(op, "random.", 7) || strstr(op, "dropout") || strstr(op, "sampl");
  if (status)
    for (int i = 0; i < RESULTS; i++)
      if (now[i]) differ(seed, op, attributes, "a handle behind a failure", words[0], "");
  if (status != in_a_function || n[0] != n[1]) {
    differ(seed, op, attributes, "status", words[0], words[1]);
  } else if (!strstr(words[0], words[1])) { /* that too much memory is wanted stands alone there */
    differ(seed, op, attributes, "words", words[0], words[1]);
  } else if (!draws) {
    for (int i = 0; i < n[0]; i++)
      if (!same(now[i], later[i])) differ(seed, op, attributes, "a result", "", "");
  }
  taken += status == IPU_OK;
  for (int i = 0; i < n[0] && !status; i++) ipu_tensor_free(now[i]);
  for (int i = 0; i < n[1]; i++) ipu_tensor_free(later[i]);
  for (int i = 0; i < OPERANDS; i++) ipu_tensor_free(in[i]);
}

int main(int count_of_words, char **word) {
  uint64_t first = count_of_words > 1 ? strtoull(word[1], NULL, 10) : 1;
  uint64_t count = count_of_words > 2 ? strtoull(word[2], NULL, 10) : 1000;
  ipu_context *c;
  int op_count = 0;
  while (ipu_op_name(op_count)) op_count++;
  if (ipu_context_new(&c)) return 1;
  for (uint64_t i = 0; i < count; i++) one(c, first + i, op_count);
  ipu_context_free(c);
  printf("%llu calls, %d taken, %d wrong\n", (unsigned long long)count, taken, wrong);
  return wrong != 0;
}
