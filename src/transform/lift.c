#include "transform/lift.h"

#include <stdlib.h>

#include "graph/control.h"
#include "graph/observe.h"

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)*(Tensor *const *)a, y = (uintptr_t)*(Tensor *const *)b;
  return x < y ? -1 : x > y;
}

/* Where a constant's tensor is in the list; -1: it isn't there, or there is no constant. */
static int position_of(const TensorList *list, const Node *constant) {
  if (!constant) return -1;
  const Tensor *t = constant->attr[0].tensor;
  Tensor **found =
      list->count ? bsearch(&t, list->tensor, (size_t)list->count, sizeof t, by_address) : NULL;
  return found ? (int)(found - list->tensor) : -1;
}

/* Whether gradients may be asked for by operand k of n. The value of a `known` node is computed
 * from others, so they may not. */
static const Node *constant_at(const Node *n, int k) {
  const Node *from = n->in[k]->node;
  return node_is_constant(from) && !(k && k == n->op->value_from) ? from : NULL;
}

static const Node *constant_result(const Graph *g, int i) {
  const Node *from = g->output[i]->node;
  return node_is_constant(from) ? from : NULL;
}

/* ---- which there are ---- */

static bool add(TensorList *list, const Node *constant) {
  if (!constant || !dtype_is_float(constant->out[0].type.dtype)) return true;
  if (!array_reserve(&list->tensor, &list->capacity, list->count + 1, sizeof(Tensor *)))
    return false;
  list->tensor[list->count++] = constant->attr[0].tensor;
  return true;
}

static bool collect(const Graph *g, TensorList *list) {
  bool ok = true;
  for (int i = 0; i < g->node_count && ok; i++) {
    const Node *n = g->node[i];
    for (int k = 0; k < n->in_count && ok; k++) ok = add(list, constant_at(n, k));
    ControlRegions c = control_regions(n);
    for (int r = 0; r < c.count && ok; r++) ok = collect(c.region[r].graph, list);
  }
  for (int i = 0; i < g->output_count && ok; i++) ok = add(list, constant_result(g, i));
  return ok;
}

Status lift_find(Error *e, const Graph *g, TensorList *list) {
  if (!collect(g, list)) return fail(e, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  if (list->count) qsort(list->tensor, (size_t)list->count, sizeof(Tensor *), by_address);
  int count = 0;
  for (int i = 0; i < list->count; i++)
    if (!i || list->tensor[i] != list->tensor[i - 1]) list->tensor[count++] = list->tensor[i];
  list->count = count;
  return OK;
}

/* ---- in their places ---- */

/* Marks the values that are read in g, its regions included. */
static void mark_used(const Graph *g, const TensorList *list, bool *used) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    for (int k = 0; k < n->in_count; k++) {
      int at = position_of(list, constant_at(n, k));
      if (at >= 0) used[at] = true;
    }
    ControlRegions c = control_regions(n);
    for (int r = 0; r < c.count; r++) mark_used(c.region[r].graph, list, used);
  }
  for (int i = 0; i < g->output_count; i++) {
    int at = position_of(list, constant_result(g, i));
    if (at >= 0) used[at] = true;
  }
}

static Status no_memory(Graph *g) {
  return fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
}

/* Both regions get an input for each that one of them reads. */
static Status lift_regions(Graph *g, Node *n, const TensorList *list, Value *const *value) {
  size_t room = (size_t)list->count + 1;
  bool *used = arena_alloc(g->arena, room);
  Value **outer = arena_alloc(g->arena, 4 * room * sizeof *outer), **inner = outer + room;
  if (!used || !outer) return no_memory(g);
  Value **made[2] = {outer + 2 * room, outer + 3 * room};
  ControlRegions c = control_regions(n);
  for (int r = 0; r < c.count; r++) mark_used(c.region[r].graph, list, used);
  int count = 0;
  for (int i = 0; i < list->count; i++)
    if (used[i] && value[i]) outer[count++] = value[i];
    else used[i] = false;
  if (!count) return OK;
  if (!control_append(g, n, outer, count, made)) return no_memory(g);
  for (int r = 0; r < c.count; r++) {
    Graph *region = c.region[r].graph;
    for (int i = 0, k = 0; i < list->count; i++) inner[i] = used[i] ? made[r][k++] : NULL;
    if (lift_constants(region, list, inner) != OK)
      return fail(&g->error, region->error.status, "%s", region->error.message);
  }
  return OK;
}

Status lift_constants(Graph *g, const TensorList *list, Value *const *value) {
  for (int i = 0; i < g->node_count && g->error.status == OK; i++) {
    Node *n = g->node[i];
    for (int k = 0; k < n->in_count; k++) {
      int at = position_of(list, constant_at(n, k));
      if (at >= 0 && value[at]) n->in[k] = value[at];
    }
    if (n->op->traits & CONTROL) lift_regions(g, n, list, value);
  }
  for (int i = 0; i < g->output_count; i++) {
    int at = position_of(list, constant_result(g, i));
    if (at >= 0 && value[at]) g->output[i] = value[at];
  }
  return g->error.status;
}
