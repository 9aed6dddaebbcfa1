/* Predicted against published: prices every workload of a benchmarks.jsonl with target/cost.h,
 * prints the errors by family, writes the predictions as JSON lines.
 *
 * usage: validate BENCH [OUT] [--rows] [--third K] [--half K] [--chip NAME]
 *   --rows     also print every figure
 *   --third K  only the rows whose number modulo 3 is K, 0 to 2: a check that nothing follows
 *              single rows
 *   --half K   the same, modulo 2
 *   --chip NAME  only figures of gc2, or of gc200
 * With these options, figures from one half, or one chip, are compared with the other one.
 *
 * Besides the calls of the cost functions, this file has each benchmark tool's work around the
 * operation. It knows which tensors stay alive between the tool's programs, and how often each pass
 * runs. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "target/cost.h"

enum { QUANTITIES = 3, FAMILIES_MAX = 32, SAMPLES_MAX = 4096 };

static const char *const quantity_names[QUANTITIES] = {"cycles", "total_bytes", "max_tile_bytes"};

typedef struct Prediction {
  double value[QUANTITIES];
} Prediction;

/* A workload: its parameters, the chip, and what the tool compiled. */
typedef struct Case {
  json_t *params;
  Target target;
  Dtype dtype, partials;
  double live; /* bytes that exist through the whole program */
  Cost cost;
  PlanOptions options;
} Case;

static double number(const Case *c, const char *name) {
  return json_number_value(json_object_get(c->params, name));
}
static int64_t integer(const Case *c, const char *name) { return (int64_t)number(c, name); }
static bool flag(const Case *c, const char *name) {
  return json_is_true(json_object_get(c->params, name));
}

static const char *text(const Case *c, const char *name) {
  const char *s = json_string_value(json_object_get(c->params, name));
  return s ? s : "";
}

static Dtype find_dtype(const char *s) { return !strcmp(s, "f16") ? F16 : F32; }
static double size_of(const Case *c) { return (double)dtype_size(c->dtype); }

/* Code belongs to tiles that run something; the runtime's own programs come with it. */
static Prediction finish(const Case *c) {
  const Cost *k = &c->cost;
  Prediction p;
  double runtime = c->target.code ? 1000 : 0;
  double always = k->bytes[MEMORY_VERTEX_CODE] + k->bytes[MEMORY_VERTEX_STATE] + runtime;
  double tiles = fmin((double)c->target.tiles, k->tiles),
         total = c->live + k->temporary_total + always * tiles;
  p.value[0] = cost_cycles(k);
  p.value[1] = total;
  double fullest = 1.13 * total / tiles;
  if (k->interleaved_bytes > 0)
    fullest = fmax(fullest, (double)c->target.region0_bytes + 24 + k->interleaved_bytes);
  if (k->separate_bytes > 0)
    fullest = fmax(fullest, (double)c->target.element_bytes + 24 + k->separate_bytes);
  if (k->uneven_bytes > 0) fullest = fmax(fullest, total / tiles + k->uneven_bytes);
  p.value[2] = fullest;
  return p;
}

static void add(Case *c, Cost k) { cost_then(&c->cost, &k); }

/* --- families --- */

static void run_gemm(Case *c) {
  int64_t g = integer(c, "groups"), m = integer(c, "m"), k = integer(c, "k"), n = integer(c, "n");
  c->options.accumulate = true;
  add(c, cost_matmul(&c->target, c->dtype, c->partials, g, m, k, n, &c->options));
  double product = (double)(g * m * n) * size_of(c);
  c->live = (double)g * (double)(m * k + k * n) * size_of(c) + product;
}

static void run_dense(Case *c) {
  int64_t g = integer(c, "groups"), b = integer(c, "batch"), i = integer(c, "inputs"),
          o = integer(c, "outputs");
  c->options.trained = true;
  PlanOptions forward = c->options, backward = c->options, weights = c->options;
  backward.right_moved = true;
  weights.left_moved = weights.right_moved = weights.result_moved = weights.accumulate = true;
  add(c, cost_matmul(&c->target, c->dtype, c->partials, g, b, i, o, &forward));
  add(c, cost_matmul(&c->target, c->dtype, c->partials, g, b, o, i, &backward));
  add(c, cost_matmul(&c->target, c->dtype, c->partials, g, i, b, o, &weights));
  c->live = (double)g * (double)(2 * b * i + i * o + 2 * b * o) * size_of(c);
}

