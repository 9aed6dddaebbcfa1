/* The compiler: a finished root trace becomes a program. The graph is simplified and completed
 * (offload.c), then lowered (lower.c). */
#include "program/program.h"

#include <stdlib.h>

#include "program/addresses.h"
#include "program/identical.h"
#include "program/lower.h"
#include "program/offload.h"
#include "program/read_ahead.h"
#include "program/replicas.h"
#include "program/share.h"
#include "program/timetable.h"
#include "program/verify.h"
#include "transform/clone.h"
#include "transform/fast_math.h"
#include "transform/lift.h"
#include "transform/simplify.h"
#include "transform/verify.h"

static int bind_buffer(Lower *l, int index, size_t bytes) {
  int b = lower_buffer(l, BUFFER_ARGUMENT, bytes, NULL);
  if (b < 0) return -1;
  l->p->buffer[b].argument = index;
  l->p->binding[index] = (Binding){b, NULL};
  return b;
}

static Status describe(Lower *l, int argument_count, int variable_count, int result_count) {
  Program *p = l->p;
  p->argument_count = argument_count;
  p->result_count = result_count;
  size_t count = (size_t)(argument_count + variable_count + result_count) + 1;
  p->variable = arena_alloc(p->arena, count * sizeof *p->variable);
  p->writes = arena_alloc(p->arena, count);
  p->shared = arena_alloc(p->arena, count);
  p->result_type = arena_alloc(p->arena, count * sizeof *p->result_type);
  p->binding = arena_alloc(p->arena, count * sizeof *p->binding);
  if (!p->variable || !p->writes || !p->shared || !p->result_type || !p->binding)
    return lower_no_memory(l);
  p->variable_count = variable_count;
  for (int i = 0; i < result_count; i++) p->result_type[i] = p->graph->output[i]->type;
  return OK;
}

/* Outputs beyond the results are the variables that the program changes, in order. */
static Status lower_program(Lower *l) {
  Program *p = l->p;
  const Graph *g = p->graph;
  int *inputs = arena_alloc(p->arena, (size_t)(g->input_count + 1) * sizeof *inputs);
  int *targets = arena_alloc(p->arena, (size_t)(g->output_count + 1) * sizeof *targets);
  if (!inputs || !targets) return lower_no_memory(l);
  int lead = p->argument_count + p->variable_count, at = p->result_count;
  for (int i = 0; i < g->input_count; i++)
    inputs[i] = bind_buffer(l, i, type_bytes(&g->input[i]->type));
  for (int i = 0; i < p->result_count; i++)
    targets[i] = bind_buffer(l, lead + i, type_bytes(&g->output[i]->type));
  for (int i = 0; i < p->variable_count; i++)
    if (p->writes[i]) targets[at++] = inputs[p->argument_count + i];
  Status s = VERIFYING ? graph_verify(l->error, g, "compiling") : OK;
  if (s == OK) s = lower_region(l, g, inputs, targets, &p->main);
  if (s == OK) s = lower_addresses(l);
  return s == OK && VERIFYING ? program_verify(l->error, p) : s;
}

static Program *new_program(Error *e, const char *name, const Kernels *kernels,
                            const Numerics *numerics, Graph *graph) {
  Program *p = calloc(1, sizeof *p);
  if (p) p->arena = arena_new();
  if (!p || !p->arena) {
    free(p);
    fail(e, ERR_OUT_OF_MEMORY, "out of memory while compiling '%s'", name);
    return NULL;
  }
  p->kernels = kernels;
  p->replicas = 1;
  if (numerics) p->numerics = *numerics;
  p->name = arena_string(p->arena, name ? name : "program");
  p->graph = graph;
  return p;
}

/* Which of the variables that replicas were to share out they have each for itself. */
static void note_unshared(Program *p, const Offload *o, const int *shares) {
  for (int i = 0; i < p->variable_count; i++) {
    const Variable *v = p->variable[i];
    if (shares[p->argument_count + i] != 1) continue;
    p->unshared_state = p->unshared_state || (v->of_optimizer && o->shard_state);
    p->unshared_weights =
        p->unshared_weights || (!v->of_optimizer && v->trainable && o->shard_weights);
  }
}

