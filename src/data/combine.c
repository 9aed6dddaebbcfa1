/* Several datasets as one: zip, concatenate, interleave, flat_map. */
#include <stdlib.h>

#include "data/function.h"

/* zip */
typedef struct ZipStage {
  Stage base;
  Stage **part;   /* [inputs] */
  int64_t *owed;  /* [inputs] elements beside one that failed */
  int64_t *ahead; /* [inputs] elements that the other parts are still to skip */
  Tensor **kept;  /* [components] of the parts before one that was interrupted */
  int kept_parts;
} ZipStage;

static Status zip_open(Stage *s, Error *e) {
  ZipStage *z = (ZipStage *)s;
  int count = s->dataset->input_count;
  z->part = calloc((size_t)count, sizeof *z->part);
  z->owed = calloc((size_t)count, sizeof *z->owed);
  z->ahead = calloc((size_t)count, sizeof *z->ahead);
  z->kept = calloc((size_t)s->dataset->count, sizeof *z->kept);
  if (!z->part || !z->owed || !z->ahead || !z->kept)
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  Status status = OK;
  for (int i = 0; i < count && status == OK; i++)
    status = stage_open(e, s->scope, s->dataset->input[i], s->epoch, &z->part[i]);
  return status;
}

static void zip_close(Stage *s) {
  ZipStage *z = (ZipStage *)s;
  for (int i = 0; z->part && i < s->dataset->input_count; i++) stage_close(z->part[i]);
  if (z->kept) tensors_release(z->kept, s->dataset->count);
  free(z->part);
  free(z->owed);
  free(z->ahead);
  free(z->kept);
}

/* After part i has failed: the parts after it skip their element. */
static Status zip_failed(ZipStage *z, int i, Status status) {
  while (++i < z->base.dataset->input_count) z->owed[i]++;
  return status;
}

/* Component by component, one part after the other. */
static int components_before(const ZipStage *z, int parts) {
  int count = 0;
  for (int i = 0; i < parts; i++) count += z->part[i]->dataset->count;
  return count;
}

/* Counts an element as skipped after all parts have skipped it. An interruption may leave some
 * parts ahead. */
static Status zip_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  ZipStage *z = (ZipStage *)s;
  int count = s->dataset->input_count;
  tensors_release(z->kept, components_before(z, z->kept_parts));
  while (z->kept_parts) z->ahead[--z->kept_parts]++;
  int64_t min = n, some;
  for (int i = 0; i < count; i++) {
    Status status = stage_pass_owed(z->part[i], &z->owed[i], e);
    if (status == OK && z->ahead[i] < min) {
      status = stage_pass(z->part[i], min - z->ahead[i], &some, e);
      z->ahead[i] += some;
    }
    if (status != OK) return status;
    if (z->ahead[i] < min) min = z->ahead[i];
  }
  for (int i = 0; i < count; i++) z->ahead[i] -= min;
  *skipped = min;
  return OK;
}

/* After an interrupted skip: the remaining parts skip as many elements as the first ones did. */
static Status zip_catch_up(ZipStage *z, Error *e) {
  int64_t max = 0, skipped;
  for (int i = 0; i < z->base.dataset->input_count; i++)
    if (z->ahead[i] > max) max = z->ahead[i];
  return max ? zip_skip(&z->base, max, &skipped, e) : OK;
}

static Status part_next(ZipStage *z, int i, Tensor **out, bool *end, Error *e) {
  Status status = stage_pass_owed(z->part[i], &z->owed[i], e);
  return status == OK ? stage_next(z->part[i], out, end, e) : status;
}

static Status zip_next(Stage *s, Tensor **out, bool *end, Error *e) {
  ZipStage *z = (ZipStage *)s;
  Status status = zip_catch_up(z, e);
  if (status != OK) return status;
  int filled = components_before(z, z->kept_parts), i = z->kept_parts;
  for (int c = 0; c < filled; c++) out[c] = z->kept[c], z->kept[c] = NULL;
  for (z->kept_parts = 0; i < s->dataset->input_count; i++) {
    status = part_next(z, i, out + filled, end, e);
    if (status == ERR_CANCELLED) {
      for (int c = 0; c < filled; c++) z->kept[c] = out[c], out[c] = NULL;
      return z->kept_parts = i, status;
    }
    if (status != OK || *end) tensors_release(out, filled);
    if (status != OK) return zip_failed(z, i, status);
    if (*end) return OK;
    filled += z->part[i]->dataset->count;
  }
  return OK;
}

