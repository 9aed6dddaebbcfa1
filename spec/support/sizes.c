#include "sizes.h"

#include <stdio.h>
#include <string.h>

/* ---- forms ---- */

const char *form_attributes(const char *text) {
  const char *begin = strchr(text, '{');
  return begin ? begin : "";
}

void form_of(const Sample *s, Form *f) {
  *f = (Form){.attrs = form_attributes(s->text)};
  for (int i = 0; i < s->count; i++) {
    if (s->operand[i].letter == 'C') continue;
    f->letter[f->count] = s->operand[i].letter, f->below[f->count] = s->operand[i].below;
    f->type[f->count++] = s->operand[i].type;
  }
}

static int64_t leading(const Type *t) { return t->rank ? t->shape[0] : -1; }
static int64_t last(const Type *t) { return t->rank ? t->shape[t->rank - 1] : -1; }

bool form_stretch(const Form *from, Strategy how, int64_t extent, Form *to) {
  *to = *from;
  if (from->count == 0 || from->type[0].rank == 0) return false;
  int64_t front = leading(&from->type[0]), end = last(&from->type[0]);
  for (int i = 0; i < from->count; i++) {
    Type *t = &to->type[i];
    if (t->rank == 0) continue;
    if (how == LEADING_EQUAL ? t->shape[0] == front : how == LEADING_FIRST && i == 0)
      t->shape[0] = extent;
    if (how == LAST_EQUAL && t->shape[t->rank - 1] == end) t->shape[t->rank - 1] = extent;
    for (int a = 0; how == EVERY_EQUAL && a < t->rank; a++)
      if (t->shape[a] == front) t->shape[a] = extent;
  }
  return true;
}

const char *form_text(Arena *a, const Form *f) {
  char text[1000];
  int n = 0;
  text[0] = 0;
  for (int i = 0; i < f->count; i++) {
    n += snprintf(text + n, sizeof text - (size_t)n, "%c", f->letter[i]);
    if (f->below[i])
      n += snprintf(text + n, sizeof text - (size_t)n, "%lld", (long long)f->below[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "[");
    for (int k = 0; k < f->type[i].rank; k++)
      n += snprintf(text + n, sizeof text - (size_t)n, k ? ",%lld" : "%lld",
                    (long long)f->type[i].shape[k]);
    n += snprintf(text + n, sizeof text - (size_t)n, "] ");
  }
  return arena_print(a, "%s%s", text, f->attrs);
}

/* Matrices are decomposed in cubes of their extents. */
bool form_is_cheap(const Form *f) {
  for (int i = 0; i < f->count; i++) {
    if (type_count(&f->type[i]) > 300000) return false;
    if (strchr("MW", f->letter[i]) && last(&f->type[i]) > 200) return false;
  }
  return true;
}

void sizes_expand(const Tensor *from, Tensor *to) {
  const Type *s = &from->type, *t = &to->type;
  size_t size = dtype_size(t->dtype);
  for (int64_t i = 0, n = type_count(t); i < n; i++) {
    int64_t at = 0, step = 1, left = i;
    for (int a = t->rank - 1, b = s->rank - 1; a >= 0; a--, b--) {
      int64_t place = left % t->shape[a];
      left /= t->shape[a];
      if (b < 0) continue;
      at += s->shape[b] == 1 ? 0 : place * step;
      step *= s->shape[b];
    }
    memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)at * size, size);
  }
}

/* ---- what the samples don't reach ---- */

const OwnCase sizes_own[] = {
    {"nn.max_pool", "D[2,6,700,32]"}, /* one row of results is a chunk */
    {"nn.avg_pool", "F[2,6,700,32]"},
    {"gather_grad",
     "F[9,30,130] I50[30] {axis = 1, extent = 50}"}, /* many outer parts, wide rows */
    {"random.normal", "{shape = 40001}"},
    {"random.normal", "{shape = 16385, dtype = 'float64'}"},
    {"random.uniform", "{shape = 40001}"},
    {"random.uniform", "{shape = 40001, dtype = 'int32', maxval = 10}"},
    {"random.truncated_normal", "{shape = 40001}"},
    {"random.bernoulli", "{shape = 40001}"},
    {"broadcast_to", "F[20000,1] {shape = {20000, 3}}"},
    {"broadcast_to", "F[331] {shape = {200, 331}}"},
    {"pad_grad", "F[40001,3] {paddings = {1, 1, 0, 1}, mode = 'REFLECT', shape = {39999, 2}}"},
    {"strided_slice_grad",
     "F[20000,3] {begins = {1, 0}, ends = {false, false}, strides = {2, 1}, shape = {40001, 3}}"},
    {"nn.simple_rnn_grad", "F[43,24,33] F[43,33] F[33,33] U[43,24,33]"},
    {"histogram_update", "H[3] F[70001] P[2]"},
    {"nn.lstm", "F[33,5,40] F[40,52] F[13,52] F[52] F[33,13] F[33,13]"},
    {"nn.lstm", "F[17,3,700] F[700,36] F[9,36] F[36] F[17,9] F[17,9] B[17,3]"},
    {"nn.gru", "F[33,5,300] F[300,39] F[13,39] F[2,39] F[33,13]"},
    {"nn.simple_rnn", "F[33,5,300] F[300,13] F[13,13] F[13] F[33,13]"},
    {"nn.lstm_grad", "F[41,17,13] F[41,13] F[41,13] F[13,52] U[41,17,52] F[41,17,13]"},
    {"nn.lstm_grad", "F[33,20,13] F[33,13] F[33,13] F[13,52] U[33,20,52] F[33,20,13] B[33,20]"},
    {"nn.gru_grad", "F[41,23,13] F[41,13] F[13,39] U[41,23,39] F[41,23,13] F[41,23,13]"},
    {"nn.gru_grad",
     "F[41,23,13] F[41,13] F[13,39] U[41,23,39] F[41,23,13] F[41,23,13] B[41,23] {reset_after = "
     "false}"},
    {0}};

static bool is_among(const char *const *list, const char *op) {
  for (; *list; list++)
    if (!strcmp(*list, op)) return true;
  return false;
}

bool sizes_small(const char *op) {
  static const char *const list[] = {"replication_index", NULL};
  return is_among(list, op);
}

bool sizes_whole(const char *op) {
  static const char *const list[] = {
      "clip_by_norm", "clip_by_global_norm", "strided_slice", "cumprod", "tril", "triu", NULL};
  return is_among(list, op);
}

bool sizes_costly(const char *op) {
  static const char *const list[] = {"nn.conv1d_transpose",
                                     "nn.conv2d_transpose",
                                     "nn.conv3d_transpose",
                                     "nn.depthwise_conv2d",
                                     "sort",
                                     "argsort",
                                     "nn.dot_product_attention",
                                     "nn.attention_grad",
                                     NULL};
  return is_among(list, op);
}

bool sizes_kinked(const char *op) {
  static const char *const list[] = {"round",   "mod",          "floordiv", "sort",
                                     "cumprod", "cumprod_grad", NULL};
  return is_among(list, op);
}
