/* Prefix beam search: the likeliest label sequences of connectionist temporal classification. */
#include <math.h>
#include <string.h>

#include "ops/loss/ctc.h"
#include "target/cost.h"

enum { D_SCORES, D_LENGTH };
enum { WIDTH, PATHS, D_BLANK };

static Status infer_decoder(Error *e, Node *n) {
  const Type *x = &n->in[D_SCORES]->type;
  char text[TYPE_TEXT];
  int64_t blank, width = n->attr[WIDTH].i, paths = n->attr[PATHS].i;
  Status s = nn_want_float(e, n, D_SCORES, 1);
  if (s == OK) s = nn_want_rank(e, ctc_takes_logits(n) ? "logits" : "log_probs", x, 3);
  if (s == OK) s = ctc_want_lengths(e, "lengths", &n->in[D_LENGTH]->type, x->shape[1]);
  if (s == OK) s = ctc_blank(e, n->attr[D_BLANK].i, x->shape[2], &blank);
  if (s != OK) return s;
  if (width < 1 || width > 4096)
    return fail(e, ERR_VALUE, "beam_width must be from 1 to 4096, got %lld", (long long)width);
  if (paths < 1 || paths > width)
    return fail(e, ERR_VALUE, "top_paths must be from 1 to beam_width, %lld, got %lld",
                (long long)width, (long long)paths);
  if (x->shape[0] > INT32_MAX / 4 || x->shape[2] > INT32_MAX)
    return fail(e, ERR_INVALID_ARGUMENT, "too many steps or classes in scores of shape %s",
                shape_text(x, text));
  n->out[0].type = type_make(x->dtype, 2, (int64_t[]){x->shape[1], paths});
  n->out[1].type = type_make(I32, 2, (int64_t[]){x->shape[1], paths});
  n->out[2].type = type_make(I32, 3, (int64_t[]){x->shape[1], paths, x->shape[0]});
  return OK;
}

/* A prefix is a path to the root of a tree. A beam is a prefix with the probabilities of ending in
 * a blank or not. A prefix that leaves the beams stays in the tree. If it returns, longer beams
 * still have it as their parent. */
