/* Every row of the registry at the sizes where the code takes another way: its samples are
 * stretched until they lie just below, at and above the counts at which chunks, blocks and panels
 * begin (TARGETS), and asked:
 *
 * - threads: teams of 1, 2, 3 and 17 give equal bits;
 *
 * - slices: the rows of a batch give what they give alone, where that is so of a batch of 3;
 *
 * - derivative: the gradient along a random direction is the difference quotient, in float64;
 *
 * - broadcasts: operands of any broadcast give the bits of whole operands.
 *
 * A row that no sample of is stretched above STRETCHED elements needs one in sizes_own, or its name
 * in sizes_small. Some rows are compared with plain loops besides (sizes_plain.c). Arguments name
 * rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpret.h"
#include "ops/ops.h"
#include "samples.h"
#include "sizes.h"
#include "transform/autodiff.h"

enum { TEAMS = 4, STRETCHED = 33000, SMALL_BATCH = 3, HUGE_RESULT = 300000 };
static const int64_t TARGETS[] = {8192, 16384, 32768, 65536};

typedef struct Sweep {
  int passed, failed;
  Pool *team[TEAMS];
  Arena *arena;
  int64_t largest; /* elements of the row's largest case so far */
} Sweep;

static bool expect(Sweep *w, bool good, const char *op, const char *question, const char *text) {
  if (good) w->passed++;
  else w->failed++, printf("FAIL %-28s %-11s %s\n", op, question, text);
  return good;
}

/* ---- cases ---- */

typedef struct Case {
  Sample sample;
  Graph *graph;
  Node *node;
  int outputs;
  Tensor *in[SAMPLE_OPERANDS], *out[SIZES_OUTPUTS];
  Error error;
} Case;

static void case_clear(Case *c) {
  for (int i = 0; i < c->outputs; i++) tensor_release(c->out[i]), c->out[i] = NULL;
}

static void case_close(Case *c) {
  case_clear(c);
  for (int i = 0; i < c->sample.count; i++) tensor_release(c->in[i]);
  graph_free(c->graph);
}

static bool is_huge(const Node *n) {
  for (int j = 0; j < n->out_count; j++)
    if (type_count(&n->out[j].type) > HUGE_RESULT) return true;
  return false;
}

static bool case_open(Sweep *w, Case *c, const OpDef *op, const char *text, Dtype real) {
  memset(c, 0, sizeof *c);
  if (!sample_next(&c->error, w->arena, op, &text, &c->sample)) return false;
  c->graph = graph_new();
  c->node = sample_node(c->graph, &c->sample, real, I32);
  if (!c->node || c->node->out_count > SIZES_OUTPUTS || is_huge(c->node))
    return case_close(c), false;
  c->outputs = c->node->out_count;
  for (int i = 0; i < c->sample.count; i++)
    c->in[i] = sample_tensor(&c->error, &c->sample, i, real, I32);
  return true;
}

static bool case_run(Case *c, Pool *pool) {
  Interpretation how = {.pool = pool};
  case_clear(c);
  return interpret_node(&c->error, c->node, c->in, c->out, &how, -1) == OK;
}

static bool same_bits(const Tensor *a, const Tensor *b) {
  return type_equal(&a->type, &b->type) && !memcmp(a->data, b->data, type_bytes(&a->type));
}

static int64_t case_elements(const Case *c) {
  int64_t n = 0;
  for (int i = 0; i < c->sample.count; i++)
    if (type_count(&c->in[i]->type) > n) n = type_count(&c->in[i]->type);
  for (int i = 0; i < c->outputs; i++)
    if (type_count(&c->node->out[i].type) > n) n = type_count(&c->node->out[i].type);
  return n;
}

/* ---- threads ---- */

