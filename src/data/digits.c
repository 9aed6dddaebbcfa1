/* A digit is a few strokes, each a smooth curve through some points. For an image the points are
 * moved at random, then bent, slanted and turned. The digit is fitted into a box, as MNIST's digits
 * are, and drawn with a round pen. Arithmetic is + - * / and square roots only, so the bytes don't
 * depend on a mathematics library. */
#include "data/digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/rng.h"

/* A stroke: points in a box 100 wide and 100 high, y down. A style: up to three strokes. */
enum {
  MAX_POINTS = 14,
  MAX_STROKES = 3,
  PIECES = 5,
  MAX_CURVE = MAX_STROKES * MAX_POINTS * PIECES,
  SIZE = DIGITS_SIZE
};

typedef struct Stroke {
  int count;
  signed char point[MAX_POINTS][2];
} Stroke;

typedef struct Style {
  int digit;
  int weight; /* how common, among the styles of the digit */
  Stroke stroke[MAX_STROKES];
} Style;

/* clang-format off */
static const Style styles[] = {
    {0, 6, {{10, {{55, 3}, {28, 10}, {14, 35}, {14, 65}, {30, 94},
              {54, 98}, {78, 82}, {86, 50}, {76, 17}, {50, 2}}}}},
    {0, 3, {{9, {{70, 10}, {42, 4}, {18, 28}, {14, 64}, {36, 96},
              {68, 88}, {84, 52}, {78, 18}, {58, 6}}}}},
    {0, 1, {{10, {{40, 6}, {16, 30}, {16, 70}, {42, 96}, {74, 82},
              {84, 46}, {70, 12}, {46, 4}, {34, 14}, {40, 26}}}}},
    {1, 6, {{3, {{52, 2}, {50, 50}, {48, 98}}}}},
    {1, 3, {{5, {{32, 22}, {44, 12}, {54, 2}, {52, 50}, {50, 98}}}}},
    {1, 1, {{4, {{30, 24}, {52, 3}, {51, 50}, {50, 96}}},
             {3, {{26, 97}, {50, 96}, {74, 96}}}}},
    {2, 5, {{9, {{16, 26}, {30, 6}, {58, 3}, {78, 20}, {72, 44},
              {46, 70}, {14, 96}, {50, 94}, {88, 93}}}}},
    {2, 4, {{12, {{18, 22}, {36, 4}, {64, 6}, {76, 26}, {62, 54}, {36, 82},
              {16, 94}, {10, 84}, {22, 76}, {44, 86}, {66, 96}, {90, 88}}}}},
    {2, 1, {{7, {{20, 12}, {52, 4}, {80, 14}, {74, 44}, {20, 94}, {54, 96}, {86, 96}}}}},
    {3, 5, {{11, {{18, 14}, {44, 2}, {72, 12}, {72, 34}, {44, 48}, {58, 50},
              {80, 64}, {78, 86}, {50, 98}, {28, 94}, {12, 84}}}}},
    {3, 3, {{9, {{16, 6}, {50, 5}, {78, 6}, {60, 26}, {44, 42},
              {72, 52}, {82, 74}, {56, 97}, {14, 90}}}}},
    {3, 2, {{10, {{22, 18}, {40, 4}, {68, 10}, {66, 36}, {40, 48},
              {70, 56}, {78, 82}, {48, 98}, {22, 90}, {16, 78}}}}},
    {4, 5, {{5, {{26, 4}, {22, 30}, {16, 54}, {50, 56}, {88, 52}}},
             {3, {{72, 8}, {66, 52}, {62, 98}}}}},
    {4, 4, {{7, {{60, 4}, {40, 26}, {12, 60}, {34, 64}, {60, 62}, {76, 61}, {90, 60}}},
             {3, {{64, 6}, {64, 50}, {62, 98}}}}},
    {4, 2, {{9, {{22, 6}, {16, 34}, {24, 52}, {50, 50}, {70, 34},
              {76, 8}, {72, 40}, {68, 70}, {62, 98}}}}},
    {5, 4, {{8, {{28, 6}, {24, 26}, {22, 44}, {50, 38}, {80, 56}, {78, 84}, {46, 98}, {14, 88}}},
             {3, {{28, 6}, {56, 6}, {86, 3}}}}},
    {5, 4, {{11, {{84, 4}, {56, 6}, {32, 8}, {28, 24}, {22, 42}, {40, 40},
              {68, 46}, {82, 66}, {70, 88}, {40, 98}, {14, 90}}}}},
    {5, 2, {{9, {{80, 8}, {50, 4}, {34, 20}, {34, 38}, {62, 52},
              {74, 74}, {52, 96}, {26, 94}, {14, 80}}}}},
    {6, 6, {{11, {{68, 4}, {42, 20}, {22, 48}, {16, 76}, {34, 97}, {64, 94},
              {78, 76}, {66, 56}, {44, 54}, {24, 66}, {18, 80}}}}},
    {6, 3, {{10, {{46, 2}, {28, 34}, {20, 68}, {30, 94}, {58, 98},
              {80, 84}, {76, 62}, {52, 56}, {32, 66}, {26, 80}}}}},
    {6, 2, {{12, {{78, 12}, {54, 4}, {30, 22}, {16, 52}, {20, 84}, {46, 98},
              {74, 86}, {74, 62}, {52, 52}, {32, 62}, {28, 78}, {36, 86}}}}},
    {7, 5, {{6, {{14, 8}, {48, 7}, {86, 4}, {68, 36}, {52, 66}, {42, 98}}}}},
    {7, 3, {{6, {{12, 14}, {16, 6}, {84, 8}, {74, 30}, {56, 60}, {50, 98}}}}},
    {7, 2, {{6, {{16, 8}, {50, 7}, {84, 4}, {70, 36}, {54, 66}, {42, 98}}},
             {3, {{34, 52}, {58, 50}, {80, 47}}}}},
    {8, 5, {{13, {{72, 16}, {48, 3}, {26, 14}, {32, 36}, {54, 50}, {76, 66}, {74, 90},
              {48, 98}, {22, 88}, {26, 66}, {50, 48}, {72, 32}, {70, 12}}}}},
    {8, 3, {{13, {{54, 46}, {30, 34}, {30, 12}, {52, 2}, {72, 14}, {70, 34}, {48, 48},
              {24, 64}, {24, 88}, {50, 98}, {76, 88}, {74, 64}, {52, 48}}}}},
    {8, 2, {{8, {{50, 4}, {28, 14}, {32, 38}, {52, 46}, {72, 34}, {72, 14}, {54, 4}, {46, 5}}},
             {9, {{50, 48}, {24, 60}, {20, 84}, {44, 98}, {72, 92},
              {80, 70}, {66, 52}, {50, 48}, {42, 50}}}}},
    {9, 5, {{11, {{74, 22}, {56, 4}, {30, 10}, {18, 32}, {34, 50}, {58, 46},
              {74, 24}, {76, 14}, {72, 48}, {66, 74}, {60, 98}}}}},
    {9, 3, {{12, {{76, 20}, {54, 3}, {28, 14}, {24, 38}, {46, 50}, {70, 40},
              {76, 20}, {78, 48}, {72, 78}, {52, 97}, {30, 94}, {20, 84}}}}},
    {9, 2, {{8, {{70, 10}, {40, 4}, {20, 22}, {28, 44}, {54, 44}, {72, 24}, {74, 10}, {70, 34}}},
             {3, {{73, 16}, {66, 60}, {56, 98}}}}},
};
/* clang-format on */
enum { STYLE_COUNT = sizeof styles / sizeof styles[0] };