typedef struct Prefix {
  int64_t parent;         /* -1: the empty one */
  int64_t child, sibling; /* the newest of its own, and the parent's next older; -1: none */
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

static double total_of(const Beam *b) { return ctc_log_add(b->blank, b->other); }

/* Keeps the greatest in a heap whose root is the smallest. Of equal ones the first stays. */
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

/* A beam after a step without a new label. A shorter beam that grows into it adds to it. */
static Beam stayed(const Decoder *d, const DecoderSlot *s, const Beam *b) {
  const Prefix *p = &s->prefix[b->prefix];
  Beam next = {b->prefix, -1, total_of(b) + s->row[d->blank], -INFINITY};
  if (p->parent < 0) return next;
  next.other = b->other + s->row[p->label];
  if (s->beam_of[p->parent] < 0) return next;
  const Beam *shorter = &s->beam[s->beam_of[p->parent]];
  bool repeats = s->prefix[p->parent].parent >= 0 && s->prefix[p->parent].label == p->label;
  next.other =
      ctc_log_add(next.other, (repeats ? shorter->blank : total_of(shorter)) + s->row[p->label]);
  return next;
}

static void extend(const Decoder *d, const DecoderSlot *s, int64_t index, int64_t beams,
                   int64_t *kept) {
  const Beam *b = &s->beam[index];
  const Prefix *p = &s->prefix[b->prefix];
  memset(s->extended, 0, (size_t)d->classes);
  for (int64_t i = 0; i < beams; i++)
    if (s->prefix[s->beam[i].prefix].parent == b->prefix)
      s->extended[s->prefix[s->beam[i].prefix].label] = 1;
  double total = total_of(b);
  for (int64_t c = 0; c < d->classes; c++) {
    if (c == d->blank || s->extended[c]) continue;
    bool repeats = p->parent >= 0 && p->label == c;
    Beam next = {b->prefix, (int32_t)c, -INFINITY, (repeats ? b->blank : total) + s->row[c]};
    keep(s->best, kept, d->width, &next);
  }
}

/* The prefix that is `parent` and a label. */
static int64_t prefix_with(const DecoderSlot *s, int64_t parent, int32_t label, int64_t *prefixes) {
  Prefix *p = &s->prefix[parent];
  for (int64_t i = p->child; i >= 0; i = s->prefix[i].sibling)
    if (s->prefix[i].label == label) return i;
  s->prefix[*prefixes] = (Prefix){parent, -1, p->child, label, p->length + 1};
  return p->child = (*prefixes)++;
}

static int64_t decode_steps(const Decoder *d, const DecoderSlot *s, int64_t sample, int64_t time) {
  int64_t beams = 1, prefixes = 1;
  s->prefix[0] = (Prefix){-1, -1, -1, -1, 0};
  s->beam[0] = (Beam){0, -1, 0, -INFINITY};
  s->beam_of[0] = 0;
  for (int64_t t = 0; t < time; t++) {
    int64_t kept = 0;
    ctc_log_row(d->c->in_type[D_SCORES], d->c->in[D_SCORES], t, sample, d->normalise, s->row);
    for (int64_t i = 0; i < beams; i++) {
      Beam next = stayed(d, s, &s->beam[i]);
      keep(s->best, &kept, d->width, &next);
      extend(d, s, i, beams, &kept);
    }
    for (int64_t i = 0; i < beams; i++) s->beam_of[s->beam[i].prefix] = -1;
    for (int64_t i = 0; i < kept; i++) {
      Beam b = s->best[i];
      if (b.label >= 0) b.prefix = prefix_with(s, b.prefix, b.label, &prefixes);
      s->beam[i] = b;
      s->beam_of[b.prefix] = i;
    }
    beams = kept;
  }
  return beams;
}

static void write_path(const Decoder *d, const DecoderSlot *s, int64_t sample, int64_t path,
                       const Beam *b) {
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
  int64_t beams = decode_steps(
      d, &s, sample, dtype_get_integer(c->in_type[D_LENGTH]->dtype, c->in[D_LENGTH], sample));
  for (int64_t path = 0; path < d->paths; path++) {
    int64_t best = -1;
    for (int64_t i = 0; i < beams; i++)
      if (s.beam[i].prefix >= 0 && (best < 0 || total_of(&s.beam[i]) > total_of(&s.beam[best])))
        best = i;
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
               .normalise = ctc_takes_logits(n)};
  ctc_blank(&ignored, n->attr[D_BLANK].i, d.classes, &d.blank);
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
  Status s = ctc_check_lengths(c, "lengths", D_LENGTH, d.time);
  if (s == OK)
    nn_run(c, c->in_type[D_SCORES]->shape[1], c->scratch, decoder_slot_bytes(&d), decode_sample,
           &d);
  return s;
}
static Status eval_decoder(const Call *c) { return eval_wide(c, inner_decoder); }
static size_t scratch_decoder(const Node *n) {
  Decoder d = decoder_for(n);
  return wide_scratch(n, decoder_slot_bytes(&d) * NN_SLOTS);
}

/* Each step sorts the candidates of each sample; the rest is small beside it. Besides the blank and
 * the prefix's last label, only the likeliest classes, as many as beams, can extend a prefix into
 * the next beam. They are found for all steps at once. */
static void cost_decoder(const Target *t, const Node *n, Cost *c) {
  const Type *x = &n->in[D_SCORES]->type;
  int64_t steps = x->shape[0], batch = x->shape[1], classes = x->shape[2], width = n->attr[WIDTH].i;
  bool many = classes > width + 2;
  int64_t candidates = many ? width + 2 : classes;
  *c = cost_top_k(t, x->dtype, batch, width * candidates, width);
  cost_repeat(c, (double)steps);
  if (!many) return;
  Cost likeliest = cost_top_k(t, x->dtype, steps * batch, classes, width);
  cost_then(c, &likeliest);
}

#define DECODER(row_name, row_form, scores, words)                                \
  {.name = row_name,                                                              \
   .form = row_form,                                                              \
   .summary = words,                                                              \
   .shapes = "[t, n, c], [n] → [n, paths], [n, paths], [n, paths, t]",            \
   .source = "Graves, Jaitly, Towards end-to-end speech recognition, 2014",       \
   .inputs = {scores, "lengths"},                                                 \
   .attrs = {{.name = "beam_width",                                               \
              .kind = ATTR_INT,                                                   \
              .fallback = "100",                                                  \
              .summary = "Prefixes kept at each step, from 1 to 4096."},          \
             {.name = "top_paths",                                                \
              .kind = ATTR_INT,                                                   \
              .fallback = "1",                                                    \
              .summary = "How many of them are returned, from 1 to beam_width."}, \
             {.name = "blank_index",                                              \
              .kind = ATTR_INT,                                                   \
              .fallback = "-1",                                                   \
              .summary = "The class that is no label; negative: from the end."}}, \
   .traits = NO_GRADIENT | INDICES(D_LENGTH),                                     \
   .outputs = 3,                                                                  \
   .infinite = true,                                                              \
   .infer = infer_decoder,                                                        \
   .eval = eval_decoder,                                                          \
   .scratch = scratch_decoder,                                                    \
   .cost = cost_decoder,                                                          \
   .sample = "F[5,2,4] I6[2] {beam_width = 8, top_paths = 3} | F[4,1,3] I5[1]"}

const OpDef ops_ctc_decoder[] = {
    DECODER(
        "nn.ctc_beam_search_decoder", CTC_OF_LOGITS, "logits",
        "The likeliest label sequences: their log probabilities, lengths, and labels (-1 after the end)."),
    DECODER("nn.ctc_beam_search_decoder_with_log_probs", CTC_OF_LOG_PROBS, "log_probs",
            "The same from log probabilities, which are taken as they are."),
    {0}};
