/* map and filter by functions that only the script's thread may call. */
#include <stdlib.h>

#include "data/function.h"

typedef struct HostDataset {
  Dataset base;
  ScriptFunction function;
} HostDataset;

typedef struct HostStage {
  Stage base;
  Tensor **in;      /* [input components] */
  uint64_t fetched; /* elements of the input so far */
  uint64_t number;  /* of the element in `in` */
  bool waits;       /* `in` has been read, but the call of the function was interrupted */
  bool ended;       /* take_while met an element that isn't kept */
} HostStage;

static Status host_open(Stage *s, Error *e) {
  HostStage *h = (HostStage *)s;
  h->in = calloc((size_t)s->dataset->input[0]->count, sizeof *h->in);
  return h->in ? stage_open_input(s, e) : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static void host_close(Stage *s) {
  HostStage *h = (HostStage *)s;
  if (h->in) tensors_release(h->in, s->dataset->input[0]->count);
  free(h->in);
}

/* The next element of the input, unless it has been read already. */
static Status fetch(HostStage *h, bool *end, Error *e) {
  *end = false;
  if (h->waits) return OK;
  h->number = stage_element_number(&h->base, h->fetched);
  Status status = stage_next(h->base.input, h->in, end, e);
  if (status != ERR_CANCELLED) h->fetched++;
  return status;
}

/* Calls the function with the element. */
static Status call(HostStage *h, Tensor **out, int out_count, Error *e) {
  Stage *s = &h->base;
  Status status = script_function_call(&((const HostDataset *)s->dataset)->function, s, h->number,
                                       h->in, s->input->dataset->count, out, out_count, NULL, e);
  h->waits = status == ERR_CANCELLED;
  return status;
}

static Status map_host_next(Stage *s, Tensor **out, bool *end, Error *e) {
  HostStage *h = (HostStage *)s;
  Status status = fetch(h, end, e);
  if (status != OK || *end) return status;
  status = call(h, out, s->dataset->count, e);
  if (!h->waits) tensors_release(h->in, s->input->dataset->count);
  if (status != OK) return status;
  status = tensors_check(s->dataset, e, out);
  if (status != OK) tensors_release(out, s->dataset->count);
  return status;
}

/* Whether the predicate keeps the next element, which is in h->in. */
static Status ask(HostStage *h, bool *keep, bool *end, Error *e) {
  Tensor *answer = NULL;
  Status status = fetch(h, end, e);
  if (status != OK || *end) return status;
  status = call(h, &answer, 1, e);
  *keep = status == OK && type_count(&answer->type) == 1 && tensor_get(answer, 0) != 0;
  tensor_release(answer);
  return status;
}

/* Gives the element if it is kept, else releases it. An element that waits stays. */
static void give(HostStage *h, bool keep, Tensor **out) {
  int count = h->base.dataset->count;
  if (h->waits) return;
  for (int c = 0; keep && c < count; c++) out[c] = h->in[c], h->in[c] = NULL;
  tensors_release(h->in, count);
}

static Status filter_host_next(Stage *s, Tensor **out, bool *end, Error *e) {
  HostStage *h = (HostStage *)s;
  bool keep = *end = false;
  Status status = OK;
  while (status == OK && !keep && !*end) {
    status = stage_check_cancelled(s, e);
    if (status == OK) status = ask(h, &keep, end, e);
    give(h, keep, out);
  }
  return status;
}

static Status take_while_host_next(Stage *s, Tensor **out, bool *end, Error *e) {
  HostStage *h = (HostStage *)s;
  bool keep = false;
  *end = h->ended;
  if (h->ended) return OK;
  Status status = ask(h, &keep, end, e);
  if (status == OK && !keep) h->ended = *end = true;
  give(h, keep, out);
  return status;
}

static void host_free(Dataset *d) {
  const ScriptFunction *f = &((HostDataset *)d)->function;
  if (f->release) f->release(f->context);
}

#define ON_HOST(stage_name, next_element) \
  {.name = stage_name,                    \
   .needs_caller = stage_calls_script,    \
   .dataset_bytes = sizeof(HostDataset),  \
   .stage_bytes = sizeof(HostStage),      \
   .free = host_free,                     \
   .open = host_open,                     \
   .close = host_close,                   \
   .next = next_element}
static const StageClass map_host_class = ON_HOST("map", map_host_next);
static const StageClass filter_host_class = ON_HOST("filter", filter_host_next);
static const StageClass take_while_host_class = ON_HOST("take_while", take_while_host_next);

static Dataset *new_with_host(Error *e, const char *source, const StageClass *class, Dataset *in,
                              int count, ScriptFunction f) {
  Dataset *d = dataset_new(e, source, class, 1, &in, count);
  if (d) ((HostDataset *)d)->function = f;
  else if (f.release) f.release(f.context);
  return d;
}

Dataset *dataset_map_host(Error *e, const char *source, Dataset *in, int count, const Type *types,
                          ScriptFunction f) {
  Dataset *d = new_with_host(e, source, &map_host_class, in, count, f);
  if (!d) return NULL;
  d->cardinality = in->cardinality;
  for (int c = 0; c < count; c++) d->type[c] = types[c];
  return dataset_finish(e, d);
}

static Dataset *chosen(Error *e, const char *source, const StageClass *class, Dataset *in,
                       ScriptFunction predicate) {
  Dataset *d = new_with_host(e, source, class, in, in->count, predicate);
  if (!d) return NULL;
  dataset_take_types(d, 0, in);
  return dataset_finish(e, d);
}

Dataset *dataset_filter_host(Error *e, const char *source, Dataset *in, ScriptFunction predicate) {
  return chosen(e, source, &filter_host_class, in, predicate);
}

Dataset *dataset_take_while_host(Error *e, const char *source, Dataset *in,
                                 ScriptFunction predicate) {
  return chosen(e, source, &take_while_host_class, in, predicate);
}
