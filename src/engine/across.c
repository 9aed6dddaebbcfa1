#include "engine/across.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "dist/crc.h"
#include "dist/gather.h"
#include "dist/instances.h"
#include "program/buckets.h"
#include "program/common.h"

/* ---- agreement of instances ---- */

typedef struct Words {
  const Program *program;
  const Node *node; /* NULL: its beginning */
} Words;

static void describe(const void *context, char *text, size_t n) {
  const Words *w = context;
  char type[TYPE_TEXT];
  if (!w->node) snprintf(text, n, "an execution of '%s'", w->program->name);
  else
    snprintf(text, n, "%s of %s in '%s' (%s)", w->node->op->name,
             type_text(&w->node->in[0]->type, type), w->program->name,
             w->node->source ? w->node->source : "?");
}

enum { KIND_EXECUTION = 2, KIND_TEXT, KIND_ASSIGNED, KIND_VALUES };

static Status gather(Across *a, uint32_t kind, bool varying, const void *data, size_t bytes,
                     Error *e) {
  Words words = {.program = a->program};
  Meeting m = {.kind = kind, .varying = varying, .describe = describe, .context = &words};
  return instances_gather(a->instances, &m, &(Part){data, bytes}, 1, a->from, e);
}

/* The line at `at` without its end, and the script's line after the tab. */
typedef struct Line {
  const char *body, *source;
  int body_length, source_length;
} Line;

static Line next_line(const char **at, const char *end) {
  Line l = {.body = *at, .source = ""};
  const char *stop = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
  if (!stop) stop = end;
  const char *tab = *at < stop ? memchr(*at, '\t', (size_t)(stop - *at)) : NULL;
  l.body_length = (int)((tab ? tab : stop) - *at);
  if (tab) l.source = tab + 1, l.source_length = (int)(stop - tab - 1);
  *at = stop < end ? stop + 1 : end;
  return l;
}

static Status tell_line(Across *a, int q, Line own, Line other, Error *e) {
  return fail(
      e, ERR_FAILED_PRECONDITION,
      "instances 0 and %d run different programs: '%s' has %.*s%s%.*s, there %.*s%s%.*s on instance %d",
      q, a->program->name, own.body_length ? own.body_length : 7,
      own.body_length ? own.body : "nothing", own.source_length ? " at " : "", own.source_length,
      own.source, other.body_length ? other.body_length : 7,
      other.body_length ? other.body : "nothing", other.source_length ? " at " : "",
      other.source_length, other.source, q);
}

/* The first line in which two of the texts of all differ. */
static Status find_difference(Across *a, Error *e) {
  for (int q = 1; q < instances_count(a->instances); q++) {
    const char *x = a->from[0].data, *y = a->from[q].data;
    const char *x_end = x + a->from[0].bytes, *y_end = y + a->from[q].bytes;
    while (x < x_end || y < y_end) {
      Line own = next_line(&x, x_end), other = next_line(&y, y_end);
      if (own.body_length != other.body_length ||
          memcmp(own.body, other.body, (size_t)own.body_length))
        return tell_line(a, q, own, other, e);
    }
  }
  return fail(e, ERR_FAILED_PRECONDITION, "instances run different programs in '%s'",
              a->program->name);
}

static void digest_of(const char *text, uint8_t digest[SHA256_BYTES]) {
  const char *end = text + strlen(text);
  char *bodies = malloc((size_t)(end - text) + 1);
  size_t n = 0;
  for (const char *at = text; bodies && at < end;) {
    Line l = next_line(&at, end);
    memcpy(bodies + n, l.body, (size_t)l.body_length);
    n += (size_t)l.body_length;
    bodies[n++] = '\n';
  }
  if (bodies) sha256(bodies, n, digest);
  free(bodies);
}

/* ---- assigned variables ---- */

/* A value that a script assigns must be the same on all instances. Values that differ between
 * replicas need not be. */
static bool is_compared(const Variable *v) { return !v->counts_runs && !v->aggregate && v->value; }

