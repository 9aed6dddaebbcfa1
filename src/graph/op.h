/* OpDef, the row that defines an op. Every computation is an op, and an op is one row in one file
 * of src/ops. */
#ifndef IPULUA_GRAPH_OP_H
#define IPULUA_GRAPH_OP_H
#include "base/pool.h"
#include "base/rng.h"
#include "graph/object.h"
#include "kernels/chain.h"
#include "kernels/kernels.h"
#include "kernels/numerics.h"
#include "target/band.h"
#include "target/vector.h"
#include "tensor/tensor.h"

typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Value Value;
typedef struct OpDef OpDef;
struct Target;
struct Cost;
struct FarMeeting;

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 8, MAX_ATTRS = 12 };

/* ---- attributes: an op's arguments besides tensors ---- */
typedef enum AttrKind {
  ATTR_NONE,
  ATTR_INT,
  ATTR_FLOAT,
  ATTR_BOOL,
  ATTR_STRING, /* one of AttrDef.choices when those are given; letter case is free in Lua */
  /* A list. A single integer is taken as a list of one, which isn't `listed`. Nested lists are
   * flattened, and false is INT64_MIN. */
  ATTR_INTS,
  ATTR_DTYPE,
  ATTR_TENSOR, /* a constant */
  ATTR_GRAPH,  /* a region: the body of a loop, a branch */
  ATTR_OBJECT, /* a reference-counted object that the op uses: a queue, a host function */
} AttrKind;

typedef struct Attr {
  AttrKind kind; /* ATTR_NONE: not given, and no default */
  union {
    int64_t i; /* ATTR_INT, ATTR_BOOL, ATTR_DTYPE */
    double f;
    const char *s;
    struct {
      const int64_t *v;
      int n;
      bool listed; /* written as a list: split tells a list of one from a number */
    } ints;
    Tensor *tensor;
    Graph *graph;
    Object *object;
  };
} Attr;

typedef struct AttrDef {
  const char *name;
  AttrKind kind;
  /* The default as a Lua literal: "-1", "false", "'VALID'", "nil" (optional); NULL: required. */
  const char *fallback;
  const char *choices; /* ATTR_STRING: "VALID SAME CAUSAL" */
  const char *summary;
} AttrDef;

/* ---- evaluation ---- */

/* One evaluation. Buffers are dense and row-major. An output may share the buffer of input k only
 * if the row says IN_PLACE(k). Nothing in eval allocates: it uses the scratch that OpDef.scratch
 * asked for. */
typedef struct Call {
  const void *const *in; /* [in_count] */
  void *const *out;      /* [out_count] */
  const Type *const *in_type, *const *out_type;
  const Node *node;
  const Attr *attr; /* node->attr */
  int in_count, out_count;
  int replica; /* its replica; 0 outside of replicated programs */
  const Kernels *kernels;
  Pool *pool; /* parallel loops with chunks fixed by shapes; NULL: none */
  const Numerics *numerics;
  void *scratch; /* 64-byte aligned */
  RngKey rng;    /* for rounding and for ops with the RANDOM trait */
  Error *error;
  const char *source;
} Call;

/* ---- traits ---- */
enum {
  ELEMENTWISE = 1 << 0, /* has strip: fuses into chains; operands broadcast */
  COMMUTATIVE = 1 << 1,
  STATEFUL = 1 << 2,    /* has an effect: kept, in trace order, never merged */
  RANDOM = 1 << 3,      /* the last input is its int64 step counter, a rank-0 tensor */
  VIEW = 1 << 4,        /* output 0 is input 0's bytes under another shape: costs nothing */
  VARIADIC = 1 << 5,    /* in Lua the first argument is a list of tensors; inputs[0] names it */
  INTERNAL = 1 << 6,    /* not a function of the Lua interface */
  CONTROL = 1 << 7,     /* holds regions, described by the row's `control` (control.h) */
  NO_GRADIENT = 1 << 8, /* gradients stop here, by nature (comparisons, argmax) */
  METHOD_ONLY = 1 << 9,
  /* replicas may get different values, or compute them together, so it is never computed while
   * tracing */
  PER_REPLICA = 1 << 10,
  /* input 0 is a condition: Lua values for it become bool, and don't decide the dtype of numbers
   * beside it */
  SELECTS = 1 << 11,
  /* has a meaning for gradients only: programs read the value that simplify returns */
  MARKER = 1 << 13,
  ACROSS = 1 << 15,        /* a collective of the replicas of all instances (dist/instances.h) */
  HALF_OF_BYTES = 1 << 12, /* bytes become float16, and so do Lua numbers beside them */
  OBSERVES = 1 << 14,      /* may read variables besides its operands (observe.h) */
};
#define IN_PLACE(k) (1 << (16 + (k))) /* k < 8: output 0 may be written over input k */
#define INDICES(k) \
  (1 << (24 +      \
         (k))) /* k < 7: input k holds positions or counts; Lua numbers given for it are int32 */
#define INDEX_INPUTS 7

/* Facts about an op that other files need. */

