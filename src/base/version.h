/* The version, defined only here. */
#ifndef IPULUA_BASE_VERSION_H
#define IPULUA_BASE_VERSION_H
#define IPULUA_VERSION "0.1.0"
#endif
