/* The C interface at random: api_random SEED COUNT. Functions of random ops, variables, constants
 * and arguments, compared bit by bit with the same ops called at once. Writing into a result
 * changes nothing else. Objects are freed in any order. A seed gives its numbers again, also for
 * functions that were made before. Prints what is wrong, then "COUNT functions, N wrong". */
#include <ipulua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 40, VARIABLES = 3, ARGUMENTS = 3, RESULTS = 6 };

static uint64_t state;
static int wrong;

static int pick(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static void say(const char *what, uint64_t seed) {
  wrong++;
  printf("seed %llu: %s\n", (unsigned long long)seed, what);
}

static void need(ipu_context *c, int status, const char *what) {
  if (status == IPU_OK) return;
  printf("%s: %s\n", what, ipu_last_error(c));
  exit(1);
}

static const int64_t shapes[][2] = {{7, 5}, {7, 1}, {1, 5}};

static ipu_tensor *random_tensor(ipu_context *c, int shape) {
  float data[35];
  for (int i = 0; i < 35; i++) data[i] = (float)(pick(400) - 200) / 64;
  ipu_tensor *t;
  need(c, ipu_tensor_new(c, "float32", 2, shapes[shape], data, &t), "tensor");
  return t;
}

/* A value of the function, and the tensor that it stands for. */
typedef struct Pair {
  ipu_value *value;
  ipu_tensor *tensor;
} Pair;

typedef struct Run {
  ipu_context *c;
  ipu_builder *b;
  ipu_variable *variable[VARIABLES];
  ipu_tensor *at_begin[VARIABLES], *now[VARIABLES];
  ipu_tensor *argument[ARGUMENTS];
  Pair pair[MAX];
  int count;
} Run;

static const struct {
  const char *op, *attributes;
  int inputs;
} ops[] = {{"add", NULL, 2},
           {"mul", NULL, 2},
           {"maximum", NULL, 2},
           {"sub", NULL, 2},
           {"tanh", NULL, 1},
           {"identity", NULL, 1},
           {"stop_gradient", NULL, 1},
           {"nn.relu", NULL, 1},
           {"square", NULL, 1},
           {"reduce_sum", "{\"axis\": [0], \"keepdims\": true}", 1},
           {"reduce_max", "{\"axis\": [1], \"keepdims\": true}", 1},
           {"reverse", "{\"axis\": [0]}", 1},
           {"nn.softmax", "{\"axis\": 1}", 1}};

static void add_op(Run *r) {
  int i = pick((int)(sizeof ops / sizeof *ops));
  Pair *x[2] = {&r->pair[pick(r->count)], &r->pair[pick(r->count)]};
  ipu_value *v[2] = {x[0]->value, x[1]->value}, *made;
  ipu_tensor *t[2] = {x[0]->tensor, x[1]->tensor}, *result;
  need(r->c,
       ipu_builder_apply(r->b, ops[i].op, v, ops[i].inputs, ops[i].attributes, &made, 1, NULL),
       ops[i].op);
  need(r->c, ipu_apply(r->c, ops[i].op, t, ops[i].inputs, ops[i].attributes, &result, 1, NULL),
       ops[i].op);
  r->pair[r->count++] = (Pair){made, result};
}

static void add_read(Run *r) {
  int k = pick(VARIABLES);
  Pair *p = &r->pair[r->count++];
  need(r->c, ipu_builder_read(r->b, r->variable[k], &p->value), "read");
  p->tensor = ipu_tensor_retain(r->now[k]);
}

static int extent(const Pair *p, int axis) { return (int)ipu_value_extent(p->value, axis); }

static void add_assign(Run *r) {
  int k = pick(VARIABLES), i = pick(r->count);
  const Pair *p = &r->pair[i];
  if (extent(p, 0) != 7 || extent(p, 1) != 5) return;
  need(r->c, ipu_builder_assign(r->b, r->variable[k], p->value), "assign");
  ipu_tensor_free(r->now[k]);
  r->now[k] = ipu_tensor_retain(p->tensor);
}

static void add_constant(Run *r) {
  Pair *p = &r->pair[r->count++];
  p->tensor = random_tensor(r->c, pick(3));
  need(r->c, ipu_builder_constant(r->b, p->tensor, &p->value), "constant");
}

static int same(const ipu_tensor *a, const ipu_tensor *b) {
  return ipu_tensor_bytes(a) == ipu_tensor_bytes(b) &&
         !memcmp(ipu_tensor_data(a), ipu_tensor_data(b), ipu_tensor_bytes(a));
}

static void overwrite(ipu_context *c, ipu_tensor *t) {
  size_t bytes = ipu_tensor_bytes(t);
  void *data = malloc(bytes + 1);
  memset(data, 0x41, bytes);
  need(c, ipu_tensor_write(c, t, data, bytes), "write");
  free(data);
}

/* Calls f and compares; then writes into all that came out. */
static void call(Run *r, ipu_function *f, const int *chosen, int count, uint64_t seed) {
  ipu_tensor *out[RESULTS], *v;
  int n;
  for (int k = 0; k < VARIABLES; k++)
    need(r->c, ipu_variable_assign(r->c, r->variable[k], r->at_begin[k]), "assign");
  need(r->c, ipu_function_call(f, r->argument, ARGUMENTS, out, RESULTS, &n), "call");
  for (int i = 0; i < n; i++) {
    if (!same(out[i], r->pair[chosen[i]].tensor)) say("a result has other bits", seed);
    overwrite(r->c, out[i]);
  }
  if (n != count) say("another number of results", seed);
  for (int k = 0; k < VARIABLES; k++) {
    need(r->c, ipu_variable_read(r->c, r->variable[k], &v), "read");
    if (!same(v, r->now[k])) say("a variable has other bits", seed);
    overwrite(r->c, v);
    ipu_tensor_free(v);
  }
  for (int i = 0; i < n; i++) ipu_tensor_free(out[i]);
}

static void begin(Run *r) {
  need(NULL, ipu_context_new(&r->c), "context");
  need(r->c, ipu_set_threads(r->c, 1 + pick(3)), "threads");
  need(r->c, ipu_builder_new(r->c, &r->b), "builder");
  for (int k = 0; k < VARIABLES; k++) {
    r->at_begin[k] = random_tensor(r->c, 0);
    r->now[k] = ipu_tensor_retain(r->at_begin[k]);
    need(r->c, ipu_variable_new(r->c, k ? "v" : NULL, r->at_begin[k], &r->variable[k]), "variable");
  }
  for (int k = 0; k < ARGUMENTS; k++) {
    Pair *p = &r->pair[r->count++];
    p->tensor = r->argument[k] = random_tensor(r->c, k);
    need(r->c, ipu_builder_argument(r->b, "float32", 2, shapes[k], &p->value), "argument");
  }
}

static void end(Run *r, ipu_function *f) {
  int order = pick(3); /* objects may be freed in any order */
  if (order == 0) ipu_context_free(r->c);
  for (int i = 0; i < r->count; i++) ipu_tensor_free(r->pair[i].tensor);
  for (int k = 0; k < VARIABLES; k++) {
    ipu_tensor_free(r->at_begin[k]), ipu_tensor_free(r->now[k]);
    ipu_variable_free(r->variable[k]);
  }
  if (order == 1) ipu_context_free(r->c);
  ipu_function_free(f);
  if (order == 2) ipu_context_free(r->c);
}

static void one(uint64_t seed) {
  Run run = {0};
  state = seed * 977 + 13;
  begin(&run);
  for (int steps = 4 + pick(24); steps > 0; steps--) {
    int kind = pick(10);
    if (kind < 6) add_op(&run);
    else if (kind == 6) add_read(&run);
    else if (kind == 7) add_constant(&run);
    else add_assign(&run);
  }
  int chosen[RESULTS], count = pick(RESULTS + 1);
  ipu_value *results[RESULTS];
  for (int i = 0; i < count; i++) {
    chosen[i] = pick(run.count);
    results[i] = run.pair[chosen[i]].value;
  }
  ipu_function *f;
  need(run.c, ipu_builder_finish(run.b, results, count, &f), "finish");
  ipu_builder_free(run.b);
  for (int i = 0; i < 2; i++) call(&run, f, chosen, count, seed);
  end(&run, f);
}

/* A function made before the seed was set draws what that says, as ipu_apply does. */
static void seeds(uint64_t seed) {
  static const char *const draws[] = {"random.uniform", "random.normal", "random.truncated_normal"};
  ipu_context *c[2];
  ipu_tensor *drawn[2][4];
  for (int i = 0; i < 2; i++) {
    need(NULL, ipu_context_new(&c[i]), "context");
    ipu_builder *b;
    ipu_value *v[3];
    ipu_function *f;
    need(c[i], ipu_builder_new(c[i], &b), "builder");
    for (int k = 0; k < 3; k++)
      need(c[i], ipu_builder_apply(b, draws[k], NULL, 0, "{\"shape\": [9]}", &v[k], 1, NULL),
           draws[k]);
    need(c[i], ipu_builder_finish(b, v, 3, &f), "finish");
    for (int k = 0; k < i + 1; k++) { /* earlier draws don't matter */
      need(c[i], ipu_function_call(f, NULL, 0, drawn[i], 3, NULL), "call");
      for (int j = 0; j < 3; j++) ipu_tensor_free(drawn[i][j]);
    }
    need(c[i], ipu_set_seed(c[i], seed), "seed");
    need(c[i], ipu_function_call(f, NULL, 0, drawn[i], 3, NULL), "call");
    need(c[i], ipu_apply(c[i], draws[0], NULL, 0, "{\"shape\": [9]}", &drawn[i][3], 1, NULL),
         draws[0]);
    ipu_builder_free(b);
    ipu_function_free(f);
  }
  for (int k = 0; k < 4; k++) {
    if (!same(drawn[0][k], drawn[1][k])) say("a seed gives other numbers", seed);
    ipu_tensor_free(drawn[0][k]), ipu_tensor_free(drawn[1][k]);
  }
  for (int i = 0; i < 2; i++) ipu_context_free(c[i]);
}

int main(int count_of_words, char **word) {
  uint64_t first = count_of_words > 1 ? strtoull(word[1], NULL, 10) : 1;
  uint64_t count = count_of_words > 2 ? strtoull(word[2], NULL, 10) : 100;
  for (uint64_t i = 0; i < count; i++) one(first + i);
  for (uint64_t i = 0; i < 4; i++) seeds(first + i * 0x4000000000000001);
  printf("%llu functions, %d wrong\n", (unsigned long long)count, wrong);
  return wrong != 0;
}
