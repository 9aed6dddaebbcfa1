/* The loss of ctc.c and its slope, composed of other ops so that the slope has gradients. The sums
 * over alignments are the same, with nodes for each time step, over all samples and states at once.
 * States after a sample's last label have the blank as label. Time steps after a sample's end
 * change nothing. */
#include <math.h>

#include "ops/loss/ctc.h"

/* The logarithm of zero, as a finite number: its exponential is zero, and differences of two are
 * numbers. */
static const double NEVER = -1e30;

typedef struct Lattice {
  Graph *g;
  int64_t batch, time, classes, states, blank;
  bool normalise;
  Value *never;
  Value *label;           /* [batch, states]: of each state */
  Value *skip;            /* [batch, states]: may follow the state two before it */
  Value *last;            /* [batch, states]: an alignment may end here */
  Value *steps;           /* [batch, 1] */
  Value *scores, **log_p; /* [time, batch, classes]; by step [batch, states] */
} Lattice;

/* A vector of 0 … count-1. */
static Value *counting(Graph *g, int64_t count) {
  Type t = type_make(I32, 1, &count);
  Tensor *numbers = tensor_new(&g->error, &t);
  for (int64_t i = 0; numbers && i < count; i++) ((int32_t *)numbers->data)[i] = (int32_t)i;
  Value *v = numbers ? graph_constant(g, numbers) : NULL;
  tensor_release(numbers);
  return v;
}
static Value *integer(Graph *g, int64_t value) { return graph_number(g, I32, (double)value); }
static Value *stacked(Graph *g, Value **v, int64_t count, int axis) {
  return op_with(g, "stack", v, (int)count, (Attr[MAX_ATTRS]){attr_int(axis)});
}

/* x [batch, states] moved to later states (by > 0) or to earlier ones; fill comes in. */
static Value *moved(const Lattice *l, Value *x, int64_t by, Value *fill) {
  int64_t gap = min(by < 0 ? -by : by, l->states), kept = l->states - gap;
  if (!x || !fill) return NULL;
  Type edge = type_make(x->type.dtype, 2, (int64_t[]){l->batch, gap});
  Value *in = ops_broadcast(l->g, fill, &edge);
  if (kept == 0) return in;
  Attr attrs[MAX_ATTRS] = {attr_ints((int64_t[]){0, by < 0 ? gap : 0}, 2),
                           attr_ints((int64_t[]){l->batch, kept}, 2)};
  Value *rest = op_with(l->g, "slice", &x, 1, attrs);
  return by < 0 ? ops_join(l->g, rest, in, 1) : ops_join(l->g, in, rest, 1);
}

/* [batch, 1] of lengths. */
static Value *column(Graph *g, Value *lengths) {
  Type t = type_make(I32, 2, (int64_t[]){lengths->type.shape[0], 1});
  return ops_reshape(g, ops_cast(g, lengths, I32), &t);
}

static void label_states(Lattice *l, const Node *n) {
  Graph *g = l->g;
  int64_t length = n->in[CTC_LABELS]->type.shape[1];
  Value *blank = integer(g, l->blank), *lengths = column(g, n->in[CTC_LABEL_LENGTH]);
  Type blanks = type_make(I32, 2, (int64_t[]){l->batch, length}),
       edge = type_make(I32, 2, (int64_t[]){l->batch, 1}),
       pairs = type_make(I32, 2, (int64_t[]){l->batch, 2 * length});
  Value *used = op2(g, "less", counting(g, length), lengths);
  Value *labels = ops_where(g, used, ops_cast(g, n->in[CTC_LABELS], I32), blank);
  Value *pair = stacked(g, (Value *[]){ops_broadcast(g, blank, &blanks), labels}, 2, 2);
  l->label = ops_join(g, ops_reshape(g, pair, &pairs), ops_broadcast(g, blank, &edge), 1);
  l->skip = op2(g, "logical_and", op2(g, "not_equal", l->label, blank),
                op2(g, "not_equal", l->label, moved(l, l->label, 2, blank)));
  Value *behind = ops_sub(g, ops_add(g, lengths, lengths), counting(g, l->states));
  l->last = op2(g, "logical_or", op2(g, "equal", behind, integer(g, 0)),
                op2(g, "equal", behind, integer(g, 1)));
}

static void score_states(Lattice *l) {
  Graph *g = l->g;
  Value *rows = l->normalise ? op1(g, "nn.log_softmax", l->scores) : l->scores;
  Node *steps = graph_node(g, op_find("unstack"), &rows, 1, (Attr[MAX_ATTRS]){attr_int(0)});
  l->log_p = arena_alloc(g->arena, (size_t)l->time * sizeof *l->log_p);
  if (!l->log_p && g->error.status == OK)
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  for (int64_t t = 0; steps && l->log_p && t < l->time; t++)
    l->log_p[t] = op_with(g, "take_along", (Value *[]){&steps->out[t], l->label}, 2,
                          (Attr[MAX_ATTRS]){attr_int(1)});
}

/* log(e^a + e^b + e^c) of [batch, states] each. */
static Value *log_sum(Graph *g, Value *a, Value *b, Value *c) {
  Value *all = stacked(g, (Value *[]){a, b, c}, 3, 2);
  return op_with(g, "reduce_logsumexp", &all, 1, (Attr[MAX_ATTRS]){attr_ints((int64_t[]){2}, 1)});
}

