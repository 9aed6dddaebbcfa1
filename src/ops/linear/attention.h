/* Shapes and evaluation of attention, in attention_run.c, for the rows of attention.c. */
#ifndef IPULUA_OPS_LINEAR_ATTENTION_H
#define IPULUA_OPS_LINEAR_ATTENTION_H
#include "ops/nn.h"

enum { Q, K, V, MASK };               /* operands of the op */
enum { G_DY, G_Q, G_K, G_V, G_MASK }; /* of its gradient */
enum { CAUSAL, SCALE };               /* attributes */

typedef struct Attention {
  int64_t batch, heads, queries, keys, width, value_width;
  int64_t block; /* queries at a time */
  bool causal;
  double scale;
  Dtype dtype;
  size_t size;
  int64_t mask_stride[4]; /* of batch, heads, queries, keys; 0 repeats */
} Attention;

/* first: the operand that holds the queries. Fails in the user's words. */
Status attention_of(Error *e, const Node *n, int first, Attention *a);
size_t attention_slot_bytes(const Attention *a, bool backward); /* memory of a chunk */
Status attention_eval(const Call *c);
Status attention_eval_grad(const Call *c);
#endif