static uint32_t crc_of_assigned(const Program *p) {
  uint32_t crc = 0;
  for (int i = 0; i < p->variable_count; i++) {
    const Variable *v = p->variable[i];
    if (!v->assigned || !is_compared(v)) continue;
    crc = dist_crc(crc, &i, sizeof i);
    crc = dist_crc(crc, v->value->data, type_bytes(&v->type));
  }
  return crc;
}

/* Of the variables that any instance has assigned, the ones that differ. */
static Status compare_assigned(Across *a, Error *e) {
  const Program *p = a->program;
  size_t count = (size_t)p->variable_count;
  uint8_t *which = calloc(count + 1, 1);
  uint32_t *crc = calloc(count + 1, sizeof *crc);
  Status s = which && crc ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (size_t i = 0; i < count && s == OK; i++)
    which[i] = p->variable[i]->assigned && is_compared(p->variable[i]);
  if (s == OK) s = gather(a, KIND_ASSIGNED, false, which, count, e);
  for (int q = 0; q < instances_count(a->instances) && s == OK; q++)
    for (size_t i = 0; i < count; i++) which[i] |= ((const uint8_t *)a->from[q].data)[i];
  for (size_t i = 0; i < count && s == OK; i++)
    if (which[i])
      crc[i] = dist_crc(0, p->variable[i]->value->data, type_bytes(&p->variable[i]->type));
  if (s == OK) s = gather(a, KIND_VALUES, false, crc, count * sizeof *crc, e);
  for (int q = 1; q < instances_count(a->instances) && s == OK; q++)
    for (size_t i = 0; i < count && s == OK; i++)
      if (memcmp((const char *)a->from[q].data + i * sizeof *crc,
                 (const char *)a->from[0].data + i * sizeof *crc, sizeof *crc))
        s = fail(
            e, ERR_FAILED_PRECONDITION,
            "variable '%s' differs between instances 0 and %d since it was assigned; assign it on all, or send it by "
            "ipu.distributed.broadcast",
            p->variable[i]->name, q);
  free(which), free(crc);
  return s;
}

/* ---- agreement ---- */

typedef struct Notes {
  int64_t executions;
  uint8_t digest[16]; /* of the program; zeros once it was compared */
  uint32_t assigned, pad;
} Notes;

static Status agree_on_program(Across *a, const char *text, Error *e) {
  for (int q = 1; q < instances_count(a->instances); q++) {
    Notes first, other;
    memcpy(&first, a->from[0].data, sizeof first);
    memcpy(&other, a->from[q].data, sizeof other);
    if (!memcmp(first.digest, other.digest, sizeof first.digest)) continue;
    Status s = gather(a, KIND_TEXT, true, text ? text : "", text ? strlen(text) : 0, e);
    return s == OK ? find_difference(a, e) : s;
  }
  return OK;
}

static Status agree(Across *a, Error *e) {
  Program *p = a->program;
  Notes own = {.executions = p->executions, .assigned = crc_of_assigned(p)};
  char *text = p->agreed ? NULL : program_common_text(p);
  uint8_t digest[SHA256_BYTES] = {0};
  if (text) digest_of(text, digest);
  memcpy(own.digest, digest, sizeof own.digest);
  Status s = gather(a, KIND_EXECUTION, false, &own, sizeof own, e);
  bool same = true;
  for (int q = 0; q < instances_count(a->instances) && s == OK; q++) {
    Notes other;
    memcpy(&other, a->from[q].data, sizeof other);
    same = same && other.assigned == own.assigned;
  }
  if (s == OK) s = agree_on_program(a, text, e);
  free(text);
  /* each saw the same notes, so all come here or none */
  if (s == OK && !same) s = compare_assigned(a, e);
  if (s == OK) {
    p->agreed = true;
    for (int i = 0; i < p->variable_count; i++) p->variable[i]->assigned = false;
  }
  return s;
}

