/* NumPy's print form. */
#ifndef IPULUA_TENSOR_PRINT_H
#define IPULUA_TENSOR_PRINT_H
#include "tensor/tensor.h"

typedef struct PrintOptions {
  int edge;          /* elements shown at each end of an axis of a large tensor */
  int precision;     /* maximum of digits after the point; scalars have all */
  int64_t threshold; /* tensors of more elements show their edges only */
} PrintOptions;
extern const PrintOptions print_defaults; /* 3, 8, 1000 */

/* The text of NumPy's print(t): [[1. 2.] [3. 4.]]. Lines have 75 columns. Floats have the shortest
 * form that reads back in their dtype, with NumPy's choice of exponents. The caller frees it; NULL
 * on failure. */
char *tensor_text(Error *e, const Tensor *t, const PrintOptions *o);
/* The prompt's form: tensor([[1., 2.], [3., 4.]], dtype=float32), separators ", ", lines
 * indented by 7. */
char *tensor_repr(Error *e, const Tensor *t, const PrintOptions *o);
#endif
