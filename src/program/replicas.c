#include "program/replicas.h"

#include <stdlib.h>

#include "graph/control.h"
#include "program/timetable.h"

/* Elements of work (a product's are eighths of multiplications) below which a hand-off costs as
 * much as it saves. */
enum { HEAVY_WORK = 20000, LOOP_GUESS = 16 };

/* ---- shards ---- */

static int largest_shard(const Graph *g) {
  int largest = 0;
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (n->place.shard > largest) largest = n->place.shard;
    const PipelinePlan *plan =
        n->op == &control_repeat ? (const PipelinePlan *)control_plan(n) : NULL;
    if (plan && plan->ipus - 1 > largest) largest = plan->ipus - 1;
  }
  for (int i = 0; i < g->region_count; i++) {
    int inside = largest_shard(g->region[i]);
    if (inside > largest) largest = inside;
  }
  return largest;
}

int program_shards(const Program *p) {
  int largest = largest_shard(p->graph), count = 1;
  while (count <= largest) count *= 2;
  return count;
}

static bool is_placed(const Node *n) { return !node_is_input(n) && !node_is_constant(n); }

static void find_devices(const Graph *g, ProgramDevices *d) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (!is_placed(n)) continue;
    d->is_placed = true;
    d->on_ipu |= n->place.device != DEVICE_HOST;
    if (n->place.device < 0 || n->place.device == d->device) continue;
    if (d->device < 0) d->device = n->place.device, d->source = n->source;
    else if (d->other < 0) d->other = n->place.device, d->other_source = n->source;
  }
  for (int i = 0; i < g->region_count; i++) find_devices(g->region[i], d);
}

ProgramDevices program_devices(const Program *p) {
  ProgramDevices d = {.device = DEVICE_ANY, .other = DEVICE_ANY};
  find_devices(p->graph, &d);
  return d;
}

/* ---- whether replicas can differ ---- */

static bool tells_apart(const Node *n) {
  return node_is_dequeue(n) || node_is_enqueue(n) || n->op->meet || (n->op->traits & PER_REPLICA);
}

static bool graph_is_uniform(const Graph *g) {
  for (int i = 0; i < g->node_count; i++)
    if (tells_apart(g->node[i])) return false;
  for (int i = 0; i < g->region_count; i++)
    if (!graph_is_uniform(g->region[i])) return false;
  return true;
}

bool program_diverges(const Program *p) {
  if (!p->uniform) return true;
  for (int i = 0; i < p->variable_count; i++)
    if (p->variable[i]->replicas == p->replicas || p->variable[i]->replica_step) return true;
  return false;
}

/* ---- phases ---- */

static bool block_meets(const Block *b);

static bool is_control(const Step *s) { return s->kind >= STEP_REPEAT && s->kind <= STEP_CALL; }

static bool pipeline_meets(const PipelineStep *p) {
  for (int i = 0; i < p->pass_count; i++)
    if (block_meets(&p->pass[i].dequeues) || block_meets(&p->pass[i].body)) return true;
  return false;
}

static bool step_meets(const Step *s) {
  if (s->kind == STEP_PIPELINE) return pipeline_meets(s->pipeline);
  if (is_control(s))
    return block_meets(s->control.body) || (s->control.other && block_meets(s->control.other));
  return s->kind == STEP_DEQUEUE || s->kind == STEP_ENQUEUE ||
         (s->kind == STEP_OP && s->node->op->meet);
}

static bool block_meets(const Block *b) {
  for (int i = 0; i < b->count; i++)
    if (step_meets(&b->step[i])) return true;
  return false;
}

static double block_work(const Block *b);

