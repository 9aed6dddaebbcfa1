/* Functions shared by the rows of neural networks: private scratch memory for parallel chunks, and
 * windows. */
#ifndef IPULUA_OPS_NN_H
#define IPULUA_OPS_NN_H
#include "ops/support.h"

/* ---- parallel chunks with scratch ---- */

/* Pieces of private scratch memory. No more threads than these work at once. */
enum { NN_SLOTS = 16 };
typedef void (*NnTask)(void *context, int64_t chunk, void *scratch);
/* Chunks 0 … count-1; slots holds NN_SLOTS pieces of slot_bytes, one private to each task that
 * runs. */
void nn_run(const Call *c, int64_t count, void *slots, size_t slot_bytes, NnTask task,
            void *context);

/* Scratch is given out front to back, in pieces of whole cache lines. With base NULL only the size
 * is counted. */
typedef struct Room {
  char *base;
  size_t used;
} Room;
void *room_take(Room *r, size_t bytes);

/* ---- infer ---- */

const char *nn_input_name(const Node *n, int i, char buffer[40]);
Status nn_want_float(Error *e, const Node *n, int first,
                     int count); /* inputs [first, first + count) have one float dtype */
Status nn_want_rank(Error *e, const char *what, const Type *t, int rank);
bool nn_is(const Attr *a, const char *word); /* in any letter case */
/* Input i, or NULL when it was not given. */
static inline const Type *nn_input(const Node *n, int i) {
  return i < n->in_count ? &n->in[i]->type : NULL;
}

/* ---- windows of convolution and pooling ---- */

enum { SPATIAL = 3 };
/* Depth, rows, columns. Missing dimensions come first, and are 1. */
typedef struct Window {
  int rank;
  int64_t kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], pad[SPATIAL]; /* pad: in front */
  int64_t in[SPATIAL], out[SPATIAL];
} Window;
/* Reads a list with an extent for each spatial dimension, or one for all; at least `smallest`.
 * Lists of rank + 2 extents, whose first and last are 1, are accepted, too. absent: the value of a
 * missing attribute. */
Status nn_spatial(Error *e, const char *what, const Attr *a, int rank, int64_t smallest,
                  const int64_t *absent, int64_t out[SPATIAL]);
/* in, kernel, stride, dilation and rank are set; fills pad and out. padding is "VALID", "SAME" or
 * "CAUSAL". */
Status nn_window(Error *e, const Attr *padding, Window *w);
/* The size of the window in dimension i, dilation included. This size and the extent must fit
 * int32. */
Status nn_reach(Error *e, const Window *w, int i, int64_t extent, int64_t *reach);

/* The dtype in which products accumulate on the machine, and the extent of the last axis (1 for a
 * scalar). */
static inline Dtype nn_partials(const Node *n) { return n->place.half_products > 0 ? F16 : F32; }
static inline Dtype nn_conv_partials(const Node *n) {
  return n->place.half_convolutions > 0 ? F16 : F32;
}
static inline int64_t nn_last(const Type *t) { return t->rank ? t->shape[t->rank - 1] : 1; }

/* ---- words for gradients ---- */

Value *nn_mean(Graph *g, Value *x, const int64_t *axes, int count); /* keeps dims */
/* either may be NULL: no gradient */
Value *nn_plus(Graph *g, Value *a, Value *b);
#endif