/* Numbers for one image, in the order in which they are asked for. */
typedef struct Dice {
  RngKey key;
  uint64_t block;
  uint32_t word[4];
  int left;
} Dice;

static uint32_t roll(Dice *d) {
  if (!d->left) rng_block(&d->key, d->block++, d->word), d->left = 4;
  return d->word[--d->left];
}

static float between(Dice *d, float low, float high) {
  return low + (high - low) * ((float)(roll(d) >> 8) * 0x1p-24f);
}

/* Nearly normal: the sum of four uniform numbers. */
static float normal(Dice *d, float deviation) {
  float sum = between(d, -1, 1) + between(d, -1, 1) + between(d, -1, 1) + between(d, -1, 1);
  return deviation * sum * 0.8660254f; /* the sum's variance is 4/3 */
}

typedef struct Curve {
  int count;
  float x[MAX_CURVE], y[MAX_CURVE];
  bool joined[MAX_CURVE]; /* to the point before */
} Curve;

static const Style *pick_style(Dice *d, int digit) {
  int sum = 0, at = 0;
  for (int i = 0; i < STYLE_COUNT; i++) sum += styles[i].digit == digit ? styles[i].weight : 0;
  int wanted = (int)(roll(d) % (uint32_t)sum);
  while (styles[at].digit != digit || (wanted -= styles[at].weight) >= 0) at++;
  return &styles[at];
}

