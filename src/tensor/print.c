/* NumPy's layout of arrays. All elements have one width. Rows are in brackets, and are wrapped at
 * 75 columns. Large arrays are shortened to their edges. A first pass over the shown elements finds
 * the widths, and a second one writes them. */
#include "tensor/print.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arith.h"
#include "base/text.h"
#include "tensor/decimal.h"

enum { WIDTH = 75, WORD = 96 };

const PrintOptions print_defaults = {.edge = 3, .precision = 8, .threshold = 1000};

/* How the elements of one tensor are written. */
typedef struct Format {
  Dtype dtype;
  bool exponent;     /* 1.5e+10 rather than 15000000000. */
  bool plain;        /* no padding: a tensor without dimensions */
  int left, right;   /* columns before the point, with the sign, and after it */
  int precision;     /* digits after the point in exponent form */
  int exponent_size; /* digits of the exponent */
  int max_digits;    /* maximum of digits after the point */
} Format;

/* The results of the first pass. */
typedef struct Survey {
  int max_digits;                               /* maximum of digits after the point */
  bool any_finite, any_odd, any_minus_infinity; /* odd: nan or an infinity */
  double largest, smallest;                     /* magnitudes of finite elements other than zero */
  int left, right, precision, exponent_size;
} Survey;

typedef void (*Visit)(void *context, const Tensor *t, int64_t offset);

/* Whether the axis shows only its edges, of `edge` elements at each end; 0: it shows all. */
static bool is_cut(const Tensor *t, int edge, int axis) {
  return edge > 0 && t->type.shape[axis] > 2 * (int64_t)edge;
}

static void visit_shown(const Tensor *t, int edge, int axis, int64_t offset, Visit visit,
                        void *context) {
  if (axis == t->type.rank) {
    visit(context, t, offset);
    return;
  }
  for (int64_t i = 0; i < t->type.shape[axis]; i++) {
    if (i == edge && is_cut(t, edge, axis)) i = t->type.shape[axis] - edge;
    visit_shown(t, edge, axis + 1, offset + i * t->stride[axis], visit, context);
  }
}

static int digits_of(int x) {
  int n = 1;
  for (; x >= 10; x /= 10) n++;
  return n;
}

static void survey_range(void *context, const Tensor *t, int64_t offset) {
  Survey *s = context;
  double x = dtype_get(t->type.dtype, t->data, offset), size = fabs(x);
  if (!isfinite(x)) {
    s->any_odd = true;
    if (isinf(x) && x < 0) s->any_minus_infinity = true;
    return;
  }
  s->any_finite = true;
  if (size > s->largest) s->largest = size;
  if (size > 0 && size < s->smallest) s->smallest = size;
}

static void survey_plain(void *context, const Tensor *t, int64_t offset) {
  Survey *s = context;
  if (!isfinite(dtype_get(t->type.dtype, t->data, offset))) return;
  Decimal x = decimal_of(t->type.dtype, t->data, offset,
                         (DecimalLimit){.fraction = true, .max = s->max_digits});
  s->left = int_max(s->left, x.negative + (int_max(x.exponent, 0)) + 1);
  s->right = int_max(s->right, x.count - 1 - x.exponent);
}

static void survey_exponent(void *context, const Tensor *t, int64_t offset) {
  Survey *s = context;
  if (!isfinite(dtype_get(t->type.dtype, t->data, offset))) return;
  Decimal x = decimal_of(t->type.dtype, t->data, offset, (DecimalLimit){.max = s->max_digits});
  s->left = int_max(s->left, x.negative + 1);
  s->precision = int_max(s->precision, x.count - 1);
  s->exponent_size = int_max(s->exponent_size, digits_of(abs(x.exponent)));
}

static void survey_integer(void *context, const Tensor *t, int64_t offset) {
  char word[WORD];
  int *width = context, n = snprintf(word, sizeof word, "%lld",
                                     (long long)dtype_get_integer(t->type.dtype, t->data, offset));
  *width = int_max(*width, n);
}

/* The quotient is rounded to the dtype, as in NumPy: in float16 1000.2 is 1000. */
static double ratio(Dtype d, double a, double b) {
  double q = a / b;
  if (d == F16) return (double)f16_to_f32(f32_to_f16((float)a / (float)b));
  return d == F64 ? q : (double)(float)q;
}

