/* Access to operands as columns of channels, for any channel axis. Used by batch and group
 * normalisation. */
#ifndef IPULUA_OPS_NORM_CHANNELS_H
#define IPULUA_OPS_NORM_CHANNELS_H
#include "ops/nn.h"

/* Channels-last access to an operand: [samples, rows, channels]. */
typedef struct Channels {
  int axis;
  int64_t outer, channels, inner;
  size_t size;
  Dtype dtype;
} Channels;

Channels channels_of(const Type *x, int64_t axis);
/* Whether channels are not the last axis, so that operands are transposed into scratch and back. */
bool channels_are_moved(const Channels *l);
size_t channels_bytes(const Channels *l);
const char *channels_move(const Call *c, const Channels *l, Room *room, const void *data);
void channels_move_back(const Call *c, const Channels *l, const void *data, void *to);
static inline double channel_get(const Channels *l, const void *data, int64_t i) {
  return dtype_get(l->dtype, data, i);
}
static inline void channel_set(const Channels *l, void *data, int64_t i, double x) {
  dtype_set(l->dtype, data, i, x);
}

/* Fails unless operand input is missing or has an element for each channel of x. */
Status want_channels(Error *e, const Node *n, int input, const char *what, const Type *x,
                     int64_t channels);
#endif