/* A smooth curve through the points (Catmull and Rom): between p1 and p2, t from 0 to 1. */
static float spline(float p0, float p1, float p2, float p3, float t) {
  return p1 +
         0.5f * t * (p2 - p0 + t * (2 * p0 - 5 * p1 + 4 * p2 - p3 + t * (3 * (p1 - p2) + p3 - p0)));
}

static void add_stroke(Curve *c, const Stroke *s, Dice *d) {
  float x[MAX_POINTS], y[MAX_POINTS];
  for (int i = 0; i < s->count; i++) {
    x[i] = (float)s->point[i][0] + normal(d, 3.6f);
    y[i] = (float)s->point[i][1] + normal(d, 3.6f);
  }
  int first = c->count, last = s->count - 1,
      skip = (int)(roll(d) % 3); /* pens land and leave early or late */
  for (int i = 0; i < last; i++)
    for (int k = i ? 0 : skip; k < PIECES; k++) {
      float t = (float)k / PIECES;
      int before = i ? i - 1 : 0, after = i + 2 > last ? last : i + 2;
      c->x[c->count] = spline(x[before], x[i], x[i + 1], x[after], t);
      c->y[c->count] = spline(y[before], y[i], y[i + 1], y[after], t);
      c->joined[c->count] = c->count > first;
      c->count++;
    }
  c->x[c->count] = x[last], c->y[c->count] = y[last], c->joined[c->count] = true;
  c->count++;
}

/* Bend, slant and turn. */
static void deform(Curve *c, Dice *d) {
  float bend_x = normal(d, 0.13f), bend_y = normal(d, 0.10f), taper = normal(d, 0.12f),
        slant = 0.12f + normal(d, 0.22f);
  /* half: the tangent of half the angle */
  float half = normal(d, 0.075f), width = between(d, 0.62f, 1.08f);
  float cosine = (1 - half * half) / (1 + half * half), sine = 2 * half / (1 + half * half);
  for (int i = 0; i < c->count; i++) {
    float x = (c->x[i] - 50) * 0.02f, y = (c->y[i] - 50) * 0.02f; /* -1 … 1 */
    float u = width * x * (1 + taper * y) + bend_x * (y * y - 0.3f) - slant * y,
          v = y + bend_y * (x * x - 0.3f);
    c->x[i] = cosine * u - sine * v;
    c->y[i] = sine * u + cosine * v;
  }
}

/* Into a box of about 20 pixels around the middle, shape kept. */
static void fit(Curve *c, Dice *d, float pen) {
  float left = c->x[0], right = left, top = c->y[0], bottom = top;
  for (int i = 1; i < c->count; i++) {
    left = fminf(left, c->x[i]), right = fmaxf(right, c->x[i]);
    top = fminf(top, c->y[i]), bottom = fmaxf(bottom, c->y[i]);
  }
  float extent = fmaxf(fmaxf(right - left, bottom - top), 0.1f), room = 20.5f - 2 * pen;
  float scale = room / extent * between(d, 0.84f, 1.04f);
  float x = SIZE / 2.0f + normal(d, 0.9f), y = SIZE / 2.0f + normal(d, 0.9f);
  for (int i = 0; i < c->count; i++) {
    c->x[i] = x + scale * (c->x[i] - (left + right) / 2);
    c->y[i] = y + scale * (c->y[i] - (top + bottom) / 2);
  }
}

static int clamp(float v) { return v < 0 ? 0 : v > SIZE - 1 ? SIZE - 1 : (int)v; }

/* Ink where a pixel's middle is within the pen's radius of the segment; the edge fades over a
 * pixel and a bit. */
static void draw_segment(float *ink, float ax, float ay, float bx, float by, float pen) {
  enum { FADE = 1 };
  float dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy, reach = pen + FADE;
  int x0 = clamp(fminf(ax, bx) - reach), x1 = clamp(fmaxf(ax, bx) + reach);
  int y0 = clamp(fminf(ay, by) - reach), y1 = clamp(fmaxf(ay, by) + reach);
  float scale = length > 1e-9f ? 1 / length : 0;
  for (int y = y0; y <= y1; y++)
    for (int x = x0; x <= x1; x++) {
      float px = (float)x + 0.5f - ax, py = (float)y + 0.5f - ay, t = (px * dx + py * dy) * scale;
      t = t < 0 ? 0 : t > 1 ? 1 : t;
      float qx = px - t * dx, qy = py - t * dy, distance = qx * qx + qy * qy;
      if (distance >= reach * reach) continue;
      float value = fminf(1, (reach - sqrtf(distance)) / (1.5f * FADE));
      if (value > ink[y * SIZE + x]) ink[y * SIZE + x] = value;
    }
}