static int read_array(const Case *c, const char *name, int64_t *out) {
  json_t *a = json_object_get(c->params, name);
  int n = (int)json_array_size(a);
  for (int i = 0; i < n && i < COST_SPATIAL; i++)
    out[i] = json_integer_value(json_array_get(a, (size_t)i));
  return n < COST_SPATIAL ? n : COST_SPATIAL;
}

static ConvShape read_conv(const Case *c) {
  ConvShape s = {.batch = integer(c, "batch"),
                 .groups = integer(c, "groups"),
                 .in_channels = integer(c, "in_channels_per_group"),
                 .out_channels = integer(c, "out_channels_per_group")};
  s.rank = read_array(c, "field", s.in);
  read_array(c, "out_field", s.out);
  read_array(c, "kernel", s.kernel);
  read_array(c, "stride", s.stride);
  for (int i = 0; i < COST_SPATIAL; i++) s.dilation[i] = 1;
  return s;
}

static double points(const int64_t *field, int rank) {
  double p = 1;
  for (int i = 0; i < rank; i++) p *= (double)field[i];
  return p;
}

static double live_of(const Case *c, const ConvShape *s, double copies) {
  double g = (double)s->groups, b = (double)s->batch, ci = (double)s->in_channels,
         co = (double)s->out_channels;
  double in = g * b * ci * points(s->in, s->rank), out = g * b * co * points(s->out, s->rank);
  return (copies * (in + out) + g * ci * co * points(s->kernel, s->rank)) * size_of(c);
}

static void run_conv(Case *c) {
  ConvShape s = read_conv(c);
  PlanOptions update = c->options;
  update.accumulate = true;
  add(c, cost_conv(&c->target, c->dtype, c->partials, &s, CONV_FORWARD, &c->options));
  add(c, cost_conv(&c->target, c->dtype, c->partials, &s, CONV_BACKWARD, &c->options));
  add(c, cost_conv(&c->target, c->dtype, c->partials, &s, CONV_WEIGHTS, &update));
  c->live = live_of(c, &s, 2);
  if (s.groups == 1 && s.in_channels < 8)
    c->live += (double)s.batch * points(s.in, s.rank) * 16 * size_of(c);
}

/* Parts that run side by side on their own tiles, in proportion to their work. */
static void run_octave(Case *c) {
  json_t *parts = json_object_get(c->params, "convolutions");
  int n = (int)json_array_size(parts);
  ConvPart list[8];
  memset(list, 0, sizeof list);
  for (int i = 0; i < n && i < 8; i++) {
    json_t *j = json_array_get(parts, (size_t)i);
    ConvShape *s = &list[i].shape;
    *s = read_conv(c);
    for (int a = 0; a < 2; a++) {
      s->in[a] = json_integer_value(json_array_get(json_object_get(j, "field"), (size_t)a));
      s->out[a] = json_integer_value(json_array_get(json_object_get(j, "out_field"), (size_t)a));
    }
    s->in_channels = json_integer_value(json_object_get(j, "in_channels"));
    s->out_channels = json_integer_value(json_object_get(j, "out_channels"));
    list[i].pooled = json_is_true(json_object_get(j, "input_avg_pool_2x2"));
    list[i].upsampled = json_is_true(json_object_get(j, "output_upsample_2x"));
  }
  PlanOptions update = c->options;
  update.accumulate = true;
  add(c, cost_octave(&c->target, c->dtype, c->partials, list, n, CONV_FORWARD, &c->options));
  add(c, cost_octave(&c->target, c->dtype, c->partials, list, n, CONV_BACKWARD, &c->options));
  add(c, cost_octave(&c->target, c->dtype, c->partials, list, n, CONV_WEIGHTS, &update));
  double in_high = 0, in_low = 0, out_high = 0, out_low = 0;
  for (int i = 0; i < n; i++) {
    const ConvShape *s = &list[i].shape;
    json_t *j = json_array_get(parts, (size_t)i);
    bool from_low = !strcmp(json_string_value(json_object_get(j, "from")), "low");
    bool to_low = !strcmp(json_string_value(json_object_get(j, "to")), "low");
    double in =
        (double)s->batch * (double)s->in_channels * points(s->in, 2) * (list[i].pooled ? 4 : 1);
    double out = (double)s->batch * (double)s->out_channels * points(s->out, 2) *
                 (list[i].upsampled ? 4 : 1);
    if (from_low) in_low = in;
    else in_high = in;
    if (to_low) out_low = out;
    else out_high = out;
    c->live += (double)s->in_channels * (double)s->out_channels * points(s->kernel, 2) * size_of(c);
  }
  c->live += 2 * (in_low + in_high + out_low + out_high) * size_of(c);
}

