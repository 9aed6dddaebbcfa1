/* Connectionist temporal classification: the loss by forward and backward sums over alignments,
 * with the slope that its gradient needs. All sums of probabilities are logarithms in double
 * precision. */
#include "ops/loss/ctc.h"

#include <math.h>
#include <string.h>

#include "target/cost.h"

double ctc_log_add(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  if (isnan(a) || isnan(b)) return NAN;
  return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* Row t of a sample's [time, batch, classes] as log probabilities. */
void ctc_log_row(const Type *x, const void *data, int64_t t, int64_t sample, bool normalise,
                 double *row) {
  int64_t batch = x->shape[1], classes = x->shape[2], first = (t * batch + sample) * classes;
  double greatest = -INFINITY, sum = 0;
  for (int64_t c = 0; c < classes; c++) {
    row[c] = dtype_get(x->dtype, data, first + c);
    if (row[c] > greatest) greatest = row[c];
  }
  if (!normalise) return;
  for (int64_t c = 0; c < classes; c++) sum += exp(row[c] - greatest);
  for (int64_t c = 0; c < classes; c++) row[c] -= greatest + log(sum);
}

Status ctc_blank(Error *e, int64_t blank, int64_t classes, int64_t *out) {
  *out = blank < 0 ? blank + classes : blank;
  if (*out >= 0 && *out < classes) return OK;
  return fail(e, ERR_VALUE, "blank_index must be from %lld to %lld, for %lld classes, got %lld",
              (long long)-classes, (long long)classes - 1, (long long)classes, (long long)blank);
}

Status ctc_want_lengths(Error *e, const char *what, const Type *t, int64_t batch) {
  char text[TYPE_TEXT];
  if (!dtype_is_integer(t->dtype))
    return fail(e, ERR_TYPE, "%s must be integers, got %s", what, dtype_name(t->dtype));
  if (t->rank == 1 && t->shape[0] == batch) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s must be [%lld], one for each sample, got %s", what,
              (long long)batch, shape_text(t, text));
}

Status ctc_check_lengths(const Call *c, const char *what, int input, int64_t limit) {
  const Type *t = c->in_type[input];
  for (int64_t i = 0; i < type_count(t); i++) {
    int64_t length = dtype_get_integer(t->dtype, c->in[input], i);
    if (length < 0 || length > limit)
      return fail_at(c->error, c->source, ERR_OUT_OF_RANGE,
                     "%s: %s[%lld] is %lld, outside 0 … %lld", c->node->op->name, what,
                     (long long)i, (long long)length, (long long)limit);
  }
  return OK;
}

bool ctc_takes_logits(const Node *n) { return n->op->form == CTC_OF_LOGITS; }

/* ---- loss ---- */

static Status infer_loss(Error *e, Node *n) {
  const Type *labels = &n->in[CTC_LABELS]->type, *x = &n->in[CTC_SCORES]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  int64_t blank;
  Status s = nn_want_float(e, n, CTC_SCORES, 1);
  if (s == OK) s = nn_want_rank(e, ctc_takes_logits(n) ? "logits" : "log_probs", x, 3);
  if (s == OK) s = nn_want_rank(e, "labels", labels, 2);
  if (s != OK) return s;
  if (!dtype_is_integer(labels->dtype))
    return fail(e, ERR_TYPE, "labels must be integers, got %s", dtype_name(labels->dtype));
  if (labels->shape[0] != x->shape[1])
    return fail(e, ERR_INVALID_ARGUMENT,
                "labels %s and scores %s must be [batch, length] and [time, batch, classes]",
                shape_text(labels, a), shape_text(x, b));
  s = ctc_want_lengths(e, "label_length", &n->in[CTC_LABEL_LENGTH]->type, x->shape[1]);
  if (s == OK) s = ctc_want_lengths(e, "logit_length", &n->in[CTC_SCORE_LENGTH]->type, x->shape[1]);
  if (s == OK) s = ctc_blank(e, n->attr[CTC_BLANK].i, x->shape[2], &blank);
  if (s != OK) return s;
  Dtype d = n->attr[CTC_OUT_DTYPE].kind == ATTR_NONE ? x->dtype : (Dtype)n->attr[CTC_OUT_DTYPE].i;
  if (!dtype_is_float(d))
    return fail(e, ERR_TYPE, "out_dtype must be floating point, got %s", dtype_name(d));
  n->out[0].type = type_make(d, 1, &x->shape[1]);
  n->out[1].type = *x;
  return OK;
}

