/* `ipulua info`: version, features, CPU kernels, on standard output. */
#ifndef IPULUA_CLI_INFO_H
#define IPULUA_CLI_INFO_H
#include <stdbool.h>

/* environment: whether it is asked which kernels are wanted. */
void info_print(bool environment);
#endif