/* Keeps the components of the parts before an interrupted one. */
static Status keep_written(ZipStage *z, int parts, void *const *out, Error *e) {
  const Dataset *d = z->base.dataset;
  for (int c = 0; c < components_before(z, parts); c++)
    if (!(z->kept[c] = tensor_from(e, &d->type[c], out[c]))) {
      tensors_release(z->kept, c);
      /* later parts skip the same element */
      for (int i = parts; i < d->input_count; i++) z->owed[i]++;
      return ERR_OUT_OF_MEMORY;
    }
  return z->kept_parts = parts, ERR_CANCELLED;
}

static Status zip_next_into(Stage *s, void *const *out, bool *end, Error *e) {
  ZipStage *z = (ZipStage *)s;
  Status status = zip_catch_up(z, e);
  if (status != OK) return status;
  int filled = components_before(z, z->kept_parts), i = z->kept_parts;
  for (int c = 0; c < filled; c++) tensor_copy_out(z->kept[c], out[c]);
  tensors_release(z->kept, filled);
  for (z->kept_parts = 0; i < s->dataset->input_count; i++) {
    status = stage_pass_owed(z->part[i], &z->owed[i], e);
    if (status == OK) status = stage_next_into(z->part[i], out + filled, end, e);
    if (status == ERR_CANCELLED) return keep_written(z, i, out, e);
    if (status != OK) return zip_failed(z, i, status);
    if (*end) return OK;
    filled += z->part[i]->dataset->count;
  }
  return OK;
}

static const StageClass zip_class = {.name = "zip",
                                     .dataset_bytes = sizeof(Dataset),
                                     .stage_bytes = sizeof(ZipStage),
                                     .open = zip_open,
                                     .close = zip_close,
                                     .next = zip_next,
                                     .next_into = zip_next_into,
                                     .skip = zip_skip};

/* The minimum of the inputs' cardinalities, where endless ones count as the largest. It is unknown
 * if an input of unknown cardinality may be the shortest. */
static int64_t zip_cardinality(int count, Dataset *const *in) {
  int64_t min = CARDINALITY_ENDLESS;
  for (int i = 0; i < count; i++) {
    int64_t n = in[i]->cardinality;
    if (n == CARDINALITY_UNKNOWN) return n;
    if (n >= 0 && (min < 0 || n < min)) min = n;
  }
  return min;
}

Dataset *dataset_zip(Error *e, const char *source, int count, Dataset *const *in) {
  if (count < 1) return source_fail("zip", source, e, ERR_VALUE, "no datasets were given");
  int components = 0;
  bool rows = true;
  for (int i = 0; i < count; i++) components += in[i]->count, rows = rows && in[i]->rows;
  if (rows) return dataset_zip_rows(e, source, count, in);
  Dataset *d = dataset_new(e, source, &zip_class, count, in, components);
  if (!d) return NULL;
  d->cardinality = zip_cardinality(count, in);
  for (int i = 0, n = 0; i < count; n += in[i]->count, i++) dataset_take_types(d, n, in[i]);
  return dataset_finish(e, d);
}

/* concatenate */
typedef struct ConcatenateStage {
  Stage base;
  bool second;
} ConcatenateStage;

static void go_to_second(Stage *s) {
  stage_close(s->input);
  s->input = NULL;
  ((ConcatenateStage *)s)->second = true;
}

/* Opens the current input. After a failure it is tried again at the next request. The depth tells
 * second inputs of concatenations within each other apart: each shuffles in an order of its own. */
static Status current(Stage *s, Error *e) {
  bool second = ((ConcatenateStage *)s)->second;
  uint64_t part = second ? ((uint64_t)1 << 60) + (uint64_t)s->dataset->depth : 0;
  if (s->input) return OK;
  return stage_open(e, s->scope, s->dataset->input[second], epoch_within(s->epoch, part),
                    &s->input);
}

static Status concatenate_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  ConcatenateStage *c = (ConcatenateStage *)s;
  for (;;) {
    Status status = current(s, e);
    if (status == OK) status = stage_give(s->input, to, end, e);
    if (status != OK || !*end || c->second) return status;
    go_to_second(s);
  }
}

static Status concatenate_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  ConcatenateStage *c = (ConcatenateStage *)s;
  for (;;) {
    int64_t some = 0;
    Status status = current(s, e);
    if (status == OK) status = stage_skip(s->input, n - *skipped, &some, e);
    *skipped += some;
    if (status != OK) return status;
    if (*skipped == n || c->second) return OK;
    go_to_second(s);
  }
}

