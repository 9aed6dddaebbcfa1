#include "data/function.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

void function_init(Function *f, MapFunction function) {
  f->function = function;
  pthread_mutex_init(&f->mutex, NULL); /* with default attributes it can't fail */
}

/* A variant is a program of tens of kilobytes. */
enum { MAX_VARIANTS = 1024 };

static void variant_free(Variant *v) {
  if (!v) return;
  if (v->function.release) v->function.release(v->function.context);
  free(v->in);
  free(v);
}

void function_clear(Function *f) {
  for (int i = 0; i < f->count; i++) variant_free(f->variant[i]);
  free(f->variant);
  pthread_mutex_destroy(&f->mutex);
  if (f->function.release) f->function.release(f->function.context);
}

Status function_check(const Function *f, Error *e, const char *name, const char *source,
                      const Dataset *in) {
  if (f->function.in_count != in->count)
    return source_fail(name, source, e, ERR_VALUE,
                       "the function takes %d component%s, an element has %d", f->function.in_count,
                       plural(f->function.in_count), in->count),
           ERR_VALUE;
  if (stage_refuse_nested(e, name, source, in) != OK) return e->status;
  if (!in->is_static && !f->function.specialise)
    return source_fail(name, source, e, ERR_VALUE, "the shape of the elements is not fully known"),
           ERR_VALUE;
  return OK;
}

int function_take_worker(Function *f) {
  int worker = -1;
  pthread_mutex_lock(&f->mutex);
  for (int i = 0; i < MAP_WORKERS && worker < 0; i++)
    if (!(f->busy[i / 64] >> i % 64 & 1)) f->busy[i / 64] |= (uint64_t)1 << i % 64, worker = i;
  pthread_mutex_unlock(&f->mutex);
  return worker;
}

void function_return_worker(Function *f, int worker) {
  if (worker < 0) return;
  pthread_mutex_lock(&f->mutex);
  f->busy[worker / 64] &= ~((uint64_t)1 << worker % 64);
  pthread_mutex_unlock(&f->mutex);
}

static void enter(Function *f, Variant *v) { v->users++, v->used = ++f->finds; }

static const MapFunction *find_variant(Function *f, Tensor *const *in) {
  const MapFunction *found = NULL;
  pthread_mutex_lock(&f->mutex);
  for (int i = 0; i < f->count && !found; i++) {
    bool same = true;
    for (int c = 0; c < f->function.in_count && same; c++)
      same = type_equal(&f->variant[i]->in[c], &in[c]->type);
    if (!same) continue;
    found = &f->variant[i]->function;
    enter(f, f->variant[i]);
  }
  pthread_mutex_unlock(&f->mutex);
  return found;
}

void function_leave(Function *f, const MapFunction *found) {
  if (!found || found == &f->function) return;
  Variant *v = (Variant *)((char *)(uintptr_t)found - offsetof(Variant, function));
  pthread_mutex_lock(&f->mutex);
  v->users--;
  pthread_mutex_unlock(&f->mutex);
}

/* Takes out the variant that was found longest ago, if there are many and nobody needs it. */
static Variant *take_oldest(Function *f) {
  int oldest = -1;
  for (int i = 0; i < f->count && f->count >= MAX_VARIANTS; i++)
    if (!f->variant[i]->users && (oldest < 0 || f->variant[i]->used < f->variant[oldest]->used))
      oldest = i;
  if (oldest < 0) return NULL;
  Variant *taken = f->variant[oldest];
  f->variant[oldest] = f->variant[--f->count];
  return taken;
}

/* The caller needs v. */
static bool add_variant(Function *f, Variant *v) {
  pthread_mutex_lock(&f->mutex);
  Variant *oldest = take_oldest(f);
  bool added = array_reserve(&f->variant, &f->capacity, f->count + 1, sizeof *f->variant);
  if (added) f->variant[f->count++] = v, enter(f, v);
  pthread_mutex_unlock(&f->mutex);
  variant_free(oldest);
  return added;
}

/* A request that keeps the dataset (and so its functions) alive. */
typedef struct DatasetRequest {
  HostRequest base;
  HostCalls *host;
  Dataset *dataset;
} DatasetRequest;

static void dataset_request_init(DatasetRequest *r, const Stage *s,
                                 Status (*run)(HostRequest *, Error *),
                                 void (*release)(HostRequest *)) {
  host_request_init(&r->base, run, release);
  r->host = s->scope->tree->host;
  r->dataset = dataset_retain(s->dataset);
}

static bool given_up(void *context) { return scope_is_cancelled(context); }

static Status dataset_request_run(DatasetRequest *r, Stage *s, Error *e) {
  Status status = host_call(r->host, e, &r->base, given_up, s->scope);
  return status == OK ? OK : dataset_blame(s->dataset, e, status);
}

