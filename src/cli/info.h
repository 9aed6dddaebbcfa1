/* `ipulua info`: version, features, CPU kernels, on standard output. */
#ifndef IPULUA_CLI_INFO_H
#define IPULUA_CLI_INFO_H
void info_print(void);
#endif