static bool allocate(Across *a) {
  size_t all = (size_t)a->all;
  a->call = calloc(all, sizeof *a->call);
  a->replica = calloc(all, sizeof *a->replica);
  a->in = calloc(all, sizeof *a->in);
  a->nowhere = calloc(MAX_OUTPUTS, sizeof *a->nowhere);
  a->from = calloc((size_t)instances_count(a->instances), sizeof *a->from);
  return a->call && a->replica && a->in && a->nowhere && a->from;
}

static void release(Across *a) {
  free(a->call), free(a->replica), free(a->in), free(a->nowhere), free(a->from), free(a->part);
  *a = (Across){0};
}

Status across_begin(Across *a, Engine *g, Program *p, Error *e) {
  *a = (Across){
      .program = p, .local = p->replicas, .first = p->first_replica, .all = p->all_replicas};
  if (!p->has_collectives) return OK;
  if (!g->instances)
    return fail(e, ERR_FAILED_PRECONDITION, "'%s' meets other instances, which have ended",
                p->name);
  a->instances = g->instances;
  if (!allocate(a)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  instances_forget_stop(a->instances);
  Status s = agree(a, e);
  if (s != OK) release(a);
  return s;
}

void across_end(Across *a, Status s, Error *e) {
  if (!a->instances) return;
  if (s != OK && !(s == ERR_CANCELLED && instances_asked_to_stop(a->instances)))
    instances_fail(a->instances, e);
  release(a);
}

/* ---- collectives ---- */

static uint32_t detail_of(const Node *n) {
  char text[TYPE_TEXT];
  uint32_t crc = dist_crc(0, &n->id, sizeof n->id);
  type_text(&n->in[0]->type, text);
  crc = dist_crc(crc, text, strlen(text));
  return crc ? crc : 1;
}

static bool is_far(const Across *a, const Call *c, size_t bytes) {
  return c->node->op->eval_collective_far && c->attr[0].kind == ATTR_NONE &&
         bytes > program_gather_bytes(a->program);
}

/* The calls of all replicas. Calls of other instances have the operands that have arrived, or that
 * lie in shared memory, and no memory of their own. */
static void set_calls(Across *a, const Phase *phase, const Call *const *call, size_t bytes) {
  bool shown = phase->bucket && phase->bucket->shown;
  size_t begin = shown ? phase->line : (size_t)a->local * phase->ahead,
         stride = shown ? bucket_stride(phase) : bytes;
  for (int r = 0; r < a->all; r++) {
    int owner = r / a->local, at = r % a->local;
    if (owner == instances_rank(a->instances)) {
      a->replica[r] = call[at];
      continue;
    }
    a->in[r] = (const char *)a->from[owner].data + begin + (size_t)at * stride;
    a->call[r] = *call[0];
    a->call[r].in = &a->in[r];
    a->call[r].out = a->nowhere;
    a->call[r].replica = r;
    a->replica[r] = &a->call[r];
  }
}

static Status add_parts(Across *a, const Phase *p, int *count, Error *e) {
  if (!array_reserve(&a->part, &a->part_capacity, *count + a->local, sizeof *a->part))
    return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int r = 0; r < a->local; r++) {
    const Call *c = &p->step[r]->call;
    a->part[(*count)++] = (Part){c->in[0], type_bytes(c->in_type[0])};
  }
  return OK;
}

