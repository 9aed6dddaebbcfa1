/* Collectives of replicas. A row's `eval_collective` gets the calls of all replicas. Values are
 * combined in the order of replicas, so that threads and arrival don't change a bit. A single
 * replica is a group of one. */
#include <string.h>

#include "ops/io/combining.h"
#include "ops/same.h"
#include "ops/support.h"

/* ---- groups of replicas ---- */

enum { GROUP_SIZE, GROUP_TYPE }; /* attributes of the rows that work in groups */

static Status check_group_size(Error *e, const Node *n) {
  const Attr *size = &n->attr[GROUP_SIZE];
  if (attr_given(size) && size->i < 1)
    return fail(e, ERR_VALUE, "replica_group_size must be positive, got %lld", (long long)size->i);
  return OK;
}

static Status make_groups(const Call *c, int replicas, Groups *g) {
  const Attr *given = &c->attr[GROUP_SIZE];
  int64_t size = attr_given(given) ? given->i : replicas;
  if (size > replicas || replicas % size)
    return fail_at(c->error, c->source, ERR_FAILED_PRECONDITION,
                   "%s: the number of replicas, %d, must be a multiple of replica_group_size, %lld",
                   c->node->op->name, replicas, (long long)size);
  *g = (Groups){.count = replicas / (int)size, .size = (int)size, .group = (int)size, .member = 1};
  if (!strcmp(c->attr[GROUP_TYPE].s, "ORTHOGONAL")) g->group = 1, g->member = g->count;
  return OK;
}

/* Rows whose shapes depend on how many replicas there are carry the number that they were traced
 * for. */
static Status check_factor(const Call *c, const Attr *factor, int replicas) {
  if (factor->i == replicas) return OK;
  return fail_at(
      c->error, c->source, ERR_FAILED_PRECONDITION,
      "%s: traced for %lld replica%s, but the program has %d; replicas are the device's IPUs divided by the "
      "program's shards: give {replication_factor = %d}",
      c->node->op->name, (long long)factor->i, factor->i == 1 ? "" : "s", replicas, replicas);
}

enum { MAX_REPLICAS = 65536 }; /* more than any machine has IPUs */

static Status check_factor_given(Error *e, const Attr *factor) {
  if (factor->i < 1)
    return fail(e, ERR_VALUE, "replication_factor must be positive, got %lld",
                (long long)factor->i);
  if (factor->i <= MAX_REPLICAS) return OK;
  return fail(e, ERR_VALUE, "replication_factor must be %d at most, got %lld", MAX_REPLICAS,
              (long long)factor->i);
}

/* ---- cross_replica_sum, cross_replica_mean ---- */

static Status infer_sum(Error *e, Node *n) {
  Status s = check_group_size(e, n);
  return s == OK ? infer_number(e, n) : s;
}

static Status infer_mean(Error *e, Node *n) {
  Status s = check_group_size(e, n);
  return s == OK ? infer_float(e, n) : s;
}

/* Whether a replica of the group is this instance's. */
static bool is_wanted(const Combining *m, int group) {
  for (int i = 0; i < m->groups.size; i++)
    if (m->replica[group * m->groups.group + i * m->groups.member]->out[0]) return true;
  return false;
}

/* A member's memory for the result of its group, of a member on this instance; NULL: none is. */
static float *place_of_sum(const Combining *m, int group) {
  for (int i = 0; i < m->groups.size; i++) {
    const Call *c = m->replica[group * m->groups.group + i * m->groups.member];
    if (c->out[0]) return c->out[0];
  }
  return NULL;
}

/* Plain sums are made where they are wanted. */
static void reduce_plainly(const Combining *m, int group, int64_t at, int64_t n) {
  float *sum = place_of_sum(m, group);
  add_group(m->replica, &m->groups, group, m->combination, at, n, sum + at);
  for (int i = 0; i < m->groups.size; i++) {
    const Call *c = m->replica[group * m->groups.group + i * m->groups.member];
    float *out = c->out[0];
    if (out && out != sum) memcpy(out + at, sum + at, (size_t)n * sizeof *out);
  }
}

