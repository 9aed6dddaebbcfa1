/* The C interface as its users see it: linked with libipulua.so, nothing else. Numbers by hand. */
#include <dirent.h>
#include <ipulua.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.h"

static int passed, failed;
static char folder[300]; /* of what is written */

static void count(bool good, const char *what, const char *detail) {
  if (good) passed++;
  else failed++, printf("FAIL %s: %s\n", what, detail);
}
#define EXPECT(c, condition) count(condition, #condition, ipu_last_error(c))
#define OK_(c, call) count((call) == IPU_OK, #call, ipu_last_error(c))
static void refused(ipu_context *c, int status, int wanted, const char *words, const char *call) {
  count(status == wanted && strstr(ipu_last_error(c), words), call, ipu_last_error(c));
}
#define REFUSED(c, call, wanted, words) refused(c, call, wanted, words, #call)

static ipu_tensor *vector(ipu_context *c, int64_t n, const float *data) {
  ipu_tensor *t = NULL;
  OK_(c, ipu_tensor_new(c, "float32", 1, &n, data, &t));
  return t;
}

static float at(const ipu_tensor *t, int i) { return ((const float *)ipu_tensor_data(t))[i]; }

static void check_tensors(ipu_context *c) {
  const float data[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3}, bad[] = {2, -3};
  ipu_tensor *t, *u;
  const char *text;
  OK_(c, ipu_tensor_new(c, "float32", 2, shape, data, &t));
  EXPECT(c,
         ipu_tensor_rank(t) == 2 && ipu_tensor_extent(t, 0) == 2 && ipu_tensor_extent(t, 1) == 3);
  EXPECT(c, ipu_tensor_extent(t, 2) == -1 && ipu_tensor_extent(t, -1) == -1);
  EXPECT(c, ipu_tensor_count(t) == 6 && ipu_tensor_bytes(t) == 24 &&
                !strcmp(ipu_tensor_dtype(t), "float32"));
  OK_(c, ipu_tensor_text(c, t, &text));
  EXPECT(c, !strcmp(text, "[[1. 2. 3.]\n [4. 5. 6.]]"));
  OK_(c, ipu_tensor_write(c, t, (float[]){6, 5, 4, 3, 2, 1}, 24));
  EXPECT(c, at(t, 0) == 6 && at(t, 5) == 1);
  REFUSED(c, ipu_tensor_write(c, t, data, 20), IPU_E_VALUE, "24 bytes, got 20");
  REFUSED(c, ipu_tensor_new(c, "float33", 2, shape, data, &u), IPU_E_VALUE, "no dtype 'float33'");
  REFUSED(c, ipu_tensor_new(c, "float32", 99, shape, data, &u), IPU_E_VALUE,
          "rank must be 0 to 8, got 99");
  REFUSED(c, ipu_tensor_new(c, "float32", 2, NULL, data, &u), IPU_E_INVALID_ARGUMENT,
          "shape is NULL");
  EXPECT(c, ipu_tensor_new(c, "float32", 2, bad, data, &u) < 0 && u == NULL);
  ipu_tensor_free(ipu_tensor_retain(t));
  EXPECT(c, at(t, 0) == 6);
  ipu_tensor_free(t);
}

