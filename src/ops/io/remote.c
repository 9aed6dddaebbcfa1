/* Moves between streaming memory and tiles. On this computer both are memory, so a transfer is a
 * copy. A tensor shared among R replicas is a vector cut into R equal shares, the last one padded
 * with zeros. In a tensor of slots, one slot can be moved by itself. */
#include "ops/io/remote.h"

#include <string.h>

#include "ops/support.h"

enum { ROW_LOAD, ROW_STORE, ROW_SHARE, ROW_LOAD_SLOT, ROW_STORE_SLOT };
enum { ATTR_SHARES };

int node_shares(const Node *n) { return node_moves_slot(n) ? 1 : (int)n->attr[ATTR_SHARES].i; }

static int64_t share_length(const Type *whole, int shares) {
  return (type_count(whole) + shares - 1) / shares;
}

static Status infer_share(Error *e, Node *n) {
  int shares = node_shares(n);
  if (shares < 1) return fail(e, ERR_VALUE, "shares must be positive, got %d", shares);
  n->out[0].type = n->in[0]->type;
  if (shares == 1) return OK;
  int64_t length = share_length(&n->in[0]->type, shares);
  n->out[0].type = type_make(n->in[0]->type.dtype, 1, &length);
  return OK;
}

static Status infer_store(Error *e, Node *n) {
  int shares = node_shares(n);
  if (shares < 1) return fail(e, ERR_VALUE, "shares must be positive, got %d", shares);
  const Type *x = &n->in[0]->type, *whole = n->in_count > 1 ? &n->in[1]->type : x;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  Type share = *whole;
  int64_t length = share_length(whole, shares);
  if (shares > 1) share = type_make(whole->dtype, 1, &length);
  if ((shares > 1 && n->in_count < 2) || !type_equal(x, &share))
    return fail(e, ERR_INVALID_ARGUMENT, "x is %s, which is not the type of one of %d shares of %s",
                type_text(x, a), shares, type_text(whole, b));
  n->out[0].type = *whole;
  return OK;
}

/* Bytes of this replica's share, without the padding; *at: where they begin. */
static size_t own_bytes(const Call *c, const Type *whole, size_t *at) {
  int shares = node_shares(c->node);
  int64_t length = share_length(whole, shares), begin = min(length * c->replica, type_count(whole));
  *at = (size_t)begin * dtype_size(whole->dtype);
  return (size_t)min(length, type_count(whole) - begin) * dtype_size(whole->dtype);
}

static Status eval_share(const Call *c) {
  if (node_shares(c->node) == 1) return eval_copy(c);
  size_t at, bytes = own_bytes(c, c->in_type[0], &at), all = type_bytes(c->out_type[0]);
  copy_bytes(c, c->out[0], (const char *)c->in[0] + at, bytes);
  memset((char *)c->out[0] + bytes, 0, all - bytes);
  return OK;
}

static Status eval_store(const Call *c) {
  if (node_shares(c->node) == 1) return eval_copy(c);
  size_t at, bytes = own_bytes(c, c->out_type[0], &at);
  /* nothing where it is written over */
  copy_bytes(c, c->out[0], c->in[1], type_bytes(c->out_type[0]));
  copy_bytes(c, (char *)c->out[0] + at, c->in[0], bytes);
  return OK;
}

/* ---- slots ---- */

static Status check_slots(Error *e, const Type *slots, const Type *index) {
  if (slots->rank < 1 || slots->shape[0] < 1)
    return fail(e, ERR_INVALID_ARGUMENT, "the tensor of slots must have at least one slot");
  if (index->dtype != I32 || type_count(index) != 1)
    return fail(e, ERR_TYPE, "the slot's number must be an int32 scalar");
  return OK;
}

static Type slot_type(const Type *slots) {
  return type_make(slots->dtype, slots->rank - 1, slots->shape + 1);
}

static Status infer_load_slot(Error *e, Node *n) {
  n->out[0].type = slot_type(&n->in[0]->type);
  return check_slots(e, &n->in[0]->type, &n->in[1]->type);
}

static Status infer_store_slot(Error *e, Node *n) {
  Type slot = slot_type(&n->in[1]->type);
  n->out[0].type = n->in[1]->type;
  Status s = check_slots(e, &n->in[1]->type, &n->in[2]->type);
  if (s == OK && !type_equal(&n->in[0]->type, &slot))
    return fail(e, ERR_INVALID_ARGUMENT, "x must have the type of a slot");
  return s;
}

/* Where in the row its slot begins; false: there is none of that number. */
static bool find_slot(const Call *c, const Type *slots, const Type *slot, const void *index,
                      size_t *at) {
  int64_t i = index_at(c, "index", I32, index, 0, slots->shape[0]);
  *at = i >= 0 ? (size_t)i * type_bytes(slot) : 0;
  return i >= 0;
}