static void reduce_part(void *context, int64_t begin, int64_t end) {
  Combining *m = context;
  bool plain = is_plain_sum(m->replica[0]->in_type[0]->dtype, m->combination);
  for (int g = 0; g < m->groups.count; g++)
    for (int64_t at = begin; at < end; at += BLOCK) {
      int64_t n = min(BLOCK, end - at);
      Block acc;
      if (!is_wanted(m, g)) break;
      if (plain) {
        reduce_plainly(m, g, at, n);
        continue;
      }
      combine_group(m->replica, &m->groups, g, m->combination, at, n, &acc);
      if (block_overflows(m->replica[0], &acc, n)) m->overflow = true;
      for (int i = 0; i < m->groups.size; i++) {
        const Call *c = m->replica[g * m->groups.group + i * m->groups.member];
        if (c->out[0]) block_store(c, &acc, c->out[0], at, n, at);
      }
    }
}

static Status collective_reduce(const Call *const *replica, int count, Combination o) {
  const Call *c = replica[0];
  Combining m = {.replica = replica, .combination = o};
  Status s = make_groups(c, count, &m.groups);
  if (s != OK) return s;
  parallel_for(c, type_count(c->in_type[0]), COLLECTIVE_GRAIN, reduce_part, &m);
  return combining_finish(&m);
}

static Status collective_sum(const Call *const *replica, int count) {
  return collective_reduce(replica, count, ADD);
}
static Status collective_mean(const Call *const *replica, int count) {
  return collective_reduce(replica, count, MEAN);
}

static Status collective_far_sum(const Call *const *replica, int count, int all,
                                 const FarMeeting *far) {
  return collective_far(replica, count, all, far, ADD);
}
static Status collective_far_mean(const Call *const *replica, int count, int all,
                                  const FarMeeting *far) {
  return collective_far(replica, count, all, far, MEAN);
}

static void part_of_sum(const Call *const *replica, int count, int64_t begin, int64_t n,
                        float *to) {
  add_group(replica, &(Groups){.count = 1, .size = count, .member = 1}, 0, ADD, begin, n, to);
}
static void part_of_mean(const Call *const *replica, int count, int64_t begin, int64_t n,
                         float *to) {
  add_group(replica, &(Groups){.count = 1, .size = count, .member = 1}, 0, MEAN, begin, n, to);
}

/* Each replica's loss depends on the operands of all replicas of its group. */
static void grad_reduce(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  dx[0] = op_with(g, n->op->name, dy, 1, n->attr);
}

/* ---- all_gather ---- */

enum { GATHER_FACTOR };

static Status infer_gather(Error *e, Node *n) {
  Status s = check_factor_given(e, &n->attr[GATHER_FACTOR]);
  if (s != OK) return s;
  Type t = n->in[0]->type;
  if (t.rank == MAX_RANK)
    return fail(e, ERR_INVALID_ARGUMENT, "can't stack values of rank %d", MAX_RANK);
  memmove(t.shape + 1, t.shape, (size_t)t.rank * sizeof *t.shape);
  t.shape[0] = n->attr[GATHER_FACTOR].i;
  t.rank++;
  n->out[0].type = t;
  return type_check(e, "all_gather", &n->out[0].type);
}

static Status collective_gather(const Call *const *replica, int count) {
  const Call *c = replica[0];
  Status s = check_factor(c, &c->attr[GATHER_FACTOR], count);
  if (s != OK) return s;
  size_t bytes = type_bytes(c->in_type[0]);
  for (int to = 0; to < count; to++)
    for (int from = 0; from < count && replica[to]->out[0]; from++)
      copy_bytes(c, (char *)replica[to]->out[0] + (size_t)from * bytes, replica[from]->in[0],
                 bytes);
  return OK;
}