static const StageClass concatenate_class = {.name = "concatenate",
                                             .in_turn = true,
                                             .dataset_bytes = sizeof(Dataset),
                                             .stage_bytes = sizeof(ConcatenateStage),
                                             .open = current,
                                             .give = concatenate_give,
                                             .skip = concatenate_skip};

/* The most specific type that covers both; false if there is none. */
static bool join_types(const Type *a, const Type *b, Type *out) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  *out = *a;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) out->shape[i] = -1;
  return true;
}

Dataset *dataset_concatenate(Error *e, const char *source, Dataset *first, Dataset *second) {
  if (first->count != second->count)
    return source_fail("concatenate", source, e, ERR_TYPE,
                       "the first dataset has elements of %d component%s, the second of %d; "
                       "both need the same number",
                       first->count, plural(first->count), second->count);
  Dataset *d =
      dataset_new(e, source, &concatenate_class, 2, (Dataset *[]){first, second}, first->count);
  if (!d) return NULL;
  int64_t a = first->cardinality, b = second->cardinality;
  if (a == CARDINALITY_ENDLESS || b == CARDINALITY_ENDLESS) d->cardinality = CARDINALITY_ENDLESS;
  else if (a >= 0 && b >= 0 && a <= INT64_MAX - b) d->cardinality = a + b;
  for (int c = 0; c < d->count; c++) {
    char x[TYPE_TEXT], y[TYPE_TEXT];
    d->nested[c] = first->nested[c];
    if (first->nested[c] == second->nested[c] &&
        join_types(&first->type[c], &second->type[c], &d->type[c]))
      continue;
    dataset_release(d);
    return source_fail("concatenate", source, e, ERR_TYPE,
                       "component %d is %s in the first dataset, %s in the second", c,
                       type_text(&first->type[c], x), type_text(&second->type[c], y));
  }
  return dataset_finish(e, d);
}

/* interleave: cycle_length datasets are read in turn, block_length elements at a time. A dataset
 * that has ended gives its slot to the next one. flat_map is the case of one at a time. */
typedef struct InterleaveDataset {
  Dataset base;
  ScriptFunction function;
  int cycle_length;
  int64_t block_length;
} InterleaveDataset;

typedef struct Part {
  Scope scope;
  Dataset *dataset;
  Stage *stage;
} Part;

typedef struct InterleaveStage {
  Stage base;
  Part *part;  /* [cycle_length] */
  Tensor **in; /* [input components] */
  int cycle, open;
  int64_t block; /* elements of the current block given */
  uint64_t made; /* datasets so far */
  bool waits;    /* `in` has been read, but the call of the function was interrupted */
  bool drained;
} InterleaveStage;

