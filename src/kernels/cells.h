/* The part of cells.c that is compiled for each element type, with the macros of real_f32.h and
 * real_f64.h. NAME(x) is x_f32 or x_f64. It also needs sigmoids and tanhs of vectors. */

INLINE void NAME(lstm_units)(int64_t n, REAL *gates, const REAL *z, const REAL *bias,
                             const REAL *before, REAL *c, REAL *h, int64_t lanes) {
  VECTOR sum[4];
  UNROLL for (int k = 0; k < 4; k++) {
    sum[k] = LOAD_SOME(gates + k * n, lanes) + LOAD_SOME(z + k * n, lanes);
    if (bias) sum[k] += LOAD_SOME(bias + k * n, lanes);
  }
  VECTOR i = NAME(sigmoids)(sum[0]), f = NAME(sigmoids)(sum[1]), g = NAME(tanhs)(sum[2]),
         o = NAME(sigmoids)(sum[3]);
  VECTOR state = f * LOAD_SOME(before, lanes) + i * g;
  STORE_SOME(gates, lanes, i);
  STORE_SOME(gates + n, lanes, f);
  STORE_SOME(gates + 2 * n, lanes, g);
  STORE_SOME(gates + 3 * n, lanes, o);
  STORE_SOME(c, lanes, state);
  STORE_SOME(h, lanes, o * NAME(tanhs)(state));
}

static void NAME(lstm_cell)(int64_t n, void *gates, const void *z, const void *bias,
                            const void *before, void *c, void *h) {
  REAL *g = gates, *cell = c, *out = h;
  const REAL *add = z, *b = bias, *old = before;
  int64_t u = 0;
  for (; u + LANES <= n; u += LANES)
    NAME(lstm_units)(n, g + u, add + u, b ? b + u : NULL, old + u, cell + u, out + u, LANES);
  if (u < n)
    NAME(lstm_units)(n, g + u, add + u, b ? b + u : NULL, old + u, cell + u, out + u, n - u);
}

INLINE void NAME(lstm_units_grad)(int64_t n, const REAL *gates, const REAL *before, const REAL *dh,
                                  REAL *dc, REAL *dgates, int64_t lanes) {
  VECTOR i = LOAD_SOME(gates, lanes), f = LOAD_SOME(gates + n, lanes),
         g = LOAD_SOME(gates + 2 * n, lanes);
  VECTOR o = LOAD_SOME(gates + 3 * n, lanes), old = LOAD_SOME(before, lanes),
         d = LOAD_SOME(dh, lanes);
  VECTOR t = NAME(tanhs)(f * old + i * g), through = LOAD_SOME(dc, lanes) + d * o * (1 - t * t);
  STORE_SOME(dgates, lanes, through * g * i * (1 - i));
  STORE_SOME(dgates + n, lanes, through * old * f * (1 - f));
  STORE_SOME(dgates + 2 * n, lanes, through * i * (1 - g * g));
  STORE_SOME(dgates + 3 * n, lanes, d * t * o * (1 - o));
  STORE_SOME(dc, lanes, through * f);
}

static void NAME(lstm_cell_grad)(int64_t n, const void *gates, const void *before, const void *dh,
                                 void *dc, void *dgates) {
  const REAL *g = gates, *old = before, *d = dh;
  REAL *cell = dc, *out = dgates;
  int64_t u = 0;
  for (; u + LANES <= n; u += LANES)
    NAME(lstm_units_grad)(n, g + u, old + u, d + u, cell + u, out + u, LANES);
  if (u < n) NAME(lstm_units_grad)(n, g + u, old + u, d + u, cell + u, out + u, n - u);
}

static void NAME(gru_state)(int64_t n, const void *z, const void *candidate, const void *before,
                            void *h) {
  const REAL *restrict update = z, *restrict new = candidate, *restrict old = before;
  REAL *restrict after = h;
  for (int64_t u = 0; u < n; u++) after[u] = update[u] * old[u] + (1 - update[u]) * new[u];
}

/* inner is the factor of r. Reset after: the recurrent part of the candidate. Reset before: the
 * state. In that case dinner and the r gate's part of dgates are not written, because the product
 * with the kernel comes first. */
static void NAME(gru_cell_grad)(int64_t n, const void *gates, const void *before, const void *inner,
                                const void *dh, void *dgates, void *dinner, void *dbefore) {
  const REAL *restrict z = gates, *restrict r = z + n, *restrict h = r + n, *restrict old = before,
                       *restrict d = dh;
  REAL *restrict dz = dgates, *restrict dr = dz + n, *restrict dcandidate = dr + n,
                 *restrict back = dbefore;
  for (int64_t u = 0; u < n; u++) {
    dz[u] = d[u] * (old[u] - h[u]) * z[u] * (1 - z[u]);
    dcandidate[u] = d[u] * (1 - z[u]) * (1 - h[u] * h[u]);
    back[u] = d[u] * z[u];
  }
  if (!inner) return;
  const REAL *restrict in = inner;
  REAL *restrict din = dinner;
  for (int64_t u = 0; u < n; u++) {
    dr[u] = dcandidate[u] * in[u] * r[u] * (1 - r[u]);
    din[u] = dcandidate[u] * r[u];
  }
}