/* alpha[t]: of all beginnings up to a state at t. */
static void sum_forwards(const Lattice *l, Value **alpha) {
  Graph *g = l->g;
  Value *first = op2(g, "less", counting(g, l->states), integer(g, 2));
  alpha[0] = ops_add(g, l->log_p[0], ops_where(g, first, ops_number(g, l->never, 0), l->never));
  for (int64_t t = 1; t < l->time; t++) {
    Value *skipped = ops_where(g, l->skip, moved(l, alpha[t - 1], 2, l->never), l->never);
    Value *sum = log_sum(g, alpha[t - 1], moved(l, alpha[t - 1], 1, l->never), skipped);
    alpha[t] = ops_where(g, op2(g, "less", integer(g, t), l->steps), ops_add(g, sum, l->log_p[t]),
                         alpha[t - 1]);
  }
}

/* beta[t]: log probability of all endings after a state at t. */
static void sum_backwards(const Lattice *l, Value **beta) {
  Graph *g = l->g;
  Value *end = ops_where(g, l->last, ops_number(g, l->never, 0), l->never);
  beta[l->time - 1] = end;
  for (int64_t t = l->time - 2; t >= 0; t--) {
    Value *next = ops_add(g, beta[t + 1], l->log_p[t + 1]);
    Value *skipped = moved(l, ops_where(g, l->skip, next, l->never), -2, l->never);
    Value *sum = log_sum(g, next, moved(l, next, -1, l->never), skipped);
    beta[t] = ops_where(g, op2(g, "equal", l->steps, integer(g, t + 1)), end, sum);
  }
}

/* How likely each class is at each step in an alignment, [time, batch, classes]; counts [batch,
 * time, 1]: whether a step does. */
static Value *occupied(const Lattice *l, Value *const *alpha, Value *const *beta, Value *total,
                       Value *counts, Value **both) {
  Graph *g = l->g;
  for (int64_t t = 0; t < l->time; t++) both[t] = ops_sub(g, ops_add(g, alpha[t], beta[t]), total);
  Value *states = op1(g, "exp", ops_where(g, counts, stacked(g, both, l->time, 1), l->never));
  Attr attrs[MAX_ATTRS] = {attr_int(l->classes), attr_int(-1), attr_float(1), attr_float(0),
                           attr_dtype(l->never->type.dtype)};
  Value *classes = op_with(g, "one_hot", &l->label, 1, attrs);
  return ops_transpose(g, ops_matmul(g, states, classes, false, false), (int64_t[]){1, 0, 2});
}

static void write_outputs(const Lattice *l, const Node *n, Value **out) {
  Graph *g = l->g;
  Value **room = arena_alloc(g->arena, 3 * (size_t)l->time * sizeof *room);
  if (!room && g->error.status == OK)
    fail(&g->error, ERR_OUT_OF_MEMORY, "out of memory in autodiff");
  if (g->error.status != OK) return;
  Value **alpha = room, **beta = room + l->time, **both = room + 2 * l->time;
  sum_forwards(l, alpha);
  sum_backwards(l, beta);
  Value *ends = ops_where(g, l->last, alpha[l->time - 1], l->never);
  Attr attrs[MAX_ATTRS] = {attr_ints((int64_t[]){1}, 1), attr_bool(true)};
  Value *total = op_with(g, "reduce_logsumexp", &ends, 1, attrs);
  Value *possible =
      op2(g, "logical_and", op2(g, "greater", total, ops_number(g, l->never, NEVER / 2)),
          op2(g, "greater", l->steps, integer(g, 0)));
  Value *counts = op2(g, "logical_and", possible, op2(g, "less", counting(g, l->time), l->steps));
  Type by_step = type_make(BOOL, 3, (int64_t[]){l->batch, l->time, 1});
  counts = ops_reshape(g, counts, &by_step);
  Value *slope = ops_neg(g, occupied(l, alpha, beta, total, counts, both));
  if (l->normalise) slope = ops_add(g, slope, op1(g, "nn.softmax", l->scores));
  slope = ops_where(g, ops_transpose(g, counts, (int64_t[]){1, 0, 2}), slope,
                    ops_number(g, l->never, 0));
  Value *loss = ops_where(g, possible, ops_neg(g, total), ops_number(g, l->never, INFINITY));
  out[0] = ops_cast(g, ops_reshape(g, loss, &n->out[0].type), n->out[0].type.dtype);
  out[1] = ops_cast(g, slope, n->out[1].type.dtype);
}

void ctc_compose(Graph *g, const Node *n, Value **out) {
  Value *scores = ops_cast(g, n->in[CTC_SCORES], dtype_to_compute(n->in[CTC_SCORES]->type.dtype));
  const Type *x = &n->in[CTC_SCORES]->type;
  Lattice l = {.g = g,
               .time = x->shape[0],
               .batch = x->shape[1],
               .classes = x->shape[2],
               .states = 2 * n->in[CTC_LABELS]->type.shape[1] + 1,
               .normalise = ctc_takes_logits(n),
               .scores = scores,
               .never = ops_number(g, scores, NEVER),
               .steps = column(g, n->in[CTC_SCORE_LENGTH])};
  if (l.time == 0 || l.batch == 0) { /* nothing to align */
    out[0] = ops_zeros(g, &n->out[0].type);
    out[1] = ops_zeros(g, &n->out[1].type);
    return;
  }
  ctc_blank(&g->error, n->attr[CTC_BLANK].i, l.classes, &l.blank);
  label_states(&l, n);
  score_states(&l);
  if (g->error.status == OK) write_outputs(&l, n, out);
}
