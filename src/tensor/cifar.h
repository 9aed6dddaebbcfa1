#ifndef IPULUA_TENSOR_CIFAR_H
#define IPULUA_TENSOR_CIFAR_H
#include "tensor/tensor.h"
/* The binary files of CIFAR-10 (classes = 10) and CIFAR-100 (100), gzipped or not. images is uint8
 * [n, 32, 32, 3], labels uint8 [n]. coarse is uint8 [n], the superclasses (0 to 19) of CIFAR-100,
 * and NULL for CIFAR-10. The caller releases them. */
Status cifar_read(Error *e, const char *path, int classes, Tensor **images, Tensor **labels,
                  Tensor **coarse);
Status cifar_parse(Error *e, const char *path, int classes, const void *data, size_t bytes,
                   Tensor **images, Tensor **labels, Tensor **coarse);
#endif
