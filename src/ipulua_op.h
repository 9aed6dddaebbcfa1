/* Ops in C: what a shared object has to export so that ipu.load_op_library(path) gives its ops.
 * Plain C, no library to link: everything that an op asks of ipulua goes through the IpuHost that
 * it is handed.
 *
 *   static int infer(const IpuHost *h, IpuNode *n) {
 *     return h->set_output(n, 0, h->input_type(n, 0));
 *   }
 *   static int eval(const IpuHost *h, const IpuCall *c) {
 *     … read c->in[0], write c->out[0] …
 *     return 0;
 *   }
 *   static const IpuOp ops[] = {
 *     {.name = "twice", .inputs = {"x"}, .infer = infer, .eval = eval}, {0}};
 *   const IpuOpLibrary *ipulua_op_library(const IpuHost *host) {
 *     static const IpuOpLibrary library = {IPU_OP_ABI, sizeof(IpuOp), ops};
 *     return host->abi == IPU_OP_ABI ? &library : 0;
 *   }
 *
 *   cc -shared -fPIC -I<include folder> -o twice.so twice.c
 *
 * Functions that return int return 0, or what host->fail returned. They may be called from several
 * threads at once, and must give the same bits whatever the number of threads is. */
#ifndef IPULUA_OP_H
#define IPULUA_OP_H
#include <stddef.h>
#include <stdint.h>

enum { IPU_OP_ABI = 1, IPU_OP_RANK = 8, IPU_OP_INPUTS = 8, IPU_OP_ATTRIBUTES = 12 };

typedef enum IpuDtype {
  IPU_FLOAT32,
  IPU_FLOAT64,
  IPU_FLOAT16,
  IPU_BFLOAT16,
  IPU_INT8,
  IPU_UINT8,
  IPU_INT32,
  IPU_INT64,
  IPU_BOOL
} IpuDtype;

typedef struct IpuType {
  int dtype; /* an IpuDtype */
  int rank;
  int64_t shape[IPU_OP_RANK];
} IpuType;

typedef struct IpuNode IpuNode;   /* one use of an op: operands, attributes, results */
typedef struct IpuValue IpuValue; /* a tensor in a graph that is being built */
typedef struct IpuGraph IpuGraph;

/* An argument that is no tensor. */
typedef enum IpuKind {
  IPU_ATTR_NONE,
  IPU_ATTR_INT,
  IPU_ATTR_FLOAT,
  IPU_ATTR_BOOL,
  IPU_ATTR_STRING,
  IPU_ATTR_INTS,
  IPU_ATTR_DTYPE
} IpuKind;
typedef struct IpuAttribute {
  const char *name;
  int kind; /* an IpuKind */
  /* The default as a Lua literal: "0.5", "true", "'SAME'", "{1, 1}". "nil": none. NULL:
   * required. */
  const char *fallback;
} IpuAttribute;

/* One evaluation: dense row-major buffers. */
typedef struct IpuCall {
  const void *const *in;
  void *const *out;
  const IpuType *const *in_type, *const *out_type;
  int in_count, out_count;
  void *scratch; /* as many bytes as IpuOp.scratch asked for, 64-byte aligned */
  const IpuNode *node;
} IpuCall;

/* The cost of one step on an IPU's busiest tile. */
typedef struct IpuTile {
  double tiles, workers; /* of the chip; threads of a tile */
} IpuTile;
typedef struct IpuCost {
  double compute_cycles; /* of the slowest worker */
  double exchange_bytes; /* received from other tiles */
  double temporary_bytes;
} IpuCost;

typedef struct IpuHost {
  int abi;
  /* of nodes */
  int (*input_count)(const IpuNode *n);
  const IpuType *(*input_type)(const IpuNode *n, int input); /* NULL: there is none */
  const IpuType *(*output_type)(const IpuNode *n, int output);
  int (*set_output)(IpuNode *n, int output, const IpuType *type); /* in infer */
  int64_t (*get_int)(const IpuNode *n, int attribute);            /* INT, BOOL, DTYPE */
  double (*get_float)(const IpuNode *n, int attribute);
  const char *(*get_string)(const IpuNode *n, int attribute); /* NULL: not given */
  /* how many; -1: not given */
  int (*get_ints)(const IpuNode *n, int attribute, const int64_t **list);
  /* in the user's words, without the op's name */
  int (*fail)(const IpuNode *n, const char *message);
  /* of types */
  int64_t (*count)(const IpuType *type); /* elements */
  size_t (*bytes)(const IpuType *type);
  /* In eval: body(context, begin, end) over 0 … count in pieces of grain, side by side. */
  void (*parallel)(const IpuCall *c, int64_t count, int64_t grain,
                   void (*body)(void *context, int64_t begin, int64_t end), void *context);
  /* In grad: building nodes. After a failure all give NULL; nothing has to be checked. */
  IpuValue *(*input)(const IpuNode *n, int input);
  IpuValue *(*output)(const IpuNode *n, int output);
  const IpuType *(*type)(const IpuValue *v);
  IpuValue *(*number)(IpuGraph *g, int dtype, double value);
  /* Applies an op of ipulua ("mul", "nn.relu", "reduce_sum") or of this library. attributes is a
   * Lua table as text, or NULL: "{axis = 1}". It has numbers, booleans, strings and lists of
   * integers. */
  IpuValue *(*apply)(IpuGraph *g, const char *op, IpuValue *const *in, int in_count,
                     const char *attributes);
} IpuHost;

typedef struct IpuOp {
  const char *name, *summary, *shapes;
  /* Names; a trailing '?' marks an optional one. Lua numbers for an input become the dtype of a
   * tensor beside it. They become int32 if its name begins with ind, ids, label or segment, or
   * contains "length". */
  const char *inputs[IPU_OP_INPUTS];
  IpuAttribute attributes[IPU_OP_ATTRIBUTES];
  int outputs;                                /* 0 means 1; at most 8 */
  int (*infer)(const IpuHost *h, IpuNode *n); /* sets the type of each output */
  int (*eval)(const IpuHost *h, const IpuCall *c);
  size_t (*scratch)(const IpuHost *h, const IpuNode *n); /* NULL: none */
  /* dx[i]: the gradient of input i, or left NULL. dy[j] is NULL where output j has none. NULL:
   * no gradient. */
  int (*grad)(const IpuHost *h, IpuGraph *g, const IpuNode *n, IpuValue *const *dy, IpuValue **dx);
  /* NULL, and numbers that are negative or not finite: a pass over output 0 */
  void (*cost)(const IpuHost *h, const IpuNode *n, const IpuTile *tile, IpuCost *cost);
} IpuOp;

typedef struct IpuOpLibrary {
  int abi;          /* IPU_OP_ABI */
  size_t op_bytes;  /* sizeof(IpuOp) */
  const IpuOp *ops; /* the last one has no name */
} IpuOpLibrary;

/* The function that a library exports. NULL: it refuses this host. */
const IpuOpLibrary *ipulua_op_library(const IpuHost *host);
#endif
