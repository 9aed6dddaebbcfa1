/* One sweep in trace order: operands have been simplified before their readers. A value that an
 * output is found to equal (alias) replaces it in all later nodes. Nodes without readers are
 * removed at the end. Rows find equal operands (OpDef.simplify). Constants are folded by the rows'
 * own evaluation. Equal nodes are found by a hash of all fields that tell nodes apart. */
#include "transform/simplify.h"

#include <stdlib.h>
#include <string.h>

#include "base/subnormal.h"
#include "graph/control.h"
#include "graph/numbering.h"
#include "ops/io/remote.h"

enum {
  FOLDED_BYTES = 1024,  /* of a result that becomes a constant */
  COMPARED_BYTES = 256, /* of constants that are compared element by element */
  FOLDING_SCRATCH = 1 << 16,
};

typedef struct Simplify {
  Error *error;
  Graph *g;
  Arena *arena;
  const Kernels *kernels;
  const Numerics *numerics;
  bool staged; /* a pipeline's body: passes follow from places and operands */
  Numbering values;
  Value **alias; /* by value: the value in its place; NULL: itself */
  Node **slot;   /* nodes by hash; a power of two, at most half full */
  size_t slots;
} Simplify;

static Value *resolve(const Simplify *s, Value *v) {
  Value *other = s->alias[value_number(&s->values, v)];
  return other ? other : v;
}

static void stand_for(Simplify *s, const Node *n, int output, Value *v) {
  s->alias[value_number(&s->values, &n->out[output])] = v;
}

/* ---- which nodes may go ---- */

static bool rounds_at_random(const Simplify *s, const Node *n) {
  int8_t asked = n->place.stochastic_rounding;
  if (asked < 0 ? !s->numerics->stochastic_rounding : !asked) return false;
  for (int i = 0; i < n->out_count; i++)
    if (n->out[i].type.dtype == F16) return true;
  for (int i = 0; i < n->in_count; i++)
    if (n->in[i]->type.dtype == F16) return true;
  return false;
}

static bool is_pure(const Simplify *s, const Node *n) {
  return !(n->op->traits & (STATEFUL | RANDOM | CONTROL | PER_REPLICA)) && !node_is_transfer(n) &&
         !rounds_at_random(s, n);
}

/* May readers of n's result read v? In a pipeline they must find it where n was. */
static bool is_at_hand(const Simplify *s, const Node *n, const Value *v) {
  const Node *from = v->node;
  if (node_is_constant(from)) return true;
  if (s->staged) return !node_is_input(from) && n->place.stage >= 0 && node_same_place(n, from);
  return node_is_input(from) ||
         (n->place.device == from->place.device && n->place.shard == from->place.shard);
}

/* ---- equal nodes ---- */

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (uint64_t word; bytes > 0; p += sizeof word) {
    size_t part = bytes < sizeof word ? bytes : sizeof word;
    word = 0;
    memcpy(&word, p, part);
    hash = mix(hash, word);
    bytes -= part;
  }
  return hash;
}

static bool is_short(const Tensor *t) {
  return tensor_is_dense(t) && type_bytes(&t->type) <= COMPARED_BYTES;
}

static uint64_t hash_attr(uint64_t hash, const Attr *a) {
  hash = mix(hash, a->kind);
  switch (a->kind) {
    case ATTR_NONE:
      return hash;
    case ATTR_STRING:
      return a->s ? mix_bytes(hash, a->s, strlen(a->s)) : hash;
    case ATTR_INTS:
      return mix_bytes(hash, a->ints.v, (size_t)a->ints.n * sizeof *a->ints.v);
    case ATTR_TENSOR:
      return is_short(a->tensor) ? mix_bytes(hash, a->tensor->data, type_bytes(&a->tensor->type))
                                 : mix(hash, (uintptr_t)a->tensor->data);
    default:
      return mix(hash, (uint64_t)a->i); /* the union's eight bytes */
  }
}

static uint64_t hash_of(const Node *n) {
  uint64_t hash = mix((uintptr_t)n->op, (uint64_t)n->in_count);
  for (int k = 0; k < n->in_count; k++) hash = mix(hash, (uintptr_t)n->in[k]);
  for (int i = 0; i < op_attr_count(n->op); i++) hash = hash_attr(hash, &n->attr[i]);
  return mix(hash, (uint64_t)(n->place.stage * 2 + n->place.backward));
}

