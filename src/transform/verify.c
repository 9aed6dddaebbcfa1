#include "transform/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "graph/control.h"

typedef struct Check {
  Error *error;
  const Graph *graph;
  const char *pass;
  Arena *arena;
} Check;

__attribute__((format(printf, 3, 4))) static Status bad(Check *c, const Node *n, const char *format,
                                                        ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return fail_at(c->error, n ? n->source : NULL, ERR_INTERNAL,
                 "%s left a broken graph: node %d (%s): %s", c->pass, n ? n->id : -1,
                 n && n->op ? n->op->name : "none", text);
}

/* ---- operands ---- */

/* v is an output of a node of g that stands before position. */
static Status check_value(Check *c, const Node *reader, const Value *v, const char *what, int k,
                          int position) {
  const Graph *g = c->graph;
  if (!v || !v->node) return bad(c, reader, "%s %d is missing", what, k);
  const Node *n = v->node;
  if (n->arena != g->arena || n->id < 0 || n->id >= g->node_count || g->node[n->id] != n)
    return bad(c, reader, "%s %d is of another graph", what, k);
  if (v->index < 0 || v->index >= n->out_count || v != &n->out[v->index])
    return bad(c, reader, "%s %d is no output of its node %d", what, k, n->id);
  if (n->id >= position && node_is_made(n))
    return bad(c, reader, "%s %d is made after it is read, by node %d", what, k, n->id);
  return OK;
}

static Status check_arity(Check *c, const Node *n) {
  if (n->op->traits & (CONTROL | VARIADIC) || !node_is_made(n) || !n->op->inputs[0]) return OK;
  int required, max = op_input_count(n->op, &required);
  return n->in_count < required || n->in_count > max
             ? bad(c, n, "has %d operands, its row has %d to %d", n->in_count, required, max)
             : OK;
}

static Status check_attributes(Check *c, const Node *n) {
  for (int i = 0; i < op_attr_count(n->op); i++) {
    AttrKind kind = n->attr[i].kind, wanted = n->op->attrs[i].kind;
    if (kind != ATTR_NONE && kind != wanted)
      return bad(c, n, "attribute '%s' is of another kind", n->op->attrs[i].name);
  }
  return OK;
}

/* ---- types ---- */

static Status check_result_types(Check *c, const Node *n) {
  Error e = {0};
  for (int i = 0; i < n->out_count; i++) {
    const Type *t = &n->out[i].type;
    if ((int)t->dtype < 0 || t->dtype >= DTYPE_COUNT || t->rank < 0 || t->rank > MAX_RANK ||
        type_check(&e, "result", t) != OK)
      return bad(c, n, "output %d has no valid type", i);
  }
  return OK;
}

/* Compares n with the result of infer for a copy of it. */
static Status check_inferred(Check *c, const Node *n) {
  if (!n->op->infer) return OK;
  Node copy = *n;
  size_t outs = (size_t)(max(n->out_count, MAX_OUTPUTS));
  copy.arena = c->arena;
  copy.attr = arena_copy(c->arena, n->attr, (size_t)op_attr_count(n->op) * sizeof *n->attr);
  copy.out = arena_alloc(c->arena, outs * sizeof *copy.out);
  if (!copy.attr || !copy.out) return fail(c->error, ERR_OUT_OF_MEMORY, "out of memory");
  Error e = {0};
  if (node_infer(&e, &copy) != OK) return bad(c, n, "infer refuses it: %.200s", e.message);
  if (copy.out_count != n->out_count)
    return bad(c, n, "has %d outputs, infer says %d", n->out_count, copy.out_count);
  for (int i = 0; i < n->out_count; i++) {
    char is[TYPE_TEXT], says[TYPE_TEXT];
    if (!type_equal(&n->out[i].type, &copy.out[i].type))
      return bad(c, n, "output %d is %.80s, infer says %.80s", i, type_text(&n->out[i].type, is),
                 type_text(&copy.out[i].type, says));
  }
  return OK;
}

/* ---- regions ---- */

static Status check_equal(Check *c, const Node *n, const char *what, int i, const Type *a,
                          const Type *b) {
  char x[TYPE_TEXT], y[TYPE_TEXT];
  return type_equal(a, b)
             ? OK
             : bad(c, n, "%s %d: %.80s against %.80s", what, i, type_text(a, x), type_text(b, y));
}

static bool is_scalar(const Type *t, Dtype d) { return t->rank == 0 && t->dtype == d; }

