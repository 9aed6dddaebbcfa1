/* Chooses between our own kernels and OpenBLAS for each product, by measurements, and gives both
 * the same interface. A product's chunks, and so its bits, depend only on its extents, its strides
 * and the process's choice. */
#ifndef IPULUA_KERNELS_PRODUCTS_H
#define IPULUA_KERNELS_PRODUCTS_H
#include "kernels/kernels.h"

/* gemm_plan and its kin of the chosen library. The other three take the plan. */
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
/* The process's choice as a text: "own kernels", "OpenBLAS 0.3.21 (Haswell) where it is faster".
 * Processes of one job compare it. */
enum { PRODUCTS_TEXT = 96 };
const char *products_text(const Kernels *k, char text[PRODUCTS_TEXT]);
#endif
