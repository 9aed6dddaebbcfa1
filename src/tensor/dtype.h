/* The table of element types. */
#ifndef IPULUA_TENSOR_DTYPE_H
#define IPULUA_TENSOR_DTYPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t f16;  /* IEEE binary16, as bits */
typedef uint16_t bf16; /* the upper half of a binary32, as bits */

/* id, name in Lua, C type, class, NumPy descr, safetensors name. The one list of dtypes. */
/* clang-format off */
#define DTYPES(X)                                               \
  X(F32, "float32", float, DTYPE_FLOAT, "<f4", "F32")           \
  X(F64, "float64", double, DTYPE_FLOAT, "<f8", "F64")          \
  X(F16, "float16", f16, DTYPE_FLOAT, "<f2", "F16")             \
  X(BF16, "bfloat16", bf16, DTYPE_FLOAT, NULL, "BF16")          \
  X(I8, "int8", int8_t, DTYPE_INTEGER, "|i1", "I8")             \
  X(U8, "uint8", uint8_t, DTYPE_INTEGER, "|u1", "U8")           \
  X(I32, "int32", int32_t, DTYPE_INTEGER, "<i4", "I32")         \
  X(I64, "int64", int64_t, DTYPE_INTEGER, "<i8", "I64")         \
  X(BOOL, "bool", uint8_t, DTYPE_BOOL, "|b1", "BOOL")
/* clang-format on */

#define X(id, name, ctype, class, numpy, safetensors) id,
typedef enum Dtype { DTYPES(X) DTYPE_COUNT } Dtype;
#undef X
typedef enum DtypeClass { DTYPE_FLOAT, DTYPE_INTEGER, DTYPE_BOOL } DtypeClass;

typedef struct DtypeInfo {
  const char *name;
  size_t size; /* bytes */
  DtypeClass class;
  const char *numpy, *safetensors;
} DtypeInfo;
extern const DtypeInfo dtype_info[DTYPE_COUNT];

static inline const char *dtype_name(Dtype d) { return dtype_info[d].name; }
static inline size_t dtype_size(Dtype d) { return dtype_info[d].size; }
static inline bool dtype_is_float(Dtype d) { return dtype_info[d].class == DTYPE_FLOAT; }
static inline bool dtype_is_integer(Dtype d) { return dtype_info[d].class == DTYPE_INTEGER; }
static inline bool dtype_is_narrow(Dtype d) { return d == F16 || d == BF16; }
/* The dtype that elements are computed in: float32 for narrower floats. */
static inline Dtype dtype_to_compute(Dtype d) { return dtype_is_narrow(d) ? F32 : d; }
bool dtype_find(const char *name, Dtype *out); /* by Lua name */

float f16_to_f32(f16 h);
f16 f32_to_f16(float f); /* nearest even; beyond 65504: infinity, as IEEE says */
static inline float bf16_to_f32(bf16 b) {
  uint32_t bits = (uint32_t)b << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
bf16 f32_to_bf16(float f); /* nearest even */

/* One element as a double, and back by a cast. float → integer truncates towards zero and
 * saturates; a NaN becomes the smallest int32 or int64. int8 and uint8 take the low bits of that
 * int32, as integer → integer does. Any type → bool is x != 0. */
double dtype_get(Dtype d, const void *data, int64_t index);
void dtype_set(Dtype d, void *data, int64_t index, double value);
/* Exact for int64 beyond 2^53, where doubles are not. */
int64_t dtype_get_integer(Dtype d, const void *data, int64_t index);
void dtype_set_integer(Dtype d, void *data, int64_t index, int64_t value);
#endif