static void run_reduce(Case *c) {
  int64_t shape[8] = {0};
  json_t *s = json_object_get(c->params, "shape"), *dims = json_object_get(c->params, "dims");
  int rank = (int)json_array_size(s);
  ReduceAxis axes[8];
  double in = 1, out = 1;
  for (int i = 0; i < rank && i < 8; i++) {
    shape[i] = json_integer_value(json_array_get(s, (size_t)i));
    axes[i] = (ReduceAxis){shape[i], false};
    for (size_t k = 0; k < json_array_size(dims); k++)
      if (json_integer_value(json_array_get(dims, k)) == i) axes[i].reduced = true;
    in *= (double)shape[i];
    out *= axes[i].reduced ? 1 : (double)shape[i];
  }
  ReduceKind kind = !strcmp(text(c, "op"), "max") ? COST_MAX : COST_SUM;
  add(c, cost_reduce_axes(&c->target, c->dtype, kind, axes, rank));
  c->live = (in + out) * size_of(c);
}

static void run_pool(Case *c) {
  ConvShape s = read_conv(c);
  s.groups = 1;
  s.in_channels = s.out_channels = integer(c, "channels");
  PoolingKind kind = !strcmp(text(c, "type"), "max") ? POOLING_MAX : POOLING_AVERAGE;
  add(c, cost_pooling(&c->target, c->dtype, kind, &s, false));
  add(c, cost_pooling(&c->target, c->dtype, kind, &s, true));
  s.kernel[0] = s.kernel[1] = 0;
  c->live = live_of(c, &s, 2);
}

static void run_rnn(Case *c, bool gru) {
  RnnShape s = {.batch = integer(c, "batch"),
                .steps = integer(c, "steps"),
                .inputs = integer(c, "inputs"),
                .outputs = integer(c, "outputs"),
                .training = flag(c, "training")};
  double gates = gru ? 3 : 4, b = (double)s.batch, o = (double)s.outputs, i = (double)s.inputs,
         n = (double)s.steps;
  double weights = (i + o) * gates * o;
  for (int pass = 0; pass < (s.training ? 2 : 1); pass++)
    add(c, gru ? cost_gru(&c->target, c->dtype, c->partials, &s, pass == 1, &c->options)
               : cost_lstm(&c->target, c->dtype, c->partials, &s, pass == 1, &c->options));
  c->live = weights + n * b * (i + o) + 2 * b * o;
  if (s.training) c->live += weights + (gru ? 5 : 6) * n * b * o + n * b * (i + o);
  c->live *= size_of(c);
}

static void run_embedding(Case *c) {
  int64_t rows = integer(c, "rows"), width = integer(c, "width"), indices = integer(c, "indices");
  add(c, cost_gather(&c->target, c->dtype, rows, width, indices));
  add(c, cost_scatter(&c->target, c->dtype, rows, width, indices));
  c->live = ((double)rows * (double)width + 2 * (double)indices * (double)width) * size_of(c) +
            (double)indices * 8;
}

static void run_cholesky(Case *c) {
  int64_t n = integer(c, "n"), batch = integer(c, "batch");
  add(c, cost_cholesky(&c->target, c->dtype, batch, n, integer(c, "block_size")));
  c->live = (double)(n * n * batch) * size_of(c);
}

static void run_triangular(Case *c) {
  int64_t b[4] = {1, 1, 1, 1}, n = integer(c, "n");
  read_array(c, "b_shape", b);
  add(c, cost_triangular_solve(&c->target, c->dtype, b[0], n, integer(c, "rhs"),
                               integer(c, "block_size")));
  c->live = (double)(b[0] * (n * n + 2 * n * integer(c, "rhs"))) * size_of(c);
}

static void run_ctc(Case *c) {
  int64_t batch = integer(c, "batch"), time = integer(c, "time"),
          labels = integer(c, "label_length");
  add(c, cost_ctc_loss(&c->target, c->dtype, batch, time, labels, integer(c, "classes")));
  /* The host sends logits and labels within the program. */
  double sent = (double)(batch * time * integer(c, "classes")) * size_of(c) +
                (double)(batch * (labels + 2)) * 4;
  c->cost.cycles[PHASE_STREAM] +=
      sent * (double)c->target.clock_hz / (double)c->target.model_host_bytes_per_second;
  c->live = (double)(batch * time * integer(c, "classes") * 2) * size_of(c) +
            (double)(batch * labels * 4);
}

