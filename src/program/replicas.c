#include "program/replicas.h"

#include <stdlib.h>

#include "graph/control.h"
#include "ops/io/feed.h"
#include "program/buckets.h"
#include "program/program.h"
#include "program/readers.h"
#include "program/step.h"
#include "program/timetable.h"

/* Elements of work (a product's are eighths of multiplications) below which a hand-off costs as
 * much as it saves. */
enum { HEAVY_WORK = 20000, LOOP_GUESS = 16 };

/* ---- shards ---- */

static bool raise_shard(const Node *n, void *largest) {
  int *max = largest;
  if (n->place.shard > *max) *max = n->place.shard;
  const PipelinePlan *plan = n->op->traits & CONTROL ? (const PipelinePlan *)control_plan(n) : NULL;
  if (plan && plan->ipus - 1 > *max) *max = plan->ipus - 1;
  return false;
}

int program_shards(const Program *p) {
  int largest = 0, count = 1;
  graph_find(p->graph, raise_shard, &largest);
  while (count <= largest) count *= 2;
  return count;
}

static bool note_device(const Node *n, void *devices) {
  ProgramDevices *d = devices;
  if (!node_is_made(n)) return false;
  d->is_placed = true;
  d->on_ipu |= n->place.device != DEVICE_HOST;
  if (n->place.device < 0 || n->place.device == d->device) return false;
  if (d->device < 0) d->device = n->place.device, d->source = n->source;
  else if (d->other < 0) d->other = n->place.device, d->other_source = n->source;
  return false;
}

ProgramDevices program_devices(const Program *p) {
  ProgramDevices d = {.device = DEVICE_ANY, .other = DEVICE_ANY};
  graph_find(p->graph, note_device, &d);
  return d;
}

/* ---- whether replicas can differ ---- */

static bool tells_apart(const Node *n, void *context) {
  (void)context;
  return node_is_dequeue(n) || node_is_enqueue(n) || n->op->eval_collective ||
         (n->op->traits & PER_REPLICA);
}

bool program_diverges(const Program *p) {
  if (!p->uniform) return true;
  for (int i = 0; i < p->variable_count; i++)
    if (p->variable[i]->replicas == p->replicas || p->variable[i]->replica_step) return true;
  return false;
}

/* ---- phases ---- */

static bool is_collective(Step *s, void *context) {
  (void)context;
  return s->kind == STEP_DEQUEUE || s->kind == STEP_ENQUEUE ||
         (s->kind == STEP_OP && s->node->op->eval_collective);
}

static bool step_has_collectives(Step *s) {
  bool found = is_collective(s, NULL);
  for (int k = 0; k < s->nested_count && !found; k++)
    found = block_find(s->nested[k].block, is_collective, NULL) != NULL;
  return found;
}

static double block_work(const Block *b);

static double step_work(const Step *s) {
  double work = 0;
  if (s->kind == STEP_CHAIN) return (double)s->chain->count * s->chain->step_count;
  if (s->kind == STEP_GEMM)
    return (double)s->gemm->gemm.m * (double)s->gemm->gemm.n * (double)s->gemm->gemm.k / 8;
  if (s->kind == STEP_COPY) return (double)s->copy_bytes / 8;
  for (int k = 0; k < s->nested_count; k++) work += block_work(s->nested[k].block);
  if (s->nested_count) return s->nested[0].repeats ? work * LOOP_GUESS : work;
  for (int i = 0; i < s->call.in_count; i++) work += (double)type_count(s->call.in_type[i]);
  for (int i = 0; i < s->call.out_count; i++) work += (double)type_count(s->call.out_type[i]);
  return work * 4;
}

static double block_work(const Block *b) {
  double work = 0;
  for (int i = 0; i < b->count; i++) work += step_work(&b->step[i]);
  return work;
}

typedef struct Builder {
  Error *error;
  Program *program;
  Replication *replication;
} Builder;

static Status no_memory(Builder *b) {
  return fail(b->error, ERR_OUT_OF_MEMORY, "out of memory for %d replicas of '%s'",
              b->replication->count, b->program->name);
}

static Phase *new_phase(Builder *b, Phases *list, PhaseKind kind, const Block *const *block,
                        int at) {
  Arena *arena = b->program->arena;
  if (!arena_reserve(arena, &list->phase, &list->capacity, list->count + 1, sizeof *list->phase))
    return NULL;
  Step **step = arena_alloc(arena, (size_t)b->replication->count * sizeof *step);
  if (!step) return NULL;
  for (int r = 0; r < b->replication->count; r++) step[r] = &block[r]->step[at];
  Phase *p = &list->phase[list->count++];
  *p = (Phase){.kind = kind, .count = 1, .step = step, .reader_slot = -1};
  return p;
}

static Status build(Builder *b, const Block *const *block, Phases *list);

/* The instances of a control step's blocks. */
static Status build_inside(Builder *b, Phase *p) {
  int blocks = p->step[0]->nested_count, count = b->replication->count;
  p->nested = arena_alloc(b->program->arena, (size_t)blocks * sizeof *p->nested);
  const Block **block = arena_alloc(b->program->arena, (size_t)count * sizeof *block);
  Status s = p->nested && block ? OK : no_memory(b);
  for (int k = 0; k < blocks && s == OK; k++) {
    for (int r = 0; r < count; r++) block[r] = p->step[r]->nested[k].block;
    s = build(b, block, &p->nested[k]);
  }
  return s;
}