typedef struct Loss {
  const Call *c;
  int64_t time, classes, length, blank; /* length: of a row of labels */
  bool normalise;
} Loss;

/* A slot: log probabilities [time, classes], both sums [time, states], the label of each state. */
typedef struct LossSlot {
  double *log_p, *alpha, *beta, *occupied;
  int64_t *label;
} LossSlot;
static LossSlot loss_slot(Room *r, const Loss *l) {
  size_t states = (size_t)(2 * l->length + 1), time = (size_t)l->time;
  LossSlot s;
  s.log_p = room_take(r, time * (size_t)l->classes * sizeof(double));
  s.alpha = room_take(r, time * states * sizeof(double));
  s.beta = room_take(r, time * states * sizeof(double));
  s.occupied = room_take(r, (size_t)l->classes * sizeof(double));
  s.label = room_take(r, states * sizeof(int64_t));
  return s;
}

/* States are blank, label, blank, label … blank. A label may follow the label before it without
 * a blank between unless the two are equal. */
static bool may_skip(const LossSlot *s, int64_t state, int64_t blank) {
  return state >= 2 && s->label[state] != blank && s->label[state] != s->label[state - 2];
}

static void forward_sums(const Loss *l, const LossSlot *s, int64_t time, int64_t states) {
  for (int64_t t = 0; t < time; t++)
    for (int64_t i = 0; i < states; i++) {
      const double *before = s->alpha + (t - 1) * states;
      double from = t == 0 ? (i < 2 ? 0 : -INFINITY) : before[i];
      if (t > 0 && i > 0) from = ctc_log_add(from, before[i - 1]);
      if (t > 0 && may_skip(s, i, l->blank)) from = ctc_log_add(from, before[i - 2]);
      s->alpha[t * states + i] = from + s->log_p[t * l->classes + s->label[i]];
    }
}

static void backward_sums(const Loss *l, const LossSlot *s, int64_t time, int64_t states) {
  for (int64_t t = time - 1; t >= 0; t--)
    for (int64_t i = states - 1; i >= 0; i--) {
      const double *after = s->beta + (t + 1) * states, *p = s->log_p + (t + 1) * l->classes;
      if (t == time - 1) {
        s->beta[t * states + i] = i >= states - 2 ? 0 : -INFINITY;
        continue;
      }
      double to = after[i] + p[s->label[i]];
      if (i + 1 < states) to = ctc_log_add(to, after[i + 1] + p[s->label[i + 1]]);
      if (i + 2 < states && may_skip(s, i + 2, l->blank))
        to = ctc_log_add(to, after[i + 2] + p[s->label[i + 2]]);
      s->beta[t * states + i] = to;
    }
}

/* slope at t: (the softmax, of logits) minus how likely each class is at t in an alignment. */
static void write_slope(const Loss *l, const LossSlot *s, int64_t sample, int64_t t, int64_t states,
                        double total) {
  const Type *x = l->c->in_type[CTC_SCORES];
  int64_t first = (t * x->shape[1] + sample) * l->classes;
  memset(s->occupied, 0, (size_t)l->classes * sizeof(double));
  for (int64_t i = 0; i < states; i++) {
    double p = s->alpha[t * states + i] + s->beta[t * states + i] - total;
    if (p > -INFINITY) s->occupied[s->label[i]] += exp(p);
  }
  for (int64_t c = 0; c < l->classes; c++)
    dtype_set(x->dtype, l->c->out[1], first + c,
              (l->normalise ? exp(s->log_p[t * l->classes + c]) : 0) - s->occupied[c]);
}

