/* take, skip, shard, repeat and enumerate. */
#include "base/arith.h"
#include "data/stage.h"

/* A dataset with one or two numbers; a stage with a counter. */
typedef struct CountDataset {
  Dataset base;
  int64_t count, index;
} CountDataset;

typedef struct CountStage {
  Stage base;
  int64_t position;
  bool any; /* repeat: has this epoch had an element? */
} CountStage;

static const CountDataset *counts(const Stage *s) { return (const CountDataset *)s->dataset; }

static Dataset *new_counting(Error *e, const char *source, const StageClass *class, Dataset *in,
                             int64_t count, int64_t index) {
  Dataset *d = dataset_new_like(e, source, class, in);
  if (!d) return NULL;
  ((CountDataset *)d)->count = count;
  ((CountDataset *)d)->index = index;
  return d;
}

static Status open_over_rows(Stage *s, Error *e) {
  Status status = stage_open_input(s, e);
  if (status == OK) s->rows = s->input->rows;
  return status;
}

/* take */
static Status take_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  CountStage *t = (CountStage *)s;
  Status status = stage_indices(s->input, out, min(n, counts(s)->count - t->position), got, e);
  t->position += *got;
  return status;
}

/* A failed element counts. An interrupted one doesn't, as it is still to come. */
static Status counted(Stage *s, Status status) {
  if (status != ERR_CANCELLED) ((CountStage *)s)->position++;
  return status;
}

static Status take_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  *end = ((CountStage *)s)->position >= counts(s)->count;
  return *end ? OK : counted(s, stage_give(s->input, to, end, e));
}

static Status take_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  CountStage *t = (CountStage *)s;
  Status status = stage_skip(s->input, min(n, counts(s)->count - t->position), skipped, e);
  t->position += *skipped;
  return status;
}

static const StageClass take_class = {.name = "take",
                                      .dataset_bytes = sizeof(CountDataset),
                                      .stage_bytes = sizeof(CountStage),
                                      .open = open_over_rows,
                                      .indices = take_indices,
                                      .give = take_give,
                                      .skip = take_skip};

Dataset *dataset_take(Error *e, const char *source, Dataset *in, int64_t count) {
  if (count < 0) count = INT64_MAX;
  Dataset *d = new_counting(e, source, &take_class, in, count, 0);
  if (!d) return NULL;
  if (!count || in->cardinality == CARDINALITY_ENDLESS) d->cardinality = count;
  else if (in->cardinality >= 0) d->cardinality = min(in->cardinality, count);
  if (count == INT64_MAX) d->cardinality = in->cardinality;
  return dataset_finish(e, d);
}

/* skip and shard; position: elements to be skipped before the next one. Their failures are not
 * reported. */
static Status leave_out(Stage *s, Error *e) {
  return stage_pass_owed(s->input, &((CountStage *)s)->position, e);
}

static Status skip_open(Stage *s, Error *e) {
  ((CountStage *)s)->position = counts(s)->count;
  return open_over_rows(s, e);
}

static Status skip_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  Status status = leave_out(s, e);
  return status == OK ? stage_indices(s->input, out, n, got, e) : status;
}

static Status skip_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  Status status = leave_out(s, e);
  return status == OK ? stage_give(s->input, to, end, e) : status;
}

static Status skip_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  Status status = leave_out(s, e);
  return status == OK ? stage_skip(s->input, n, skipped, e) : status;
}

static const StageClass skip_class = {.name = "skip",
                                      .dataset_bytes = sizeof(CountDataset),
                                      .stage_bytes = sizeof(CountStage),
                                      .open = skip_open,
                                      .indices = skip_indices,
                                      .give = skip_give,
                                      .skip = skip_skip};

Dataset *dataset_skip(Error *e, const char *source, Dataset *in, int64_t count) {
  /* nothing is left, even of an endless dataset */
  if (count < 0) return dataset_take(e, source, in, 0);
  Dataset *d = new_counting(e, source, &skip_class, in, count, 0);
  if (!d) return NULL;
  if (in->cardinality >= 0) d->cardinality = in->cardinality > count ? in->cardinality - count : 0;
  return dataset_finish(e, d);
}

