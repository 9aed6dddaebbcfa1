/* NumPy's print form. */
#ifndef IPULUA_TENSOR_PRINT_H
#define IPULUA_TENSOR_PRINT_H
#include "tensor/tensor.h"

/* print(t) of NumPy: [[1. 2.]\n [3. 4.]]; precision 8, threshold 1000, edge items 3, width 75,
 * floats in the shortest form that reads back in their dtype, exponents as NumPy chooses them.
 * NULL on failure; free() it. */
char *tensor_text(Error *e, const Tensor *t);
/* The prompt's form: tensor([[1., 2.], [3., 4.]], dtype=float32), separators ", ", lines
 * indented by 7. */
char *tensor_repr(Error *e, const Tensor *t);
#endif
