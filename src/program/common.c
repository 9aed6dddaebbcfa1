/* A program as a text that must be equal on all instances that run it together: nodes with types
 * and attributes, and variables. Names of tensors, paths and lines may differ. */
#include "program/common.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/control.h"
#include "program/program.h"

static void print_attr(FILE *f, const Attr *a) {
  switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_DTYPE:
      fprintf(f, " %lld", (long long)a->i);
      break;
    case ATTR_FLOAT:
      fprintf(f, " %.17g", a->f);
      break;
    case ATTR_STRING:
      fprintf(f, " %s", a->s);
      break;
    case ATTR_INTS:
      for (int i = 0; i < a->ints.n; i++) fprintf(f, " %lld", (long long)a->ints.v[i]);
      break;
    default:
      break;
  }
}

static void print_types(FILE *f, Value *const *in, int count) {
  char text[TYPE_TEXT];
  for (int i = 0; i < count; i++) fprintf(f, "%s%s", i ? ", " : "", type_text(&in[i]->type, text));
}

/* How often a loop runs, where that is fixed: other numbers make other sequences of collectives. */
static void print_count(FILE *f, const Node *n) {
  ControlRegions c = control_regions(n);
  if (!c.lead || !node_is_constant(n->in[0]->node)) return;
  const Tensor *t = n->in[0]->node->attr[0].tensor;
  if (t && type_count(&t->type) == 1) fprintf(f, " %g times", tensor_get(t, 0));
}

static void print_graph(FILE *f, const Graph *g) {
  for (int i = 0; i < g->node_count; i++) {
    const Node *n = g->node[i];
    if (!node_is_made(n)) continue;
    fprintf(f, "%s of ", n->op->name);
    print_types(f, n->in, n->in_count);
    print_count(f, n);
    for (int a = 0; a < op_attr_count(n->op); a++) print_attr(f, &n->attr[a]);
    fprintf(f, "\t%s\n", n->source ? n->source : "");
  }
  for (int i = 0; i < g->region_count; i++) print_graph(f, g->region[i]);
}

char *program_common_text(const Program *p) {
  char *text = NULL, type[TYPE_TEXT];
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  fprintf(f, "%d replicas in each instance\t\n", p->replicas);
  print_graph(f, p->graph);
  for (int i = 0; i < p->variable_count; i++)
    fprintf(f, "the variable '%s', %s\t\n", p->variable[i]->name,
            type_text(&p->variable[i]->type, type));
  if (fclose(f)) {
    free(text);
    return NULL;
  }
  return text;
}