/* False: the case can't be run. */
static bool check_threads(Sweep *w, const OpDef *op, const char *text, Dtype real, bool crowd) {
  Case c;
  Tensor *first[SIZES_OUTPUTS] = {0};
  if (!case_open(w, &c, op, text, real)) return false;
  bool ran = case_run(&c, w->team[0]);
  for (int j = 0; j < c.outputs; j++) first[j] = c.out[j], c.out[j] = NULL;
  for (int t = 1; ran && t < (crowd ? TEAMS : TEAMS - 2); t++) {
    bool good = case_run(&c, w->team[t]);
    for (int j = 0; j < c.outputs && good; j++) good = same_bits(first[j], c.out[j]);
    char what[300];
    snprintf(what, sizeof what, "%.200s: one and %d threads differ", text, pool_size(w->team[t]));
    expect(w, good, op->name, "threads", what);
  }
  if (ran && case_elements(&c) > w->largest) w->largest = case_elements(&c);
  for (int j = 0; j < c.outputs; j++) tensor_release(first[j]);
  case_close(&c);
  return ran;
}

/* ---- slices ---- */

/* Within the rounding of float32 sums of some hundred products. A batch's product may go to
 * OpenBLAS, which adds in another order, while its rows' products don't. */
static bool near(const Tensor *part, const Tensor *whole, int64_t first) {
  Dtype d = part->type.dtype;
  int64_t n = type_count(&part->type), row = part->type.shape[0] ? n / part->type.shape[0] : 0;
  double scale = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = fabs(dtype_get(d, whole->data, first * row + i));
    if (isfinite(v)) scale = fmax(scale, v);
  }
  for (int64_t i = 0; i < n; i++) {
    double x = dtype_get(d, part->data, i), y = dtype_get(d, whole->data, first * row + i);
    if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 5e-5 * (fabs(y) + 0.3 * scale)))
      return false;
  }
  return true;
}

/* Rows [first, first + rows) of the operands that have the batch's extent in front. */
static bool run_slice(Sweep *w, Case *part, const Case *whole, const Form *form, int64_t first,
                      int64_t rows) {
  Form f;
  int64_t batch = form->type[0].shape[0];
  form_stretch(form, LEADING_EQUAL, rows, &f);
  if (!case_open(w, part, whole->sample.op, form_text(w->arena, &f), F32)) return false;
  for (int i = 0; i < part->sample.count; i++) {
    const Type *t = &whole->in[i]->type;
    bool sliced = t->rank > 0 && t->shape[0] == batch && i < form->count;
    size_t skip = sliced ? type_bytes(t) / (size_t)batch * (size_t)first : 0;
    memcpy(part->in[i]->data, (const char *)whole->in[i]->data + skip,
           type_bytes(&part->in[i]->type));
  }
  if (case_run(part, w->team[0])) return true;
  case_close(part);
  return false;
}

typedef enum Independence { CANNOT_TELL, DEPENDS, INDEPENDENT } Independence;

static Independence compare_slices(Sweep *w, const OpDef *op, const Form *form, int64_t cut) {
  Case whole, part;
  int64_t batch = form->type[0].shape[0];
  Independence found = CANNOT_TELL;
  if (!case_open(w, &whole, op, form_text(w->arena, form), F32)) return CANNOT_TELL;
  bool ran = case_run(&whole, w->team[1]);
  for (int half = 0; ran && half < 2; half++) {
    int64_t first = half ? cut : 0, rows = half ? batch - cut : cut;
    if (!run_slice(w, &part, &whole, form, first, rows)) {
      found = CANNOT_TELL;
      break;
    }
    if (found == CANNOT_TELL) found = INDEPENDENT;
    if (part.outputs != whole.outputs) found = DEPENDS;
    for (int j = 0; j < whole.outputs && j < part.outputs; j++) {
      const Type *t = &whole.out[j]->type, *p = &part.out[j]->type;
      bool fits = t->rank > 0 && t->rank == p->rank && t->shape[0] == batch && p->shape[0] == rows;
      for (int a = 1; a < t->rank; a++) fits = fits && t->shape[a] == p->shape[a];
      if (!fits || !near(part.out[j], whole.out[j], first)) found = DEPENDS;
    }
    case_close(&part);
  }
  case_close(&whole);
  return found;
}