/* shard: elements index, index + count, … */
static Status shard_open(Stage *s, Error *e) {
  ((CountStage *)s)->position = counts(s)->index;
  return open_over_rows(s, e);
}

/* After an element of this shard, the elements of the other shards are skipped. */
static Status read_by_shard(Stage *s, Status status) {
  if (status != ERR_CANCELLED) ((CountStage *)s)->position = counts(s)->count - 1;
  return status;
}

static Status shard_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  for (*got = 0; *got < n;) {
    int64_t one;
    Status status = leave_out(s, e);
    if (status == OK) status = read_by_shard(s, stage_indices(s->input, out + *got, 1, &one, e));
    if (status != OK || !one) return status;
    ++*got;
  }
  return OK;
}

static Status shard_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  Status status = leave_out(s, e);
  return status == OK ? read_by_shard(s, stage_give(s->input, to, end, e)) : status;
}

static const StageClass shard_class = {.name = "shard",
                                       .dataset_bytes = sizeof(CountDataset),
                                       .stage_bytes = sizeof(CountStage),
                                       .open = shard_open,
                                       .indices = shard_indices,
                                       .give = shard_give};

Dataset *dataset_shard(Error *e, const char *source, Dataset *in, int64_t count, int64_t index) {
  if (count < 1)
    return source_fail("shard", source, e, ERR_VALUE,
                       "the number of shards must be at least 1, got %lld", (long long)count);
  if (index < 0 || index >= count)
    return source_fail("shard", source, e, ERR_VALUE,
                       "the index must be between 0 and %lld, got %lld", (long long)(count - 1),
                       (long long)index);
  Dataset *d = new_counting(e, source, &shard_class, in, count, index);
  if (!d) return NULL;
  if (in->cardinality >= 0)
    d->cardinality = in->cardinality / count + (index < in->cardinality % count);
  return dataset_finish(e, d);
}

/* repeat */
static Status reopen(Stage *s, Error *e) {
  CountStage *r = (CountStage *)s;
  stage_close(s->input);
  s->input = NULL;
  r->any = false;
  return stage_open(e, s->scope, s->dataset->input[0],
                    epoch_within(s->epoch, (uint64_t)r->position), &s->input);
}

/* An epoch has ended. An empty one is the last: its successors would be empty too. */
static Status next_epoch(Stage *s, bool *done, Error *e) {
  CountStage *r = (CountStage *)s;
  int64_t count = counts(s)->count;
  *done = !r->any || (count >= 0 && r->position + 1 >= count);
  if (*done) return OK;
  Status status = stage_check_cancelled(s, e);
  if (status != OK) return status;
  r->position++;
  return reopen(s, e);
}

static Status repeat_open(Stage *s, Error *e) {
  if (counts(s)->count == 0) return s->ended = true, OK;
  return open_over_rows(s, e);
}

/* If reopening failed (memory out, a file gone), it is tried again. */
static Status repeat_ready(Stage *s, Error *e) { return s->input ? OK : reopen(s, e); }

static Status repeat_indices(Stage *s, int64_t *out, int64_t n, int64_t *got, Error *e) {
  CountStage *r = (CountStage *)s;
  bool done = false;
  *got = 0;
  Status status = repeat_ready(s, e);
  while (status == OK && *got < n && !done) {
    int64_t some;
    status = stage_indices(s->input, out + *got, n - *got, &some, e);
    *got += some;
    if (some) r->any = true;
    if (status == OK && *got < n) status = next_epoch(s, &done, e);
  }
  return status;
}

static Status had_one(Stage *s, Status status) {
  if (status != ERR_CANCELLED) ((CountStage *)s)->any = true;
  return status;
}