static Status eval_load_slot(const Call *c) {
  size_t at;
  if (!find_slot(c, c->in_type[0], c->out_type[0], c->in[1], &at)) return c->error->status;
  copy_bytes(c, c->out[0], (const char *)c->in[0] + at, type_bytes(c->out_type[0]));
  return OK;
}

static Status eval_store_slot(const Call *c) {
  size_t at;
  if (!find_slot(c, c->in_type[1], c->in_type[0], c->in[2], &at)) return c->error->status;
  /* nothing where it is written over */
  copy_bytes(c, c->out[0], c->in[1], type_bytes(c->out_type[0]));
  copy_bytes(c, (char *)c->out[0] + at, c->in[0], type_bytes(c->in_type[0]));
  return OK;
}

#define SHARES                              \
  .attrs = {{"shares", ATTR_INT, "1", NULL, \
             "replicas that share the tensor out; 1: each has all of it"}}

const OpDef ops_remote[] = {
    [ROW_LOAD] = {.name = "remote_load",
                  .traffic = TRAFFIC_LOAD,
                  .summary = "A tensor of streaming memory brought to the tiles.",
                  .shapes = "[...] → [...]; a share: [...] → [elements / shares, rounded up]",
                  .inputs = {"x"},
                  SHARES,
                  .traits = INTERNAL | NO_GRADIENT,
                  .infer = infer_share,
                  .eval = eval_share,
                  .cost = cost_of_copy,
                  .sample = "F[2,3] | F[5] {shares = 2}"},
    [ROW_STORE] =
        {.name = "remote_store",
         .traffic = TRAFFIC_STORE,
         .summary =
             "A tensor put into streaming memory; a share goes to its position in the whole.",
         .shapes = "[...] → [...]; a share: [elements / shares, rounded up], [...] → [...]",
         .inputs = {"x", "whole?"},
         SHARES,
         .traits = INTERNAL | NO_GRADIENT | IN_PLACE(1),
         .infer = infer_store,
         .eval = eval_store,
         .cost = cost_of_copy,
         .sample = "F[2,3] | F[3] F[5] {shares = 2}"},
    [ROW_SHARE] = {.name = "replica_share",
                   .summary = "This replica's share of a tensor, as a list.",
                   .shapes = "[...] → [elements / shares, rounded up]",
                   .inputs = {"x"},
                   SHARES,
                   .traits = INTERNAL | NO_GRADIENT,
                   .infer = infer_share,
                   .eval = eval_share,
                   .cost = cost_of_copy,
                   .sample = "F[2,3] | F[5] {shares = 2}"},
    [ROW_LOAD_SLOT] = {.name = "remote_load_slot",
                       .traffic = TRAFFIC_LOAD,
                       .by_slot = true,
                       .summary = "One slot of a tensor of streaming memory brought to the tiles.",
                       .shapes = "[slots, ...], [] → [...]",
                       .inputs = {"x", "index"},
                       .traits = INTERNAL | NO_GRADIENT,
                       .infer = infer_load_slot,
                       .eval = eval_load_slot,
                       .cost = cost_of_copy,
                       .sample = "F[3,2] I3"},
    [ROW_STORE_SLOT] = {.name = "remote_store_slot",
                        .traffic = TRAFFIC_STORE,
                        .by_slot = true,
                        .summary = "A value put into one slot of a tensor of streaming memory.",
                        .shapes = "[...], [slots, ...], [] → [slots, ...]",
                        .inputs = {"x", "whole", "index"},
                        .traits = INTERNAL | NO_GRADIENT | IN_PLACE(1),
                        .infer = infer_store_slot,
                        .eval = eval_store_slot,
                        .cost = cost_of_copy,
                        .sample = "F[2] F[3,2] I3"},
    {0}};

static Value *apply(Graph *g, int row, Value *x, Value *whole, int shares) {
  Attr attr = attr_int(shares);
  Value *in[] = {x, whole};
  return graph_apply(g, &ops_remote[row], in, whole ? 2 : 1, &attr);
}

Value *remote_load(Graph *g, Value *x, int shares) { return apply(g, ROW_LOAD, x, NULL, shares); }
Value *remote_store(Graph *g, Value *x, Value *whole, int shares) {
  return apply(g, ROW_STORE, x, whole, shares);
}
Value *replica_share(Graph *g, Value *x, int shares) {
  return apply(g, ROW_SHARE, x, NULL, shares);
}
bool node_moves_slot(const Node *n) { return n->op->by_slot; }
bool node_is_load(const Node *n) { return n->op->traffic == TRAFFIC_LOAD; }
bool node_is_store(const Node *n) { return n->op->traffic == TRAFFIC_STORE; }