static Value *own_index(Graph *g) { return op_with(g, "replication_index", NULL, 0, NULL); }

/* Row r of all the gradients' sum. */
static void grad_gather(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  (void)n;
  dx[0] = op2(g, "gather", op1(g, "cross_replica_sum", dy[0]), own_index(g));
}

/* ---- reduce_scatter ---- */

enum { SCATTER_OP, SCATTER_FACTOR };

static Status infer_scatter(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  char text[TYPE_TEXT];
  Combination o = combination_of(n->attr[SCATTER_OP].s);
  Status s = check_factor_given(e, &n->attr[SCATTER_FACTOR]);
  if (s != OK) return s;
  if (x->rank != 1)
    return fail(e, ERR_INVALID_ARGUMENT, "the operand must be of rank 1, got %s",
                type_text(x, text));
  if (o == MEAN && (s = want_float(e, x)) != OK) return s;
  bool logical = o == LOGICAL_AND || o == LOGICAL_OR;
  if (x->dtype == BOOL && !logical && o != LOCAL)
    return fail(e, ERR_TYPE, "operands of %s must be numbers, got bool", combination_names[o]);
  int64_t factor = n->attr[SCATTER_FACTOR].i;
  n->out[0].type = *x;
  n->out[0].type.shape[0] = (x->shape[0] + factor - 1) / factor;
  return OK;
}

/* Blocks of one replica's share, the part beyond the input's end being zero. */
static void scatter_part(void *context, int64_t begin, int64_t end) {
  Combining *m = context;
  for (int r = 0; r < m->groups.size; r++)
    for (int64_t at = begin; at < end && m->replica[r]->out[0]; at += BLOCK) {
      const Call *c = m->replica[r];
      int64_t n = min(BLOCK, end - at), from = r * m->share + at,
              there = max(0, min(n, m->count - from));
      Groups alone = {.count = 1, .size = 1, .group = 0, .member = 0};
      Block acc;
      memset(&acc, 0, sizeof acc);
      if (there && m->combination == LOCAL) combine_group(&c, &alone, 0, LOCAL, from, there, &acc);
      else if (there) combine_group(m->replica, &m->groups, 0, m->combination, from, there, &acc);
      if (block_overflows(c, &acc, n)) m->overflow = true;
      block_store(c, &acc, c->out[0], at, n, from);
    }
}

static Status collective_scatter(const Call *const *replica, int count) {
  const Call *c = replica[0];
  Status s = check_factor(c, &c->attr[SCATTER_FACTOR], count);
  if (s != OK) return s;
  Combining m = {.replica = replica,
                 .groups = {.count = 1, .size = count, .member = 1},
                 .count = c->in_type[0]->shape[0],
                 .share = c->out_type[0]->shape[0],
                 .combination = combination_of(c->attr[SCATTER_OP].s)};
  parallel_for(c, m.share, COLLECTIVE_GRAIN, scatter_part, &m);
  return combining_finish(&m);
}

/* The whole tensor that the replicas have shares of, as long as the input. */
static Value *gather_shares(Graph *g, const Node *n, Value *dy) {
  Attr factor = attr_int(n->attr[SCATTER_FACTOR].i);
  Value *all = op_with(g, "all_gather", &dy, 1, &factor);
  if (!all) return NULL;
  int64_t extent = type_count(&all->type), zero = 0, length = n->in[0]->type.shape[0];
  Type flat = type_make(dy->type.dtype, 1, &extent);
  Attr range[2] = {attr_ints(&zero, 1), attr_ints(&length, 1)};
  Value *joined = ops_reshape(g, all, &flat);
  return op_with(g, "slice", &joined, 1, range);
}