static double step_work(const Step *s) {
  double work = 0;
  if (s->kind == STEP_CHAIN) return (double)s->chain->count * s->chain->step_count;
  if (s->kind == STEP_GEMM)
    return (double)s->gemm->gemm.m * (double)s->gemm->gemm.n * (double)s->gemm->gemm.k / 8;
  if (s->kind == STEP_COPY) return (double)s->copy_bytes / 8;
  if (s->kind == STEP_PIPELINE) {
    for (int i = 0; i < s->pipeline->pass_count; i++)
      work += block_work(&s->pipeline->pass[i].body);
    return work * LOOP_GUESS;
  }
  if (is_control(s)) {
    work = block_work(s->control.body) + (s->control.other ? block_work(s->control.other) : 0);
    return s->kind <= STEP_WHILE ? work * LOOP_GUESS : work;
  }
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

static Phase *new_phase(Builder *b, Phases *list, PhaseKind kind, Block *const *block, int at) {
  Arena *arena = b->program->arena;
  if (!arena_reserve(arena, &list->phase, &list->capacity, list->count + 1, sizeof *list->phase))
    return NULL;
  Step **step = arena_alloc(arena, (size_t)b->replication->count * sizeof *step);
  if (!step) return NULL;
  for (int r = 0; r < b->replication->count; r++) step[r] = &block[r]->step[at];
  Phase *p = &list->phase[list->count++];
  *p = (Phase){.kind = kind, .count = 1, .step = step};
  return p;
}

static Status build(Builder *b, Block *const *block, Phases *list);

/* The bodies (or others) of a control step in each instance. */
static Status build_inside(Builder *b, const Phase *p, bool other, Phases *list) {
  Block **inside = arena_alloc(b->program->arena, (size_t)b->replication->count * sizeof *inside);
  if (!inside) return no_memory(b);
  for (int r = 0; r < b->replication->count; r++) {
    inside[r] = other ? p->step[r]->control.other : p->step[r]->control.body;
    if (!inside[r]) return OK;
  }
  return build(b, inside, list);
}

static Status build_passes(Builder *b, Phase *p) {
  int passes = p->step[0]->pipeline->pass_count, count = b->replication->count;
  p->pass = arena_alloc(b->program->arena, 2 * (size_t)passes * sizeof *p->pass);
  Block **block = arena_alloc(b->program->arena, (size_t)count * sizeof *block);
  if (!p->pass || !block) return no_memory(b);
  Status s = OK;
  for (int i = 0; i < 2 * passes && s == OK; i++) {
    for (int r = 0; r < count; r++) {
      Pass *pass = &p->step[r]->pipeline->pass[i / 2];
      block[r] = i % 2 ? &pass->body : &pass->dequeues;
    }
    s = build(b, block, &p->pass[i]);
  }
  return s;
}

static bool same_nodes(const Node *a, const Node *b) {
  return a == b || (a && b && a->op == b->op && a->id == b->id);
}

static bool same_steps(const Builder *b, Block *const *block) {
  for (int r = 1; r < b->replication->count; r++) {
    if (block[r]->count != block[0]->count) return false;
    for (int i = 0; i < block[0]->count; i++)
      if (block[r]->step[i].kind != block[0]->step[i].kind ||
          !same_nodes(block[r]->step[i].node, block[0]->step[i].node))
        return false;
  }
  return true;
}

static Status build(Builder *b, Block *const *block, Phases *list) {
  double work = 0;
  Phase *local = NULL;
  if (!same_steps(b, block))
    return fail(b->error, ERR_INTERNAL, "the replicas of '%s' differ", b->program->name);
  for (int i = 0; i < block[0]->count; i++) {
    const Step *s = &block[0]->step[i];
    if (!step_meets(s)) {
      if (local) local->count++;
      else local = new_phase(b, list, PHASE_LOCAL, block, i), work = 0;
      if (!local) return no_memory(b);
      work += step_work(s);
      local->heavy = work >= HEAVY_WORK;
      continue;
    }
    local = NULL;
    bool control = is_control(s) || s->kind == STEP_PIPELINE;
    Phase *p = new_phase(b, list, control ? PHASE_CONTROL : PHASE_MEETING, block, i);
    if (!p) return no_memory(b);
    if (s->kind == STEP_ENQUEUE && s->call.in_count > b->replication->most_values)
      b->replication->most_values = s->call.in_count;
    if (p->kind == PHASE_MEETING) continue;
    Phase made = *p; /* the list may move while its inside is built */
    Status status = OK;
    if (s->kind == STEP_PIPELINE) status = build_passes(b, &made);
    else status = build_inside(b, &made, false, &made.body);
    if (status == OK && s->kind != STEP_PIPELINE)
      status = build_inside(b, &made, true, &made.other);
    if (status != OK) return status;
    list->phase[list->count - 1] = made;
  }
  bool others = b->program->all_replicas > b->program->replicas;
  return !others || buckets_find(b->program, b->replication, list) ? OK : no_memory(b);
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

static bool graph_meets(const Graph *g) {
  for (int i = 0; i < g->node_count; i++)
    if (g->node[i]->op->traits & ACROSS) return true;
  for (int i = 0; i < g->region_count; i++)
    if (graph_meets(g->region[i])) return true;
  return false;
}

bool program_meets(const Program *p) { return graph_meets(p->graph); }

Status program_replicate(Error *e, Program *p, int replicas, int first, int all, int threads) {
  if (replicas == p->replicas && !all) return OK;
  if (p->replicas > 1 || p->all_replicas)
    return fail(e, ERR_INTERNAL, "'%s' is replicated already", p->name);
  p->replicas = replicas;
  p->first_replica = first;
  p->all_replicas = all;
  p->meets = all > replicas && graph_meets(p->graph);
  p->uniform = graph_is_uniform(p->graph);
  return p->uniform || p->outline || (replicas == 1 && all <= 1)
             ? OK
             : program_make_instances(e, p, threads);
}

/* Ops that ask are told the number among the replicas of all instances. */
static void number_replica(Block *b, int replica) {
  for (int i = 0; i < b->count; i++) {
    Step *s = &b->step[i];
    if (s->kind == STEP_PIPELINE) {
      for (int k = 0; k < s->pipeline->pass_count; k++) {
        number_replica(&s->pipeline->pass[k].dequeues, replica);
        number_replica(&s->pipeline->pass[k].body, replica);
      }
    } else if (is_control(s)) {
      number_replica(s->control.body, replica);
      if (s->control.other) number_replica(s->control.other, replica);
    } else if (s->kind == STEP_OP) {
      s->call.replica = replica;
    }
  }
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
  Block **block = arena_alloc(p->arena, (size_t)r->count * sizeof *block);
  if (!block) return no_memory(b);
  for (int i = 0; i < r->count; i++) {
    block[i] = &r->instance[i]->main;
    if (p->first_replica) number_replica(block[i], p->first_replica + i);
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
