/* Datasets: construction, references, and errors that name the stage and its script line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/stage.h"

/* Chains are walked recursively: opening, reading and freeing stay within a thread's stack. */
enum { MAX_DEPTH = 500, MAX_COMPONENTS = 4096 };

void *source_fail(const char *name, const char *source, Error *e, Status s, const char *format,
                  ...) {
  char text[sizeof e->message];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fail_at(e, source, s, "%s: %s", name, text);
  return NULL;
}

Status stage_refuse_nested(Error *e, const char *name, const char *source, const Dataset *in) {
  for (int c = 0; c < in->count; c++)
    if (in->nested[c])
      return source_fail(
                 name, source, e, ERR_TYPE,
                 "component %d is itself a dataset (see window): flatten it with flat_map first",
                 c),
             ERR_TYPE;
  return OK;
}

static void stage_label(const Dataset *d, char *out, size_t size) {
  if (d->source[0]) snprintf(out, size, "dataset stage '%s' (%s)", d->class->name, d->source);
  else snprintf(out, size, "dataset stage '%s'", d->class->name);
}

Status dataset_fail(const Dataset *d, Error *e, Status s, const char *format, ...) {
  char text[sizeof e->message], label[300];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  stage_label(d, label, sizeof label);
  return fail_at(e, d->source, s, "%s: %s", label, text);
}

Status dataset_blame(const Dataset *d, Error *e, Status s) {
  if (!e || s == ERR_CANCELLED || !strncmp(e->message, "dataset stage '", 15)) return s;
  char text[sizeof e->message], label[300];
  stage_label(d, label, sizeof label);
  snprintf(text, sizeof text, "%s: %.1690s", label, e->status == OK ? "it failed" : e->message);
  memcpy(e->message, text, sizeof text);
  e->status = s;
  if (!e->source[0]) snprintf(e->source, sizeof e->source, "%s", d->source);
  return s;
}

static void dataset_free(Dataset *d) {
  if (d->class->free) d->class->free(d);
  for (int i = 0; i < d->input_count; i++) dataset_release(d->input[i]);
  free(d->input);
  free(d->type);
  free(d->nested);
  free(d->source);
  free(d);
}

Dataset *dataset_new(Error *e, const char *source, const StageClass *class, int input_count,
                     Dataset *const *input, int component_count) {
  if (component_count < 1 || component_count > MAX_COMPONENTS)
    return source_fail(class->name, source, e, ERR_VALUE,
                       "an element has 1 to %d components, got %d", MAX_COMPONENTS,
                       component_count);
  int depth = 0;
  for (int i = 0; i < input_count; i++)
    if (input[i]->depth > depth) depth = input[i]->depth;
  if (depth >= MAX_DEPTH)
    return source_fail(class->name, source, e, ERR_VALUE, "a dataset can have up to %d stages",
                       MAX_DEPTH);
  Dataset *d = calloc(1, class->dataset_bytes);
  if (!d) return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  atomic_init(&d->references, 1);
  d->class = class;
  d->depth = depth + 1;
  d->count = component_count;
  d->cardinality = CARDINALITY_UNKNOWN;
  d->source = strdup(source ? source : "");
  d->type = calloc((size_t)component_count, sizeof *d->type);
  d->nested = calloc((size_t)component_count, sizeof *d->nested);
  d->input = calloc((size_t)input_count + 1, sizeof *d->input);
  if (!d->source || !d->type || !d->nested || !d->input) {
    free(d->source), free(d->type), free(d->nested), free(d->input), free(d);
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory"), NULL;
  }
  for (int i = 0; i < input_count; i++) d->input[i] = dataset_retain(input[i]);
  d->input_count = input_count;
  return d;
}

void dataset_take_types(Dataset *d, int first, const Dataset *in) {
  memcpy(d->type + first, in->type, (size_t)in->count * sizeof *in->type);
  memcpy(d->nested + first, in->nested, (size_t)in->count * sizeof *in->nested);
}

Dataset *dataset_new_like(Error *e, const char *source, const StageClass *class, Dataset *in) {
  Dataset *d = dataset_new(e, source, class, 1, &in, in->count);
  if (!d) return NULL;
  dataset_take_types(d, 0, in);
  d->cardinality = in->cardinality;
  return d;
}

