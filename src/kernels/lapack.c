#include "kernels/lapack.h"

#include <math.h>

/* One call of either routine. */
#define CALL(id, ...)                                \
  do {                                               \
    if (l.dtype == F64) l.blas->f64.id(__VA_ARGS__); \
    else l.blas->f32.id(__VA_ARGS__);                \
  } while (0)

static int at_least_one(int64_t n) { return n > 1 ? (int)n : 1; }

/* The number of elements that a query for work has left, which float32 may have rounded down. */
static int64_t count_of(Lapack l, const double *work) {
  double count = l.dtype == F64 ? *work : (double)*(const float *)(const void *)work * (1 + 1e-6);
  return (int64_t)ceil(count);
}
#define QUERY                       \
  double asked = 0, *work = &asked; \
  int count = -1, info = 0

int lapack_lu(Lapack l, int64_t extent, void *a, int *pivot) {
  int n = (int)extent, lda = at_least_one(extent), info = 0;
  CALL(getrf, &n, &n, a, &lda, pivot, &info);
  return info;
}

void lapack_lu_solve(Lapack l, bool turned, int64_t extent, int64_t columns, const void *lu,
                     const int *pivot, void *b) {
  int n = (int)extent, lda = at_least_one(extent), c = (int)columns, info = 0;
  CALL(getrs, turned ? "T" : "N", &n, &c, lu, &lda, pivot, b, &lda, &info, 1);
}

int64_t lapack_inverse_work(Lapack l, int64_t extent) {
  QUERY;
  int n = (int)extent, lda = at_least_one(extent), pivot = 0;
  CALL(getri, &n, (void *)work, &lda, &pivot, (void *)work, &count, &info);
  return count_of(l, work);
}

void lapack_inverse(Lapack l, int64_t extent, void *lu, const int *pivot, void *work,
                    int64_t work_count) {
  int n = (int)extent, lda = at_least_one(extent), count = (int)work_count, info = 0;
  CALL(getri, &n, lu, &lda, pivot, work, &count, &info);
}

int64_t lapack_qr_work(Lapack l, int64_t rows, int64_t cols) {
  QUERY;
  int m = (int)rows, n = (int)cols, k = m < n ? m : n, lda = at_least_one(rows);
  CALL(geqrf, &m, &n, (void *)work, &lda, (void *)work, (void *)work, &count, &info);
  int64_t factors = count_of(l, work);
  CALL(orgqr, &m, &k, &k, (void *)work, &lda, (void *)work, (void *)work, &count, &info);
  int64_t columns = count_of(l, work);
  return factors > columns ? factors : columns;
}

void lapack_qr(Lapack l, int64_t rows, int64_t cols, void *a, void *tau, void *work,
               int64_t work_count) {
  int m = (int)rows, n = (int)cols, lda = at_least_one(rows), count = (int)work_count, info = 0;
  CALL(geqrf, &m, &n, a, &lda, tau, work, &count, &info);
}

void lapack_q_of(Lapack l, int64_t rows, int64_t reflections, void *a, const void *tau, void *work,
                 int64_t work_count) {
  int m = (int)rows, k = (int)reflections, lda = at_least_one(rows), count = (int)work_count;
  int info = 0;
  CALL(orgqr, &m, &k, &k, a, &lda, tau, work, &count, &info);
}

int64_t lapack_svd_work(Lapack l, bool vectors, int64_t rows, int64_t cols) {
  QUERY;
  int m = (int)rows, n = (int)cols, lda = at_least_one(rows), whole = 0;
  int ldvt = at_least_one(rows < cols ? rows : cols);
  CALL(gesdd, vectors ? "S" : "N", &m, &n, (void *)work, &lda, (void *)work, (void *)work, &lda,
       (void *)work, &ldvt, (void *)work, &count, &whole, &info, 1);
  return count_of(l, work);
}

int lapack_svd(Lapack l, bool vectors, int64_t rows, int64_t cols, void *a, void *s, void *u,
               void *vt, void *work, int64_t work_count, int *whole) {
  int m = (int)rows, n = (int)cols, lda = at_least_one(rows), count = (int)work_count, info = 0;
  int ldvt = at_least_one(rows < cols ? rows : cols);
  CALL(gesdd, vectors ? "S" : "N", &m, &n, a, &lda, s, u, &lda, vt, &ldvt, work, &count, whole,
       &info, 1);
  return info;
}

int64_t lapack_eigh_work(Lapack l, int64_t extent, int64_t *whole_count) {
  QUERY;
  int n = (int)extent, lda = at_least_one(extent), whole = 0, none = -1;
  CALL(syevd, "V", "L", &n, (void *)work, &lda, (void *)work, (void *)work, &count, &whole, &none,
       &info, 1, 1);
  *whole_count = whole;
  return count_of(l, work);
}

int lapack_eigh(Lapack l, int64_t extent, void *a, void *w, void *work, int64_t work_count,
                int *whole, int64_t whole_count) {
  int n = (int)extent, lda = at_least_one(extent), count = (int)work_count;
  int count_whole = (int)whole_count, info = 0;
  CALL(syevd, "V", "L", &n, a, &lda, w, work, &count, whole, &count_whole, &info, 1, 1);
  return info;
}

int lapack_cholesky(Lapack l, int64_t extent, void *a) {
  int n = (int)extent, lda = at_least_one(extent), info = 0;
  CALL(potrf, "U", &n, a, &lda, &info, 1);
  return info;
}

/* The factor of products that has no effect. */
static const void *unit(Lapack l) {
  static const double wide = 1;
  static const float narrow = 1;
  return l.dtype == F64 ? (const void *)&wide : (const void *)&narrow;
}

void lapack_triangular(Lapack l, const Triangular *t, int64_t rows, int64_t cols, const void *a,
                       void *b) {
  int m = (int)rows, n = (int)cols, lda = at_least_one(t->a_apart), ldb = at_least_one(rows);
  const char *side = t->right ? "R" : "L", *triangle = t->upper ? "U" : "L";
  const char *turn = t->turned ? "T" : "N";
  CALL(trsm, side, triangle, turn, "N", &m, &n, unit(l), a, &lda, b, &ldb, 1, 1, 1, 1);
}

void lapack_product(Lapack l, bool turn_a, bool turn_b, int64_t rows, int64_t cols, int64_t terms,
                    const void *a, const void *b, void *c) {
  int m = (int)rows, n = (int)cols, k = (int)terms;
  int lda = at_least_one(turn_a ? terms : rows), ldb = at_least_one(turn_b ? cols : terms);
  int ldc = at_least_one(rows);
  const void *keep = &(double){0};
  CALL(gemm, turn_a ? "T" : "N", turn_b ? "T" : "N", &m, &n, &k, unit(l), a, &lda, b, &ldb, keep, c,
       &ldc, 1, 1);
}