/* The words are of this call, not of one before. */
static void said_null(ipu_context *c, int status, const char *function, const char *call) {
  const char *words = ipu_last_error(c);
  count(
      status == IPU_E_INVALID_ARGUMENT && strstr(words, function) == words && strstr(words, "NULL"),
      call, words);
}
#define NULLED(function, ...)                                                       \
  do {                                                                              \
    REFUSED(c, ipu_set_threads(c, -1), IPU_E_VALUE, "threads");                     \
    said_null(c, function(__VA_ARGS__), #function, #function "(" #__VA_ARGS__ ")"); \
  } while (0)

/* Every function that can fail, with NULL for what it is called of, and for what it can't do
 * without. */
static void check_null_words(ipu_context *c) {
  const int64_t shape[] = {2};
  ipu_tensor *t, *none = NULL;
  ipu_builder *b, *no_builder;
  ipu_value *v, *no_value = NULL;
  ipu_variable *w, *no_variable;
  ipu_archive *a;
  ipu_function *f;
  ipu_model *m, *no_model;
  const char *text;
  double number;
  OK_(c, ipu_tensor_new(c, "float32", 1, shape, NULL, &t));
  OK_(c, ipu_variable_new(c, "w", t, &w));
  OK_(c, ipu_builder_new(c, &b));
  OK_(c, ipu_builder_argument(b, "float32", 1, shape, &v));
  OK_(c,
      ipu_model_from_lua(
          c, "local keras = require('ipulua').keras return keras.Sequential{keras.layers.Dense{1}}",
          &m));
  NULLED(ipu_context_new, NULL);
  NULLED(ipu_set_threads, NULL, 1);
  NULLED(ipu_set_seed, NULL, 1);
  NULLED(ipu_tensor_new, NULL, "float32", 1, shape, NULL, &none);
  NULLED(ipu_tensor_new, c, "float32", 1, NULL, NULL, &none);
  NULLED(ipu_tensor_write, NULL, t, shape, 8);
  NULLED(ipu_tensor_write, c, t, NULL, 8);
  NULLED(ipu_tensor_text, NULL, t, &text);
  NULLED(ipu_tensor_text, c, NULL, &text);
  NULLED(ipu_save, NULL, "x.npz", NULL, NULL, 0);
  NULLED(ipu_save, c, "x.npz", NULL, &t, 1);
  NULLED(ipu_save, c, "x.npz", NULL, NULL, 1);
  NULLED(ipu_archive_open, NULL, "x.npz", &a);
  NULLED(ipu_archive_open, c, "x.npz", NULL);
  NULLED(ipu_archive_tensor, NULL, NULL, "x", &none);
  NULLED(ipu_apply, NULL, "exp", &t, 1, NULL, &none, 1, NULL);
  NULLED(ipu_variable_new, NULL, "w", t, &no_variable);
  NULLED(ipu_variable_new, c, "w", NULL, &no_variable);
  NULLED(ipu_variable_new, c, "w", t, NULL);
  NULLED(ipu_variable_read, NULL, w, &none);
  NULLED(ipu_variable_read, c, w, NULL);
  NULLED(ipu_variable_assign, NULL, w, t);
  NULLED(ipu_variable_assign, c, NULL, t);
  NULLED(ipu_variable_assign, c, w, NULL);
  NULLED(ipu_builder_new, NULL, &no_builder);
  NULLED(ipu_builder_new, c, NULL);
  NULLED(ipu_builder_argument, NULL, "float32", 1, shape, &no_value);
  NULLED(ipu_builder_argument, b, "float32", 1, NULL, &no_value);
  NULLED(ipu_builder_argument, b, "float32", 1, shape, NULL);
  NULLED(ipu_builder_constant, NULL, t, &no_value);
  NULLED(ipu_builder_constant, b, NULL, &no_value);
  NULLED(ipu_builder_read, NULL, w, &no_value);
  NULLED(ipu_builder_read, b, NULL, &no_value);
  NULLED(ipu_builder_assign, NULL, w, v);
  NULLED(ipu_builder_assign, b, w, NULL);
  NULLED(ipu_builder_apply, NULL, "exp", &v, 1, NULL, &no_value, 1, NULL);
  NULLED(ipu_builder_gradients, NULL, v, &v, 1, &no_value);
  NULLED(ipu_builder_gradients, b, NULL, &v, 1, &no_value);
  NULLED(ipu_builder_gradients, b, v, &v, 1, NULL);
  NULLED(ipu_builder_variable_gradients, NULL, v, &w, 1, &no_value);
  NULLED(ipu_builder_variable_gradients, b, NULL, &w, 1, &no_value);
  NULLED(ipu_builder_variable_gradients, b, v, &w, 1, NULL);
  NULLED(ipu_builder_finish, NULL, &v, 1, &f);
  NULLED(ipu_function_call, NULL, NULL, 0, NULL, 0, NULL);
  NULLED(ipu_model_from_json, NULL, "{}", &no_model);
  NULLED(ipu_model_from_json, c, NULL, &no_model);
  NULLED(ipu_model_from_lua, NULL, "", &no_model);
  NULLED(ipu_model_from_lua, c, "", NULL);
  NULLED(ipu_model_load, NULL, "x.safetensors", &no_model);
  NULLED(ipu_model_load, c, NULL, &no_model);
  NULLED(ipu_model_save, NULL, "x.safetensors");
  NULLED(ipu_model_save, m, NULL);
  NULLED(ipu_model_load_weights, NULL, "x.npz");
  NULLED(ipu_model_load_weights, m, NULL);
  NULLED(ipu_model_save_weights, NULL, "x.npz");
  NULLED(ipu_model_save_weights, m, NULL);
  NULLED(ipu_model_to_json, NULL, &text);
  NULLED(ipu_model_summary, NULL, &text);
  NULLED(ipu_model_build, NULL, 1, shape);
  NULLED(ipu_model_build, m, 1, NULL);
  NULLED(ipu_model_compile, NULL, "{}");
  NULLED(ipu_model_fit, NULL, NULL, 0, NULL, 0, NULL, NULL);
  NULLED(ipu_model_train_on_batch, NULL, &t, 1, &t, 1, NULL);
  NULLED(ipu_model_evaluate, NULL, &t, 1, &t, 1, NULL, NULL);
  NULLED(ipu_model_log, NULL, "loss", &number);
  NULLED(ipu_model_log, m, "loss", NULL);
  NULLED(ipu_model_predict, NULL, &t, 1, NULL, &none, 1, NULL);
  NULLED(ipu_model_predict, m, &t, 1, NULL, NULL, 1, NULL);
  NULLED(ipu_model_get_weights, NULL, &none, 1, NULL);
  NULLED(ipu_model_get_weights, m, NULL, 1, NULL);
  NULLED(ipu_model_set_weights, NULL, &t, 1);
  NULLED(ipu_model_estimate, NULL, "{}", &text);
  NULLED(ipu_run_lua, NULL, "", &text);
  REFUSED(c, ipu_model_fit(m, NULL, 1, &t, 1, NULL, NULL), IPU_E_INVALID_ARGUMENT,
          "inputs: the list is NULL");
  REFUSED(c, ipu_model_set_weights(m, NULL, 1), IPU_E_INVALID_ARGUMENT, "the list is NULL");
  OK_(c, ipu_set_seed(c, 1));
  EXPECT(c, !strcmp(ipu_last_error(c), "") && !strcmp(ipu_last_error(NULL), "there is no context"));
  REFUSED(c, ipu_tensor_new(c, "float32", 1, shape, NULL, NULL), IPU_E_INVALID_ARGUMENT,
          "ipu_tensor_new: 'out' is NULL");
  REFUSED(c, ipu_tensor_write(c, NULL, shape, 8), IPU_E_INVALID_ARGUMENT,
          "ipu_tensor_write: 't' is NULL");
  REFUSED(c, ipu_save(c, NULL, NULL, NULL, 0), IPU_E_INVALID_ARGUMENT, "ipu_save: 'path' is NULL");
  REFUSED(c, ipu_archive_open(c, NULL, &a), IPU_E_INVALID_ARGUMENT,
          "ipu_archive_open: 'path' is NULL");
  REFUSED(c, ipu_archive_tensor(c, NULL, "x", &none), IPU_E_INVALID_ARGUMENT,
          "ipu_archive_tensor: 'a' is NULL");
  REFUSED(c, ipu_apply(c, "exp", &t, 1, NULL, NULL, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "ipu_apply: 'outputs' is NULL");
  REFUSED(c, ipu_variable_read(c, NULL, &none), IPU_E_INVALID_ARGUMENT,
          "ipu_variable_read: 'v' is NULL");
  REFUSED(c, ipu_builder_apply(b, "exp", &v, 1, NULL, NULL, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "ipu_builder_apply: 'outputs' is NULL");
  REFUSED(c, ipu_builder_finish(b, &v, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "ipu_builder_finish: 'out' is NULL");
  REFUSED(c, ipu_model_from_lua(c, NULL, &no_model), IPU_E_INVALID_ARGUMENT,
          "ipu_model_from_lua: 'code' is NULL");
  REFUSED(c, ipu_run_lua(c, NULL, NULL), IPU_E_INVALID_ARGUMENT, "ipu_run_lua: 'code' is NULL");
  ipu_model_free(m);
  ipu_variable_free(w);
  ipu_builder_free(b);
  ipu_tensor_free(t);
}

static void check_ops(ipu_context *c) {
  ipu_tensor *x = vector(c, 4, (float[]){1, -2, 3, -4}), *y = vector(c, 3, (float[]){1, 2, 3}),
             *out[4], *pair[] = {x, y};
  int n = 99;
  OK_(c, ipu_apply(c, "nn.relu", &x, 1, NULL, out, 1, &n));
  EXPECT(c, n == 1 && at(out[0], 0) == 1 && at(out[0], 1) == 0 && at(out[0], 2) == 3);
  ipu_tensor_free(out[0]);
  OK_(c, ipu_apply(c, "reduce_sum", &x, 1, "{\"axis\": [-1], \"keepdims\": true}", out, 1, NULL));
  EXPECT(c, ipu_tensor_rank(out[0]) == 1 && at(out[0], 0) == -2);
  ipu_tensor_free(out[0]);
  OK_(c, ipu_apply(c, "top_k", &x, 1, "{\"k\": 2}", out, 4, &n));
  EXPECT(c, n == 2 && at(out[0], 0) == 3 && at(out[0], 1) == 1 &&
                ((const int32_t *)ipu_tensor_data(out[1]))[0] == 2);
  ipu_tensor_free(out[0]), ipu_tensor_free(out[1]);
  OK_(c, ipu_apply(c, "concat", pair, 2, "{\"axis\": 0}", out, 1, NULL));
  EXPECT(c, ipu_tensor_count(out[0]) == 7);
  ipu_tensor_free(out[0]);
  OK_(c, ipu_set_seed(c, 7));
  OK_(c, ipu_apply(c, "random.normal", NULL, 0, "{\"shape\": [3]}", &out[0], 1, NULL));
  OK_(c, ipu_apply(c, "random.normal", NULL, 0, "{\"shape\": [3]}", &out[1], 1, NULL));
  OK_(c, ipu_set_seed(c, 7));
  REFUSED(c, ipu_apply(c, "random.normal", NULL, 0, "{\"shape\": [-3]}", &out[2], 1, NULL),
          IPU_E_VALUE, "extent -3"); /* which draws nothing */
  OK_(c, ipu_apply(c, "random.normal", NULL, 0, "{\"shape\": [3]}", &out[2], 1, NULL));
  EXPECT(c, at(out[0], 0) != at(out[1], 0) && at(out[0], 0) == at(out[2], 0));
  for (int i = 0; i < 3; i++) ipu_tensor_free(out[i]);
  REFUSED(c, ipu_apply(c, "add", pair, 2, NULL, out, 1, &n), IPU_E_INVALID_ARGUMENT, "[4] and [3]");
  EXPECT(c, n == 0);
  REFUSED(c, ipu_apply(c, "ad", pair, 2, NULL, out, 1, NULL), IPU_E_NOT_FOUND, "no op 'ad'");
  REFUSED(c, ipu_apply(c, "add", pair, 1, NULL, out, 1, NULL), IPU_E_VALUE,
          "add takes 2 tensors, got 1");
  REFUSED(c, ipu_apply(c, "top_k", &x, 1, "{\"k\": 2}", out, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "2 results, and room for 1");
  EXPECT(c, !out[0]); /* which the caller freed above: nothing is left in a list on failure */
  out[0] = out[1] = x;
  REFUSED(c, ipu_apply(c, "top_k", &x, 1, "{\"k\": 2.5}", out, 2, NULL), IPU_E_TYPE,
          "'k' must be an integer");
  EXPECT(c, !out[0] && !out[1]);
  REFUSED(c, ipu_apply(c, "top_k", &x, 1, "{\"j\": 2}", out, 2, NULL), IPU_E_VALUE,
          "no attribute 'j'");
  REFUSED(c, ipu_apply(c, "top_k", &x, 1, "{\"k\": ", out, 2, NULL), IPU_E_VALUE,
          "attributes are no JSON");
  REFUSED(c, ipu_apply(c, "cast", &x, 1, "{}", out, 1, NULL), IPU_E_TYPE, "'dtype' is missing");
  ipu_tensor *none = NULL;
  REFUSED(c, ipu_apply(c, "exp", &none, 1, NULL, out, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "number 0 is NULL");
  REFUSED(c, ipu_apply(c, "matmull", &x, 1, NULL, out, 1, NULL), IPU_E_NOT_FOUND,
          "no op 'matmull'; did you mean 'matmul'?");
  REFUSED(c, ipu_apply(c, "rellu", &x, 1, NULL, out, 1, NULL), IPU_E_NOT_FOUND,
          "no op 'rellu'; did you mean 'nn.relu'?");
  REFUSED(c, ipu_apply(c, "nothing_of_the_kind", &x, 1, NULL, out, 1, NULL), IPU_E_NOT_FOUND,
          "no op 'nothing_of_the_kind'");
  REFUSED(c, ipu_apply(c, "relu", &x, 1, NULL, out, 1, NULL), IPU_E_NOT_FOUND,
          "no op 'relu'; did you mean 'nn.relu'?");
  REFUSED(c, ipu_apply(c, "matmul", &x, 1, NULL, out, 1, NULL), IPU_E_VALUE,
          "matmul takes 2 tensors, got 1");
  REFUSED(c, ipu_apply(c, "exp", pair, 2, NULL, out, 1, NULL), IPU_E_VALUE,
          "exp takes 1 tensor, got 2");
  REFUSED(c, ipu_apply(c, "reduce_sum", &x, 1, "{\"axes\": 0}", out, 1, NULL), IPU_E_VALUE,
          "no attribute 'axes'; did you mean 'axis'? It has axis, keepdims");
  REFUSED(c, ipu_apply(c, "exp", &x, 1, "{\"axes\": 0}", out, 1, NULL), IPU_E_VALUE,
          "no attribute 'axes'; it has none");
  EXPECT(c, ipu_op_name(0) && !ipu_op_name(100000) && ipu_op_summary("matmul") &&
                !ipu_op_summary("no such op"));
  static const char *const numbers[][4] = {
      /* op, input, beside, the number's dtype */
      {"add", "1", "float16", "float16"}, {"add", "1", NULL, ""},
      {"where", "0", "float32", "bool"},  {"where", "2", "int8", "int8"},
      {"gather", "1", NULL, "int32"},     {"gather", "-1", "int8", "int8"},
      {"gather", "99", "int8", "int8"},   {"add", "0", "float9", ""},
      {"no such op", "0", "int8", ""},    {NULL, "0", "int8", ""}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const char *dtype = ipu_op_number_dtype(numbers[i][0], atoi(numbers[i][1]), numbers[i][2]);
    count(!strcmp(dtype, numbers[i][3]), "ipu_op_number_dtype", dtype);
  }
  ipu_tensor_free(x), ipu_tensor_free(y);
}

/* w <- 3 w between two readings in f(x) = sum(first * x + second * x^2), of w = 2 and x = 5. */
static void check_gradients_by_variables(ipu_context *c) {
  const float two = 2, three = 3;
  ipu_builder *b;
  ipu_tensor *t, *k, *u, *in, *out[5] = {0};
  ipu_variable *v, *unread;
  ipu_function *f;
  ipu_value *x, *first, *second, *factor, *assigned, *a[2], *y, *by[2], *by_variable[2];
  OK_(c, ipu_tensor_new(c, "float32", 0, NULL, &two, &t));
  OK_(c, ipu_tensor_new(c, "float32", 0, NULL, &three, &k));
  OK_(c, ipu_tensor_new(c, "float32", 0, NULL, (float[]){5}, &in));
  OK_(c, ipu_variable_new(c, "w", t, &v));
  OK_(c, ipu_variable_new(c, "other", t, &unread));
  OK_(c, ipu_builder_new(c, &b));
  OK_(c, ipu_builder_argument(b, "float32", 0, NULL, &x));
  OK_(c, ipu_builder_read(b, v, &first));
  OK_(c, ipu_builder_constant(b, k, &factor));
  OK_(c, ipu_builder_apply(b, "mul", (ipu_value *[]){first, factor}, 2, NULL, &assigned, 1, NULL));
  OK_(c, ipu_builder_assign(b, v, assigned));
  OK_(c, ipu_builder_read(b, v, &second));
  OK_(c, ipu_builder_apply(b, "mul", (ipu_value *[]){first, x}, 2, NULL, &a[0], 1, NULL));
  OK_(c, ipu_builder_apply(b, "mul", (ipu_value *[]){second, x}, 2, NULL, &a[1], 1, NULL));
  OK_(c, ipu_builder_apply(b, "mul", (ipu_value *[]){a[1], x}, 2, NULL, &a[1], 1, NULL));
  OK_(c, ipu_builder_apply(b, "add", a, 2, NULL, &y, 1, NULL));
  OK_(c, ipu_builder_apply(b, "add", (ipu_value *[]){y, assigned}, 2, NULL, &y, 1, NULL));
  OK_(c, ipu_builder_gradients(b, y, (ipu_value *[]){first, second}, 2, by));
  OK_(c, ipu_builder_variable_gradients(b, y, (ipu_variable *[]){v, unread}, 2, by_variable));
  EXPECT(c, by_variable[0] && !by_variable[1]);
  OK_(c, ipu_builder_finish(b, (ipu_value *[]){y, by[0], by[1], by_variable[0]}, 4, &f));
  OK_(c, ipu_function_call(f, &in, 1, out, 5, NULL));
  EXPECT(c, at(out[0], 0) == 2 * 5 + 6 * 25 + 6);
  EXPECT(c, at(out[1], 0) == 5 + 3 * 25 + 3); /* through the assignment, too */
  EXPECT(c, at(out[2], 0) == 25);             /* not what was assigned, which y has beside it */
  EXPECT(c, at(out[3], 0) == 5 + 25 + 3);     /* both readings, none through the assignment */
  OK_(c, ipu_variable_read(c, v, &u));
  EXPECT(c, at(u, 0) == 6);
  for (int i = 0; i < 4; i++) ipu_tensor_free(out[i]);
  ipu_tensor_free(t), ipu_tensor_free(k), ipu_tensor_free(u), ipu_tensor_free(in);
  ipu_variable_free(v), ipu_variable_free(unread);
  ipu_function_free(f), ipu_builder_free(b);
}

/* Counts have no bound of the interface's: of tensors, of results, of an attribute's list. */
static void check_counts(ipu_context *c) {
  enum { MANY = 300 };
  ipu_tensor *x[MANY], *rows, *part[MANY + 1], *y;
  ipu_builder *b;
  ipu_value *v[MANY], *sum;
  ipu_function *f;
  char sizes[2 * MANY + 64] = "{\"axis\": 0, \"count_or_sizes\": [1";
  int n;
  for (int i = 0; i < MANY; i++) x[i] = vector(c, 2, (float[]){(float)i, 1});
  for (int i = 1; i < MANY; i++) strcat(sizes, ",1");
  strcat(sizes, "]}");
  OK_(c, ipu_apply(c, "stack", x, MANY, NULL, &rows, 1, NULL));
  EXPECT(c, ipu_tensor_extent(rows, 0) == MANY && at(rows, 2 * (MANY - 1)) == MANY - 1);
  OK_(c, ipu_apply(c, "split", &rows, 1, sizes, part, MANY + 1, &n));
  EXPECT(c, n == MANY && at(part[MANY - 1], 0) == MANY - 1);
  OK_(c, ipu_builder_new(c, &b));
  for (int i = 0; i < MANY; i++)
    OK_(c, ipu_builder_argument(b, "float32", 1, (int64_t[]){2}, &v[i]));
  OK_(c, ipu_builder_apply(b, "stack", v, MANY, NULL, &sum, 1, NULL));
  OK_(c, ipu_builder_apply(b, "reduce_sum", &sum, 1, "{\"axis\": 0}", &sum, 1, NULL));
  OK_(c, ipu_builder_finish(b, &sum, 1, &f));
  OK_(c, ipu_function_call(f, x, MANY, &y, 1, NULL));
  EXPECT(c, at(y, 0) == MANY * (MANY - 1) / 2 && at(y, 1) == MANY);
  for (int i = 0; i < MANY; i++) ipu_tensor_free(x[i]), ipu_tensor_free(part[i]);
  ipu_tensor_free(rows), ipu_tensor_free(y);
  ipu_builder_free(b), ipu_function_free(f);
}

/* f(x) = sum(x * w), w <- w + 1: the gradient by x is w, that by w is sum(x). */
static void check_functions(ipu_context *c) {
  const int64_t shape[] = {3};
  const float two = 2, one = 1;
  ipu_builder *b, *other;
  ipu_value *x, *w, *k, *p, *y, *g[2], *sum, *foreign;
  ipu_tensor *t, *u, *out[3] = {0};
  ipu_variable *v;
  ipu_function *f;
  int n;
  OK_(c, ipu_tensor_new(c, "float32", 0, NULL, &two, &t));
  OK_(c, ipu_tensor_new(c, "float32", 0, NULL, &one, &u));
  OK_(c, ipu_variable_new(c, "w", t, &v));
  OK_(c, ipu_builder_new(c, &b));
  OK_(c, ipu_builder_new(c, &other));
  OK_(c, ipu_builder_argument(other, "float32", 1, shape, &foreign));
  OK_(c, ipu_builder_argument(b, "float32", 1, shape, &x));
  EXPECT(c, ipu_value_rank(x) == 1 && ipu_value_extent(x, 0) == 3 &&
                !strcmp(ipu_value_dtype(x), "float32"));
  OK_(c, ipu_builder_read(b, v, &w));
  REFUSED(c, ipu_builder_argument(b, "float32", 1, shape, &p), IPU_E_FAILED_PRECONDITION,
          "before anything else");
  ipu_value *operands[] = {x, w}, *mixed[] = {foreign, w};
  REFUSED(c, ipu_builder_apply(b, "mul", mixed, 2, NULL, &p, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "another builder's");
  REFUSED(c, ipu_builder_apply(b, "matmul", operands, 2, NULL, &p, 1, NULL), IPU_E_INVALID_ARGUMENT,
          "matmul");
  OK_(c, ipu_builder_apply(b, "mul", operands, 2, NULL, &p, 1, &n));
  OK_(c, ipu_builder_apply(b, "reduce_sum", &p, 1, NULL, &y, 1, NULL));
  OK_(c, ipu_builder_gradients(b, y, operands, 2, g));
  OK_(c, ipu_builder_constant(b, u, &k));
  ipu_value *addends[] = {w, k}, *none[] = {NULL}, *slots[] = {y, y};
  REFUSED(c, ipu_builder_gradients(b, y, none, 1, slots), IPU_E_INVALID_ARGUMENT, "");
  EXPECT(c, !slots[0] && slots[1] == y); /* as many as were asked for */
  OK_(c, ipu_builder_apply(b, "add", addends, 2, NULL, &sum, 1, NULL));
  REFUSED(c, ipu_builder_assign(b, v, x), IPU_E_INVALID_ARGUMENT,
          "variable 'w' is float32[], got float32[3]");
  OK_(c, ipu_builder_assign(b, v, sum));
  ipu_value *results[] = {y, g[0], g[1]};
  OK_(c, ipu_builder_finish(b, results, 3, &f));
  REFUSED(c, ipu_builder_read(b, v, &w), IPU_E_FAILED_PRECONDITION, "can only be freed");
  ipu_function *unmade = f; /* one that failed is over, too */
  REFUSED(c, ipu_builder_finish(other, none, 1, &unmade), IPU_E_INVALID_ARGUMENT, "");
  EXPECT(c, !unmade);
  REFUSED(c, ipu_builder_read(other, v, &w), IPU_E_FAILED_PRECONDITION, "can only be freed");
  ipu_builder_free(b), ipu_builder_free(other);
  ipu_tensor *in = vector(c, 3, (float[]){1, 2, 4}), *wrong = vector(c, 2, (float[]){1, 2});
  for (int step = 0; step < 3; step++) {
    float weight = (float)(2 + step);
    OK_(c, ipu_function_call(f, &in, 1, out, 3, &n));
    EXPECT(c,
           n == 3 && at(out[0], 0) == 7 * weight && at(out[1], 2) == weight && at(out[2], 0) == 7);
    for (int i = 0; i < 3; i++) ipu_tensor_free(out[i]);
  }
  REFUSED(c, ipu_function_call(f, &wrong, 1, out, 3, &n), IPU_E_INVALID_ARGUMENT,
          "float32[3], got float32[2]");
  REFUSED(c, ipu_function_call(f, &in, 1, out, 2, &n), IPU_E_INVALID_ARGUMENT,
          "3 results, and room for 2");
  EXPECT(c, !out[0] && !out[1] && !out[2]);
  REFUSED(c, ipu_function_call(f, NULL, 0, out, 3, &n), IPU_E_VALUE, "takes 1 tensor, got 0");
  OK_(c, ipu_variable_read(c, v, &out[0]));
  EXPECT(c, at(out[0], 0) == 5);
  OK_(c, ipu_variable_assign(c, v, t));
  REFUSED(c, ipu_variable_assign(c, v, in), IPU_E_INVALID_ARGUMENT, "variable 'w'");
  ipu_tensor_free(out[0]), ipu_tensor_free(in), ipu_tensor_free(wrong), ipu_tensor_free(t),
      ipu_tensor_free(u);
  ipu_variable_free(v);
  ipu_function_free(f);
}

static void check_files(ipu_context *c) {
  char path[320];
  ipu_tensor *t = vector(c, 3, (float[]){1, 2, 3}), *u;
  ipu_archive *a;
  const char *names[] = {"x"};
  static const char *const endings[] = {"safetensors", "npz"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/t.%s", folder, endings[i]);
    OK_(c, ipu_save(c, path, names, &t, 1));
    OK_(c, ipu_archive_open(c, path, &a));
    EXPECT(c, ipu_archive_count(a) == 1 && !strcmp(ipu_archive_name(a, 0), "x") &&
                  !ipu_archive_name(a, 1));
    OK_(c, ipu_archive_tensor(c, a, "x", &u));
    ipu_archive_free(a);
    EXPECT(c, at(u, 2) == 3);
    ipu_tensor_free(u);
    unlink(path);
  }
  REFUSED(c, ipu_archive_open(c, "/nonexistent.npz", &a), IPU_E_NOT_FOUND, "/nonexistent.npz");
  REFUSED(c, ipu_save(c, "x.txt", names, &t, 1), IPU_E_VALUE, "must end in");
  ipu_tensor_free(t);
}

static const char architecture[] =
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"line\", \"layers\": ["
    "{\"class_name\": \"Dense\", \"config\": {\"units\": 1, \"name\": \"dense\"}}]}}";

/* One Dense(1) without a hidden layer, SGD on mse: a step from known weights is checked by hand. */
static void check_model(ipu_context *c) {
  const int64_t x_shape[] = {2, 1}, kernel_shape[] = {1, 1}, bias_shape[] = {1};
  const float x_data[] = {1, 2}, y_data[] = {3, 5}, k = 1, zero = 0;
  ipu_tensor *x, *y, *weights[2], *out[4];
  ipu_model *m;
  const char *text;
  double loss = -1;
  int n;
  OK_(c, ipu_tensor_new(c, "float32", 2, x_shape, x_data, &x));
  OK_(c, ipu_tensor_new(c, "float32", 2, x_shape, y_data, &y));
  OK_(c, ipu_tensor_new(c, "float32", 2, kernel_shape, &k, &weights[0]));
  OK_(c, ipu_tensor_new(c, "float32", 1, bias_shape, &zero, &weights[1]));
  OK_(c, ipu_model_from_json(c, architecture, &m));
  OK_(c, ipu_model_build(m, 2, x_shape));
  OK_(c,
      ipu_model_compile(
          m,
          "{\"optimizer\": {\"class_name\": \"SGD\", \"config\": {\"learning_rate\": 0.1}}, \"loss\": \"mse\"}"));
  OK_(c, ipu_model_set_weights(m, weights, 2));
  OK_(c, ipu_model_predict(m, &x, 1, NULL, out, 4, &n));
  EXPECT(c, n == 1 && at(out[0], 0) == 1 && at(out[0], 1) == 2);
  ipu_tensor_free(out[0]);
  OK_(c, ipu_model_train_on_batch(m, &x, 1, &y, 1, &text));
  EXPECT(c, strstr(text, "\"loss\":"));
  OK_(c, ipu_model_log(m, "loss", &loss)); /* ((1-3)^2 + (2-5)^2) / 2 */
  EXPECT(c, loss == 6.5);
  OK_(c, ipu_model_get_weights(m, out, 4, &n)); /* dk = mean(2 e x) = -8, db = mean(2 e) = -5 */
  EXPECT(c, n == 2 && fabs(at(out[0], 0) - 1.8f) < 1e-6 && fabs(at(out[1], 0) - 0.5f) < 1e-6);
  ipu_tensor_free(out[0]), ipu_tensor_free(out[1]);
  OK_(c, ipu_model_fit(m, &x, 1, &y, 1, "{\"epochs\": 200, \"batch_size\": 2}", &text));
  OK_(c, ipu_model_log(m, "loss", &loss));
  EXPECT(c, loss < 1e-3);
  OK_(c, ipu_model_evaluate(m, &x, 1, &y, 1, "{\"batch_size\": 2}", NULL));
  OK_(c, ipu_model_log(m, "loss", &loss));
  REFUSED(c, ipu_model_log(m, "no such", &loss), IPU_E_NOT_FOUND, "no 'no such'");
  OK_(c, ipu_model_summary(m, &text));
  EXPECT(c, strstr(text, "Dense"));
  OK_(c, ipu_model_estimate(m, "{\"batch_size\": 2, \"target\": \"gc200\"}", &text));
  EXPECT(c, strstr(text, "\"samples_per_second\":"));
  OK_(c, ipu_model_to_json(m, &text));
  EXPECT(c, strstr(text, "\"Sequential\""));
  char path[320];
  snprintf(path, sizeof path, "%s/m.safetensors", folder);
  OK_(c, ipu_model_save(m, path));
  ipu_model *again;
  OK_(c, ipu_model_load(c, path, &again));
  ipu_tensor *before, *after;
  OK_(c, ipu_model_predict(m, &x, 1, NULL, &before, 1, NULL));
  OK_(c, ipu_model_predict(again, &x, 1, NULL, &after, 1, NULL));
  EXPECT(c, at(before, 0) == at(after, 0) && at(before, 1) == at(after, 1));
  ipu_tensor_free(before), ipu_tensor_free(after);
  unlink(path);
  ipu_model_free(again);
  REFUSED(c, ipu_model_compile(m, "{\"optimizer\": \"sdg\"}"), IPU_E_VALUE,
          "unknown optimizer 'sdg'");
  REFUSED(c, ipu_model_compile(m, "{\"optimiser\": \"sgd\"}"), IPU_E_TYPE,
          "did you mean 'optimizer'");
  REFUSED(c, ipu_model_compile(m, "not JSON"), IPU_E_VALUE, "options: line 1, column ");
  REFUSED(c, ipu_model_from_json(c, "{}", &again), IPU_E_VALUE, "class_name");
  REFUSED(c, ipu_model_compile(m, "{loss"), IPU_E_VALUE, "options: line 1, column 5");
  REFUSED(c, ipu_model_from_lua(c, "return 1", &again), IPU_E_TYPE, "returns a Keras model");
  REFUSED(c, ipu_model_from_lua(c, "syntax", &again), IPU_E_VALUE, "syntax");
  REFUSED(c, ipu_run_lua(c, "error('mine')", NULL), IPU_E_RUNTIME, "mine");
  REFUSED(c, ipu_run_lua(c, "error{}", NULL), IPU_E_RUNTIME, "(error object is a table value)");
  REFUSED(c, ipu_run_lua(c, "error()", NULL), IPU_E_RUNTIME, "(error object is a nil value)");
  REFUSED(c,
          ipu_run_lua(c,
                      "E = setmetatable({}, {__tostring = function() return 'own words' end}) "
                      "error(E)",
                      NULL),
          IPU_E_RUNTIME, "own words");
  REFUSED(c,
          ipu_run_lua(c,
                      "local ipu = require 'ipulua' ipu.host_callback(function() error(E) end, "
                      "{outputs = {{{}, 'float32'}}})(ipu.ones{1})",
                      NULL),
          IPU_E_RUNTIME, "own words");
  REFUSED(c, ipu_run_lua(c, "\nos.exit(3, true)", NULL), IPU_E_FAILED_PRECONDITION,
          "chunk:2: os.exit is not available in an embedded program");
  REFUSED(c, ipu_run_lua(c, "return 'a\\0b'", &text), IPU_E_VALUE, "a NUL in it");
  OK_(c, ipu_run_lua(c, "return 1 + 1", &text));
  EXPECT(c, !strcmp(text, "2"));
  REFUSED(c, ipu_model_load(c, "/nonexistent.safetensors", &again), IPU_E_NOT_FOUND, "nonexistent");
  OK_(c, ipu_run_lua(c, "return 'return 40 + 2'", &text));
  OK_(c, ipu_run_lua(c, text, &text)); /* borrowed text may be given to the next call */
  count(!strcmp(text, "42"), "borrowed text handed back", text);
  OK_(c, ipu_run_lua(c, "return 6 * 7", &text));
  EXPECT(c, !strcmp(text, "42"));
  OK_(c, ipu_model_from_lua(
             c, "local k = require 'ipulua'.keras return k.Sequential{k.layers.Dense{2}}", &again));
  ipu_model_free(again);
  ipu_tensor_free(x), ipu_tensor_free(y), ipu_tensor_free(weights[0]), ipu_tensor_free(weights[1]);
  ipu_model_free(m);
}

/* Options in JSON: null stands for nothing at any depth, the keys of class_weight are classes,
 * and what the call's arguments say is no option. Two classes of equal probability, weighed by 3
 * and 1: the mean loss is log 2 * (3 + 1 + 1 + 1) / 4. */
static void check_options(ipu_context *c) {
  ipu_model *m;
  ipu_tensor *x, *y, *out;
  const char *text;
  double loss = 0;
  int n = 7;
  OK_(c, ipu_model_from_lua(c,
                            "local k = require 'ipulua'.keras local m = k.Sequential{"
                            "k.layers.Dense{2, activation = 'softmax', kernel_initializer = "
                            "'zeros'}} m:build{4, 5} return m",
                            &m));
  OK_(c, ipu_model_compile(m,
                           "{\"optimizer\": {\"class_name\": \"SGD\", \"config\": "
                           "{\"learning_rate\": 0.0, \"clipnorm\": null}}, "
                           "\"loss\": \"sparse_categorical_crossentropy\"}"));
  OK_(c, ipu_tensor_new(c, "float32", 2, (int64_t[]){4, 5}, NULL, &x));
  OK_(c, ipu_tensor_new(c, "int32", 1, (int64_t[]){4}, (int32_t[]){0, 1, 1, 1}, &y));
  OK_(c, ipu_model_fit(m, &x, 1, &y, 1,
                       "{\"batch_size\": 4, \"class_weight\": {\"0\": 3, \"1\": 1}}", NULL));
  OK_(c, ipu_model_log(m, "loss", &loss));
  EXPECT(c, fabs(loss - 1.5 * log(2)) < 1e-6);
  OK_(c, ipu_model_fit(m, &x, 1, &y, 1, "{\"initial_epoch\": 5}", &text));
  EXPECT(c, !strcmp(text, "{}")); /* logs are an object, without an epoch, too */
  REFUSED(c, ipu_model_fit(m, &x, 1, &y, 1, "{\"class_weight\": {\"a\": 3}}", NULL), IPU_E_VALUE,
          "classes, which are integers, got 'a'");
  REFUSED(c, ipu_model_fit(m, &x, 1, &y, 1, "{\"y\": [1]}", NULL), IPU_E_VALUE, "'y' is no option");
  REFUSED(c, ipu_model_evaluate(m, &x, 1, &y, 1, "{\"return_dict\": false}", NULL), IPU_E_VALUE,
          "'return_dict' is no option");
  REFUSED(c, ipu_model_predict(m, &x, 1, "{\"x\": 1}", &out, 1, NULL), IPU_E_VALUE,
          "'x' is no option");
  REFUSED(c, ipu_model_fit(m, &x, 1, &y, 1, "[1]", NULL), IPU_E_VALUE, "must be a JSON object");
  REFUSED(c, ipu_model_fit(m, &x, 1, &y, 1, "null", NULL), IPU_E_VALUE, "must be a JSON object");
  REFUSED(c, ipu_model_predict(m, &x, 1, NULL, NULL, 0, &n), IPU_E_INVALID_ARGUMENT,
          "there is 1 result, and room for 0");
  EXPECT(c, n == 0);
  REFUSED(c, ipu_model_get_weights(m, NULL, 0, &n), IPU_E_INVALID_ARGUMENT,
          "there are 2 results, and room for 0");
  ipu_tensor_free(x), ipu_tensor_free(y);
  ipu_model_free(m);
}

/* Several contexts, each with a Lua state and threads of its own, side by side: equal seeds give
 * equal weights. */
static void *train(void *result) {
  const int64_t shape[] = {4, 1};
  const float data[] = {1, 2, 3, 4};
  ipu_context *c;
  ipu_tensor *x, *weights[2];
  ipu_model *m;
  if (ipu_context_new(&c) || ipu_set_seed(c, 5) || ipu_set_threads(c, 2) ||
      ipu_tensor_new(c, "float32", 2, shape, data, &x) ||
      ipu_model_from_json(c, architecture, &m) || ipu_model_build(m, 2, shape) ||
      ipu_model_compile(m, "{\"optimizer\": \"adam\", \"loss\": \"mse\"}"))
    return NULL;
  for (int i = 0; i < 50; i++) ipu_model_train_on_batch(m, &x, 1, &x, 1, NULL);
  if (!ipu_model_get_weights(m, weights, 2, NULL)) *(float *)result = at(weights[0], 0);
  ipu_tensor_free(weights[0]), ipu_tensor_free(weights[1]), ipu_tensor_free(x);
  ipu_context_free(c); /* the model keeps it */
  ipu_model_free(m);
  return NULL;
}

static void check_threads(ipu_context *c) {
  pthread_t thread[3];
  float result[3] = {0};
  for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, train, &result[i]);
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  EXPECT(c, result[0] != 0 && result[0] == result[1] && result[1] == result[2]);
}

/* A context is used by one thread after another. Its functions of Lua are called by whichever thread
 * calls the library. Threads of the library read ahead meanwhile. 1 + 2 + … + 40 = 820. */
static void *make_context(void *out) {
  const char *text;
  if (ipu_context_new(out)) return NULL;
  OK_(*(ipu_context **)out, ipu_run_lua(*(ipu_context **)out, "ipu = require 'ipulua'", &text));
  return NULL;
}

static void *read_generator(void *context) {
  const char *text;
  OK_(context,
      ipu_run_lua(context,
                  "local function numbers() local i = 0 return function() i = i + 1 "
                  "return i <= 40 and ipu.tensor(i + 0.0) or nil end end "
                  "local sum = 0 for x in ipu.data.from_generator(numbers, {output_types = "
                  "'float32', output_shapes = {}}):prefetch(3):iter() do sum = sum + x:item() end "
                  "return sum",
                  &text));
  EXPECT((ipu_context *)context, !strcmp(text, "820.0"));
  return NULL;
}

static void check_changing_threads(void) {
  ipu_context *c = NULL;
  pthread_t maker, reader;
  pthread_create(&maker, NULL, make_context, &c);
  pthread_join(maker, NULL);
  pthread_create(&reader, NULL, read_generator, c);
  pthread_join(reader, NULL);
  read_generator(c);
  ipu_context_free(c);
}

#ifndef __SANITIZE_THREAD__
/* The child of a fork has none of a context's threads: it computes without them. */
static int compute_in_child(ipu_context *c, ipu_tensor *x, ipu_tensor *y) {
  ipu_tensor *z = NULL;
  ipu_context *own = NULL;
  alarm(60); /* a child that waits for its parent's threads ends by this signal */
  if (ipu_apply(c, "matmul", (ipu_tensor *[]){x, x}, 2, NULL, &z, 1, NULL)) return 1;
  if (memcmp(ipu_tensor_data(y), ipu_tensor_data(z), ipu_tensor_bytes(y)) != 0) return 2;
  ipu_context_free(c);
  ipu_tensor_free(z);
  if (ipu_context_new(&own) || ipu_set_threads(own, 2)) return 3;
  if (ipu_apply(own, "matmul", (ipu_tensor *[]){x, x}, 2, NULL, &z, 1, NULL)) return 4;
  if (memcmp(ipu_tensor_data(y), ipu_tensor_data(z), ipu_tensor_bytes(y)) != 0) return 5;
  ipu_context_free(own);
  return 0;
}

/* Whether each thread of this process but the caller sleeps. */
static bool others_sleep(void) {
  char path[300], state = 'S';
  DIR *threads_of = opendir("/proc/self/task");
  for (struct dirent *d; threads_of && state == 'S' && (d = readdir(threads_of));) {
    if (d->d_name[0] == '.' || atoi(d->d_name) == (int)getpid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", d->d_name);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = '?';
    if (f) fclose(f);
  }
  if (threads_of) closedir(threads_of);
  return state == 'S';
}

/* A child would wait only for a thread that sleeps at the fork, not for one that still looks for
 * work. */
static void wait_for_rest(void) {
  for (int i = 0; i < 10000 && !others_sleep(); i++) usleep(1000);
}

static void check_fork(void) {
  ipu_context *c;
  ipu_tensor *x, *y;
  int status = -1;
  if (ipu_context_new(&c)) return;
  OK_(c, ipu_set_threads(c, 2));
  OK_(c, ipu_set_seed(c, 1));
  OK_(c, ipu_apply(c, "random.normal", NULL, 0, "{\"shape\": [500, 500]}", &x, 1, NULL));
  OK_(c, ipu_apply(c, "matmul", (ipu_tensor *[]){x, x}, 2, NULL, &y, 1, NULL));
  wait_for_rest();
  pid_t child = fork();
  if (child == 0) _exit(compute_in_child(c, x, y));
  EXPECT(c, child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(c, WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ipu_tensor_free(x), ipu_tensor_free(y);
  ipu_context_free(c);
}
#endif

static void check_null(void) {
  ipu_tensor_free(NULL), ipu_archive_free(NULL), ipu_variable_free(NULL), ipu_builder_free(NULL);
  ipu_function_free(NULL), ipu_model_free(NULL), ipu_context_free(NULL);
  count(ipu_context_new(NULL) == IPU_E_INVALID_ARGUMENT, "NULL", "context");
  count(ipu_tensor_retain(NULL) == NULL && ipu_tensor_data(NULL) == NULL &&
            ipu_tensor_rank(NULL) == 0,
        "NULL", "tensor");
  count(ipu_abi_version() == IPU_ABI_VERSION, "abi", ipu_version());
  count(!strcmp(ipu_status_name(IPU_E_VALUE), "IPU_E_VALUE") &&
            !strcmp(ipu_status_name(0), "IPU_OK") &&
            !strcmp(ipu_status_name(-999), "IPU_E_INTERNAL") &&
            !strcmp(ipu_status_name(IPU_E_CANCELLED), "IPU_E_CANCELLED"),
        "status", "names");
}

/* A value written to one handle is seen by no other. */
static void check_writing(ipu_context *c) {
  const float ones[] = {1, 1, 1}, nines[] = {9, 9, 9};
  const char *name = "x";
  char path[320];
  const int64_t three = 3;
  ipu_tensor *x, *first, *second, *y, *same;
  ipu_archive *a;
  ipu_variable *w;
  ipu_builder *b;
  ipu_value *v;
  ipu_function *f;
  snprintf(path, sizeof path, "%s/writing.npz", folder);
  x = vector(c, 3, ones);
  OK_(c, ipu_save(c, path, &name, &x, 1));
  OK_(c, ipu_archive_open(c, path, &a));
  OK_(c, ipu_archive_tensor(c, a, "x", &first));
  OK_(c, ipu_tensor_write(c, first, nines, sizeof nines));
  OK_(c, ipu_archive_tensor(c, a, "x", &second));
  EXPECT(c, at(second, 0) == 1);
  ipu_tensor_free(second);
  remove(path);
  static const char *const views[][2] = {{"reshape", "{\"shape\": [3, 1]}"},
                                         {"identity", NULL},
                                         {"expand_dims", "{\"axis\": 0}"},
                                         {"slice", "{\"begin\": [0], \"size\": [3]}"},
                                         {"transpose", NULL}};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    OK_(c, ipu_apply(c, views[i][0], &x, 1, views[i][1], &y, 1, NULL));
    OK_(c, ipu_tensor_write(c, y, nines, sizeof nines));
    count(at(x, 0) == 1 && at(x, 2) == 1, views[i][0], "writing to its result changes its operand");
    ipu_tensor_free(y);
  }
  OK_(c, ipu_variable_new(c, "w", x, &w));
  OK_(c, ipu_variable_read(c, w, &y));
  OK_(c, ipu_tensor_write(c, y, nines, sizeof nines));
  ipu_tensor_free(y);
  OK_(c, ipu_variable_read(c, w, &second));
  EXPECT(c, at(second, 0) == 1);
  OK_(c, ipu_builder_new(c, &b));
  OK_(c, ipu_builder_argument(b, "float32", 1, &three, &v));
  OK_(c, ipu_builder_finish(b, &v, 1, &f)); /* gives its argument back */
  OK_(c, ipu_function_call(f, &x, 1, &y, 1, NULL));
  OK_(c, ipu_tensor_write(c, y, nines, sizeof nines));
  EXPECT(c, at(x, 0) == 1);
  same = ipu_tensor_retain(x);
  OK_(c, ipu_tensor_write(c, same, nines, sizeof nines));
  EXPECT(c, at(x, 0) == 9);
  ipu_archive_free(a);
  ipu_variable_free(w);
  ipu_builder_free(b);
  ipu_function_free(f);
  for (ipu_tensor **t = (ipu_tensor *[]){x, first, second, y, same, NULL}; *t; t++)
    ipu_tensor_free(*t);
}

/* After a failure the result of a call is NULL or 0, also with NULL in place of any argument. So it
 * may be freed without a look at the status. */
#define EMPTIED(what, call)                            \
  do {                                                 \
    what = (void *)&what, n = 7;                       \
    count((call) != IPU_OK && !what && !n, #call, ""); \
  } while (0)
#define GIVES_NONE(what, call) EMPTIED(what, (n = 0, call))

static void check_emptied(ipu_context *c) {
  const int64_t shape[] = {2};
  ipu_tensor *t = vector(c, 2, (float[]){1, 2}), *out;
  ipu_archive *a;
  ipu_variable *w;
  ipu_builder *b;
  ipu_value *v;
  ipu_function *f;
  ipu_model *m;
  int n;
  for (int i = 0; i < 2; i++) {
    ipu_context *given = i ? c : NULL;
    GIVES_NONE(out, ipu_tensor_new(given, i ? "float9" : "float32", 1, shape, NULL, &out));
    GIVES_NONE(a, ipu_archive_open(given, i ? NULL : "x.npz", &a));
    GIVES_NONE(out, ipu_archive_tensor(given, NULL, "x", &out));
    GIVES_NONE(w, ipu_variable_new(given, "w", i ? NULL : t, &w));
    GIVES_NONE(out, ipu_variable_read(given, NULL, &out));
    EMPTIED(out, ipu_apply(given, i ? "nosuch" : "exp", &t, 1, NULL, &out, 1, &n));
    GIVES_NONE(m, ipu_model_from_json(given, i ? NULL : "{}", &m));
    GIVES_NONE(m, ipu_model_from_lua(given, i ? NULL : "", &m));
    GIVES_NONE(m, ipu_model_load(given, i ? NULL : "x.safetensors", &m));
  }
  GIVES_NONE(b, ipu_builder_new(NULL, &b));
  for (int i = 0; i < 2; i++) {
    ipu_builder *given = NULL;
    if (i) OK_(c, ipu_builder_new(c, &given));
    GIVES_NONE(v, ipu_builder_argument(given, i ? "float9" : "float32", 1, shape, &v));
    GIVES_NONE(v, ipu_builder_constant(given, i ? NULL : t, &v));
    GIVES_NONE(v, ipu_builder_read(given, NULL, &v));
    EMPTIED(v, ipu_builder_apply(given, i ? "nosuch" : "exp", NULL, 0, NULL, &v, 1, &n));
    GIVES_NONE(v, ipu_builder_gradients(given, NULL, NULL, 1, &v));
    GIVES_NONE(v, ipu_builder_variable_gradients(given, NULL, NULL, 1, &v));
    GIVES_NONE(f, ipu_builder_finish(given, NULL, 1, &f));
    ipu_builder_free(given);
  }
  EMPTIED(out, ipu_function_call(NULL, &t, 1, &out, 1, &n));
  EMPTIED(out, ipu_model_predict(NULL, &t, 1, NULL, &out, 1, &n));
  EMPTIED(out, ipu_model_get_weights(NULL, &out, 1, &n));
  ipu_tensor_free(t);
}

static void check_attribute_words(ipu_context *c) {
  const float ones[] = {1, 1, 1};
  ipu_tensor *x = vector(c, 3, ones), *y;
  REFUSED(c, ipu_apply(c, "reduce_sum", &x, 1, "{\"axis\": [0], \"axis\": [0]}", &y, 1, NULL),
          IPU_E_VALUE, "duplicate object key");
  REFUSED(c, ipu_apply(c, "reduce_sum", &x, 1, "{\"axis\": 99999999999999999999}", &y, 1, NULL),
          IPU_E_VALUE, "too big integer");
  REFUSED(c, ipu_apply(c, "reduce_sum", &x, 1, "{\"axis\": [0],}", &y, 1, NULL), IPU_E_VALUE,
          "line 1, column 14: ");
  REFUSED(c, ipu_apply(c, "reduce_sum", &x, 1, "[1]", &y, 1, NULL), IPU_E_VALUE,
          "must be a JSON object, got [1]");
  ipu_tensor_free(x);
}

int main(void) {
  ipu_context *c;
  check_null();
  if (!scratch_folder(folder, sizeof folder) || ipu_context_new(&c) != IPU_OK) return 1;
  check_tensors(c);
  check_null_words(c);
  check_ops(c);
  check_functions(c);
  check_gradients_by_variables(c);
  check_counts(c);
  check_files(c);
  check_writing(c);
  check_attribute_words(c);
  check_model(c);
  check_options(c);
  check_emptied(c);
  check_threads(c);
  check_changing_threads();
#ifndef __SANITIZE_THREAD__ /* it ends the child of a process with threads that makes another */
  check_fork();
#endif
  ipu_context_free(c);
  count(rmdir(folder) == 0, "files", "none is left");
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