/* Operations of several replicas. */
typedef enum Collective {
  COLLECTIVE_NONE,
  COLLECTIVE_SUM, /* of all, or of groups if attribute 0 is given */
  COLLECTIVE_MEAN,
  COLLECTIVE_GATHER, /* all get the values of all */
  COLLECTIVE_SCATTER,
  COLLECTIVE_EXCHANGE,
} Collective;
/* Transfers between tiles and other memory. */
typedef enum Traffic {
  TRAFFIC_NONE,
  TRAFFIC_DEQUEUE,
  TRAFFIC_ENQUEUE,
  TRAFFIC_HOST, /* a function on the host: both ways */
  TRAFFIC_LOAD, /* streaming memory */
  TRAFFIC_STORE,
} Traffic;
/* The layout of a result's elements on the tiles. */
typedef enum Layout {
  LAYOUT_KEPT,
  LAYOUT_SPREAD,  /* input 0, repeated: readers may read input 0 instead */
  LAYOUT_ORDER,   /* input 0, its axes in another order */
  LAYOUT_CHOSEN,  /* operands are moved into layouts of its own */
  LAYOUT_PRODUCT, /* of matrices, transposed by attributes 0 and 1: may be fused with its reader */
} Layout;
/* The value of all elements of a result. */
typedef enum Filling { FILL_NONE, FILL_ZEROS, FILL_ONES } Filling;

struct OpDef {
  const char *name;    /* "add", "nn.relu": its name under ipu */
  const char *method;  /* its name as a method of tensors, x:sum(); NULL: none */
  const char *summary; /* a sentence, for reference and help() */
  const char *shapes;  /* "[m, k], [k, n] → [m, n]" for the reference */
  const char *source;  /* the source of the formula, where it is not evident */
  /* names; a final "?" means optional, and "mask?" also bool */
  const char *inputs[MAX_INPUTS];
  AttrDef attrs[MAX_ATTRS];
  int traits;
  int outputs;         /* 0 means 1; -1: as many as infer sets */
  int visible_outputs; /* how many Lua sees; 0: all */

  /* Input types → n->out[i].type (and n->out_count when outputs is -1). May normalise n->attr
   * (axes). Messages are in the user's terms, without the op's name: graph_apply puts it in
   * front. */
  Status (*infer)(Error *e, Node *n);
  Status (*eval)(const Call *c);
  /* Evaluates the calls of all replicas, in order; eval evaluates a single replica's. NULL: each
   * replica evaluates its own call. */
  Status (*eval_collective)(const Call *const *replica, int count);
  /* ACROSS: eval_collective gets the inputs of other instances' replicas, whose out[i] is NULL. If
   * eval_collective_far exists, it evaluates large values without these inputs. It gets the `count`
   * replicas of this instance, out of `all`. */
  Status (*eval_collective_far)(const Call *const *replica, int count, int all,
                                const struct FarMeeting *far);
  /* Elements [begin, begin + n) of the result that eval_collective gives for float32 operands
   * without groups. NULL: they can't be made part by part. */
  void (*collective_part)(const Call *const *replica, int count, int64_t begin, int64_t n,
                          float *to);
  size_t (*scratch)(const Node *n); /* bytes; NULL: none */
  /* ELEMENTWISE: the kernel and its parameters. */
  void (*strip)(const Node *n, Elementwise *kernel, double p[4]);
  /* A value that equals output 0 bit for bit, for all values of the operands, or NULL. It may also
   * replace n's op and operands by equal ones. NULL: there are no simplifications. */
  Value *(*simplify)(Node *n);
  /* Build dx[i] = gradient of input i from dy[j] (NULL where output j has none). Leave dx[i]
   * NULL for no gradient. */
  void (*grad)(Graph *g, const Node *n, Value *const *dy, Value **dx);
  /* Builds a fused op's outputs from ops that all have gradients. Autodiff differentiates these if
   * there is no grad, or if a hidden output has a gradient. NULL: none. */
  void (*compose)(Graph *g, const Node *n, Value **out);
  /* Whether it is a value of the variable that the gradients are by: tapes that began later have
   * it, too. NULL: it never is. */
  bool (*is_source)(const Graph *g, const Node *n);
  void (*cost)(const struct Target *t, const Node *n, struct Cost *cost);
  VectorCycles cycles; /* of one pass; in every ELEMENTWISE row */
  CostFamily family;   /* the family of published rows that gives the price's error */
  Collective collective;
  Traffic traffic;
  bool by_slot; /* of a LOAD or STORE: one slot of a tensor of several */
  Layout layout;
  Filling fill;
  int form;       /* its number among the rows of its file, which alone uses it */
  bool keeps;     /* its result is kept when a pipeline stage is recomputed */
  bool infinite;  /* an infinity that it makes of finite operands is a value, no overflow */
  int value_from; /* the operand that it equals, if that was computed from input 0; 0: none */
  const struct ControlRule *control; /* CONTROL: the inputs and outputs of its regions */
  /* Cases for the sweeps, with attributes in Lua syntax: "F[2,3] F[3,4] {transpose_b = true} | F[3]
   * ...". F is any float, P a positive one, U one in (-0.9, 0.9), D distinct ones, and H a float32
   * in every case. M is a symmetric positive definite matrix, W another one with a dominant
   * diagonal. I<k> is an integer below k, S<k> sorted ones, and B a bool. The counter of RANDOM
   * rows is left out. */
  const char *sample;
};

/* One-node evaluation outside of programs: types are n's, data is dense. */
Status op_eval(const OpDef *op, const Call *c);

/* Traps of an op outside of chains, which op_eval has. An event makes a NaN of operands that hold
 * none, or an infinity of finite ones. op_given says what operands hold, before the op may write
 * over them. op_trap fails if the results show an event that traps. */
int op_given(const Call *c);
Status op_trap(const Call *c, int given);
#endif