static bool predict(json_t *row, const char *name, Prediction *out) {
  const Target *chip = target_find(name);
  const char *family = json_string_value(json_object_get(row, "family"));
  Case c = {.params = json_object_get(row, "params"), .target = *chip, .cost = cost_free()};
  json_t *run = json_object_get(row, "run");
  c.target.code = json_is_true(json_object_get(run, "code_compiled"));
  json_t *tiles = json_object_get(json_object_get(run, "tiles"), name);
  if (json_is_integer(tiles)) c.target.tiles = json_integer_value(tiles);
  c.dtype = find_dtype(text(&c, "dtype"));
  c.partials = find_dtype(text(&c, "partials"));
  c.options.available_memory_proportion = number(&c, "available_memory_proportion");
  if (!family) return false;
  if (!strcmp(family, "gemm")) run_gemm(&c);
  else if (!strcmp(family, "fc") || !strcmp(family, "grouped_fc")) run_dense(&c);
  else if (!strcmp(family, "conv") || !strcmp(family, "group_conv")) run_conv(&c);
  else if (!strcmp(family, "oct_conv")) run_octave(&c);
  else if (!strcmp(family, "reduce")) run_reduce(&c);
  else if (!strcmp(family, "pool")) run_pool(&c);
  else if (!strcmp(family, "lstm")) run_rnn(&c, false);
  else if (!strcmp(family, "gru")) run_rnn(&c, true);
  else if (!strcmp(family, "embedding")) run_embedding(&c);
  else if (!strcmp(family, "cholesky")) run_cholesky(&c);
  else if (!strcmp(family, "triangular_solve")) run_triangular(&c);
  else if (!strcmp(family, "ctc_loss")) run_ctc(&c);
  else return false;
  *out = finish(&c);
  return true;
}

/* --- errors by family --- */

typedef struct Errors {
  char family[32];
  double error[QUANTITIES][SAMPLES_MAX];
  int count[QUANTITIES];
} Errors;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static Errors *family_of(Errors *list, int *count, const char *name) {
  for (int i = 0; i < *count; i++)
    if (!strcmp(list[i].family, name)) return &list[i];
  if (*count == FAMILIES_MAX) return NULL;
  snprintf(list[*count].family, sizeof list->family, "%s", name);
  return &list[(*count)++];
}

static void print_table(Errors *list, int families, int q) {
  printf("%s: |error| in %%\n%-18s %5s %8s %8s %8s %8s\n", quantity_names[q], "family", "n", "mean",
         "p90", "worst", "signed");
  for (int f = 0; f < families; f++) {
    int n = list[f].count[q];
    double sum = 0, signed_sum = 0, *e = list[f].error[q];
    if (!n) continue;
    for (int i = 0; i < n; i++) signed_sum += e[i], e[i] = fabs(e[i]), sum += e[i];
    qsort(e, (size_t)n, sizeof *e, compare);
    double at = 0.9 * (n - 1);
    int low = (int)at, high = low + 1 < n ? low + 1 : low;
    printf("%-18s %5d %8.1f %8.1f %8.1f %+8.1f\n", list[f].family, n, sum / n,
           e[low] + (e[high] - e[low]) * (at - low), e[n - 1], signed_sum / n);
  }
  printf("\n");
}

typedef struct {
  const char *paths[2]; /* the benchmarks, the predictions */
  bool rows;
  int part, parts;  /* only rows whose number modulo parts is part; parts 0: all */
  const char *chip; /* NULL: both */
} Options;