static bool may_slice(const OpDef *op, const Form *form) {
  return !(op->traits & (RANDOM | PER_REPLICA)) && form->count > 0 && form->type[0].rank > 0 &&
         !sizes_whole(op->name);
}

static bool is_independent(Sweep *w, const OpDef *op, const Form *form) {
  Form small;
  if (!may_slice(op, form)) return false;
  form_stretch(form, LEADING_EQUAL, SMALL_BATCH, &small);
  return compare_slices(w, op, &small, 1) == INDEPENDENT;
}

static void check_slices(Sweep *w, const OpDef *op, const Form *form) {
  Independence found = compare_slices(w, op, form, form->type[0].shape[0] / 2 + 1);
  if (found != CANNOT_TELL)
    expect(w, found == INDEPENDENT, op->name, "slices", form_text(w->arena, form));
}

/* ---- derivatives ---- */

static void draw(Tensor *t, uint32_t stream) {
  RngKey key = {.seed = 77, .stream = stream};
  for (int64_t i = 0; t && i < type_count(&t->type); i++)
    dtype_set(F64, t->data, i, (double)rng_uniform(&key, (uint64_t)i) * 2 - 1);
}

static double inner_product(const Tensor *a, const Tensor *b) {
  double sum = 0;
  for (int64_t i = 0; a && b && i < type_count(&a->type); i++)
    sum += dtype_get(F64, a->data, i) * dtype_get(F64, b->data, i);
  return sum;
}

typedef struct Direction {
  Tensor *weight[SIZES_OUTPUTS], *along[SAMPLE_OPERANDS], *dx[SAMPLE_OPERANDS];
} Direction;

static bool differentiate(Case *c, Direction *d, Pool *pool) {
  Graph *g = c->graph;
  Value *y[SIZES_OUTPUTS], *dy[SIZES_OUTPUTS], *x[SAMPLE_OPERANDS] = {0},
                                               *dx[SAMPLE_OPERANDS] = {0};
  Tensor *in[SAMPLE_OPERANDS + SIZES_OUTPUTS], *out[SAMPLE_OPERANDS];
  int inputs = g->input_count, ys = 0, outputs = 0;
  for (int i = 0; i < inputs; i++) in[i] = c->in[i], x[i] = d->along[i] ? g->input[i] : NULL;
  for (int j = 0; j < c->outputs; j++) {
    if (!d->weight[j]) continue;
    in[inputs++] = d->weight[j];
    y[ys] = &c->node->out[j];
    dy[ys++] = graph_input(g, &c->node->out[j].type, "dy");
  }
  autodiff(g, y, dy, ys, x, c->sample.count, dx);
  for (int i = 0; i < c->sample.count; i++)
    if (dx[i]) graph_output(g, dx[i]);
  Interpretation how = {.pool = pool};
  if (interpret(&c->error, g, in, out, &how) != OK) return false;
  for (int i = 0; i < c->sample.count; i++)
    if (dx[i]) d->dx[i] = out[outputs++];
  return true;
}

/* The weighed sum of the outputs at x + step * along. */
static double value_at(Case *c, const Direction *d, double step, Pool *pool) {
  for (int i = 0; i < c->sample.count; i++)
    for (int64_t k = 0; d->along[i] && k < type_count(&c->in[i]->type); k++)
      ((double *)c->in[i]->data)[k] += step * ((const double *)d->along[i]->data)[k];
  double sum = NAN;
  if (case_run(c, pool)) {
    sum = 0;
    for (int j = 0; j < c->outputs; j++) sum += inner_product(d->weight[j], c->out[j]);
  }
  for (int i = 0; i < c->sample.count; i++)
    for (int64_t k = 0; d->along[i] && k < type_count(&c->in[i]->type); k++)
      ((double *)c->in[i]->data)[k] -= step * ((const double *)d->along[i]->data)[k];
  return sum;
}