static Format float_format(const Tensor *t, int edge, int max_digits) {
  Survey s = {.max_digits = max_digits, .smallest = INFINITY, .exponent_size = 2};
  Format f = {.dtype = t->type.dtype, .max_digits = max_digits};
  visit_shown(t, edge, 0, 0, survey_range, &s);
  if (s.largest > 0)
    f.exponent =
        s.largest >= 1e8 || s.smallest < 1e-4 || ratio(f.dtype, s.largest, s.smallest) > 1000;
  if (s.any_finite) visit_shown(t, edge, 0, 0, f.exponent ? survey_exponent : survey_plain, &s);
  f.left = s.left;
  f.precision = s.precision;
  f.exponent_size = s.exponent_size;
  f.right = f.exponent ? s.exponent_size + 2 + s.precision : s.right;
  if (s.any_odd) f.left = int_max(f.left, 3 + s.any_minus_infinity - (f.right + 1));
  return f;
}

static Format format_of(const Tensor *t, int edge, int max_digits) {
  Format f = {.dtype = t->type.dtype, .plain = t->type.rank == 0};
  if (dtype_is_float(f.dtype)) return float_format(t, edge, max_digits);
  if (dtype_is_integer(f.dtype)) visit_shown(t, edge, 0, 0, survey_integer, &f.left);
  return f;
}

static char *add_digits(const Decimal *x, int from, int count, char *p) {
  for (int i = from; i < from + count; i++) *p++ = i >= 0 && i < x->count ? x->digit[i] : '0';
  return p;
}

/* Of two parts around the point: the first one right-aligned, the second one left-aligned. */
static char *add_sign(const Decimal *x, int left, int integer_digits, char *p) {
  for (int i = x->negative + integer_digits; i < left; i++) *p++ = ' ';
  if (x->negative) *p++ = '-';
  return p;
}

static void write_plain(const Format *f, const Decimal *x, char *p) {
  int integer_digits = (int_max(x->exponent, 0)) + 1, fraction_digits = x->count - 1 - x->exponent;
  if (fraction_digits < 0) fraction_digits = 0;
  p = add_sign(x, f->left, integer_digits, p);
  p = add_digits(x, int_min(x->exponent, 0), integer_digits, p);
  *p++ = '.';
  p = add_digits(x, x->exponent + 1, fraction_digits, p);
  for (int i = fraction_digits; i < f->right; i++) *p++ = ' ';
  *p = 0;
}

static void write_exponent(const Format *f, const Decimal *x, char *p) {
  p = add_digits(x, 0, 1, add_sign(x, f->left, 1, p));
  *p++ = '.';
  p = add_digits(x, 1, f->precision, p);
  snprintf(p, 16, "e%c%0*d", x->exponent < 0 ? '-' : '+', f->exponent_size, abs(x->exponent));
}