static bool same_tensor(const Tensor *a, const Tensor *b) {
  if (!type_equal(&a->type, &b->type) || !tensor_is_dense(a) || !tensor_is_dense(b)) return false;
  return a->data == b->data || (is_short(a) && !memcmp(a->data, b->data, type_bytes(&a->type)));
}

static bool same_attr(const Attr *a, const Attr *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case ATTR_NONE:
      return true;
    case ATTR_STRING:
      return a->s == b->s || (a->s && b->s && !strcmp(a->s, b->s));
    case ATTR_INTS:
      return a->ints.n == b->ints.n &&
             (!a->ints.n || !memcmp(a->ints.v, b->ints.v, (size_t)a->ints.n * sizeof *a->ints.v));
    case ATTR_TENSOR:
      return same_tensor(a->tensor, b->tensor);
    default:
      return a->i == b->i;
  }
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_node(const Node *a, const Node *b) {
  if (a->op != b->op || a->in_count != b->in_count || a->out_count != b->out_count ||
      !node_same_place(a, b))
    return false;
  for (int k = 0; k < a->in_count; k++)
    if (a->in[k] != b->in[k]) return false;
  for (int i = 0; i < op_attr_count(a->op); i++)
    if (!same_attr(&a->attr[i], &b->attr[i])) return false;
  for (int i = 0; i < a->out_count; i++)
    if (!type_equal(&a->out[i].type, &b->out[i].type)) return false;
  return same_text(a->attributes, b->attributes);
}

/* An equal node before n, or NULL; then n is found from now on. */
static Node *find_equal(Simplify *s, Node *n) {
  size_t at = hash_of(n) & (s->slots - 1);
  for (; s->slot[at]; at = (at + 1) & (s->slots - 1))
    if (same_node(s->slot[at], n)) return s->slot[at];
  s->slot[at] = n;
  return NULL;
}

static void merge(Simplify *s, Node *n) {
  bool placed = node_is_constant(n) || !s->staged || n->place.stage >= 0;
  Node *other = placed && is_pure(s, n) ? find_equal(s, n) : NULL;
  for (int i = 0; other && i < n->out_count; i++) stand_for(s, n, i, &other->out[i]);
}

/* ---- constants ---- */

/* Broadcasts of scalars are not folded: the scalar is smaller. */
static bool is_foldable(const Simplify *s, const Node *n) {
  if (n->in_count == 0 || n->out_count != 1 || s->numerics->check_finite || !is_pure(s, n))
    return false;
  int64_t max = 0;
  for (int k = 0; k < n->in_count; k++) {
    if (!node_is_constant(n->in[k]->node) || !tensor_is_dense(n->in[k]->node->attr[0].tensor))
      return false;
    if (type_count(&n->in[k]->type) > max) max = type_count(&n->in[k]->type);
  }
  return type_bytes(&n->out[0].type) <= FOLDED_BYTES && type_count(&n->out[0].type) <= max;
}

static Status evaluate(const Simplify *s, const Node *n, Tensor *result) {
  size_t scratch = n->op->scratch ? n->op->scratch(n) : 0, padded = (scratch + 63) / 64 * 64;
  const void **in = arena_alloc(s->arena, (size_t)n->in_count * sizeof *in);
  const Type **type = arena_alloc(s->arena, (size_t)n->in_count * sizeof *type),
             *out_type = &n->out[0].type;
  Error quiet = {.status = OK};
  void *out = result->data;
  if (!in || !type || scratch > FOLDING_SCRATCH) return ERR_OUT_OF_MEMORY;
  for (int k = 0; k < n->in_count; k++)
    in[k] = n->in[k]->node->attr[0].tensor->data, type[k] = &n->in[k]->type;
  Call c = {.in = in,
            .out = &out,
            .in_type = type,
            .out_type = &out_type,
            .node = n,
            .attr = n->attr,
            .in_count = n->in_count};
  c.out_count = 1, c.kernels = s->kernels, c.numerics = s->numerics, c.error = &quiet,
  c.source = n->source;
  c.scratch = padded ? aligned_alloc(64, padded) : NULL;
  uint64_t subnormal = subnormal_flush();
  Status status = padded && !c.scratch ? ERR_OUT_OF_MEMORY : op_eval(n->op, &c);
  subnormal_restore(subnormal);
  free(c.scratch);
  return status;
}