/* Ones where the input is this replica's share. */
static Value *own_share(Graph *g, const Node *n) {
  int64_t factor = n->attr[SCATTER_FACTOR].i, share = n->out[0].type.shape[0];
  int64_t column[2] = {factor, 1}, grid[2] = {factor, share}, flat = factor * share, zero = 0,
          length = n->in[0]->type.shape[0];
  Type numbers = type_make(I32, 1, &factor), columns = type_make(I32, 2, column),
       whole = type_make(I32, 2, grid), line = type_make(I32, 1, &flat);
  Value *rows = ops_reshape(g, ops_broadcast(g, own_index(g), &numbers), &columns);
  Tensor *order = tensor_new(&g->error, &numbers);
  if (!order || !rows) return NULL;
  for (int64_t i = 0; i < factor; i++) dtype_set_integer(I32, order->data, i, i);
  Value *index = ops_reshape(g, graph_constant(g, order), &columns);
  tensor_release(order);
  Value *own = ops_cast(g, op2(g, "equal", rows, index), I32);
  Value *spread = ops_reshape(g, ops_broadcast(g, own, &whole), &line);
  Attr range[2] = {attr_ints(&zero, 1), attr_ints(&length, 1)};
  return ops_cast(g, op_with(g, "slice", &spread, 1, range), n->in[0]->type.dtype);
}

static void grad_scatter(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Combination o = combination_of(n->attr[SCATTER_OP].s);
  Value *all = gather_shares(g, n, dy[0]);
  if (o == ADD) dx[0] = all;
  else if (o == MEAN) dx[0] = ops_scale(g, all, 1.0 / (double)n->attr[SCATTER_FACTOR].i);
  else if (o == SQUARE_ADD) dx[0] = ops_mul(g, ops_scale(g, n->in[0], 2), all);
  else if (o == LOCAL) dx[0] = ops_mul(g, own_share(g, n), all);
  else
    fail_at(&g->error, n->source, ERR_NOT_IMPLEMENTED, "reduce_scatter with %s has no gradient",
            combination_names[o]);
}

/* ---- all_to_all ---- */

enum { EXCHANGE_SPLIT, EXCHANGE_JOIN, EXCHANGE_FACTOR };

static Status infer_exchange(Error *e, Node *n) {
  const Type *x = &n->in[0]->type;
  int64_t factor = n->attr[EXCHANGE_FACTOR].i;
  char text[TYPE_TEXT];
  Status s = check_factor_given(e, &n->attr[EXCHANGE_FACTOR]);
  for (int a = EXCHANGE_SPLIT; a <= EXCHANGE_JOIN && s == OK; a++) {
    if (n->attr[a].i < -x->rank || n->attr[a].i >= x->rank)
      return fail(e, ERR_VALUE, "%s %lld is outside of %s", n->op->attrs[a].name,
                  (long long)n->attr[a].i, type_text(x, text));
    if (n->attr[a].i < 0) n->attr[a].i += x->rank;
  }
  if (s != OK) return s;
  n->out[0].type = *x;
  int64_t *split = &n->out[0].type.shape[n->attr[EXCHANGE_SPLIT].i];
  if (*split % factor)
    return fail(e, ERR_INVALID_ARGUMENT,
                "the extent of split_dimension, %lld, must be a multiple of the replicas, %lld",
                (long long)*split, (long long)factor);
  *split /= factor;
  n->out[0].type.shape[n->attr[EXCHANGE_JOIN].i] *= factor;
  return OK;
}