static bool same_nodes(const Node *a, const Node *b) {
  return a == b || (a && b && a->op == b->op && a->id == b->id);
}

static bool same_steps(const Builder *b, const Block *const *block) {
  for (int r = 1; r < b->replication->count; r++) {
    if (block[r]->count != block[0]->count) return false;
    for (int i = 0; i < block[0]->count; i++)
      if (block[r]->step[i].kind != block[0]->step[i].kind ||
          block[r]->step[i].nested_count != block[0]->step[i].nested_count ||
          !same_nodes(block[r]->step[i].node, block[0]->step[i].node))
        return false;
  }
  return true;
}

static Status build(Builder *b, const Block *const *block, Phases *list) {
  double work = 0;
  Phase *local = NULL;
  if (!same_steps(b, block))
    return fail(b->error, ERR_INTERNAL, "the replicas of '%s' differ", b->program->name);
  for (int i = 0; i < block[0]->count; i++) {
    Step *s = &block[0]->step[i];
    if (!step_has_collectives(s)) {
      if (local) local->count++;
      else local = new_phase(b, list, PHASE_LOCAL, block, i), work = 0;
      if (!local) return no_memory(b);
      work += step_work(s);
      local->heavy = work >= HEAVY_WORK;
      continue;
    }
    local = NULL;
    Phase *p = new_phase(b, list, s->nested_count ? PHASE_CONTROL : PHASE_COLLECTIVE, block, i);
    if (!p) return no_memory(b);
    if (s->kind == STEP_ENQUEUE && s->call.in_count > b->replication->max_values)
      b->replication->max_values = s->call.in_count;
    if (p->kind == PHASE_COLLECTIVE) continue;
    Phase made = *p; /* the list may move while its inside is built */
    Status status = build_inside(b, &made);
    if (status != OK) return status;
    list->phase[list->count - 1] = made;
  }
  if (b->program->all_replicas <= b->program->replicas) return OK;
  if (!buckets_find(b->program, b->replication, list)) return no_memory(b);
  readers_find(b->program, b->replication, list);
  return OK;
}

/* ---- making and freeing ---- */

static bool make_spare(const Program *p, char **out) {
  size_t bytes = 64;
  for (int i = 0; i < p->result_count; i++)
    bytes += (type_bytes(&p->result_type[i]) + 63) / 64 * 64;
  if (!posix_memalign((void **)out, 64, bytes)) return true;
  *out = NULL;
  return false;
}

static bool node_is_across(const Node *n, void *context) {
  (void)context;
  return n->op->traits & ACROSS;
}

bool program_has_collectives(const Program *p) {
  return graph_find(p->graph, node_is_across, NULL) != NULL;
}

Status program_replicate(Error *e, Program *p, int replicas, int first, int all, int threads) {
  if (replicas == p->replicas && !all) return OK;
  if (p->replicas > 1 || p->all_replicas)
    return fail(e, ERR_INTERNAL, "'%s' is replicated already", p->name);
  p->replicas = replicas;
  p->first_replica = first;
  p->all_replicas = all;
  p->has_collectives = all > replicas && program_has_collectives(p);
  p->uniform = !graph_find(p->graph, tells_apart, NULL);
  return p->uniform || p->outline || (replicas == 1 && all <= 1)
             ? OK
             : program_make_instances(e, p, threads);
}

/* Ops that ask for it get the number among the replicas of all instances. */
static bool number_replica(Step *s, void *replica) {
  if (s->kind == STEP_OP) s->call.replica = *(const int *)replica;
  return false;
}

static Status fill(Builder *b, int threads) {
  Replication *r = b->replication;
  Program *p = b->program;
  r->instance[0] = p;
  for (int i = 1; i < r->count; i++) {
    r->instance[i] = program_instance(b->error, p, threads, i);
    if (!r->instance[i]) return b->error->status;
    if (!make_spare(p, &r->spare[i])) return no_memory(b);
  }
  const Block **block = arena_alloc(p->arena, (size_t)r->count * sizeof *block);
  if (!block) return no_memory(b);
  for (int i = 0; i < r->count; i++) {
    int number = p->first_replica + i;
    block[i] = &r->instance[i]->main;
    if (p->first_replica) block_find(block[i], number_replica, &number);
  }
  return build(b, block, &r->main);
}

Status program_make_instances(Error *e, Program *p, int threads) {
  if (p->replication) return OK;
  Replication *r = calloc(1, sizeof *r);
  Builder b = {e, p, r};
  if (!r) return fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  r->count = p->replicas;
  r->instance = calloc((size_t)r->count, sizeof *r->instance);
  r->spare = calloc((size_t)r->count, sizeof *r->spare);
  Status s = r->instance && r->spare ? fill(&b, threads) : no_memory(&b);
  if (s == OK) p->replication = r;
  else replication_free(r);
  return s;
}

void replication_free(Replication *r) {
  if (!r) return;
  buckets_release(r->bucket);
  for (int i = 1; r->instance && i < r->count; i++) program_free(r->instance[i]);
  for (int i = 1; r->spare && i < r->count; i++) free(r->spare[i]);
  free(r->instance);
  free(r->spare);
  free(r);
}
