/* Functions shared by several families of rows. They read attributes, view a shape around an axis,
 * and compute float16 and bfloat16 in float32. */
#ifndef IPULUA_OPS_SUPPORT_H
#define IPULUA_OPS_SUPPORT_H
#include "base/arith.h"
#include "ops/ops.h"

/* ---- infer ---- */
Status infer_number(Error *e, Node *n);     /* like input 0; refuses bool */
Status infer_float_pair(Error *e, Node *n); /* infer_broadcast; refuses integers and bool */
/* attribute attr as an axis of a rank, counted from 0 from now on */
Status infer_axis(Error *e, Node *n, int attr, int rank, int *axis);
Status want_float(Error *e, const Type *t);
Status want_integer(Error *e, const char *what, const Type *t);
Status want_same_dtype(Error *e, const char *what, const Type *t, Dtype d);
/* In lists of positions: an open end. */
#define SLICE_OPEN INT64_MIN
static inline bool attr_given(const Attr *a) { return a->kind != ATTR_NONE; }
/* Replace a list attribute by a normalised one, copied to the node's arena. */
Status set_ints(Error *e, Node *n, int attr, const int64_t *v, int count);

/* ---- shapes ---- */

/* A shape as [outer, extent, inner] around an axis. */
typedef struct Around {
  int64_t outer, extent, inner;
} Around;
Around around_axis(const Type *t, int axis);

/* ---- evaluation ---- */

static inline size_t round_to_line(size_t bytes) { return size_round_up(bytes, 64); }
/* Bytes of t in the dtype that it is computed in. */
size_t compute_bytes(const Type *t);

/* Fails if numerics traps one of the events (EVENT_ …). */
Status trap_events(const Call *c, int events);

/* Run body with float16 and bfloat16 operands widened to float32 and its float32 results rounded
 * once. body sees the widened types in c->in_type and c->out_type (c->node keeps the true ones)
 * and scratch of its own. At most MAX_INPUTS operands. */
Status eval_wide(const Call *c, Status (*body)(const Call *c));
size_t wide_scratch(const Node *n, size_t own);
size_t scratch_wide(const Node *n); /* OpDef.scratch of rows whose body needs none */

/* x's bytes, for rows that are views. */
Status eval_copy(const Call *c);
/* Copy on the pool. */
void copy_bytes(const Call *c, void *to, const void *from, size_t bytes);
void fill_zero(const Call *c, void *to, size_t bytes);
/* A copy of elements between strided positions, as in transposes, slices, concatenations and tiles.
 * Steps are in elements; a `from` of 0 repeats. Written positions must be distinct. */
typedef struct Strided {
  int rank;
  int64_t extent[2 * MAX_RANK], from[2 * MAX_RANK], to[2 * MAX_RANK];
} Strided;
/* One more dimension, inside of the others. */
void strided_add(Strided *s, int64_t extent, int64_t from, int64_t to);
void copy_strided(const Call *c, size_t size, const Strided *s, const void *x, void *y);
/* n times the element at value. */
void fill_elements(void *y, size_t size, const void *value, int64_t n);

/* One elementwise kernel on dense buffers: out has its type's shape, operands broadcast to it.
 * For use inside of bodies of eval_wide: no narrow dtypes. */
void run_kernel(const Call *c, Elementwise kernel, int arity, const Type *const *type,
                const void *const *in, const Type *out_type, void *out, const double *p);
/* y = kernel(x, number), the number as one of t, the type of x and y. */
void run_number(const Call *c, Elementwise kernel, const Type *t, const void *x, double number,
                void *y);

/* x's type without the axes, or with extent 1 for them (keep). */
Type type_reduced(const Type *x, int count, const int *axes, bool keep);
Type type_without(const Type *t, int axis);

/* Element i of an index tensor (int8 … int64) checked against extent; -1 with c->error filled when
 * it is out of range. Messages begin with `what`, the operand. */
int64_t index_at(const Call *c, const char *what, Dtype d, const void *data, int64_t i,
                 int64_t extent);
/* All of an index tensor at once, before parallel work relies on it. */
Status check_indices(const Call *c, const char *what, int input, int64_t extent);
static inline int64_t read_index(Dtype d, const void *data, int64_t i) {
  switch (d) {
    case I32:
      return ((const int32_t *)data)[i];
    case I64:
      return ((const int64_t *)data)[i];
    default:
      return dtype_get_integer(d, data, i);
  }
}

/* ---- gradients ---- */
Value *ops_zeros_of(Graph *g, const Value *x);
/* A rank-0 constant of x's dtype. */
Value *ops_number(Graph *g, const Value *x, double value);
/* dy, summed over axes without keeping them, in x's shape again. */
Value *ops_unreduce(Graph *g, Value *dy, const Type *x, const Attr *axis);

/* ---- cost on the machine: values for OpDef.cost ---- */
struct Target;
struct Cost;
/* clang-format off */
#define COSTS(X)                                                                                   \
  X(elementwise) /* one pass; smaller operands are broadcast first */                              \
  X(cast)                                                                                          \
  X(view) X(fill) X(copy)        /* the result's bytes, in runs */                                 \
      X(rearrange)               /* the same, element by element */                                \
      X(transpose) X(sum) X(max) /* of input 0 over the axes of attribute 0 (a list) */            \
      X(moments)                 /* two sums and a pass */                                         \
      X(logsumexp) X(position)   /* of an extreme along the axis of attribute 0 (a number) */      \
      X(scan) X(norm)            /* all squares summed, then a pass */                             \
      X(gather) X(gather_nd)                 /* input 1 holds indices of rows of input 0 */                    \
      X(scatter) X(scatter_nd)                /* slices of the input added to the result's rows */              \
      X(take_along)              /* elements of input 0, each column by indices of its own */      \
      X(put_along)               /* so added to the result */                                      \
      X(one_hot) X(sort) X(top_k) X(matmul) X(cholesky) X(solve) \
      X(uniform) X(normal) X(truncated_normal) X(bernoulli) X(dropout) /* random numbers */ \
      X(histogram) X(categorical) X(bins)
/* clang-format on */
#define X(id) void cost_of_##id(const struct Target *t, const Node *n, struct Cost *cost);
COSTS(X)
#undef X
/* cost_of_elementwise with other cycles than the row's, for another form of it. */
void cost_pass(const struct Target *t, const Node *n, VectorCycles of, struct Cost *cost);
#endif
