/* NumPy's print form. */
#ifndef IPULUA_TENSOR_PRINT_H
#define IPULUA_TENSOR_PRINT_H
#include "tensor/tensor.h"

typedef struct PrintOptions {
  int edge;          /* elements shown at each end of an axis of a large tensor */
  int precision;     /* digits behind the point at most; scalars have all */
  int64_t threshold; /* tensors of more elements show their edges only */
} PrintOptions;
extern const PrintOptions print_defaults; /* 3, 8, 1000 */

/* print(t) of NumPy: [[1. 2.]\n [3. 4.]]; width 75, floats in the shortest form that reads back in
 * their dtype, exponents as NumPy chooses them. NULL on failure; free() it. */
char *tensor_text(Error *e, const Tensor *t, const PrintOptions *o);
/* The prompt's form: tensor([[1., 2.], [3., 4.]], dtype=float32), separators ", ", lines
 * indented by 7. */
char *tensor_repr(Error *e, const Tensor *t, const PrintOptions *o);
#endif