static void compare_direction(Sweep *w, Case *c, Direction *d, const char *text) {
  enum { FINER = 1 << 20 };
  double h = 1.0 / FINER, slope = 0, size = 0;
  if (!differentiate(c, d, w->team[1])) return; /* rows without a gradient: second_check's matter */
  for (int i = 0; i < c->sample.count; i++) {
    if (!d->dx[i]) continue;
    slope += inner_product(d->dx[i], d->along[i]);
    size += inner_product(d->dx[i], d->dx[i]);
  }
  double found = (value_at(c, d, h, w->team[1]) - value_at(c, d, -h, w->team[1])) / (2 * h);
  char what[300];
  snprintf(what, sizeof what, "%.200s: %.9g along a direction, %.9g by differences", text, slope,
           found);
  bool good = fabs(slope - found) <= 1e-3 * (fabs(found) + 0.1 * sqrt(size)) + 1e-6;
  expect(w, good, c->sample.op->name, "derivative", what);
}

static void check_derivative(Sweep *w, const OpDef *op, const char *text) {
  Case c;
  Direction d = {0};
  if ((op->traits & (NO_GRADIENT | RANDOM)) || sizes_kinked(op->name) ||
      !case_open(w, &c, op, text, F64))
    return;
  bool any = false;
  for (int j = 0; j < c.outputs; j++) {
    if (c.node->out[j].type.dtype != F64 || (op->visible_outputs && j >= op->visible_outputs))
      continue;
    draw(d.weight[j] = tensor_new(&c.error, &c.node->out[j].type), (uint32_t)j);
  }
  for (int i = 0; i < c.sample.count; i++) {
    if (!sample_is_float(&c.sample.operand[i])) continue;
    draw(d.along[i] = tensor_new(&c.error, &c.in[i]->type), 100 + (uint32_t)i);
    any = true;
  }
  if (any) compare_direction(w, &c, &d, text);
  for (int i = 0; i < SAMPLE_OPERANDS; i++) tensor_release(d.along[i]), tensor_release(d.dx[i]);
  for (int j = 0; j < SIZES_OUTPUTS; j++) tensor_release(d.weight[j]);
  case_close(&c);
}

/* ---- broadcasts ---- */

/* The same with every operand written out in the result's shape: a chain without rows. */
static void check_broadcast(Sweep *w, const OpDef *op, const char *text) {
  Case c, whole;
  if (!case_open(w, &c, op, text, F32)) return;
  const Type *shape = &c.node->out[0].type;
  Form f = {.count = c.sample.count, .attrs = form_attributes(text)};
  for (int i = 0; i < f.count; i++) {
    f.letter[i] = c.sample.operand[i].letter, f.below[i] = c.sample.operand[i].below;
    f.type[i] = *shape;
  }
  bool ran = case_open(w, &whole, op, form_text(w->arena, &f), F32);
  for (int i = 0; ran && i < f.count; i++) sizes_expand(c.in[i], whole.in[i]);
  if (ran && case_run(&whole, w->team[0])) {
    for (int t = 0; t < 2; t++)
      expect(w, case_run(&c, w->team[t]) && same_bits(c.out[0], whole.out[0]), op->name,
             "broadcasts", text);
    case_close(&whole);
  } else if (ran) {
    case_close(&whole);
  }
  case_close(&c);
}

static void check_broadcasts(Sweep *w, const OpDef *op, const Sample *s) {
  static const int64_t extents[][3] = {{1, 820, 20}, {64, 1, 257}, {3, 1821, 3}, {5, 41, 83}};
  for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
    for (int pattern = 0; pattern < 8 * s->count; pattern++) {
      if (pattern % 8 == 7) continue; /* whole */
      Form f = {.count = s->count, .attrs = form_attributes(s->text)};
      for (int i = 0; i < s->count; i++) {
        f.letter[i] = s->operand[i].letter, f.below[i] = s->operand[i].below;
        f.type[i].rank = 3;
        int kept = i == pattern / 8 ? pattern % 8 : 7; /* which axes this operand has */
        for (int a = 0; a < 3; a++) f.type[i].shape[a] = kept >> a & 1 ? extents[e][a] : 1;
      }
      check_broadcast(w, op, form_text(w->arena, &f));
    }
}