static Status interleave_open(Stage *s, Error *e) {
  InterleaveStage *i = (InterleaveStage *)s;
  i->part = calloc((size_t)((const InterleaveDataset *)s->dataset)->cycle_length, sizeof *i->part);
  i->in = calloc((size_t)s->dataset->input[0]->count, sizeof *i->in);
  return i->part && i->in ? stage_open_input(s, e) : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static void close_part(const Stage *s, Part *p) {
  stage_close(p->stage);
  dataset_release_from(s->scope->tree->host, p->dataset);
  *p = (Part){.stage = NULL};
}

static void interleave_close(Stage *s) {
  InterleaveStage *i = (InterleaveStage *)s;
  int count = ((const InterleaveDataset *)s->dataset)->cycle_length;
  for (int k = 0; i->part && k < count; k++) close_part(s, &i->part[k]);
  if (i->in) tensors_release(i->in, s->dataset->input[0]->count);
  free(i->part);
  free(i->in);
}

static Status check_made(const Dataset *d, const Dataset *made, Error *e) {
  char want[TYPE_TEXT], got[TYPE_TEXT];
  if (!made) return dataset_fail(d, e, ERR_INTERNAL, "the function made no dataset");
  if (made->count != d->count)
    return dataset_fail(d, e, ERR_VALUE,
                        "the function's dataset has elements of %d component%s instead of %d",
                        made->count, plural(made->count), d->count);
  for (int c = 0; c < d->count; c++)
    if (made->nested[c] != d->nested[c] || !type_matches(&d->type[c], &made->type[c]))
      return dataset_fail(d, e, ERR_VALUE,
                          "component %d of the function's dataset is %s instead of %s", c,
                          type_text(&made->type[c], got), type_text(&d->type[c], want));
  return OK;
}

/* Opens the dataset of the next input element in the current slot. */
static Status open_part(InterleaveStage *i, Error *e) {
  Stage *s = &i->base;
  Part *p = &i->part[i->cycle];
  int in_count = s->input->dataset->count;
  Status status = stage_check_cancelled(s, e);
  if (status == OK && !i->waits) status = stage_next(s->input, i->in, &i->drained, e);
  if (status != OK || i->drained) return status;
  uint64_t number = stage_element_number(s, i->made), epoch = epoch_within(s->epoch, i->made + 1);
  status = script_function_call(&((const InterleaveDataset *)s->dataset)->function, s, number,
                                i->in, in_count, NULL, 0, &p->dataset, e);
  i->waits = status == ERR_CANCELLED;
  if (i->waits) return status;
  i->made++;
  tensors_release(i->in, in_count);
  if (status == OK) status = check_made(s->dataset, p->dataset, e);
  p->scope = scope_within(s->scope);
  p->scope.birth = epoch;
  p->scope.made = true;
  if (status == OK) status = stage_open(e, &p->scope, p->dataset, epoch, &p->stage);
  if (status != OK) close_part(s, p);
  else i->open++;
  return status;
}

static void advance(InterleaveStage *i) {
  i->block = 0;
  i->cycle = (i->cycle + 1) % ((const InterleaveDataset *)i->base.dataset)->cycle_length;
}

/* Finds the next slot with a dataset; *part is NULL if all have ended. */
static Status find_part(InterleaveStage *i, Stage **part, Error *e) {
  while (!i->drained || i->open) {
    if ((*part = i->part[i->cycle].stage)) return OK;
    if (i->drained) {
      advance(i);
      continue;
    }
    Status status = open_part(i, e);
    if (status != OK) return status;
  }
  *part = NULL;
  return OK;
}

static void part_read(InterleaveStage *i, bool end) {
  if (end) {
    close_part(&i->base, &i->part[i->cycle]);
    i->open--;
    advance(i);
  } else if (++i->block >= ((const InterleaveDataset *)i->base.dataset)->block_length) {
    advance(i);
  }
}

static Status interleave_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  InterleaveStage *i = (InterleaveStage *)s;
  for (;;) {
    Stage *part;
    Status status = find_part(i, &part, e);
    if (status != OK || (*end = !part)) return status;
    status = stage_give(part, to, end, e);
    if (status == ERR_CANCELLED) return status;
    part_read(i, status == OK && *end);
    if (status != OK || !*end) return status;
  }
}

static void interleave_free(Dataset *d) {
  const ScriptFunction *f = &((InterleaveDataset *)d)->function;
  if (f->release) f->release(f->context);
}

#define INTERLEAVES(stage_name)                \
  {.name = stage_name,                         \
   .needs_caller = stage_calls_script,         \
   .dataset_bytes = sizeof(InterleaveDataset), \
   .stage_bytes = sizeof(InterleaveStage),     \
   .free = interleave_free,                    \
   .open = interleave_open,                    \
   .close = interleave_close,                  \
   .give = interleave_give}
static const StageClass interleave_class = INTERLEAVES("interleave");
static const StageClass flat_map_class = INTERLEAVES("flat_map");

static Dataset *new_interleave(Error *e, const char *source, const StageClass *class, Dataset *in,
                               int count, const Type *types, ScriptFunction f, int cycle_length,
                               int64_t block_length) {
  Dataset *d = dataset_new(e, source, class, 1, &in, count);
  if (!d) {
    if (f.release) f.release(f.context);
    return NULL;
  }
  InterleaveDataset *i = (InterleaveDataset *)d;
  i->function = f, i->cycle_length = cycle_length, i->block_length = block_length;
  for (int c = 0; c < count; c++) d->type[c] = types[c];
  return dataset_finish(e, d);
}

Dataset *dataset_interleave(Error *e, const char *source, Dataset *in, int count, const Type *types,
                            ScriptFunction f, int64_t cycle_length, int64_t block_length) {
  enum { MAX = 1 << 20 };
  if (cycle_length >= 1 && cycle_length <= MAX && block_length >= 1)
    return new_interleave(e, source, &interleave_class, in, count, types, f, (int)cycle_length,
                          block_length);
  if (f.release) f.release(f.context);
  return source_fail("interleave", source, e, ERR_VALUE,
                     "cycle_length must be 1 to %d and block_length at least 1, got %lld and %lld",
                     MAX, (long long)cycle_length, (long long)block_length);
}

Dataset *dataset_flat_map(Error *e, const char *source, Dataset *in, int count, const Type *types,
                          ScriptFunction f) {
  return new_interleave(e, source, &flat_map_class, in, count, types, f, 1, 1);
}
