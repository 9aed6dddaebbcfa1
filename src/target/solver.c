/* Blocked factorisation and substitution. */
#include "target/plan.h"

Cost cost_cholesky(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t block) {
  Cost c = cost_free();
  if (batch <= 0 || n <= 0) return c;
  if (block <= 0 || block > n) block = n;
  for (int64_t at = 0; at < n; at += block) {
    int64_t size = at + block <= n ? block : n - at, rest = n - at - size;
    double b = (double)size;
    cost_step(&c, t, "cholesky block", b * b * element_bytes(d), (double)t->workers * b * b * b / 6);
    if (rest <= 0) continue;
    Cost panel = cost_triangular_solve(t, d, batch, size, rest, block);
    Cost update = cost_matmul(t, d, F32, batch, rest, size, rest, NULL);
    cost_then(&c, &panel);
    cost_then(&c, &update);
  }
  return c;
}

Cost cost_triangular_solve(const Target *t, Dtype d, int64_t batch, int64_t n, int64_t columns, int64_t block) {
  Cost c = cost_free();
  if (batch <= 0 || n <= 0 || columns <= 0) return c;
  if (block <= 0 || block > n) block = n;
  double w = (double)t->workers;
  for (int64_t at = 0; at < n; at += block) {
    int64_t size = at + block <= n ? block : n - at;
    double b = (double)size, share = (double)idiv(batch * columns, t->tiles);
    cost_step(&c, t, "solve block", (b * b + share * b) * element_bytes(d), w * share * b * b / 2 * 3);
    if (at == 0) continue;
    Cost update = cost_matmul(t, d, F32, batch, size, at, columns, NULL);
    cost_then(&c, &update);
  }
  return c;
}
