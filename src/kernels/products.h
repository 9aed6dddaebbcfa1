/* Which product goes where: to our own kernels or to OpenBLAS, by what was measured; and OpenBLAS
 * in the form of our own. A product's chunks, and with them its bits, depend on its extents, its
 * strides and the choice of the process alone. */
#ifndef IPULUA_KERNELS_PRODUCTS_H
#define IPULUA_KERNELS_PRODUCTS_H
#include "kernels/kernels.h"

/* As Kernels' gemm_plan …, by the choice; the plan is handed to the other three. */
GemmPlan product_plan(const Kernels *k, Dtype d, const Gemm *g);
void product_pack(const Kernels *k, const GemmPlan *p, Dtype d, const Gemm *g, int64_t chunk);
void product_chunk(const Kernels *k, const GemmPlan *p, Dtype d, const Gemm *g, int64_t chunk,
                   int slot);
void product_finish(const Kernels *k, const GemmPlan *p, Dtype d, const Gemm *g, int64_t chunk,
                    int slot);

/* The use that "own" or "openblas" asks for; NULL or "": by the table. False: none of them. */
bool products_use(const char *name, ProductUse *use);
#define PRODUCTS_VARIABLE "IPULUA_BLAS"
#define PRODUCTS_WORDS PRODUCTS_VARIABLE " must be own or openblas, got '%.40s'"
/* What a process's products are computed with, for people and for processes that must agree on it:
 * "own kernels", "OpenBLAS 0.3.21 (Haswell) where it is faster". */
enum { PRODUCTS_TEXT = 96 };
const char *products_text(const Kernels *k, char text[PRODUCTS_TEXT]);
#endif
