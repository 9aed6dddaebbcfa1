#include "tensor/combine.h"

static void add_f32(const void *const *from, int64_t elements, int count, bool mean, float *out) {
  for (int64_t i = 0; i < elements; i++) {
    float sum = ((const float *)from[0])[i];
    for (int k = 1; k < count; k++) sum += ((const float *)from[k])[i];
    out[i] = mean ? sum / (float)count : sum;
  }
}

static void add_f64(const void *const *from, int64_t elements, int count, bool mean, double *out) {
  for (int64_t i = 0; i < elements; i++) {
    double sum = ((const double *)from[0])[i];
    for (int k = 1; k < count; k++) sum += ((const double *)from[k])[i];
    out[i] = mean ? sum / count : sum;
  }
}

static void add_narrow(Dtype d, const void *const *from, int64_t elements, int count, bool mean,
                       void *out) {
  for (int64_t i = 0; i < elements; i++) {
    float sum = (float)dtype_get(d, from[0], i);
    for (int k = 1; k < count; k++) sum += (float)dtype_get(d, from[k], i);
    dtype_set(d, out, i, mean ? sum / (float)count : sum);
  }
}

static void add_integer(Dtype d, const void *const *from, int64_t elements, int count, bool mean,
                        void *out) {
  for (int64_t i = 0; i < elements; i++) {
    uint64_t sum = 0; /* wraps */
    for (int k = 0; k < count; k++) sum += (uint64_t)dtype_get_integer(d, from[k], i);
    dtype_set_integer(d, out, i, mean ? (int64_t)sum / count : (int64_t)sum);
  }
}

void tensor_combine(const Type *t, const void *const *from, int count, bool mean, void *out) {
  int64_t elements = type_count(t);
  if (t->dtype == F32) add_f32(from, elements, count, mean, out);
  else if (t->dtype == F64) add_f64(from, elements, count, mean, out);
  else if (dtype_is_float(t->dtype)) add_narrow(t->dtype, from, elements, count, mean, out);
  else add_integer(t->dtype, from, elements, count, mean, out);
}