/* ---- rows ---- */

static void check_form(Sweep *w, const OpDef *op, const Form *form, bool slices, bool far) {
  const char *text = form_text(w->arena, form);
  if (!check_threads(w, op, text, F32, far)) return;
  if (slices) check_slices(w, op, form);
  if (!far) return;
  check_threads(w, op, text, F16, false);
  check_derivative(w, op, text);
}

/* A sample with as many elements in its first operand as each target has, one row fewer and one
 * more. */
static void stretch(Sweep *w, const OpDef *op, const Form *form, Strategy strategy) {
  Form f;
  if (!form_stretch(form, strategy, 1, &f)) return;
  int64_t per = type_count(&f.type[0]), last = -1;
  if (per < 1) return;
  bool slices = strategy == LEADING_EQUAL && is_independent(w, op, form);
  for (size_t t = 0; t < sizeof TARGETS / sizeof *TARGETS; t++)
    for (int64_t beside = TARGETS[t] < 65536 ? -1 : 1; beside <= 1; beside++) {
      int64_t extent = TARGETS[t] / per + beside;
      if (extent <= last || extent < 2) continue;
      last = extent;
      form_stretch(form, strategy, extent, &f);
      if (!form_is_cheap(&f)) return;
      check_form(w, op, &f, slices && beside == 1, beside == 1 && TARGETS[t] == 32768);
    }
}

static void check_sample(Sweep *w, const Sample *s, bool first) {
  Form form;
  form_of(s, &form);
  for (Strategy k = 0; k < STRATEGIES; k++)
    if (k == LEADING_EQUAL || (first && k == LAST_EQUAL && !sizes_costly(s->op->name)) ||
        w->largest < STRETCHED)
      stretch(w, s->op, &form, k);
  if (first && s->op->strip && s->count > 1 && (s->op->traits & ELEMENTWISE))
    check_broadcasts(w, s->op, s);
}

static void check_own(Sweep *w, const OpDef *op) {
  for (const OwnCase *c = sizes_own; c->op; c++) {
    if (strcmp(c->op, op->name)) continue;
    Sample s;
    Form form;
    Error e = {0};
    const char *text = c->text;
    bool read = sample_next(&e, w->arena, op, &text, &s);
    if (!expect(w, read, op->name, "own", c->text)) continue;
    form_of(&s, &form);
    bool ran = check_threads(w, op, c->text, F32, true);
    expect(w, ran, op->name, "own runs", c->text);
    if (ran && is_independent(w, op, &form)) check_slices(w, op, &form);
    if (ran) check_derivative(w, op, c->text);
  }
}

static void check_row(Sweep *w, const OpDef *op) {
  if ((op->traits & (CONTROL | STATEFUL)) || !op->sample) return;
  const char *text = op->sample;
  Error e = {0};
  Sample s;
  w->largest = 0;
  w->arena = arena_new();
  for (bool first = true; sample_next(&e, w->arena, op, &text, &s); first = false)
    if (s.count > 0) check_sample(w, &s, first);
  check_own(w, op);
  bool reached = w->largest > STRETCHED || sizes_small(op->name);
  expect(w, reached, op->name, "reach", "no case is above its thresholds: give it one in sizes.c");
  arena_free(w->arena);
}

int main(int argc, char **argv) {
  static const int threads[TEAMS] = {1, 2, 3, 17};
  Sweep w = {0};
  for (int t = 0; t < TEAMS; t++) w.team[t] = pool_new(threads[t]);
  for (const OpDef *op = op_next(NULL); op; op = op_next(op))
    if (sample_wanted(op, argc, argv)) check_row(&w, op);
  sizes_plain(w.team, TEAMS, argc, argv, &w.passed, &w.failed);
  for (int t = 0; t < TEAMS; t++) pool_free(w.team[t]);
  w.failed += sample_unknown(argc, argv);
  printf("%d passed, %d failed\n", w.passed, w.failed);
  return w.failed ? 1 : 0;
}
