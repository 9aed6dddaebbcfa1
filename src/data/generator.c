/* Elements that the script makes. */
#include <stdlib.h>

#include "data/stage.h"

typedef struct GeneratorDataset {
  Dataset base;
  Generator generator;
} GeneratorDataset;

/* One reading of the generator. It is reference-counted, because a request in progress may outlive
 * the stage. It keeps the dataset alive, and so the generator's context. */
typedef struct Reading {
  _Atomic int references;
  HostDeferred deferred;
  HostCalls *host;
  GeneratorDataset *dataset;
  void *state;
  uint64_t number; /* of the next element */
  bool open;
} Reading;

typedef struct GeneratorStage {
  Stage base;
  Reading *reading;
} GeneratorStage;

typedef struct PullRequest {
  HostRequest base;
  Reading *reading;
  bool end, handed_over;
  Tensor *out[]; /* [components] */
} PullRequest;

/* On the script's thread. */
static void reading_free(HostDeferred *deferred) {
  Reading *r = (Reading *)((char *)deferred - offsetof(Reading, deferred));
  const Generator *g = &r->dataset->generator;
  if (r->open && g->close) g->close(g->context, r->state);
  dataset_release(&r->dataset->base);
  free(r);
}

static void reading_release(Reading *r) {
  if (!r || atomic_fetch_sub(&r->references, 1) > 1) return;
  r->deferred.run = reading_free;
  host_calls_defer(r->host, &r->deferred);
}

static Status pull(HostRequest *request, Error *e) {
  PullRequest *p = (PullRequest *)request;
  Reading *r = p->reading;
  const Generator *g = &r->dataset->generator;
  if (g->number) g->number(g->context, r->number);
  if (!r->open) {
    Status s = g->open(g->context, &r->state, e);
    if (s != OK) return s;
    r->open = true;
  }
  Status s = g->next(g->context, r->state, p->out, r->dataset->base.count, &p->end, e);
  if (s != ERR_CANCELLED) r->number++;
  return s;
}

static void pull_free(HostRequest *request) {
  PullRequest *p = (PullRequest *)request;
  if (!p->handed_over) tensors_release(p->out, p->reading->dataset->base.count);
  reading_release(p->reading);
  free(p);
}

static Status generator_open(Stage *s, Error *e) {
  Reading *r = calloc(1, sizeof *r);
  if (!r) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  atomic_init(&r->references, 1);
  r->host = s->scope->tree->host;
  r->dataset = (GeneratorDataset *)dataset_retain(s->dataset);
  r->number = stage_element_number(s, 0);
  ((GeneratorStage *)s)->reading = r;
  return OK;
}

static void generator_close(Stage *s) { reading_release(((GeneratorStage *)s)->reading); }

static bool given_up(void *context) { return scope_is_cancelled(context); }

static Status generator_next(Stage *s, Tensor **out, bool *end, Error *e) {
  Dataset *d = s->dataset;
  Reading *r = ((GeneratorStage *)s)->reading;
  PullRequest *p = calloc(1, sizeof *p + (size_t)d->count * sizeof *p->out);
  if (!p) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  host_request_init(&p->base, pull, pull_free);
  p->reading = r;
  atomic_fetch_add(&r->references, 1);
  Status status = host_call(r->host, e, &p->base, given_up, s->scope);
  if (status != OK) dataset_blame(d, e, status);
  else if (!(*end = p->end)) status = tensors_check(d, e, p->out);
  if (status == OK && !*end) {
    p->handed_over = true;
    for (int c = 0; c < d->count; c++) out[c] = p->out[c];
  }
  host_request_release(&p->base);
  return status;
}

static void generator_free(Dataset *d) {
  const Generator *g = &((GeneratorDataset *)d)->generator;
  if (g->release) g->release(g->context);
}

static const StageClass generator_class = {.name = "from_generator",
                                           .needs_caller = stage_calls_script,
                                           .dataset_bytes = sizeof(GeneratorDataset),
                                           .stage_bytes = sizeof(GeneratorStage),
                                           .free = generator_free,
                                           .open = generator_open,
                                           .close = generator_close,
                                           .next = generator_next};

Dataset *dataset_from_generator(Error *e, const char *source, int count, const Type *components,
                                Generator g) {
  Dataset *d = dataset_new(e, source, &generator_class, 0, NULL, count);
  if (!d) {
    if (g.release) g.release(g.context);
    return NULL;
  }
  ((GeneratorDataset *)d)->generator = g;
  for (int c = 0; c < count; c++) d->type[c] = components[c];
  return dataset_finish(e, d);
}
