/* The naive evaluator of graphs: node by node in trace order, every value in a buffer of its own,
 * no fusion, no reuse. Results of programs are compared with this. */
#ifndef SPEC_INTERPRET_H
#define SPEC_INTERPRET_H
#include "graph/graph.h"

typedef struct Interpretation {
  const Kernels *kernels; /* NULL: what IPULUA_CPU and IPULUA_BLAS ask for */
  Pool *pool;             /* NULL: none */
  const Numerics *numerics;
  RngKey rng; /* for rounding */
} Interpretation;

/* The choice of the environment, as the command takes it. NULL and an error if there is none of
 * that name. */
const Kernels *interpret_kernels(Error *e);

/* inputs as graph_input made them, in order; outputs [g->output_count] are the caller's to
 * release. how may be NULL. On failure no outputs are handed out. */
Status interpret(Error *e, const Graph *g, Tensor *const *inputs, Tensor **outputs,
                 const Interpretation *how);
/* One node on dense tensors; out [n->out_count] are the caller's. With in_place >= 0 output 0 is
 * written over input in_place's tensor, which is then retained as out[0]. */
Status interpret_node(Error *e, const Node *n, Tensor *const *in, Tensor **out,
                      const Interpretation *how, int in_place);
#endif
