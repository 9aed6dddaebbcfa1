/* The cost of a node by its op's row. It is remembered by op, types, attributes, and whether the
 * node is the host's. */
#include "machine/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_attr(FILE *f, const Attr *a) {
  switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DTYPE:
      fprintf(f, ";%lld", (long long)a->i);
      break;
    case ATTR_FLOAT:
      fprintf(f, ";%a", a->f);
      break;
    case ATTR_STRING:
      fprintf(f, ";%s", a->s);
      break;
    case ATTR_INTS:
      fputc(';', f);
      for (int i = 0; i < a->ints.n; i++) fprintf(f, "%lld,", (long long)a->ints.v[i]);
      break;
    default:
      fputs(";-", f);
  }
}

static void put_type(FILE *f, const Type *t) {
  fprintf(f, "|%d", t->dtype);
  for (int i = 0; i < t->rank; i++) fprintf(f, ",%lld", (long long)t->shape[i]);
}

static char *key_of(const Node *n) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  fprintf(f, "%s;%d;%d;%d;%d;%d", n->op->name, n->place.half_products, n->place.half_convolutions,
          n->place.product_share, n->place.convolution_share, n->place.device == DEVICE_HOST);
  for (int i = 0; i < op_attr_count(n->op); i++) put_attr(f, &n->attr[i]);
  for (int i = 0; i < n->in_count; i++) put_type(f, &n->in[i]->type);
  for (int i = 0; i < n->out_count; i++) put_type(f, &n->out[i].type);
  fclose(f);
  return text;
}

bool node_has_price(const Node *n) {
  return n->op->cost || (n->op->traits & (VIEW | CONTROL)) || n->place.device == DEVICE_HOST;
}

static bool is_empty(const Node *n) {
  for (int i = 0; i < n->out_count; i++)
    if (type_count(&n->out[i].type) > 0) return false;
  return n->out_count > 0;
}

/* Options of a pipeline stage override the configuration's. */
static void set_share(double *proportion, int32_t millionths) {
  if (millionths >= 0) *proportion = millionths / 1e6;
}

const Cost *cost_of_node(CostTable *t, const Node *n) {
  Node copy = *n;
  if (copy.place.half_products < 0) copy.place.half_products = t->machine->half_products;
  if (copy.place.half_convolutions < 0)
    copy.place.half_convolutions = t->machine->half_convolutions;
  char *key = key_of(&copy);
  if (!key) return NULL;
  Cost *c = map_get(t->by_key, key);
  if (!c && (c = arena_alloc(t->arena, sizeof *c))) {
    *c = cost_free();
    bool works =
        n->op->cost && !(n->op->traits & VIEW) && n->place.device != DEVICE_HOST && !is_empty(n);
    if (works) {
      Target target = t->machine->pod.target;
      set_share(&target.matmul_proportion, n->place.product_share);
      set_share(&target.conv_proportion, n->place.convolution_share);
      n->op->cost(&target, &copy, c);
    }
    if (!map_set(t->by_key, key, c)) c = NULL;
  }
  free(key);
  return c;
}