static void clear_slope(const Loss *l, int64_t sample, int64_t from) {
  const Type *x = l->c->in_type[CTC_SCORES];
  for (int64_t t = from; t < l->time; t++)
    memset((char *)l->c->out[1] +
               (size_t)((t * x->shape[1] + sample) * l->classes) * dtype_size(x->dtype),
           0, (size_t)l->classes * dtype_size(x->dtype));
}

static void loss_of_sample(void *context, int64_t sample, void *scratch) {
  const Loss *l = context;
  const Call *c = l->c;
  Room room = {scratch, 0};
  LossSlot s = loss_slot(&room, l);
  int64_t labels =
      dtype_get_integer(c->in_type[CTC_LABEL_LENGTH]->dtype, c->in[CTC_LABEL_LENGTH], sample);
  int64_t time = dtype_get_integer(c->in_type[CTC_SCORE_LENGTH]->dtype, c->in[CTC_SCORE_LENGTH],
                                   sample),
          states = 2 * labels + 1;
  for (int64_t i = 0; i < states; i++)
    s.label[i] = i % 2 ? dtype_get_integer(c->in_type[CTC_LABELS]->dtype, c->in[CTC_LABELS],
                                           sample * l->length + i / 2)
                       : l->blank;
  for (int64_t t = 0; t < time; t++)
    ctc_log_row(c->in_type[CTC_SCORES], c->in[CTC_SCORES], t, sample, l->normalise,
                s.log_p + t * l->classes);
  double total = labels ? -INFINITY : 0;
  if (time > 0) {
    forward_sums(l, &s, time, states);
    const double *last = s.alpha + (time - 1) * states;
    total = states > 1 ? ctc_log_add(last[states - 1], last[states - 2]) : last[0];
  }
  dtype_set(c->out_type[0]->dtype, c->out[0], sample, -total);
  if (total == -INFINITY) { /* no alignment is long enough: nothing to follow */
    clear_slope(l, sample, 0);
    return;
  }
  backward_sums(l, &s, time, states);
  for (int64_t t = 0; t < time; t++) write_slope(l, &s, sample, t, states, total);
  clear_slope(l, sample, time);
}

static Loss loss_for(const Node *n) {
  const Type *x = &n->in[CTC_SCORES]->type;
  Error ignored = {0};
  Loss l = {.time = x->shape[0],
            .classes = x->shape[2],
            .length = n->in[CTC_LABELS]->type.shape[1],
            .normalise = ctc_takes_logits(n)};
  ctc_blank(&ignored, n->attr[CTC_BLANK].i, l.classes, &l.blank);
  return l;
}
static size_t loss_slot_bytes(const Loss *l) {
  Room r = {0};
  loss_slot(&r, l);
  return r.used;
}

static Status check_labels(const Call *c, const Loss *l) {
  const Type *t = c->in_type[CTC_LABELS];
  for (int64_t i = 0; i < t->shape[0]; i++) {
    int64_t used =
        dtype_get_integer(c->in_type[CTC_LABEL_LENGTH]->dtype, c->in[CTC_LABEL_LENGTH], i);
    for (int64_t k = 0; k < used; k++) {
      int64_t label = dtype_get_integer(t->dtype, c->in[CTC_LABELS], i * l->length + k);
      if (label < 0 || label >= l->classes || label == l->blank)
        return fail_at(
            c->error, c->source, ERR_OUT_OF_RANGE,
            "%s: labels[%lld, %lld] is %lld: it must be a class below %lld and not the blank %lld",
            c->node->op->name, (long long)i, (long long)k, (long long)label, (long long)l->classes,
            (long long)l->blank);
    }
  }
  return OK;
}

