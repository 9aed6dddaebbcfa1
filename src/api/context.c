/* Contexts: threads, seed, and the last error. */
#include "api/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/rng.h"
#include "base/version.h"
#include "kernels/products.h"

/* A status of the interface is the negative of ours. */
_Static_assert(IPU_E_VALUE == -ERR_VALUE && IPU_E_TYPE == -ERR_TYPE &&
                   IPU_E_INVALID_ARGUMENT == -ERR_INVALID_ARGUMENT &&
                   IPU_E_FAILED_PRECONDITION == -ERR_FAILED_PRECONDITION &&
                   IPU_E_NOT_FOUND == -ERR_NOT_FOUND &&
                   IPU_E_NOT_IMPLEMENTED == -ERR_NOT_IMPLEMENTED &&
                   IPU_E_OUT_OF_RANGE == -ERR_OUT_OF_RANGE &&
                   IPU_E_OUT_OF_MEMORY == -ERR_OUT_OF_MEMORY && IPU_E_RUNTIME == -ERR_RUNTIME &&
                   IPU_E_CANCELLED == -ERR_CANCELLED && IPU_E_INTERNAL == -ERR_INTERNAL,
               "ipulua.h and base/status.h list the same kinds in the same order");

uint32_t ipu_abi_version(void) { return IPU_ABI_VERSION; }
const char *ipu_version(void) { return IPULUA_VERSION; }

const char *ipu_status_name(int status) {
  return status > 0 || status <= -(int)STATUS_COUNT ? "IPU_E_INTERNAL"
                                                    : status_code((Status)-status);
}

/* Of this thread's newest call, if that was given no context to keep words in; else "". */
static _Thread_local char without_context[160];

static void keep_without_context(const char *function) {
  snprintf(without_context, sizeof without_context, "%s: the first argument is NULL", function);
}

int ipu_context_new(ipu_context **out) {
  if (!out) return keep_without_context("ipu_context_new"), IPU_E_INVALID_ARGUMENT;
  without_context[0] = '\0';
  *out = NULL;
  ipu_context *c = calloc(1, sizeof *c);
  if (!c) return IPU_E_OUT_OF_MEMORY;
  c->references = 1;
  c->engine = engine_new(&c->error, 0, rng_system_seed());
  if (!c->engine || engine_choose_kernels(&c->error, c->engine, getenv(KERNELS_VARIABLE),
                                          getenv(PRODUCTS_VARIABLE)) != OK) {
    snprintf(without_context, sizeof without_context, "%.150s", c->error.message);
    int status = context_end(c);
    engine_free(c->engine);
    free(c->text_before), free(c->text);
    free(c);
    return status;
  }
  *out = c;
  return IPU_OK;
}

ipu_context *context_retain(ipu_context *c) {
  atomic_fetch_add(&c->references, 1);
  return c;
}

/* ---- counters of random ops ---- */

/* Those that no function has any more go. */
static void drop_counters(ipu_context *c, bool all) {
  int kept = 0;
  for (int i = 0; i < c->counter_count; i++) {
    if (all || c->counter[i]->references == 1) variable_release(c->counter[i]);
    else c->counter[kept++] = c->counter[i];
  }
  c->counter_count = kept;
}

static void start_counter(ipu_context *c, Variable *v) {
  void *data = variable_writable(&c->error, v);
  if (data) dtype_set_integer(I64, data, 0, rng_counter_start(c->engine->seed));
}

Status context_keep_counter(ipu_context *c, Variable *v) {
  if (c->counter_count == c->counter_capacity) drop_counters(c, false);
  if (!array_reserve(&c->counter, &c->counter_capacity, c->counter_count + 1, sizeof *c->counter))
    return fail(&c->error, ERR_OUT_OF_MEMORY, "out of memory");
  c->counter[c->counter_count++] = variable_retain(v);
  start_counter(c, v);
  return c->error.status;
}

void ipu_context_free(ipu_context *c) {
  if (!c || atomic_fetch_sub(&c->references, 1) != 1) return;
  if (c->lua) c->bridge->close(c->lua);
  drop_counters(c, true);
  free(c->counter);
  engine_free(c->engine);
  free(c->text_before), free(c->text);
  free(c);
}

const char *ipu_last_error(const ipu_context *c) {
  return without_context[0] ? without_context : c ? c->error.message : "there is no context";
}

Error *context_begin(ipu_context *c) {
  without_context[0] = '\0';
  error_clear(&c->error);
  free(c->text_before);
  c->text_before = c->text;
  c->text = NULL;
  return &c->error;
}

int context_end(const ipu_context *c) { return -(int)c->error.status; }

int context_fail(ipu_context *c, Status s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  failv(&c->error, s, format, args);
  va_end(args);
  return context_end(c);
}

bool context_given(ipu_context *c, const char *function, const Given *given) {
  if (!c) return keep_without_context(function), false;
  while (given->name && given->pointer) given++;
  if (!given->name) return true;
  context_begin(c);
  context_fail(c, ERR_INVALID_ARGUMENT, "%s: '%s' is NULL", function, given->name);
  return false;
}

int context_text(ipu_context *c, char *text, const char **out) {
  if (!text) return context_fail(c, ERR_OUT_OF_MEMORY, "out of memory");
  free(c->text);
  c->text = text;
  if (out) *out = text;
  return context_end(c);
}

Status context_check_list(Error *e, const char *what, const void *list, int count) {
  if (count < 0) return fail(e, ERR_INVALID_ARGUMENT, "%s: the count is %d", what, count);
  if (count > 0 && !list) return fail(e, ERR_INVALID_ARGUMENT, "%s: the list is NULL", what);
  void *const *items = list;
  for (int i = 0; i < count; i++)
    if (!items[i]) return fail(e, ERR_INVALID_ARGUMENT, "%s: number %d is NULL", what, i);
  return OK;
}

Status context_read_type(Error *e, const char *what, const char *dtype, int rank,
                         const int64_t *shape, Type *out) {
  Dtype d;
  if (!dtype || !dtype_find(dtype, &d))
    return fail(e, ERR_VALUE, "%s: there is no dtype '%.40s'", what, dtype ? dtype : "NULL");
  if (rank < 0 || rank > MAX_RANK)
    return fail(e, ERR_VALUE, "%s: the rank must be 0 to %d, got %d", what, MAX_RANK, rank);
  if (rank > 0 && !shape) return fail(e, ERR_INVALID_ARGUMENT, "%s: the shape is NULL", what);
  *out = type_make(d, rank, shape);
  return type_check(e, what, out);
}

int ipu_set_threads(ipu_context *c, int threads) {
  if (!context_given(c, "ipu_set_threads", (Given[]){{0}})) return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  if (engine_set_threads(e, c->engine, threads) == OK && c->lua) {
    char text[32];
    snprintf(text, sizeof text, "%d", c->engine->threads);
    BridgeCall call = {.function = "set_threads", .text = text};
    c->bridge->call(e, c->lua, &call);
  }
  return context_end(c);
}

int ipu_set_seed(ipu_context *c, uint64_t seed) {
  if (!context_given(c, "ipu_set_seed", (Given[]){{0}})) return IPU_E_INVALID_ARGUMENT;
  Error *e = context_begin(c);
  c->engine->seed = seed;
  engine_seed_rounding(c->engine, seed);
  c->engine->random_count = 0;
  c->stream = 0;
  for (int i = 0; i < c->counter_count; i++) start_counter(c, c->counter[i]);
  if (c->lua) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)seed);
    BridgeCall call = {.function = "set_seed", .text = text};
    c->bridge->call(e, c->lua, &call);
  }
  return context_end(c);
}
