/* Functions for OpDef.simplify: values that a result is equal to. */
#ifndef IPULUA_OPS_SAME_H
#define IPULUA_OPS_SAME_H
#include "graph/graph.h"

/* input 0, if the result has its type, as for a slice of everything or an empty pad */
Value *simplify_whole(Node *n);
Value *simplify_view(Node *n);    /* a view with the shape of the tensor that it was made from */
Value *simplify_reshape(Node *n); /* reads the operand of a chain of views */
Value *simplify_broadcast(Node *n);
Value *simplify_transpose(Node *n); /* one view instead of two */
Value *simplify_cast(Node *n);
Value *simplify_binary(Node *n); /* x - 0, x + -0, x * 1, x / 1 */
#endif