static Status repeat_give(Stage *s, const Receiver *to, bool *end, Error *e) {
  Status status = repeat_ready(s, e);
  for (bool done = false; status == OK; status = next_epoch(s, &done, e)) {
    if ((*end = done)) return OK;
    status = stage_give(s->input, to, end, e);
    if (status != OK || !*end) return had_one(s, status);
  }
  return status;
}

/* Whole epochs of known length are skipped without reading, after the current one has been read to
 * its end. */
static Status repeat_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  CountStage *r = (CountStage *)s;
  int64_t epoch_length = s->dataset->input[0]->cardinality, count = counts(s)->count;
  bool done = false;
  Status status = repeat_ready(s, e);
  while (status == OK && *skipped < n && !done) {
    int64_t some, whole = !r->any && epoch_length > 0 ? (n - *skipped) / epoch_length : 0;
    /* the last one may have to be the end */
    if (count >= 0) whole = min(whole, count - 1 - r->position);
    if (whole > 0) {
      r->position += whole;
      *skipped += whole * epoch_length;
      status = reopen(s, e);
      continue;
    }
    status = stage_skip(s->input, n - *skipped, &some, e);
    *skipped += some;
    if (some) r->any = true;
    if (status == OK && *skipped < n) status = next_epoch(s, &done, e);
  }
  return status;
}

static const StageClass repeat_class = {.name = "repeat_n",
                                        .dataset_bytes = sizeof(CountDataset),
                                        .stage_bytes = sizeof(CountStage),
                                        .open = repeat_open,
                                        .indices = repeat_indices,
                                        .give = repeat_give,
                                        .skip = repeat_skip};

Dataset *dataset_repeat(Error *e, const char *source, Dataset *in, int64_t count) {
  Dataset *d = new_counting(e, source, &repeat_class, in, count < 0 ? -1 : count, 0);
  if (!d) return NULL;
  if (count == 0) d->cardinality = 0;
  else if (count < 0 && in->cardinality != 0) d->cardinality = CARDINALITY_ENDLESS;
  else d->cardinality = cardinality_scale(in->cardinality, max(count, 0));
  return dataset_finish(e, d);
}

/* enumerate */
static int64_t next_number(const Stage *s) {
  return (int64_t)((uint64_t)counts(s)->index + (uint64_t)((const CountStage *)s)->position);
}

static Status enumerate_next(Stage *s, Tensor **out, bool *end, Error *e) {
  int64_t number = next_number(s);
  Status status = counted(s, stage_next(s->input, out + 1, end, e));
  if (status != OK || *end) return status;
  Type type = type_scalar(I64);
  if ((out[0] = tensor_from(e, &type, &number))) return OK;
  tensors_release(out + 1, s->dataset->count - 1);
  return ERR_OUT_OF_MEMORY;
}

static Status enumerate_next_into(Stage *s, void *const *out, bool *end, Error *e) {
  *(int64_t *)out[0] = next_number(s);
  return counted(s, stage_next_into(s->input, out + 1, end, e));
}

static Status enumerate_skip(Stage *s, int64_t n, int64_t *skipped, Error *e) {
  Status status = stage_skip(s->input, n, skipped, e);
  ((CountStage *)s)->position += *skipped;
  return status;
}

static const StageClass enumerate_class = {.name = "enumerate",
                                           .dataset_bytes = sizeof(CountDataset),
                                           .stage_bytes = sizeof(CountStage),
                                           .open = stage_open_input,
                                           .next = enumerate_next,
                                           .next_into = enumerate_next_into,
                                           .skip = enumerate_skip};

Dataset *dataset_enumerate(Error *e, const char *source, Dataset *in, int64_t start) {
  Dataset *d = dataset_new(e, source, &enumerate_class, 1, &in, in->count + 1);
  if (!d) return NULL;
  ((CountDataset *)d)->index = start;
  d->cardinality = in->cardinality;
  d->type[0] = type_scalar(I64);
  dataset_take_types(d, 1, in);
  return dataset_finish(e, d);
}
