/* The part of pooling.c that is compiled for each element type, with the macros of real_f32.h and
 * real_f64.h. NAME(x) is x_f32 or x_f64. */

INLINE void NAME(store_index)(const PoolRun *p, int64_t at, INTEGERS index, int64_t lanes) {
  if (p->wide_index)
    for (int64_t l = 0; l < lanes; l++) ((int32_t *)p->index)[at + l] = (int32_t)index[l];
  else
    for (int64_t l = 0; l < lanes; l++) ((uint8_t *)p->index)[at + l] = (uint8_t)index[l];
}

/* A vector of channels; lanes is LANES except for the last ones. */
INLINE void NAME(max_channels)(const PoolRun *p, int64_t row, int64_t c, int64_t lanes) {
  const REAL *x = (const REAL *)p->x + row * p->x_row + c;
  VECTOR best = LOAD_SOME(x + p->offset[0], lanes);
  INTEGERS index = (INTEGERS){0} + p->tap[0];
  for (int64_t t = 1; t < p->taps; t++) {
    VECTOR v = LOAD_SOME(x + p->offset[t], lanes);
    INTEGERS wins = (INTEGERS)(v > best) | (INTEGERS)(v != v);
    best = (VECTOR)((wins & (INTEGERS)v) | (~wins & (INTEGERS)best));
    index = (wins & p->tap[t]) | (~wins & index);
  }
  STORE_SOME((REAL *)p->y + row * p->y_row + c, lanes, best);
  NAME(store_index)(p, row * p->channels + c, index, lanes);
}

static void NAME(pool_max)(const PoolRun *p) {
  for (int64_t row = 0; row < p->rows; row++) {
    int64_t c = 0;
    for (; c + LANES <= p->channels; c += LANES) NAME(max_channels)(p, row, c, LANES);
    if (c < p->channels) NAME(max_channels)(p, row, c, p->channels - c);
  }
}

INLINE void NAME(max_grad_row)(const REAL *restrict dy, const uint8_t *restrict index, uint8_t tap,
                               REAL *restrict dx, int64_t n) {
  for (int64_t c = 0; c < n; c++) dx[c] += index[c] == tap ? dy[c] : 0;
}
INLINE void NAME(max_grad_row_wide)(const REAL *restrict dy, const int32_t *restrict index,
                                    int32_t tap, REAL *restrict dx, int64_t n) {
  for (int64_t c = 0; c < n; c++) dx[c] += index[c] == tap ? dy[c] : 0;
}

static void NAME(pool_max_grad)(const PoolRun *p) {
  for (int64_t row = 0; row < p->rows; row++)
    for (int64_t t = 0; t < p->taps; t++) {
      const REAL *dy = (const REAL *)p->x + row * p->x_row;
      REAL *dx = (REAL *)p->y + row * p->y_row + p->offset[t];
      if (p->wide_index) NAME(max_grad_row_wide)
      (dy, (const int32_t *)p->index + row * p->channels, p->tap[t], dx, p->channels);
      else NAME(max_grad_row)(dy, (const uint8_t *)p->index + row * p->channels, (uint8_t)p->tap[t],
                              dx, p->channels);
    }
}

static void NAME(pool_max_pick)(const PoolRun *p) {
  for (int64_t row = 0; row < p->rows; row++) {
    const REAL *x = (const REAL *)p->x + row * p->x_row;
    REAL *y = (REAL *)p->y + row * p->y_row;
    memset(y, 0, (size_t)p->channels * sizeof *y);
    for (int64_t t = 0; t < p->taps; t++)
      for (int64_t c = 0; c < p->channels; c++) {
        int64_t at = row * p->channels + c;
        int32_t index =
            p->wide_index ? ((const int32_t *)p->index)[at] : ((const uint8_t *)p->index)[at];
        if (index == p->tap[t]) y[c] = x[p->offset[t] + c];
      }
  }
}

INLINE void NAME(sum_channels)(const PoolRun *p, int64_t row, int64_t c, int64_t lanes) {
  const REAL *x = (const REAL *)p->x + row * p->x_row + c;
  VECTOR sum = LOAD_SOME(x + p->offset[0], lanes);
  for (int64_t t = 1; t < p->taps; t++) sum += LOAD_SOME(x + p->offset[t], lanes);
  STORE_SOME((REAL *)p->y + row * p->y_row + c, lanes, sum * SPLAT((REAL)p->scale));
}

static void NAME(pool_sum)(const PoolRun *p) {
  for (int64_t row = 0; row < p->rows; row++) {
    int64_t c = 0;
    for (; c + LANES <= p->channels; c += LANES) NAME(sum_channels)(p, row, c, LANES);
    if (c < p->channels) NAME(sum_channels)(p, row, c, p->channels - c);
  }
}

INLINE void NAME(spread_row)(const REAL *restrict dy, REAL scale, REAL *restrict dx, int64_t n) {
  for (int64_t c = 0; c < n; c++) dx[c] += dy[c] * scale;
}

static void NAME(pool_spread)(const PoolRun *p) {
  for (int64_t row = 0; row < p->rows; row++)
    for (int64_t t = 0; t < p->taps; t++) NAME(spread_row)
  ((const REAL *)p->x + row * p->x_row, (REAL)p->scale,
   (REAL *)p->y + row * p->y_row + p->offset[t], p->channels);
}