/* False if no chip has a price for it. */
static bool take_row(json_t *row, FILE *out, Errors *list, int *families, const Options *o) {
  static const char *const chips[] = {"gc2", "gc200"};
  const char *id = json_string_value(json_object_get(row, "id"));
  const char *family = json_string_value(json_object_get(row, "family"));
  if (!id || !family) return false;
  Errors *errors = family_of(list, families, family);
  json_t *result = json_pack("{s:s}", "id", id);
  bool priced = false;
  for (int k = 0; k < 2; k++) {
    Prediction p;
    json_t *published = json_object_get(row, chips[k]);
    if (!predict(row, chips[k], &p)) continue;
    priced = true;
    if (o->chip && strcmp(o->chip, chips[k])) continue;
    json_t *figures = json_object();
    for (int q = 0; q < QUANTITIES; q++) {
      json_object_set_new(figures, quantity_names[q], json_real(round(p.value[q])));
      double want = json_number_value(json_object_get(published, quantity_names[q]));
      if (!(want > 0) || !errors || errors->count[q] == SAMPLES_MAX) continue;
      double error = 100 * (p.value[q] / want - 1);
      errors->error[q][errors->count[q]++] = error;
      if (o->rows)
        printf("%-14s %-50s %-5s %-14s got %12.0f want %12.0f %+7.1f %%\n", quantity_names[q], id,
               chips[k], errors->family, p.value[q], want, error);
    }
    json_object_set_new(result, chips[k], figures);
  }
  if (out) {
    char *line = json_dumps(result, JSON_COMPACT);
    fprintf(out, "%s\n", line ? line : "");
    free(line);
  }
  json_decref(result);
  return priced;
}

/* False, with what is wrong on standard error. */
static bool read_options(int argc, char **argv, Options *o) {
  int given = 0;
  *o = (Options){0};
  for (int i = 1; i < argc; i++) {
    bool third = !strcmp(argv[i], "--third"), half = !strcmp(argv[i], "--half"),
         chip = !strcmp(argv[i], "--chip");
    const char *value = third || half || chip ? (i + 1 < argc ? argv[++i] : "nothing") : NULL;
    if (third || half) {
      o->parts = third ? 3 : 2;
      if (strlen(value) != 1 || !strchr(third ? "012" : "01", *value)) {
        fprintf(stderr, "validate: %s, got %s\n",
                third ? "--third must be 0, 1 or 2" : "--half must be 0 or 1", value);
        return false;
      }
      o->part = *value - '0';
    } else if (chip) {
      if (strcmp(value, "gc2") && strcmp(value, "gc200")) {
        fprintf(stderr, "validate: --chip must be gc2 or gc200, got %s\n", value);
        return false;
      }
      o->chip = value;
    } else if (!strcmp(argv[i], "--rows")) {
      o->rows = true;
    } else if (argv[i][0] == '-' || given == 2) {
      fprintf(stderr, "validate: what is '%s'?\n", argv[i]);
      return false;
    } else {
      o->paths[given++] = argv[i];
    }
  }
  if (given == 0) fprintf(stderr, "validate: a file of benchmarks is wanted\n");
  return given > 0;
}

static FILE *open_file(const char *path, const char *mode) {
  FILE *f = fopen(path, mode);
  if (!f) fprintf(stderr, "validate: %s: %s\n", path, strerror(errno));
  return f;
}

int main(int argc, char **argv) {
  Options o;
  if (!read_options(argc, argv, &o)) {
    fprintf(
        stderr,
        "usage: validate BENCH [OUT] [--rows] [--third 0|1|2] [--half 0|1] [--chip gc2|gc200]\n");
    return 2;
  }
  FILE *in = open_file(o.paths[0], "r"),
       *out = in && o.paths[1] ? open_file(o.paths[1], "w") : NULL;
  Errors *list = calloc(FAMILIES_MAX, sizeof *list);
  if (!in || !list || (o.paths[1] && !out)) {
    if (in) fclose(in);
    if (out) fclose(out);
    free(list);
    return 2;
  }
  int families = 0, index = 0, priced = 0, refused = 0;
  static char line[1 << 16];
  double start = clock_seconds();
  for (; fgets(line, sizeof line, in); index++) {
    json_error_t e;
    if (line[0] == '#' || line[0] == '\n' || (o.parts && index % o.parts != o.part)) continue;
    json_t *row = json_loads(line, 0, &e);
    if (row && take_row(row, out, list, &families, &o)) {
      priced++;
    } else {
      const char *why = row ? "wants an 'id' and a 'family' that is priced" : e.text;
      fprintf(stderr, "validate: %s:%d: %s\n", o.paths[0], index + 1, why);
      refused++;
    }
    json_decref(row);
  }
  for (int q = 0; q < QUANTITIES; q++) print_table(list, families, q);
  printf("%d rows in %.2f s\n", priced, clock_seconds() - start);
  fclose(in);
  if (out) fclose(out);
  free(list);
  return refused > 0;
}
