/* Connectionist temporal classification: the loss by forward and backward sums over alignments, with the
 * slope that its gradient needs, and prefix beam search. All sums of probabilities are logarithms in double
 * precision. */
#include <math.h>
#include <string.h>

#include "ops/nn.h"
#include "target/cost.h"

static double log_add(double a, double b) {
  double high = a > b ? a : b, low = a > b ? b : a;
  if (isnan(a) || isnan(b)) return NAN;
  return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* Row t of a sample's [time, batch, classes] as log probabilities. */
static void log_row(const Type *x, const void *data, int64_t t, int64_t sample, bool normalise, double *row) {
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

static Status blank_of(Error *e, int64_t blank, int64_t classes, int64_t *out) {
  *out = blank < 0 ? blank + classes : blank;
  if (*out >= 0 && *out < classes) return OK;
  return fail(e, ERR_VALUE, "blank_index %lld is no class; there are %lld", (long long)blank,
              (long long)classes);
}

static Status want_lengths(Error *e, const char *what, const Type *t, int64_t batch) {
  char text[TYPE_TEXT];
  if (!dtype_is_integer(t->dtype))
    return fail(e, ERR_TYPE, "%s must be integers, got %s", what, dtype_name(t->dtype));
  if (t->rank == 1 && t->shape[0] == batch) return OK;
  return fail(e, ERR_INVALID_ARGUMENT, "%s must be [%lld], one for each sample, got %s", what,
              (long long)batch, shape_text(t, text));
}

static Status check_lengths(const Call *c, const char *what, int input, int64_t limit) {
  const Type *t = c->in_type[input];
  for (int64_t i = 0; i < type_count(t); i++) {
    int64_t length = dtype_get_integer(t->dtype, c->in[input], i);
    if (length < 0 || length > limit)
      return fail_at(c->error, c->source, ERR_OUT_OF_RANGE, "%s: %s[%lld] is %lld, outside 0 … %lld",
                     c->node->op->name, what, (long long)i, (long long)length, (long long)limit);
  }
  return OK;
}

static bool takes_logits(const Node *n) { return strstr(n->op->name, "log_probs") == NULL; }

/* ---- loss ---- */

enum { LABELS, SCORES, LABEL_LENGTH, SCORE_LENGTH };
enum { BLANK, OUT_DTYPE };

static Status infer_loss(Error *e, Node *n) {
  const Type *labels = &n->in[LABELS]->type, *x = &n->in[SCORES]->type;
  char a[TYPE_TEXT], b[TYPE_TEXT];
  int64_t blank;
  Status s = nn_want_float(e, n, SCORES, 1);
  if (s == OK) s = nn_want_rank(e, takes_logits(n) ? "logits" : "log_probs", x, 3);
  if (s == OK) s = nn_want_rank(e, "labels", labels, 2);
  if (s != OK) return s;
  if (!dtype_is_integer(labels->dtype))
    return fail(e, ERR_TYPE, "labels must be integers, got %s", dtype_name(labels->dtype));
  if (labels->shape[0] != x->shape[1])
    return fail(e, ERR_INVALID_ARGUMENT,
                "labels %s and scores %s must be [batch, length] and [time, batch, classes]",
                shape_text(labels, a), shape_text(x, b));
  s = want_lengths(e, "label_length", &n->in[LABEL_LENGTH]->type, x->shape[1]);
  if (s == OK) s = want_lengths(e, "logit_length", &n->in[SCORE_LENGTH]->type, x->shape[1]);
  if (s == OK) s = blank_of(e, n->attr[BLANK].i, x->shape[2], &blank);
  if (s != OK) return s;
  Dtype d = n->attr[OUT_DTYPE].kind == ATTR_NONE ? x->dtype : (Dtype)n->attr[OUT_DTYPE].i;
  if (!dtype_is_float(d)) return fail(e, ERR_TYPE, "out_dtype must be floating point, got %s", dtype_name(d));
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

/* States are blank, label, blank, label … blank. A label may follow the label before it without a blank
 * between unless the two are equal. */
static bool may_skip(const LossSlot *s, int64_t state, int64_t blank) {
  return state >= 2 && s->label[state] != blank && s->label[state] != s->label[state - 2];
}

static void forward_sums(const Loss *l, const LossSlot *s, int64_t time, int64_t states) {
  for (int64_t t = 0; t < time; t++)
    for (int64_t i = 0; i < states; i++) {
      const double *before = s->alpha + (t - 1) * states;
      double from = t == 0 ? (i < 2 ? 0 : -INFINITY) : before[i];
      if (t > 0 && i > 0) from = log_add(from, before[i - 1]);
      if (t > 0 && may_skip(s, i, l->blank)) from = log_add(from, before[i - 2]);
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
      if (i + 1 < states) to = log_add(to, after[i + 1] + p[s->label[i + 1]]);
      if (i + 2 < states && may_skip(s, i + 2, l->blank)) to = log_add(to, after[i + 2] + p[s->label[i + 2]]);
      s->beta[t * states + i] = to;
    }
}

/* slope at t: (the softmax, of logits) minus how likely each class is at t in an alignment. */
static void write_slope(const Loss *l, const LossSlot *s, int64_t sample, int64_t t, int64_t states,
                        double total) {
  const Type *x = l->c->in_type[SCORES];
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
  const Type *x = l->c->in_type[SCORES];
  for (int64_t t = from; t < l->time; t++)
    memset((char *)l->c->out[1] + (size_t)((t * x->shape[1] + sample) * l->classes) * dtype_size(x->dtype), 0,
           (size_t)l->classes * dtype_size(x->dtype));
}

static void loss_of_sample(void *context, int64_t sample, void *scratch) {
  const Loss *l = context;
  const Call *c = l->c;
  Room room = {scratch, 0};
  LossSlot s = loss_slot(&room, l);
  int64_t labels = dtype_get_integer(c->in_type[LABEL_LENGTH]->dtype, c->in[LABEL_LENGTH], sample);
  int64_t time = dtype_get_integer(c->in_type[SCORE_LENGTH]->dtype, c->in[SCORE_LENGTH], sample),
          states = 2 * labels + 1;
  for (int64_t i = 0; i < states; i++)
    s.label[i] = i % 2
                     ? dtype_get_integer(c->in_type[LABELS]->dtype, c->in[LABELS], sample * l->length + i / 2)
                     : l->blank;
  for (int64_t t = 0; t < time; t++)
    log_row(c->in_type[SCORES], c->in[SCORES], t, sample, l->normalise, s.log_p + t * l->classes);
  double total = labels ? -INFINITY : 0;
  if (time > 0) {
    forward_sums(l, &s, time, states);
    const double *last = s.alpha + (time - 1) * states;
    total = states > 1 ? log_add(last[states - 1], last[states - 2]) : last[0];
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
  const Type *x = &n->in[SCORES]->type;
  Error ignored = {0};
  Loss l = {.time = x->shape[0],
            .classes = x->shape[2],
            .length = n->in[LABELS]->type.shape[1],
            .normalise = takes_logits(n)};
  blank_of(&ignored, n->attr[BLANK].i, l.classes, &l.blank);
  return l;
}
static size_t loss_slot_bytes(const Loss *l) {
  Room r = {0};
  loss_slot(&r, l);
  return r.used;
}

static Status check_labels(const Call *c, const Loss *l) {
  const Type *t = c->in_type[LABELS];
  for (int64_t i = 0; i < t->shape[0]; i++) {
    int64_t used = dtype_get_integer(c->in_type[LABEL_LENGTH]->dtype, c->in[LABEL_LENGTH], i);
    for (int64_t k = 0; k < used; k++) {
      int64_t label = dtype_get_integer(t->dtype, c->in[LABELS], i * l->length + k);
      if (label < 0 || label >= l->classes || label == l->blank)
        return fail_at(c->error, c->source, ERR_OUT_OF_RANGE,
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
  Status s = check_lengths(c, "label_length", LABEL_LENGTH, l.length);
  if (s == OK) s = check_lengths(c, "logit_length", SCORE_LENGTH, l.time);
  if (s == OK) s = check_labels(c, &l);
  if (s == OK) nn_run(c, c->in_type[SCORES]->shape[1], c->scratch, loss_slot_bytes(&l), loss_of_sample, &l);
  return s;
}
static Status eval_loss(const Call *c) { return eval_wide(c, inner_loss); }
static size_t scratch_loss(const Node *n) {
  Loss l = loss_for(n);
  return wide_scratch(n, loss_slot_bytes(&l) * NN_SLOTS);
}

static void grad_loss(Graph *g, const Node *n, Value *const *dy, Value **dx) {
  Value *x = n->in[SCORES];
  if (!dy[0]) return;
  Type t = type_make(x->type.dtype, 3, (int64_t[]){1, x->type.shape[1], 1});
  dx[SCORES] =
      ops_mul(g, ops_reshape(g, ops_cast(g, dy[0], x->type.dtype), &t), (Value *)(uintptr_t)&n->out[1]);
}

/* ---- prefix beam search ---- */

enum { D_SCORES, D_LENGTH };
enum { WIDTH, PATHS, D_BLANK };

static Status infer_decoder(Error *e, Node *n) {
  const Type *x = &n->in[D_SCORES]->type;
  int64_t blank, width = n->attr[WIDTH].i, paths = n->attr[PATHS].i;
  Status s = nn_want_float(e, n, D_SCORES, 1);
  if (s == OK) s = nn_want_rank(e, takes_logits(n) ? "logits" : "log_probs", x, 3);
  if (s == OK) s = want_lengths(e, "lengths", &n->in[D_LENGTH]->type, x->shape[1]);
  if (s == OK) s = blank_of(e, n->attr[D_BLANK].i, x->shape[2], &blank);
  if (s != OK) return s;
  if (width < 1 || width > 4096)
    return fail(e, ERR_VALUE, "beam_width must be from 1 to 4096, got %lld", (long long)width);
  if (paths < 1 || paths > width)
    return fail(e, ERR_VALUE, "top_paths must be from 1 to beam_width, %lld, got %lld", (long long)width,
                (long long)paths);
  if (x->shape[0] > INT32_MAX / 4 || x->shape[2] > INT32_MAX)
    return fail(e, ERR_INVALID_ARGUMENT, "too many steps or classes");
  n->out[0].type = type_make(x->dtype, 2, (int64_t[]){x->shape[1], paths});
  n->out[1].type = type_make(I32, 2, (int64_t[]){x->shape[1], paths});
  n->out[2].type = type_make(I32, 3, (int64_t[]){x->shape[1], paths, x->shape[0]});
  return OK;
}

/* A prefix is a path to the root of a tree; a beam is a prefix with the probabilities of ending in a blank or
 * not. */
typedef struct Prefix {
  int64_t parent; /* -1: the empty one */
  int32_t label, length;
} Prefix;
typedef struct Beam {
  int64_t prefix; /* of a candidate that extends: its parent */
  int32_t label;  /* -1: the prefix itself */
  double blank, other;
} Beam;

typedef struct Decoder {
  const Call *c;
  int64_t time, classes, width, paths, blank;
  bool normalise;
} Decoder;

typedef struct DecoderSlot {
  Prefix *prefix;
  int64_t *beam_of;  /* by prefix: its beam, -1: none */
  Beam *beam, *best; /* [width] */
  double *row;
  uint8_t *extended; /* [classes]: that extension of the beam at hand is a beam itself */
} DecoderSlot;
static DecoderSlot decoder_slot(Room *r, const Decoder *d) {
  size_t prefixes = (size_t)(d->time * d->width + 1);
  DecoderSlot s;
  s.prefix = room_take(r, prefixes * sizeof(Prefix));
  s.beam_of = room_take(r, prefixes * sizeof(int64_t));
  s.beam = room_take(r, (size_t)d->width * sizeof(Beam));
  s.best = room_take(r, (size_t)d->width * sizeof(Beam));
  s.row = room_take(r, (size_t)d->classes * sizeof(double));
  s.extended = room_take(r, (size_t)d->classes);
  return s;
}

static double total_of(const Beam *b) { return log_add(b->blank, b->other); }

/* Keep the greatest in a heap whose root is the least. Equal ones: who came first stays. */
static void keep(Beam *heap, int64_t *count, int64_t width, const Beam *candidate) {
  double score = total_of(candidate);
  if (!(score > -INFINITY)) return;
  int64_t at;
  if (*count < width) {
    for (at = (*count)++; at > 0 && total_of(&heap[(at - 1) / 2]) > score; at = (at - 1) / 2)
      heap[at] = heap[(at - 1) / 2];
    heap[at] = *candidate;
    return;
  }
  if (score <= total_of(&heap[0])) return;
  for (at = 0; 2 * at + 1 < width;) {
    int64_t child = 2 * at + 1;
    if (child + 1 < width && total_of(&heap[child + 1]) < total_of(&heap[child])) child++;
    if (total_of(&heap[child]) >= score) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = *candidate;
}

/* What a beam is after a step without a new label; a shorter beam that grows into it adds to it. */
static Beam stayed(const Decoder *d, const DecoderSlot *s, const Beam *b) {
  const Prefix *p = &s->prefix[b->prefix];
  Beam next = {b->prefix, -1, total_of(b) + s->row[d->blank], -INFINITY};
  if (p->parent < 0) return next;
  next.other = b->other + s->row[p->label];
  if (s->beam_of[p->parent] < 0) return next;
  const Beam *shorter = &s->beam[s->beam_of[p->parent]];
  bool repeats = s->prefix[p->parent].parent >= 0 && s->prefix[p->parent].label == p->label;
  next.other = log_add(next.other, (repeats ? shorter->blank : total_of(shorter)) + s->row[p->label]);
  return next;
}

static void extend(const Decoder *d, const DecoderSlot *s, int64_t index, int64_t beams, int64_t *kept) {
  const Beam *b = &s->beam[index];
  const Prefix *p = &s->prefix[b->prefix];
  memset(s->extended, 0, (size_t)d->classes);
  for (int64_t i = 0; i < beams; i++)
    if (s->prefix[s->beam[i].prefix].parent == b->prefix) s->extended[s->prefix[s->beam[i].prefix].label] = 1;
  double total = total_of(b);
  for (int64_t c = 0; c < d->classes; c++) {
    if (c == d->blank || s->extended[c]) continue;
    bool repeats = p->parent >= 0 && p->label == c;
    Beam next = {b->prefix, (int32_t)c, -INFINITY, (repeats ? b->blank : total) + s->row[c]};
    keep(s->best, kept, d->width, &next);
  }
}

static int64_t decode_steps(const Decoder *d, const DecoderSlot *s, int64_t sample, int64_t time) {
  int64_t beams = 1, prefixes = 1;
  s->prefix[0] = (Prefix){-1, -1, 0};
  s->beam[0] = (Beam){0, -1, 0, -INFINITY};
  s->beam_of[0] = 0;
  for (int64_t t = 0; t < time; t++) {
    int64_t kept = 0;
    log_row(d->c->in_type[D_SCORES], d->c->in[D_SCORES], t, sample, d->normalise, s->row);
    for (int64_t i = 0; i < beams; i++) {
      Beam next = stayed(d, s, &s->beam[i]);
      keep(s->best, &kept, d->width, &next);
      extend(d, s, i, beams, &kept);
    }
    for (int64_t i = 0; i < beams; i++) s->beam_of[s->beam[i].prefix] = -1;
    for (int64_t i = 0; i < kept; i++) {
      Beam b = s->best[i];
      if (b.label >= 0) {
        s->prefix[prefixes] = (Prefix){b.prefix, b.label, s->prefix[b.prefix].length + 1};
        b.prefix = prefixes++;
      }
      s->beam[i] = b;
      s->beam_of[b.prefix] = i;
    }
    beams = kept;
  }
  return beams;
}

static void write_path(const Decoder *d, const DecoderSlot *s, int64_t sample, int64_t path, const Beam *b) {
  const Call *c = d->c;
  int64_t at = sample * d->paths + path, length = b ? s->prefix[b->prefix].length : 0;
  int32_t *labels = (int32_t *)c->out[2] + at * d->time;
  dtype_set(c->out_type[0]->dtype, c->out[0], at, b ? total_of(b) : -INFINITY);
  ((int32_t *)c->out[1])[at] = (int32_t)length;
  for (int64_t i = length; i < d->time; i++) labels[i] = -1;
  for (int64_t p = b ? b->prefix : 0; length > 0; p = s->prefix[p].parent)
    labels[--length] = s->prefix[p].label;
}

static void decode_sample(void *context, int64_t sample, void *scratch) {
  const Decoder *d = context;
  const Call *c = d->c;
  Room room = {scratch, 0};
  DecoderSlot s = decoder_slot(&room, d);
  int64_t beams =
      decode_steps(d, &s, sample, dtype_get_integer(c->in_type[D_LENGTH]->dtype, c->in[D_LENGTH], sample));
  for (int64_t path = 0; path < d->paths; path++) {
    int64_t best = -1;
    for (int64_t i = 0; i < beams; i++)
      if (s.beam[i].prefix >= 0 && (best < 0 || total_of(&s.beam[i]) > total_of(&s.beam[best]))) best = i;
    write_path(d, &s, sample, path, best < 0 ? NULL : &s.beam[best]);
    if (best >= 0) s.beam[best].prefix = -1; /* taken */
  }
}

static Decoder decoder_for(const Node *n) {
  const Type *x = &n->in[D_SCORES]->type;
  Error ignored = {0};
  Decoder d = {.time = x->shape[0],
               .classes = x->shape[2],
               .width = n->attr[WIDTH].i,
               .paths = n->attr[PATHS].i,
               .normalise = takes_logits(n)};
  blank_of(&ignored, n->attr[D_BLANK].i, d.classes, &d.blank);
  return d;
}
static size_t decoder_slot_bytes(const Decoder *d) {
  Room r = {0};
  decoder_slot(&r, d);
  return r.used;
}
static Status inner_decoder(const Call *c) {
  Decoder d = decoder_for(c->node);
  d.c = c;
  Status s = check_lengths(c, "lengths", D_LENGTH, d.time);
  if (s == OK)
    nn_run(c, c->in_type[D_SCORES]->shape[1], c->scratch, decoder_slot_bytes(&d), decode_sample, &d);
  return s;
}
static Status eval_decoder(const Call *c) { return eval_wide(c, inner_decoder); }
static size_t scratch_decoder(const Node *n) {
  Decoder d = decoder_for(n);
  return wide_scratch(n, decoder_slot_bytes(&d) * NN_SLOTS);
}

/* ---- cost ---- */

static void cost_loss(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[SCORES]->type;
  *c = cost_ctc_loss(t, x->dtype, x->shape[1], x->shape[0], n->in[LABELS]->type.shape[1], x->shape[2]);
}

/* Each step sorts the candidates of each sample; the rest is small beside it. */
static void cost_decoder(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[D_SCORES]->type;
  *c = cost_top_k(t, x->dtype, x->shape[1], n->attr[WIDTH].i * x->shape[2], n->attr[WIDTH].i);
  cost_repeat(c, (double)x->shape[0]);
}

#define LOSS(row_name, scores, words)                                                                      \
  {                                                                                                        \
    .name = row_name, .summary = words, .shapes = "[n, l], [t, n, c], [n], [n] → [n]",                     \
    .source = "Graves et al., Connectionist temporal classification, 2006",                                \
    .inputs = {"labels", scores, "label_length", "logit_length"},                                          \
    .attrs = {{.name = "blank_index",                                                                      \
               .kind = ATTR_INT,                                                                           \
               .fallback = "0",                                                                            \
               .summary = "The class that is no label; negative: from the end."},                          \
              {.name = "out_dtype",                                                                        \
               .kind = ATTR_DTYPE,                                                                         \
               .fallback = "nil",                                                                          \
               .summary = "Of the loss; that of the scores when absent."}},                                \
    .outputs = 2, .visible_outputs = 1, .infer = infer_loss, .eval = eval_loss, .scratch = scratch_loss,   \
    .cost = cost_loss, .grad = grad_loss,                                                                  \
    .sample =                                                                                              \
        "I3[2,2] F[5,2,4] I3[2] I6[2] {blank_index = -1} | I4[1,3] F[6,1,5] I4[1] I6[1] {blank_index = 4}" \
  }
#define DECODER(row_name, scores, words)                                                                    \
  {                                                                                                         \
    .name = row_name, .summary = words, .shapes = "[t, n, c], [n] → [n, paths], [n, paths], [n, paths, t]", \
    .source = "Graves, Jaitly, Towards end-to-end speech recognition, 2014", .inputs = {scores, "lengths"}, \
    .attrs = {{.name = "beam_width",                                                                        \
               .kind = ATTR_INT,                                                                            \
               .fallback = "100",                                                                           \
               .summary = "Prefixes kept at each step."},                                                   \
              {.name = "top_paths",                                                                         \
               .kind = ATTR_INT,                                                                            \
               .fallback = "1",                                                                             \
               .summary = "How many of them are returned."},                                                \
              {.name = "blank_index",                                                                       \
               .kind = ATTR_INT,                                                                            \
               .fallback = "-1",                                                                            \
               .summary = "The class that is no label; negative: from the end."}},                          \
    .traits = NO_GRADIENT, .outputs = 3, .infer = infer_decoder, .eval = eval_decoder,                      \
    .scratch = scratch_decoder, .cost = cost_decoder,                                                       \
    .sample = "F[5,2,4] I6[2] {beam_width = 8, top_paths = 3} | F[4,1,3] I5[1]"                             \
  }

const OpDef ops_ctc[] = {
    LOSS("nn.ctc_loss", "logits",
         "Minus the log of the probability of all alignments of labels [batch, length] to logits [time, "
         "batch, classes]."),
    LOSS("nn.ctc_loss_with_log_probs", "log_probs",
         "ctc_loss of log probabilities, which are taken as they are."),
    DECODER(
        "nn.ctc_beam_search_decoder", "logits",
        "The likeliest label sequences: their log probabilities, lengths, and labels (-1 behind the end)."),
    DECODER("nn.ctc_beam_search_decoder_with_log_probs", "log_probs",
            "The same from log probabilities, which are taken as they are."),
    {0}};