static void write_float(const Format *f, const Tensor *t, int64_t offset, char word[WORD]) {
  double x = dtype_get(f->dtype, t->data, offset);
  if (!isfinite(x)) {
    snprintf(word, WORD, "%*s", f->left + f->right + 1, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    return;
  }
  DecimalLimit plain = {.fraction = true, .max = f->max_digits},
               exact = {.min = f->precision, .max = f->precision};
  Decimal d = decimal_of(f->dtype, t->data, offset, f->exponent ? exact : plain);
  if (f->exponent) write_exponent(f, &d, word);
  else write_plain(f, &d, word);
}

static void write_element(const Format *f, const Tensor *t, int64_t offset, char word[WORD]) {
  if (f->dtype == BOOL) {
    bool x = ((const uint8_t *)t->data)[offset] != 0;
    snprintf(word, WORD, "%s", x ? f->plain ? "True" : " True" : "False");
  } else if (dtype_is_integer(f->dtype)) {
    snprintf(word, WORD, "%*lld", f->left, (long long)dtype_get_integer(f->dtype, t->data, offset));
  } else write_float(f, t, offset, word);
}

typedef struct Writer {
  Text text;
  const Tensor *t;
  Format format;
  const PrintOptions *options;
  int edge; /* elements shown at each edge; 0: all are shown */
  bool commas;
  int indent, width; /* the columns of "tensor("; the columns of a line */
} Writer;

/* Adds a word to a row that begins at column indent. *line_start is the offset of its line in the
 * text. */
static void add_word(Writer *w, const char *word, int indent, size_t *line_start) {
  size_t column = w->text.used - *line_start;
  /* Room for the following characters: a comma or bracket, and a bracket of each outer
   * dimension. */
  int room = w->width - w->t->type.rank;
  if (column > (size_t)indent && (int)(column + strlen(word)) > room) {
    text_trim_end(&w->text, *line_start);
    text_add(&w->text, "\n");
    *line_start = w->text.used;
    text_fill(&w->text, ' ', (size_t)indent);
  }
  text_add(&w->text, word);
}

/* The innermost dimension. */
static void write_row(Writer *w, int64_t offset) {
  int axis = w->t->type.rank - 1, indent = w->indent + axis + 1;
  int64_t n = w->t->type.shape[axis], step = w->t->stride[axis];
  /* the text before the row takes indent columns */
  size_t line_start = w->text.used - (size_t)indent;
  char word[WORD];
  for (int64_t i = 0; i < n; i++) {
    if (i) text_add(&w->text, w->commas ? ", " : " ");
    if (i == w->edge && is_cut(w->t, w->edge, axis)) {
      add_word(w, "...", indent, &line_start);
      text_add(&w->text, w->commas ? ", " : " ");
      i = n - w->edge;
    }
    write_element(&w->format, w->t, offset + i * step, word);
    add_word(w, word, indent, &line_start);
  }
}

static void write_dimension(Writer *w, int axis, int64_t offset);

static void begin_line(Writer *w, int axis) {
  if (w->commas) text_add(&w->text, ",");
  text_fill(&w->text, '\n', (size_t)(w->t->type.rank - 1 - axis));
  text_fill(&w->text, ' ', (size_t)(w->indent + axis + 1));
}

static void write_rows(Writer *w, int axis, int64_t offset) {
  int64_t n = w->t->type.shape[axis];
  for (int64_t i = 0; i < n; i++) {
    if (i) begin_line(w, axis);
    if (i == w->edge && is_cut(w->t, w->edge, axis)) {
      text_add(&w->text, "...");
      begin_line(w, axis);
      i = n - w->edge;
    }
    write_dimension(w, axis + 1, offset + i * w->t->stride[axis]);
  }
}

static void write_dimension(Writer *w, int axis, int64_t offset) {
  text_add(&w->text, "[");
  if (axis == w->t->type.rank - 1) write_row(w, offset);
  else write_rows(w, axis, offset);
  text_add(&w->text, "]");
}

static void write_all(Writer *w) {
  char word[WORD];
  if (type_count(&w->t->type) > w->options->threshold) w->edge = w->options->edge;
  w->format = format_of(w->t, w->edge, w->options->precision);
  if (w->t->type.rank) write_dimension(w, 0, 0);
  else write_element(&w->format, w->t, 0, word), text_add(&w->text, word);
}

static char *finish(Error *e, Text *text) {
  char *s = text_take(text);
  if (!s) fail(e, ERR_OUT_OF_MEMORY, "out of memory");
  return s;
}

char *tensor_text(Error *e, const Tensor *t, const PrintOptions *o) {
  Writer w = {.t = t, .options = o, .width = WIDTH};
  char word[DECIMAL_TEXT];
  if (type_count(&t->type) == 0) text_add(&w.text, "[]");
  else if (t->type.rank == 0 && dtype_is_float(t->type.dtype))
    text_add(&w.text, decimal_text(t->type.dtype, t->data, 0, word));
  else write_all(&w);
  return finish(e, &w.text);
}

char *tensor_repr(Error *e, const Tensor *t, const PrintOptions *o) {
  static const char open[] = "tensor(";
  /* a comma follows */
  Writer w = {.t = t, .options = o, .commas = true, .indent = sizeof open - 1, .width = WIDTH - 1};
  char word[TYPE_TEXT], shape[TYPE_TEXT] = "";
  text_add(&w.text, open);
  if (type_count(&t->type) > 0) write_all(&w);
  else if (t->type.rank == 1) text_add(&w.text, "[]");
  else text_print(&w.text, "[], shape=%s", shape_text(&t->type, word));
  text_add(&w.text, ",");
  size_t column = w.text.used;
  const char *line = w.text.failed ? NULL : strrchr(w.text.data, '\n');
  if (line) column -= (size_t)(line + 1 - w.text.data);
  const char *dtype = dtype_name(t->type.dtype);
  if (w.edge) shape_text(&t->type, shape); /* since the shown elements don't show the shape */
  bool fits = column + strlen(" dtype=)") + strlen(dtype) +
                  (*shape ? strlen("shape=, ") + strlen(shape) : 0) <=
              WIDTH;
  text_add(&w.text, fits ? " " : "\n");
  if (!fits) text_fill(&w.text, ' ', (size_t)w.indent);
  if (*shape) text_print(&w.text, "shape=%s, ", shape);
  text_print(&w.text, "dtype=%s)", dtype);
  return finish(e, &w.text);
}
