/* The registry of ops, and the names that gradients are written with. */
#ifndef IPULUA_OPS_OPS_H
#define IPULUA_OPS_OPS_H
#include "graph/graph.h"

const OpDef *op_find(const char *name);      /* NULL when there is none */
const OpDef *op_next(const OpDef *previous); /* all rows, file by file; NULL starts and ends */

/* Call an op by name with defaults; then with attributes in the row's order. Sticky like
 * graph_apply. */
Value *op1(Graph *g, const char *name, Value *x);
Value *op2(Graph *g, const char *name, Value *a, Value *b);
Value *op3(Graph *g, const char *name, Value *a, Value *b, Value *c);
Value *op_with(Graph *g, const char *name, Value *const *in, int in_count, const Attr *attrs);

/* Common ops. */
Value *ops_add(Graph *g, Value *a, Value *b);
Value *ops_sub(Graph *g, Value *a, Value *b);
Value *ops_mul(Graph *g, Value *a, Value *b);
Value *ops_div(Graph *g, Value *a, Value *b);
Value *ops_neg(Graph *g, Value *x);
Value *ops_scale(Graph *g, Value *x, double factor);       /* x * factor in x's dtype */
Value *ops_reshape(Graph *g, Value *x, const Type *shape); /* shape's dtype is ignored */
Value *ops_reshape_like(Graph *g, Value *x, const Value *like);
Value *ops_broadcast(Graph *g, Value *x, const Type *shape);
Value *ops_sum(Graph *g, Value *x, const int64_t *axes, int count, bool keepdims);
Value *ops_sum_to(Graph *g, Value *x, const Type *shape); /* undo broadcasting */
Value *ops_join(Graph *g, Value *a, Value *b, int axis);
Value *ops_transpose(Graph *g, Value *x, const int64_t *perm);
Value *ops_matmul(Graph *g, Value *a, Value *b, bool transpose_a, bool transpose_b);
Value *ops_cast(Graph *g, Value *x, Dtype d);
Value *ops_zeros(Graph *g, const Type *t);
Value *ops_ones(Graph *g, const Type *t);
Value *ops_identity(Graph *g, Dtype d, int64_t n); /* a matrix */
Value *ops_where(Graph *g, Value *c, Value *a, Value *b);

/* ---- for rows ---- */
Status infer_same(Error *e, Node *n);      /* output 0 is like input 0 */
Status infer_float(Error *e, Node *n);     /* the same; refuses integers and bool */
Status infer_broadcast(Error *e, Node *n); /* two operands, equal dtypes */
Status infer_compare(Error *e, Node *n);   /* the same with a bool result */
/* Sets count and axes from an axes attribute, sorted. An absent one means all axes, an empty list
 * none. Negative axes are counted from the end. Duplicates are refused. */
Status infer_axes(Error *e, const Attr *attr, int rank, int *count, int axes[MAX_RANK]);

/* A parallel loop over rows or elements, in chunks of about grain elements of work. */
void parallel_for(const Call *c, int64_t count, int64_t grain,
                  void (*body)(void *context, int64_t begin, int64_t end), void *context);
#endif
