/* The part of panel.c that is compiled for each element type, with the macros of real_f32.h and
 * real_f64.h. NAME(x) is x_f32 or x_f64. */

/* Rows of y against one or two vectors of the panel: each step broadcasts one element of each
 * row. */
INLINE void NAME(mul_tile)(int rows, int vectors, const PanelMul *p, const REAL *x, const REAL *w,
                           REAL *y, int64_t last) {
  VECTOR sum[TILE_ROWS_1][2];
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) sum[i][j] =
      (VECTOR){0};
  for (int64_t s = 0; s < p->segments; s++) {
    const REAL *from = x + p->offset[s];
    for (int64_t l = 0; l < p->length; l++, w += PANEL_COLS) {
      VECTOR row[2];
      UNROLL for (int j = 0; j < vectors; j++) row[j] = LOAD(w + j * LANES);
      UNROLL for (int i = 0; i < rows; i++) {
        VECTOR v = SPLAT(from[i * p->x_row + l]);
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = FMA(v, row[j], sum[i][j]);
      }
    }
  }
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) {
    REAL *to = y + i * p->y_row + j * LANES;
    if (j == vectors - 1 && last < LANES)
      STORE_SOME(to, last, p->accumulate ? LOAD_SOME(to, last) + sum[i][j] : sum[i][j]);
    else STORE(to, p->accumulate ? LOAD(to) + sum[i][j] : sum[i][j]);
  }
}

/* Rows of y are elements of x here: each step broadcasts neighbours of one row of x. */
INLINE void NAME(outer_tile)(int rows, int vectors, const PanelOuter *p, const REAL *x,
                             const REAL *d, REAL *y, int64_t last) {
  VECTOR sum[TILE_ROWS_1][2];
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) sum[i][j] =
      (VECTOR){0};
  for (int64_t line = 0; line < p->lines; line++) {
    const REAL *from = x + line * p->x_line, *by = d + line * p->d_line;
    for (int64_t r = 0; r < p->rows; r++, from += p->x_row, by += p->d_row) {
      VECTOR row[2];
      UNROLL for (int j = 0; j < vectors; j++) row[j] =
          j == vectors - 1 && last < LANES ? LOAD_SOME(by + j * LANES, last) : LOAD(by + j * LANES);
      UNROLL for (int i = 0; i < rows; i++) {
        VECTOR v = SPLAT(from[i]);
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = FMA(v, row[j], sum[i][j]);
      }
    }
  }
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) {
    REAL *to = y + i * p->y_row + j * LANES;
    if (j == vectors - 1 && last < LANES)
      STORE_SOME(to, last, p->accumulate ? LOAD_SOME(to, last) + sum[i][j] : sum[i][j]);
    else STORE(to, p->accumulate ? LOAD(to) + sum[i][j] : sum[i][j]);
  }
}

typedef void (*NAME(MulTile))(const PanelMul *p, const REAL *x, const REAL *w, REAL *y,
                              int64_t last);
typedef void (*NAME(OuterTile))(const PanelOuter *p, const REAL *x, const REAL *d, REAL *y,
                                int64_t last);

#define TILE(rows, vectors)                                                                     \
  static void NAME(mul_##rows##_##vectors)(const PanelMul *p, const REAL *x, const REAL *w,     \
                                           REAL *y, int64_t last) {                             \
    NAME(mul_tile)(rows, vectors, p, x, w, y, last);                                            \
  }                                                                                             \
  static void NAME(outer_##rows##_##vectors)(const PanelOuter *p, const REAL *x, const REAL *d, \
                                             REAL *y, int64_t last) {                           \
    if (last == LANES) NAME(outer_tile)(rows, vectors, p, x, d, y, LANES);                      \
    else NAME(outer_tile)(rows, vectors, p, x, d, y, last);                                     \
  }
TILES_1(TILE)
TILES_2(TILE)
#undef TILE

/* [vectors - 1][rows] */
static const NAME(MulTile) NAME(mul_tiles)[2][TILE_ROWS_1 + 1] = {
#define TILE(r, v) [v - 1][r] = NAME(mul_##r##_##v),
    TILES_1(TILE) TILES_2(TILE)
#undef TILE
};
static const NAME(OuterTile) NAME(outer_tiles)[2][TILE_ROWS_1 + 1] = {
#define TILE(r, v) [v - 1][r] = NAME(outer_##r##_##v),
    TILES_1(TILE) TILES_2(TILE)
#undef TILE
};