typedef struct SpecialiseRequest {
  DatasetRequest base;
  Function *function;
  const MapFunction *made; /* needed by this request, until it is handed over */
  Type in[];
} SpecialiseRequest;

/* A variant's results must match the declared types of the function, for which readers have
 * memory. */
static Status check_variant(const MapFunction *f, const MapFunction *variant, Error *e) {
  char want[TYPE_TEXT], got[TYPE_TEXT];
  if (variant->out_count != f->out_count)
    return fail(e, ERR_TYPE,
                "the function gives %d component%s for elements of one shape, %d for another shape",
                f->out_count, plural(f->out_count), variant->out_count);
  for (int c = 0; c < f->out_count; c++) {
    if (!type_is_static(&variant->out_type[c]))
      return fail(e, ERR_INTERNAL, "a result's shape is unknown");
    if (!type_matches(&f->out_type[c], &variant->out_type[c]))
      return fail(e, ERR_TYPE,
                  "the function gives %s for elements of one shape, %s for another shape",
                  type_text(&f->out_type[c], want), type_text(&variant->out_type[c], got));
  }
  return OK;
}

/* On the script's thread, the only one that adds variants. So each exists once. */
static Status specialise(HostRequest *request, Error *e) {
  SpecialiseRequest *r = (SpecialiseRequest *)request;
  Function *f = r->function;
  size_t bytes = (size_t)f->function.in_count * sizeof(Type);
  Variant *v = calloc(1, sizeof *v);
  if (!v || !(v->in = malloc(bytes))) return free(v), fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  memcpy(v->in, r->in, bytes);
  Status status = f->function.specialise(f->function.context, r->in, &v->function, e);
  bool known = status == OK;
  if (known) status = check_variant(&f->function, &v->function, e);
  if (status == OK && !add_variant(f, v)) status = fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (status == OK) return r->made = &v->function, OK;
  if (!known) v->function.release = NULL;
  variant_free(v);
  return status;
}

static void specialise_free(HostRequest *request) {
  SpecialiseRequest *r = (SpecialiseRequest *)request;
  function_leave(r->function, r->made);
  dataset_release_from(r->base.host, r->base.dataset);
  free(r);
}

Status function_find(Function *f, Stage *s, Tensor *const *in, const MapFunction **out, Error *e) {
  *out = &f->function;
  if (s->input->dataset->is_static || (*out = find_variant(f, in))) return OK;
  int count = f->function.in_count;
  SpecialiseRequest *r = calloc(1, sizeof *r + (size_t)count * sizeof *r->in);
  if (!r) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  dataset_request_init(&r->base, s, specialise, specialise_free);
  r->function = f;
  for (int c = 0; c < count; c++) r->in[c] = in[c]->type;
  Status status = dataset_request_run(&r->base, s, e);
  if (status == OK) *out = r->made, r->made = NULL;
  host_request_release(&r->base.base);
  return status;
}

typedef struct CallRequest {
  DatasetRequest base;
  const ScriptFunction *function;
  uint64_t number;
  int in_count, out_count;
  bool wants_dataset;
  Dataset *made;
  Tensor *tensor[]; /* in, then out */
} CallRequest;

static Status call(HostRequest *request, Error *e) {
  CallRequest *r = (CallRequest *)request;
  Tensor **out = r->wants_dataset ? NULL : r->tensor + r->in_count;
  if (r->function->number) r->function->number(r->function->context, r->number);
  return r->function->call(r->function->context, r->tensor, r->in_count, out, r->out_count,
                           r->wants_dataset ? &r->made : NULL, e);
}

static void call_free(HostRequest *request) {
  CallRequest *r = (CallRequest *)request;
  tensors_release(r->tensor, r->in_count + r->out_count);
  dataset_release_from(r->base.host, r->made);
  dataset_release_from(r->base.host, r->base.dataset);
  free(r);
}

Status script_function_call(const ScriptFunction *f, Stage *s, uint64_t number, Tensor *const *in,
                            int in_count, Tensor **out, int out_count, Dataset **dataset,
                            Error *e) {
  CallRequest *r = calloc(1, sizeof *r + (size_t)(in_count + out_count) * sizeof *r->tensor);
  if (!r) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  dataset_request_init(&r->base, s, call, call_free);
  r->function = f, r->number = number;
  r->in_count = in_count, r->out_count = out_count, r->wants_dataset = dataset != NULL;
  for (int c = 0; c < in_count; c++) r->tensor[c] = tensor_retain(in[c]);
  Status status = dataset_request_run(&r->base, s, e);
  if (status == OK && dataset) *dataset = r->made, r->made = NULL;
  if (status == OK && !dataset)
    for (int c = 0; c < out_count; c++)
      out[c] = r->tensor[in_count + c], r->tensor[in_count + c] = NULL;
  host_request_release(&r->base.base);
  return status;
}