static Status inner_loss(const Call *c) {
  Loss l = loss_for(c->node);
  l.c = c;
  Status s = ctc_check_lengths(c, "label_length", CTC_LABEL_LENGTH, l.length);
  if (s == OK) s = ctc_check_lengths(c, "logit_length", CTC_SCORE_LENGTH, l.time);
  if (s == OK) s = check_labels(c, &l);
  if (s == OK)
    nn_run(c, c->in_type[CTC_SCORES]->shape[1], c->scratch, loss_slot_bytes(&l), loss_of_sample,
           &l);
  return s;
}
static Status eval_loss(const Call *c) { return eval_wide(c, inner_loss); }
static size_t scratch_loss(const Node *n) {
  Loss l = loss_for(n);
  return wide_scratch(n, loss_slot_bytes(&l) * NN_SLOTS);
}

static void grad_loss(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[CTC_SCORES];
  if (!dy[0]) return;
  Type t = type_make(x->type.dtype, 3, (int64_t[]){1, x->type.shape[1], 1});
  dx[CTC_SCORES] = ops_mul(g, ops_reshape(g, ops_cast(g, dy[0], x->type.dtype), &t),
                           (Value *)(uintptr_t)&n->out[1]);
}

/* ---- cost ---- */

static void cost_loss(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[CTC_SCORES]->type;
  *c = cost_ctc_loss(t, x->dtype, x->shape[1], x->shape[0], n->in[CTC_LABELS]->type.shape[1],
                     x->shape[2]);
}

#define LOSS(row_name, row_form, scores, words)                                                           \
  {.name = row_name,                                                                                      \
   .form = row_form,                                                                                      \
   .family = FAMILY_CTC,                                                                                  \
   .summary = words,                                                                                      \
   .shapes = "[n, l], [t, n, c], [n], [n] → [n]",                                                         \
   .source = "Graves et al., Connectionist temporal classification, 2006",                                \
   .inputs = {"labels", scores, "label_length", "logit_length"},                                          \
   .traits = INDICES(CTC_LABELS) | INDICES(CTC_LABEL_LENGTH) | INDICES(CTC_SCORE_LENGTH),                 \
   .attrs = {{.name = "blank_index",                                                                      \
              .kind = ATTR_INT,                                                                           \
              .fallback = "0",                                                                            \
              .summary = "The class that is no label; negative: from the end."},                          \
             {.name = "out_dtype",                                                                        \
              .kind = ATTR_DTYPE,                                                                         \
              .fallback = "nil",                                                                          \
              .summary = "Dtype of the loss; by default the scores' dtype."}},                            \
   .outputs = 2,                                                                                          \
   .infinite = true,                                                                                      \
   .visible_outputs = 1,                                                                                  \
   .infer = infer_loss,                                                                                   \
   .eval = eval_loss,                                                                                     \
   .scratch = scratch_loss,                                                                               \
   .cost = cost_loss,                                                                                     \
   .grad = grad_loss,                                                                                     \
   .compose = ctc_compose,                                                                                \
   .sample =                                                                                              \
       "I3[2,2] F[5,2,4] I3[2] I6[2] {blank_index = -1} | I4[1,3] F[6,1,5] I4[1] I6[1] {blank_index = 4}" \
       " | I2[4,2] F[6,4,3] I3[4] I7[4] {blank_index = 2}"}
const OpDef ops_ctc[] = {
    LOSS(
        "nn.ctc_loss", CTC_OF_LOGITS, "logits",
        "Minus the log of the probability of all alignments of labels [batch, length] to logits [time, "
        "batch, classes]."),
    LOSS("nn.ctc_loss_with_log_probs", CTC_OF_LOG_PROBS, "log_probs",
         "ctc_loss of log probabilities, which are taken as they are."),
    {0}};