Dataset *dataset_finish(Error *e, Dataset *d) {
  if (!d) return NULL;
  d->is_static = true;
  for (int i = 0; i < d->count; i++) {
    Type known = d->type[i];
    for (int a = 0; a < known.rank && a < MAX_RANK; a++)
      if (known.shape[a] == -1) known.shape[a] = 0, d->is_static = false;
    if (d->nested[i]) d->is_static = false;
    Error reason = {.status = OK};
    if (type_check(&reason, d->class->name, &known) == OK) continue;
    fail_at(e, d->source, reason.status, "%s", reason.message);
    dataset_release(d);
    return NULL;
  }
  return d;
}

Dataset *dataset_retain(Dataset *d) {
  atomic_fetch_add_explicit(&d->references, 1, memory_order_relaxed);
  return d;
}

void dataset_release(Dataset *d) {
  if (d && atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel) == 1) dataset_free(d);
}

static void free_deferred(HostDeferred *deferred) {
  dataset_free((Dataset *)((char *)deferred - offsetof(Dataset, deferred)));
}

void dataset_release_from(HostCalls *host, Dataset *d) {
  if (!d || atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel) > 1) return;
  d->deferred.run = free_deferred;
  host_calls_defer(host, &d->deferred);
}

int64_t cardinality_scale(int64_t n, int64_t factor) {
  int64_t scaled;
  if (n < 0) return n;
  return __builtin_mul_overflow(n, factor, &scaled) ? CARDINALITY_UNKNOWN : scaled;
}

int dataset_component_count(const Dataset *d) { return d->count; }
const Type *dataset_component(const Dataset *d, int index) { return &d->type[index]; }
bool dataset_component_is_nested(const Dataset *d, int index) { return d->nested[index]; }
bool dataset_is_static(const Dataset *d) { return d->is_static; }
int64_t dataset_cardinality(const Dataset *d) { return d->cardinality; }
void dataset_begin_at(Dataset *d, uint64_t iteration) { atomic_store(&d->iterations, iteration); }
const char *dataset_kind(const Dataset *d) { return d->class->name; }
const char *dataset_source(const Dataset *d) { return d->source; }

const Dataset *dataset_find_remainder(const Dataset *d) {
  if (d->batch) return d;
  for (int i = 0; i < d->input_count; i++) {
    const Dataset *found = dataset_find_remainder(d->input[i]);
    if (found) return found;
  }
  return NULL;
}

/* The rows of each element; -1 if they vary. */
static int64_t row_count(const Dataset *d) {
  return d->count && d->type[0].rank ? d->type[0].shape[0] : -1;
}

int64_t dataset_remainder_batch(const Dataset *d) {
  if (d->batch || !dataset_find_remainder(d)) return d->batch;
  int64_t batch = 0;
  for (int i = 0; i < d->input_count && !batch; i++) {
    const Dataset *in = d->input[i];
    batch = dataset_remainder_batch(in);
    if (!d->class->in_turn || in->cardinality == 0) continue;
    return row_count(in) > 0 ? row_count(in) : batch; /* the first element is from this input */
  }
  return batch;
}

bool dataset_has_other_batch(const Dataset *d, int64_t size) {
  if (d->batch && d->batch != size) return true;
  for (int i = 0; i < d->input_count; i++)
    if (dataset_has_other_batch(d->input[i], size)) return true;
  return false;
}

bool type_matches(const Type *spec, const Type *t) {
  if (spec->dtype != t->dtype || spec->rank != t->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (spec->shape[i] != -1 && spec->shape[i] != t->shape[i]) return false;
  return true;
}

void tensors_release(Tensor **t, int count) {
  for (int i = 0; i < count; i++) tensor_release(t[i]), t[i] = NULL;
}

Status tensors_check(const Dataset *d, Error *e, Tensor *const *t) {
  for (int i = 0; i < d->count; i++) {
    char want[TYPE_TEXT], got[TYPE_TEXT];
    if (!t[i]) return dataset_fail(d, e, ERR_INTERNAL, "component %d is missing", i);
    if (!type_matches(&d->type[i], &t[i]->type))
      return dataset_fail(d, e, ERR_VALUE, "component %d should be %s, got %s", i,
                          type_text(&d->type[i], want), type_text(&t[i]->type, got));
  }
  return OK;
}