/* The requests for the whole program, and for its pipeline. */
static Status place_transfers(Error *e, Program *p, const Trace *root) {
  OffloadRequest q = {
      .offload = root->offload, .plan = graph_plan(p->graph), .replicas = root->replicas};
  if (q.plan) {
    q.offload = q.plan->offload;
    q.recompute = q.plan->recomputation;
  }
  Graph *g = offload_graph(e, p, &q);
  if (!g) return e->status;
  graph_free(p->graph);
  p->graph = g;
  int *shares = calloc((size_t)g->input_count + 1, sizeof *shares);
  bool good = shares && load_shares_of_inputs(g, shares);
  for (int i = 0; i < p->variable_count && good; i++)
    p->shared[i] = shares[p->argument_count + i] > 1;
  if (good && q.replicas > 1) note_unshared(p, &q.offload, shares);
  free(shares);
  return good ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static Status simplify(Error *e, Program *p) {
  Status s = VERIFYING ? graph_verify(e, p->graph, "tracing") : OK;
  if (s == OK) s = graph_simplify(e, p->graph, p->kernels, &p->numerics);
  if (s == OK && p->numerics.fast_math) {
    s = graph_fast_math(e, p->graph);
    /* nodes that are unread now go */
    if (s == OK) s = graph_simplify(e, p->graph, p->kernels, &p->numerics);
  }
  return s == OK && VERIFYING ? graph_verify(e, p->graph, "simplifying") : s;
}

/* threads 0: an outline. */
static Program *compile(Error *e, Trace *root, int result_count, const int *written,
                        int written_count, const Kernels *kernels, const Numerics *numerics,
                        int threads, const char *name) {
  if (root->graph->error.status != OK) {
    if (e->status == OK) *e = root->graph->error;
    return NULL;
  }
  Program *p = new_program(e, name, kernels, numerics, NULL);
  if (!p) return NULL;
  p->graph = trace_take_graph(root);
  p->outline = threads < 1;
  Lower l = {.error = e, .p = p, .threads = threads};
  Status s = describe(&l, root->argument_count, root->extra_count, result_count);
  if (s == OK && !p->outline && !(p->traced = graph_copy(p->graph))) s = lower_no_memory(&l);
  for (int i = 0; i < p->variable_count; i++)
    p->variable[i] = variable_retain(root->extra[i].variable);
  for (int i = 0; i < written_count && s == OK; i++) p->writes[written[i]] = true;
  if (s == OK) s = simplify(e, p);
  if (s == OK && p->numerics.identical_only && root->replicas != 1)
    s = program_round_identical(e, p);
  if (s == OK) s = place_transfers(e, p, root);
  if (s == OK && (p->outline || lower_program(&l) == OK)) return p;
  program_free(p);
  return NULL;
}

Program *program_compile(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         int threads, const char *name) {
  return compile(e, root, result_count, written, written_count, kernels, numerics,
                 threads < 1 ? 1 : threads, name);
}

Program *program_outline(Error *e, Trace *root, int result_count, const int *written,
                         int written_count, const Kernels *kernels, const Numerics *numerics,
                         const char *name) {
  return compile(e, root, result_count, written, written_count, kernels, numerics, 0, name);
}

Program *program_copy(Error *e, const Program *from, int threads) {
  return program_instance(e, from, threads, 0);
}

Program *program_instance(Error *e, const Program *from, int threads, int replica) {
  Program *p = new_program(e, from->name, from->kernels, &from->numerics, from->graph);
  if (!p) return NULL;
  p->borrows_graph = true;
  p->replica = replica;
  Lower l = {.error = e, .p = p, .threads = threads < 1 ? 1 : threads};
  Status s = describe(&l, from->argument_count, from->variable_count, from->result_count);
  for (int i = 0; i < p->variable_count; i++) {
    p->variable[i] = variable_retain(from->variable[i]);
    p->writes[i] = from->writes[i];
    p->shared[i] = from->shared[i];
  }
  if (s == OK && lower_program(&l) == OK) return p;
  program_free(p);
  return NULL;
}

Status program_lift(Error *e, Program *p) {
  if (p->is_lifted) return OK;
  Graph *g = p->traced;
  if (!g)
    return fail(e, ERR_FAILED_PRECONDITION, "'%s' was compiled to be priced: it has no gradient",
                p->name);
  if (lift_find(e, g, &p->lifted) != OK) return e->status;
  Value **value = calloc((size_t)p->lifted.count + 1, sizeof *value);
  Status s = value ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  for (int i = 0; i < p->lifted.count && s == OK; i++)
    value[i] = graph_input(g, &p->lifted.tensor[i]->type, NULL);
  if (s == OK && lift_constants(g, &p->lifted, value) != OK)
    s = fail(e, g->error.status, "%s", g->error.message);
  free(value);
  p->is_lifted = s == OK;
  return s;
}

void program_free(Program *p) {
  if (!p) return;
  graph_free(p->traced);
  free(p->lifted.tensor);
  replication_free(p->replication);
  for (int i = 0; i < p->variable_count; i++) variable_release(p->variable[i]);
  for (int i = 0; i < p->pipeline_count; i++) timetable_free(p->pipeline[i]->timetable);
  free(p->pipeline);
  read_ahead_free(p);
  free(p->buffer);
  free(p->link);
  free(p->memory);
  free(p->remote);
  free(p->slots);
  if (!p->borrows_graph) graph_free(p->graph);
  arena_free(p->arena);
  free(p);
}
