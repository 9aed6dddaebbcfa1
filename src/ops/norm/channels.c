#include "ops/norm/channels.h"

Channels channels_of(const Type *x, int64_t axis) {
  Channels l = {.axis = (int)(axis < 0 ? axis + x->rank : axis),
                .dtype = dtype_to_compute(x->dtype)};
  Around a = around_axis(x, l.axis);
  l.outer = a.outer, l.channels = a.extent, l.inner = a.inner;
  l.size = dtype_size(l.dtype);
  return l;
}
bool channels_are_moved(const Channels *l) { return l->inner > 1; }
size_t channels_bytes(const Channels *l) {
  return (size_t)(l->outer * l->channels * l->inner) * l->size;
}

const char *channels_move(const Call *c, const Channels *l, Room *room, const void *data) {
  if (!channels_are_moved(l)) return data;
  void *to = room_take(room, channels_bytes(l));
  c->kernels->transpose(l->size, data, l->outer, l->channels, l->inner, to);
  return to;
}
void channels_move_back(const Call *c, const Channels *l, const void *data, void *to) {
  if (channels_are_moved(l))
    c->kernels->transpose(l->size, data, l->outer, l->inner, l->channels, to);
}

Status want_channels(Error *e, const Node *n, int input, const char *what, const Type *x,
                     int64_t channels) {
  char a[TYPE_TEXT], b[TYPE_TEXT];
  if (input >= n->in_count) return OK;
  const Type *t = &n->in[input]->type;
  if (t->rank == 1 && t->shape[0] == channels) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s %s must be [%lld], one element for each channel of x %s",
              what, shape_text(t, a), (long long)channels, shape_text(x, b));
}