/* Tiles of nearly equal heights: a lone last row would wait for its sums. */
static void NAME(panel_mul)(const PanelMul *p) {
  const REAL *x = p->x, *w = p->w;
  REAL *y = p->y;
  for (int64_t col = 0; col < p->cols; col += 2 * LANES) {
    int64_t left = p->cols - col, vectors = left > LANES ? 2 : 1;
    int64_t last = left >= vectors * LANES ? LANES : left - (vectors - 1) * LANES;
    int64_t limit = vectors == 2 ? TILE_ROWS_2 : MUL_ROWS_1, count = (p->rows + limit - 1) / limit;
    for (int64_t t = 0, row = 0, rows; t < count; t++, row += rows) {
      rows = (p->rows - row) / (count - t);
      NAME(mul_tiles)
      [vectors - 1][rows](p, x + row * p->x_row, w + col, y + row * p->y_row + col, last);
    }
  }
}

static void NAME(panel_outer)(const PanelOuter *p) {
  const REAL *x = p->x, *d = p->d;
  REAL *y = p->y;
  for (int64_t col = 0; col < p->cols; col += 2 * LANES) {
    int64_t left = p->cols - col, vectors = left > LANES ? 2 : 1;
    int64_t last = left >= vectors * LANES ? LANES : left - (vectors - 1) * LANES;
    int64_t limit = vectors == 2 ? TILE_ROWS_2 : TILE_ROWS_1,
            count = (p->length + limit - 1) / limit;
    for (int64_t t = 0, row = 0, rows; t < count; t++, row += rows) {
      rows = (p->length - row) / (count - t);
      NAME(outer_tiles)[vectors - 1][rows](p, x + row, d + col, y + row * p->y_row + col, last);
    }
  }
}

/* w[r, j] = source[r * row + j * col], columns beyond cols zero. One stride is 1. */
static void NAME(panel_pack)(const void *source, int64_t row, int64_t col, int64_t rows,
                             int64_t cols, void *panel) {
  const REAL *from = source;
  REAL *to = panel;
  if (cols < PANEL_COLS) memset(panel, 0, (size_t)(rows * PANEL_COLS) * sizeof *to);
  if (col == 1) {
    for (int64_t r = 0; r < rows; r++)
      memcpy(to + r * PANEL_COLS, from + r * row, (size_t)cols * sizeof *to);
  } else {
    NAME(transpose)(from, col, cols, rows, to, PANEL_COLS, false);
  }
}

/* One vector of channels at a time; four rows at once share its weights. */
INLINE void NAME(depthwise_rows)(int rows, const Depthwise *p, const REAL *x, const REAL *w,
                                 REAL *y, int64_t lanes) {
  VECTOR sum[4];
  UNROLL for (int i = 0; i < rows; i++) sum[i] = (VECTOR){0};
  for (int64_t t = 0; t < p->taps; t++) {
    VECTOR weight = LOAD_SOME(w + t * p->channels, lanes);
    UNROLL for (int i = 0; i < rows; i++) sum[i] =
        FMA(LOAD_SOME(x + i * p->x_row + p->offset[t], lanes), weight, sum[i]);
  }
  UNROLL for (int i = 0; i < rows; i++) STORE_SOME(y + i * p->y_row, lanes, sum[i]);
}

static void NAME(depthwise)(const Depthwise *p) {
  for (int64_t c = 0; c < p->channels; c += LANES) {
    int64_t lanes = p->channels - c < LANES ? p->channels - c : LANES, i = 0;
    const REAL *x = (const REAL *)p->x + c, *w = (const REAL *)p->w + c;
    REAL *y = (REAL *)p->y + c;
    if (lanes == LANES)
      for (; i + 4 <= p->rows; i += 4)
        NAME(depthwise_rows)(4, p, x + i * p->x_row, w, y + i * p->y_row, LANES);
    for (; i < p->rows; i++)
      NAME(depthwise_rows)(1, p, x + i * p->x_row, w, y + i * p->y_row, lanes);
  }
}

static void NAME(depthwise_outer)(const Depthwise *p, const void *dy, void *dw) {
  for (int64_t c = 0; c < p->channels; c += LANES) {
    int64_t lanes = p->channels - c < LANES ? p->channels - c : LANES;
    for (int64_t t = 0; t < p->taps; t++) {
      const REAL *x = (const REAL *)p->x + p->offset[t] + c, *d = (const REAL *)dy + c;
      REAL *to = (REAL *)dw + t * p->channels + c;
      VECTOR sum[4] = {{0}};
      int64_t i = 0;
      if (lanes == LANES)
        for (; i + 4 <= p->rows; i += 4)
          UNROLL for (int k = 0; k < 4; k++) sum[k] =
              FMA(LOAD(x + (i + k) * p->x_row), LOAD(d + (i + k) * p->y_row), sum[k]);
      for (; i < p->rows; i++)
        sum[0] =
            FMA(LOAD_SOME(x + i * p->x_row, lanes), LOAD_SOME(d + i * p->y_row, lanes), sum[0]);
      STORE_SOME(to, lanes, LOAD_SOME(to, lanes) + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
    }
  }
}