/* Block `to` of replica `from`'s input becomes block `from` of replica `to`'s result. */
static void exchange_block(const Call *from_call, const Call *to_call, int from, int to,
                           int factor) {
  const Call *c = from_call;
  int split = (int)c->attr[EXCHANGE_SPLIT].i, join = (int)c->attr[EXCHANGE_JOIN].i;
  const Type *x = c->in_type[0], *y = c->out_type[0];
  size_t size = dtype_size(x->dtype);
  int64_t from_step[MAX_RANK], to_step[MAX_RANK], x_step = 1, y_step = 1;
  for (int i = x->rank - 1; i >= 0; i--) {
    from_step[i] = x_step, to_step[i] = y_step;
    x_step *= x->shape[i], y_step *= y->shape[i];
  }
  Strided s = {0};
  for (int i = 0; i < x->rank; i++)
    strided_add(&s, i == split ? x->shape[i] / factor : x->shape[i], from_step[i], to_step[i]);
  int64_t taken = to * (x->shape[split] / factor) * from_step[split];
  int64_t put = from * (y->shape[join] / factor) * to_step[join];
  copy_strided(c, size, &s, (const char *)c->in[0] + (size_t)taken * size,
               (char *)to_call->out[0] + (size_t)put * size);
}

static Status collective_exchange(const Call *const *replica, int count) {
  Status s = check_factor(replica[0], &replica[0]->attr[EXCHANGE_FACTOR], count);
  if (s != OK || type_count(replica[0]->in_type[0]) == 0) return s;
  for (int to = 0; to < count; to++)
    for (int from = 0; from < count && replica[to]->out[0]; from++)
      exchange_block(replica[from], replica[to], from, to, count);
  return OK;
}

static void grad_exchange(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Attr back[3] = {attr_int(n->attr[EXCHANGE_JOIN].i), attr_int(n->attr[EXCHANGE_SPLIT].i),
                  n->attr[EXCHANGE_FACTOR]};
  dx[0] = op_with(g, n->op->name, dy, 1, back);
}

/* ---- replication_index, assume_equal_across_replicas ---- */

static Status infer_index(Error *e, Node *n) {
  (void)e;
  n->out[0].type = (Type){.dtype = I32};
  return OK;
}

static Status eval_index(const Call *c) {
  *(int32_t *)c->out[0] = c->replica;
  return OK;
}

static void grad_same(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  (void)g, (void)n;
  dx[0] = dy[0];
}

/* ---- the rows ---- */

static Status eval_alone(const Call *c) { return c->node->op->eval_collective(&c, 1); }

#define GROUPS                                                                             \
  .attrs = {{"replica_group_size", ATTR_INT, "nil", NULL,                                  \
             "replicas of a group; all of them by default"},                               \
            {"replica_group_type", ATTR_STRING, "'CONSECUTIVE'", "CONSECUTIVE ORTHOGONAL", \
             "whether a group's members are neighbours, or as far apart as there are groups"}}
#define FACTOR \
  {"replication_factor", ATTR_INT, "1", NULL, "how many replicas there are; known by default"}