/* A node whose evaluation fails is left in place, so that the run reports the error. */
static void fold(Simplify *s, Node *n) {
  Error quiet = {.status = OK};
  Tensor *result = is_foldable(s, n) ? tensor_new(&quiet, &n->out[0].type) : NULL;
  if (result && evaluate(s, n, result) == OK) graph_make_constant(s->g, n, result);
  tensor_release(result);
}

/* ---- the sweep ---- */

static Status simplify_regions(Simplify *s, Node *n) {
  Status status = OK;
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count && status == OK; r++)
    status = graph_simplify(s->error, c.region[r].graph, s->kernels, s->numerics);
  return status;
}

static Status simplify_node(Simplify *s, Node *n) {
  for (int k = 0; k < n->in_count; k++) n->in[k] = resolve(s, n->in[k]);
  if (n->op->traits & CONTROL) return simplify_regions(s, n);
  if (node_is_input(n)) return OK;
  bool may = n->op->simplify && (n->op->traits & MARKER || !rounds_at_random(s, n));
  Value *same = may ? n->op->simplify(n) : NULL;
  if (same && (n->op->traits & MARKER || is_at_hand(s, n, same))) {
    stand_for(s, n, 0, same);
    return OK;
  }
  fold(s, n);
  merge(s, n);
  return s->g->error.status == OK ? OK
                                  : fail(s->error, s->g->error.status, "%s", s->g->error.message);
}

static bool prepare(Simplify *s) {
  const Graph *g = s->g;
  s->arena = arena_new();
  if (!s->arena || !number_values(s->arena, g, &s->values)) return false;
  for (int i = 0; i < g->node_count; i++) s->staged = s->staged || g->node[i]->place.stage >= 0;
  for (s->slots = 16; s->slots < 2 * (size_t)g->node_count;) s->slots *= 2;
  s->alias = arena_alloc(s->arena, (size_t)(s->values.count + 1) * sizeof *s->alias);
  s->slot = arena_alloc(s->arena, s->slots * sizeof *s->slot);
  return s->alias && s->slot;
}

/* Nodes that are read, have an effect or are inputs, numbered anew; streams of random numbers
 * stay. */
static bool drop_dead(Simplify *s) {
  Graph *g = s->g;
  bool *live = arena_alloc(s->arena, (size_t)g->node_count + 1);
  if (!live) return false;
  int count = 0;
  for (int i = 0; i < g->output_count; i++) live[g->output[i]->node->id] = true;
  for (int i = g->node_count - 1; i >= 0; i--) {
    const Node *n = g->node[i];
    live[i] = live[i] || node_is_input(n) || (n->op->traits & STATEFUL);
    for (int k = 0; live[i] && k < n->in_count; k++) live[n->in[k]->node->id] = true;
  }
  for (int i = 0; i < g->node_count; i++)
    if (live[i]) g->node[count++] = g->node[i];
  for (int i = 0; i < count; i++) g->node[i]->id = i;
  g->node_count = g->next_id = count;
  return true;
}

Status graph_simplify(Error *e, Graph *g, const Kernels *kernels, const Numerics *numerics) {
  Simplify s = {.error = e, .g = g, .kernels = kernels, .numerics = numerics};
  Status status = prepare(&s) ? OK : ERR_OUT_OF_MEMORY;
  for (int i = 0; i < g->node_count && status == OK; i++) status = simplify_node(&s, g->node[i]);
  for (int i = 0; i < g->output_count && status == OK; i++)
    g->output[i] = resolve(&s, g->output[i]);
  if (status == OK && !drop_dead(&s)) status = ERR_OUT_OF_MEMORY;
  arena_free(s.arena);
  return status == ERR_OUT_OF_MEMORY ? fail(e, status, "out of memory while simplifying a graph")
                                     : status;
}