static void draw(const Curve *c, Dice *d, float pen, float *ink) {
  float change = normal(d, 0.18f); /* the pen is pressed more or less towards the end */
  for (int i = 1; i < c->count; i++) {
    if (!c->joined[i]) continue;
    float along = (float)i / (float)c->count - 0.5f;
    draw_segment(ink, c->x[i - 1], c->y[i - 1], c->x[i], c->y[i], pen * (1 + change * along));
  }
}

/* A little blur, then grain in the ink; the paper stays clean. */
static void develop(const float *ink, Dice *d, uint8_t *out) {
  float blur = between(d, 0.0f, 0.10f), strength = between(d, 0.85f, 1.12f);
  uint32_t grain = 0;
  for (int y = 0, i = 0; y < SIZE; y++)
    for (int x = 0; x < SIZE; x++, i++) {
      float around = (x > 0 ? ink[i - 1] : 0) + (x < SIZE - 1 ? ink[i + 1] : 0) +
                     (y > 0 ? ink[i - SIZE] : 0) + (y < SIZE - 1 ? ink[i + SIZE] : 0);
      float value = (1 - 4 * blur) * ink[i] + blur * around;
      if (value < 0.02f) continue;
      if (i % 4 == 0 || !grain) grain = roll(d) | 1u << 31;
      value = value * strength + ((float)(grain & 255) - 127.5f) * (0.18f / 255);
      grain >>= 8;
      out[i] = (uint8_t)(value <= 0 ? 0 : value >= 1 ? 255 : value * 255 + 0.5f);
    }
}

static void draw_digit(const RngKey *key, int digit, uint8_t *out) {
  float ink[SIZE * SIZE] = {0};
  Dice d = {.key = *key};
  Curve c = {.count = 0};
  const Style *style = pick_style(&d, digit);
  for (int s = 0; s < MAX_STROKES && style->stroke[s].count; s++)
    add_stroke(&c, &style->stroke[s], &d);
  float pen = between(&d, 0.55f, 1.45f);
  deform(&c, &d);
  fit(&c, &d, pen);
  draw(&c, &d, pen, ink);
  develop(ink, &d, out);
}

typedef struct DrawJob {
  uint64_t seed;
  int set;
  int64_t count;
  uint8_t *image, *label;
} DrawJob;

enum { CHUNK = 250 };

static void draw_chunk(void *context, int64_t chunk, int slot) {
  (void)slot;
  const DrawJob *j = context;
  for (int64_t i = chunk * CHUNK; i < j->count && i < (chunk + 1) * CHUNK; i++) {
    RngKey key = {.seed = j->seed, .stream = 2 + (uint32_t)j->set, .step = (uint64_t)i};
    draw_digit(&key, j->label[i], j->image + i * SIZE * SIZE);
  }
}

/* As many of each, in random order (Fisher and Yates). */
static void shuffle_labels(uint64_t seed, int set, int64_t count, uint8_t *label) {
  RngKey key = {.seed = seed, .stream = (uint32_t)set};
  for (int64_t i = 0; i < count; i++) label[i] = (uint8_t)(i % 10);
  for (int64_t i = count - 1; i > 0; i--) {
    int64_t k = (int64_t)rng_below(&key, (uint64_t)i, (uint64_t)i + 1);
    uint8_t swapped = label[i];
    label[i] = label[k];
    label[k] = swapped;
  }
}

Status digits_draw(Error *e, Pool *pool, uint64_t seed, int set, int64_t count, Tensor **images,
                   Tensor **labels) {
  Type image = type_make(U8, 3, (int64_t[]){count, SIZE, SIZE}), label = type_make(U8, 1, &count);
  *images = tensor_new(e, &image);
  *labels = *images ? tensor_new(e, &label) : NULL;
  if (!*labels) return tensor_release(*images), *images = NULL, e->status;
  DrawJob j = {seed, set, count, (uint8_t *)(*images)->data, (uint8_t *)(*labels)->data};
  shuffle_labels(seed, set, count, j.label);
  pool_run(pool, ceil_div(count, CHUNK), draw_chunk, &j);
  return OK;
}