const OpDef ops_collective[] = {
    {.name = "cross_replica_sum",
     .source = "cross_replica_ops.cross_replica_sum of Graphcore's TensorFlow 2.6",
     .collective = COLLECTIVE_SUM,
     .summary = "The sum over the replicas, or over the replicas of each group.",
     .shapes = "[...]",
     .inputs = {"x"},
     GROUPS,
     .traits = PER_REPLICA | ACROSS,
     .infer = infer_sum,
     .eval = eval_alone,
     .eval_collective = collective_sum,
     .eval_collective_far = collective_far_sum,
     .collective_part = part_of_sum,
     .grad = grad_reduce,
     .cost = cost_of_copy,
     .sample = "F[2,3] | F[] {replica_group_size = 1} | F[0]"},
    {.name = "cross_replica_mean",
     .source = "cross_replica_ops.cross_replica_mean of Graphcore's TensorFlow 2.6",
     .collective = COLLECTIVE_MEAN,
     .summary =
         "The mean over the replicas, or over the replicas of each group; shares are made before they are added.",
     .shapes = "[...]",
     .inputs = {"x"},
     GROUPS,
     .traits = PER_REPLICA | ACROSS,
     .infer = infer_mean,
     .eval = eval_alone,
     .eval_collective = collective_mean,
     .eval_collective_far = collective_far_mean,
     .collective_part = part_of_mean,
     .grad = grad_reduce,
     .cost = cost_of_copy,
     .sample = "F[2,3] | F[] {replica_group_type = 'ORTHOGONAL'}"},
    {.name = "all_gather",
     .source = "all_to_all_op.all_gather of Graphcore's TensorFlow 2.6",
     .collective = COLLECTIVE_GATHER,
     .summary = "The values of all replicas, stacked along a new first axis.",
     .shapes = "[...] → [replicas, ...]",
     .inputs = {"x"},
     .attrs = {FACTOR},
     .traits = PER_REPLICA | ACROSS,
     .infer = infer_gather,
     .eval = eval_alone,
     .eval_collective = collective_gather,
     .grad = grad_gather,
     .cost = cost_of_copy,
     .sample = "F[2,3] | F[]"},
    {.name = "reduce_scatter",
     .source = "reduce_scatter_op.reduce_scatter of Graphcore's TensorFlow 2.6",
     .collective = COLLECTIVE_SCATTER,
     .summary =
         "Each replica's share of what all replicas' elements give combined, padded with zeros.",
     .shapes = "[n] → [ceil(n / replicas)]",
     .inputs = {"x"},
     .attrs = {{"op", ATTR_STRING, "'ADD'",
                "ADD MUL MIN MAX LOGICAL_AND LOGICAL_OR SQUARE_ADD LOCAL MEAN",
                "how elements combine; COLLECTIVE_OP_ADD, TensorFlow's name, is ADD"},
               FACTOR},
     .traits = PER_REPLICA | ACROSS,
     .infer = infer_scatter,
     .eval = eval_alone,
     .eval_collective = collective_scatter,
     .grad = grad_scatter,
     .cost = cost_of_copy,
     .sample = "F[5] | F[4] {op = 'MEAN'} | F[3] {op = 'SQUARE_ADD'} | F[3] {op = 'LOCAL'}"},
    {.name = "all_to_all",
     .source = "all_to_all_op.all_to_all of Graphcore's TensorFlow 2.6",
     .collective = COLLECTIVE_EXCHANGE,
     .summary = "Replica i gets block i of every replica's split, joined in the order of replicas.",
     .shapes =
         "[..., split, ..., concat, ...] → [..., split / replicas, ..., concat * replicas, ...]",
     .inputs = {"x"},
     .attrs = {{"split_dimension", ATTR_INT, NULL, NULL, "the axis that is split"},
               {"concat_dimension", ATTR_INT, NULL, NULL,
                "the axis that the blocks are joined along"},
               FACTOR},
     .traits = PER_REPLICA | ACROSS,
     .infer = infer_exchange,
     .eval = eval_alone,
     .eval_collective = collective_exchange,
     .grad = grad_exchange,
     .cost = cost_of_copy,
     .sample =
         "F[2,3] {split_dimension = 0, concat_dimension = 1} | F[4] {split_dimension = 0, concat_dimension = -1}"},
    {.name = "replication_index",
     .source = "replication_ops.get_replication_index of Graphcore's TensorFlow 2.6",
     .summary = "This replica's number, from 0.",
     .shapes = "→ []",
     .traits = PER_REPLICA | NO_GRADIENT,
     .infer = infer_index,
     .eval = eval_index,
     .cost = cost_of_fill,
     .sample = "{}"},
    {.name = "assume_equal_across_replicas",
     .source = "cross_replica_ops.assume_equal_across_replicas of Graphcore's TensorFlow 2.6",
     .summary = "The value itself, promised to be equal on all replicas.",
     .shapes = "[...]",
     .inputs = {"x"},
     .attrs = {{"inplace", ATTR_BOOL, "false", NULL, "kept because scripts say it"}},
     .traits = VIEW,
     .infer = infer_same,
     .simplify = simplify_view,
     .eval = eval_copy,
     .grad = grad_same,
     .cost = cost_of_view,
     .sample = "F[2,3]"},
    {0}};
