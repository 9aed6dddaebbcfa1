/* The text of cells.c for one element type. */

static void NAME(lstm_state)(int64_t n, const void *gates, const void *c_before, void *c) {
  const REAL *restrict i = gates, *restrict f = i + n, *restrict g = f + n, *restrict before = c_before;
  REAL *restrict after = c;
  for (int64_t u = 0; u < n; u++) after[u] = f[u] * before[u] + i[u] * g[u];
}

static void NAME(lstm_cell_grad)(int64_t n, const void *gates, const void *c_before, const void *tanh_c, const void *dh,
                                 void *dc, void *dgates) {
  const REAL *restrict i = gates, *restrict f = i + n, *restrict g = f + n, *restrict o = g + n;
  const REAL *restrict before = c_before, *restrict t = tanh_c, *restrict d = dh;
  REAL *restrict k = dc;
  REAL *restrict di = dgates, *restrict df = di + n, *restrict dg = df + n, *restrict dout = dg + n;
  for (int64_t u = 0; u < n; u++) {
    REAL through = k[u] + d[u] * o[u] * (1 - t[u] * t[u]);
    di[u] = through * g[u] * i[u] * (1 - i[u]);
    df[u] = through * before[u] * f[u] * (1 - f[u]);
    dg[u] = through * i[u] * (1 - g[u] * g[u]);
    dout[u] = d[u] * t[u] * o[u] * (1 - o[u]);
    k[u] = through * f[u];
  }
}

static void NAME(gru_state)(int64_t n, const void *z, const void *candidate, const void *before, void *h) {
  const REAL *restrict update = z, *restrict new = candidate, *restrict old = before;
  REAL *restrict after = h;
  for (int64_t u = 0; u < n; u++) after[u] = update[u] * old[u] + (1 - update[u]) * new[u];
}

/* inner is what r multiplies: the recurrent part of the candidate (reset after) or the state (reset before: then dinner
 * is left alone, and the r gate's slot of dgates too, as the product with the kernel comes between). */
static void NAME(gru_cell_grad)(int64_t n, const void *gates, const void *before, const void *inner, const void *dh,
                                void *dgates, void *dinner, void *dbefore) {
  const REAL *restrict z = gates, *restrict r = z + n, *restrict h = r + n, *restrict old = before, *restrict d = dh;
  REAL *restrict dz = dgates, *restrict dr = dz + n, *restrict dcandidate = dr + n, *restrict back = dbefore;
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
