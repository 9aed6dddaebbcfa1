/* The interface between libipulua.so and ipulua/core.so. Each holds a copy of the archive, so no
 * symbol may be shared. core.so gives out one table of functions. Tensors cross as plain memory
 * with a function that lets go of it. Both are built from one source; the version says so. */
#ifndef IPULUA_API_BRIDGE_H
#define IPULUA_API_BRIDGE_H
#include "tensor/type.h"

enum { BRIDGE_VERSION = 1 };
#define BRIDGE_SYMBOL "ipulua_bridge"

typedef struct BridgeTensor {
  Type type;
  void *data;                   /* dense */
  void *owner;                  /* lives until release(owner) */
  void (*release)(void *owner); /* from any thread */
} BridgeTensor;

/* A call of a function of ipulua/tools/embed.lua. */
typedef struct BridgeCall {
  const char *function;
  int64_t object;         /* which model; 0: none */
  const char *text;       /* JSON, a path, code … */
  const BridgeTensor *in; /* taken over, also when the call fails */
  int in_count, x_count;  /* the first x_count are inputs, the others targets */
  /* results */
  char *out_text; /* malloc'ed, or NULL */
  int64_t out_object;
  BridgeTensor *out; /* malloc'ed list; its tensors are the caller's to release */
  int out_count;
} BridgeCall;

typedef struct Bridge {
  int version;
  /* A new Lua state; lua_folder is where ipulua/init.lua is, "" to leave package.path alone. */
  void *(*open)(Error *e, const char *lua_folder, int threads, uint64_t seed);
  void (*close)(void *state);
  Status (*call)(Error *e, void *state, BridgeCall *c);
} Bridge;
#endif