static Status check_gradient_region(Check *c, const Node *n) {
  const Graph *r = control_other(n);
  int upstream = n->attr[CONTROL_UPSTREAM].ints.n, saved = n->attr[CONTROL_SAVED].ints.n,
      given = n->attr[CONTROL_GIVEN].ints.n;
  if (r->input_count != upstream + saved || r->output_count != given)
    return bad(c, n, "the gradient's region has another arity");
  return OK;
}

/* The inputs of a region that runs are the node's operands. Its outputs are the node's outputs or a
 * test. */
static Status check_region(Check *c, const Node *n, const ControlRegions *inside, int region) {
  const Graph *r = inside->region[region].graph;
  RegionRole role = inside->region[region].role;
  if (role == REGION_GRADIENT) return check_gradient_region(c, n);
  Status s = r->input_count == inside->inputs ? OK
                                              : bad(c, n, "a region has %d inputs for %d values",
                                                    r->input_count, inside->inputs);
  for (int k = inside->skip; k < n->in_count && s == OK; k++)
    s = check_equal(c, n, "operand and region input", k - inside->skip, &n->in[k]->type,
                    &r->input[control_input(inside, k)]->type);
  if (s == OK && role == REGION_TEST &&
      (r->output_count != 1 || !is_scalar(&r->output[0]->type, BOOL)))
    return bad(c, n, "its condition gives no bool");
  if (s != OK || role == REGION_TEST) return s;
  if (r->output_count != n->out_count)
    return bad(c, n, "a region has %d outputs for %d", r->output_count, n->out_count);
  for (int i = 0; i < n->out_count && s == OK; i++)
    s = check_equal(c, n, "output and region output", i, &n->out[i].type, &r->output[i]->type);
  return s;
}

static Status check_carried(Check *c, const Node *n) {
  Status s = OK;
  for (int i = 0; i < control_explicit(n) && s == OK; i++)
    s = check_equal(c, n, "carried value and result", i, &n->in[1 + i]->type, &n->out[i].type);
  return s;
}

static Status check_control(Check *c, const Node *n) {
  ControlRegions inside = control_regions(n);
  if (!control_body(n) || (control_other(n) != NULL) != (n->op->control->other != REGION_NONE))
    return bad(c, n, "a region is missing or too many");
  if (control_explicit(n) + control_written_count(n) != n->out_count)
    return bad(c, n, "its outputs are not as many as it says");
  for (int i = 0; i < control_written_count(n); i++)
    if (control_written(n, i) < 0 || control_written(n, i) >= n->in_count)
      return bad(c, n, "writes what it doesn't have");
  if (inside.skip && (n->in_count < 1 || !is_scalar(&n->in[0]->type, inside.loops ? I32 : BOOL)))
    return bad(c, n, "its count or test is none");
  if (inside.loops && n->in_count <= control_explicit(n))
    return bad(c, n, "carries what it is not given");
  Status s = OK;
  for (int r = 0; r < inside.count && s == OK; r++) s = check_region(c, n, &inside, r);
  if (s == OK && inside.loops) s = check_carried(c, n);
  for (int r = 0; r < inside.count && s == OK; r++)
    s = graph_verify(c->error, inside.region[r].graph, c->pass);
  return s;
}

static Status check_node(Check *c, const Node *n, int position) {
  if (!n || !n->op) return bad(c, n, "is no node");
  if (n->id != position) return bad(c, n, "stands at %d", position);
  Status s = check_arity(c, n);
  for (int k = 0; k < n->in_count && s == OK; k++)
    s = check_value(c, n, n->in[k], "operand", k, position);
  if (s == OK) s = check_attributes(c, n);
  if (s == OK) s = check_result_types(c, n);
  if (s == OK) s = check_inferred(c, n);
  return s == OK && (n->op->traits & CONTROL) ? check_control(c, n) : s;
}

Status graph_verify(Error *e, const Graph *g, const char *pass) {
  if (g->error.status != OK) return OK; /* it has failed already, and says so itself */
  Check c = {e, g, pass, arena_new()};
  Status s = c.arena ? OK : fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  for (int i = 0; i < g->node_count && s == OK; i++) s = check_node(&c, g->node[i], i);
  for (int i = 0; i < g->input_count && s == OK; i++) {
    s = check_value(&c, NULL, g->input[i], "input", i, g->node_count);
    if (s == OK && !node_is_input(g->input[i]->node))
      s = bad(&c, g->input[i]->node, "is input %d, but no input", i);
  }
  for (int i = 0; i < g->output_count && s == OK; i++)
    s = check_value(&c, NULL, g->output[i], "output", i, g->node_count);
  arena_free(c.arena);
  return s;
}