/* The content of a bucket in shared memory. shown is false if some of it isn't there. */
static Status show(Across *a, const Phases *list, Bucket *b, const Meeting *m, Error *e) {
  const Replication *r = a->program->replication;
  b->shown = false;
  if (!a->program->window_bytes || !instances_shows(a->instances, b->lines)) return OK;
  if (!bucket_place(a->instances, r, list, b)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  if (b->buffer[0]) bucket_complete(r, list, b);
  return instances_show(a->instances, m, b->buffer[b->now], b->lines, a->from, &b->shown, e);
}

/* The operands of this collective, or of all of its bucket. */
static Status exchange(Across *a, const Phases *list, const Phase *p, const Meeting *m, Error *e) {
  int count = 0;
  Status s = p->bucket ? show(a, list, p->bucket, m, e) : OK;
  if (s != OK || (p->bucket && p->bucket->shown)) return s;
  if (!p->bucket) s = add_parts(a, p, &count, e);
  for (int k = 0; p->bucket && k < p->bucket->count && s == OK; k++)
    s = add_parts(a, &list->phase[p->bucket->member[k]], &count, e);
  return s == OK ? instances_gather(a->instances, m, a->part, count, a->from, e) : s;
}

typedef struct SumMaker {
  Maker maker;
  const Call *const *replica;
  int count;
} SumMaker;

static void make_sum(const Maker *m, int64_t begin, int64_t n, float *to) {
  const SumMaker *s = (const SumMaker *)m;
  s->replica[0]->node->op->collective_part(s->replica, s->count, begin, n, to);
}

/* A sum and the chain that reads it (readers.h) run in one pass. */
static Status combine(Across *a, const Phase *phase) {
  const Call *c = a->replica[a->first];
  if (phase->reader_slot < 0 || c->numerics->check_finite)
    return c->node->op->eval_collective(a->replica, a->all);
  SumMaker m = {{make_sum}, a->replica, a->all};
  a->steps_ahead = 1;
  Status s = run_chain_of(a->run, phase[1].step[0], phase->reader_slot, &m.maker);
  if (s != OK) *c->error = *a->run->error;
  return s;
}

static Status collective_across(Across *a, const Phases *list, Phase *phase,
                                const Call *const *call, Error *e) {
  const Node *n = phase->step[0]->node;
  const OpDef *op = n->op;
  Words words = {a->program, n};
  if (!phase->detail) phase->detail = detail_of(n);
  Meeting m = {.kind = dist_crc(0, op->name, strlen(op->name)),
               .detail = phase->detail,
               .so_far = phase->cost.of[instances_rank(a->instances)],
               .describe = describe,
               .context = &words};
  size_t bytes = type_bytes(call[0]->in_type[0]);
  if (is_far(a, call[0], bytes)) {
    FarMeeting far = {a->instances, m};
    return op->eval_collective_far(call, a->local, a->all, &far);
  }
  Status s = OK;
  if (!phase->bucket || !phase->place) s = exchange(a, list, phase, &m, e);
  if (s != OK) return s;
  set_calls(a, phase, call, bytes);
  s = combine(a, phase);
  if (phase->bucket && phase->bucket->shown && phase->place == phase->bucket->count - 1)
    bucket_turn(phase->bucket);
  return s;
}

static void note_cost(Across *a, const Phase *phase, Statistics before) {
  const Instances *t = a->instances;
  Statistics after = instances_statistics(t);
  MeetingTotals *own = &phase->cost.of[instances_rank(t)];
  own->bytes += after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received;
  own->seconds += after.seconds - before.seconds;
  own->waited += after.waited - before.waited;
  bool exchanged = after.meetings > before.meetings;
  for (int q = 0; q < instances_count(t) && exchanged; q++)
    if (q != instances_rank(t)) phase->cost.of[q] = instances_told(t, q);
}

static Status make_totals(Across *a, CollectiveCost *cost, Error *e) {
  size_t bytes = (size_t)instances_count(a->instances) * sizeof *cost->of;
  cost->of = arena_alloc(a->program->arena, bytes);
  if (!cost->of) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  memset(cost->of, 0, bytes);
  return OK;
}

Status across_collective(Across *a, const Phases *list, Phase *phase, const Call *const *call,
                         Error *e) {
  CollectiveCost *cost = &phase->cost;
  if (!cost->of && make_totals(a, cost, e) != OK) return e->status;
  Statistics before = instances_statistics(a->instances);
  Status s = collective_across(a, list, phase, call, e);
  note_cost(a, phase, before);
  cost->count++;
  cost->way = is_far(a, call[0], type_bytes(call[0]->in_type[0])) ? "chain"
              : phase->bucket && phase->bucket->shown             ? "shared"
                                                                  : "gather";
  return s;
}
